package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/greenroom-go/greenroom/actor"
)

func number64(id uint64) string {
	if id == 0 {
		return ""
	}
	return strconv.FormatUint(id, 10)
}

// waitMoves ask and wait.
func waitMoves() []move {
	return []move{
		{name: "ask", where: anywhere, waits: true, do: act(func(p *player, ctx *actor.Context[card], o op) { p.doAsk(ctx, o, ctx.Self().PID()) })},
		{name: "ask with a deadline", where: anywhere, do: act(func(p *player, ctx *actor.Context[card], o op) {
			limited, cancel := context.WithTimeout(ctx, o.time())
			defer cancel()
			p.doAsk(limited, o, ctx.Self().PID())
		})},
		{name: "ask as an outsider", where: anywhere, do: act(func(p *player, _ *actor.Context[card], o op) {
			// Whoever loses the handler's context loses the cycle's detection with it.
			limited, cancel := context.WithTimeout(context.Background(), o.time())
			defer cancel()
			p.doAsk(limited, o, actor.PID{})
		})},
		{name: "ask for another type", where: anywhere, waits: true, do: act((*player).askWrong)},
		{name: "ask the clerk", where: anywhere, do: act((*player).askClerk)},
		{name: "ask by the router", where: anywhere, do: act((*player).askRouted)},
		{name: "ask within", where: anywhere, waits: true, do: act((*player).askWithin)},
		{name: "ask then", where: anywhere, do: act((*player).askThen)},
		{name: "wait for a future", where: anywhere, waits: true, do: act((*player).future)},
		{name: "wait for an end", where: anywhere, waits: true, do: act((*player).waitForEnd)},
		{name: "after the end", where: anywhere, do: act((*player).afterEnd)},
		{name: "gather", where: anywhere, do: act(func(p *player, ctx *actor.Context[card], o op) { p.gather(ctx, o, 0) })},
		{name: "gather the first", where: anywhere, do: act(func(p *player, ctx *actor.Context[card], o op) { p.gather(ctx, o, 1) })},
		{name: "pipe", where: anywhere, do: act(func(p *player, ctx *actor.Context[card], o op) {
			p.pipe(ctx, o, nil, func(context.Context) (int, error) { return o.n, nil })
		})},
		{name: "pipe that asks", where: anywhere, do: act(func(p *player, ctx *actor.Context[card], o op) {
			to, kind := p.target(o)
			p.pipe(ctx, o, nil, func(life context.Context) (int, error) {
				if !kind.waits {
					limited, cancel := context.WithTimeout(life, o.time())
					defer cancel()
					p.game.ask(limited, card{ops: o.inner}, actor.PID{}, to)
				}
				return o.n, nil
			})
		})},
		{name: "pipe that fails", where: anywhere, do: act(func(p *player, ctx *actor.Context[card], o op) {
			p.pipe(ctx, o, errPlanned, func(context.Context) (int, error) {
				if o.n%2 == 0 {
					panic(errPlanned)
				}
				return o.n, errPlanned
			})
		})},
		{name: "sleep", where: anywhere, waits: true, do: act((*player).sleep)},
		{name: "block", where: anywhere, do: act(func(p *player, ctx *actor.Context[card], o op) {
			err := actor.Blocking(ctx, func() error {
				p.tell(ctx, o)
				return errPlanned
			})
			if err != errPlanned { //nolint:errorlint // it is to be the same
				p.report("Blocking returned %v", err)
			}
		})},
	}
}

func (o op) time() time.Duration { return time.Duration(o.n) * time.Millisecond }

// doAsk asks a player with the context given.
func (p *player) doAsk(ctx context.Context, o op, from actor.PID) {
	to, kind := p.target(o)
	if kind.waits {
		return
	}
	c := card{ops: o.inner}
	if !from.IsZero() {
		c.by = p.now
	}
	p.ask(ctx, c, from, to)
}

// ask is for handlers.
func (p *player) ask(ctx context.Context, c card, from actor.PID, to actor.Ref[card]) {
	p.askUntil(ctx, p.limit(ctx), c, from, to)
}

