package entity

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/greenroom-go/greenroom/entity/value"
)

// Section is one of the documents of attributes that an entity has. The numbers
// are part of the stored format.
type Section uint8

// The sections. The difference between Desired and Reported is the delta: the keys that a device
// has yet to apply.
const (
	Attributes Section = 1 // what the server holds about the entity
	Desired    Section = 2 // what the device should be
	Reported   Section = 3 // what the device says it is
)

// sections lists all sections, in order.
var sections = [...]Section{Attributes, Desired, Reported}

// String returns the name of the section in lower case.
func (s Section) String() string {
	switch s {
	case Attributes:
		return "attributes"
	case Desired:
		return "desired"
	case Reported:
		return "reported"
	default:
		return "none"
	}
}

// ParseSection returns the section of this name, or an error that wraps
// ErrInvalid and lists them.
func ParseSection(name string) (Section, error) {
	for _, s := range sections {
		if s.String() == name {
			return s, nil
		}
	}
	return 0, fmt.Errorf("section %q: %w: there are attributes, desired and reported", name, ErrInvalid)
}

// Attribute is one leaf of a section: a scalar, an array (which is one value, as in a merge patch)
// or an empty object. The objects that enclose a leaf exist only through it.
type Attribute struct {
	// Path is the JSON pointer of the leaf within its section (RFC 6901):
	// "/location/floor".
	Path string
	// TS is when this leaf was last set, in milliseconds since the epoch.
	TS    int64
	Value value.Value
}

// Pointer returns the JSON pointer made of the member names, escaping them: Pointer("location",
// "a/b") is "/location/a~1b".
func Pointer(names ...string) string {
	var b strings.Builder
	for _, name := range names {
		b.WriteByte('/')
		b.WriteString(escapeMember(name))
	}
	return b.String()
}

var (
	memberEscaper   = strings.NewReplacer("~", "~0", "/", "~1")
	memberUnescaper = strings.NewReplacer("~1", "/", "~0", "~")
)

func escapeMember(name string) string {
	if !strings.ContainsAny(name, "~/") {
		return name
	}
	return memberEscaper.Replace(name)
}

// Member returns the top-level member of the section that the attribute is or is inside of, and
// whether it is inside: "location", true for "/location/floor".
func (a *Attribute) Member() (name string, deeper bool) {
	name, _, deeper = strings.Cut(strings.TrimPrefix(a.Path, "/"), "/")
	return unescapeMember(name), deeper
}

func unescapeMember(token string) string {
	if !strings.Contains(token, "~") {
		return token
	}
	return memberUnescaper.Replace(token)
}

// checkPointer returns an error if path cannot be the path of an attribute.
func checkPointer(path string) error {
	switch {
	case path == "":
		return nil // the whole section
	case path[0] != '/':
		return fmt.Errorf("path %q: %w: a JSON pointer begins with '/'", brief(path), ErrInvalid)
	case len(path) > MaxPathBytes:
		return fmt.Errorf("path %.32q…: %w: %d bytes; at most %d are allowed", path, ErrInvalid, len(path), MaxPathBytes)
	case !utf8.ValidString(path):
		return fmt.Errorf("path %q: %w: not UTF-8", path, ErrInvalid)
	case strings.Count(path, "/") > MaxDepth:
		return fmt.Errorf("path %.64q: %w: deeper than %d", path, ErrInvalid, MaxDepth)
	}
	for i := 0; i < len(path); i++ {
		if path[i] == '~' && (i+1 == len(path) || path[i+1] != '0' && path[i+1] != '1') {
			return fmt.Errorf("path %q: %w: '~' is written ~0 and '/' ~1 in a name", brief(path), ErrInvalid)
		}
		if path[i] < ' ' || path[i] == 0x7f {
			return fmt.Errorf("path %q: %w: control character %U", brief(path), ErrInvalid, rune(path[i]))
		}
	}
	return nil
}

// section holds the leaves of one section, ordered by path. All entities share the strings of the
// paths.
type section []Attribute

// bytes returns the length of all paths and texts.
func (s section) bytes() (n int) {
	for i := range s {
		n += len(s[i].Path) + len(s[i].Value.Text())
	}
	return n
}

// find returns the index at which the leaf is or would be inserted, and whether it is there.
func (s section) find(path string) (int, bool) {
	return slices.BinarySearchFunc(s, path, func(a Attribute, path string) int { return strings.Compare(a.Path, path) })
}

// below returns the range of the leaves below an object, without the one at path itself. They are
// adjacent: what follows path in each begins with '/', and '0' is the byte after '/'.
func (s section) below(path string) (from, to int) {
	from, _ = s.find(path + "/")
	to, _ = s.find(path + "0")
	return from, to
}

// has reports whether there is a leaf or an object at path.
func (s section) has(path string) bool {
	if _, ok := s.find(path); ok {
		return true
	}
	from, to := s.below(path)
	return from < to
}
