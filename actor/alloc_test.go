package actor_test

import (
	"testing"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/actortest"
)

// The gates of what a message may allocate. They fail here, and not in a benchmark.

func gate(t *testing.T, what string, most float64, f func()) {
	t.Helper()
	for range 100 {
		f()
	}
	if n := testing.AllocsPerRun(2000, f); n > most {
		t.Errorf("%s allocates %v times, at most %v is allowed", what, n, most)
	}
}

func TestATellAllocatesNothing(t *testing.T) {
	sys := actortest.NewSystem(t)
	ref := actor.SpawnFunc(sys, "", func(*actor.Context[beat], beat) error { return nil })
	gate(t, "a tell from outside", 0, func() { ref.Tell(bg, beat{1}) })
}

func TestATurnAllocatesNothing(t *testing.T) {
	sys := actortest.NewSystem(t)
	back := make(chan struct{})
	var ping, pong actor.Ref[beat]
	pong = actor.SpawnFunc(sys, "", func(ctx *actor.Context[beat], m beat) error { ping.Tell(ctx, m); return nil })
	ping = actor.SpawnFunc(sys, "", func(ctx *actor.Context[beat], m beat) error {
		if m.n == 0 {
			back <- struct{}{}
		} else {
			pong.Tell(ctx, beat{m.n - 1})
		}
		return nil
	})
	gate(t, "ten round trips between two actors", 0, func() { ping.Tell(bg, beat{10}); <-back })
}

func TestAnAskAllocatesOnce(t *testing.T) {
	sys := actortest.NewSystem(t)
	type question struct{ actor.Returns[int] }
	server := actor.SpawnFunc(sys, "", func(ctx *actor.Context[question], q question) error {
		actor.Reply(ctx, q, 1)
		return nil
	})
	gate(t, "an ask from outside", 1, func() { _, _ = actor.Ask(bg, server, question{}) })
	back := make(chan struct{})
	client := actor.SpawnFunc(sys, "", func(ctx *actor.Context[beat], _ beat) error {
		_, err := actor.Ask(ctx, server, question{})
		back <- struct{}{}
		return err
	})
	gate(t, "an ask from a handler", 1, func() { client.Tell(bg, beat{}); <-back })
}

func TestASpawnAllocatesTheCellAndTheState(t *testing.T) {
	sys := actortest.NewSystem(t)
	gate(t, "a spawn without a name", 3, func() { actor.Spawn(sys, "", func() *idler { return new(idler) }) })
}

// idler is an actor with a state and nothing else.
type idler struct{ n int64 }

func (a *idler) Receive(*actor.Context[beat], beat) error { a.n++; return nil }

func TestTellOfAStructAllocatesNothing(t *testing.T) {
	sys := actortest.NewSystem(t)
	type point struct{ x, y int }
	handled := 0
	ref := actor.SpawnFunc(sys, "", func(*actor.Context[point], point) error { handled++; return nil })
	stop, done := make(chan struct{}), make(chan float64, 1)
	actor.SpawnFunc(sys, "", func(ctx *actor.Context[int], _ int) error {
		done <- testing.AllocsPerRun(1000, func() { ref.Tell(ctx, point{1, 2}) })
		close(stop)
		return nil
	}).Tell(bg, 1)
	<-stop
	if n := <-done; n > 0.5 { // the buffer grows a few times on its way to a thousand
		t.Errorf("a tell allocates %.2f times", n)
	}
}

func TestAnActorThatEndsAllocatesNothing(t *testing.T) {
	sys := actortest.NewSystem(t)
	gone := make(chan struct{})
	end := &last{gone}
	newLast := func() *last { return end }
	gate(t, "a spawn, a tell and the end", 1, func() { // the cell
		actor.Spawn(sys, "", newLast).Tell(bg, beat{})
		<-gone
	})
}

// last is an actor that ends with its first message.
type last struct{ gone chan struct{} }

func (a *last) Receive(*actor.Context[beat], beat) error { return actor.ErrStop }

func (a *last) Terminate(*actor.Context[beat], error) { a.gone <- struct{}{} }

// A listener of failures, such as package inspect has one, must not make spawns dearer.
func TestASpawnMakesNoEventThatNobodyHears(t *testing.T) {
	spawns := func(listen bool) float64 {
		sys := actortest.NewSystem(t)
		if listen {
			actor.Subscribe(sys, actor.SpawnFunc(sys, "failures", func(*actor.Context[actor.ActorFailed], actor.ActorFailed) error { return nil }))
		}
		return testing.AllocsPerRun(1000, func() {
			actor.SpawnFunc(sys, "", func(*actor.Context[int], int) error { return nil })
		})
	}
	if alone, heard := spawns(false), spawns(true); heard > alone+0.5 {
		t.Errorf("a spawn makes %v allocations, and beside a listener of failures %v", alone, heard)
	}
}
