package actor

import (
	"context"
	"runtime"
	"slices"
	"sync/atomic"
)

// A mailbox is what an actor needs while it has messages: the messages that wait and the one that
// is being handled. The first message brings one from a pool; an actor that
// has been idle for a while gives it back, so that an idle actor is its cell alone.
//
// The mailbox in it has two buffers and takes turns with them. Senders append to `in`
// under the actor's lock; the actor takes the whole of it and works through it without
// the lock. Two slices that swap roles allocate nothing once they have grown to the usual
// burst, lie in one piece, and know their length, which every tool asks for. What one of them
// has no room for goes into over.
//
// The alternative is a lock-free list of nodes: one word for an idle actor, one
// compare-and-swap for a message. But a sender from outside of any worker has no free list of
// its own to take the node from, and a burst touches a cache line for each message where the
// buffers touch one for two. ARCHITECTURE.md has the prototypes' figures.
//
// The envelopes of a batch are not changed until the turn clears them under the lock, and
// head is atomic: so who holds the lock can look at the message that is being handled and
// at all that waits, while the handler runs, and handling a message costs one atomic store
// for that.
type mailbox[M any] struct {
	in      []envelope[M]  // guarded by the actor's lock
	over    *bufferList[M] // what in has not had room for, between in and batch; guarded by the lock
	spare   *bufferPool[M] // never changes
	limit   int            // the length of in at which an Overload may be due, guarded by the lock
	inSince int64          // when the oldest of in came, by the coarse clock, guarded by the lock
	special *special[M]    // holds the mail that batch has not taken yet, nil for a plain mailbox; never changes

	_ [64]byte // senders write what is above, the turn what is below: on one cache line each would take it from the other

	batch  []envelope[M] // changed by the turn under the lock, read by the turn or under the lock
	head   atomic.Uint32 // how much of batch has been taken, and the mark of user code: see enter; written by the turn
	clear  int           // batch[:clear] is empty already; owned by the turn
	behind bool          // batch is not all that had come when it was taken; owned by the turn

	handled uint64 // messages handled that the actor has not booked yet, guarded by the lock
	since   int64  // when the oldest of batch came, guarded by the lock
	alarm   int    // how much mail there is when the next Overload is due, guarded by the lock

	cur     *envelope[M]    // the message being handled, in batch or in own; owned by the turn
	own     envelope[M]     // a copy of one that is not handled as it was sent; owned by the turn
	copied  bool            // own holds something; owned by the turn
	resumed *envelope[M]    // cur, when its handler has waited while others ran; written by the turn under the lock
	header  Header          // of the message being handled, written by the turn under the lock
	inc     *incarnation[M] // what most actors never need, owned by the turn

	asker    pendingAsk         // the request being handled, guarded by the lock
	merged   context.Context    // its context joined with the actor's life, guarded by the lock
	mergedOf context.CancelFunc // guarded by the lock
}

// envelope is a message on its way. With a tell its sender comes, who is in memory anyway:
// nothing is allocated.
type envelope[M any] struct {
	msg  M
	with any // nil; *core, who has told it; pendingAsk, note[M], *headed, *ownMail[M] or drainMark
}

// plain reports whether the envelope is a tell without a header.
func (e *envelope[M]) plain() bool {
	switch e.with.(type) {
	case nil, *core:
		return true
	}
	return false
}

// from returns who has sent the message, nil when that was no actor.
func (e *envelope[M]) from() *core { return senderIn(e.with) }

// senderIn returns the sender that comes with a message.
func senderIn(with any) *core {
	switch x := with.(type) {
	case *core:
		return x
	case *headed:
		return senderIn(x.inner)
	case pendingAsk:
		return x.sender()
	}
	return nil
}

// passedOn returns what of it goes on with a message that is forwarded.
func passedOn(with any) any {
	switch with.(type) {
	case *core, pendingAsk:
		return with
	}
	return nil
}

// note stands in a mailbox for a message that is made when its turn comes: by a timer,
// a watch, a pipe. message reports false when it is not wanted any more. origin says where it
// comes from.
type note[M any] interface {
	origin() string
	message(c *cell[M]) (msg M, ok bool)
}

