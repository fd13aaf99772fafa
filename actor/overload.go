package actor

import (
	"cmp"
	"slices"
	"time"
)

// Overload says that an actor does not keep up with its messages: at 1024 messages, and again at
// each doubling; and once with a Length of 0 when the mailbox is empty again. A bounded mailbox
// reports it when a message finds no room, whatever happens to the message, and not again before it
// has been empty. Without a subscriber it is logged: see [WithWarnings].
//
// Those of one actor are published in the order in which they happen. Overloads that begin and end while
// an earlier one is still being published may be left out, with their ends.
type Overload struct {
	PID    PID
	Length int           // messages that wait
	Oldest time.Duration // how long the oldest has waited, about; at most, see Detail.Oldest
	Top    []Sender      // who sent most of it, by a sample; at most 3, most first
}

// Sender says how many messages in a mailbox came from one sender.
type Sender struct {
	PID      PID // zero for senders outside of any actor
	Messages int // in the sample
}

func (Overload) event() {}

const (
	overloadSample = 256 // messages looked at for the top senders
	topSenders     = 3
)

// overloaded tells of an Overload if one is due, for a message that is in a mailbox without a bound. byClock says
// that the clock has posted it.
func (c *cell[M]) overloaded(byClock bool) {
	c.core.mu.Lock()
	s := c.mailbox()
	due := s != nil && s.alarmed(false)
	if due {
		c.noteOverload(s)
	} else if s != nil {
		s.setLimit()
	}
	c.core.mu.Unlock()
	if due {
		c.core.tellOverloadsOf(byClock)
	}
}

// noteOverload notes an Overload that is due. The caller calls tellOverloadsOf next, without the lock.
// REQUIRES: the actor's lock held, and s is its mailbox.
func (c *cell[M]) noteOverload(s *mailbox[M]) {
	o := overload{Overload: Overload{Length: s.waiting(), Oldest: s.age(c.core.sched().monitor.coarse.Load())}}
	if q, ok := c.core.kind.queue.(*ownQueue[M]); ok { // its lock comes before the actor's
		o.senders = q.own.senders
	} else {
		senders := s.senders()
		o.senders = func() map[*core]int { return senders }
	}
	for s.alarm *= 2; s.alarm <= o.Length; {
		s.alarm *= 2
	}
	s.setLimit()
	c.core.addOverload(o)
}

// overload is an Overload that has happened and is not told yet.
type overload struct {
	Overload

	senders func() map[*core]int // who has sent what waits; nil if nothing does
}

// overloads are those of an actor, in the order in which they have happened. Guarded by its mu.
type overloads struct {
	due     []overload
	telling bool // somebody is telling, and goes on with these
}

// addOverload adds an Overload to those that tellOverloads is to tell. REQUIRES: c.mu held.
func (c *core) addOverload(o overload) {
	ext := c.needExtLocked()
	if ext.overloads == nil {
		ext.overloads = new(overloads)
	}
	ext.overloads.add(o)
}

func (a *overloads) add(o overload) {
	if o.Length == 0 { // leaves out what has begun and ended since the last end: there could be any number
		for i, before := range slices.Backward(a.due) {
			if before.Length == 0 {
				a.due = slices.Delete(a.due, i+1, len(a.due))
				return
			}
		}
	}
	a.due = append(a.due, o)
}

// next returns the next one to tell. telling says that the caller has told the one before.
func (a *overloads) next(telling bool) (o overload, ok bool) {
	if a.telling && !telling {
		return o, false
	}
	if a.telling = len(a.due) > 0; !a.telling {
		return o, false
	}
	o = a.due[0]
	a.due = slices.Delete(a.due, 0, 1)
	return o, true
}

// tellOverloadsOf is tellOverloads for a message that may be by the clock. The clock must not wait, and whoever
// hears of an overload may take long: the handler of the log, or a carrier. A driver fires the timers itself.
func (c *core) tellOverloadsOf(byClock bool) {
	if byClock && !c.sys().isDriven() {
		c.sched().background(c, c.tellOverloads)
	} else {
		c.tellOverloads()
	}
}

// tellOverloads tells what is due, one after the other: of two that told at the same time, one could tell
// the end before the other tells what has ended. So it leaves all to whoever is at it already. REQUIRES: c has
// had an Overload.
func (c *core) tellOverloads() {
	through := false
	defer func() {
		if !through { // a carrier's Send has panicked
			c.mu.Lock()
			c.ext.overloads.telling = false
			c.mu.Unlock()
		}
	}()
	for telling := false; ; telling = true {
		c.mu.Lock()
		o, ok := c.ext.overloads.next(telling)
		c.mu.Unlock()
		if !ok {
			through = true
			return
		}
		c.tellOverload(o)
	}
}

