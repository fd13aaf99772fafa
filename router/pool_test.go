package router_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	stdtime "time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/actortest"
	"github.com/greenroom-go/greenroom/router"
)

// It runs on the machine's own clock, where threads, turns and the monitor meet as they do
// in a program.
func TestResizeUnderLoadLosesNothing(t *testing.T) {
	for name, strategy := range map[string]router.Strategy[task]{
		"round robin": router.RoundRobin[task], "least loaded": router.LeastLoaded[task],
		"hash": router.ConsistentHashNumber(func(m task) int { return m.n }, router.BoundedLoad(1.25)),
	} {
		t.Run(name, func(t *testing.T) {
			sys, c := actortest.NewSystem(t), &tally{}
			pool := router.SpawnPoolFunc(sys, "pool", strategy, 3, c.receive)
			var stop atomic.Bool
			var sent atomic.Int64
			var wg sync.WaitGroup
			for range 3 {
				wg.Go(func() {
					for n := 0; !stop.Load(); n++ {
						pool.Tell(t.Context(), task{n: n})
						sent.Add(1)
						for sent.Load()-c.total.Load()-int64(sys.Stats().DeadLetters) > 1000 {
							runtime.Gosched()
						}
					}
				})
			}
			for round := range 30 {
				size := (round*7)%9 + round%2
				if err := pool.Resize(t.Context(), size); err != nil {
					t.Error(err)
				}
				if got := len(pool.Routees()); got != size {
					t.Errorf("resized to %d and there are %d", size, got)
				}
				for goal := sent.Load() + 50; sent.Load() < goal; {
					runtime.Gosched()
				}
			}
			stop.Store(true)
			wg.Wait()
			if _, err := sys.Shutdown(t.Context()); err != nil {
				t.Error(err)
			}
			if got := c.total.Load() + int64(sys.Stats().DeadLetters); got != sent.Load() {
				t.Errorf("sent %d, handled %d, dead letters %d", sent.Load(), c.total.Load(), sys.Stats().DeadLetters)
			}
		})
	}
}

func TestResizeDownHandlesWhatTheRemovedHaveGot(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		c := new(tally)
		pool := router.SpawnPoolFunc(k.System(), "pool", router.RoundRobin, 3, c.receive)
		removed := pool.Routees()[1:]
		gate := block(k, removed...)
		for _, r := range removed {
			k.Watch(r)
		}
		for range 30 {
			pool.Tell(k.Context(), task{})
		}
		if err := pool.Resize(k.Context(), 1); err != nil {
			k.T().Fatal(err)
		}
		if got := pool.Routees(); len(got) != 1 || got[0].PID().Path() != "/pool/1" {
			k.T().Errorf("left are %v", got)
		}
		for range 5 {
			pool.Tell(k.Context(), task{})
		}
		gate.Open()
		k.Advance(stdtime.Second) // the removed linger for the messages of those who had picked them
		for _, r := range removed {
			if d := actortest.ExpectDown(k, r); d.Reason != actor.Stopped {
				k.T().Errorf("%v ended as %v", d.PID, d.Reason)
			}
		}
		c.expect(k, 30+5+2)
		if got := c.counts(); got["/pool/1"] != 15 || got["/pool/2"] != 11 || got["/pool/3"] != 11 {
			k.T().Errorf("handled %v", got)
		}
		if n := k.System().Stats().DeadLetters; n != 0 {
			k.T().Errorf("%d dead letters", n)
		}
	})
}

func TestResizeUpDoesNotTakeTheNameOfARouteeThatStillDrains(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		c := new(tally)
		pool := router.SpawnPoolFunc(k.System(), "pool", router.RoundRobin, 2, c.receive)
		block(k, pool.Routees()[1])
		for _, size := range []int{1, 2} {
			if err := pool.Resize(k.Context(), size); err != nil {
				k.T().Fatal(err)
			}
		}
		if got := pool.Routees()[1].PID().Path(); got != "/pool/3" {
			k.T().Errorf("the new routee is %s", got)
		}
	})
}

func TestResizeFromARouteesOwnHandler(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		c := new(tally)
		pool := router.SpawnPoolFunc(k.System(), "pool", router.RoundRobin, 1, c.receive)
		for _, size := range []int{3, 0} {
			done := make(chan error, 1)
			pool.Tell(k.Context(), task{do: func(ctx *actor.Context[task]) error {
				done <- pool.Resize(ctx, size)
				return nil
			}})
			if err := <-done; err != nil || len(pool.Routees()) != size {
				k.T().Errorf("resize to %d: %v, now %v", size, err, pool.Routees())
			}
		}
	})
}