var (
	_ note[any] = (*timer[any])(nil)
	_ note[any] = (*idle[any])(nil)
	_ note[any] = (*downNote[any])(nil)
	_ note[any] = (*result[any])(nil)
	_ note[any] = eventNote[any]{}
)

// drainMark in a mailbox stops the actor when its turn comes: what lies before it
// is handled first. Behind it nothing is taken.
type drainMark struct{}

const (
	keepEnvelopes = 16                // buffer that a pooled mailbox may keep, and
	openBytes     = 128               // a batch in bytes, with at least one message, of a mailbox that had none, and
	openMost      = 4                 // in messages
	keepQueue     = 64                // the queue of an empty mailbox that is not plain
	keepBytes     = 16 << 10          // and in bytes
	overloadStart = 1024              // mail at which the first Overload is due
	firstLook     = overloadStart - 1 // and what may lie beside the message that has woken the actor
)

// put appends, and returns how much the turn has not taken yet.
// REQUIRES: the actor's lock held.
func (s *mailbox[M]) put(e *envelope[M], now int64) int {
	if len(s.in) == cap(s.in) {
		s.grow()
	}
	if len(s.in) == 0 {
		s.inSince = now
	}
	s.in = append(s.in, *e)
	return s.buffered() + len(s.in)
}

// open puts the message that wakes an idle actor where its turn finds it without the
// lock. REQUIRES: the actor's lock held, the actor idle, the mailbox empty or what was in
// it has come before the actor could take any.
func (s *mailbox[M]) open(e *envelope[M], now int64) {
	if len(s.in) > 0 {
		s.put(e, now)
		s.take()
		return
	}
	s.since = now
	if len(s.batch) < cap(s.batch) { // all before it is handled: head stays as it is, which saves a store that is an exchange
		s.batch = append(s.batch, *e)
		return
	}
	if cap(s.batch) == 0 {
		s.batch = make([]envelope[M], 0, piece[envelope[M]](openBytes, openMost))
	}
	s.batch = append(s.batch[:0], *e)
	s.setHead(0)
	s.clear = 0
}

// take moves what has arrived to where the turn finds it.
// REQUIRES: the actor's lock held by the turn, and all of the former batch handled.
func (s *mailbox[M]) take() bool {
	s.sweep()
	switch {
	case s.special != nil:
		since := s.special.since(s.inSince)
		e, ok := s.special.take()
		if !ok {
			return false
		}
		s.batch, s.since = append(s.batch[:0], e), since
		if since, ok := s.special.admitWaiting(); ok && s.special.queue.len() == 1 {
			s.inSince = since
		}
	case s.buffered() > 0:
		s.spare.put(s.batch)
		b := s.over.next()
		s.batch, s.since = b.mail, b.since
	case len(s.in) == 0:
		return false
	default:
		s.in, s.batch, s.since = s.batch[:0], s.in, s.inSince
	}
	s.setHead(0)
	s.clear, s.behind = 0, s.buffered() > 0
	s.setLimit()
	return true
}

// behindBatch reports whether there may be mail behind the batch. REQUIRES: the actor's lock held by
// the turn.
func (s *mailbox[M]) behindBatch() bool { return len(s.in) > 0 || s.special != nil || s.over != nil }

// The mark of user code in head. It counts while the message before head is not swept: what an earlier turn has left
// says nothing. In the window between two marked messages the turn reads
// nothing that the next turn of a fenced actor writes: so it need not take the mark back.
const (
	inHandler uint32 = 1 << iota // the turn is in the handler of the message before head, or between two of them
	claimed                      // the actor was taken away from it
	headShift = iota
)

// done returns how much of the batch has been taken.
func (s *mailbox[M]) done() int { return int(s.head.Load() >> headShift) }

// unmark takes the mark back of a handler that waits. REQUIRES: c.mu held by the turn.
func (c *cell[M]) unmark() {
	if s := c.mailbox(); s.head.Load()&inHandler != 0 {
		s.setHead(s.done())
	}
}

