// Package recent keeps what is known of nodes that are gone, of a bounded number of them.
package recent

import (
	"container/list"
	"iter"
)

// Nodes has a value for each of some nodes, by name. When there are more than a limit the one is
// forgotten that was put first, unless something is open with it. It is not safe for concurrent use.
type Nodes[V any] struct {
	most   int
	open   func(name string) bool
	of     map[string]*list.Element
	oldest list.List // of *node[V], the one that was put first at the front
}

type node[V any] struct {
	name  string
	value V
}

// New returns Nodes that forgets beyond most nodes: open reports whether something is open with a
// node, which is kept.
func New[V any](most int, open func(name string) bool) *Nodes[V] {
	return &Nodes[V]{most: most, open: open, of: make(map[string]*list.Element)}
}

// Get returns the value of a node, the zero value if there is none.
func (ns *Nodes[V]) Get(name string) (v V) {
	if e := ns.of[name]; e != nil {
		v = e.Value.(*node[V]).value
	}
	return v
}

// Put sets the value of a node, which is the last one to be forgotten from now on.
func (ns *Nodes[V]) Put(name string, v V) {
	if e := ns.of[name]; e != nil {
		e.Value.(*node[V]).value = v
		ns.oldest.MoveToBack(e)
		return
	}
	ns.of[name] = ns.oldest.PushBack(&node[V]{name, v})
	// Two looks for each node that is new keep a Put cheap where many are open: there are never more
	// than the limit or, if that is more, about twice as many as are open.
	for range 2 {
		if ns.oldest.Len() <= ns.most {
			return
		}
		first := ns.oldest.Front()
		if name := first.Value.(*node[V]).name; ns.open(name) {
			ns.oldest.MoveToBack(first)
		} else {
			delete(ns.of, name)
			ns.oldest.Remove(first)
		}
	}
}

// All returns the nodes, the one that was put first at the beginning.
func (ns *Nodes[V]) All() iter.Seq2[string, V] {
	return func(yield func(string, V) bool) {
		for e := ns.oldest.Front(); e != nil; e = e.Next() {
			if n := e.Value.(*node[V]); !yield(n.name, n.value) {
				return
			}
		}
	}
}
