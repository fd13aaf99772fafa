package cluster

import (
	"errors"
	"slices"
	"testing"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/actortest"
)

// catcher is a place that keeps what it gets.
type catcher struct{ got []actor.Held[int] }

func (*catcher) Serve(*actor.Virtual[int])          {}
func (*catcher) Find(string) (r actor.Ref[int])     { return r }
func (*catcher) Standing(string) (r actor.Ref[int]) { return r }
func (*catcher) Left(string, actor.Held[int]) bool  { return true }
func (*catcher) Ended(string)                       {}

func (c *catcher) Hold(_ string, m actor.Held[int]) error {
	c.got = append(c.got, m)
	return nil
}

// held returns messages on their way, from 0 to n-1.
func held(t *testing.T, n int) (all []actor.Held[int], ref actor.Ref[int]) {
	t.Helper()
	sys, c := actortest.NewSystem(t), new(catcher)
	v, err := actor.NewVirtual(sys, "kind", c)
	if err != nil {
		t.Fatal(err)
	}
	for m := range n {
		v.Ref("a").Tell(t.Context(), m)
	}
	return c.got, v.Ref("a")
}

func messages(mail []actor.Held[int]) (all []int) {
	for _, m := range mail {
		all = append(all, m.Message())
	}
	return all
}

// TestLocalHandleSendsWhatIsOldestFirst has an activation take the first of the messages that waited, and
// end: with what it has left, what it has not taken, and what has come meanwhile.
func TestLocalHandleSendsWhatIsOldestFirst(t *testing.T) {
	m, ref := held(t, 5)
	h := &handle[int]{key: "a", at: -1, parked: &parking{limit: 100}}
	step := func(want duty) []actor.Held[int] {
		t.Helper()
		do, mail, _ := h.next()
		if do != want {
			t.Fatalf("the next step is %d and not %d", do, want)
		}
		return mail
	}
	if h.add(m[0]) != addedFirst {
		t.Fatal("the first message is not pumped")
	}
	for i := 1; i < 4; i++ {
		if h.add(m[i]) != added {
			t.Fatal("a message is pumped by two")
		}
	}
	step(doSpawn)
	h.open(ref, func() bool { return false })
	if h.live.Load() != nil {
		t.Error("it takes messages directly, and others wait")
	}
	mail := step(doSend)
	h.left = append(h.left, mail[0]) // it was taken, and left
	if h.add(m[4]) != added {
		t.Fatal("a message is pumped by two")
	}
	h.close(mail[1:])
	step(doLeave)
	if h.add(m[0]) != added {
		t.Error("a message is pumped to an activation that takes nothing any more")
	}
	if !h.ended() {
		t.Fatal("nobody pumps after the end")
	}
	step(doSpawn)
	h.open(ref, func() bool { return false })
	if got := messages(step(doSend)); !slices.Equal(got, []int{0, 1, 2, 3, 4, 0}) {
		t.Errorf("sent are %v", got)
	}
	step(doLeave)
	if live := h.live.Load(); live == nil || *live != ref {
		t.Error("it takes no messages directly")
	}
	if got := h.add(m[0]); got != addedFirst || h.live.Load() != nil {
		t.Error("a message that came late is not pumped, or others overtake it")
	}
}

// TestLocalHandleOfAnActivationThatEndsAtOnce has it end before its handle knows that it was there.
func TestLocalHandleOfAnActivationThatEndsAtOnce(t *testing.T) {
	m, ref := held(t, 1)
	h := &handle[int]{key: "a", at: -1, parked: &parking{limit: 100}}
	h.add(m[0])
	if h.ended() {
		t.Fatal("two pump")
	}
	h.open(ref, func() bool { return false })
	if do, _, _ := h.next(); do != doSpawn {
		t.Fatalf("the next step is %d", do)
	}
	h.open(ref, func() bool { return false })
	if do, _, _ := h.next(); do != doSend {
		t.Fatalf("the next step is %d", do)
	}
}

// TestLocalHandleOfOneThatLeavesAgainAndAgainIsBounded has messages come back from one activation after
// the other, and others come.
func TestLocalHandleOfOneThatLeavesAgainAndAgainIsBounded(t *testing.T) {
	m, ref := held(t, 1)
	const limit = 10
	h := &handle[int]{key: "a", at: -1, parked: &parking{limit: limit}}
	h.add(m[0])
	for range 20 {
		h.open(ref, func() bool { return true })
		_, mail, _ := h.next()
		for range 2 * limit {
			h.add(m[0])
		}
		h.left = append(h.left, mail[1:]...) // the first one is handled
		h.ended()
		if n := len(h.left) + len(h.held); n > 3*limit {
			t.Fatalf("%d wait, and at most %d may at once", n, limit)
		}
	}
	h.abandon()
	if n := h.parked.n.Load(); n != 0 {
		t.Errorf("%d are counted, and nobody waits", n)
	}
}

// served is a place that notes whether it could be found before it knew its Virtual.
type served struct {
	catcher
	early error
	v     *actor.Virtual[int]
}

func (s *served) Serve(v *actor.Virtual[int]) {
	_, s.early = actor.Lookup[int](v.System(), v.PID("a"))
	s.v = v
}

func TestLocalPlaceKnowsItsVirtualBeforeItIsFound(t *testing.T) {
	place := new(served)
	v, err := actor.NewVirtual(actortest.NewSystem(t), "kind", place)
	if err != nil {
		t.Fatal(err)
	}
	if place.v != v {
		t.Error("it has not got its Virtual")
	}
	if !errors.Is(place.early, actor.ErrStopped) {
		t.Errorf("it was found before: %v", place.early)
	}
}