// marked reports whether the mark of head counts. REQUIRES: the actor's lock held.
func (s *mailbox[M]) marked(head uint32) bool {
	return head&inHandler != 0 && int(head>>headShift) > s.clear
}

// setHead notes that n of the batch have been taken, and that the turn is not in a handler.
func (s *mailbox[M]) setHead(n int) { s.head.Store(uint32(n) << headShift) }

// peek returns the next envelope of the batch, which must hold one.
// REQUIRES: the turn owns the actor.
func (s *mailbox[M]) peek() *envelope[M] { return &s.batch[s.done()] }

// enter takes the envelope that is next by head, and marks that its handler runs: with mark, which head is then. It
// reports false when the actor was taken away from the handler before.
func (s *mailbox[M]) enter(head uint32) (mark uint32, ok bool) {
	i := head >> headShift
	s.cur = &s.batch[i]
	mark = (i+1)<<headShift | inHandler
	return mark, head&claimed == 0 && s.head.CompareAndSwap(head, mark)
}

// leave takes the mark back, if there is one. It reports false when the actor was taken away from the handler.
func (s *mailbox[M]) leave() bool {
	h := s.head.Load()
	return h&claimed == 0 && (h&inHandler == 0 || s.head.CompareAndSwap(h, h&^inHandler))
}

// owned reports whether the actor was not taken away from the handler.
func (s *mailbox[M]) owned() bool { return s.head.Load()&claimed == 0 }

// claim takes the actor away from the handler that head says is running. It reports false when there
// is none. REQUIRES: the actor's lock held by the monitor.
func (s *mailbox[M]) claim() bool {
	h := s.head.Load()
	return s.marked(h) && s.head.CompareAndSwap(h, h|claimed)
}

// next takes the next envelope, which is no plain message.
func (s *mailbox[M]) next() {
	s.cur = s.peek()
	s.setHead(s.done() + 1) // last: who takes the actor away from its handler begins with head
}

// sweep counts the messages that have been handled, and lets go of them.
// REQUIRES: the actor's lock held by the turn.
func (s *mailbox[M]) sweep() {
	head := s.done()
	s.handled += uint64(head - s.clear)
	if head == s.clear+1 { // the usual case, without a call
		s.batch[s.clear] = envelope[M]{}
	} else {
		clear(s.batch[s.clear:head])
	}
	s.clear = head
	if s.copied && s.cur == nil {
		s.own, s.header, s.copied = envelope[M]{}, nil, false
		if s.special != nil {
			s.special.ordered = nil
		}
	}
}

// left reports whether the batch holds mail. REQUIRES: the turn owns the actor.
func (s *mailbox[M]) left() bool { return s.done() < len(s.batch) }

// putFirst puts envelopes before all others, in their order. The one that is being handled stays where
// others look for it.
// REQUIRES: the actor's lock held by the turn.
func (s *mailbox[M]) putFirst(first []envelope[M]) {
	head := s.done()
	current := s.batch[max(s.clear, head-1):head] // one at most
	s.handled += uint64(head - s.clear - len(current))
	s.batch = slices.Concat(current, first, s.batch[head:])
	s.head.Store(uint32(len(current))<<headShift | s.head.Load()&inHandler)
	s.clear = 0
	s.setLimit()
}

// waiting returns how much mail there is. REQUIRES: the actor's lock held.
func (s *mailbox[M]) waiting() int {
	n, surplus := s.envelopes()
	return max(0, n-surplus) // surplus counts what is dropped before its envelope is here
}

// envelopes returns how many envelopes there are, and how many of them, in a mailbox with a [Queue], stand for
// messages that it has dropped. REQUIRES: the actor's lock held.
func (s *mailbox[M]) envelopes() (n, surplus int) {
	n = len(s.batch) - s.done() + s.buffered() + len(s.in)
	if s.special != nil {
		n += s.special.queue.len()
		if q, ok := s.special.queue.(*ownQueue[M]); ok {
			surplus = q.surplus()
		}
	}
	return n, surplus
}

