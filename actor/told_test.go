package actor_test

import (
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/actortest"
)

func TestAHandlerThatReturnsTheErrorOfAWaitThatAStopEndedHasNotFailed(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		ref := actor.SpawnFunc(k.System(), "", func(ctx *actor.Context[int], _ int) error { return ctx.Sleep(time.Hour) })
		ref.Tell(k.Context(), 1)
		k.Settle()
		ref.Stop()
		k.ExpectFailures(0)
	})
}
