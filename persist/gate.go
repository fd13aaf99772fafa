package persist

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/greenroom-go/greenroom/actor"
)

// gate is the gate of a durable actor, over all its incarnations.
type gate[M any] struct {
	p      *Persistence
	opts   options
	in     atomic.Pointer[incarnation] // the current one, nil before the first; set by the turn
	life   *life[M]                    // owned by the turn
	avoid  uint64                      // snapshots with this number or a higher one are skipped, 0 for none; owned by the turn
	inside bool                        // the gate itself asks with the handler's context; owned by the turn
	poked  bool                        // the message is one of poke; owned by the turn
	behind bool                        // messages are set aside until the next poke; owned by the turn
}

// life is the incarnation of the actor: the user's state, and how it is recovered.
type life[M any] struct {
	recover   func(ctx context.Context) error
	recovered func(ctx *actor.Context[M]) error // nil if the actor has no Recovered
	ready     bool                              // recovered has returned
}

// patience is how long one ask to the committer or the loader may take. The ask is then repeated,
// because a journal may be unavailable for any length of time.
const patience = time.Minute

// errFailed is the error for callers that wait for something of a handler that has panicked.
var errFailed = errors.New("the handler has failed: nothing of what it recorded and sent is kept")

// errDerived is the error of a wait with another context in the middle of a handler.
var errDerived = errors.New("a handler has recorded or sent something and is running: wait with its own context, with actor.Within for a limit, and not with one that is derived of it")

// Handle implements actor.Gate.
func (g *gate[M]) Handle(c context.Context, next func() error) (err error) {
	ctx, in := c.(*actor.Context[M]), g.in.Load()
	poked := g.poked
	g.poked = false
	if g.life.ready && !poked && !g.behind && !isDelivery(ctx.Sender(), in.id) && in.tryBegin() {
		return g.handle(in, nil, next)
	}
	if err := in.beginAnew(); err != nil {
		if in.hasMoved() { // another owner answers from what it would load
			ctx.Stop()
			return err
		}
		return errors.Join(err, putAside(ctx, poked))
	}
	if g.behind && !poked {
		return ctx.Stash()
	}
	if err := g.prepare(ctx); err != nil {
		switch {
		case errors.Is(err, actor.ErrTooManyWaiting):
			return g.putOff(ctx, poked)
		case errors.Is(err, ErrUnreadable):
			ctx.Stop()
		case errors.Is(err, errBegunAnew), errors.Is(err, errErased), ctx.Incarnation().Err() != nil:
			err = errors.Join(err, putAside(ctx, poked))
		}
		return err
	}
	if err := in.beginAnew(); err != nil { // it was erased while it was recovered
		return errors.Join(err, putAside(ctx, poked))
	}
	if g.behind {
		g.behind = false
		ctx.Unstash()
	}
	if poked && g.life.ready {
		return nil
	}
	a, over := g.p.receivers.attemptBy(ctx.Sender(), in.id)
	if over {
		return nil // it was sent again before it was confirmed
	}
	in.begin(a)
	if !g.life.ready {
		if err := g.recovered(ctx, in, poked); err != nil || poked {
			return err
		}
	}
	return g.handle(in, a, next)
}

// recovered calls the actor's Recovered, in the turn of its first message. If the message then
// fails, what Recovered has sent is not lost. REQUIRES: in.begin was called, as for handle.
func (g *gate[M]) recovered(ctx *actor.Context[M], in *incarnation, poked bool) (err error) {
	err = errFailed // what remains after a panic
	defer func() {
		if err != nil {
			in.fail(err)
		}
	}()
	if g.life.recovered != nil {
		if err = g.life.recovered(ctx); err != nil {
			return fmt.Errorf("recovered: %w", err)
		}
	}
	g.life.ready = true
	in.isReady()
	err = in.pass(!poked)
	return err
}

// handle handles a message.
func (g *gate[M]) handle(in *incarnation, a *attempt, next func() error) (err error) {
	err = errFailed // what remains after a panic
	defer func() {
		if err != nil && err != actor.ErrStop { //nolint:errorlint // as the runtime does
			in.fail(err)
		}
	}()
	if a != nil && in.hasHad(a) {
		err = in.end()
		return err
	}
	if err = next(); err == nil || err == actor.ErrStop { //nolint:errorlint // the same
		if ended := in.end(); ended != nil {
			err = ended
		}
	}
	return err
}

// putAside makes the message wait for the next incarnation.
func putAside[M any](ctx *actor.Context[M], poked bool) error {
	if poked {
		return nil
	}
	return ctx.Stash()
}

