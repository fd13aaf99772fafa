package eventbus

import (
	"slices"
	"sync"
	"sync/atomic"
)

// trie finds the subscriptions whose pattern a topic matches, in time that depends on
// the topic and on what matches, not on how many subscriptions there are.
//
// Reading takes no lock: the children are in a concurrent map, the lists are replaced
// and not changed. Writers take turns. A reader that stands on a node while a writer
// cuts it off finds it empty, which is what it was when it was cut off.
type trie struct {
	mu   sync.Mutex // of the writers
	root node
}

// node is a place in the patterns: the tokens that lead to it.
type node struct {
	tokens sync.Map             // string to *node: what the next token may be
	star   atomic.Pointer[node] // the next token is *
	here   list                 // the pattern ends here
	rest   list                 // the pattern ends with a > after here
	below  int                  // children, the star included; guarded by the trie's mu
}

// list holds subscriptions. Readers may keep what all returned.
type list struct {
	subs atomic.Pointer[[]*Subscription]
	gone int // how many are still in the list and do not belong there; guarded by the trie's mu
}

func (l *list) all() []*Subscription {
	if p := l.subs.Load(); p != nil {
		return *p
	}
	return nil
}

// add appends. Readers of the former list share the array and never look beyond its
// end. REQUIRES: the trie's mu held.
func (l *list) add(s *Subscription) {
	subs := append(l.all(), s)
	l.subs.Store(&subs)
}

// remove takes out a subscription, though not at once, so that it takes constant time
// on average: half of the list may be such. Those that have ended but are not removed
// yet must stay, or their node would be gone when it is their turn.
// REQUIRES: the trie's mu held, the subscription in the list.
func (l *list) remove(s *Subscription) {
	s.out = true
	l.gone++
	old := l.all()
	if l.gone*2 < len(old) {
		return
	}
	// A new array: there are readers of the old one.
	subs := make([]*Subscription, 0, len(old)-l.gone)
	for _, s := range old {
		if !s.out {
			subs = append(subs, s)
		}
	}
	l.gone = 0
	l.subs.Store(&subs)
}

func (l *list) empty() bool { return len(l.all()) == 0 }

func (n *node) empty() bool { return n.below == 0 && n.here.empty() && n.rest.empty() }

func (t *trie) add(s *Subscription) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := &t.root
	for rest, more := s.pattern, true; more; {
		var token string
		if token, rest, more = cut(rest); token == ">" {
			n.rest.add(s)
			return
		}
		n = n.grow(token)
	}
	n.here.add(s)
}

// child returns the node to which a token of a pattern leads, nil if there is none.
func (n *node) child(token string) *node {
	if token == "*" {
		return n.star.Load()
	}
	if c, ok := n.tokens.Load(token); ok {
		return c.(*node)
	}
	return nil
}

// grow is child that makes the node if there is none.
func (n *node) grow(token string) *node {
	c := n.child(token)
	if c != nil {
		return c
	}
	c = new(node)
	n.below++
	if token == "*" {
		n.star.Store(c)
	} else {
		n.tokens.Store(token, c)
	}
	return c
}

// remove takes out a subscription that has been marked as ended, and the nodes that
// nobody needs any more.
func (t *trie) remove(s *Subscription) {
	t.mu.Lock()
	defer t.mu.Unlock()
	type step struct {
		from  *node
		token string
	}
	var way []step
	n, ending := &t.root, (*list)(nil)
	for rest, more := s.pattern, true; more; {
		var token string
		if token, rest, more = cut(rest); token == ">" {
			ending = &n.rest
			break
		}
		way = append(way, step{n, token})
		n = n.child(token)
	}
	if ending == nil {
		ending = &n.here
	}
	ending.remove(s)
	for _, step := range slices.Backward(way) {
		if !step.from.child(step.token).empty() {
			return
		}
		step.from.below--
		if step.token == "*" {
			step.from.star.Store(nil)
		} else {
			step.from.tokens.Delete(step.token)
		}
	}
}

// match appends the subscriptions whose pattern stands for the topic. It is one function,
// because of two that call each other the compiler does not see that found stays with
// the caller.
func (n *node) match(topic string, found []*Subscription) []*Subscription {
	token, rest, more := cut(topic)
	found = append(found, n.rest.all()...)
	if c, ok := n.tokens.Load(token); ok {
		if more {
			found = c.(*node).match(rest, found)
		} else {
			found = append(found, c.(*node).here.all()...)
		}
	}
	if c := n.star.Load(); c != nil {
		if more {
			found = c.match(rest, found)
		} else {
			found = append(found, c.here.all()...)
		}
	}
	return found
}

// overlap appends the subscriptions whose pattern stands for a topic that the given
// pattern stands for too.
func (n *node) overlap(pattern string, found []*Subscription) []*Subscription {
	token, rest, more := cut(pattern)
	found = append(found, n.rest.all()...)
	each := func(c *node) {
		switch {
		case token == ">":
			found = c.everything(found)
		case more:
			found = c.overlap(rest, found)
		default:
			found = append(found, c.here.all()...)
		}
	}
	if c := n.star.Load(); c != nil {
		each(c)
	}
	if token != "*" && token != ">" {
		if c := n.child(token); c != nil {
			each(c)
		}
		return found
	}
	for _, c := range n.tokens.Range {
		each(c.(*node))
	}
	return found
}

// everything appends the subscriptions of n and of all that is below.
func (n *node) everything(found []*Subscription) []*Subscription {
	found = append(append(found, n.here.all()...), n.rest.all()...)
	if c := n.star.Load(); c != nil {
		found = c.everything(found)
	}
	for _, c := range n.tokens.Range {
		found = c.(*node).everything(found)
	}
	return found
}
