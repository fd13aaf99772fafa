package actor

import "sync/atomic"

// runQueue holds actors that have something to do, first in first out. Each worker has
// one, whose other end thieves may look at, and the scheduler one for what comes from
// outside of any worker. It is a list through the actors themselves: it has no bound and
// allocates nothing. A ring with atomic ends saves about 10 ns an actor and needs an
// overflow; the lock is free nearly always, since thieves come only when they have nothing
// else.
type runQueue struct {
	mu   spin
	head *core
	tail *core
	n    atomic.Int32 // written under mu, read by who only wants to know whether to look
}

// push appends c.
func (q *runQueue) push(c *core) {
	q.mu.Lock()
	c.queueNext = nil
	if q.tail == nil {
		q.head = c
	} else {
		q.tail.queueNext = c
	}
	q.tail = c
	q.n.Store(q.n.Load() + 1)
	q.mu.Unlock()
}

// pop returns the first actor, nil when there is none.
func (q *runQueue) pop() *core {
	if q.n.Load() == 0 {
		return nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.unlink()
}

// unlink takes the first actor out. REQUIRES: q.mu held.
func (q *runQueue) unlink() *core {
	c := q.head
	if c == nil {
		return nil
	}
	if q.head = c.queueNext; q.head == nil {
		q.tail = nil
	}
	c.queueNext = nil
	q.n.Store(q.n.Load() - 1)
	return c
}

// grab moves up to most actors to the end of another queue, besides the first one, which
// it returns. The order is kept.
func (q *runQueue) grab(into *runQueue, most int) *core {
	if q.n.Load() == 0 {
		return nil
	}
	q.mu.Lock()
	first := q.unlink()
	var head, tail *core
	n := int32(0)
	for ; n < int32(most) && q.head != nil; n++ {
		c := q.unlink()
		if tail == nil {
			head = c
		} else {
			tail.queueNext = c
		}
		tail = c
	}
	q.mu.Unlock()
	if n > 0 {
		into.append(head, tail, n)
	}
	return first
}

// append adds a list of n actors.
func (q *runQueue) append(head, tail *core, n int32) {
	q.mu.Lock()
	if q.tail == nil {
		q.head = head
	} else {
		q.tail.queueNext = head
	}
	q.tail = tail
	q.n.Store(q.n.Load() + n)
	q.mu.Unlock()
}
