package actor

import "time"

// Unobtrusive makes a message type one that does not reset the receive timeout:
// embed it. It has no size.
//
//	type poll struct{ actor.Unobtrusive }
type Unobtrusive struct{}

func (Unobtrusive) unobtrusive() {}

// idle is the receive timeout of an incarnation. Not each message sets a timer anew:
// the timer looks, when it fires, at when the last message was handled.
type idle[M any] struct {
	after  time.Duration
	msg    M
	last   time.Time // owned by the turn
	node   *timerNode
	active bool // owned by the turn
}

// SetReceiveTimeout sends msg to the actor itself whenever it has handled no message for d,
// repeatedly while the silence lasts, and never early. Messages whose type embeds [Unobtrusive] do
// not break the silence. A d of 0 ends it, a second call replaces it, and a restart forgets it. For
// use in the actor's own callbacks.
func (ctx *Context[M]) SetReceiveTimeout(d time.Duration, msg M) {
	c := ctx.cell()
	if !c.core.enterRuntime() {
		return
	}
	defer c.core.exitRuntime()
	m := c.needIncarnation()
	if m.idle != nil {
		m.idle.cancel(c.core.sys())
		m.idle = nil
	}
	if d <= 0 {
		return
	}
	m.idle = &idle[M]{after: d, msg: msg, last: time.Now(), active: true}
	m.idle.arm(c, d)
}

// arm sets the timer. REQUIRES: the turn owns c.
func (i *idle[M]) arm(c *cell[M], d time.Duration) {
	i.node = c.core.sys().clock.after(d, func() { c.post(&envelope[M]{with: i}, nil) })
}

func (i *idle[M]) origin() string { return "receive timeout" }

func (i *idle[M]) message(c *cell[M]) (msg M, ok bool) {
	if !i.active {
		return msg, false
	}
	if rest := i.after - time.Since(i.last); rest > 0 {
		i.arm(c, rest)
		return msg, false
	}
	i.last = time.Now()
	i.arm(c, i.after)
	return i.msg, true
}

func (i *idle[M]) cancel(s *System) {
	i.active = false
	s.clock.cancel(i.node)
}

// noticed notes that a message was handled.
func (i *idle[M]) noticed(e *envelope[M]) {
	if e.with == any(i) {
		return
	}
	if _, quiet := any(e.msg).(interface{ unobtrusive() }); !quiet {
		i.last = time.Now()
	}
}