func TestResizeRefusesWhatCannotBe(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		sys := k.System()
		c := new(tally)
		pool := router.SpawnPoolFunc(sys, "pool", router.RoundRobin, 1, c.receive)
		if err := pool.Resize(k.Context(), -1); !errors.Is(err, router.ErrBadSize) {
			k.T().Errorf("negative: %v", err)
		}
		k.Watch(pool)
		pool.Stop()
		actortest.ExpectDown(k, pool)
		if err := pool.Resize(k.Context(), 1); !errors.Is(err, actor.ErrStopped) {
			k.T().Errorf("stopped: %v", err)
		}
		if _, err := router.TrySpawnPoolFunc(sys, "p", router.RoundRobin, -3, c.receive); !errors.Is(err, router.ErrBadSize) {
			k.T().Errorf("spawn: %v", err)
		}
		if _, err := router.TrySpawnPoolFunc(sys, "p", nil, 3, c.receive); !errors.Is(err, router.ErrNoStrategy) {
			k.T().Errorf("spawn without a strategy: %v", err)
		}
		if _, err := router.TrySpawnPoolFunc(sys, "a/b", router.RoundRobin, 3, c.receive); !errors.Is(err, actor.ErrBadName) {
			k.T().Errorf("spawn with a bad name: %v", err)
		}
		if _, err := router.TrySpawnGroup[task](sys, "g", nil); !errors.Is(err, router.ErrNoStrategy) {
			k.T().Errorf("group without a strategy: %v", err)
		}
		if _, err := router.TrySpawnGroup(sys, "g", router.RoundRobin, actor.Ref[task]{}); !errors.Is(err, router.ErrZeroRef) {
			k.T().Errorf("group of nobody: %v", err)
		}
	})
}

// picky is a routee whose Init fails while told to.
type picky struct {
	tally
	refuse *atomic.Bool
	init   func()
}

var errInit = errors.New("not today")

func (p *picky) Init(*actor.Context[task]) error {
	if p.init != nil {
		p.init()
	}
	if p.refuse.Load() {
		return errInit
	}
	return nil
}

func (p *picky) Receive(ctx *actor.Context[task], m task) error { return p.tally.receive(ctx, m) }

func TestSpawnPoolReportsAFailingInit(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		var refuse atomic.Bool
		refuse.Store(true)
		newRoutee := func() *picky { return &picky{refuse: &refuse} }
		if _, err := router.TrySpawnPool(k.System(), "pool", router.RoundRobin, 2, newRoutee); !errors.Is(err, errInit) {
			k.T().Fatalf("got %v", err)
		}
		refuse.Store(false)
		pool := router.SpawnPool(k.System(), "again", router.RoundRobin, 2, newRoutee)
		refuse.Store(true)
		if err := pool.Resize(k.Context(), 4); !errors.Is(err, errInit) {
			k.T().Errorf("resize: %v", err)
		}
		if n := len(pool.Routees()); n != 2 {
			k.T().Errorf("%d routees after a resize that failed", n)
		}
		refuse.Store(false)
		if err := pool.Resize(k.Context(), 3); err != nil || len(pool.Routees()) != 3 {
			k.T().Errorf("resize: %v, now %d", err, len(pool.Routees()))
		}
	})
}

func TestFailingRouteeIsRestartedInItsPlace(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		c := new(tally)
		pool := router.SpawnPoolFunc(k.System(), "pool", router.RoundRobin, 2, c.receive)
		before := pool.Routees()
		pool.Tell(k.Context(), task{do: func(*actor.Context[task]) error { panic("ouch") }})
		for _, want := range []string{"/pool/2", "/pool/1", "/pool/2"} {
			if who := ask(k, pool.Ref, task{}); who != want {
				k.T().Errorf("%s answered, want %s", who, want)
			}
		}
		if !slices.Equal(before, pool.Routees()) {
			k.T().Error("the routees are others")
		}
		if n := k.System().Stats().Restarts; n != 1 {
			k.T().Errorf("%d restarts", n)
		}
		k.ExpectFailures(1)
	})
}

func TestRouteeThatEndsIsReplaced(t *testing.T) {
	for name, end := range map[string]func(actor.Ref[task]){
		"by itself": func(r actor.Ref[task]) {
			r.Tell(context.Background(), task{do: func(*actor.Context[task]) error { return actor.ErrStop }})
		},
		"stopped": actor.Ref[task].Stop,
		"killed":  actor.Ref[task].Kill,
	} {
		t.Run(name, func(t *testing.T) {
			actortest.Run(t, func(k *actortest.Kit) {
				c := new(tally)
				pool := router.SpawnPoolFunc(k.System(), "pool", router.RoundRobin, 3, c.receive)
				victim := pool.Routees()[1]
				end(victim)
				k.Settle()
				if now := pool.Routees(); len(now) != 3 || slices.Contains(now, victim) {
					k.T().Errorf("not replaced: %v", now)
				}
				if who := ask(k, pool.Routees()[1], task{}); who != "/pool/2" {
					k.T().Errorf("the replacement is %s", who)
				}
			})
		})
	}
}