// sample yields all that waits if that is no more than most, and otherwise as much of it, evenly
// spread. REQUIRES: the actor's lock held meanwhile.
func (s *mailbox[M]) sample(most int, yield func(*envelope[M])) {
	n, _ := s.envelopes()
	step := max(1, (n+most-1)/most)
	i := 0
	part := func(mail []envelope[M]) {
		for ; i < len(mail); i += step {
			yield(&mail[i])
		}
		i -= len(mail)
	}
	part(s.batch[s.done():])
	if s.over != nil {
		for _, b := range s.over.full[s.over.first:] {
			part(b.mail)
		}
	}
	part(s.in)
	if s.special != nil {
		for ; i < s.special.queue.len(); i += step {
			yield(s.special.queue.at(i))
		}
	}
}

// rest empties the mailbox and returns all that was in it, oldest first, in the buffers in which
// it lay: it may be millions. REQUIRES: the actor's lock held by the turn that owns the actor.
func (s *mailbox[M]) rest() [][]envelope[M] {
	s.sweep()
	if s.special == nil && s.waiting() == 0 {
		return nil
	}
	all := append([][]envelope[M]{s.batch[s.done():]}, s.buffers()...)
	s.in, s.over, s.batch, s.clear, s.behind = nil, nil, nil, 0, false
	s.setHead(0)
	if s.special != nil {
		all = append(all, s.special.rest())
	}
	return all
}

// shrink gives back what an exceptional burst has taken.
// REQUIRES: the actor's lock held by the turn, the mailbox empty.
func (s *mailbox[M]) shrink(keep int) {
	if keep = min(keep, bufferLen[M]()); s.over != nil || cap(s.in) > keep || cap(s.batch) > keep {
		s.shrinkTo(keep)
	}
}

func (s *mailbox[M]) shrinkTo(keep int) {
	s.over = nil
	if cap(s.in) > keep {
		s.spare.put(s.in)
		s.in = nil
	}
	if cap(s.batch) > keep {
		s.spare.put(s.batch)
		s.batch, s.clear = nil, 0
		s.setHead(0)
	}
}

// portable reports whether the mailbox can serve another actor.
// REQUIRES: the actor's lock held, the actor idle.
func (s *mailbox[M]) portable() bool { return s.inc == nil && s.special == nil && s.asker == nil }

// incarnation holds what belongs to an incarnation and what most actors never need. All of
// it is owned by the turn.
type incarnation[M any] struct {
	timers    map[string]*timer[M]
	watches   watches[M]
	results   map[*result[M]]struct{}
	behaviors []func(*Context[M], M) error
	stash     []envelope[M]
	stashed   bool // the message that is being handled is in stash
	idle      *idle[M]

	recordings []*recording // of what is handled; a list does not change
}

// acquireMailbox returns the actor's mailbox, made on first need. REQUIRES: c.mu held.
func (c *cell[M]) acquireMailbox() *mailbox[M] {
	s := c.mailbox()
	if s == nil {
		s = c.mailboxes().get()
		c.box = s
	}
	return s
}

// needMailbox is acquireMailbox for who needs to know nothing of it. REQUIRES: c.mu held.
func (c *cell[M]) needMailbox() { c.acquireMailbox() }

// mailboxes returns the pool of the actor's kind.
func (c *cell[M]) mailboxes() *mailboxPool[M] { return c.core.kind.mailboxes.(*mailboxPool[M]) }

// needIncarnation returns what the incarnation needs beside its mailbox, made on first need. REQUIRES: the turn owns c.
func (c *cell[M]) needIncarnation() *incarnation[M] {
	c.core.mu.Lock()
	s := c.acquireMailbox()
	c.core.mu.Unlock()
	if s.inc == nil {
		s.inc = new(incarnation[M])
	}
	return s.inc
}

// peekIncarnation returns the same, nil when there is none. REQUIRES: the turn owns c.
func (c *cell[M]) peekIncarnation() (m *incarnation[M]) {
	c.core.mu.Lock()
	if s := c.mailbox(); s != nil {
		m = s.inc
	}
	c.core.mu.Unlock()
	return m
}

