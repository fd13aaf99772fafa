package attack_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"time"

	"github.com/greenroom-go/greenroom/actor"
)

// clinging is a handler that does not return for a while.
type clinging struct {
	n       *node
	entered int64 // moments
	left    int64 // 0 while it clings; guarded by the world's mu
	killed  bool  // its actor may have been killed before a shutdown
}

// mostClings bounds how many handlers of a round cling: each may take a tenth of a second.
const mostClings = 6

// enterCling notes a handler that clings. It returns nil when there are enough of them.
func (w *world) enterCling(n *node) *clinging {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.clingers) >= mostClings && !w.last.Load() || len(w.clingers) >= 2*mostClings {
		return nil
	}
	c := &clinging{n: n, entered: w.moment.Add(1)}
	w.clingers = append(w.clingers, c)
	return c
}

func (w *world) leaveCling(c *clinging) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c.left = w.moment.Add(1)
}

// elsewhere does something on a goroutine that is no actor's.
func (w *world) elsewhere(f func()) {
	w.pending.Add(1)
	go func() {
		defer w.pending.Add(-1)
		f()
	}()
}

// clings draws whether the callback is to stay for a while. While nothing else happens none does, since its actor may be
// told to end.
func (p *player) clings(r *rand.Rand) bool {
	w := p.n.w
	return w.clings > 0 && r.IntN(100) < w.clings && (w.last.Load() || w.budget.Load() > 0)
}

// cling has the callback stay for a while, whatever its actor is told meanwhile. It reports whether the actor has ended
// without it: then the callback was left behind.
func (p *player) cling(ctx *actor.Context[mail], r *rand.Rand) (behind bool) {
	n, w := p.n, p.n.w
	c := w.enterCling(n)
	if c == nil {
		return false
	}
	w.pending.Add(1)
	defer func() {
		w.leaveCling(c)
		if !behind {
			w.pending.Add(-1)
		}
	}()
	self := ctx.Self()
	gone := func() bool { _, ok := self.Backlog(); return !ok }
	last := w.last.Load()
	long := n.pool && r.IntN(3) == 0 && (!last || w.killing.Load())
	if !last {
		p.orderEnd(self, r, long)
	}
	if r.IntN(3) == 0 {
		p.wait(true, func() { _ = ctx.Sleep(time.Duration(r.IntN(200)) * time.Microsecond) })
	}
	stay := func() error {
		if long {
			p.stayUntil(gone)
			return nil
		}
		d := time.Duration(r.IntN(20)) * time.Millisecond
		if n.pool && r.IntN(2) == 0 { // about as long as a killed actor waits for its handler
			d = time.Duration(95_000+r.IntN(15_000)) * time.Microsecond
		}
		<-time.After(d)
		return nil
	}
	if r.IntN(3) == 0 {
		_ = actor.Blocking(ctx, stay)
	} else {
		_ = stay()
	}
	behind = gone()
	if behind && w.killing.Load() {
		<-time.After(time.Duration(r.IntN(400)) * time.Millisecond)
	}
	return behind
}

// stayUntil returns when the actor has ended.
func (p *player) stayUntil(gone func() bool) {
	w := p.n.w
	for began := w.control.ticks.Load(); !gone(); <-time.After(time.Millisecond) {
		if w.control.ticks.Load()-began > patience {
			w.Report("kill: %s has been told to end, and has not while its handler clings", p.n)
			return
		}
	}
}

// orderEnd has the actor told to end, from elsewhere or by itself; surely says that it must.
func (p *player) orderEnd(self actor.Ref[mail], r *rand.Rand, surely bool) {
	n, d := p.n, time.Duration(r.IntN(2000))*time.Microsecond
	kill := func() {
		n.killed.Store(true)
		self.Kill()
	}
	order := kill
	switch k := r.IntN(6); {
	case k == 0 && (!surely || n.hurried):
		order = self.Stop
	case k == 1 && (!surely || n.hurried):
		order = self.Drain
	case k == 2:
		order = func() { self.Stop(); kill() }
	case k == 3 && !surely && n.parent == nil && n.barren:
		order = func() { _ = n.w.sys.Restart(self.PID()) }
	case k == 4 && !surely:
		return
	}
	n.w.counts.stops.Add(1)
	if r.IntN(4) == 0 {
		order()
		return
	}
	n.w.elsewhere(func() { <-time.After(d); order() })
}

// haunt does what a callback may do that was left behind. None of it has an effect.
func (p *player) haunt(ctx *actor.Context[mail], r *rand.Rand, m mail) error {
	w := p.n.w
	defer w.pending.Add(-1) // which cling has counted
	w.counts.behind.Add(1)
	if w.last.Load() {
		w.haunted.Store(true) // also who listens to dead letters may have ended
	}
	if m.l != nil {
		m.l.abandoned.Store(true)
	}
	for range 1 + r.IntN(4) {
		p.hauntOnce(ctx, r, m)
	}
	switch r.IntN(4) {
	case 0:
		panic("left behind")
	case 1:
		runtime.Goexit()
	case 2:
		return planned(r.Uint64())
	}
	if m.l != nil {
		actor.Reply(ctx, m, m.l.id)
	}
	return nil
}

func (p *player) hauntOnce(ctx *actor.Context[mail], r *rand.Rand, m mail) {
	n, w := p.n, p.n.w
	to := w.pick(nil, r)
	never := func(what string) mail {
		return p.note(func() { w.Report("left behind: %s gets %s", n, what) })
	}
	send := func() *letter {
		l := w.newLetter(n, to, r)
		l.behind, l.late = true, false
		return l
	}
	switch r.IntN(11) {
	case 0:
		to.ref.Tell(ctx, mail{l: send()})
	case 1:
		w.tryTell(ctx, p, to, send())
	case 2:
		if _, err := w.ask(ctx, p, to, send(), true); err == nil {
			w.Report("left behind: an ask of %s has an answer", n)
		}
	case 3:
		l := send()
		l.asked = true
		l.unsure.Store(true)
		actor.AskThen(ctx, to.ref, mail{l: l}, func(uint64, error) mail { return never("an answer") })
	case 4:
		l := send()
		l.asked = true
		l.unsure.Store(true)
		f := actor.AskFuture(ctx, to.ref, mail{l: l})
		if _, err := f.Wait(context.Background()); err == nil {
			w.Report("left behind: a future of %s has an answer", n)
		}
	case 5:
		ctx.After("left behind", 0, never("a timer"))
	case 6:
		ctx.Watch(to.ref.PID(), func(actor.Down) mail { return never("a Down") })
	case 7:
		if _, err := actor.TrySpawn(ctx, "", func() *starter { return &starter{player: &player{n: n}, first: true} }); !errors.Is(err, actor.ErrStopped) {
			w.Report("left behind: %s spawns: %v", n, err)
		}
	case 8:
		if err := actor.Forward(ctx, to.ref); err == nil {
			w.Report("left behind: %s forwards", n)
		}
	case 9:
		if err := ctx.Stash(); !errors.Is(err, actor.ErrStopped) {
			w.Report("left behind: %s stashes: %v", n, err)
		}
		ctx.Unstash()
		ctx.Stop()
	default:
		actor.Pipe(ctx, func(context.Context) (int, error) { return 0, nil }, func(int, error) mail { return never("an outcome") })
	}
}
