package actor

import (
	"cmp"
	"container/heap"
	"errors"
	"fmt"
	"iter"
)

// ErrMailboxFull says that a bounded mailbox did not take the message.
var ErrMailboxFull = errors.New("mailbox full")

// Overflow says what a bounded mailbox does with a message that it has no room for.
type Overflow uint8

const (
	// Reject refuses the new message: TryTell and Ask fail with ErrMailboxFull, the
	// message of a Tell becomes a dead letter.
	Reject Overflow = iota
	// DropNewest makes a dead letter of the new message. TryTell does not fail.
	DropNewest
	// DropOldest makes a dead letter of the message that has waited longest, and takes
	// the new one.
	DropOldest
	// Block lets TryTell and Ask wait for room as long as their context allows: who has
	// waited longest is next. Tell
	// never waits: its message becomes a dead letter. Nobody waits for room in their own
	// mailbox, nor behind a [Routed] reference, which would have to choose anew: that fails
	// as with Reject.
	Block
)

// Bounded makes a mailbox that holds at most n messages besides the one that is being
// handled. What an actor sends itself by timers, watches and pipes, and the runtime's own
// notes, always find room. Bounded panics when n is less than 1.
func Bounded(n int, overflow Overflow) SpawnOption {
	required(n > 0, fmt.Sprintf("Bounded(%d): a mailbox needs room for at least one message", n))
	required(overflow <= Block, fmt.Sprintf("Bounded: there is no policy %d: it is Reject, DropNewest, DropOldest or Block", overflow))
	return spawnOption(func(c *spawnConfig) { c.bound, c.overflow = n, overflow })
}

// Priority makes a mailbox from which the message with the highest rank is handled
// first; messages of equal rank keep their order. What an actor sends itself has the
// rank 0. rank runs on the sender's goroutine, concurrently, and must not block. M must be
// the actor's message type: anything else is a programmer's error and panics.
func Priority[M any](rank func(M) int) SpawnOption {
	required(rank != nil, "Priority: the function that ranks messages is nil")
	return spawnOption(func(c *spawnConfig) { c.queue, c.queueOf = func() any { return &rankQueue[M]{rank: rank} }, nameOf[M] })
}

// Conflate makes a mailbox that keeps only the newest message of each key, in the place
// of the oldest: an actor that falls behind skips what is out of date. The messages that
// are replaced are counted as dead letters with the reason [Conflated]. key runs on the
// sender's goroutine, concurrently, and must not block. M must be the actor's message type:
// anything else is a programmer's error and panics.
func Conflate[M any, K comparable](key func(M) K) SpawnOption {
	required(key != nil, "Conflate: the function that finds a message's key is nil")
	return spawnOption(func(c *spawnConfig) {
		c.queue, c.queueOf = func() any { return &conflateQueue[M, K]{key: key, at: make(map[K]uint64)} }, nameOf[M]
	})
}

type spawnOption func(*spawnConfig)

func (f spawnOption) applySpawn(c *spawnConfig) { f(c) }

// queue is the order of a mailbox that is not plain. post acquires the actor's lock, after it
// has called the user's function that ranks a message or finds its key, and ends in
// postSpecial; where the sender is patient and has to wait for room it returns that wait, which
// has the message. All other methods are called with that lock held.
type queue[M any] interface {
	post(c *cell[M], e envelope[M], w *worker, patient bool) (verdict, *roomWait[M])
	take() (e envelope[M], ok bool)
	dropOldest() (e envelope[M], ok bool)
	len() int
	all() iter.Seq[*envelope[M]] // in no particular order
	rest() []envelope[M]         // empties the queue, oldest first
}

// special is the part of a mailbox that is bounded or not in plain order. It hands out
// one message at a time, so that the bound is exact and the order is that of the moment.
type special[M any] struct {
	queue    queue[M]
	bound    int // 0 for none
	overflow Overflow
	notes    int          // envelopes that do not count
	room     roomQueue[M] // who waits for room: nobody while there is some
}

// newSpecial returns what the options ask for, nil for a plain mailbox.
func newSpecial[M any](cfg *spawnConfig) (*special[M], error) {
	if cfg.bound == 0 && cfg.queue == nil {
		return nil, nil
	}
	s := &special[M]{queue: &fifoQueue[M]{}, bound: cfg.bound, overflow: cfg.overflow}
	if cfg.queue != nil {
		q := cfg.queue()
		typed, ok := q.(queue[M])
		if !ok {
			return nil, fmt.Errorf("%w: the mailbox option is for the message type %s, and the actor's is %s", ErrNotAccepted, cfg.queueOf(), nameOf[M]())
		}
		s.queue = typed
	}
	return s, nil
}