// message returns the envelope that is being handled, the zero one outside of a message.
// REQUIRES: the turn owns c.
func (c *cell[M]) message() *envelope[M] {
	if s := c.mailbox(); s != nil && s.cur != nil {
		return s.cur
	}
	return &envelope[M]{}
}

// current returns the message that is being handled, nil when there is none, or when the actor
// was taken away from the caller, a callback. It need not keep the monitor off: as long as the
// actor is not fenced it has the mailbox that it had, and in that cur is the caller's.
func (c *cell[M]) current() *envelope[M] {
	s := c.mailbox()
	if s == nil || c.core.isFenced() {
		return nil
	}
	return s.cur
}

// currentWith returns what has come with it.
func (c *cell[M]) currentWith() any {
	if e := c.current(); e != nil {
		return e.with
	}
	return nil
}

// takeAsk returns the request that is being handled, and takes the duty to answer it from the
// handler. It returns nil when there is none, or when the actor was taken away from the caller,
// a callback.
func (c *cell[M]) takeAsk() pendingAsk {
	if !c.core.enterRuntime() {
		return nil
	}
	defer c.core.exitRuntime()
	ask, asked := c.message().with.(pendingAsk)
	if !asked {
		return nil
	}
	ask.passTo(nil)
	c.core.taken = true
	return ask
}

// noticed notes that a message was handled; m may be nil. The silence begins when the handler has
// returned.
func (m *incarnation[M]) noticed(e *envelope[M]) {
	if m != nil && m.idle != nil {
		m.idle.noticed(e)
	}
}

// release ends what the incarnation had under way. What it had stashed goes back to
// the head of the mailbox: the next incarnation, or the dead letters, get it in order. Watches of the
// children of keep, which may be nil, are left.
func (m *incarnation[M]) release(c *cell[M], keep *core) {
	for _, t := range m.timers {
		t.cancel(c.core.sys())
	}
	m.watches.end(func(w *watch[M]) bool {
		w.kept = keep != nil && w.target != nil && w.target.parent == keep
		return !w.kept
	})
	for e := range m.results {
		e.active = false
	}
	if m.idle != nil {
		m.idle.cancel(c.core.sys())
	}
	if len(m.stash) > 0 {
		c.core.mu.Lock()
		c.mailbox().putFirst(m.stash)
		c.core.mu.Unlock()
	}
}

// tell implements target.
func (c *cell[M]) tell(e envelope[M], w *worker) verdict { return c.post(&e, w) }

// tellAdmitted is tell for a message that another mailbox, or a [Place], has taken before: a bound does
// not refuse it.
func (c *cell[M]) tellAdmitted(e envelope[M]) verdict {
	if c.core.kind.queue == nil {
		return c.post(&e, nil)
	}
	v, _ := c.core.kind.queue.(queue[M]).post(c, e, nil, admitted)
	return v
}

// tellOrWait implements target.
func (c *cell[M]) tellOrWait(e envelope[M], w *worker) (verdict, roomWaiter) {
	if c.core.kind.queue != nil {
		v, wait := c.core.kind.queue.(queue[M]).post(c, e, w, patient)
		if wait == nil {
			return v, nil
		}
		return v, wait
	}
	return c.post(&e, w), nil
}

// post puts an envelope into the mailbox, and makes the actor runnable if it was idle. When
// the verdict is not verdictTaken the envelope is still the caller's.
func (c *cell[M]) post(e *envelope[M], w *worker) verdict {
	if c.core.kind.queue != nil {
		return c.postOrdered(e, w)
	}
	if c.core.flags.Load()&ended != 0 { // which also brings the cell's second cache line, while lock waits for the first
		return verdictGone
	}
	c.core.lock(w)
	if c.core.takesNothing() {
		c.core.mu.Unlock()
		return verdictGone
	}
	s := c.mailbox()
	if s == nil {
		s = c.acquireMailbox()
	}
	if c.core.phase == running && c.core.schedule() { // nobody is at the batch: the turn need not fetch
		s.open(e, c.core.sched().monitor.coarse.Load())
		c.core.mu.Unlock()
		c.dispatch(w, e)
		return verdictTaken
	}
	n := s.put(e, c.core.sched().monitor.coarse.Load())
	full := n >= s.limit
	c.core.mu.Unlock()
	if full {
		c.overloaded(e.byClock())
	}
	if n%yieldEvery == 0 && w == nil {
		// A sender that runs ahead of the workers on one processor would go on for the 10 ms
		// that Go gives a goroutine, and leave megabytes of mail that is in no cache.
		runtime.Gosched()
	}
	return verdictTaken
}

