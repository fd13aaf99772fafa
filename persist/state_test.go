package persist_test

import (
	"errors"
	"testing"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/actortest"
	"github.com/greenroom-go/greenroom/persist"
	"github.com/greenroom-go/greenroom/persist/memory"
)

func TestStateIsDurable(t *testing.T) {
	j := memory.New()
	for round := range 3 {
		actortest.Run(t, func(k *actortest.Kit) {
			a := persist.Spawn(open(k, j), k.System(), "a", func() *register { return &register{} })
			for i := range 4 {
				if got := ask(k, a, 1).Await().Answer(); got != 4*round+i+1 {
					t.Fatalf("round %d: %d", round, got)
				}
			}
			if ask(k, a, -1).Await().Err() == nil || ask(k, a, 0).Await().Answer() != 4*round+4 {
				t.Error("a handler that failed has left something")
			}
			k.ExpectFailures(1)
		})
	}
}

func TestAStateIsNotAnsweredFromAfterItsHandlerHasFailed(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		a := persist.Spawn(open(k, memory.New()), k.System(), "a", func() *register { return &register{} })
		ask(k, a, 1).Await()
		call := actortest.Ask(k, a, msg{state: func(ctx *actor.Context[msg], r *register) error {
			r.State.Sum = 100
			<-ctx.Done() // the asker gives up: that is no failure of the actor
			return ctx.Err()
		}})
		if call.Await().Err() == nil {
			t.Error("no error")
		}
		if got := ask(k, a, 0).Await().Answer(); got != 1 {
			t.Errorf("%d is answered, and 1 was saved", got)
		}
		if got := ask(k, a, 1).Await().Answer(); got != 2 {
			t.Errorf("%d was saved", got)
		}
		k.ExpectFailures(1)
	})
}

// register has a durable state.
type register struct{ persist.Durable[total] }

func (r *register) Receive(ctx *actor.Context[msg], m msg) error {
	if m.state != nil {
		return m.state(ctx, r)
	}
	if m.add != 0 {
		r.State.Sum += m.add
		r.Save()
	}
	if m.add < 0 {
		return errors.New("broken")
	}
	actor.ReplyFor(ctx, r.State.Sum)
	return nil
}

func TestLastWordsOfAStateThatWasNeverDurableAreDropped(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		seen := actortest.NewProbe[string](k)
		a := persist.Spawn(open(k, memory.New()), k.System(), "a", func() *talker { return &talker{to: seen.Ref()} })
		ask(k, a, 1).Await()
		broken := errors.New("broken")
		failing := actortest.Ask(k, a, msg{do: func(_ *actor.Context[msg], a *account) error {
			a.Record(added{100})
			return broken
		}})
		if err := failing.Await().Err(); !errors.Is(err, broken) {
			t.Errorf("the asker got %v", err)
		}
		k.Settle()
		seen.ExpectNone()
		k.ExpectFailures(1)
		if got := ask(k, a, 1).Await().Answer(); got != 2 {
			t.Errorf("%d", got)
		}
		a.Stop()
		k.Settle()
		seen.ExpectAll("ended with 2")
	})
}