// limit is that of a handler: of a reentrant player another one may have the turn, and wait with a derived context
// for longer than this one has to.
func (p *player) limit(ctx context.Context) time.Time {
	if p.life.kind.reentrant {
		return time.Time{}
	}
	return p.game.limit(ctx)
}

func (p *player) askWrong(ctx *actor.Context[card], o op) {
	to, kind := p.target(o)
	if kind.waits {
		return
	}
	c := p.next(ctx, o, to.PID())
	p.asked(c.id)
	answer, err := actor.AskFor[string](ctx, to, c)
	if err == nil {
		p.report("ask %d for a text got %q", c.id, answer)
	}
	p.answered(c.id, 0, err, p.limit(ctx))
}

func (p *player) askClerk(ctx *actor.Context[card], o op) {
	limited, cancel := context.WithTimeout(ctx, o.time())
	defer cancel()
	if answer, err := actor.Ask(limited, p.clerk, query{}); err == nil && answer != "yes" {
		p.report("the clerk says %q", answer)
	}
}

func (p *player) askRouted(ctx *actor.Context[card], o op) {
	p.mu.Lock()
	for _, kind := range p.kinds[:playersTop] {
		if kind.waits {
			p.mu.Unlock()
			return
		}
	}
	p.mu.Unlock()
	limited, cancel := context.WithTimeout(ctx, o.time())
	defer cancel()
	p.ask(limited, card{ops: o.inner, by: p.now, shuffled: true}, ctx.Self().PID(), p.routed)
}

func (p *player) askThen(ctx *actor.Context[card], o op) {
	to, kind := p.target(o)
	if kind.waits {
		return
	}
	c := p.next(ctx, o, to.PID())
	p.asked(c.id)
	p.mayEnd(c.id) // with the incarnation
	actor.AskThen(ctx, to, c, func(answer uint64, err error) card {
		return p.noting(func() { p.answered(c.id, answer, err, time.Time{}) })
	})
}

// askWithin asks with a limit of its own.
func (p *player) askWithin(ctx *actor.Context[card], o op) {
	to, kind := p.target(o)
	if kind.waits {
		return
	}
	c := p.next(ctx, o, to.PID())
	p.asked(c.id)
	_, before := ctx.Deadline()
	due := time.Now().Add(o.time())
	answer, err := actor.Ask(ctx, to, c, actor.Within(o.time()))
	if !before && errors.Is(err, context.DeadlineExceeded) && strings.Contains(err.Error(), "no answer within") {
		p.early("the end of an ask", due)
	}
	p.answered(c.id, answer, err, time.Time{})
}

// future waits for an ask that it has begun, of which the clerk hears as well.
func (p *player) future(ctx *actor.Context[card], o op) {
	to, kind := p.target(o)
	if kind.waits {
		return
	}
	c := p.next(ctx, o, to.PID())
	p.asked(c.id)
	f := actor.AskFuture(ctx, to, c, actor.Within(o.time()))
	actor.PipeTo(f, p.clerk, func(uint64, error) any { return poke{} })
	_, err := f.Wait(ctx)
	select {
	case <-f.Done():
		answer, err := f.Wait(ctx)
		p.answered(c.id, answer, err, time.Time{})
	default:
		p.mayEnd(c.id)
		if err == nil {
			p.report("waiting for ask %d has ended without its answer", c.id)
		}
	}
}

// waitForEnd waits until an actor has ended, but not for long.
func (p *player) waitForEnd(ctx *actor.Context[card], o op) {
	to, _ := p.target(o)
	wait := func() (actor.Down, error) { return ctx.System().Wait(ctx, to.PID(), actor.Within(o.time())) }
	if o.draw%2 == 0 {
		wait = func() (actor.Down, error) { return to.Wait(ctx, actor.Within(o.time())) }
	}
	if d, err := wait(); err == nil {
		p.hasEnded(to.PID(), d)
	}
}

