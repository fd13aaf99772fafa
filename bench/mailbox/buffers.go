package mailbox

import (
	"runtime"
	"sync/atomic"
)

// Buffers are two slices that swap roles: senders append to one under a lock, and the receiver
// takes the whole slice and works through it without the lock. The zero value is an empty mailbox
// for any number of senders and one receiver.
type Buffers[T any] struct {
	lock  atomic.Bool
	in    []T // guarded by lock
	batch []T // the receiver's, as is next
	next  int
}

// Put appends v.
func (b *Buffers[T]) Put(v T) {
	b.acquire()
	b.in = append(b.in, v)
	b.lock.Store(false)
}

// Take returns the oldest value. It reports false when there is none.
func (b *Buffers[T]) Take() (v T, ok bool) {
	if b.next == len(b.batch) {
		clear(b.batch)
		b.acquire()
		b.in, b.batch = b.batch[:0], b.in
		b.lock.Store(false)
		b.next = 0
		if len(b.batch) == 0 {
			return v, false
		}
	}
	v = b.batch[b.next]
	b.next++
	return v, true
}

func (b *Buffers[T]) acquire() {
	for !b.lock.CompareAndSwap(false, true) {
		runtime.Gosched()
	}
}
