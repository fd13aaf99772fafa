package persist_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/actortest"
	"github.com/greenroom-go/greenroom/codec"
	"github.com/greenroom-go/greenroom/persist"
	"github.com/greenroom-go/greenroom/persist/memory"
)

type (
	added   struct{ N int }
	removed struct{ N int }
	total   struct {
		Sum     int
		Numbers uint64
	}
)

var types = codec.NewTypes(codec.Of[added]("test.added"), codec.Of[removed]("test.removed"), codec.Of[total]("test.total"),
	codec.Of[paid]("test.paid"), codec.Of[got]("test.got"), codec.Of[rung]("test.rung"), codec.Of[friend]("test.friend"))

// msg is what the actors of these tests are told: add and answer, do something, or get.
type msg struct {
	actor.Returns[int]
	add int
	do  func(ctx *actor.Context[msg], a *account) error

	state func(ctx *actor.Context[msg], r *register) error
}

// account is event-sourced.
type account struct {
	persist.Events[any]
	sum     int
	numbers uint64 // events applied
	log     *actortest.Journal
}

func (a *account) Apply(e any) {
	a.numbers++
	switch e := e.(type) {
	case added:
		a.sum += e.N
	case removed:
		a.sum -= e.N
	}
}

func (a *account) Recovered(*actor.Context[msg]) error {
	if a.log != nil {
		a.log.Addf("recovered with %d", a.sum)
	}
	return nil
}

func (a *account) Receive(ctx *actor.Context[msg], m msg) error {
	switch {
	case m.do != nil:
		return m.do(ctx, a)
	case m.add > 0:
		a.Record(added{m.add})
	case m.add < 0:
		a.Record(removed{-m.add})
	}
	actor.ReplyFor(ctx, a.sum)
	return nil
}

// doorJournal is a journal whose commits wait at a door, and fail.
type doorJournal struct {
	persist.Journal
	mu     sync.Mutex
	open   chan struct{} // nil: it is open
	fail   int
	events int // committed
}

func (j *doorJournal) close() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.open = make(chan struct{})
}

func (j *doorJournal) letIn() {
	j.mu.Lock()
	defer j.mu.Unlock()
	close(j.open)
	j.open = nil
}

func (j *doorJournal) Commit(ctx context.Context, b *persist.Batch) error {
	j.mu.Lock()
	open, fails := j.open, j.fail > 0
	j.fail = max(j.fail-1, 0)
	j.mu.Unlock()
	if open != nil {
		select {
		case <-open:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	if fails {
		return errors.New("the disk is full")
	}
	err := j.Journal.Commit(ctx, b)
	j.mu.Lock()
	for i := range b.Appends {
		j.events += len(b.Appends[i].Events)
	}
	j.mu.Unlock()
	return err
}

func newDoor() *doorJournal { return &doorJournal{Journal: memory.New()} }

func open(k *actortest.Kit, j persist.Journal) *persist.Persistence {
	p, err := persist.Open(k.Context(), k.System(), j, persist.Config{Types: types})
	if err != nil {
		k.T().Fatal(err)
	}
	return p
}

func ask(k *actortest.Kit, to actor.Ref[msg], n int) *actortest.Call[int] {
	return actortest.Ask(k, to, msg{add: n})
}

func TestAnActorIsStillItselfInAnotherSystem(t *testing.T) {
	j := memory.New()
	for round := range 3 {
		actortest.Run(t, func(k *actortest.Kit) {
			log := actortest.NewJournal(k)
			a := persist.Spawn(open(k, j), k.System(), "a", func() *account { return &account{log: log} })
			for i := range 10 {
				if got := ask(k, a, 1).Await().Answer(); got != 10*round+i+1 {
					t.Fatalf("round %d: %d", round, got)
				}
			}
			log.Expect(fmt.Sprintf("recovered with %d", 10*round))
		})
	}
	l, err := j.Load(t.Context(), []string{"/a"})
	if err != nil || l[0].Last != 30 {
		t.Errorf("%+v, %v", l, err)
	}
}

func TestNothingLeavesBeforeItIsDurable(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		j, seen := newDoor(), actortest.NewProbe[string](k)
		a := persist.Spawn(open(k, j), k.System(), "a", func() *account { return &account{} })
		ask(k, a, 1).Await()
		j.close()
		var calls []*actortest.Call[int]
		for n := range 5 {
			a.Tell(k.Context(), msg{do: func(ctx *actor.Context[msg], a *account) error {
				seen.Ref().Tell(ctx, fmt.Sprint("before ", n))
				a.Record(added{1})
				seen.Ref().Tell(ctx, fmt.Sprint("after ", n))
				return nil
			}})
			k.Settle()
			calls = append(calls, ask(k, a, 0)) // a query, of a state that is not durable yet
			k.Settle()
		}
		k.Settle()
		seen.ExpectNone()
		for _, c := range calls {
			if !c.Pending() {
				t.Error("a query was answered from a state that is not durable")
			}
		}
		j.letIn()
		k.Settle()
		var want []string
		for n := range 5 {
			want = append(want, fmt.Sprint("before ", n), fmt.Sprint("after ", n))
			if got := calls[n].Answer(); got != n+2 {
				t.Errorf("query %d: %d", n, got)
			}
		}
		seen.ExpectAll(want...)
	})
}

