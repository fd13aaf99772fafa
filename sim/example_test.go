package sim_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/sim"
)

// inTest runs f as a test: an example has no testing.T. A test of one's own is a function
// TestX(t *testing.T), and needs nothing of this.
func inTest(f func(t *testing.T)) {
	// A verbose test prints its name, and `go test -run ExampleX` filters this one too.
	for name, value := range map[string]string{"test.v": "false", "test.run": "", "test.skip": ""} {
		set := flag.Lookup(name).Value
		was := set.String()
		if err := set.Set(value); err != nil {
			panic(err)
		}
		defer func() { _ = set.Set(was) }()
	}
	var once sync.Once // `go test -cpu 1,2 -count 3` runs a test six times and an example once
	all := func(_, _ string) (bool, error) { return true, nil }
	testing.RunTests(all, []testing.InternalTest{{Name: "TestExample", F: func(t *testing.T) { once.Do(func() { f(t) }) }}})
}

// find runs a simulation and prints what it has found.
func find(opts sim.Options, f func(w *sim.World)) (failure sim.Failure) {
	inTest(func(t *testing.T) {
		var found bool
		if failure, found = sim.Find(t, opts, f); found {
			fmt.Println(failure.Text)
		} else {
			fmt.Println("nothing was found")
		}
	})
	return failure
}

// once makes one run, which must not fail.
func once(f func(w *sim.World)) {
	inTest(func(t *testing.T) { sim.Check(t, sim.Options{Runs: 1, TwiceEvery: -1}, f) })
}

// Stock is what there is to sell.
type Stock struct{ Left int }

type (
	// Count asks how much is left.
	Count struct{ actor.Returns[int] }
	// Take asks for one.
	Take struct{ actor.Returns[bool] }
)

// Receive implements actor.Actor.
func (s *Stock) Receive(ctx *actor.Context[any], m any) error {
	switch m := m.(type) {
	case Count:
		actor.Reply(ctx, m, s.Left)
	case Take:
		s.Left--
		actor.Reply(ctx, m, true)
	}
	return nil
}

// sell takes one if one is left: it looks first and takes later, which is the mistake.
func sell(ctx context.Context, stock actor.Ref[any]) {
	if left, err := actor.Ask(ctx, stock, Count{}); err == nil && left > 0 {
		_, _ = actor.Ask(ctx, stock, Take{})
	}
}

// shop has one thing and two sellers.
func shop(w *sim.World) {
	shelf := &Stock{Left: 1}
	stock := actor.Spawn[any](w.System(), "stock", func() *Stock { return shelf })
	w.Always("the stock is not below zero", func() error {
		if shelf.Left < 0 {
			return fmt.Errorf("it is %d", shelf.Left)
		}
		return nil
	})
	for range 2 {
		w.Go("seller-*", func(ctx *actor.Context[sim.Begin]) { sell(ctx, stock) })
	}
}

// logger is an actor that prints what it gets.
func logger(w *sim.World) func(*actor.Context[string], string) error {
	return func(_ *actor.Context[string], m string) error {
		fmt.Println(w.Elapsed(), m)
		return nil
	}
}

func ExampleCheck() {
	inTest(func(t *testing.T) {
		sim.Check(t, sim.Options{Runs: 1000}, func(w *sim.World) {
			sum := 0
			adder := actor.SpawnFunc(w.System(), "adder", func(_ *actor.Context[int], n int) error {
				sum += n
				return nil
			})
			for n := range 4 {
				adder.Tell(w.Context(), n)
			}
			w.Settle()
			if sum != 6 {
				w.Fatalf("the sum is %d", sum)
			}
		})
		fmt.Println("1000 runs passed")
	})
	// Output: 1000 runs passed
}

func ExampleFind() {
	inTest(func(t *testing.T) {
		failure, found := sim.Find(t, sim.Options{}, shop)
		fmt.Println(found, failure.Text)
		last := failure.Trace[len(failure.Trace)-2] // before the line that says FAIL
		fmt.Println(last.Actor.Path(), "got", last.Message, "from", last.From.Path())
	})
	// Output:
	// true the stock is not below zero: it is -1
	// /stock got sim_test.Take from /seller-2
}

func ExampleFailure_String() {
	failure := sim.Failure{Seed: 0x2a, Strategy: "random", Run: 7, Step: 12, At: time.Second, Text: "the stock is not below zero: it is -1"}
	fmt.Println(failure.String())
	// Output:
	// seed=0x2a strategy=random run=7 step=12 at=1s
	// the stock is not below zero: it is -1
}

func ExampleEvent_String() {
	lag := sim.Event{Step: 3, At: time.Second, Kind: "lag", Message: "time passes although there is something to do"}
	fmt.Println(lag.String())
	// Output: 3           1s lag     time passes although there is something to do
}

