package actor_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/actortest"
)

func TestWhatIsDeliveredLaterComesOnceAndToItsIncarnationOnly(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		var deliver []func(string, error)
		var got []string
		ref := actor.SpawnFunc(k.System(), "a", func(ctx *actor.Context[string], m string) error {
			switch m {
			case "later":
				deliver = append(deliver, actor.Later(ctx, func(s string, err error) string {
					if err != nil {
						return err.Error()
					}
					return s
				}))
			case "fail":
				return errBroken
			default:
				got = append(got, m)
			}
			return nil
		})
		tell := func(m string) {
			ref.Tell(k.Context(), m)
			k.Settle()
		}
		for range 3 {
			tell("later")
		}
		go deliver[0]("one", nil)
		k.Settle()
		deliver[0]("one again", nil)
		deliver[1]("", errors.New("two"))
		k.Settle()
		tell("fail")
		deliver[2]("three", nil)
		k.Settle()
		tell("later")
		ref.Stop()
		k.Settle()
		deliver[3]("four", nil)
		k.ExpectFailures(1)
		if want := []string{"one", "two"}; !slices.Equal(got, want) || k.System().Stats().DeadLetters != 0 {
			k.T().Errorf("got %q, want %q, %d dead letters", got, want, k.System().Stats().DeadLetters)
		}
	})
}