func TestAHandlerThatFailsHasDoneNothing(t *testing.T) {
	for name, end := range map[string]func(ctx *actor.Context[msg]) error{
		"Error": func(*actor.Context[msg]) error { return errors.New("broken") },
		"Panic": func(*actor.Context[msg]) error { panic("broken") },
	} {
		t.Run(name, func(t *testing.T) {
			actortest.Run(t, func(k *actortest.Kit) {
				j, seen, log := newDoor(), actortest.NewProbe[string](k), actortest.NewJournal(k)
				a := persist.Spawn(open(k, j), k.System(), "a", func() *account { return &account{log: log} })
				ask(k, a, 5).Await()
				j.close()
				on := ask(k, a, 1) // on its way when the handler fails
				k.Settle()
				failing := actortest.Ask(k, a, msg{do: func(ctx *actor.Context[msg], a *account) error {
					a.Record(added{100})
					seen.Ref().Tell(ctx, "lost")
					actor.ReplyFor(ctx, a.sum)
					return end(ctx)
				}})
				k.Settle()
				k.ExpectFailures(1)
				after := ask(k, a, 0)
				k.Settle()
				if !on.Pending() || !after.Pending() {
					t.Error("the new incarnation has not waited for what is on its way")
				}
				j.letIn()
				k.Settle()
				if on.Answer() != 6 || after.Answer() != 6 || failing.Err() == nil {
					t.Errorf("on its way %d, after %d, of the one that failed %v", on.Answer(), after.Answer(), failing.Err())
				}
				seen.ExpectNone()
				log.Expect("recovered with 0", "recovered with 6")
			})
		})
	}
}

func TestACommitThatFailsIsTriedAgain(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		j := newDoor()
		j.fail = 5
		a := persist.Spawn(open(k, j), k.System(), "a", func() *account { return &account{} })
		c := ask(k, a, 1)
		k.Settle()
		if !c.Pending() {
			t.Error("answered although the journal has failed")
		}
		if got := c.Await().Answer(); got != 1 || k.Elapsed() < 300*time.Millisecond {
			t.Errorf("%d after %v", got, k.Elapsed())
		}
		if !strings.Contains(k.Log(), "the disk is full") {
			t.Error("the log does not say so")
		}
	})
}

func TestWhoeverComesSecondIsFenced(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		j := newDoor()
		seen, log, p := actortest.NewProbe[string](k), actortest.NewJournal(k), open(k, j)
		a := persist.Spawn(p, k.System(), "a", func() *account { return &account{log: log} })
		b := persist.Spawn(p, k.System(), "b", func() *account { return &account{} })
		ask(k, a, 1).Await()
		write(t, j, "/a", 1, added{10})
		j.close()
		lost := ask(k, a, 2)
		a.Tell(k.Context(), msg{do: func(ctx *actor.Context[msg], a *account) error {
			a.Record(added{3})
			seen.Ref().Tell(ctx, "lost")
			return nil
		}})
		unconcerned := ask(k, b, 7)
		k.Settle()
		j.letIn()
		k.Settle()
		if !errors.Is(lost.Err(), persist.ErrFenced) || unconcerned.Answer() != 7 {
			t.Errorf("%v, %d", lost.Err(), unconcerned.Answer())
		}
		seen.ExpectNone()
		if got := ask(k, a, 4).Await().Answer(); got != 15 {
			t.Errorf("after the conflict: %d", got)
		}
		log.Expect("recovered with 0", "recovered with 11")
		k.ExpectFailures(1)
	})
}

