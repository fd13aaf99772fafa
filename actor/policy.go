package actor

import (
	"errors"
	"fmt"
)

// ErrMailboxFull says that a bounded mailbox did not take the message.
var ErrMailboxFull = errors.New("mailbox full")

// Overflow says what a bounded mailbox does with a message for which it has no room.
type Overflow uint8

const (
	// Reject refuses the new message: TryTell and Ask fail with ErrMailboxFull, the
	// message of a Tell becomes a dead letter.
	Reject Overflow = iota
	// DropNewest makes a dead letter of the new message. TryTell does not fail.
	DropNewest
	// DropOldest makes a dead letter of the message that has waited longest, and takes
	// the new one; in a [Priority] mailbox it is the oldest of the lowest rank.
	DropOldest
	// Block makes TryTell and Ask wait for room as long as their context allows; whoever has waited
	// longest is next. Tell never waits: its message becomes a dead letter. Nobody waits for room
	// in their own mailbox, or behind a [Routed] reference, which would have to choose anew: that
	// fails as with Reject. A sender that is stopped or killed while it waits gives up its place; a
	// message that was accepted before stays sent.
	Block
)

// Bounded makes a mailbox that holds at most n messages besides the one that is being handled.
// Events of the system, see [Subscribe], are among them. What an actor has requested itself always
// finds room: timers, a receive timeout, the Down of a watch, the outcome of a Pipe or an AskThen;
// and so does the order to drain. Bounded panics if n is less than 1.
func Bounded(n int, overflow Overflow) SpawnOption {
	required(n > 0, fmt.Sprintf("Bounded(%d): a mailbox needs room for at least one message", n))
	required(overflow <= Block, fmt.Sprintf("Bounded: there is no policy %d: it is Reject, DropNewest, DropOldest or Block", overflow))
	return spawnOption(func(c *spawnConfig) { c.bound, c.overflow = n, overflow })
}

// Priority makes a mailbox from which the message with the highest rank is handled first; messages
// of equal rank keep their order. What an actor sends itself, and events, have the rank 0. rank
// runs on the sender's goroutine, concurrently, and must not block. M must be the actor's message
// type; otherwise spawning fails with [ErrNotAccepted].
func Priority[M any](rank func(M) int) SpawnOption {
	required(rank != nil, "Priority: the function that ranks messages is nil")
	return spawnOption(func(c *spawnConfig) { c.order(func() any { return &rankQueue[M]{rank: rank} }, nameOf[M]) })
}

// Conflate makes a mailbox that keeps only the newest message of each key, in the place of the
// oldest: an actor that falls behind skips what is out of date. Replaced messages are counted as
// dead letters with the reason [Conflated]. key runs on the sender's goroutine, concurrently, and
// must not block. M must be the actor's message type; otherwise spawning fails with
// [ErrNotAccepted].
func Conflate[M any, K comparable](key func(M) K) SpawnOption {
	required(key != nil, "Conflate: the function that finds a message's key is nil")
	return spawnOption(func(c *spawnConfig) {
		c.order(func() any { return &conflateQueue[M, K]{key: key, places: make(map[K]uint64)} }, nameOf[M])
	})
}

// order sets the order of the mailbox: what creates its queue, and that queue's message type.
func (c *spawnConfig) order(queue func() any, of func() string) {
	c.queue, c.queueOf, c.ordered = queue, of, false
}

type spawnOption func(*spawnConfig)

func (f spawnOption) applySpawn(c *spawnConfig) { f(c) }

// queue is the order of a mailbox that is not plain. post acquires the actor's lock, after it
// has called the user's function that ranks a message or finds its key, and ends in
// postSpecial; where the message is patient and has to wait for room it returns that wait, which
// has the message. All other methods are called with that lock held.
type queue[M any] interface {
	post(c *cell[M], e envelope[M], w *worker, as manner) (verdict, *roomWait[M])
	take() (e envelope[M], ok bool)
	oldest() *envelope[M] // what dropOldest would drop, nil for nothing
	dropOldest() envelope[M]
	len() int
	at(i int) *envelope[M] // in no particular order
	rest() []envelope[M]   // empties the queue, oldest first
	orderName() string     // what it is called
}

// evicts reports whether a full mailbox drops a message that waits in it: its queue must then know
// which, see [rankQueue].
func (o Overflow) evicts() bool { return o == DropOldest }