func ExampleWorld_System() {
	once(func(w *sim.World) { fmt.Println(w.System().Name()) })
	// Output: sim
}

func ExampleWorld_Settle() {
	once(func(w *sim.World) {
		ref := actor.SpawnFunc(w.System(), "log", logger(w))
		ref.Tell(w.Context(), "hello")
		fmt.Println("nothing has happened yet")
		w.Settle()
	})
	// Output:
	// nothing has happened yet
	// 0s hello
}

func ExampleWorld_Advance() {
	once(func(w *sim.World) {
		actor.SpawnFunc(w.System(), "clock", func(ctx *actor.Context[string], m string) error {
			fmt.Println(w.Elapsed(), m)
			ctx.After("tea", time.Hour, "tea")
			return nil
		}).Tell(w.Context(), "begin")
		w.Advance(150 * time.Minute)
	})
	// Output:
	// 0s begin
	// 1h0m0s tea
	// 2h0m0s tea
}

func ExampleWorld_At() {
	once(func(w *sim.World) {
		ref := actor.SpawnFunc(w.System(), "log", logger(w))
		w.At(time.Minute, func() { ref.Tell(w.Context(), "later") })
		ref.Tell(w.Context(), "now")
		w.Advance(time.Hour)
	})
	// Output:
	// 0s now
	// 1m0s later
}

func ExampleWorld_Sometime() {
	once(func(w *sim.World) {
		ref := actor.SpawnFunc(w.System(), "log", func(*actor.Context[string], string) error {
			fmt.Println("within a minute:", w.Elapsed() < time.Minute)
			return nil
		})
		w.At(w.Sometime(time.Minute), func() { ref.Tell(w.Context(), "whenever") }) // another moment in each run
		w.Advance(time.Minute)
	})
	// Output: within a minute: true
}

func ExampleWorld_Go() {
	once(func(w *sim.World) {
		w.Go("visitor", func(ctx *actor.Context[sim.Begin]) {
			_ = ctx.Sleep(time.Second) // others go on meanwhile
			fmt.Println(w.Elapsed())
		})
	})
	// Output: 1s
}

func ExampleWorld_Never() {
	find(sim.Options{}, func(w *sim.World) {
		light := ""
		lamp := actor.SpawnFunc(w.System(), "lamp", func(_ *actor.Context[string], m string) error {
			light += m
			return nil
		})
		w.Never("green comes before red", func() bool { return light == "green" })
		for _, color := range []string{"red", "green"} {
			w.Go(color, func(ctx *actor.Context[sim.Begin]) { lamp.Tell(ctx, color) })
		}
	})
	// Output: green comes before red: it has happened
}

func ExampleWorld_Always() {
	failure := find(sim.Options{}, shop)
	fmt.Println(failure.Choices, "choices are needed")
	// Output:
	// the stock is not below zero: it is -1
	// 0 choices are needed
}

func ExampleWorld_Eventually() {
	once(func(w *sim.World) {
		done := 0
		worker := actor.SpawnFunc(w.System(), "worker", func(ctx *actor.Context[int], left int) error {
			if done++; left > 0 {
				ctx.After("next", time.Second, left-1)
			}
			return nil
		})
		worker.Tell(w.Context(), 3)
		w.Eventually(time.Minute, "all is done", func() error {
			if done < 4 {
				return fmt.Errorf("%d pieces are", done)
			}
			return nil
		})
		fmt.Println(w.Elapsed())
	})
	// Output: 3s
}

func ExampleWorld_Fatalf() {
	find(sim.Options{Runs: 1}, func(w *sim.World) {
		if w.Elapsed() == 0 {
			w.Fatalf("no time has passed")
		}
	})
	// Output: no time has passed
}

func ExampleWorld_Logf() {
	failure := find(sim.Options{Runs: 1}, func(w *sim.World) {
		w.Logf("%d things are on the shelf", 3)
		w.Fatalf("three are too many")
	})
	fmt.Println(failure.Trace[0].Kind, failure.Trace[0].Message)
	// Output:
	// three are too many
	// log 3 things are on the shelf
}

func ExampleWorld_Rand() {
	same := make(map[int]bool)
	inTest(func(t *testing.T) {
		sim.Check(t, sim.Options{Seeds: []uint64{7, 7, 7}, Runs: -1}, func(w *sim.World) { same[w.Rand().IntN(1000)] = true })
	})
	fmt.Println("three runs with one seed have drawn", len(same), "number")
	// Output: three runs with one seed have drawn 1 number
}

func ExampleWorld_Seed() {
	inTest(func(t *testing.T) {
		opts := sim.Options{Seeds: []uint64{42}, Runs: -1, TwiceEvery: -1} // a seed that has failed once, for ever
		sim.Check(t, opts, func(w *sim.World) { fmt.Println(w.Seed()) })
	})
	// Output: 42
}

