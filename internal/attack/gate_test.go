package attack_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
)

var errUnsettled = errors.New("not settled in time")

// gate holds what its actor sends and answers, for a moment.
type gate struct {
	w *world

	mu    sync.Mutex
	seed  uint64
	held  []func(error)
	empty chan struct{} // closed when nothing is held any more
}

// Handle implements [actor.Gate].
func (*gate) Handle(_ context.Context, next func() error) error { return next() }

// Hold implements [actor.Gate].
func (g *gate) Hold(leave func(dropped error)) (held bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.seed = g.seed*6364136223846793005 + 1442695040888963407
	if len(g.held) == 0 && g.empty == nil && g.seed>>62 == 0 {
		return false
	}
	g.held = append(g.held, leave)
	if g.empty == nil {
		g.empty = make(chan struct{})
		g.w.elsewhere(g.release)
	}
	return true
}

// release lets go of what is held, in order.
func (g *gate) release() {
	runtime.Gosched()
	for {
		g.mu.Lock()
		if len(g.held) == 0 {
			close(g.empty)
			g.empty = nil
			g.mu.Unlock()
			return
		}
		leave := g.held[0]
		g.held = g.held[1:]
		g.mu.Unlock()
		leave(nil)
	}
}

// Settle implements [actor.Gate].
func (g *gate) Settle(ctx context.Context) error {
	g.mu.Lock()
	empty := g.empty
	g.mu.Unlock()
	if empty == nil {
		return nil
	}
	select {
	case <-empty:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", errUnsettled, context.Cause(ctx))
	}
}