// verdict is what a mailbox did with a message.
type verdict uint8

const (
	verdictTaken    verdict = iota
	verdictGone             // the actor takes nothing any more
	verdictFull             // no room: refused
	verdictDropped          // no room: the new one is dropped
	verdictWait             // no room yet: whoever may wait, waits
	verdictReplaced         // taken, in place of an older one of its key, which is handed back
	verdictEvicted          // taken, and the oldest is handed back
)

// reason returns what to write on the dead letter of a message that was not taken.
func (v verdict) reason() Reason {
	if v == verdictGone {
		return NoActor
	}
	return Overflowed
}

// err returns the error for whoever wants one.
func (v verdict) err() error {
	if v == verdictGone {
		return ErrStopped
	}
	return ErrMailboxFull
}

// postSpecial is post for a mailbox with an order or a bound. replaces reports whether put will
// replace a message, and so needs no room; put puts the message into the queue and returns what
// it has replaced. Both are called with the actor's lock held, and do not call the user's code. If
// the verdict is verdictWait the sender waits from now on as wait says, which may be nil.
func (c *cell[M]) postSpecial(e *envelope[M], w *worker, wait *roomWait[M], replaces func() bool, put func() (old envelope[M], did bool)) verdict {
	c.lock(w)
	if c.phase >= stopping {
		c.mu.Unlock()
		return verdictGone
	}
	s := c.mailbox.Load()
	out, v := s.special.admit(e, replaces, put)
	if v == verdictWait && wait != nil {
		s.special.room.push(wait)
	}
	wake := false
	if v == verdictTaken || v >= verdictReplaced {
		if s.inSince == 0 || s.special.queue.len() == 1 {
			s.inSince = c.sys().sched.monitor.coarse.Load()
		}
		if wake = c.phase == running && c.schedule(); wake {
			s.take()
		}
	}
	c.mu.Unlock()
	if v >= verdictReplaced {
		reason := Conflated
		if v == verdictEvicted {
			reason = Overflowed
		}
		c.discard(&out, reason, ErrMailboxFull)
		v = verdictTaken
	}
	if wake {
		c.dispatch(w, e)
	}
	return v
}

// admit decides about a message. REQUIRES: the actor's lock held.
func (s *special[M]) admit(e *envelope[M], replaces func() bool, put func() (envelope[M], bool)) (out envelope[M], v verdict) {
	if e.internal() {
		put()
		s.notes++
		return out, verdictTaken
	}
	if s.bound > 0 && s.queue.len()-s.notes >= s.bound && !replaces() {
		switch s.overflow {
		case DropNewest:
			return out, verdictDropped
		case DropOldest:
			put()
			if oldest, ok := s.queue.dropOldest(); ok {
				return oldest, verdictEvicted
			}
			return out, verdictTaken
		case Block:
			return out, verdictWait
		default:
			return out, verdictFull
		}
	}
	if out, did := put(); did {
		return out, verdictReplaced
	}
	return out, verdictTaken
}

// rest empties the mailbox and lets go of who waits for room, see roomWait.leave.
// REQUIRES: the actor's mutex held, and the actor takes nothing any more.
func (s *special[M]) rest() []envelope[M] {
	s.notes = 0
	s.room.tellFirst()
	return s.queue.rest()
}

// take hands out the next message. REQUIRES: the actor's mutex held.
func (s *special[M]) take() (e envelope[M], ok bool) {
	if e, ok = s.queue.take(); !ok {
		return e, false
	}
	if e.internal() {
		s.notes--
	}
	return e, true
}

// keepQueue is how much memory, in envelopes, an empty queue keeps for the next burst.
const keepQueue = 64

// fifo is a queue that gives back what an exceptional burst has taken.
type fifo[T any] struct {
	list []T
	head int
}

func (q *fifo[T]) push(v T) { q.list = append(q.list, v) }

func (q *fifo[T]) pop() (v T, ok bool) {
	if q.head == len(q.list) {
		return v, false
	}
	var none T
	v, q.list[q.head] = q.list[q.head], none
	if q.head++; q.head == len(q.list) {
		q.list, q.head = q.list[:0], 0
		if cap(q.list) > keepQueue {
			q.list = nil
		}
	} else if q.head > len(q.list)/2 && q.head > keepQueue {
		n := copy(q.list, q.list[q.head:])
		clear(q.list[n:])
		q.list, q.head = q.list[:n], 0
	}
	return v, true
}

// waiting returns what is in the queue, where it lies.
func (q *fifo[T]) waiting() []T { return q.list[q.head:] }

