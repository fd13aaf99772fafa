package actor_test

import (
	"errors"
	"testing"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/actortest"
)

func TestPropsSpawnActorsOfTheSameKindWithAStateEach(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		props := actor.NewProps(newCounter, actor.Temporary)
		a, b := props.Spawn(k.System(), "a"), props.Spawn(k.System(), "")
		a.Tell(k.Context(), add{n: 3})
		if n, m := actortest.Ask(k, a, get{}).Answer(), actortest.Ask(k, b, get{}).Answer(); n != 3 || m != 0 {
			k.T().Errorf("they count %d and %d", n, m)
		}
		if _, err := props.TrySpawn(k.System(), "a"); !errors.Is(err, actor.ErrNameTaken) {
			k.T().Errorf("a second one of that name: %v", err)
		}
	})
}

func TestWithLeavesTheFirstPropsAsTheyWere(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		opts := make([]actor.SpawnOption, 0, 4) // with room for what would be appended in place
		gate := make(chan struct{})
		plain := actor.NewPropsFunc(func(*actor.Context[string], string) error { <-gate; return nil }, opts...)
		bounded, other := plain.With(actor.Bounded(1, actor.Reject)), plain.With(actor.Weight(2))
		for _, c := range []struct {
			props actor.Props[string]
			room  int
		}{{plain, 3}, {other, 3}, {bounded, 1}} {
			ref := c.props.Spawn(k.System(), "")
			ref.Tell(k.Context(), "waits at the gate")
			k.Settle()
			taken := 0
			for range 3 {
				if ref.TryTell(k.Context(), "m") == nil {
					taken++
				}
			}
			if taken != c.room {
				k.T().Errorf("%d messages were taken, not %d", taken, c.room)
			}
		}
		close(gate)
	})
}

func TestTheZeroPropsPanics(t *testing.T) {
	sys := actortest.NewSystem(t)
	defer func() {
		if recover() == nil {
			t.Error("it has not panicked")
		}
	}()
	actor.Props[int]{}.Spawn(sys, "a")
}
