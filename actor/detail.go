package actor

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"reflect"
	"slices"
	"time"
)

// Inspector is an actor that shows the tools a view of its state: anything that
// encoding/json can marshal. It is called in the actor's turn and must not block; what it
// returns belongs to the caller from then on.
type Inspector interface{ Inspect() any }

// Detail describes one actor in detail. Info, the mailbox, the links and what only the actor itself
// knows are each from one moment, but not from the same one, since the actor keeps running.
//
// Oldest is exact to a few milliseconds. In a bounded or observed mailbox in which hundreds wait it may be
// that of a message that came a few of them earlier. With [Priority], [Conflate] or [Ordered] it is the
// time since the mailbox was last empty: no message waits for longer.
type Detail struct {
	Info
	Parent  PID
	Mail    []Mail        // what waits in the mailbox, by type, most first; estimated beyond 512 messages
	Oldest  time.Duration // how long the oldest message waits
	Current string        // the type of the message that is being handled, empty when none is
	Sender  PID           // who sent that
	Waiting int           // handlers of a Reentrant actor that wait while others run

	Watchers int       // how many watches of this actor there are
	Links    []PID     // actors that it is linked to, at most 512
	Failures []Failure // the last ones, newest first, at most 8

	// Busy says that the actor did not answer in time: it is inside a handler, or others are before
	// it. Then Timers, Watches and Stash are empty, and View is that of its gate.
	Busy    bool
	Timers  []Timer // by key
	Watches []PID
	Stash   int // messages set aside
	View    any // what its Inspect returned, nil if it is not an Inspector
}

// Mail is how many messages of a type wait. If more than 512 messages wait, it is an estimate from
// that many of them, evenly spread: a rare type may be missing, and the counts add up to about the
// length of the mailbox. Those that wait in a [Queue] are counted together, as "(ordered)".
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

// detailMost is how many messages, links or children are looked at while a lock is held: that takes
// some 50 µs.
const detailMost = 512

// lookPatience is how long Detail waits for an actor's turn when its context does not say.
const lookPatience = 100 * time.Millisecond

// Detail describes the living actor with that address. Some of it only the actor itself knows; it
// is asked for that before its next message. If it has not answered within 100 ms, or before ctx
// ends, the rest is returned with Busy set, and with the view of its gate if that is an
// [Inspector]. Detail fails with [ErrStopped] if there is no such actor. It costs messages nothing.
// It must not be called in a handler.
func (s *System) Detail(ctx context.Context, pid PID) (Detail, error) {
	c := s.local(pid)
	if c == nil {
		return Detail{}, fmt.Errorf("detail: %w", nobody(pid.String()))
	}
	d := Detail{Info: c.info(), Parent: c.parent.pid()}
	c.impl().detail(&d)
	c.detail(&d)
	ctx, cancel := context.WithTimeout(ctx, lookPatience)
	defer cancel()
	var own Detail
	seen := make(chan struct{})
	c.signal(signal{kind: sigLook, look: func() {
		defer close(seen) // also when Inspect ends the goroutine
		c.impl().detailOwn(&own)
	}})
	if !s.sched.waitFor(seen, ctx.Done()) {
		d.Busy = true
		d.View = c.gateView()
		return d, nil
	}
	d.Timers, d.Watches, d.Stash, d.View = own.Timers, own.Watches, own.Stash, own.View
	slices.SortFunc(d.Timers, func(a, b Timer) int { return cmp.Compare(a.Key, b.Key) })
	slices.SortFunc(d.Watches, comparePIDs)
	return d, nil
}

// gateView is the view of an actor that does not answer: what its gate shows, nil for nothing.
func (c *core) gateView() any {
	if !c.isGated() {
		return nil
	}
	c.mu.Lock()
	var in Inspector
	if c.ext != nil && c.ext.gateway != nil {
		in, _ = c.ext.gateway.gate.(Inspector)
	}
	c.mu.Unlock()
	if in == nil {
		return nil
	}
	var view any
	inspect(in, &view)
	return view
}

// detail adds what can be seen from outside.
func (c *core) detail(d *Detail) {
	var links []*core
	func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if ext := c.ext; ext != nil {
			for peer := range ext.links {
				if links = append(links, peer); len(links) == detailMost {
					break
				}
			}
			d.Waiting = len(c.waitingHandlers())
			d.Watchers = ext.watchers.n
			d.Failures = slices.Clone(ext.recent)
		}
	}()
	slices.Reverse(d.Failures)
	for _, peer := range links {
		d.Links = append(d.Links, peer.pid())
	}
	slices.SortFunc(d.Links, comparePIDs)
}

