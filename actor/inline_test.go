package actor_test

import (
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

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

// Inline actors that send to each other, or pass messages on, do not use up the stack.
func TestAChainOfInlineActorsHasABoundedStack(t *testing.T) {
	const chain, frames = 3_000, 10_000
	for name, pass := range map[string]func(ctx *actor.Context[int], to actor.Ref[int], n int){
		"Tell":    func(ctx *actor.Context[int], to actor.Ref[int], n int) { to.Tell(ctx, n) },
		"Forward": func(ctx *actor.Context[int], to actor.Ref[int], _ int) { _ = actor.Forward(ctx, to) },
	} {
		sys := actortest.NewSystem(t)
		depth := make(chan int, 1)
		next := actor.SpawnFunc(sys, "", func(*actor.Context[int], int) error {
			depth <- runtime.Callers(0, make([]uintptr, frames))
			return nil
		}, actor.Inline())
		for range chain {
			to := next
			next = actor.SpawnFunc(sys, "", func(ctx *actor.Context[int], n int) error {
				pass(ctx, to, n)
				return nil
			}, actor.Inline())
		}
		next.Tell(bg, 1)
		if n := <-depth; n == frames {
			t.Errorf("%s: the last of %d actors runs under %d frames and more", name, chain, n)
		}
	}
}

// Whoever an Inline actor runs on the stack of cannot answer it, however many others are between.
func TestAnInlineActorThatAsksOneBelowItIsTold(t *testing.T) {
	for name, opt := range map[string]actor.SpawnOption{"of the pool": actor.Permanent, "pinned": actor.Pinned(), "inline": actor.Inline()} {
		synctest.Test(t, func(t *testing.T) {
			sys := actortest.NewSystem(t)
			var all []actor.Ref[any]
			errs := make(chan error, 3)
			top := actor.SpawnFunc(sys, "", func(ctx *actor.Context[any], _ any) error {
				for _, ref := range all {
					_, err := actor.Ask(ctx, ref, balance{})
					errs <- err
				}
				return nil
			}, actor.Inline())
			for _, o := range []actor.SpawnOption{actor.Inline(), actor.Inline(), opt} {
				to := top
				if len(all) > 0 {
					to = all[len(all)-1]
				}
				all = append(all, actor.SpawnFunc(sys, "", func(ctx *actor.Context[any], m any) error { to.Tell(ctx, m); return nil }, o))
			}
			began := time.Now()
			all[2].Tell(bg, 1)
			for range all {
				if err := <-errs; !errors.Is(err, actor.ErrDeadlock) {
					t.Errorf("above one that is %s: %v", name, err)
				}
			}
			if d := time.Since(began); d > 0 {
				t.Errorf("above one that is %s: told after %v", name, d)
			}
		})
	}
}

// Who has sent what another passes on to an Inline actor does not wait for that.
func TestAnInlineActorMayAskTheSenderOfWhatIsForwarded(t *testing.T) {
	for name, opt := range map[string]actor.SpawnOption{"of the pool": actor.Permanent, "inline": actor.Inline()} {
		sys := actortest.NewSystem(t)
		said := make(chan error)
		var sender actor.Ref[any]
		last := actor.SpawnFunc(sys, "", func(ctx *actor.Context[any], _ any) error {
			_, err := actor.Ask(ctx, sender, balance{})
			said <- err
			return nil
		}, actor.Inline())
		between := actor.SpawnFunc(sys, "", func(ctx *actor.Context[any], _ any) error { return actor.Forward(ctx, last) }, opt)
		sender = actor.SpawnFunc(sys, "", func(ctx *actor.Context[any], m any) error {
			if req, ok := m.(balance); ok {
				actor.Reply(ctx, req, 1)
				return nil
			}
			between.Tell(ctx, m)
			return nil
		})
		sender.Tell(bg, 1)
		if err := <-said; err != nil {
			t.Errorf("forwarded by one that is %s: %v", name, err)
		}
	}
}

// An Inline actor that waits in a handler of a bulkhead lets others there run, as that handler would.
func TestAnInlineActorThatWaitsDoesNotFillTheBulkheadBelow(t *testing.T) {
	for name, wait := range map[string]func(ctx *actor.Context[int], to actor.Ref[balance]) error{
		"Ask": func(ctx *actor.Context[int], to actor.Ref[balance]) error {
			_, err := actor.Ask(ctx, to, balance{})
			return err
		},
		"Gather": func(ctx *actor.Context[int], to actor.Ref[balance]) (err error) {
			for _, a := range actor.Gather(ctx, []actor.Ref[balance]{to}, balance{}) {
				err = errors.Join(err, a.Err)
			}
			return err
		},
		"a Future": func(ctx *actor.Context[int], to actor.Ref[balance]) error {
			_, err := actor.AskFuture(ctx, to, balance{}).Wait(ctx)
			return err
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			sys := actortest.NewSystem(t, actor.WithBulkhead("one", 1, 1))
			answers := actor.SpawnFunc(sys, "", func(ctx *actor.Context[balance], m balance) error { actor.Reply(ctx, m, 1); return nil }, actor.OnBulkhead("one"))
			said := make(chan error)
			last := actor.SpawnFunc(sys, "", func(ctx *actor.Context[int], _ int) error { said <- wait(ctx, answers); return nil }, actor.Inline())
			between := actor.SpawnFunc(sys, "", func(ctx *actor.Context[int], n int) error { last.Tell(ctx, n); return nil }, actor.Inline())
			actor.SpawnFunc(sys, "", func(ctx *actor.Context[int], n int) error { between.Tell(ctx, n); return nil }, actor.OnBulkhead("one")).Tell(bg, 1)
			began := time.Now()
			if err := <-said; err != nil || time.Since(began) > 0 {
				t.Errorf("%s: %v after %v", name, err, time.Since(began))
			}
		})
	}
}