// expectFencedEnd expects of an actor whose shard has moved that it answers nothing and ends.
func expectFencedEnd(t *testing.T, k *actortest.Kit, a actor.Ref[msg]) {
	t.Helper()
	if err := ask(k, a, 0).Await().Err(); !errors.Is(err, persist.ErrFenced) && !errors.Is(err, actor.ErrStopped) {
		t.Errorf("a later question: %v", err)
	}
	k.Settle()
	if err := ask(k, a, 0).Await().Err(); !errors.Is(err, actor.ErrStopped) {
		t.Errorf("after its end: %v", err)
	}
}

// An actor whose shard has moved stops, also if it has restarted since for another reason.
func TestWhoseShardHasMovedStopsAfterARestart(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		j := memory.New()
		p := open(k, j)
		if err := p.Claim(k.Context(), "s", 1); err != nil {
			t.Fatal(err)
		}
		a := persist.Spawn(p, k.System(), "a", func() *account { return &account{} }, persist.Shard("s", 1))
		ask(k, a, 1).Await()
		if err := j.Claim(k.Context(), "s", 2); err != nil {
			t.Fatal(err)
		}
		hold := make(chan struct{})
		a.Tell(k.Context(), msg{do: func(_ *actor.Context[msg], a *account) error {
			a.Record(added{2})
			return nil
		}})
		a.Tell(k.Context(), msg{do: func(*actor.Context[msg], *account) error {
			<-hold
			return nil
		}})
		k.Advance(time.Second)          // a second worker runs the committer
		_ = k.System().Restart(a.PID()) // it may have ended: the second message may have come too late
		close(hold)
		k.Settle()
		expectFencedEnd(t, k, a)
		k.AllowFailures()
	})
}

// The owner of a shard with a lower epoch wakes up after another one has taken the shard over.
func TestWhoseShardHasMovedIsFencedAndStops(t *testing.T) {
	j := memory.New()
	owner := func(k *actortest.Kit, sys *actor.System, epoch uint64) (*persist.Persistence, actor.Ref[msg]) {
		if err := j.Claim(k.Context(), "s", epoch); err != nil {
			t.Fatal(err)
		}
		p, err := persist.Open(k.Context(), sys, j, persist.Config{Types: types})
		if err != nil {
			t.Fatal(err)
		}
		a, err := persist.TrySpawn(p, sys, "a", func() *account { return &account{} }, persist.ID("cart/42"), persist.Shard("s", epoch))
		if err != nil {
			t.Fatal(err)
		}
		return p, a
	}
	actortest.Run(t, func(k *actortest.Kit) {
		p, a := owner(k, k.System(), 1)
		seen := actortest.NewProbe[string](k)
		b := persist.Spawn(p, k.System(), "b", func() *account { return &account{} })
		ask(k, a, 1).Await()
		other := actor.NewSystem("other")
		_, next := owner(k, other, 2)
		if got := ask(k, next, 10).Await().Answer(); got != 11 {
			t.Errorf("the next owner has %d", got)
		}
		a.Tell(k.Context(), msg{do: func(ctx *actor.Context[msg], a *account) error {
			a.Record(added{3})
			seen.Ref().Tell(ctx, "lost")
			return nil
		}})
		lost, late := ask(k, a, 2), ask(k, a, 0)
		k.Settle()
		for _, call := range []*actortest.Call[int]{lost, late} {
			if err := call.Err(); !errors.Is(err, persist.ErrFenced) && !errors.Is(err, actor.ErrStopped) {
				t.Errorf("answered %v, %v", call.Answer(), err)
			}
		}
		expectFencedEnd(t, k, a)
		seen.ExpectNone()
		if got := ask(k, b, 7).Await().Answer(); got != 7 {
			t.Errorf("the other one has %d", got)
		}
		if got := ask(k, next, 5).Await().Answer(); got != 16 {
			t.Errorf("the next owner has %d in the end", got)
		}
		if _, err := other.Shutdown(k.Context()); err != nil {
			t.Error(err)
		}
		k.AllowFailures()
	})
}

