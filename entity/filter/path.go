package filter

import (
	"strings"
	"unicode"

	"github.com/greenroom-go/greenroom/entity/value"
)

// Root is what a [Path] begins with.
type Root uint8

// The roots. ID and Type are strings, Created and Updated instants; the kinds of values at the
// others are known only when an entity is examined.
const (
	RootLatest     Root = iota // the latest value of a key of telemetry
	RootID                     // the entity's id
	RootType                   // the id of its type
	RootCreated                // when it was created
	RootUpdated                // the newest time of its readings
	RootAttributes             // what the server holds about it
	RootDesired                // what it should be
	RootReported               // what it says it is
	RootDelta                  // a leaf of desired that differs from the one of reported
	RootRelation               // a property of the relation that led to it
	RootPresence               // a member of [PresenceMembers], about its device
	RootSource                 // what a [Resolver] made of a name in an expression
)

var rootNames = [...]string{
	RootLatest: "", RootID: "id", RootType: "type", RootCreated: "created", RootUpdated: "updated",
	RootAttributes: "attributes", RootDesired: "desired", RootReported: "reported",
	RootDelta: "delta", RootRelation: "relation",
}

// presenceRoot begins the paths of [RootPresence]. Alone it is a key like any other, because many
// sensors have a key of this name.
const presenceRoot = "presence"

// Members of [RootPresence].
const (
	PresenceOnline    = "online"    // whether the device is online
	PresenceConnected = "connected" // whether it has a connection
	PresenceSince     = "since"     // since when it is online or offline
	PresenceSeen      = "seen"      // when it was last heard from
)

// PresenceMembers returns all members of [RootPresence].
func PresenceMembers() []string {
	return []string{PresenceOnline, PresenceConnected, PresenceSince, PresenceSeen}
}

// String returns the word that a filter has for the root, "" for RootLatest.
func (r Root) String() string {
	if int(r) < len(rootNames) {
		return rootNames[r]
	}
	return ""
}

// document reports whether names below the root are member names.
func (r Root) document() bool { return r >= RootAttributes && r <= RootRelation }

// kind returns the kind of all values at the root, 0 if it is known only later.
func (r Root) kind() value.Kind {
	switch r {
	case RootID, RootType:
		return value.KindString
	case RootCreated, RootUpdated:
		return value.KindTime
	default:
		return 0
	}
}

// Path names a part of an entity that a filter uses.
type Path struct {
	Root Root
	// Name is the key for RootLatest. For the roots that are documents it is a
	// JSON pointer (RFC 6901), "/location/floor", or "" for the whole document, and
	// for RootPresence a member. The other roots have none.
	Name string
	// Slot is what the resolve function of [Filter.Bind] returned for the path: whatever helps a
	// View to find the value without looking up a name. It is 0 before Bind.
	Slot int
}

// String returns the path as it is written in a filter: temperature, `a key`,
// attributes.location.floor.
func (p Path) String() string { return string(p.append(nil)) }

func (p Path) append(dst []byte) []byte {
	switch p.Root {
	case RootLatest:
		return appendKey(dst, p.Name)
	case RootSource:
		return append(dst, p.Name...)
	case RootPresence:
		return append(append(dst, presenceRoot+"."...), p.Name...)
	default:
	}
	dst = append(dst, p.Root.String()...)
	if !p.Root.document() || p.Name == "" {
		return dst
	}
	for token := range strings.SplitSeq(p.Name[1:], "/") {
		dst = append(dst, '.')
		dst = appendName(dst, memberUnescaper.Replace(token))
	}
	return dst
}

// appendKey writes a key, bare if it reads back as a key.
func appendKey(dst []byte, key string) []byte {
	bare := !strings.HasPrefix(strings.ToLower(key), presenceRoot+".")
	for i, name := 0, key; bare && name != ""; i++ {
		n := scanName(name)
		bare = n > 0 && (i > 0 || !isReserved(name[:n]))
		name = name[n:]
		if bare && name != "" {
			bare = name[0] == '.' && len(name) > 1
			name = name[1:]
		}
	}
	if bare && key != "" {
		return append(dst, key...)
	}
	return appendQuoted(dst, key)
}

// appendName writes the name of a member or of a type of relation.
func appendName(dst []byte, name string) []byte {
	if n := scanName(name); n > 0 && n == len(name) {
		return append(dst, name...)
	}
	return appendQuoted(dst, name)
}

// appendQuoted writes a name in backquotes; one in the name is doubled.
func appendQuoted(dst []byte, name string) []byte {
	dst = append(dst, '`')
	dst = append(dst, strings.ReplaceAll(name, "`", "``")...)
	return append(dst, '`')
}

// scanName returns the length of the name at the beginning of s: a letter or _,
// then letters, digits and _.
func scanName(s string) int {
	for i, r := range s {
		if r != '_' && !unicode.IsLetter(r) && (i == 0 || !unicode.IsDigit(r)) {
			return i
		}
	}
	return len(s)
}

// The escapes of RFC 6901.
var (
	memberEscaper   = strings.NewReplacer("~", "~0", "/", "~1")
	memberUnescaper = strings.NewReplacer("~1", "/", "~0", "~")
)
