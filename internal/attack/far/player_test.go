package far_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/greenroom-go/greenroom/actor"
)

// player is an actor of the node that is near, which has to do with one worker. It has one incarnation.
type player struct {
	w      *world
	number int
	to     *worker
	r      *rand.Rand
	ref    actor.Ref[any]

	left     int // moves
	seq      int // of its letters
	partings int
	watches  []*notice

	linked   atomic.Bool // by itself, and nobody has taken it back
	mayFail  atomic.Bool // by a link or by itself
	unlinked atomic.Bool // by the worker, some time
	through  atomic.Bool // it has made all its moves
}

// move is what a player does next.
type move struct{}

func (p *player) lives() bool {
	_, ok := p.ref.Backlog()
	return ok
}

// moves reports whether it may yet watch or link somebody.
func (p *player) moves() bool { return !p.through.Load() && p.lives() }

// Receive implements [actor.Actor].
func (p *player) Receive(ctx *actor.Context[any], message any) error {
	switch m := message.(type) {
	case func():
		m()
	case parting:
		p.w.counts.partings.Add(1)
		if p.partings++; p.partings > 1 {
			p.w.Report("order: player %d has %d partings", p.number, p.partings)
		}
	case move:
		if p.left--; p.left < 0 {
			p.through.Store(true)
			return nil
		}
		if p.r.IntN(30) == 0 {
			p.mayFail.Store(true)
			return errPlanned
		}
		p.move(ctx)
		ctx.Self().Tell(ctx, move{})
	}
	return nil
}

// move does something.
func (p *player) move(ctx *actor.Context[any]) {
	switch p.r.IntN(24) {
	case 0, 1, 2:
		p.watch(ctx)
	case 3:
		takeBack(p.watches)
		ctx.Unwatch(p.to.ref.PID())
	case 4, 5:
		p.mayFail.Store(true)
		p.linked.Store(true)
		ctx.Link(p.to.ref.PID())
	case 6:
		p.linked.Store(false)
		ctx.Unlink(p.to.ref.PID())
	case 7:
		p.order(ctx)
	case 8, 9:
		_ = ctx.Sleep(time.Duration(p.r.IntN(5000)) * time.Microsecond)
	case 10:
		p.wait(ctx)
	case 11:
		if p.r.IntN(3) == 0 {
			ctx.Stop()
		}
	case 12, 13:
		p.write(ctx, greet)
	case 14, 15, 16, 17:
		p.write(ctx, nothing)
	default:
		d := deed(p.r.IntN(int(deeds)))
		p.mayFail.Store(p.mayFail.Load() || d == linkBack)
		p.unlinked.Store(p.unlinked.Load() || d == unlinkBack)
		p.write(ctx, d)
	}
}

// worker returns a reference to the worker, unless its node is lost.
func (p *player) worker(ctx *actor.Context[any]) (ref actor.Ref[any], ok bool) {
	ref, err := actor.Lookup[any](ctx.System(), p.to.ref.PID())
	if err != nil && !errors.Is(err, actor.ErrUnreachable) {
		p.w.Report("lookup: %v", err)
	}
	return ref, err == nil
}

// watch watches the worker. Its last message comes before the Down.
func (p *player) watch(ctx *actor.Context[any]) {
	x := p.w.expect(p, p.to.ref.PID())
	p.watches = append(p.watches, x)
	ctx.Watch(x.of, func(d actor.Down) any {
		return func() {
			x.came(d)
			if d.Reason == actor.Stopped && p.to.knows(p) && p.partings == 0 {
				p.w.Report("order: player %d has a Down and no parting", p.number)
			}
		}
	})
}

// order ends the worker.
func (p *player) order(ctx *actor.Context[any]) {
	ref, ok := p.worker(ctx)
	if !ok {
		return
	}
	switch p.r.IntN(3) {
	case 0:
		ref.Stop()
	case 1:
		ref.Drain()
	default:
		ref.Kill()
	}
}

// wait waits for the end of the worker, for a moment or as long as it takes.
func (p *player) wait(ctx *actor.Context[any]) {
	pid, sys := p.to.ref.PID(), ctx.System()
	if p.r.IntN(2) == 0 {
		shortly, cancel := context.WithTimeout(ctx, time.Duration(p.r.IntN(3000))*time.Microsecond)
		defer cancel()
		if p.r.IntN(3) == 0 { // it has ended before
			cancel()
		}
		_, _ = sys.Wait(shortly, pid)
		return
	}
	p.w.waits.Add(1)
	go func() {
		defer p.w.waits.Add(-1)
		if _, err := sys.Wait(p.w.lasting, pid); err != nil && !errors.Is(err, actor.ErrUnreachable) && p.w.lasting.Err() == nil {
			p.w.Report("wait: %v", err)
		}
	}()
}
