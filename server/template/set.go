package template

import (
	"errors"
	"fmt"
	"strings"
)

// ErrTaken reports a topic that has another owner: another template, the server, or another
// convention.
var ErrTaken = errors.New("the topic is taken")

// Taken describes topics that templates may not use.
type Taken struct {
	// Prefix is the beginning of the topics. Owner names their owner.
	Prefix, Owner string
}

// role is how a template uses a topic.
type role uint8

const (
	receives role = iota // messages of devices
	sends                // commands to devices
	answers              // answers of devices
)

var roleNames = [...]string{receives: "topic", sends: "command topic", answers: "answer topic"}

// use is the use of a topic by a template.
type use struct {
	set      *set
	member   string // the template's member
	template *compiled
	role     role
	topic    *pattern
}

// set is a set of templates, with a tree over the levels of their topics. If two of them match a
// topic, the first level in which they differ decides: text takes precedence over a placeholder. A
// set in force is immutable.
type set struct {
	byName  map[string]*compiled
	routes  []way
	root    node
	size    int    // of all templates in memory, in bytes
	most    int    // how large size may be
	version uint64 // counts the sets that were in force
}

// way is a route of a template.
type way struct {
	template *compiled
	route    *route
}

// node is a level in the tree of topics.
type node struct {
	texts map[string]*node
	any   *node // a placeholder
	use   *use
}

// newSet returns a set of templates, which may take most bytes of memory. Its errors wrap ErrTaken or
// ErrTooMany.
func newSet(list []*compiled, taken []Taken, most int) (*set, error) {
	s := &set{byName: map[string]*compiled{}, most: most}
	for _, c := range list {
		if err := s.add(c, taken); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// add adds a template, or on an error nothing.
func (s *set) add(c *compiled, taken []Taken) error {
	if size := s.size + c.size; size > s.most {
		return fmt.Errorf("%w: with %q, which takes %d bytes of memory when compiled, all would take %d; at most %d are allowed; delete one, or make its expressions shorter",
			ErrTooMany, c.name, c.size, size, s.most)
	}
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
	s.size += c.size
	for i := range c.commands {
		s.routes = append(s.routes, way{c, &c.commands[i]})
	}
	return nil
}

// checkTaken returns an error for a topic with a prefix in taken. A placeholder as the first level
// is no conflict: topics with a reserved first level never come here.
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
			return nil // several commands may be sent to the same topic
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

// find returns the use of a topic, or nil, and the levels of the topic.
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
