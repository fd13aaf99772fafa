package actor_test

import (
	"testing"

	"github.com/greenroom-go/greenroom/actor"
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
	sys := newSystem(t)
	ref := actor.SpawnFunc(sys, "", func(*actor.Context[beat], beat) error { return nil })
	gate(t, "a tell from outside", 0, func() { ref.Tell(bg, beat{1}) })
}

func TestATurnAllocatesNothing(t *testing.T) {
	sys := newSystem(t)
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
	sys := newSystem(t)
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
	sys := newSystem(t)
	gate(t, "a spawn without a name", 3, func() { actor.Spawn(sys, "", func() *idler { return new(idler) }) })
}

// idler is an actor with a state and nothing else.
type idler struct{ n int64 }

func (a *idler) Receive(*actor.Context[beat], beat) error { a.n++; return nil }
