package actor_test

import (
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/actortest"
)

// A Tell to an Inline actor gives it one turn, however many messages others send meanwhile.
func TestATellToAnInlineActorDoesNotServeOthersForEver(t *testing.T) {
	sys := actortest.NewSystem(t)
	const most = 5_000_000
	var handled atomic.Int64
	var returned atomic.Bool
	idle := make(chan struct{})
	var ref actor.Ref[int]
	ref = actor.SpawnFunc(sys, "", func(*actor.Context[int], int) error {
		if n := handled.Add(1); returned.Load() || n == most {
			close(idle)
		} else {
			ref.Tell(bg, 0) // as another sender would
		}
		return nil
	}, actor.Inline())
	ref.Tell(bg, 0)
	returned.Store(true)
	<-idle
	if handled.Load() == most {
		t.Error("Tell has handled all that others have sent")
	}
}

// Inline actors that send to each other do not use up the stack.
func TestAChainOfInlineActorsHasABoundedStack(t *testing.T) {
	const chain, frames = 20_000, 10_000
	sys := actortest.NewSystem(t)
	depth := make(chan int, 1)
	next := actor.SpawnFunc(sys, "", func(*actor.Context[int], int) error {
		depth <- runtime.Callers(0, make([]uintptr, frames))
		return nil
	}, actor.Inline())
	for range chain {
		to := next
		next = actor.SpawnFunc(sys, "", func(ctx *actor.Context[int], n int) error {
			to.Tell(ctx, n)
			return nil
		}, actor.Inline())
	}
	next.Tell(bg, 1)
	if n := <-depth; n == frames {
		t.Errorf("the last of %d actors runs under %d frames and more", chain, n)
	}
}