func TestRouteeThatFailsTooOftenIsReplacedAndItsSiblingsLive(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		c := new(tally)
		pool := router.SpawnPoolFunc(k.System(), "pool", router.RoundRobin, 2, c.receive, router.Supervision(
			actor.Supervise(actor.OneForOne, actor.MaxRestarts(2, stdtime.Hour), actor.Exhausted(actor.Stop))))
		before := pool.Routees()
		for range 3 {
			before[0].Tell(k.Context(), task{do: func(*actor.Context[task]) error { return errInit }})
		}
		k.Settle()
		if now := pool.Routees(); len(now) != 2 || now[0] == before[0] || now[1] != before[1] {
			k.T().Errorf("not replaced: %v", now)
		}
		k.ExpectFailures(3)
	})
}

func TestEscalationRestartsThePoolInItsCurrentSize(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		c := new(tally)
		pool := router.SpawnPoolFunc(k.System(), "pool", router.RoundRobin, 1, c.receive, router.Supervision(
			actor.Supervise(actor.OneForOne, actor.MaxRestarts(0, stdtime.Hour))))
		if err := pool.Resize(k.Context(), 3); err != nil {
			k.T().Fatal(err)
		}
		before := pool.Routees()
		before[0].Tell(k.Context(), task{do: func(*actor.Context[task]) error { return errInit }})
		k.Settle()
		if now := pool.Routees(); len(now) != 3 || slices.ContainsFunc(before, func(r actor.Ref[task]) bool { return slices.Contains(now, r) }) {
			k.T().Errorf("not all replaced: %v", now)
		}
		ask(k, pool.Ref, task{})
		k.ExpectFailures(2)
	})
}

func TestRemoveEndedLetsThePoolShrink(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		c := new(tally)
		pool := router.SpawnPoolFunc(k.System(), "pool", router.RoundRobin, 3, c.receive, router.RemoveEnded())
		for left := 2; left >= 0; left-- {
			pool.Routees()[0].Stop()
			k.Settle()
			if len(pool.Routees()) != left {
				k.T().Error("not removed")
			}
		}
		pool.Tell(k.Context(), task{})
		actortest.ExpectDeadLetter[task](k)
		k.ExpectNoDeadLetter()
		if err := pool.Resize(k.Context(), 2); err != nil || len(pool.Routees()) != 2 {
			k.T().Errorf("resize: %v, now %d", err, len(pool.Routees()))
		}
	})
}

func TestRouteeThatCannotLiveIsReplacedAtGrowingIntervals(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		var refuse atomic.Bool
		var at []stdtime.Duration
		pool := router.SpawnPool(k.System(), "pool", router.RoundRobin, 1, func() *picky {
			return &picky{refuse: &refuse, init: func() {
				at = append(at, k.Elapsed())
			}}
		})
		refuse.Store(true)
		pool.Routees()[0].Stop()
		k.Advance(stdtime.Minute)
		refuse.Store(false)
		if len(pool.Routees()) != 0 {
			k.T().Error("a routee that could not start serves")
		}
		k.Advance(10 * stdtime.Second)
		if len(pool.Routees()) != 1 {
			k.T().Error("not replaced when it could have been")
		}
		want := []stdtime.Duration{0, 0, 100, 300, 700, 1500, 3100, 6300, 12700, 22700, 32700, 42700, 52700, 62700}
		for i := range want {
			want[i] *= stdtime.Millisecond
		}
		round := func(d stdtime.Duration) stdtime.Duration { return d.Round(50 * stdtime.Millisecond) }
		for i, d := range at {
			if i < len(want) && round(d) != want[i] {
				k.T().Errorf("attempt %d after %v, want %v", i, d, want[i])
			}
		}
		if len(at) != len(want) {
			k.T().Errorf("attempts at %v", at)
		}
	})
}

func TestPoolAsTheChildOfAnActor(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		c := new(tally)
		parent := actor.SpawnFunc(k.System(), "parent", func(ctx *actor.Context[any], m any) error {
			actor.ReplyFor(ctx, router.SpawnPoolFunc(ctx, "pool", router.RoundRobin, 2, c.receive))
			return nil
		})
		pool, err := actor.AskFor[*router.Pool[task]](k.Context(), parent, "spawn")
		if err != nil {
			k.T().Fatal(err)
		}
		if who := ask(k, pool.Ref, task{}); who != "/parent/pool/1" {
			k.T().Errorf("answered by %s", who)
		}
		k.Watch(pool)
		parent.Stop()
		actortest.ExpectDown(k, pool)
		if !errors.Is(pool.TryTell(k.Context(), task{}), actor.ErrStopped) {
			k.T().Error("not closed")
		}
	})
}