func ExampleWorld_Sometimes() {
	find(sim.Options{}, func(w *sim.World) {
		saved := false
		disk := actor.SpawnFunc(w.System(), "disk", func(*actor.Context[string], string) error {
			if w.Sometimes(0.1) {
				panic("the disk is full") // a point in a handler, drawn
			}
			saved = true
			return nil
		})
		disk.Tell(w.Context(), "save")
		w.Eventually(time.Second, "it is saved", func() error {
			if !saved {
				return fmt.Errorf("it is not")
			}
			return nil
		})
	})
	// Output: it is saved: not within 1s: it is not
}

func ExampleWorld_Panic() {
	once(func(w *sim.World) {
		sold := 0
		till := actor.SpawnFunc(w.System(), "till", func(*actor.Context[int], int) error {
			sold++
			return nil
		})
		w.Panic(till.PID(), 1, sim.Before)
		w.Panic(till.PID(), 3, sim.After)
		for i := range 3 {
			till.Tell(w.Context(), i)
		}
		w.Settle()
		fmt.Println(sold, "sold,", w.System().Stats().Failures, "failures")
	})
	// Output: 2 sold, 2 failures
}

func ExampleSwarm() {
	failure := find(sim.Options{Runs: 500, Faults: sim.Swarm()}, func(w *sim.World) {
		sold := 0
		till := actor.SpawnFunc(w.System(), "till", func(*actor.Context[int], int) error {
			sold++
			return nil
		})
		for i := range 3 {
			till.Tell(w.Context(), i)
		}
		w.Settle()
		if sold != 3 {
			w.Fatalf("%d of 3 were sold", sold)
		}
	})
	fmt.Println("faults that it takes:", failure.Choices)
	// Output:
	// 2 of 3 were sold
	// faults that it takes: 1
}

func ExampleWorld_Heal() {
	inTest(func(t *testing.T) {
		sim.Check(t, sim.Options{Faults: sim.Faults{Panic: 0.5}}, func(w *sim.World) {
			sold := 0
			till := actor.SpawnFunc(w.System(), "till", func(*actor.Context[int], int) error {
				sold++
				return nil
			}, actor.Permanent)
			till.Tell(w.Context(), 1) // it may panic, again and again
			w.Settle()
			w.Heal()
			before := sold
			till.Tell(w.Context(), 2) // it does not
			w.Settle()
			if sold != before+1 {
				w.Fatalf("nothing was sold")
			}
		})
		fmt.Println("healed")
	})
	// Output: healed
}

func ExampleRandomWalk() {
	failure := find(sim.Options{Strategy: sim.RandomWalk()}, shop)
	fmt.Println(failure.Strategy)
	// Output:
	// the stock is not below zero: it is -1
	// random
}

func ExampleRoundRobin() {
	failure := find(sim.Options{Strategy: sim.RoundRobin(), Runs: 1}, shop)
	fmt.Println(failure.Strategy)
	// Output:
	// the stock is not below zero: it is -1
	// roundrobin
}

func ExamplePCT() {
	failure := find(sim.Options{Strategy: sim.PCT(3)}, shop)
	fmt.Println(failure.Strategy)
	// Output:
	// the stock is not below zero: it is -1
	// pct3
}

func ExamplePortfolio() {
	failure := find(sim.Options{Strategy: sim.Portfolio(sim.PCT(2), sim.PCT(2))}, shop) // one of them for each run
	fmt.Println(failure.Strategy)
	// Output:
	// the stock is not below zero: it is -1
	// pct2
}

func ExampleReplay() {
	recorded := find(sim.Options{}, shop).Schedule
	strategy, err := sim.Replay(recorded)
	if err != nil {
		fmt.Println(err)
		return
	}
	failure := find(sim.Options{Strategy: strategy, Runs: 1}, shop)
	fmt.Println(failure.Strategy, "of", recorded)
	// Output:
	// the stock is not below zero: it is -1
	// the stock is not below zero: it is -1
	// replay of -
}

// newest is a strategy that gives the step to whoever came last.
type newest struct{}

// String implements sim.Strategy.
func (newest) String() string { return "newest" }

// Start implements sim.Strategy.
func (newest) Start(*rand.Rand, int) sim.Picker { return newest{} }

// Pick implements sim.Picker.
func (newest) Pick(ready []sim.Choice) int {
	best := 0
	for i := range ready {
		if ready[i].Key() > ready[best].Key() {
			best = i
		}
	}
	return best
}

func ExampleChoice_Key() {
	inTest(func(t *testing.T) {
		sim.Check(t, sim.Options{Strategy: newest{}, Runs: 1, TwiceEvery: -1}, func(w *sim.World) {
			for _, name := range []string{"a", "b", "c"} {
				actor.SpawnFunc(w.System(), name, logger(w)).Tell(w.Context(), name)
			}
			w.Settle()
		})
	})
	// Output:
	// 0s c
	// 0s b
	// 0s a
}

