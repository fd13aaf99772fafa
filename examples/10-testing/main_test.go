package main

import (
	"fmt"
	"testing"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/actortest"
	"github.com/greenroom-go/greenroom/examples/internal/exampletest"
	"github.com/greenroom-go/greenroom/sim"
)

func TestOutput(t *testing.T) {
	exampletest.Check(t, run, `
		ann: a croissant, error: <nil>
		bob: sold out, error: <nil>
	`)
}

// One actor alone: the test answers in the shelf's place.
func TestWaiterSaysWhatTheShelfSaid(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		shelf := actortest.NewProbe[ShelfMsg](k)
		ann := actor.SpawnFunc(k.System(), "ann", waiter(shelf.Ref()))
		call := actortest.Ask(k, ann, Order{})
		actortest.Reply(shelf, actortest.ExpectMsg[Take](shelf), false)
		if got := call.Answer(); got != "sold out" {
			t.Errorf("the waiter says %q, want %q", got, "sold out")
		}
	})
}

// Several actors in many orders: nobody may get what is not there.
func TestTheLastCroissantIsSoldOnce(t *testing.T) {
	sim.Check(t, sim.Options{}, lastCroissant(waiter))
}

// A waiter who looks first is wrong, but not in every order: sim finds one.
func TestLookingBeforeTakingSellsItTwice(t *testing.T) {
	careless := func(shelf actor.Ref[ShelfMsg]) func(*actor.Context[Order], Order) error {
		return func(ctx *actor.Context[Order], o Order) error {
			left, err := actor.Ask(ctx, shelf, Left{})
			if err != nil {
				return err
			}
			if left == 0 {
				actor.Reply(ctx, o, "sold out")
				return nil
			}
			actor.Reply(ctx, o, "a croissant") // promised before it is taken
			_, err = actor.Ask(ctx, shelf, Take{})
			return err
		}
	}
	if _, found := sim.Find(t, sim.Options{}, lastCroissant(careless)); !found {
		t.Error("no order was found in which the last croissant is sold twice")
	}
}

// lastCroissant returns a world with one croissant, two waiters and a customer for each.
func lastCroissant(waiter func(actor.Ref[ShelfMsg]) func(*actor.Context[Order], Order) error) func(*sim.World) {
	return func(w *sim.World) {
		shelf := actor.Spawn(w.System(), "shelf", func() *Shelf { return &Shelf{left: 1} })
		sold := 0
		w.Always("the last croissant is sold once", func() error {
			if sold > 1 {
				return fmt.Errorf("it is sold %d times", sold)
			}
			return nil
		})
		for _, name := range []string{"ann", "bob"} {
			ref := actor.SpawnFunc(w.System(), name, waiter(shelf))
			w.Go("customer of "+name, func(ctx *actor.Context[sim.Begin]) {
				if text, err := actor.Ask(ctx, ref, Order{}); err == nil && text == "a croissant" {
					sold++
				}
			})
		}
	}
}
