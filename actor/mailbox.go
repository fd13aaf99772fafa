package actor

import "slices"

// A mailbox has two buffers and takes turns with them. Senders append to `in`
// under the actor's mutex; the actor takes the whole of it at the beginning of a
// turn and works through it without a lock. Two slices that swap roles allocate
// nothing once they have grown to the usual burst.
//
// The alternative, a lock-free list of nodes, saves the mutex and costs a node for
// each message; as prototypes on two cores both measured about the same (a lock, an append and
// an unlock are 37 ns; a compare-and-swap with a node from a free list 32 ns), and
// the buffers know their length, which every tool asks for. The choice is behind
// put, take and next, and only here.
type mailbox[M any] struct {
	in    []envelope[M] // guarded by the actor's mutex
	batch []envelope[M] // owned by the turn
	head  int           // owned by the turn: batch[head:] is still to be handled
}

// envelope is a message on its way. For a tell, extra is nil and the envelope is
// plain memory: nothing is allocated.
type envelope[M any] struct {
	msg   M
	from  *core
	extra any // nil, pendingAsk, note[M] or lastOrder
}

// note stands in a mailbox for a message that is made when its turn comes: by a timer,
// a watch, a pipe. message reports false when it is not wanted any more.
type note[M any] interface {
	message(c *cell[M]) (msg M, ok bool)
}

// lastOrder in a mailbox stops the actor when its turn comes: what lies before it
// is handled first.
type lastOrder struct{}

// keepEnvelopes is how much buffer an idle actor may keep for its next burst.
const keepEnvelopes = 4

// put appends. REQUIRES: the actor's mutex held.
func (b *mailbox[M]) put(e envelope[M]) { b.in = append(b.in, e) }

// take moves what has arrived to where next finds it.
// REQUIRES: the actor's mutex held, and all of the former batch handled.
func (b *mailbox[M]) take() bool {
	if len(b.in) == 0 {
		return false
	}
	b.in, b.batch, b.head = b.batch[:0], b.in, 0
	return true
}

// next returns the next envelope of the batch. REQUIRES: the turn owns the actor.
func (b *mailbox[M]) next() (e envelope[M], ok bool) {
	if b.head == len(b.batch) {
		return e, false
	}
	e, b.batch[b.head] = b.batch[b.head], envelope[M]{}
	b.head++
	return e, true
}

// putFirst puts envelopes before all others, in their order.
// REQUIRES: the turn owns the actor.
func (b *mailbox[M]) putFirst(first []envelope[M]) {
	b.batch = append(first, b.batch[b.head:]...)
	b.head = 0
}

// taken reports whether the batch holds mail.
func (b *mailbox[M]) taken() bool { return b.head < len(b.batch) }

// rest empties the mailbox and returns all that was in it, oldest first.
// REQUIRES: the actor's mutex held by the turn that owns the actor.
func (b *mailbox[M]) rest() []envelope[M] {
	all := slices.Concat(b.batch[b.head:], b.in)
	*b = mailbox[M]{}
	return all
}

// shrink gives memory back. REQUIRES: the actor's mutex held, the mailbox empty.
func (b *mailbox[M]) shrink() {
	if cap(b.in) > keepEnvelopes {
		b.in = nil
	}
	if cap(b.batch) > keepEnvelopes {
		b.batch, b.head = nil, 0
	}
}
