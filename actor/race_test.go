package actor_test

import (
	"sync"
	"testing"

	"github.com/greenroom-go/greenroom/actor"
)

func TestALookAtAnIdleActorDoesNotRaceWithItsFirstMessage(t *testing.T) {
	sys := newSystem(t)
	for range 1000 {
		ref := actor.SpawnFunc(sys, "", func(*actor.Context[int], int) error { return nil })
		var both sync.WaitGroup
		both.Go(func() { ref.Tell(bg, 1) })
		both.Go(func() { _, _ = sys.Detail(bg, ref.PID()) })
		both.Wait()
		ref.Stop()
	}
}