// tellOverload publishes an Overload, or writes it to the log if nobody hears it.
func (c *core) tellOverload(o overload) {
	sys := c.sys()
	hears := sys.listeners.hears(o.Overload)
	if !hears && (o.Length == 0 || !sys.warnings.due(warning{actor: c.id}, time.Now())) {
		return
	}
	o.PID = c.pid()
	if o.senders != nil {
		o.Top = topOf(o.senders())
	}
	if hears {
		sys.publish(o.Overload)
	} else {
		sys.warnOverload(o.Overload)
	}
}

// topOf returns those who have sent most; of equals the one that was spawned first comes first, so
// that a seed replays it.
func topOf(senders map[*core]int) (top []Sender) {
	for from, n := range senders {
		top = append(top, Sender{from.pid(), n})
	}
	slices.SortFunc(top, func(a, b Sender) int {
		return cmp.Or(b.Messages-a.Messages, cmp.Compare(a.PID.id, b.PID.id), cmp.Compare(a.PID.node, b.PID.node))
	})
	return top[:min(len(top), topSenders)]
}

// alarmed reports whether an Overload is due. full says that a message has found no room.
// REQUIRES: the actor's lock held.
func (s *mailbox[M]) alarmed(full bool) bool {
	if s.bounded() {
		return full && s.alarm == overloadStart
	}
	return s.waiting() >= s.alarm
}

func (s *mailbox[M]) bounded() bool { return s.special != nil && s.special.bound > 0 }

// age returns how long the oldest message has waited at the time now of the coarse clock.
// REQUIRES: the actor's lock held.
func (s *mailbox[M]) age(now int64) time.Duration {
	since := s.inSince
	switch {
	case s.left():
		since = s.since
	case s.special != nil:
		since = s.special.since(since)
	case s.buffered() > 0:
		since = s.over.full[s.over.first].since
	}
	if s.waiting() == 0 || since == 0 {
		return 0
	}
	return time.Duration(max(0, now-since))
}

// senders counts who sent what waits, by a sample. REQUIRES: the actor's lock held.
func (s *mailbox[M]) senders() map[*core]int {
	m := make(map[*core]int)
	if s.special != nil {
		s.sample(overloadSample, func(e *envelope[M]) { m[e.from()]++ })
		return m
	}
	step := max(1, (s.buffered()+len(s.in))/overloadSample)
	i := 0
	for _, mail := range s.buffers() {
		for ; i < len(mail); i += step {
			m[mail[i].from()]++
		}
		i -= len(mail)
	}
	return m
}

// messageInfo is what the tools want to know about the message that is being handled.
type messageInfo struct {
	messageType string
	sender      PID
}

// currentMessage describes the message that is being handled, or was the last of its batch.
func (c *cell[M]) currentMessage() messageInfo { return c.describe(-1) }

// nextMessage describes the message that will be handled next.
func (c *cell[M]) nextMessage() messageInfo { return c.describe(0) }

func (c *cell[M]) describe(offset int) (info messageInfo) {
	var from *core
	func() {
		c.core.mu.Lock()
		defer c.core.mu.Unlock()
		if s := c.mailbox(); s != nil {
			if s.resumed != nil && offset < 0 {
				from, info.messageType = s.resumed.from(), s.resumed.typeName()
			} else if i := s.done() + offset; i >= s.clear && i < len(s.batch) {
				e := &s.batch[i]
				if offset < 0 {
					e = s.said(e)
				}
				from, info.messageType = e.from(), e.typeName()
			}
		}
	}()
	info.sender = from.pid()
	return info
}

// nextSent returns the message that is handled next, if somebody has sent it.
func (c *cell[M]) nextSent() (msg any, ok bool) {
	c.core.mu.Lock()
	defer c.core.mu.Unlock()
	s := c.mailbox()
	if s == nil || !s.left() {
		return nil, false
	}
	e := s.peek()
	return e.msg, e.sent()
}

// setLimit notes at which length of in an Overload may be due, for senders, who do not look
// at the batch: that would take its cache line away from the turn.
// REQUIRES: the actor's lock held.
func (s *mailbox[M]) setLimit() { s.limit = s.alarm - (len(s.batch) - s.done()) }
