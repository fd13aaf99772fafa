package cluster

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/actortest"
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
	if ok, _ := l.park(actor.Held[int]{}, &parking{limit: 1}, peer{}); !ok || l.open.Load() {
		t.Error("a message waits, and the next one of its sender would go to the activation at once")
	}
}

// TestAMessageThatFailsLateCutsNobodyElseOff has a message be on its way to an owner that is lost, while the router
// learns of the next one: that one can be reached.
func TestAMessageThatFailsLateCutsNobodyElseOff(t *testing.T) {
	a, b := peer{node: "a"}, peer{node: "b"}
	isGone := func(peer) bool { return false }
	l := &lot[int]{epoch: 3, to: a}
	w, to, epoch := l.enter(0)
	if w != toPeer || to != a || epoch != 3 {
		t.Fatalf("a message goes %d to %v in %d", w, to, epoch)
	}
	l.reroute(4, false, b, isGone)
	l.leave()
	if ok, look := l.park(actor.Held[int]{}, &parking{limit: 1}, to); !ok || !look {
		t.Fatal("the message must not wait, or the router is not told")
	}
	if duty, _, _, mail := l.next(true); duty != lotThere || len(mail) != 1 {
		t.Errorf("the router has the duty %d with %d parcels: want %d and one", duty, len(mail), lotThere)
	}
	l.next(true)
	if w, to, _ = l.enter(0); w != toPeer || to != b {
		t.Errorf("the next message goes %d to %v: want %d to %v", w, to, toPeer, b)
	}
	l.leave()
	l.park(actor.Held[int]{}, &parking{limit: 1}, b)
	if duty, _, _, _ := l.next(true); duty != lotRests {
		t.Errorf("the owner cannot be reached, and the router has the duty %d", duty)
	}
}

// TestTheRouterLooksOnceAtWhatFindsNoRoom has messages wait while the way to the owner has no room. A look copies what
// waits: one for each message would make all of them together quadratic.
func TestTheRouterLooksOnceAtWhatFindsNoRoom(t *testing.T) {
	for _, n := range []int{100, 400} {
		l, parked := &lot[int]{epoch: 3, to: peer{node: "a"}}, &parking{limit: int64(n)}
		looks, moved := 0, 0
		router := func() {
			duty, _, _, mail := l.next(true)
			if looks++; duty == lotThere {
				moved += len(mail)
				l.putBack(mail, false)
			}
		}
		for range n {
			ok, look := l.park(actor.Held[int]{}, parked, peer{})
			if !ok {
				t.Fatal("there is no place for the message")
			}
			if look {
				router()
			}
		}
		if looks != 1 || moved != 1 {
			t.Errorf("for %d messages the router has looked %d times at %d messages, want once at one", n, looks, moved)
		}
		l.retry()
		if duty, _, _, mail := l.next(true); duty != lotThere || len(mail) != n {
			t.Errorf("later the router has the duty %d with %d messages: want %d with %d", duty, len(mail), lotThere, n)
		}
	}
}

// TestTheRouterIsToldOnce has messages come to wait before the router has a turn.
func TestTheRouterIsToldOnce(t *testing.T) {
	l, parked := &lot[int]{epoch: 3, mine: true}, &parking{limit: 100}
	if err := l.take(3); err != nil {
		t.Fatal(err)
	}
	for i, want := range []bool{true, false, false} {
		if _, look := l.park(actor.Held[int]{}, parked, peer{}); look != want {
			t.Errorf("message %d: the router is told: %v, want %v", i+1, look, want)
		}
	}
	if duty, _, _, mail := l.next(true); duty != lotHere || len(mail) != 3 {
		t.Errorf("the router has the duty %d with %d messages: want %d with 3", duty, len(mail), lotHere)
	}
	l.next(true)
	if _, look := l.park(actor.Held[int]{}, parked, peer{}); !look {
		t.Error("the router is not told of what has come after its look")
	}
}

// TestWhatIsPutBackKeepsItsPlace has a message wait for an owner, which then cannot be reached: it waits on, and counts.
func TestWhatIsPutBackKeepsItsPlace(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		n, err := Join(k.System(), Config{Engine: silent{}})
		if err != nil {
			t.Fatal(err)
		}
		kind, err := Register(n, "kind", func(string) nothing { return nothing{} })
		if err != nil {
			t.Fatal(err)
		}
		kind.Ref("k").Tell(k.Context(), 1)
		k.Settle()
		table := kind.table
		l := table.lot("k")
		l.reroute(1, false, peer{node: "nobody", inc: 1}, func(peer) bool { return false })
		table.look("k")
		k.Settle()
		if places := table.parked.n.Load(); !l.cut || len(l.queue) != 1 || places != 1 {
			t.Errorf("%d messages wait, with %d places, and the owner is cut off: %v; want one with one, and true", len(l.queue), places, l.cut)
		}
		table.endLot(l)
		if places := table.parked.n.Load(); places != 0 {
			t.Errorf("nothing waits any more, with %d places", places)
		}
	})
}

// TestAFarewellIsNotKeptForWhoHasGivenUp has a node be asked about a map that it never sees.
func TestAFarewellIsNotKeptForWhoHasGivenUp(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		n, err := Join(k.System(), Config{Engine: silent{}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Register(n, "kind", func(string) nothing { return nothing{} }); err != nil {
			t.Fatal(err)
		}
		k.Settle()
		began := time.Now()
		_, err = actor.Ask(k.Context(), n.router, farewell{Maps: map[string]uint64{"kind": 1}}, actor.Within(time.Hour))
		if took := time.Since(began); !errors.Is(err, errNotKnown) || took > 2*markLimit {
			t.Errorf("after %v: %v, want %v", took, err, errNotKnown)
		}
	})
}

// silent is an engine that knows nothing.
type silent struct{}

func (silent) Put(context.Context, string, []byte, Revision) (Revision, error) { return 0, ErrUnsure }

func (silent) Get(context.Context, string) (Entry, error) { return Entry{}, ErrUnsure }
func (silent) Watch(string, func(Entry)) (stop func())    { return func() {} }

type nothing struct{}

func (nothing) Receive(*actor.Context[int], int) error { return nil }

// TestANameThatWasTakenMayBeFreeLater has a kind be registered a second time, since its name was that of an actor.
func TestANameThatWasTakenMayBeFreeLater(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		n, err := Join(k.System(), Config{Engine: silent{}})
		if err != nil {
			t.Fatal(err)
		}
		other := actor.Spawn(k.System(), "kind", func() nothing { return nothing{} })
		register := func() error {
			_, err := Register(n, "kind", func(string) nothing { return nothing{} })
			return err
		}
		if err := register(); !errors.Is(err, actor.ErrNameTaken) {
			t.Fatalf("the name of another actor: %v, want %v", err, actor.ErrNameTaken)
		}
		other.Stop()
		k.Settle()
		if err := register(); err != nil {
			t.Errorf("the name is free: %v", err)
		}
	})
}
