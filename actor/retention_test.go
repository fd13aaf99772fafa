package actor_test

import (
	"math"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/actortest"
)

// ballast is what must not be kept.
type ballast [1 << 16]byte

// newBallast returns a ballast and counts it in freed when it is no longer reachable.
func newBallast(freed *atomic.Int32) *ballast {
	b := new(ballast)
	runtime.AddCleanup(b, func(int) { freed.Add(1) }, 0)
	return b
}

// isFreed reports an error if less than n are freed by as many collections as are enough.
func isFreed(t *testing.T, freed *atomic.Int32, n int32, what string) {
	t.Helper()
	for range 100 {
		if freed.Load() == n {
			return
		}
		runtime.GC()
		for range 100 {
			runtime.Gosched() // to the goroutine that runs the cleanups
		}
	}
	t.Errorf("%s: %d of %d freed", what, freed.Load(), n)
}

type heavy struct {
	actor.Returns[int]
	load *ballast
}

func TestIdleActorKeepsNoMessageAlive(t *testing.T) {
	for name, c := range map[string]struct {
		ask, timer bool
		opts       []actor.SpawnOption
	}{
		"tell":          {},
		"tell timer":    {timer: true},
		"tell bounded":  {opts: []actor.SpawnOption{actor.Bounded(5, actor.Reject)}},
		"tell priority": {opts: []actor.SpawnOption{actor.Priority(func(heavy) int { return 1 })}},
		"tell pinned":   {opts: []actor.SpawnOption{actor.Pinned()}},
		"ask":           {ask: true},
		"ask timer":     {ask: true, timer: true},
		"ask bounded":   {ask: true, opts: []actor.SpawnOption{actor.Bounded(5, actor.Reject)}},
		"ask pinned":    {ask: true, opts: []actor.SpawnOption{actor.Pinned()}},
	} {
		t.Run(name, func(t *testing.T) {
			sys := actortest.NewSystem(t)
			handled := make(chan struct{}, 1)
			ref := actor.SpawnFunc(sys, "x", func(ctx *actor.Context[heavy], m heavy) error {
				if c.timer {
					ctx.After("t", time.Hour, heavy{})
				}
				actor.Reply(ctx, m, 1)
				handled <- struct{}{}
				return nil
			}, c.opts...)
			var freed atomic.Int32
			func() {
				m := heavy{load: newBallast(&freed)}
				if c.ask {
					mustAsk(t, ref, m)
				} else {
					ref.Tell(bg, m)
				}
				<-handled
			}()
			isFreed(t, &freed, 1, "messages")
			runtime.KeepAlive(ref)
		})
	}
}

type laden struct{ load *ballast }

func (*laden) Receive(ctx *actor.Context[int], _ int) error { return ctx.Sleep(time.Microsecond) }

func TestStoppedActorKeepsNoStateAlive(t *testing.T) {
	sys := actortest.NewSystem(t)
	var freed atomic.Int32
	const n = 20
	refs := make([]actor.Ref[int], n)
	for i := range refs {
		refs[i] = actor.Spawn(sys, "", func() *laden { return &laden{newBallast(&freed)} })
		refs[i].Tell(bg, 1)
		down := ended(t, sys, refs[i])
		refs[i].Drain()
		down()
	}
	isFreed(t, &freed, n, "states")
	runtime.KeepAlive(refs)
}

func TestStateOfAFencedActorIsFreedWhenItsHandlerHasReturned(t *testing.T) {
	sys := actortest.NewSystem(t)
	h := newHeld()
	var freed atomic.Int32
	ref := func() actor.Ref[int] {
		load := newBallast(&freed)
		return actor.SpawnFunc(sys, "x", func(*actor.Context[int], int) error {
			load[0]++
			close(h.entered)
			<-h.release
			return nil
		})
	}()
	down := ended(t, sys, ref)
	ref.Tell(bg, 1)
	<-h.entered
	ref.Kill()
	down()
	close(h.release)
	isFreed(t, &freed, 1, "states")
	runtime.KeepAlive(ref)
}

// unequal is a key that is not equal to itself.
type unequal struct {
	nan  float64
	load *ballast
}

func TestConflationForgetsAKeyThatIsUnequalToItself(t *testing.T) {
	sys := actortest.NewSystem(t)
	handled := make(chan struct{}, 1)
	ref := actor.SpawnFunc(sys, "x", func(*actor.Context[unequal], unequal) error {
		handled <- struct{}{}
		return nil
	}, actor.Conflate(func(u unequal) unequal { return u }))
	var freed atomic.Int32
	for range 10 {
		ref.Tell(bg, unequal{math.NaN(), newBallast(&freed)})
		<-handled
	}
	isFreed(t, &freed, 10, "keys")
	runtime.KeepAlive(ref)
}

// A map cannot hash the second field; the first one makes the key unequal to itself before that is seen.
func TestConflationDoesNotHashAKeyThatIsUnequalToItself(t *testing.T) {
	type key struct {
		nan   float64
		slice any
	}
	actortest.Run(t, func(k *actortest.Kit) {
		gate, p := gated(k, actor.Conflate(func(string) key { return key{math.NaN(), []int{}} }))
		for _, m := range []string{"a", "b"} {
			p.Ref().Tell(k.Context(), m)
		}
		gate.Open()
		p.ExpectAll("held", "a", "b")
	})
}

func TestSpawnsAndStopsLeaveNothingBehind(t *testing.T) {
	sys := actortest.NewSystem(t)
	cycle := func(n int) (heap uint64, goroutines int) {
		for range n {
			ref := actor.SpawnFunc(sys, "", func(ctx *actor.Context[get], m get) error {
				ctx.After("t", time.Hour, m)
				err := ctx.Sleep(time.Microsecond)
				actor.Reply(ctx, m, 1)
				return err
			})
			mustAsk(t, ref, get{})
			ref.Drain()
		}
		for sys.Stats().Actors > 0 {
			runtime.Gosched()
		}
		if left := sys.Stats().Timers; left != 0 {
			t.Errorf("%d timers are left", left)
		}
		var m runtime.MemStats
		for range 3 {
			runtime.GC()
		}
		runtime.ReadMemStats(&m)
		return m.HeapAlloc, runtime.NumGoroutine()
	}
	heap, goroutines := cycle(1000)
	heapThen, goroutinesThen := cycle(5000)
	if heapThen > heap+1<<19 { // some 100 bytes an actor
		t.Errorf("the heap has grown from %d to %d bytes", heap, heapThen)
	}
	if goroutinesThen > goroutines+500 { // some of 5000 stacks are kept
		t.Errorf("%d goroutines, then %d", goroutines, goroutinesThen)
	}
}
