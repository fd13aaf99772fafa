package attack_test

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/greenroom-go/greenroom/actor"
)

// ticking is a timer of an incarnation.
type ticking struct {
	*watching
	key   string
	once  bool
	ticks int
	most  int       // after which a repeated one is canceled in its own tick
	least time.Time // when it may come first
	every time.Duration
}

// doTimer sets a timer, or cancels one.
func (p *player) doTimer(ctx *actor.Context[mail], r *rand.Rand) {
	key, d := fmt.Sprint("timer", r.IntN(3)), time.Duration(1+r.IntN(2000))*time.Microsecond
	if r.IntN(3) == 0 {
		p.cancelTimer(ctx, key)
		return
	}
	if old := p.timers[key]; old != nil {
		old.over.Store(true)
	}
	t := &ticking{watching: p.n.w.expect(p, nil, "tick "+key), key: key, once: r.IntN(2) == 0, most: 1 + r.IntN(4), least: time.Now().Add(d), every: d}
	if p.timers == nil {
		p.timers = make(map[string]*ticking)
	}
	p.timers[key] = t
	tick := p.note(func() { p.tick(ctx, t) })
	switch {
	case !t.once:
		ctx.Every(key, d, tick)
	case r.IntN(4) == 0:
		if ctx.On(key, onceAt(t.least), tick); !time.Now().Before(t.least) { // it may have been too late to be set
			ctx.Cancel(key)
			delete(p.timers, key)
			t.over.Store(true)
		}
	default:
		ctx.After(key, d, tick)
	}
}

// onceAt is a schedule with one time.
type onceAt time.Time

// Next implements [actor.Schedule].
func (o onceAt) Next(after time.Time) time.Time {
	if at := time.Time(o); after.Before(at) {
		return at
	}
	return time.Time{}
}

// cancelTimer compares what Cancel reports with the timers that there are.
func (p *player) cancelTimer(ctx *actor.Context[mail], key string) {
	t := p.timers[key]
	delete(p.timers, key)
	was := ctx.Cancel(key)
	if t != nil {
		t.over.Store(true)
	}
	if was != (t != nil) && !p.n.mayBeKilled() && !p.late() {
		p.n.w.Report("timer: Cancel of %q by %s says %t, and there is %+v", key, p.n, was, t)
	}
}

// late reports whether the stash, which has a timer of its own, may be in the way.
func (p *player) late() bool { return p.n.w.mode.late > 0 }

// tick is what the message of a timer does.
func (p *player) tick(ctx *actor.Context[mail], t *ticking) {
	n, w := p.n, p.n.w
	w.orders.Add(1) // each tick is handled, of one order
	if now := time.Now(); now.Before(t.least) {
		w.Report("timer: %q of %s is early by %v", t.key, n, t.least.Sub(now))
	}
	if n.lastLife() != p || p.terminated > 0 {
		w.Report("timer: %q of %s comes to another incarnation", t.key, n)
	}
	if t.over.Load() {
		w.Report("timer: %q of %s comes after it was canceled", t.key, n)
	}
	if t.ticks++; t.ticks == 1 {
		t.came()
	}
	if t.once {
		if t.ticks > 1 {
			w.Report("timer: %q of %s comes %d times", t.key, n, t.ticks)
		}
		delete(p.timers, t.key)
		return
	}
	if t.ticks >= t.most && p.timers[t.key] == t {
		p.cancelTimer(ctx, t.key)
	}
}