// remove takes out the i-th of those that wait: those before it move up.
func (q *fifo[T]) remove(i int) (v T) {
	i += q.head
	v = q.list[i]
	copy(q.list[q.head+1:i+1], q.list[q.head:i])
	var none T
	q.list[q.head] = none
	q.head++
	return v
}

func (q *fifo[T]) len() int { return len(q.list) - q.head }

// internal reports whether the actor itself, or the runtime, has sent the envelope.
func (e *envelope[M]) internal() bool {
	switch e.with.(type) {
	case note[M], drainMark:
		return true
	default:
		return false
	}
}

// fifoQueue is the plain order.
type fifoQueue[M any] struct{ fifo[envelope[M]] }

func (q *fifoQueue[M]) post(c *cell[M], e envelope[M], w *worker, patient bool) (verdict, *roomWait[M]) {
	if !patient || !c.crowded() {
		v := c.postSpecial(&e, w, nil, never, func() (none envelope[M], did bool) {
			q.push(e)
			return none, false
		})
		if v != verdictWait || !patient {
			return v, nil
		}
	}
	later := e // a copy, so that only a message that waits is allocated
	return c.postWaiting(&later, w, never, func() (none envelope[M], did bool) {
		q.push(later)
		return none, false
	})
}

// never is what replaces nothing.
func never() bool { return false }

func (q *fifoQueue[M]) take() (e envelope[M], ok bool) { return q.pop() }

// dropOldest skips what is the actor's own.
func (q *fifoQueue[M]) dropOldest() (e envelope[M], ok bool) {
	for i := range q.waiting() {
		if !q.waiting()[i].internal() {
			return q.remove(i), true
		}
	}
	return e, false
}

func (q *fifoQueue[M]) all() iter.Seq[*envelope[M]] { return each(q.waiting()) }

// each iterates over envelopes where they lie.
func each[M any](list []envelope[M]) iter.Seq[*envelope[M]] {
	return func(yield func(*envelope[M]) bool) {
		for i := range list {
			if !yield(&list[i]) {
				return
			}
		}
	}
}

func (q *fifoQueue[M]) rest() []envelope[M] {
	all := q.waiting()
	q.list, q.head = nil, 0
	return all
}

// rankQueue is the order by rank, then by arrival.
type rankQueue[M any] struct {
	rank  func(M) int
	items rankHeap[M]
	seq   uint64
	ends  bool // the drain mark is in: what comes now is behind it, whatever its rank
}

type ranked[M any] struct {
	e    envelope[M]
	rank int
	when uint8 // before, at or after the drain mark
	seq  uint64
}

const (
	beforeLast uint8 = iota
	atLast
	afterLast
)

func (q *rankQueue[M]) post(c *cell[M], e envelope[M], w *worker, patient bool) (verdict, *roomWait[M]) {
	r := ranked[M]{e: e}
	if !e.internal() {
		r.rank = q.rank(e.msg)
	}
	if !patient || !c.crowded() {
		v := c.postSpecial(&e, w, nil, never, func() (none envelope[M], did bool) {
			q.put(r)
			return none, false
		})
		if v != verdictWait || !patient {
			return v, nil
		}
	}
	later := r
	return c.postWaiting(&later.e, w, never, func() (none envelope[M], did bool) {
		q.put(later)
		return none, false
	})
}

// put numbers a message and puts it into the heap.
func (q *rankQueue[M]) put(r ranked[M]) {
	q.seq++
	r.seq = q.seq
	if q.ends {
		r.when = afterLast
	}
	if _, drain := r.e.with.(drainMark); drain {
		r.when, q.ends = max(r.when, atLast), true
	}
	heap.Push(&q.items, r)
}

func (q *rankQueue[M]) take() (e envelope[M], ok bool) {
	if len(q.items) == 0 {
		return e, false
	}
	r := heap.Pop(&q.items).(ranked[M])
	if len(q.items) == 0 && cap(q.items) > keepQueue {
		q.items = nil
	}
	return r.e, true
}

// dropOldest drops the oldest of those with the lowest rank: what is least urgent.
func (q *rankQueue[M]) dropOldest() (e envelope[M], ok bool) {
	found := -1
	for i, r := range q.items {
		if _, internal := r.e.with.(note[M]); internal || r.when == atLast {
			continue
		}
		if found < 0 || r.rank < q.items[found].rank || r.rank == q.items[found].rank && r.seq < q.items[found].seq {
			found = i
		}
	}
	if found < 0 {
		return e, false
	}
	return heap.Remove(&q.items, found).(ranked[M]).e, true
}

func (q *rankQueue[M]) len() int { return len(q.items) }

func (q *rankQueue[M]) all() iter.Seq[*envelope[M]] {
	return func(yield func(*envelope[M]) bool) {
		for i := range q.items {
			if !yield(&q.items[i].e) {
				return
			}
		}
	}
}