func TestWhatCannotBeReadStopsItsActorAlone(t *testing.T) {
	for name, event := range map[string]persist.Payload{
		"unknown type":  {Type: "nobody.knows", Data: []byte{0xa0}},
		"broken":        {Type: "test.added", Data: []byte{0xa1, 0x61, 0x4e, 0x01}, Sum: 1},
		"not decodable": {Type: "test.added", Data: []byte{0xff}},
	} {
		t.Run(name, func(t *testing.T) {
			j := memory.New()
			if event.Sum == 0 {
				event.Seal("/a", 1)
			}
			if err := j.Commit(t.Context(), &persist.Batch{Number: 1, Appends: []persist.Append{{ID: "/a", Events: []persist.Payload{event}}}}); err != nil {
				t.Fatal(err)
			}
			actortest.Run(t, func(k *actortest.Kit) {
				p := open(k, j)
				a := persist.Spawn(p, k.System(), "a", func() *account { return &account{} })
				b := persist.Spawn(p, k.System(), "b", func() *account { return &account{} })
				k.Watch(a)
				lost, other := ask(k, a, 1), ask(k, b, 1)
				if err := lost.Await().Err(); !errors.Is(err, persist.ErrUnreadable) || !strings.Contains(err.Error(), "number 1 of /a") {
					t.Errorf("got %v", err)
				}
				if d := actortest.ExpectDown(k, a); d.Reason != actor.Failed || !errors.Is(d.Err, persist.ErrUnreadable) {
					t.Errorf("down: %+v", d)
				}
				if got := other.Await().Answer(); got != 1 {
					t.Errorf("the other: %d", got)
				}
				k.ExpectFailures(1)
			})
		})
	}
}

func TestAnAskDividesTheHandler(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		j := newDoor()
		oracle := actor.SpawnFunc(k.System(), "oracle", func(ctx *actor.Context[msg], _ msg) error {
			actor.ReplyFor(ctx, j.events)
			return nil
		})
		a := persist.Spawn(open(k, j), k.System(), "a", func() *account { return &account{} })
		call := actortest.Ask(k, a, msg{do: func(ctx *actor.Context[msg], a *account) error {
			a.Record(added{1})
			n, err := actor.Ask(ctx, oracle, msg{})
			if err != nil || n != 1 {
				t.Errorf("when the request came %d events were durable, %v", n, err)
			}
			a.Record(added{1})
			return errors.New("broken")
		}})
		if call.Await().Err() == nil {
			t.Error("no error")
		}
		if got := ask(k, a, 0).Await().Answer(); got != 1 {
			t.Errorf("%d", got)
		}
		k.ExpectFailures(1)
	})
}

func TestAnAskWithADerivedContextDoesNotDivideTheHandler(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		j := newDoor()
		oracle := actor.SpawnFunc(k.System(), "oracle", func(ctx *actor.Context[msg], _ msg) error {
			actor.ReplyFor(ctx, j.events)
			return nil
		})
		a := persist.Spawn(open(k, j), k.System(), "a", func() *account { return &account{} })
		ask(k, a, 1).Await()
		call := actortest.Ask(k, a, msg{do: func(ctx *actor.Context[msg], a *account) error {
			derived, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			if n, err := actor.Ask(derived, oracle, msg{}); err != nil || n != 1 {
				t.Errorf("before anything is recorded: %d, %v", n, err)
			}
			a.Record(added{1})
			if _, err := actor.Ask(derived, oracle, msg{}); err == nil || !strings.Contains(err.Error(), "actor.Within") {
				t.Errorf("after that: %v", err)
			}
			return errors.New("broken")
		}})
		if call.Await().Err() == nil {
			t.Error("no error")
		}
		if got := ask(k, a, 0).Await().Answer(); got != 1 {
			t.Errorf("a part of the handler was recorded: %d", got)
		}
		k.ExpectFailures(1)
	})
}

