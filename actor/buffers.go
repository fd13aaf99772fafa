package actor

import (
	"sync"
	"unsafe"
)

// bufferList holds the mail that has come while the turn was busy with what came before, and
// that one buffer does not hold: full buffers, in their order. So a mailbox that grows never
// moves: copying megabytes under the actor's lock would hold up all who send, and whoever
// needs their processor.
//
// All of it is guarded by the actor's lock.
type bufferList[M any] struct {
	full  []buffer[M]
	first int // full[first:] is still to be taken
	mail  int // how many messages that is
}

// buffer is mail with the time at which its first message came.
type buffer[M any] struct {
	mail  []envelope[M]
	since int64
}

// bufferMost is how many messages a buffer holds, and bufferBytes how many bytes: a buffer is made
// under the actor's lock, and an idle actor may keep two. Smaller ones than that grow.
const (
	bufferMost  = 1024
	bufferBytes = 128 << 10
)

// piece returns how many elements of type T there may be in so many bytes, at most most and at
// least one.
func piece[T any](bytes, most int) int {
	var v T
	return max(1, min(most, bytes/max(1, int(unsafe.Sizeof(v)))))
}

// bufferLen returns how many messages a buffer holds.
func bufferLen[M any]() int { return piece[envelope[M]](bufferBytes, bufferMost) }

// bufferPool keeps empty buffers of that size, for whoever has a burst next.
type bufferPool[M any] struct{ pool sync.Pool }

func (p *bufferPool[M]) get() []envelope[M] {
	if b, ok := p.pool.Get().(*envelope[M]); ok {
		return unsafe.Slice(b, bufferLen[M]())[:0]
	}
	return make([]envelope[M], 0, bufferLen[M]())
}

// put takes a buffer back that is empty all through, if it is of that size. The mailbox of a
// mailbox with an order or a bound has no such pool.
func (p *bufferPool[M]) put(empty []envelope[M]) {
	if p != nil && cap(empty) == bufferLen[M]() {
		p.pool.Put(unsafe.SliceData(empty))
	}
}

// grow makes room in s.in, which is full. REQUIRES: the actor's lock held.
func (s *mailbox[M]) grow() {
	n := len(s.in)
	if most := bufferLen[M](); n < most {
		s.in = append(make([]envelope[M], 0, max(1, min(2*n, most))), s.in...)
		return
	}
	if s.over == nil {
		s.over = new(bufferList[M])
	}
	o := s.over
	o.full = append(o.full, buffer[M]{s.in, s.inSince})
	o.mail += n
	s.in = s.spare.get()
}

// next takes the oldest buffer. REQUIRES: there is one.
func (o *bufferList[M]) next() buffer[M] {
	b := o.full[o.first]
	o.full[o.first] = buffer[M]{}
	o.first++
	o.mail -= len(b.mail)
	if o.first > len(o.full)/2 { // so that it does not grow for ever beside a sender that is ahead for ever
		n := copy(o.full, o.full[o.first:])
		clear(o.full[n:])
		o.full, o.first = o.full[:n], 0
	}
	return b
}

// buffered returns how much mail is in over. REQUIRES: the actor's lock held.
func (s *mailbox[M]) buffered() int {
	if s.over == nil {
		return 0
	}
	return s.over.mail
}

// buffers returns what has come since the turn has taken the last batch, oldest first.
// REQUIRES: the actor's lock held meanwhile.
func (s *mailbox[M]) buffers() [][]envelope[M] {
	var all [][]envelope[M]
	if s.over != nil {
		for _, b := range s.over.full[s.over.first:] {
			all = append(all, b.mail)
		}
	}
	return append(all, s.in)
}
