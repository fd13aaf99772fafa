package sim

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/internal/soaktest"
)

// simulated plays a game on the simulator.
func simulated(w *World) *game {
	g := newGame(w.Rand(), func(opts ...actor.SystemOption) *actor.System { return w.Node("game", opts...).System() })
	g.exact, g.kills, g.unseen = w.faults.Lag == 0, w.faults.Kill > 0, w.faults.Panic > 0
	w.Always("the engine keeps its promises", g.problem)
	g.play(w.Context(), w.Rand(), 20, func() {
		if w.Sometimes(0.2) {
			w.Advance(time.Duration(w.Rand().IntN(20)) * time.Millisecond)
		}
	})
	ctx, cancel, patient := w.Context(), func() {}, true
	switch w.Rand().IntN(4) {
	case 0: // in the middle of it
	case 1:
		w.Heal() // there are 100 ms for those that are killed
		patient = false
		ctx, cancel = context.WithTimeout(ctx, w.Sometime(20*time.Millisecond))
	default:
		w.Heal()
		w.Advance(10 * time.Minute)
		g.atRest(w.Context())
	}
	defer cancel()
	switch err := g.shutdown(ctx); {
	case err == nil:
		g.afterShutdown(patient)
	case patient:
		w.Fatalf("shutdown: %v", err)
	}
	if err := g.problem(); err != nil {
		w.Fatalf("%v", err)
	}
	return g
}

// tally counts the moves of many games.
type tally struct {
	games int
	moves map[string]int
}

func (y *tally) add(g *game) {
	if y.moves == nil {
		y.moves = make(map[string]int)
	}
	y.games++
	for i, m := range g.moves {
		y.moves[m.name] += g.done[i]
	}
}

// complete fails the test if there is a move that nobody has made.
func (y *tally) complete(t *testing.T) {
	t.Helper()
	for name, n := range y.moves {
		if n == 0 && y.games >= enoughGames {
			t.Errorf("in %d games nobody has made the move %q", y.games, name)
		}
	}
}

const enoughGames = 100 // in which each move is made many times

// TestTheEngineKeepsItsPromisesInAnyOrder is the engine's own simulation. The long form
// finds what needs a rare order of events.
func TestTheEngineKeepsItsPromisesInAnyOrder(t *testing.T) {
	runs := soaktest.Rounds(t, 2000, 100_000)
	var y tally
	opts := Options{Runs: runs, Strategy: Portfolio(), Faults: Faults{Lag: 0.05, Swarm: true}, bare: true}
	Check(t, opts, func(w *World) { y.add(simulated(w)) })
	y.complete(t)
}

// TestTheEngineKeepsItsPromisesOnTheRealScheduler is the same game with the same oracle
// on many processors; `make stress` runs it under the race detector.
func TestTheEngineKeepsItsPromisesOnTheRealScheduler(t *testing.T) {
	games, crowd := 60, 3
	var y tally
	for _, procs := range []int{1, 2, 4} {
		before := runtime.GOMAXPROCS(procs)
		for n := range games {
			g := playForReal(t, uint64(procs*1000+n), crowd)
			y.add(g)
		}
		runtime.GOMAXPROCS(before)
	}
	y.complete(t)
}

// playForReal plays a game with several outsiders at once.
func playForReal(t *testing.T, seed uint64, outsiders int) *game {
	t.Helper()
	g := newGame(rand.New(rand.NewPCG(seed, 0)), func(opts ...actor.SystemOption) *actor.System {
		return actor.NewSystem("real", append(opts, actor.WithLogger(slog.New(slog.DiscardHandler)), actor.WithAskTimeout(50*time.Millisecond), actor.WithWarnings(false))...)
	})
	var play sync.WaitGroup
	for i := range outsiders {
		play.Go(func() { // without a deadline: the system's ask timeout is a short one
			g.play(context.Background(), rand.New(rand.NewPCG(seed, uint64(i+1))), 5, func() {})
		})
	}
	play.Wait()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := g.shutdown(ctx); err != nil {
		t.Fatalf("game %d: %v", seed, err)
	}
	g.afterShutdown(true)
	if err := g.problem(); err != nil {
		t.Errorf("game %d: %v", seed, err)
	}
	return g
}