func TestWhatRecoveredSendsIsNotLostWithTheFirstMessage(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		seen := actortest.NewProbe[string](k)
		a := persist.Spawn(open(k, memory.New()), k.System(), "a", func() *greeter { return &greeter{to: seen.Ref()} })
		failing := actortest.Ask(k, a, msg{do: func(ctx *actor.Context[msg], _ *account) error {
			seen.Ref().Tell(ctx, "lost")
			return errors.New("broken")
		}})
		if failing.Await().Err() == nil {
			t.Error("no error")
		}
		k.Settle()
		k.ExpectFailures(1)
		seen.ExpectAll("recovered")
	})
}

// greeter says when it is recovered.
type greeter struct {
	account
	to actor.Ref[string]
}

func (a *greeter) Recovered(ctx *actor.Context[msg]) error {
	a.to.Tell(ctx, "recovered")
	return nil
}

func TestTheEndComesAfterWhatIsOnItsWay(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		theEndComesLast(k, func() *account { return &account{} })
	})
}

func TestAPanicOfTerminateDoesNotOvertakeWhatIsOnItsWay(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		theEndComesLast(k, func() *panicker { return &panicker{} })
		k.AllowFailures()
	})
}

// panicker panics when it ends.
type panicker struct{ account }

func (*panicker) Terminate(*actor.Context[msg], error) { panic("broken") }

// theEndComesLast has an actor end with something on its way.
func theEndComesLast[A actor.Actor[msg]](k *actortest.Kit, newActor func() A) {
	j, seen := newDoor(), actortest.NewProbe[any](k)
	a := persist.Spawn(open(k, j), k.System(), "a", newActor)
	actortest.Do(seen, func(ctx *actor.Context[any]) error {
		ctx.Watch(a.PID(), func(d actor.Down) any { return d.Reason })
		return nil
	})
	j.close()
	a.Tell(k.Context(), msg{do: func(ctx *actor.Context[msg], a *account) error {
		a.Record(added{1})
		seen.Ref().Tell(ctx, "last words")
		return actor.ErrStop
	}})
	k.Settle()
	seen.ExpectNone()
	j.letIn()
	k.Settle()
	seen.ExpectAll("last words", actor.Stopped)
}

func TestAnActorWaitsWhenTooMuchIsOnItsWay(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		j := newDoor()
		p, err := persist.Open(k.Context(), k.System(), j, persist.Config{Types: types, Ahead: 3})
		if err != nil {
			t.Fatal(err)
		}
		handled := 0
		a := persist.Spawn(p, k.System(), "a", func() *account { return &account{} })
		ask(k, a, 1).Await()
		j.close()
		for range 10 {
			a.Tell(k.Context(), msg{do: func(_ *actor.Context[msg], a *account) error {
				handled++
				a.Record(added{1})
				return nil
			}})
		}
		k.Settle()
		if handled != 3 {
			t.Errorf("%d were handled while nothing is durable, want 3", handled)
		}
		j.letIn()
		k.Settle()
		if handled != 10 {
			t.Errorf("%d were handled, want 10", handled)
		}
	})
}

func TestAnActorThatOnlyAnswersWaitsToo(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		j := newDoor()
		p, err := persist.Open(k.Context(), k.System(), j, persist.Config{Types: types, AheadBytes: 1000})
		if err != nil {
			t.Fatal(err)
		}
		a := persist.Spawn(p, k.System(), "a", func() *account { return &account{} })
		ask(k, a, 1).Await()
		j.close()
		calls, handled := []*actortest.Call[int]{ask(k, a, 1)}, 0
		k.Settle()
		for range 100 {
			calls = append(calls, actortest.Ask(k, a, msg{do: func(ctx *actor.Context[msg], a *account) error {
				handled++
				actor.ReplyFor(ctx, a.sum)
				return nil
			}}))
		}
		k.Settle()
		if handled < 10 || handled > 20 {
			t.Errorf("%d were handled while nothing leaves, want 1000/64", handled)
		}
		j.letIn()
		for _, c := range calls {
			if got := c.Await().Answer(); got != 2 {
				t.Fatalf("%d", got)
			}
		}
	})
}