// special is the part of a mailbox that is bounded or not in plain order. It hands out
// one message at a time, so that the bound is exact and the order is that of the moment.
type special[M any] struct {
	queue    queue[M]
	bound    int // 0 for none
	overflow Overflow
	notes    int          // envelopes that do not count
	room     roomQueue[M] // who waits for room: nobody while there is some
	closed   bool         // the drain mark is in: nobody is let in any more

	observer MailboxObserver // nil for none; never changes
	handed   bool            // a message was handed out since the mailbox was empty, see Emptied
}

// newSpecial returns what the options ask for, nil for a plain mailbox.
func newSpecial[M any](cfg *spawnConfig) (*special[M], error) {
	if cfg.bound == 0 && cfg.queue == nil && cfg.observer == nil {
		return nil, nil
	}
	if cfg.ordered && (cfg.bound > 0 || cfg.virtual != nil) {
		return nil, errOrdered
	}
	s := &special[M]{queue: &fifoQueue[M]{}, bound: cfg.bound, overflow: cfg.overflow, observer: cfg.observer}
	if cfg.queue != nil {
		q := cfg.queue()
		typed, ok := q.(queue[M])
		if !ok {
			return nil, fmt.Errorf("%w: the mailbox option is for the message type %s, and the actor's is %s", ErrNotAccepted, cfg.queueOf(), nameOf[M]())
		}
		s.queue = typed
		if ranks, ok := q.(interface{ mayEvict() }); ok && cfg.bound > 0 && cfg.overflow.evicts() {
			ranks.mayEvict()
		}
	}
	return s, nil
}

var errOrdered = errors.New("Ordered cannot be combined with Bounded or used for a virtual actor: only its Queue may drop messages")

// manner says how a message comes to a mailbox that is bounded.
type manner uint8

const (
	hasty    manner = iota // its sender does not wait
	patient                // its sender waits for room, where the policy says so
	admitted               // it has been taken once: only a policy that drops messages drops it
)

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

	verdictAlien       // between systems: the type has no bytes, or is none that the actor accepts
	verdictUnreachable // the actor's node is lost
)

// full reports whether a message has found no room.
func (v verdict) full() bool {
	return v >= verdictFull && v <= verdictWait || v == verdictEvicted
}

// reason returns what to write on the dead letter of a message that was not taken.
func (v verdict) reason() Reason {
	switch v {
	case verdictGone:
		return NoActor
	case verdictAlien:
		return NotAccepted
	case verdictUnreachable:
		return NoConnection
	default:
		return Overflowed
	}
}

// err returns the error for whoever wants one.
func (v verdict) err() error {
	switch v {
	case verdictGone:
		return ErrStopped
	case verdictAlien:
		return errAlien
	case verdictUnreachable:
		return ErrUnreachable
	default:
		return ErrMailboxFull
	}
}

// far returns v as a carrier knows it.
func (v verdict) far() FarVerdict {
	switch v {
	case verdictTaken:
		return FarTaken
	case verdictGone:
		return FarGone
	case verdictAlien:
		return FarNotAccepted
	case verdictUnreachable:
		return FarUnreachable
	default:
		return FarFull
	}
}

// errAlien says why a message between systems was not taken.
var errAlien = fmt.Errorf("%w: another system gets only messages of registered types, and its actor those that it accepts", ErrNotAccepted)