func comparePIDs(a, b PID) int {
	return cmp.Or(cmp.Compare(a.node, b.node), cmp.Compare(a.inc, b.inc), cmp.Compare(a.path, b.path), cmp.Compare(a.id, b.id))
}

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
	seen := make([]reflect.Type, 0, detailMost)
	notes := make([]note[M], 0, detailMost)
	drains, ordered, envelopes, surplus := 0, 0, 0, 0
	func() {
		c.core.mu.Lock()
		defer c.core.mu.Unlock()
		s := c.mailbox()
		if s == nil {
			return
		}
		d.Oldest = s.age(c.core.sched().monitor.coarse.Load())
		envelopes, surplus = s.envelopes()
		s.sample(detailMost, func(e *envelope[M]) {
			switch x := e.inner().(type) {
			case note[M]:
				notes = append(notes, x)
			case drainMark:
				drains++
			case *ownMail[M]: // which message that is the queue says when its turn comes
				ordered++
			default:
				seen = append(seen, e.messageType())
			}
		})
	}()
	counts := c.mailNames(seen, notes, drains)
	if ordered > 0 {
		counts[orderedMail] = ordered
	}
	d.addMail(counts, envelopes, surplus)
}

// mailNames counts by name: without the lock, since names are made.
func (c *cell[M]) mailNames(seen []reflect.Type, notes []note[M], drains int) map[string]int {
	counts := make(map[string]int)
	for _, t := range seen {
		counts[typeText(t)]++
	}
	for _, n := range notes {
		counts["("+n.origin()+")"]++
	}
	if drains > 0 {
		counts["(drain)"] = drains
	}
	return counts
}

// orderedMail stands for the messages in a [Queue], which says only in its turn which it is.
const orderedMail = "(ordered)"

// addMail adds the counts of a sample of the envelopes. Of those of a [Queue] some may be surplus.
func (d *Detail) addMail(counts map[string]int, envelopes, surplus int) {
	sampled := 0
	for _, n := range counts {
		sampled += n
	}
	for typ, n := range counts {
		n = int(math.Round(float64(n) * float64(envelopes) / float64(sampled)))
		if typ == orderedMail {
			n -= surplus
		}
		if n > 0 {
			d.Mail = append(d.Mail, Mail{typ, n})
		}
	}
	slices.SortFunc(d.Mail, func(a, b Mail) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Type, b.Type))
	})
}

// typeName returns the printed type of the message; what the actor sends itself is named
// by where it comes from.
func (e *envelope[M]) typeName() string {
	switch x := e.inner().(type) {
	case note[M]:
		return "(" + x.origin() + ")"
	case drainMark:
		return "(drain)"
	case *ownMail[M]:
		return orderedMail
	}
	return typeText(e.messageType())
}

// inner returns what comes with the message beside a header.
func (e *envelope[M]) inner() any {
	if h, ok := e.with.(*headed); ok {
		return h.inner
	}
	return e.with
}

// messageType returns the dynamic type of the message, nil if it is a nil interface.
func (e *envelope[M]) messageType() reflect.Type {
	if t := reflect.TypeFor[M](); t.Kind() != reflect.Interface {
		return t // without a copy of the message
	}
	return reflect.TypeOf(e.msg)
}

// typeText returns what %T prints.
func typeText(t reflect.Type) string {
	if t == nil {
		return "<nil>"
	}
	return t.String()
}

// detailOwn adds what only the actor's turn may look at.
func (c *cell[M]) detailOwn(d *Detail) {
	if m := c.peekIncarnation(); m != nil {
		for key, t := range m.timers {
			in, every := c.core.sys().clock.pending(t.node)
			d.Timers = append(d.Timers, Timer{Key: key, In: in, Every: every})
		}
		for pid := range m.watches {
			for range m.watches.of(pid) {
				d.Watches = append(d.Watches, pid)
			}
		}
		d.Stash = len(m.stash)
	}
	if in, ok := c.actor.(Inspector); ok && !c.core.isFenced() {
		c.core.enterUser()
		inspect(in, &d.View)
		c.core.leaveUser()
	}
}

// inspect calls the user's Inspect and survives a panic. The view is set also when Inspect ends the goroutine.
func inspect(in Inspector, view *any) {
	returned := false
	defer func() {
		if !returned {
			*view = "Inspect failed: " + recovered(recover()).Error()
		}
	}()
	*view = in.Inspect()
	returned = true
}