func TestWhatNoJournalTakesConcernsNobodyElse(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		p := open(k, &overfull{memory.New()})
		a := persist.Spawn(p, k.System(), "a", func() *account { return &account{} })
		b := persist.Spawn(p, k.System(), "b", func() *account { return &account{} })
		failing := actortest.Ask(k, a, msg{do: func(_ *actor.Context[msg], a *account) error {
			a.Record(added{1})
			a.Send("/b", added{1}) // its number would be 0
			return nil
		}})
		other := ask(k, b, 1)
		if err := failing.Await().Err(); err == nil || !strings.Contains(err.Error(), "message 0 comes after message 0") {
			t.Errorf("%v", err)
		}
		if got := other.Await().Answer(); got != 1 {
			t.Errorf("%d", got)
		}
		if got := ask(k, a, 2).Await().Answer(); got != 2 {
			t.Errorf("%d", got)
		}
		k.ExpectFailures(1)
	})
}

// overfull is a journal in which an id has no numbers left for what it sends.
type overfull struct{ *memory.Journal }

func (j *overfull) Load(ctx context.Context, ids []string) ([]persist.Loaded, error) {
	list, err := j.Journal.Load(ctx, ids)
	for i := range list {
		list[i].Sent = math.MaxUint64
	}
	return list, err
}

func TestManyEventsAreReadInPages(t *testing.T) {
	j := memory.New()
	for range 2 {
		actortest.Run(t, func(k *actortest.Kit) {
			a := persist.Spawn(open(k, j), k.System(), "a", func() *account { return &account{} }, persist.Eager())
			for range 5 {
				a.Tell(k.Context(), msg{do: func(_ *actor.Context[msg], a *account) error {
					for range persist.PageRecords / 2 {
						a.Record(added{1})
					}
					return nil
				}})
			}
			ask(k, a, 0).Await()
		})
	}
	actortest.Run(t, func(k *actortest.Kit) {
		a := persist.Spawn(open(k, j), k.System(), "a", func() *account { return &account{} })
		if got := ask(k, a, 0).Await().Answer(); got != 10*persist.PageRecords/2 {
			t.Errorf("%d", got)
		}
	})
}

// talker says what its sum is when it ends.
type talker struct {
	account
	to actor.Ref[string]
}

func (a *talker) Receive(ctx *actor.Context[msg], m msg) error { return a.account.Receive(ctx, m) }

func (a *talker) Terminate(ctx *actor.Context[msg], _ error) {
	a.to.Tell(ctx, fmt.Sprint("ended with ", a.sum))
}

func TestAPromiseIsNotKeptAfterARefusal(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		j := memory.New()
		a := persist.Spawn(open(k, j), k.System(), "a", func() *account { return &account{} })
		ask(k, a, 1).Await()
		write(t, j, "/a", 1, added{10})
		var promise *actor.Promised[int]
		req := msg{}
		req.do = func(ctx *actor.Context[msg], a *account) error {
			a.Record(added{1})
			promise = actor.Promise(ctx, req)
			return nil
		}
		call := actortest.Ask(k, a, req)
		k.Settle()
		promise.Resolve(2)
		if err := call.Await().Err(); !errors.Is(err, persist.ErrFenced) {
			t.Errorf("%d, %v", call.Answer(), err)
		}
		if got := ask(k, a, 0).Await().Answer(); got != 11 {
			t.Errorf("%d", got)
		}
		k.ExpectFailures(1)
	})
}

func TestTrySpawnSaysThatANameIsTaken(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		p := open(k, memory.New())
		first, err := persist.TrySpawn(p, k.System(), "a", func() *account { return &account{} })
		if err != nil {
			t.Fatal(err)
		}
		ask(k, first, 3).Await()
		if _, err := persist.TrySpawn(p, k.System(), "a", func() *account { return &account{} }); !errors.Is(err, actor.ErrNameTaken) {
			t.Errorf("%v, want ErrNameTaken", err)
		}
		if got := ask(k, first, 4).Await().Answer(); got != 7 {
			t.Errorf("the first one has %d", got)
		}
		first.Stop()
		k.Settle()
		again, err := persist.TrySpawn(p, k.System(), "a", func() *account { return &account{} })
		if err != nil {
			t.Fatal(err)
		}
		if got := ask(k, again, 0).Await().Answer(); got != 7 {
			t.Errorf("the next one has %d", got)
		}
	})
}

