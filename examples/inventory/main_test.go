package main

import (
	"context"
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/examples/internal/exampletest"
	"github.com/greenroom-go/greenroom/persist"
	"github.com/greenroom-go/greenroom/persist/memory"
	"github.com/greenroom-go/greenroom/sim"
)

func TestOutput(t *testing.T) {
	exampletest.Check(t, func(w io.Writer) {
		if err := run(w); err != nil {
			t.Error(err)
		}
	}, `
		/ann finds torch: [torch:1]
		/ann finds apple: [apple:1 torch:1]
		/ann finds rope: [apple:1 rope:1 torch:1]
		/ann finds sword: the bag is full
		/ben finds bread: [bread:1]
		/ben leaves: [bread:1]
		/ann gives apple to /ben: [rope:1 torch:1]
		/ben has: [apple:1 bread:1]
		/ben finds stone: [apple:1 bread:1 stone:1]
		/ann gives rope to /ben: [torch:1]
		/ann has: [rope:1 torch:1]
		/ann lights a torch: [rope:1] by torchlight
		/ann leaves: [rope:1] by torchlight
		the game is over for today
		/ann has: [rope:1]
		/ann lights a torch: there is none in the bag
		/ben has: [apple:1 bread:1 stone:1]
		the game is over for today
	`)
}

// world is a game on a machine that crashes.
type world struct {
	*sim.World
	node    *sim.Node
	journal *memory.Journal
	players []actor.Ref[any]
}

// start starts the game on the machine, again after a crash.
func (w *world) start() {
	if w.node != nil && w.World.Node("machine") == w.node {
		return
	}
	w.node = w.World.Node("machine")
	for {
		file, err := w.node.Disk().Open("journal")
		if err == nil {
			err = w.node.Disk().Sync(w.Context())
		}
		if err == nil {
			w.journal, err = memory.Open(w.Context(), file)
		}
		if err == nil {
			break
		}
	}
	g, err := openGame(w.Context(), w.node.System(), w.journal)
	if err != nil {
		w.Fatalf("%v", err)
	}
	w.players = nil
	for i := range 3 {
		if err := enter(g.p, g.sys, id(i)); err != nil {
			w.Fatalf("%v", err)
		}
		ref, err := actor.LookupPath[any](g.sys, id(i))
		if err != nil {
			w.Fatalf("%v", err)
		}
		w.players = append(w.players, ref)
	}
}

func id(i int) string { return fmt.Sprint("/player-", i%3) }

// items returns how many the journal has in bags.
func (w *world) items() (n int) {
	for i := range 3 {
		l, err := w.journal.Load(context.Background(), []string{id(i)})
		if err != nil {
			w.Fatalf("%v", err)
		}
		if l[0].State == nil {
			continue
		}
		v, err := types.Decode(l[0].State.Type, l[0].State.Data)
		if err != nil {
			w.Fatalf("%v", err)
		}
		for _, k := range v.(Inventory).Items {
			n += k
		}
	}
	return n
}

// Wherever the machine crashes, no item is in two bags or in none.
func TestNoItemIsMadeOrLost(t *testing.T) {
	sim.Check(t, sim.Options{Runs: 30, Faults: sim.Faults{Disk: sim.DiskFaults{Fail: 0.05}, Swarm: true}}, func(sw *sim.World) {
		w := &world{World: sw}
		w.start()
		for w.items() < 6 {
			for _, p := range w.players {
				p.Tell(w.Context(), find{item: "apple"})
			}
			w.Advance(10 * time.Second)
		}
		had := w.items()
		for range 12 {
			n := w.Rand().IntN(3)
			w.players[n].Tell(w.Context(), give{item: "apple", to: id(n + 1 + w.Rand().IntN(2))})
			switch w.Rand().IntN(4) {
			case 0:
				w.Advance(time.Duration(w.Rand().IntN(20)) * time.Millisecond)
				w.node.Crash()
			case 1:
				w.Advance(time.Second)
			}
			w.start()
		}
		w.Heal()
		w.Advance(10 * time.Minute)
		if has := w.items(); has != had {
			w.Fatalf("there were %d apples, and there are %d", had, has)
		}
		for part := range persist.Parts {
			if left, err := w.journal.Outbox(context.Background(), part, 0, 10); err != nil || len(left) > 0 {
				w.Fatalf("on their way still: %+v, %v", left, err)
			}
		}
	})
}

// A gift that wakes a player who is about to be asked, too.
func TestAPlayerEntersOnce(t *testing.T) {
	sys := actor.NewSystem("game")
	defer sys.Shutdown(context.Background())
	g, err := openGame(t.Context(), sys, memory.New())
	if err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				if err := enter(g.p, sys, fmt.Sprint("/player-", i)); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
	}
}
