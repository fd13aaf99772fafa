package sim

import (
	"context"
	"sync"

	"github.com/greenroom-go/greenroom/actor"
)

// gate is that of some players. What they send leaves after each third message that they have
// handled, when they wait for something, and when they end.
type gate struct {
	mu       sync.Mutex
	held     []func(error)
	handling bool
	messages int
}

// Handle implements actor.Gate.
func (g *gate) Handle(_ context.Context, next func() error) error {
	g.mu.Lock()
	g.handling = true
	g.messages++
	all := g.messages%3 == 0
	g.mu.Unlock()
	defer func() {
		g.mu.Lock()
		g.handling = false
		g.mu.Unlock()
		if all {
			g.release()
		}
	}()
	return next()
}

// Hold implements actor.Gate.
func (g *gate) Hold(leave func(error)) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.handling && len(g.held) == 0 {
		return false
	}
	g.held = append(g.held, leave)
	return true
}

// Settle implements actor.Gate.
func (g *gate) Settle(context.Context) error {
	g.release()
	return nil
}

// release lets leave what is held. A nil gate holds nothing.
func (g *gate) release() {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for len(g.held) > 0 {
		leave := g.held[0]
		g.held = g.held[1:]
		g.mu.Unlock()
		leave(nil)
		g.mu.Lock()
	}
}

// hold sends what leaves through the gate, if there is one.
func (p *player) hold(ctx *actor.Context[card], o op) {
	to, _ := p.target(o)
	c := p.next(ctx, o, to.PID())
	holds := actor.Holds(ctx)
	p.held(c.id, true)
	held := actor.Hold(ctx, func(later context.Context) {
		p.held(c.id, false)
		if actor.Holds(later) {
			p.report("what has left the gate of a player would be held once more")
		}
		to.Tell(later, c)
	})
	if held && (!holds || p.life.kind.gate == nil) {
		p.report("%s holds, and has no gate", ctx.Self())
	}
	if !held {
		p.held(c.id, false)
		to.Tell(ctx, c)
	}
}

// refuse answers with an error that is no failure of the player.
func (p *player) refuse(ctx *actor.Context[card], c card, _ op) (done bool, err error) {
	if !p.isAsked(c.id) {
		return false, nil
	}
	return true, actor.Refuse(ctx, errPlanned)
}