func TestMistakesAreFoundAtTheStart(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		p := open(k, memory.New())
		for want, spawn := range map[string]func(){
			"must have a method Apply": func() { persist.Spawn(p, k.System(), "a", func() *noApply { return nil }) },
			"int is not registered":    func() { persist.Spawn(p, k.System(), "a", func() *ints { return nil }) },
			"record an id":             func() { persist.Spawn(p, k.System(), "a", func() *friends { return nil }) },
			"must embed":               func() { persist.Spawn(p, k.System(), "a", func() *neither { return nil }) },
			"must be one of its own":   func() { persist.Spawn(p, k.System(), "a-*", func() *account { return nil }) },
			"id must have": func() {
				persist.Spawn(p, k.System(), "", func() *account { return nil }, persist.ID(strings.Repeat("x", 600)))
			},
			"must have the methods Snapshot":   func() { persist.Spawn(p, k.System(), "a", func() *noRestore { return nil }) },
			"with the same S, or neither":      func() { persist.Spawn(p, k.System(), "a", func() *otherRestore { return nil }) },
			"int64 is not registered":          func() { persist.Spawn(p, k.System(), "a", func() *intSnapshots { return nil }) },
			"the numbers must not be negative": func() { persist.Spawn(p, k.System(), "a", func() *account { return nil }, persist.Every(-1, 0)) },
			"shard must have 0 to 512 bytes, not 600": func() {
				persist.Spawn(p, k.System(), "a", func() *account { return nil }, persist.Shard(strings.Repeat("x", 600), 1))
			},
			"the epoch must be at most": func() {
				persist.Spawn(p, k.System(), "a", func() *account { return nil }, persist.Shard("s", 1<<63))
			},
			"TrySpawn: *persist_test.ints: type int": func() {
				_, _ = persist.TrySpawn(p, k.System(), "a", func() *ints { return nil })
			},
			"cannot be Reentrant": func() {
				persist.Spawn(p, k.System(), "a", func() *account { return nil }, persist.Actor(actor.Reentrant()))
			},
		} {
			func() {
				defer func() {
					if v := recover(); !strings.Contains(fmt.Sprint(v), want) {
						t.Errorf("want a panic with %q, got %v", want, v)
					}
				}()
				spawn()
			}()
		}
	})
}

type (
	noApply struct {
		persist.Events[added]
		neither
	}
	ints struct {
		persist.Durable[int]
		neither
	}
	friend struct {
		Ref actor.Ref[msg]
	}
	friends struct {
		persist.Durable[friend]
		neither
	}
	noRestore    struct{ account }
	otherRestore struct{ account }
	intSnapshots struct{ account }
	neither      struct{}
)

func (*noRestore) Snapshot() (total, error)    { return total{}, nil }
func (*otherRestore) Snapshot() (total, error) { return total{}, nil }
func (*otherRestore) Restore(int) error        { return nil }
func (*intSnapshots) Snapshot() (int64, error) { return 0, nil }
func (*intSnapshots) Restore(int64) error      { return nil }

func (neither) Receive(*actor.Context[msg], msg) error { return nil }

// write appends an event to an id, as another process would.
func write(t *testing.T, j persist.Journal, id string, after uint64, e any) {
	name, data, err := types.Append(nil, e)
	if err != nil {
		t.Fatal(err)
	}
	p := persist.Payload{Type: name, Data: data}
	p.Seal(id, after+1)
	b := &persist.Batch{Session: rand.Uint64(), Number: 1, Appends: []persist.Append{{ID: id, After: after, Events: []persist.Payload{p}}}}
	if err := j.Commit(t.Context(), b); err != nil || b.Appends[0].Err != nil {
		t.Fatalf("%v, %v", err, b.Appends[0].Err)
	}
}
