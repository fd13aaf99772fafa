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
	plan   Schedule    // nil for After and Every
	active bool        // owned by the actor's turn
	queued atomic.Bool // a tick lies in the mailbox: a slow actor gets no second one
}

// After sends msg to the actor itself when d has passed, never earlier. The key
// names the timer: setting another with the same key replaces it, and a message of
// the replaced one that already waits in the mailbox is not delivered. Timers end
// with the incarnation: a restart or a stop cancels them. For use in the actor's
// own callbacks.
func (ctx *Context[M]) After(key string, d time.Duration, msg M) { ctx.set(key, d, msg, true) }

// Every sends msg to the actor itself each period, the first time when one has
// passed. Ticks do not pile up: while one waits in the mailbox the next are left
// out. For the key and the timer's end see [Context.After]. Every panics when the
// period is not positive.
func (ctx *Context[M]) Every(key string, period time.Duration, msg M) {
	if period <= 0 {
		panic(fmt.Sprintf("actor: Every(%q): period %v is not positive", key, period))
	}
	ctx.set(key, period, msg, false)
}

// Schedule says when something is due: package schedule makes one of a cron line. Next
// returns the first time after the given one, and the zero time when there is none.
type Schedule interface {
	Next(after time.Time) time.Time
}

// On sends msg to the actor itself each time the schedule says, not earlier by the
// system's clock, and at most once for each time. What is due while the message of the
// time before still waits or is being handled is left out. For the key and the timer's end
// see [Context.After].
func (ctx *Context[M]) On(key string, plan Schedule, msg M) {
	required(plan != nil, "On: the schedule is nil: package schedule parses one")
	ctx.Cancel(key)
	ctx.cell().plan(key, plan, msg)
}

// plan sets the timer for the schedule's next time.
func (c *cell[M]) plan(key string, plan Schedule, msg M) {
	now := time.Now()
	next := plan.Next(now)
	if next.IsZero() {
		return
	}
	c.context().set(key, next.Sub(now), msg, true)
	if t := c.needIncarnation().timers[key]; t != nil {
		t.plan = plan
	}
}

// Cancel cancels the timer of that key and reports whether there was one. Its
// message is not delivered any more, even if it waits in the mailbox already. For
// use in the actor's own callbacks.
func (ctx *Context[M]) Cancel(key string) bool {
	c := ctx.cell()
	m := c.peekIncarnation()
	if m == nil {
		return false
	}
	t, ok := m.timers[key]
	if ok {
		t.cancel(c.sys())
		delete(m.timers, key)
	}
	return ok
}

func (ctx *Context[M]) set(key string, d time.Duration, msg M, once bool) {
	c := ctx.cell()
	ctx.Cancel(key)
	if c.ghost() {
		return // nobody could cancel it
	}
	t := &timer[M]{key: key, msg: msg, once: once, active: true}
	fire := func() {
		if !t.queued.Swap(true) {
			c.post(&envelope[M]{with: t}, nil)
		}
	}
	if once {
		t.node = c.sys().clock.after(d, fire)
	} else {
		t.node = c.sys().clock.every(d, fire)
	}
	more := c.needIncarnation()
	if more.timers == nil {
		more.timers = make(map[string]*timer[M])
	}
	more.timers[key] = t
}

func (t *timer[M]) origin() string { return "timer " + t.key }

func (t *timer[M]) message(c *cell[M]) (msg M, ok bool) {
	t.queued.Store(false)
	if t.active && t.once {
		delete(c.mailbox.inc.timers, t.key)
		if t.plan != nil {
			c.plan(t.key, t.plan, t.msg)
		}
	}
	return t.msg, t.active
}

func (t *timer[M]) cancel(s *System) {
	t.active = false
	s.clock.cancel(t.node)
}
