package mailbox

import (
	"sync"
	"sync/atomic"
)

// List is a lock-free list of nodes: a sender swaps its node in as the last one and then links the
// previous node to it; the receiver follows the links. It is Vyukov's queue of many producers and
// one consumer. Nodes come from a pool, since a sender has no place of its own to keep them. Make
// one with [NewList].
type List[T any] struct {
	last atomic.Pointer[node[T]]
	_    [56]byte
	at   *node[T] // the receiver's: its value has been taken
	pool *sync.Pool
}

type node[T any] struct {
	next  atomic.Pointer[node[T]]
	value T
}

// NewList returns an empty mailbox for any number of senders and one receiver.
func NewList[T any]() *List[T] {
	l := &List[T]{at: new(node[T]), pool: &sync.Pool{New: func() any { return new(node[T]) }}}
	l.last.Store(l.at)
	return l
}

// Put appends v.
func (l *List[T]) Put(v T) {
	n := l.pool.Get().(*node[T])
	n.value = v
	n.next.Store(nil)
	l.last.Swap(n).next.Store(n)
}

// Take returns the oldest value. It reports false when there is none, or when its sender has not
// linked it yet.
func (l *List[T]) Take() (v T, ok bool) {
	n := l.at.next.Load()
	if n == nil {
		return v, false
	}
	var none T
	v, n.value = n.value, none
	l.pool.Put(l.at)
	l.at = n
	return v, true
}
