package cluster

import (
	"testing"

	"github.com/greenroom-go/greenroom/actor"
)

// TestNothingOvertakesWhatTheRouterSends has a message come while the router sends on what has waited: in turns of
// its own, so that a simulation has nobody come between.
func TestNothingOvertakesWhatTheRouterSends(t *testing.T) {
	const epoch = 3
	l := &lot[int]{epoch: epoch, mine: true}
	l.addMark(&mark{stamp: epoch, want: epoch}) // as a message from another node does that knows the owner
	if w, _, _ := l.enter(epoch); w != toWait {
		t.Fatal("the shard is not ready, and a message goes to an activation")
	}
	if err := l.take(epoch); err != nil {
		t.Fatal(err)
	}
	duty, _, _, mail := l.next(true)
	if duty != lotHere || len(mail) != 1 {
		t.Fatalf("the router has the duty %d with %d parcels", duty, len(mail))
	}
	for _, stamp := range []uint64{0, epoch - 1, epoch} {
		if w, _, _ := l.enter(stamp); w != toWait {
			t.Errorf("a message with the stamp %d does not wait for what the router is sending", stamp)
		}
	}
	if duty, _, _, _ = l.next(true); duty != lotRests || !l.open.Load() {
		t.Errorf("then the router has the duty %d", duty)
	}
	if w, _, _ := l.enter(epoch); w != toHandle {
		t.Error("nothing is in the way any more, and a message waits")
	}
	if !l.park(actor.Held[int]{}, &parking{limit: 1}, false) || l.open.Load() {
		t.Error("a message waits, and the next one of its sender would go to the activation at once")
	}
}