// afterEnd wants to know when an actor ends, or thinks better of it.
func (p *player) afterEnd(_ *actor.Context[card], o op) {
	to, _ := p.target(o)
	times, taken := 0, false
	var mu sync.Mutex
	stop := p.sys.AfterEnd(to.PID(), func(d actor.Down) {
		mu.Lock()
		defer mu.Unlock()
		if times++; times > 1 || taken {
			p.report("AfterEnd of %s has run %d times, taken back %v", to, times, taken)
		}
		p.hasEnded(to.PID(), d)
	})
	if o.draw%2 == 0 {
		mu.Lock()
		defer mu.Unlock()
		taken = stop()
	}
}

// gather asks all at the top, and leaves after so many answers if that is not 0.
func (p *player) gather(ctx *actor.Context[card], o op, most int) {
	p.mu.Lock()
	var refs []actor.Ref[card]
	for i, k := range p.kinds[:min(playersTop, len(p.kinds))] {
		if !k.waits {
			refs = append(refs, p.players[i])
		}
	}
	p.mu.Unlock()
	c := p.numbered(card{shuffled: true, by: p.now}, ctx.Self().PID(), ctx.Self().PID())
	p.gathered(c.id, len(refs))
	limited, cancel := context.WithTimeout(ctx, o.time())
	defer cancel()
	seen := make(map[actor.Ref[card]]bool)
	for from, a := range actor.Gather(limited, refs, c) {
		if a.Err == nil && a.Value != c.id {
			p.report("gather %d was answered %d", c.id, a.Value)
		}
		if seen[from] {
			p.report("gather %d was answered twice by %s", c.id, from)
		}
		if seen[from] = true; len(seen) == most {
			return
		}
		if o.draw%2 == 0 { // so that the order of the answers shows
			from.Tell(ctx, p.next(ctx, op{}, from.PID()))
		}
	}
	if len(seen) != len(refs) {
		p.report("gather %d of %d yielded %d", c.id, len(refs), len(seen))
	}
}

func (p *player) pipe(ctx *actor.Context[card], o op, want error, work func(context.Context) (int, error)) {
	come := 0
	actor.Pipe(ctx, work, func(n int, err error) card {
		return p.noting(func() {
			if come++; come > 1 || !errors.Is(err, want) || err == nil && n != o.n {
				p.report("outcome of a pipe: %d, %v, the %d. time", n, err, come)
			}
		})
	})
}

func (p *player) sleep(ctx *actor.Context[card], o op) {
	d := o.time() + time.Duration(ctx.System().Rand().IntN(3))*time.Millisecond
	due := time.Now().Add(d)
	err := ctx.Sleep(d)
	if err == nil {
		p.early("Sleep", due)
	} else if ctx.Err() == nil && !errors.Is(err, actor.ErrTooManyWaiting) {
		p.report("Sleep of %s ended with %v, and the context has not ended", ctx.Self(), err)
	}
}