// postOrdered is post for a mailbox that is not plain.
func (c *cell[M]) postOrdered(e *envelope[M], w *worker) verdict {
	v, _ := c.core.kind.queue.(queue[M]).post(c, *e, w, hasty)
	return v
}

// accept implements impl, for a message from another system.
func (c *cell[M]) accept(msg, with any) verdict {
	m, ok := msg.(M)
	if !ok {
		return verdictAlien
	}
	return full(c.post(&envelope[M]{msg: m, with: c.core.fromCarrier(with)}, nil))
}

// fromCarrier marks what comes with a message for an Inline actor. A carrier's goroutine must not run
// it: it reads for all actors of its system, also the answer that the handler may wait for. Nor must one
// that sends on what a virtual actor's senders have sent.
func (c *core) fromCarrier(with any) any {
	if c.traits.runsOn() != onSender {
		return with
	}
	return markFar(with)
}

// markFar marks what comes with a message that an Inline actor is not to handle on the goroutine that
// brings it.
func markFar(with any) any {
	if h, ok := with.(*headed); ok {
		marked := *h // others may have it as well
		marked.far = true
		return &marked
	}
	return &headed{inner: with, far: true}
}

// runMost is how many messages from another system are put into a mailbox under one lock.
const runMost = 64

// acceptRun implements impl. Up to runMost messages wait here for being posted together.
func (c *cell[M]) acceptRun(next func(scratch any) (FarDelivery, bool), refused func(*FarDelivery, verdict)) {
	scratch := new(M)
	var run []envelope[M]
	var d FarDelivery // refused lets it escape: once, and not for each message
	for more := true; more; {
		if d, more = next(scratch); more {
			e := envelope[M]{with: c.core.fromCarrier(d.with())}
			if in, ok := d.Message.(*M); ok && in == scratch {
				var none M
				e.msg, *scratch = *scratch, none
			} else if e.msg, ok = d.Message.(M); !ok {
				refused(&d, verdictAlien)
				continue
			}
			run = append(run, e)
		}
		if len(run) == runMost || !more && len(run) > 0 {
			c.postRun(run, refused)
			clear(run)
			run = run[:0]
		}
	}
}

// postRun is post for several messages.
func (c *cell[M]) postRun(run []envelope[M], refused func(*FarDelivery, verdict)) {
	n := 0
	if c.core.kind.queue == nil {
		n = c.postPlain(run)
	}
	for i := range run[n:] {
		e := &run[n+i]
		if v := full(c.post(e, nil)); v != verdictTaken {
			d := FarDelivery{From: FarSender{e.from()}, Message: e.msg}
			ask, _ := askIn(e.with)
			d.Request, _ = ask.(*FarRequest)
			refused(&d, v)
		}
	}
}

// postPlain puts messages into a plain mailbox under one lock. It returns how many it has put there:
// all or none.
func (c *cell[M]) postPlain(run []envelope[M]) int {
	c.core.lock(nil)
	if c.core.takesNothing() {
		c.core.mu.Unlock()
		return 0
	}
	s, now := c.acquireMailbox(), c.core.sched().monitor.coarse.Load()
	wake, n, rest := c.core.phase == running && c.core.schedule(), 0, run
	if wake {
		s.open(&run[0], now)
		rest = run[1:]
	}
	for i := range rest {
		n = s.put(&rest[i], now)
	}
	full := n >= s.limit
	c.core.mu.Unlock()
	if wake {
		c.dispatch(nil, &run[0])
	}
	if full {
		c.overloaded(false)
	}
	if n >= yieldEvery {
		runtime.Gosched() // see post
	}
	return len(run)
}