// postSpecial is post for a mailbox with an order or a bound. replaces reports whether put will
// replace a message, and so needs no room; put puts the message into the queue and returns what
// it has replaced. Both are called with the actor's lock held, and do not call the user's code. If
// the verdict is verdictWait the sender waits from now on as wait says, which may be nil.
func (c *cell[M]) postSpecial(e *envelope[M], w *worker, wait *roomWait[M], as manner, replaces func() bool, put func() (old envelope[M], did bool)) verdict {
	c.core.lock(w)
	if c.core.takesNothing() {
		c.core.mu.Unlock()
		return verdictGone
	}
	s := c.mailbox()
	if _, drain := e.with.(drainMark); drain {
		c.core.flags.Or(draining)
		s.special.closed = true
		s.special.room.tellFirst()
	}
	out, v := s.special.admit(e, as, replaces, put)
	if v == verdictWait && wait != nil {
		s.special.room.push(wait)
	}
	wake := false
	if v == verdictTaken || v >= verdictReplaced {
		if s.inSince == 0 || s.special.queue.len() == 1 {
			s.inSince = c.core.sched().monitor.coarse.Load()
		}
		if wake = c.core.phase == running && c.core.schedule(); wake {
			s.take()
		}
	}
	full := v.full() && !e.isEvent() // which is counted as lost
	overload, waits := s.alarmed(full), s.waiting()
	c.core.mu.Unlock()
	if v == verdictTaken || v >= verdictReplaced {
		c.posted(s.special, e, waits)
	}
	if overload {
		c.overloaded(full)
	}
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
func (s *special[M]) admit(e *envelope[M], as manner, replaces func() bool, put func() (envelope[M], bool)) (out envelope[M], v verdict) {
	if e.exempt() {
		put()
		s.notes++
		return out, verdictTaken
	}
	if s.bound > 0 && s.queue.len()-s.notes >= s.bound && !replaces() {
		switch s.overflow {
		case DropNewest:
			return out, verdictDropped
		case DropOldest:
			if e.isEvent() && !s.queue.oldest().isEvent() {
				return out, verdictDropped // the dead letter would be an event again
			}
			put()
			return s.queue.dropOldest(), verdictEvicted
		case Block:
			if as != admitted {
				return out, verdictWait
			}
		default:
			if as != admitted {
				return out, verdictFull
			}
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
	if e.exempt() {
		s.notes--
	}
	s.handed = true
	return e, true
}

// fifo is a queue in pieces of a bounded size: nothing in it is moved when it grows or shrinks, and
// what a burst has taken is given back. The zero fifo is empty.
type fifo[T any] struct {
	chunks [][]T // all but the last are full
	head   int   // how much of the first is gone
	n      int
}

// most returns how many elements a piece has.
func (*fifo[T]) most() int { return piece[T](bufferBytes, bufferMost) }

func (q *fifo[T]) push(v T) {
	last := len(q.chunks) - 1
	if last < 0 || len(q.chunks[last]) == q.most() {
		q.chunks = append(q.chunks, nil)
		last++
	}
	q.chunks[last] = append(q.chunks[last], v)
	q.n++
}

func (q *fifo[T]) pop() (v T, ok bool) {
	if q.n == 0 {
		return v, false
	}
	var none T
	first := q.chunks[0]
	v, first[q.head] = first[q.head], none
	q.n--
	switch q.head++; {
	case q.n == 0 && cap(first) <= piece[T](keepBytes, keepQueue):
		q.chunks[0], q.head = first[:0], 0
	case q.n == 0:
		q.chunks, q.head = nil, 0
	case q.head == len(first):
		q.chunks[0] = nil
		q.chunks, q.head = q.chunks[1:], 0
	}
	return v, true
}

// at returns the i-th of those that wait, where it lies.
func (q *fifo[T]) at(i int) *T {
	i += q.head
	return &q.chunks[i/q.most()][i%q.most()]
}

func (q *fifo[T]) len() int { return q.n }

// internal reports whether the actor itself, or the runtime, has sent the envelope: then it has no
// rank and no key.
func (e *envelope[M]) internal() bool {
	switch e.with.(type) {
	case note[M], drainMark:
		return true
	default:
		return false
	}
}

// isEvent reports whether the envelope is an event of the system, see [Subscribe].
func (e *envelope[M]) isEvent() bool {
	_, ok := e.with.(eventNote[M])
	return ok
}

// exempt reports whether the envelope is outside of the mailbox's bound: what the actor itself has
// ordered, and the order to stop. Events are not, since others cause them.
func (e *envelope[M]) exempt() bool { return e.internal() && !e.isEvent() }

// fifoQueue is the plain order.
type fifoQueue[M any] struct {
	mail  fifo[numbered[M]]
	notes fifo[numbered[M]] // what is outside of the bound, and so is never dropped
	seq   uint64
}

type numbered[M any] struct {
	e   envelope[M]
	seq uint64
}

func (q *fifoQueue[M]) post(c *cell[M], e envelope[M], w *worker, as manner) (verdict, *roomWait[M]) {
	if as != patient || !c.crowded() {
		v := c.postSpecial(&e, w, nil, as, never, func() (none envelope[M], did bool) {
			q.put(&e)
			return none, false
		})
		if v != verdictWait || as != patient {
			return v, nil
		}
	}
	later := e // a copy, so that only a message that waits is allocated
	return c.postWaiting(&later, w, never, func() (none envelope[M], did bool) {
		q.put(&later)
		return none, false
	})
}

// never is what replaces nothing.
func never() bool { return false }

func (q *fifoQueue[M]) put(e *envelope[M]) {
	q.seq++
	if e.exempt() {
		q.notes.push(numbered[M]{*e, q.seq})
	} else {
		q.mail.push(numbered[M]{*e, q.seq})
	}
}

func (q *fifoQueue[M]) take() (e envelope[M], ok bool) {
	from := &q.mail
	if q.mail.len() == 0 || q.notes.len() > 0 && q.notes.at(0).seq < q.mail.at(0).seq {
		from = &q.notes
	}
	m, ok := from.pop()
	return m.e, ok
}

func (q *fifoQueue[M]) oldest() *envelope[M] {
	if q.mail.len() == 0 {
		return nil
	}
	return &q.mail.at(0).e
}

func (q *fifoQueue[M]) dropOldest() envelope[M] {
	m, _ := q.mail.pop()
	return m.e
}

func (q *fifoQueue[M]) len() int { return q.mail.len() + q.notes.len() }

func (q *fifoQueue[M]) at(i int) *envelope[M] {
	if n := q.mail.len(); i >= n {
		return &q.notes.at(i - n).e
	}
	return &q.mail.at(i).e
}

func (q *fifoQueue[M]) orderName() string { return "plain" }

func (q *fifoQueue[M]) rest() []envelope[M] { return takeAll(q.take) }

func takeAll[M any](take func() (envelope[M], bool)) (all []envelope[M]) {
	for {
		e, ok := take()
		if !ok {
			return all
		}
		all = append(all, e)
	}
}

// rankQueue is the order by rank, then by arrival. The messages do not move: order orders their
// numbers.
type rankQueue[M any] struct {
	rank  func(M) int
	mail  []envelope[M] // by number
	order rankOrder
}

func (q *rankQueue[M]) post(c *cell[M], e envelope[M], w *worker, as manner) (verdict, *roomWait[M]) {
	rank := 0
	if !e.internal() {
		rank = q.rank(e.msg)
	}
	if as != patient || !c.crowded() {
		v := c.postSpecial(&e, w, nil, as, never, func() (none envelope[M], did bool) {
			q.put(&e, rank)
			return none, false
		})
		if v != verdictWait || as != patient {
			return v, nil
		}
	}
	later := e
	return c.postWaiting(&later, w, never, func() (none envelope[M], did bool) {
		q.put(&later, rank)
		return none, false
	})
}

// mayEvict says that messages will be dropped. It is called before the first message.
func (q *rankQueue[M]) mayEvict() { q.order.evict = true }

func (q *rankQueue[M]) put(e *envelope[M], rank int) {
	_, drain := e.with.(drainMark)
	n := q.order.put(rank, drain, !e.exempt())
	if int(n) == len(q.mail) {
		q.mail = append(q.mail, *e)
	} else {
		q.mail[n] = *e
	}
}

// remove takes out the message of that number.
func (q *rankQueue[M]) remove(n int32) envelope[M] {
	e := q.mail[n]
	q.mail[n] = envelope[M]{}
	if !q.order.remove(n) {
		return e
	}
	if q.mail = q.mail[:0]; cap(q.mail) > piece[envelope[M]](keepBytes, keepQueue) {
		q.mail = nil
		q.order.shrink()
	}
	return e
}

func (q *rankQueue[M]) take() (e envelope[M], ok bool) {
	if len(q.order.turns) == 0 {
		return e, false
	}
	return q.remove(q.order.turns[0]), true
}

// oldest returns the oldest of those with the lowest rank: what is least urgent.
func (q *rankQueue[M]) oldest() *envelope[M] {
	if len(q.order.drops) == 0 {
		return nil
	}
	return &q.mail[q.order.drops[0]]
}

func (q *rankQueue[M]) dropOldest() envelope[M] { return q.remove(q.order.drops[0]) }

func (q *rankQueue[M]) len() int { return len(q.order.turns) }

func (q *rankQueue[M]) at(i int) *envelope[M] { return &q.mail[q.order.turns[i]] }

func (q *rankQueue[M]) orderName() string { return "priority" }

func (q *rankQueue[M]) rest() []envelope[M] { return takeAll(q.take) }

// rankOrder says which message of a rankQueue is handled next, and which is dropped next: two heaps of
// numbers, of which a mailbox that never evicts has only the first.
type rankOrder struct {
	nodes []ranked   // by number
	free  []int32    // numbers that are not in use
	turns numberHeap // the next to be handled first
	drops numberHeap // the next to be dropped first
	evict bool       // drops is kept; set before the first message
	seq   uint64
}

type ranked struct {
	rank int
	last bool // the drain mark is, whatever the ranks
	seq  uint64
	turn int32 // where it is in turns
	drop int32 // where it is in drops, -1 if it is not
}

// put numbers a message and puts it into the heaps. The number is that of a message that was removed,
// or the next one.
func (q *rankOrder) put(rank int, last, mayDrop bool) (n int32) {
	q.seq++
	r := ranked{rank: rank, last: last, seq: q.seq, drop: -1}
	if most := len(q.free) - 1; most >= 0 {
		n, q.free = q.free[most], q.free[:most]
		q.nodes[n] = r
	} else {
		n = int32(len(q.nodes))
		q.nodes = append(q.nodes, r)
	}
	q.turns.push(n, turnOrder{q})
	if q.evict && mayDrop {
		q.drops.push(n, dropOrder{q})
	}
	return n
}

// remove takes a message out of both heaps. It reports whether none is left: then the numbers begin
// anew.
func (q *rankOrder) remove(n int32) (emptied bool) {
	r := &q.nodes[n]
	q.turns.remove(r.turn, turnOrder{q})
	if r.drop >= 0 {
		q.drops.remove(r.drop, dropOrder{q})
	}
	if len(q.turns) > 0 {
		q.free = append(q.free, n)
		return false
	}
	q.nodes, q.free = q.nodes[:0], q.free[:0]
	return true
}

// shrink gives back what an exceptional burst has taken. REQUIRES: there is no message.
func (q *rankOrder) shrink() { q.nodes, q.free, q.turns, q.drops = nil, nil, nil, nil }

// numberHeap is a heap of the numbers of nodes, which know where in it they are.
type numberHeap []int32

// heapOrder says which node is before which, and is told where a node has gone.
type heapOrder interface {
	before(a, b int32) bool
	moved(n int32, to int)
}

func (h *numberHeap) push(n int32, o heapOrder) {
	*h = append(*h, n)
	h.up(len(*h)-1, o)
}

func (h *numberHeap) remove(at int32, o heapOrder) {
	i, last := int(at), len(*h)-1
	n := (*h)[last]
	if *h = (*h)[:last]; i < last {
		h.set(i, n, o)
		h.down(i, o)
		h.up(i, o)
	}
}

func (h numberHeap) set(i int, n int32, o heapOrder) {
	h[i] = n
	o.moved(n, i)
}

func (h numberHeap) up(i int, o heapOrder) {
	n := h[i]
	for i > 0 && o.before(n, h[(i-1)/2]) {
		h.set(i, h[(i-1)/2], o)
		i = (i - 1) / 2
	}
	h.set(i, n, o)
}

func (h numberHeap) down(i int, o heapOrder) {
	n := h[i]
	for {
		child := 2*i + 1
		if child+1 < len(h) && o.before(h[child+1], h[child]) {
			child++
		}
		if child >= len(h) || !o.before(h[child], n) {
			break
		}
		h.set(i, h[child], o)
		i = child
	}
	h.set(i, n, o)
}

// turnOrder is the order in which messages are handled.
type turnOrder struct{ *rankOrder }

func (o turnOrder) before(i, j int32) bool {
	a, b := &o.nodes[i], &o.nodes[j]
	if a.last != b.last {
		return b.last
	}
	if a.rank != b.rank {
		return a.rank > b.rank
	}
	return a.seq < b.seq
}

func (o turnOrder) moved(n int32, to int) { o.nodes[n].turn = int32(to) }

// dropOrder is the order in which messages are dropped.
type dropOrder struct{ *rankOrder }

func (o dropOrder) before(i, j int32) bool {
	a, b := &o.nodes[i], &o.nodes[j]
	if a.rank != b.rank {
		return a.rank < b.rank
	}
	return a.seq < b.seq
}

func (o dropOrder) moved(n int32, to int) { o.nodes[n].drop = int32(to) }

// conflateQueue is the plain order with at most one message a key. The user's function is
// called once for each message, when that comes: later it might say something else.
type conflateQueue[M any, K comparable] struct {
	mail   fifo[conflated[M, K]]
	notes  fifo[numbered[M]] // what is outside of the bound, and so is never dropped
	key    func(M) K
	places map[K]uint64 // the number of the key's message
	first  uint64       // the number of the message at the head of mail
	seq    uint64
	came   uint64 // counts messages by when they came, also those that have waited for room
}

type conflated[M any, K comparable] struct {
	e     envelope[M]
	key   K
	keyed bool // not so for an event, or if the key equals nothing, like NaN
	seq   uint64
	came  uint64 // when it came, which for one that has waited for room is before it was put in
}

func (q *conflateQueue[M, K]) post(c *cell[M], e envelope[M], w *worker, as manner) (verdict, *roomWait[M]) {
	m := conflated[M, K]{e: e}
	if !e.internal() {
		m.key = q.key(e.msg)
		same := m.key
		m.keyed = same == m.key
	}
	if as != patient || !c.crowded() {
		v := c.postSpecial(&e, w, nil, as,
			func() bool { return m.keyed && q.has(m.key) },
			func() (old envelope[M], did bool) { return q.put(m) })
		if v != verdictWait || as != patient {
			return v, nil
		}
	}
	later := m
	return c.postWaiting(&later.e, w,
		func() bool {
			q.number(&later)
			return later.keyed && q.has(later.key)
		},
		func() (old envelope[M], did bool) { return q.put(later) })
}

// has reports whether a message of that key waits.
func (q *conflateQueue[M, K]) has(key K) bool {
	_, ok := q.places[key]
	return ok
}

// number notes when a message has come.
func (q *conflateQueue[M, K]) number(m *conflated[M, K]) {
	if m.came == 0 {
		q.came++
		m.came = q.came
	}
}

// put puts a message into the place of the one with its key, or at the end. It returns the older
// of the two with that key, which may be m: a newer one may have found a place while m waited for
// room.
func (q *conflateQueue[M, K]) put(m conflated[M, K]) (old envelope[M], did bool) {
	q.number(&m)
	if n, ok := q.places[m.key]; ok && m.keyed {
		p := q.mail.at(int(n - q.first))
		if m.came < p.came {
			return m.e, true
		}
		old, p.e, p.came = p.e, m.e, m.came
		return old, true
	}
	q.seq++
	if m.seq = q.seq; m.e.exempt() {
		q.notes.push(numbered[M]{m.e, m.seq})
		return old, false
	}
	if m.keyed {
		q.places[m.key] = q.first + uint64(q.mail.len())
	}
	q.mail.push(m)
	return old, false
}

func (q *conflateQueue[M, K]) take() (e envelope[M], ok bool) {
	if q.mail.len() == 0 || q.notes.len() > 0 && q.notes.at(0).seq < q.mail.at(0).seq {
		m, ok := q.notes.pop()
		return m.e, ok
	}
	return q.dropOldest(), true
}

func (q *conflateQueue[M, K]) oldest() *envelope[M] {
	if q.mail.len() == 0 {
		return nil
	}
	return &q.mail.at(0).e
}

func (q *conflateQueue[M, K]) dropOldest() envelope[M] {
	m, _ := q.mail.pop()
	q.first++
	if m.keyed {
		delete(q.places, m.key)
	}
	if q.mail.chunks == nil { // the queue gave its memory back: so does the map
		q.places = make(map[K]uint64)
	}
	return m.e
}

func (q *conflateQueue[M, K]) len() int { return q.mail.len() + q.notes.len() }

func (q *conflateQueue[M, K]) at(i int) *envelope[M] {
	if n := q.mail.len(); i >= n {
		return &q.notes.at(i - n).e
	}
	return &q.mail.at(i).e
}

func (q *conflateQueue[M, K]) orderName() string { return "conflate" }

func (q *conflateQueue[M, K]) rest() []envelope[M] { return takeAll(q.take) }