func ExampleWorld_Node() {
	once(func(w *sim.World) {
		a := w.Node("a", actor.WithAskTimeout(time.Second)) // a process, if the world were real
		fmt.Println(a.Name(), a.System().Name(), w.Node("a") == a)
	})
	// Output: a a true
}

func ExampleNode_Crash() {
	once(func(w *sim.World) {
		ref := actor.SpawnFunc(w.Node("a").System(), "log", logger(w))
		ref.Tell(w.Context(), "a message")
		w.Node("a").Crash()
		w.Settle()
		again := w.Node("a")
		fmt.Println("actors after the crash:", again.System().Stats().Actors)
	})
	// Output: actors after the crash: 0
}

func ExampleWorld_Link() {
	once(func(w *sim.World) {
		l := w.Link(w.Node("a"), w.Node("b"))
		l.Receive(func(frame any) { fmt.Println(w.Elapsed() < time.Second, frame) })
		l.Faults(sim.LinkFaults{Delay: time.Second})
		l.Send("hello")
		w.Advance(time.Second)
		fmt.Println(l.String(), l.From().Name(), l.To().Name())
	})
	// Output:
	// true hello
	// a->b a b
}

func ExampleLink_Cut() {
	once(func(w *sim.World) {
		l := w.Link(w.Node("a"), w.Node("b"))
		l.Receive(func(frame any) { fmt.Println(frame) })
		l.Send("in flight")
		l.Cut()
		l.Send("into the void")
		l.Mend()
		l.Send("hello")
		w.Settle()
		lost, sent := l.Lost()
		fmt.Println(lost, "of", sent, "are lost")
	})
	// Output:
	// hello
	// 2 of 3 are lost
}

func ExampleWorld_Partition() {
	once(func(w *sim.World) {
		a, b, c := w.Node("a"), w.Node("b"), w.Node("c")
		at := func(n *sim.Node) actor.Ref[string] {
			return actor.SpawnFunc(n.System(), "log", func(_ *actor.Context[string], m string) error {
				fmt.Println(n.Name(), "got", m)
				return nil
			})
		}
		toB, toC := sim.Proxy(w.Link(a, b), "to-b", at(b)), sim.Proxy(w.Link(a, c), "to-c", at(c))
		w.Partition([]*sim.Node{a, b}, []*sim.Node{c})
		toB.Tell(w.Context(), "hello")
		toC.Tell(w.Context(), "hello")
		w.Settle()
	})
	// Output: b got hello
}

func ExampleProxy() {
	once(func(w *sim.World) {
		home, away := w.Node("home"), w.Node("away")
		log := actor.SpawnFunc(away.System(), "log", logger(w))
		remote := sim.Proxy(w.Link(home, away), "log", log) // an actor at home that stands for the one away
		remote.Tell(w.Context(), "hello")
		w.Settle()
	})
	// Output: 0s hello
}

// A text is replaced by writing another file and renaming it. Who forgets the first sync
// has a file that is empty after a crash.
func ExampleNode_Disk() {
	once(func(w *sim.World) {
		d := w.Node("n").Disk()
		for _, text := range []string{"first", "second"} {
			f, err := d.Open("text.new")
			if err != nil {
				w.Fatalf("%v", err)
			}
			_, _ = f.WriteAt([]byte(text), 0)
			_ = f.Sync(w.Context()) // what is in it
			_ = d.Rename("text.new", "text")
			_ = d.Sync(w.Context()) // its name
		}
		w.Node("n").Crash()
		d = w.Node("n").Disk()
		f, _ := d.Open("text")
		text := make([]byte, f.Size())
		_, err := f.ReadAt(text, 0)
		fmt.Println(d.Names(), string(text), err)
	})
	// Output: [text] second <nil>
}

func ExampleDisk_Faults() {
	once(func(w *sim.World) {
		d := w.Node("n").Disk()
		f, _ := d.Open("log")
		d.Faults(sim.DiskFaults{Fail: 1}) // from now on, all the time
		_, err := f.WriteAt([]byte("x"), 0)
		fmt.Println(err, errors.Is(err, sim.ErrDisk))
	})
	// Output: write log: sim: disk failure true
}

func ExampleDisk_Remove() {
	once(func(w *sim.World) {
		d := w.Node("n").Disk()
		f, _ := d.Open("log")
		fmt.Println(d.Remove("log"), d.Names())
		fmt.Println(f.Truncate(10), f.Size()) // it is open still
		fmt.Println(d.Remove("log"))
	})
	// Output:
	// <nil> []
	// <nil> 10
	// remove log: file does not exist
}
