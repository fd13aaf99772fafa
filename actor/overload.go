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

// overloaded publishes an Overload if it is due, or writes it to the log if nobody hears it. full says
// that a message has found no room.
func (c *cell[M]) overloaded(full bool) {
	if o, due := c.takeOverload(full); due {
		c.core.tellOverload(o)
	}
}

func (c *core) tellOverload(o Overload) {
	switch sys := c.sys(); {
	case sys.listeners.hears(o):
		o.PID = c.pid()
		sys.publish(o)
	case sys.warnings.due(warning{actor: c.id}, time.Now()):
		o.PID = c.pid()
		sys.warnOverload(o)
	}
}

func (c *cell[M]) takeOverload(full bool) (o Overload, due bool) {
	var senders map[*core]int
	func() {
		c.core.mu.Lock()
		defer c.core.mu.Unlock()
		s := c.mailbox()
		if s == nil {
			return
		}
		defer s.setLimit()
		if due = s.alarmed(full); !due {
			return
		}
		o.Length = s.waiting()
		for s.alarm *= 2; s.alarm <= o.Length; {
			s.alarm *= 2
		}
		o.Oldest = s.age(c.core.sched().monitor.coarse.Load())
		senders = s.senders()
	}()
	o.Top = topOf(senders)
	return o, due
}

// topOf returns those who have sent most; of equals the one that was spawned first comes first, so that a seed replays it.
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
	case s.overflowing() > 0:
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
	step := max(1, (s.overflowing()+len(s.in))/overloadSample)
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
				from, info.messageType = s.batch[i].from(), s.batch[i].typeName()
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
