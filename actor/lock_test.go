//go:build invariants

package actor

import (
	"context"
	"log/slog"
	"sync"
	"testing"
)

// TestLocksAreLeavesAndUserCodeRunsOutsideOfThem sends through all mailboxes that do not wait, middleware
// and supervision with the tracking of locks on, which panics at a violation.
func TestLocksAreLeavesAndUserCodeRunsOutsideOfThem(t *testing.T) {
	trackLocks.Store(true)
	defer trackLocks.Store(false)
	bg := context.Background()
	sys := NewSystem("s", WithLogger(slog.New(slog.DiscardHandler)),
		AroundReceive(func(_ context.Context, _ Reception, next func() error) error { return next() }))
	var c *core
	outside := func() { c.requireNoLock() }
	receive := func(ctx *Context[int], n int) error {
		ctx.After("later", 0, -1)
		if n%7 == 0 {
			return context.Canceled
		}
		return nil
	}
	var refs []Ref[int]
	for _, opts := range [][]SpawnOption{
		nil,
		{Bounded(2, DropOldest)},
		{Bounded(2, Reject)},
		{Reentrant()},
		{Priority(func(n int) int { outside(); return n })},
		{Priority(func(n int) int { outside(); return n }), Bounded(2, DropOldest)},
		{Conflate(func(n int) int { outside(); return n % 3 }), Bounded(2, DropNewest)},
	} {
		refs = append(refs, SpawnFunc(sys, "", receive, opts...))
	}
	c = refs[0].to.base()
	var senders sync.WaitGroup
	for range 4 {
		senders.Go(func() {
			for n := range 200 {
				for _, ref := range refs {
					ref.Tell(bg, n)
				}
			}
		})
	}
	senders.Wait()
	if _, err := sys.Shutdown(bg); err != nil {
		t.Error(err)
	}
}