func (q *rankQueue[M]) rest() []envelope[M] {
	var all []envelope[M]
	for {
		e, ok := q.take()
		if !ok {
			return all
		}
		all = append(all, e)
	}
}

type rankHeap[M any] []ranked[M]

func (h rankHeap[M]) Len() int { return len(h) }

func (h rankHeap[M]) Less(i, j int) bool {
	a, b := &h[i], &h[j]
	if a.when != b.when {
		return a.when < b.when
	}
	if c := cmp.Compare(b.rank, a.rank); c != 0 {
		return c < 0
	}
	return a.seq < b.seq
}

func (h rankHeap[M]) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

// Push is called by package heap.
func (h *rankHeap[M]) Push(x any) { *h = append(*h, x.(ranked[M])) }

// Pop is called by package heap.
func (h *rankHeap[M]) Pop() any {
	old := *h
	r := old[len(old)-1]
	old[len(old)-1] = ranked[M]{}
	*h = old[:len(old)-1]
	return r
}

// conflateQueue is the plain order with at most one message a key. The user's function is
// called once for each message, when that comes: later it might say something else.
type conflateQueue[M any, K comparable] struct {
	fifo  fifo[conflated[M, K]]
	key   func(M) K
	at    map[K]uint64 // the number of the key's message
	first uint64       // the number of the message at the queue's head
}

type conflated[M any, K comparable] struct {
	e     envelope[M]
	key   K
	keyed bool // not so if the actor has sent it itself, or if the key equals nothing, like NaN
}

func (q *conflateQueue[M, K]) post(c *cell[M], e envelope[M], w *worker, patient bool) (verdict, *roomWait[M]) {
	m := conflated[M, K]{e: e}
	if !e.internal() {
		m.key = q.key(e.msg)
		same := m.key
		m.keyed = same == m.key
	}
	if !patient || !c.crowded() {
		v := c.postSpecial(&e, w, nil,
			func() bool { return m.keyed && q.has(m.key) },
			func() (old envelope[M], did bool) { return q.put(m) })
		if v != verdictWait || !patient {
			return v, nil
		}
	}
	later := m
	return c.postWaiting(&later.e, w,
		func() bool { return later.keyed && q.has(later.key) },
		func() (old envelope[M], did bool) { return q.put(later) })
}

// has reports whether a message of that key waits.
func (q *conflateQueue[M, K]) has(key K) bool {
	_, ok := q.at[key]
	return ok
}

// put puts a message into the place of the one with its key, which it returns, or at the end.
func (q *conflateQueue[M, K]) put(m conflated[M, K]) (old envelope[M], did bool) {
	if n, ok := q.at[m.key]; ok && m.keyed {
		p := &q.fifo.waiting()[n-q.first]
		old, p.e = p.e, m.e
		return old, true
	}
	if m.keyed {
		q.at[m.key] = q.first + uint64(q.fifo.len())
	}
	q.fifo.push(m)
	return old, false
}

func (q *conflateQueue[M, K]) take() (e envelope[M], ok bool) {
	c, ok := q.fifo.pop()
	if !ok {
		return e, false
	}
	q.first++
	if c.keyed {
		delete(q.at, c.key)
	}
	if len(q.at) == 0 && q.fifo.list == nil { // the queue gave its memory back: so does the map
		q.at = make(map[K]uint64)
	}
	return c.e, true
}

// dropOldest takes a message out of the middle, which moves the numbers of those
// before it: they are noted anew.
func (q *conflateQueue[M, K]) dropOldest() (e envelope[M], ok bool) {
	for i := range q.fifo.waiting() {
		if q.fifo.waiting()[i].e.internal() {
			continue
		}
		e = q.fifo.remove(i).e
		q.first++
		clear(q.at)
		for n, c := range q.fifo.waiting() {
			if c.keyed {
				q.at[c.key] = q.first + uint64(n)
			}
		}
		return e, true
	}
	return e, false
}

func (q *conflateQueue[M, K]) len() int { return q.fifo.len() }

func (q *conflateQueue[M, K]) all() iter.Seq[*envelope[M]] {
	return func(yield func(*envelope[M]) bool) {
		for i := range q.fifo.waiting() {
			if !yield(&q.fifo.waiting()[i].e) {
				return
			}
		}
	}
}

func (q *conflateQueue[M, K]) rest() []envelope[M] {
	var all []envelope[M]
	for e := range q.all() {
		all = append(all, *e)
	}
	clear(q.at)
	q.first += uint64(q.fifo.len())
	q.fifo = fifo[conflated[M, K]]{}
	return all
}