// lifeMoves concern the life of actors.
func lifeMoves() []move {
	return []move{
		{name: "watch", where: anywhere, do: act(func(p *player, ctx *actor.Context[card], o op) {
			to, _ := p.target(o)
			p.watch(ctx, p, to.PID())
		})},
		{name: "unwatch", where: anywhere, do: act(func(p *player, ctx *actor.Context[card], o op) {
			to, _ := p.target(o)
			ctx.Unwatch(to.PID())
			p.unwatch(p, to.PID())
		})},
		{name: "link", where: anywhere, rare: true, do: act(func(p *player, ctx *actor.Context[card], o op) {
			if to, _ := p.target(o); to != ctx.Self() {
				ctx.Link(to.PID())
			}
		})},
		{name: "unlink", where: anywhere, do: act(func(p *player, ctx *actor.Context[card], o op) {
			to, _ := p.target(o)
			ctx.Unlink(to.PID())
		})},
		{name: "spawn", where: inReceive | inInit, do: act((*player).spawnChildren)},
		{name: "try to spawn", where: anywhere, do: act((*player).trySpawn)},
		{name: "spawn a function", where: inReceive | inInit, waits: true, do: act((*player).spawnFunc)},
		{name: "stop", where: anywhere, rare: true, do: act(func(p *player, _ *actor.Context[card], o op) {
			to, _ := p.target(o)
			if o.draw%2 == 0 || p.sys.Stop(to.PID()) != nil {
				to.Stop()
			}
		})},
		{name: "drain", where: anywhere, rare: true, do: act(func(p *player, _ *actor.Context[card], o op) {
			to, _ := p.target(o)
			if o.draw%2 == 0 || p.sys.Drain(to.PID()) != nil {
				to.Drain()
			}
		})},
		{name: "kill", where: anywhere, rare: true, do: act(func(p *player, _ *actor.Context[card], o op) {
			to, _ := p.target(o)
			p.kill(to.PID())
			if o.draw%2 == 0 || p.sys.Kill(to.PID()) != nil {
				to.Kill()
			}
		})},
		{name: "restart", where: inReceive, rare: true, do: act(func(p *player, _ *actor.Context[card], o op) {
			if to, _ := p.target(o); p.restarted.Add(1) < 30 { // no budget bounds these
				_ = p.sys.Restart(to.PID())
			}
		})},
		{name: "stop itself", where: anywhere, rare: true, do: act(func(_ *player, ctx *actor.Context[card], _ op) { ctx.Stop() })},
		{name: "return ErrStop", where: inReceive, rare: true, do: func(*player, *actor.Context[card], card, op) (bool, error) {
			return true, actor.ErrStop
		}},
		{name: "fail", where: anywhere, rare: true, ends: true, do: func(*player, *actor.Context[card], card, op) (bool, error) {
			return true, errPlanned
		}},
		{name: "panic", where: anywhere, rare: true, ends: true, do: func(*player, *actor.Context[card], card, op) (bool, error) {
			panic("planned")
		}},
		{name: "subscribe", where: anywhere, rare: true, do: act(func(p *player, _ *actor.Context[card], _ op) {
			actor.Subscribe(p.sys, p.listener)
		})},
		{name: "unsubscribe", where: anywhere, do: act(func(p *player, _ *actor.Context[card], _ op) {
			actor.Unsubscribe(p.sys, p.listener)
		})},
	}
}

func (p *player) spawnChildren(ctx *actor.Context[card], o op) {
	r := rand.New(rand.NewPCG(o.draw, 1))
	for range 1 + r.IntN(3) {
		_, _ = p.spawn(ctx, "c*", r, false)
	}
}

// trySpawn spawns in ways that may not work.
func (p *player) trySpawn(ctx *actor.Context[card], o op) {
	r := rand.New(rand.NewPCG(o.draw, 2))
	name := []string{"", "one", "one", "a/b", "unwanted"}[r.IntN(5)]
	before := len(ctx.Children())
	_, err := p.spawn(ctx, name, r, true)
	switch {
	case name == "a/b" && err != nil && !errors.Is(err, actor.ErrBadName):
		p.report("spawning %q: %v", name, err)
	case name == "unwanted" && err != nil && !errors.Is(err, errPlanned):
		p.report("spawning %q: %v", name, err)
	case errors.Is(err, actor.ErrNameTaken) && (name != "one" || before == 0):
		p.report("spawning %q with %d siblings: %v", name, before, err)
	case errors.Is(err, actor.ErrNameTaken), errors.Is(err, actor.ErrBadName), errors.Is(err, actor.ErrStopped):
		if n := len(ctx.Children()); n > before {
			p.report("a spawn of %q by %s has failed, and there are %d children, %d before", name, ctx.Self(), n, before)
		}
	}
}