// reclaim takes the mailbox of an actor back that does not need it.
func (c *cell[M]) reclaim() {
	c.core.mu.Lock()
	c.core.remembered = false
	if !c.core.scheduled {
		c.releaseMailbox()
	}
	c.core.mu.Unlock()
}

// releaseMailbox gives the mailbox back if another actor could use it.
// REQUIRES: c.mu held, the actor idle or gone.
func (c *cell[M]) releaseMailbox() {
	s := c.mailbox()
	if s == nil || s.alarm > overloadStart && c.core.phase != stopped { // suspended: when it runs again the overload ends
		return
	}
	if s.portable() && s.waiting() == 0 && len(c.core.waitingHandlers()) == 0 && !c.core.isFenced() {
		c.box = nil
		s.sweep()
		s.alarm, s.limit = overloadStart, firstLook
		c.mailboxes().put(s)
	}
}

// drain queues the order to stop behind all that is in the mailbox now, and closes the mailbox.
func (c *cell[M]) drain() {
	e := &envelope[M]{with: drainMark{}}
	if c.core.kind.queue != nil {
		c.core.kind.queue.(queue[M]).post(c, *e, nil, hasty) // see postSpecial
	} else {
		c.postMark(e)
	}
	if c.core.flags.Load()&draining == 0 { // it is stopping or gone
		c.core.signal(signal{kind: sigStop, mode: stopDrain})
	}
}

// postMark is post for the drain mark of a plain mailbox.
func (c *cell[M]) postMark(e *envelope[M]) {
	c.core.lock(nil)
	if c.core.takesNothing() {
		c.core.mu.Unlock()
		return
	}
	c.core.flags.Or(draining)
	s, now := c.acquireMailbox(), c.core.sched().monitor.coarse.Load()
	wake := c.core.phase == running && c.core.schedule()
	if wake {
		s.open(e, now)
	} else {
		s.put(e, now)
	}
	c.core.mu.Unlock()
	if wake {
		c.dispatch(nil, e)
	}
}

// discardAll discards what nobody will handle. Messages that were told are only counted, and not
// described, when nobody listens and later ones push them out of [System.DeadLetters].
func (c *cell[M]) discardAll(rest [][]envelope[M], reason Reason) {
	sys, unread := c.core.sys(), 0
	if !sys.listeners.any() {
		unread = pushedOut(rest)
	}
	for _, mail := range rest {
		for i := range mail {
			e := &mail[i]
			if unread > 0 && e.plain() {
				sys.dead.count(reason)
			} else {
				c.discard(e, reason, ErrStopped)
			}
			unread--
			sys.discarded.Add(1) // each at once: Shutdown looks whether this gets on
		}
	}
}

// pushedOut returns how many envelopes come before the last ones that [System.DeadLetters] has room
// for. It looks at no others: while it does, [System.Shutdown] sees nothing get on.
func pushedOut[M any](rest [][]envelope[M]) int {
	n, kept := 0, 0
	for _, mail := range rest {
		n += len(mail)
	}
	for _, mail := range slices.Backward(rest) {
		for i := range slices.Backward(mail) {
			if kept == deadLettersKept {
				return n
			}
			if mail[i].sent() { // others become no dead letters
				kept++
			}
			n--
		}
	}
	return n
}

// discard turns an envelope that nobody will handle into a dead letter; its asker, if
// there is one, gets err.
func (c *cell[M]) discard(e *envelope[M], reason Reason, err error) {
	if h, ok := e.with.(*headed); ok {
		e.with = h.inner
	}
	switch x := e.with.(type) {
	case nil, *core:
		c.core.sys().deadLetter(&c.core, e.from(), e.msg, reason)
	case pendingAsk:
		c.core.sys().deadLetter(&c.core, x.sender(), e.msg, reason)
		x.reject(err, nil)
	case eventNote[M]:
		if reason == Overflowed {
			c.core.sys().listeners.missed.Add(1)
		}
	}
	// Other notes and the drain mark are from the actor itself or from the runtime: nobody else
	// sent them, and nobody misses them.
}
