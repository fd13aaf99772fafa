package actor

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Inspector is an actor that shows the tools a view of its state: whatever
// encoding/json can make a document of. It is called in the actor's turn and must not
// block; what it returns belongs to the caller from then on.
type Inspector interface{ Inspect() any }

// Detail describes one actor closely, at one moment.
type Detail struct {
	Info
	Parent  PID
	Mail    []Mail        // what waits in the mailbox, by type, most first
	Oldest  time.Duration // how long the oldest message waits, to a few milliseconds
	Current string        // the type of the message that is being handled, empty when none is
	Sender  PID           // who sent that
	Waits   PID           // whom an ask in the handler waits for, the first of them if several handlers wait
	Waiting int           // handlers of a Reentrant actor that wait while others run

	Watchers int       // how many watches of this actor there are
	Links    []PID     // actors that it is linked to
	Failures []Failure // the last ones, newest first, at most 8

	// Busy says that the actor did not get to the rest in time: it is inside a handler, or
	// others are before it. Then Timers, Watches, Stash and View are empty.
	Busy    bool
	Timers  []Timer // by key
	Watches []PID
	Stash   int // messages set aside
	View    any // what its Inspect returned, nil if it is no Inspector
}

// Mail is how many messages of a type wait.
type Mail struct {
	Type  string
	Count int
}

// Timer is a timer that an actor has set.
type Timer struct {
	Key   string
	In    time.Duration // until it is due
	Every time.Duration // its period, 0 for one that is due once
}

// Failure is a failure that an actor has had.
type Failure struct {
	Time        time.Time
	Err         error
	MessageType string // what was being handled
}

const keepFailures = 8

// lookPatience is how long Detail waits for an actor's turn when its context does not say.
const lookPatience = 100 * time.Millisecond

// Detail describes the living actor with that address. Part of that only the actor itself
// knows: it is asked for it before its next message, and when it has not answered within
// 100 ms, or until ctx ends, the rest is returned with Busy set. It fails with [ErrStopped] when
// there is no such actor. It costs nothing on the way of a message. It must not be called
// in a handler.
func (s *System) Detail(ctx context.Context, pid PID) (Detail, error) {
	c, err := s.resolve(pid)
	if err != nil {
		return Detail{}, fmt.Errorf("detail: %w", err)
	}
	d := Detail{Info: c.info(), Parent: c.parent.pid()}
	c.impl().detail(&d)
	c.detail(&d)
	ctx, cancel := context.WithTimeout(ctx, lookPatience)
	defer cancel()
	var own Detail
	seen := make(chan struct{})
	c.signal(signal{kind: sigLook, look: func() {
		c.impl().detailOwn(&own)
		close(seen)
	}})
	if !s.sched.waitFor(seen, ctx.Done()) {
		d.Busy = true
		return d, nil
	}
	d.Timers, d.Watches, d.Stash, d.View = own.Timers, own.Watches, own.Stash, own.View
	return d, nil
}

// detail adds what can be seen from outside.
func (c *core) detail(d *Detail) {
	var waits *core
	var links []*core
	func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if ext := c.ext; ext != nil {
			waits, links = ext.inquiry.target(), slices.Collect(maps.Keys(ext.links))
			for _, i := range c.waitingHandlers() {
				waits = cmp.Or(waits, i.target())
			}
			d.Waiting = len(c.waitingHandlers())
			d.Watchers = ext.watchers.n
			d.Failures = slices.Clone(ext.recent)
		}
	}()
	slices.Reverse(d.Failures)
	d.Waits = waits.pid()
	for _, peer := range links {
		d.Links = append(d.Links, peer.pid())
	}
	slices.SortFunc(d.Links, comparePIDs)
}

func comparePIDs(a, b PID) int { return cmp.Compare(a.String(), b.String()) }

// noteFailure remembers a failure for who inspects the actor.
func (c *core) noteFailure(err error, messageType string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	ext := c.needExtLocked()
	if len(ext.recent) == keepFailures {
		ext.recent = slices.Delete(ext.recent, 0, 1)
	}
	ext.recent = append(ext.recent, Failure{Time: time.Now(), Err: err, MessageType: messageType})
}

// detail adds what the mailbox shows.
func (c *cell[M]) detail(d *Detail) {
	at := c.currentMessage()
	d.Current, d.Sender = at.messageType, at.sender
	counts := make(map[string]int)
	func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		s := c.mailbox.Load()
		if s == nil {
			return
		}
		d.Oldest = s.age(c.sys().sched.monitor.coarse.Load())
		for e := range s.all() {
			counts[e.typeName()]++
		}
	}()
	for typ, n := range counts {
		d.Mail = append(d.Mail, Mail{typ, n})
	}
	slices.SortFunc(d.Mail, func(a, b Mail) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Type, b.Type))
	})
}

// typeName returns the printed type of the message; what the actor sends itself is named
// by where it comes from.
func (e *envelope[M]) typeName() string {
	with := e.with
	if h, ok := with.(*headed); ok {
		with = h.inner
	}
	switch x := with.(type) {
	case note[M]:
		return "(" + x.origin() + ")"
	case drainMark:
		return "(drain)"
	}
	return fmt.Sprintf("%T", e.msg)
}

// detailOwn adds what only the actor's turn may look at.
func (c *cell[M]) detailOwn(d *Detail) {
	if m := c.peekIncarnation(); m != nil {
		for key, t := range m.timers {
			in, every := c.sys().clock.pending(t.node)
			d.Timers = append(d.Timers, Timer{Key: key, In: in, Every: every})
		}
		for pid := range m.watches {
			for range m.watches.of(pid) {
				d.Watches = append(d.Watches, pid)
			}
		}
		d.Stash = len(m.stash)
	}
	slices.SortFunc(d.Timers, func(a, b Timer) int { return cmp.Compare(a.Key, b.Key) })
	slices.SortFunc(d.Watches, comparePIDs)
	if in, ok := c.actor.(Inspector); ok {
		c.enterUser()
		d.View = inspect(in)
		c.leaveUser()
	}
}

// inspect calls the user's Inspect and survives it.
func inspect(in Inspector) (view any) {
	returned := false
	defer func() {
		if !returned {
			view = "Inspect failed: " + recovered(recover()).Error()
		}
	}()
	view = in.Inspect()
	returned = true
	return view
}
