package template

import (
	"fmt"
	"slices"
	"strings"

	"github.com/greenroom-go/greenroom/entity"
)

// pattern is a topic with placeholders, each of which matches one level.
type pattern struct {
	levels []level
}

// level is a level of a pattern: text, or a placeholder. A placeholder without a name matches any
// level and binds nothing.
type level struct {
	text, name  string
	placeholder bool
}

// anyLevel is a placeholder without a name in a template's topic.
const anyLevel = "+"

// parsePattern parses a topic of a template. Its errors continue the name of the member.
func parsePattern(text string) (pattern, error) {
	var p pattern
	if text == "" || len(text) > MaxTopicBytes {
		return p, fmt.Errorf("%w: must have 1 to %d bytes, not %d", entity.ErrInvalid, MaxTopicBytes, len(text))
	}
	if strings.HasPrefix(text, "$") {
		return p, fmt.Errorf("%w: must not begin with $, which the server and other conventions have", entity.ErrInvalid)
	}
	for part := range strings.SplitSeq(text, "/") {
		l, err := parseLevel(part)
		if err != nil {
			return p, err
		}
		if l.name != "" && slices.ContainsFunc(p.levels, func(o level) bool { return o.name == l.name }) {
			return p, fmt.Errorf("%w: the placeholder {%s} comes twice", entity.ErrInvalid, l.name)
		}
		p.levels = append(p.levels, l)
	}
	if len(p.levels) > MaxLevels {
		return p, fmt.Errorf("%w: %d levels; at most %d are allowed", entity.ErrInvalid, len(p.levels), MaxLevels)
	}
	return p, nil
}

func parseLevel(part string) (level, error) {
	if part == anyLevel {
		return level{placeholder: true}, nil
	}
	if inner, ok := strings.CutPrefix(part, "{"); ok {
		name, ok := strings.CutSuffix(inner, "}")
		if !ok || !isPlaceholder(name) {
			return level{}, fmt.Errorf("%w: the level %.64q must be a whole placeholder, as in tele/{id}/SENSOR, with a name of letters, digits and _", entity.ErrInvalid, part)
		}
		return level{name: name, placeholder: true}, nil
	}
	if strings.ContainsAny(part, "+#{}\x00") {
		return level{}, fmt.Errorf("%w: the level %.64q must be a text without + # { }, a placeholder {name}, or +", entity.ErrInvalid, part)
	}
	return level{text: part}, nil
}

// isPlaceholder reports whether name is a valid name of a placeholder.
func isPlaceholder(name string) bool {
	if name == "" || len(name) > maxPlaceholderBytes {
		return false
	}
	for _, c := range []byte(name) {
		if c != '_' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') {
			return false
		}
	}
	return true
}

// names returns the names of the placeholders.
func (p *pattern) names() (list []string) {
	for _, l := range p.levels {
		if l.name != "" {
			list = append(list, l.name)
		}
	}
	return list
}

// shape returns the pattern with all placeholders as +. Patterns of the same shape match the same
// topics.
func (p *pattern) shape() string {
	parts := make([]string, len(p.levels))
	for i, l := range p.levels {
		parts[i] = l.text
		if l.placeholder {
			parts[i] = anyLevel
		}
	}
	return strings.Join(parts, "/")
}

// bindings maps the names of placeholders to what they match.
type bindings map[string]string

// bind returns the bindings for a topic that the pattern matches.
func (p *pattern) bind(levels []string) bindings {
	b := bindings{}
	for i, l := range p.levels {
		if l.name != "" {
			b[l.name] = levels[i]
		}
	}
	return b
}

// coveredBy reports whether an MQTT filter matches topics of the pattern, and returns the bindings
// of the placeholders that the filter spells out.
func (p *pattern) coveredBy(filter []string) (known bindings, ok bool) {
	if !p.isCoveredBy(filter) {
		return nil, false
	}
	known = bindings{}
	for i, part := range filter {
		if i < len(p.levels) && part != "+" && part != "#" && p.levels[i].name != "" {
			known[p.levels[i].name] = part
		}
	}
	return known, true
}

// isCoveredBy is coveredBy without the bindings.
func (p *pattern) isCoveredBy(filter []string) bool {
	for i, part := range filter {
		switch {
		case part == "#":
			return i <= len(p.levels)
		case i == len(p.levels):
			return false
		case part != "+" && !p.levels[i].placeholder && p.levels[i].text != part:
			return false
		}
	}
	return len(filter) == len(p.levels)
}

// spelledBy reports whether a filter that covers the pattern spells out all of its texts, without a
// wildcard for any.
func (p *pattern) spelledBy(filter []string) bool {
	for i, l := range p.levels {
		if !l.placeholder && (i >= len(filter) || filter[i] != l.text) {
			return false
		}
	}
	return true
}

// text is a string with placeholders: an id, a key, or a topic to send to.
type text struct{ parts []part }

// part is literal text, or a placeholder.
type part struct {
	text, name string
}

// parseText parses a string whose placeholders must be among names. Its errors continue the name of
// the member.
func parseText(s string, names []string) (text, error) {
	var t text
	for s != "" {
		begin := strings.IndexByte(s, '{')
		if begin < 0 {
			t.parts = append(t.parts, part{text: s})
			break
		}
		if begin > 0 {
			t.parts = append(t.parts, part{text: s[:begin]})
		}
		name, rest, ok := strings.Cut(s[begin+1:], "}")
		if !ok || !isPlaceholder(name) {
			return t, fmt.Errorf("%w: %.64q must be a placeholder, such as {id}", entity.ErrInvalid, s[begin:])
		}
		if !slices.Contains(names, name) {
			return t, fmt.Errorf("%w: there is no placeholder {%s}; those that it may have are: {%s}", entity.ErrInvalid, name, strings.Join(names, "}, {"))
		}
		t.parts = append(t.parts, part{name: name})
		s = rest
	}
	return t, nil
}

// fill returns the text with its placeholders replaced.
func (t *text) fill(b bindings) string {
	if len(t.parts) == 1 && t.parts[0].name == "" {
		return t.parts[0].text
	}
	var s strings.Builder
	for _, p := range t.parts {
		if p.name == "" {
			s.WriteString(p.text)
		} else {
			s.WriteString(b[p.name])
		}
	}
	return s.String()
}

// names returns the distinct placeholders of the text.
func (t *text) names() (list []string) {
	for _, p := range t.parts {
		if p.name != "" && !slices.Contains(list, p.name) {
			list = append(list, p.name)
		}
	}
	return list
}
