package sim

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/actor"
)

// simulated is a game on the simulator.
func simulated(w *World) {
	g := newGame(w.System(), w.Rand())
	w.Always("the engine keeps its promises", g.problem)
	g.play(w.Context(), 20, func() {
		if w.Sometimes(0.2) {
			w.Advance(time.Duration(w.Rand().IntN(20)) * time.Millisecond)
		}
	})
	w.Heal()
	w.Advance(10 * time.Minute)
	g.atRest()
	if err := g.shutdown(w.Context()); err != nil {
		w.Fatalf("shutdown: %v", err)
	}
	g.afterShutdown()
	if err := g.problem(); err != nil {
		w.Fatalf("%v", err)
	}
}

// TestTheEngineKeepsItsPromisesInAnyOrder is the engine's own simulation.
func TestTheEngineKeepsItsPromisesInAnyOrder(t *testing.T) {
	runs := 10_000
	if raceEnabled {
		runs = 500
	}
	if testing.Short() {
		runs /= 10
	}
	Check(t, Options{Runs: runs, Strategy: Portfolio(), Faults: Faults{Lag: 0.05, Swarm: true}}, simulated)
}

// TestTheEngineKeepsItsPromisesOnTheRealScheduler is the same game with the same oracle
// on many processors.
func TestTheEngineKeepsItsPromisesOnTheRealScheduler(t *testing.T) {
	games := 60
	for _, procs := range []int{1, 2, 4} {
		before := runtime.GOMAXPROCS(procs)
		for n := range games {
			seed := uint64(procs*1000 + n)
			sys := actor.NewSystem("real", actor.WithLogger(slog.New(slog.DiscardHandler)), actor.WithAskTimeout(50*time.Millisecond))
			g := newGame(sys, rand.New(rand.NewPCG(seed, 0)))
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			g.play(context.Background(), 12, func() {}) // no deadline: the system's ask timeout is a short one
			err := g.shutdown(ctx)
			cancel()
			if err != nil {
				t.Fatalf("game %d: %v", seed, err)
			}
			g.afterShutdown()
			if err := g.problem(); err != nil {
				t.Errorf("game %d: %v", seed, err)
			}
		}
		runtime.GOMAXPROCS(before)
	}
}