func (p *player) spawnFunc(ctx *actor.Context[card], o op) {
	handle := func(ctx *actor.Context[card], c card) error {
		p.consume(c.id, ctx.Self().PID())
		actor.Reply(ctx, c, c.id)
		return actor.ErrStop
	}
	if o.n%2 == 0 {
		ref := actor.SpawnFunc(ctx, "", handle)
		if o.n%4 == 0 {
			ref = actor.NewPropsFunc(handle, actor.Temporary).Spawn(ctx, "")
		}
		ref.Tell(ctx, p.next(ctx, op{}, ref.PID()))
		return
	}
	ref, err := actor.TrySpawnFunc(ctx, "f*", handle, actor.Temporary)
	if err != nil {
		p.report("a function was not spawned: %v", err)
		return
	}
	c := p.next(ctx, op{}, ref.PID())
	p.asked(c.id)
	answer, err := actor.Ask(ctx, ref, c)
	p.answered(c.id, answer, err, p.limit(ctx))
}

// timeMoves set timers.
func timeMoves() []move {
	return []move{
		{name: "after", where: anywhere, do: act(func(p *player, ctx *actor.Context[card], o op) {
			t := p.timer(o, 0)
			ctx.After(o.key(), o.time(), p.tick(ctx, o.key(), t))
		})},
		{name: "every", where: anywhere, do: act(func(p *player, ctx *actor.Context[card], o op) {
			t := p.timer(o, o.time())
			ctx.Every(o.key(), o.time(), p.tick(ctx, o.key(), t))
		})},
		{name: "on", where: anywhere, do: act(func(p *player, ctx *actor.Context[card], o op) {
			t := p.timer(o, time.Millisecond)
			t.most = 2
			ctx.On(o.key(), twice{t.due}, p.tick(ctx, o.key(), t))
		})},
		{name: "cancel", where: anywhere, do: act((*player).cancel)},
		{name: "receive timeout", where: inReceive | inInit, do: act((*player).receiveTimeout)},
	}
}

func (o op) key() string { return fmt.Sprint(o.to % 3) }

// timing is one timer.
type timing struct {
	due    time.Time
	period time.Duration
	over   bool
	times  int
	most   int // ticks that there can be, 0 for any number
}

// timer notes a timer that is about to be set.
func (p *player) timer(o op, period time.Duration) *timing {
	if old := p.timers[o.key()]; old != nil {
		old.over = true
	}
	t := &timing{due: time.Now().Add(o.time()), period: period}
	p.timers[o.key()] = t
	return t
}

// tick is the message of a timer.
func (p *player) tick(ctx *actor.Context[card], key string, t *timing) card {
	return p.noting(func() {
		p.early("timer "+key, t.due)
		if t.over {
			p.report("timer %s of %s came after it was canceled, replaced or through", key, ctx.Self())
		}
		switch t.times++; {
		case t.period == 0 || t.times == t.most:
			t.over = true
		case t.most == 0 && t.times >= 3:
			t.over = true
			if !ctx.Cancel(key) {
				p.report("timer %s of %s ticks and cannot be canceled", key, ctx.Self())
			}
		}
		t.due = t.due.Add(t.period)
	})
}

func (p *player) cancel(ctx *actor.Context[card], o op) {
	t := p.timers[o.key()]
	had := ctx.Cancel(o.key())
	if t == nil && had || t != nil && t.over && had && t.most == 0 {
		p.report("%s has canceled timer %s, which there was not", ctx.Self(), o.key())
	}
	if t != nil {
		t.over = true
	}
}

// twice is a schedule of two times.
type twice struct{ first time.Time }

// Next implements actor.Schedule.
func (s twice) Next(after time.Time) time.Time {
	for i := range 2 {
		if at := s.first.Add(time.Duration(i) * time.Millisecond); at.After(after) {
			return at
		}
	}
	return time.Time{}
}

func (p *player) receiveTimeout(ctx *actor.Context[card], o op) {
	due := time.Now().Add(o.time())
	ctx.SetReceiveTimeout(o.time(), p.noting(func() { p.early("the receive timeout", due) }))
	if o.to%2 == 0 {
		ctx.SetReceiveTimeout(0, card{})
		return
	}
	ctx.After("no more", 5*o.time(), p.noting(func() { ctx.SetReceiveTimeout(0, card{}) }))
}
