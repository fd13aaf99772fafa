package actor

import (
	"fmt"
	"sync/atomic"
	"time"
)

// timer is a timer of an actor: a message to itself, later. It belongs to the
// incarnation that set it.
type timer[M any] struct {
	key    string
	msg    M
	node   *timerNode
	once   bool
	plan   *planned    // nil for After and Every
	active bool        // owned by the actor's turn
	header Header      // of the message in which an After was set, and of its own
	queued atomic.Bool // a tick lies in the mailbox: a slow actor gets no second one
}

// After sends msg to the actor itself when d has passed, never earlier. The key names the timer:
// setting another with the same key replaces it, and a message of the replaced one that is already
// in the mailbox is not delivered. Timers end with the incarnation: a restart or a stop cancels
// them. The message has the header of the message in whose handler the timer was set, unless that was
// the timer's own: a timer that sets itself again is like the ticks of Every and On, which have none.
// For use in the actor's own callbacks.
func (ctx *Context[M]) After(key string, d time.Duration, msg M) { ctx.set(key, d, msg, true, nil) }

// Every sends msg to the actor itself each period, the first time after one period. Ticks do not
// pile up: while one waits in the mailbox, further ones are left out. For the key and the timer's
// end see [Context.After]. Every panics if the period is not positive.
func (ctx *Context[M]) Every(key string, period time.Duration, msg M) {
	if period <= 0 {
		panic(fmt.Sprintf("actor: Every(%q): period %v is not positive", key, period))
	}
	ctx.set(key, period, msg, false, nil)
}

// Schedule says when something is due: package schedule makes one from a cron expression. Next
// returns the first time after the given one, and the zero time if there is none.
type Schedule interface {
	Next(after time.Time) time.Time
}

// On sends msg to the actor itself each time the schedule says, and at most once for each time. If the
// schedule's times are of the system's clock, as those of a cron expression are, it is not earlier by
// that clock; and if the clock is set back by more than an hour, the same times come again. A time is
// left out if the message of the previous one is still waiting. If Next panics, the actor fails, and
// has the timer no longer. For the key and the timer's end see [Context.After].
func (ctx *Context[M]) On(key string, plan Schedule, msg M) {
	required(plan != nil, "On: the schedule is nil: package schedule parses one")
	ctx.Cancel(key)
	now := time.Now()
	if next := plan.Next(now); !next.IsZero() {
		ctx.set(key, next.Sub(now), msg, true, &planned{plan, next})
	}
}

// planned is when the timer of a schedule is due.
type planned struct {
	plan Schedule
	due  time.Time
}

// setBackMost is by how much the system's clock may be set back before the same times come again.
const setBackMost = time.Hour

// Cancel cancels the timer of that key and reports whether there was one. Its message is no longer
// delivered, even if it is already in the mailbox. For use in the actor's own callbacks.
func (ctx *Context[M]) Cancel(key string) bool {
	c := ctx.cell()
	if !c.core.enterRuntime() {
		return false
	}
	defer c.core.exitRuntime()
	return c.cancelTimer(key)
}

// cancelTimer is Cancel. REQUIRES: the turn owns c.
func (c *cell[M]) cancelTimer(key string) bool {
	m := c.peekIncarnation()
	if m == nil {
		return false
	}
	t, ok := m.timers[key]
	if ok {
		t.cancel(c.core.sys())
		delete(m.timers, key)
	}
	return ok
}

// set is After, Every and On.
func (ctx *Context[M]) set(key string, d time.Duration, msg M, once bool, plan *planned) {
	c := ctx.cell()
	if !c.core.enterRuntime() {
		return // nobody could cancel it
	}
	defer c.core.exitRuntime()
	c.cancelTimer(key)
	t := &timer[M]{key: key, msg: msg, once: once, plan: plan, active: true}
	if once && plan == nil && !c.handlesTimer(key) {
		t.header = c.turnHeader()
	}
	c.setTimer(t, d)
}

// handlesTimer reports whether the message that is being handled is that of the timer with that key.
// REQUIRES: the turn owns c.
func (c *cell[M]) handlesTimer(key string) bool {
	t, ok := c.message().with.(*timer[M])
	return ok && t.key == key
}

// setTimer starts a timer whose key has none. REQUIRES: the turn owns c.
func (c *cell[M]) setTimer(t *timer[M], d time.Duration) {
	fire := func() {
		if !t.queued.Swap(true) {
			c.post(&envelope[M]{with: t}, nil)
		}
	}
	if t.once {
		t.node = c.core.sys().clock.after(d, fire)
	} else {
		t.node = c.core.sys().clock.every(d, fire)
	}
	inc := c.needIncarnation()
	if inc.timers == nil {
		inc.timers = make(map[string]*timer[M])
	}
	inc.timers[t.key] = t
}

func (t *timer[M]) origin() string { return "timer " + t.key }

func (t *timer[M]) message(c *cell[M]) (msg M, ok bool) {
	t.queued.Store(false)
	if !t.active || !t.once {
		return t.msg, t.active
	}
	delete(c.mailbox().inc.timers, t.key)
	if t.plan != nil && !t.again(c) {
		return msg, false
	}
	c.setHeader(t.header)
	return t.msg, true
}

// again sets the timer for the schedule's next time. It reports false if the last one is still to come,
// because the clock was set back.
func (t *timer[M]) again(c *cell[M]) (due bool) {
	now := time.Now()
	early := t.plan.due.Sub(now)
	next := t.plan.due
	if early <= 0 || early > setBackMost {
		c.core.enterUser()
		next = t.plan.plan.Next(now)
		c.core.leaveUser()
	}
	if !next.IsZero() {
		c.setTimer(&timer[M]{key: t.key, msg: t.msg, once: true, plan: &planned{t.plan.plan, next}, active: true}, next.Sub(now))
	}
	return early <= 0
}

func (t *timer[M]) cancel(s *System) {
	t.active = false
	s.clock.cancel(t.node)
}