// poke sends the actor, after a while, a message that only prepares it.
func (g *gate[M]) poke(ctx *actor.Context[M], after time.Duration) {
	actor.Pipe(ctx, func(life context.Context) (struct{}, error) {
		if after > 0 {
			select {
			case <-time.After(after):
			case <-life.Done():
			}
		}
		return struct{}{}, nil
	}, func(struct{}, error) (m M) {
		g.poked = true
		return m
	})
}

// putOff sets a message aside, and those that come after it, until the actor may wait again: too
// many others are waiting, which is not a failure of this actor.
func (g *gate[M]) putOff(ctx *actor.Context[M], poked bool) error {
	g.behind = true
	if err := putAside(ctx, poked); err != nil {
		return err
	}
	g.poke(ctx, g.p.cfg.RetryMax)
	return nil
}

// prepare returns when a handler may begin: when the actor is recovered and not too much is in
// flight.
func (g *gate[M]) prepare(ctx *actor.Context[M]) error {
	g.inside = true
	defer func() { g.inside = false }()
	if g.life.recover != nil {
		if err := g.life.recover(ctx); err != nil {
			return fmt.Errorf("recover %s: %w", g.in.Load().id, err)
		}
		g.life.recover = nil
	}
	in := g.in.Load()
	for u := in.crowded(); u != nil; u = in.crowded() {
		if err := in.wait(ctx, u); err != nil {
			return err
		}
	}
	return nil
}

// Hold implements actor.Gate.
func (g *gate[M]) Hold(leave func(error)) bool {
	in := g.in.Load()
	return in != nil && in.hold(leave)
}

// settling is the key of a context with which a gate itself asks.
type settling struct{}

// Settle implements actor.Gate.
func (g *gate[M]) Settle(ctx context.Context) error {
	in := g.in.Load()
	if in == nil {
		return nil
	}
	if _, own := ctx.(*actor.Context[M]); own {
		if g.inside {
			return nil
		}
		g.inside = true
		defer func() { g.inside = false }()
		return in.settle(ctx)
	}
	if ctx.Value(settling{}) != nil {
		return nil
	}
	return in.settleFor(context.WithValue(ctx, settling{}, true))
}

// drain returns when everything in flight has ended, at the end of an incarnation.
func (g *gate[M]) drain(ctx *actor.Context[M]) error {
	g.inside = true
	defer func() { g.inside = false }()
	in := g.in.Load()
	err := in.drain(ctx)
	if errors.Is(err, actor.ErrTooManyWaiting) { // it cannot come again later
		err = actor.Blocking(ctx, func() error { return in.drain(ctx) })
	}
	return cmp.Or(err, in.refusal())
}

// settle returns when everything recorded is durable and its outputs have left. It divides the
// handler.
func (in *incarnation) settle(ctx context.Context) error {
	err := in.pass(true)
	if err == nil {
		err = in.drain(ctx)
	}
	if err == nil {
		err = in.unfit()
	}
	if err != nil {
		return fmt.Errorf("make durable what %s has recorded: %w", in.id, err)
	}
	return nil
}

// settleFor is settle for a context that is not the handler's own, and may be used on another
// goroutine: there it would divide the handler at an arbitrary point, and read the state while the
// handler changes it.
func (in *incarnation) settleFor(ctx context.Context) error {
	err := errDerived
	if !in.midway() {
		err = in.drain(ctx)
	}
	if err == nil {
		err = in.unfit()
	}
	if err != nil {
		return fmt.Errorf("wait for what %s has recorded: %w", in.id, err)
	}
	return nil
}

// midway reports whether a handler runs that has recorded or sent something.
func (in *incarnation) midway() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.handling && (in.hasRecorded() || len(in.outputs) > 0)
}

// drain returns when everything in flight now has ended.
func (in *incarnation) drain(ctx context.Context) error {
	in.mu.Lock()
	units := slices.Clone(in.units)
	in.mu.Unlock()
	for _, u := range slices.Backward(units) { // usually the last one ends last
		if u.isOver() {
			continue
		}
		if err := in.wait(ctx, u); err != nil {
			return err
		}
	}
	return nil
}

// wait returns when a unit has ended.
func (in *incarnation) wait(ctx context.Context, u *unit) error {
	return in.p.await(ctx, waitFor{unit: u})
}

// await asks the committer until there is an answer, or ctx ends.
func (p *Persistence) await(ctx context.Context, req actor.Request[settled]) error {
	_, err := askUntilAnswered(ctx, func() (settled, error) { return actor.Ask(ctx, p.committer, req, actor.Within(patience)) })
	return err
}

// askUntilAnswered asks until there is an answer, or ctx ends.
func askUntilAnswered[R any](ctx context.Context, ask func() (R, error)) (answer R, err error) {
	for {
		answer, err = ask()
		if err == nil || ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
			return answer, err
		}
	}
}
