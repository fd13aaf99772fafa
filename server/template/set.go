package template

import (
	"errors"
	"fmt"
	"strings"
)

// ErrTaken is about a topic that something else has: another template, the server itself or another
// convention.
var ErrTaken = errors.New("the topic is taken")

// Taken are topics that templates cannot have.
type Taken struct {
	// Prefix begins the topics; Owner is whose they are.
	Prefix, Owner string
}

// role is what a topic is to a template.
type role uint8

const (
	receives role = iota // what devices publish
	sends                // commands
	answers              // what devices answer
)

var roleNames = [...]string{receives: "topic", sends: "command topic", answers: "answer topic"}

// use is a topic of a template.
type use struct {
	set      *set
	member   string // of the template
	template *compiled
	role     role
	topic    *pattern
}

// set is templates that are used together, as a tree over the levels of their topics. Where two take a
// topic, the one counts that has a text, and not a placeholder, at the first level where they
// differ. It does not change once it is in force.
type set struct {
	byName  map[string]*compiled
	routes  []way
	root    node
	version uint64 // how often those in force have changed
}

// way is a way in which commands go out by a template.
type way struct {
	template *compiled
	route    *route
}

// node is a level of topics.
type node struct {
	texts map[string]*node
	any   *node // a placeholder
	use   *use
}

// newSet puts templates together. The error wraps ErrTaken.
func newSet(list []*compiled, taken []Taken) (*set, error) {
	s := &set{byName: map[string]*compiled{}}
	for _, c := range list {
		if err := s.add(c, taken); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// add adds a template, or nothing of it.
func (s *set) add(c *compiled, taken []Taken) error {
	uses := []use{{s, "topic", c, receives, &c.topic}}
	for i := range c.commands {
		r := &c.commands[i]
		member := fmt.Sprintf("commands[%d]", i)
		uses = append(uses, use{s, member + ".topic", c, sends, &r.topic})
		if r.answer != nil {
			uses = append(uses, use{s, member + ".answer.topic", c, answers, &r.answer.topic})
		}
	}
	var added []*node
	for i := range uses {
		err := checkTaken(&uses[i], taken)
		if err == nil {
			err = s.insert(&uses[i], &added)
		}
		if err != nil {
			for _, n := range added {
				n.use = nil
			}
			return err
		}
	}
	s.byName[c.name] = c
	for i := range c.commands {
		s.routes = append(s.routes, way{c, &c.commands[i]})
	}
	return nil
}

// checkTaken returns an error for a topic that begins like another's. A placeholder as the first level never stands
// for the first level of these: what is theirs never comes here.
func checkTaken(u *use, taken []Taken) error {
	for _, t := range taken {
		parts := strings.Split(strings.TrimSuffix(t.Prefix, "/"), "/")
		own := len(u.topic.levels) > len(parts)
		for i := 0; own && i < len(parts); i++ {
			l := u.topic.levels[i]
			own = !l.placeholder && l.text == parts[i] || l.placeholder && i > 0
		}
		if own {
			return &Error{In: u.member, Text: fmt.Sprintf("%v: topics that begin with %s are those of %s", ErrTaken, t.Prefix, t.Owner), taken: true}
		}
	}
	return nil
}

// insert inserts a topic, and appends its node to added.
func (s *set) insert(u *use, added *[]*node) error {
	at := &s.root
	for _, l := range u.topic.levels {
		next := at.any
		if !l.placeholder {
			next = at.texts[l.text]
		}
		if next == nil {
			next = &node{}
			if l.placeholder {
				at.any = next
			} else {
				if at.texts == nil {
					at.texts = map[string]*node{}
				}
				at.texts[l.text] = next
			}
		}
		at = next
	}
	if other := at.use; other != nil {
		if other.template == u.template && other.role == u.role && u.role != receives {
			return nil // commands that go out at the same topic
		}
		text := fmt.Sprintf("%v: template %q takes the same topics, with %s, as its %s", ErrTaken, other.template.name, other.topic.shape(), roleNames[other.role])
		if other.template == u.template {
			text = fmt.Sprintf("%v: %s is the %s of this template, too", ErrTaken, other.topic.shape(), roleNames[other.role])
		}
		return &Error{In: u.member, Text: text, taken: true}
	}
	at.use = u
	*added = append(*added, at)
	return nil
}

// find returns what takes a topic, nil for none, and the levels of the topic.
func (s *set) find(topic string) (*use, []string) {
	if len(topic) > MaxTopicBytes || strings.HasPrefix(topic, "$") || strings.Count(topic, "/") >= MaxLevels {
		return nil, nil
	}
	levels := strings.Split(topic, "/")
	return s.root.find(levels), levels
}

func (n *node) find(levels []string) *use {
	if len(levels) == 0 {
		return n.use
	}
	if next := n.texts[levels[0]]; next != nil {
		if u := next.find(levels[1:]); u != nil {
			return u
		}
	}
	if n.any == nil {
		return nil
	}
	return n.any.find(levels[1:])
}
