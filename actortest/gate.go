package actortest

import (
	"context"
	"sync"
	"time"

	"github.com/greenroom-go/greenroom/actor"
)

// Gate holds up actors: while it is closed, an actor that was spawned with [Gate.Around]
// waits with its next message before its handler runs, or where its handler calls
// [Gate.Pass], and its mailbox fills. Use it to see what a bounded mailbox drops, what
// Stop leaves unhandled, and in which order messages are handled. A gate is open at
// first, and opens when the test ends.
type Gate struct {
	k      *Kit
	keeper actor.Ref[pass]

	mu     sync.Mutex
	closed bool
	held   []*actor.Promised[struct{}]
}

// pass is what an actor before the gate asks the keeper: to be let through.
type pass struct{ actor.Returns[struct{}] }

// NewGate returns an open gate.
func NewGate(k *Kit) *Gate {
	g := &Gate{k: k}
	g.keeper = actor.SpawnFunc(k.sys, "actortest-gate-*", g.keep)
	k.held = append(k.held, g)
	return g
}

// Around returns the option that puts the gate in front of an actor's handler; the actor
// may be a probe, and several actors may share a gate. An Inline actor holds up its
// sender.
func (g *Gate) Around() actor.ReceiveOption { return actor.AroundReceive(g.around) }

// Close makes the actors behind the gate wait, from their next message on.
func (g *Gate) Close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
}

// Open lets all waiting actors continue, and settles.
func (g *Gate) Open() {
	g.release()
	g.k.Settle()
}

// Waiting settles and returns how many actors wait.
func (g *Gate) Waiting() int {
	g.k.Settle()
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.held)
}

// endless is longer than the virtual time of any test.
const endless = 100 * 365 * 24 * time.Hour

func (g *Gate) around(ctx context.Context, _ actor.Reception, next func() error) error {
	g.Pass(ctx)
	return next()
}

// Pass returns at once if the gate is open, and otherwise when it opens. It holds up an
// actor in the middle of a message; ctx must be the handler's own. The runtime knows
// that the handler waits, and a stop does not end the wait.
func (g *Gate) Pass(ctx context.Context) {
	g.mu.Lock()
	closed := g.closed
	g.mu.Unlock()
	if closed {
		// By asking, so that the runtime uses the worker for others meanwhile: an actor that is
		// held up must hold up nobody else.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endless)
		_, _ = actor.Ask(ctx, g.keeper, pass{}) // an error says that the keeper is gone, and the test over
		cancel()
	}
}

func (g *Gate) keep(ctx *actor.Context[pass], m pass) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		g.held = append(g.held, actor.Promise(ctx, m))
		return nil
	}
	actor.Reply(ctx, m, struct{}{})
	return nil
}

func (g *Gate) release() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = false
	for _, p := range g.held {
		p.Resolve(struct{}{})
	}
	g.held = nil
}
