// Package planted is small systems of actors, each with one mistake that shows in some
// orders of events and not in others, as they are made in real programs. Package sim must
// find each of them within the number of runs that is given, and nothing in the same system
// when the mistake is mended.
package planted

import (
	"context"
	"fmt"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/sim"
)

// system is one of them.
type system struct {
	Name string
	// Mistake is what is wrong with it.
	Mistake string
	// Within is the number of runs in which it must be found.
	Within int
	// Options are those of the simulation, apart from the number of runs.
	Options sim.Options
	// Play is the test. With mended the mistake is not made.
	Play func(w *sim.World, mended bool)
}

// cases returns all systems.
func cases() []system {
	return []system{
		{"bank", "a transfer asks for the balance and withdraws later: check, then act", 50, sim.Options{}, bank},
		{"cache", "an answer that was asked for before an update overwrites the update", 50, sim.Options{}, cache},
		{"lock", "a lock that times out is given to the next while the first still works", 200, sim.Options{Faults: sim.Faults{Lag: 0.1}}, lock},
		{"register", "the name is looked up before the service has registered", 20, sim.Options{}, register},
		{"batch", "a timer of the batch before flushes the next one too early", 200, sim.Options{}, batch},
		{"retry", "a request is sent again after a timeout and applied twice", 200, sim.Options{Faults: sim.Faults{Lag: 0.1}}, retry},
		{"worker", "a job that was given to a worker is forgotten when the worker fails", 100, sim.Options{Faults: sim.Faults{Panic: 0.1, Of: isWorker}}, worker},
		{"shutdown", "the writer is told to stop and loses what is queued", 20, sim.Options{}, shutdown},
		{"session", "a session's end removes the session that has taken its place", 50, sim.Options{}, session},
		{"order", "two routes from a producer to the ledger: the shorter one overtakes", 50, sim.Options{}, order},
		{"election", "two nodes that hear nothing of each other both lead", 50, sim.Options{Faults: sim.Faults{Link: sim.LinkFaults{Drop: 0.3}}}, election},
		{"replica", "a late duplicate of an old write wins over a newer one", 300, sim.Options{Faults: sim.Faults{Link: sim.LinkFaults{Duplicate: 0.3, Delay: time.Second}}}, replica},
		{"cancel", "the reply to a cancel is waited for behind a slow queue", 300, sim.Options{Strategy: sim.PCT(3)}, cancel},
	}
}

func isWorker(p actor.PID) bool { return len(p.Path()) > 7 && p.Path()[:8] == "/worker-" }

// ask is actor.Ask of the script, which fails the run when there is no answer.
func ask[R, M any](w *sim.World, to actor.Ref[M], req actor.Request[R]) R {
	answer, err := actor.Ask(w.Context(), to, req)
	if err != nil {
		w.Fatalf("%v", err)
	}
	return answer
}

// The bank: two transfers at a time from one account.

type accountMsg interface{ account() }

type balance struct{ actor.Returns[int] }

type withdraw struct {
	actor.Returns[bool]
	amount int
	check  bool
}

func (balance) account()  {}
func (withdraw) account() {}

func bank(w *sim.World, mended bool) {
	left := 100
	account := actor.SpawnFunc(w.System(), "account", func(ctx *actor.Context[accountMsg], m accountMsg) error {
		switch m := m.(type) {
		case balance:
			actor.Reply(ctx, m, left)
		case withdraw:
			if m.check && left < m.amount {
				actor.Reply(ctx, m, false)
				return nil
			}
			left -= m.amount
			actor.Reply(ctx, m, true)
		}
		return nil
	})
	w.Always("nobody is overdrawn", func() error {
		if left < 0 {
			return fmt.Errorf("the balance is %d", left)
		}
		return nil
	})
	for i := range 2 {
		w.Go(fmt.Sprintf("transfer-%d", i), func(ctx *actor.Context[sim.Begin]) {
			if has, err := actor.Ask(ctx, account, balance{}); err != nil || has < 60 {
				return
			}
			_, _ = actor.Ask(ctx, account, withdraw{amount: 60, check: mended})
		})
	}
}

// The cache: it loads a value from the store on a miss, and is told of updates.

type cacheMsg interface{ cache() }

type get struct{ actor.Returns[int] }

type updated struct{ value, version int }

type loaded struct{ value, version int }

func (get) cache()     {}
func (updated) cache() {}
func (loaded) cache()  {}

type storeMsg interface{ store() }

type load struct{ actor.Returns[updated] }

type save struct{ value int }

func (load) store() {}
func (save) store() {}

func cache(w *sim.World, mended bool) {
	held := updated{}
	var cached actor.Ref[cacheMsg]
	kept := updated{}
	store := actor.SpawnFunc(w.System(), "store", func(ctx *actor.Context[storeMsg], m storeMsg) error {
		switch m := m.(type) {
		case load:
			actor.Reply(ctx, m, kept)
		case save:
			kept = updated{m.value, kept.version + 1}
			// The news takes a way of its own.
			news := kept
			actor.Pipe(ctx, func(context.Context) (int, error) {
				cached.Tell(w.Context(), news)
				return 0, nil
			}, func(int, error) storeMsg { return nil })
		}
		return nil
	})
	cached = actor.SpawnFunc(w.System(), "cache", func(ctx *actor.Context[cacheMsg], m cacheMsg) error {
		switch m := m.(type) {
		case get:
			actor.AskThen(ctx, store, load{}, func(u updated, _ error) cacheMsg { return loaded(u) })
			actor.Reply(ctx, m, held.value)
		case updated:
			if !mended || m.version > held.version {
				held = m
			}
		case loaded:
			if !mended || m.version > held.version {
				held = updated(m)
			}
		}
		return nil
	})
	ask(w, cached, get{})
	store.Tell(w.Context(), save{1})
	ask(w, cached, get{})
	store.Tell(w.Context(), save{2})
	w.Settle()
	if held != kept {
		w.Fatalf("the cache has %v for good, the store %v", held, kept)
	}
}
