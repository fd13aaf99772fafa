package persist_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/actortest"
	"github.com/greenroom-go/greenroom/persist"
	"github.com/greenroom-go/greenroom/persist/memory"
)

func TestWhatIsErasedIsForgottenByItsActor(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		j := newDoor()
		p := open(k, j)
		a := persist.Spawn(p, k.System(), "a", func() *account { return &account{} })
		f := followChanges(k.Context(), k, p)
		ask(k, a, 1).Await()
		j.close()
		call := ask(k, a, 2) // is on its way when it is erased
		k.Settle()
		erased := make(chan error)
		go func() { erased <- p.Erase(k.Context(), "/a") }()
		k.Settle()
		j.letIn()
		if err := <-erased; err != nil {
			t.Fatal(err)
		}
		if call.Await().Answer() != 3 {
			t.Errorf("what came before the erasure was answered %d", call.Answer())
		}
		if got := ask(k, a, 0).Await().Answer(); got != 0 {
			t.Errorf("it still has %d", got)
		}
		if got := ask(k, a, 5).Await().Answer(); got != 5 {
			t.Errorf("it has %d after 5", got)
		}
		k.ExpectFailures(1)
		for range 2 { // the second time there is something again
			if err := errors.Join(p.Erase(k.Context(), "/a"), p.Erase(k.Context(), "/a"), p.Erase(k.Context(), "/never")); err != nil {
				t.Fatal(err)
			}
			events, err := j.Events(k.Context(), "/a", 0, 10)
			if err != nil || len(events) > 0 {
				t.Errorf("%v, %v", events, err)
			}
			if got := ask(k, a, 1).Await().Answer(); got != 1 {
				t.Errorf("it has %d after 1", got)
			}
			k.ExpectFailures(1)
		}
		seen := slices.DeleteFunc(f.log.All(), func(line string) bool { return strings.HasPrefix(line, "/a 2 ") }) // it may have been read before it was erased
		if want := []string{"/a 1 {N:1} false", "/a 3 <nil> true", "/a 4 {N:5} false", "/a 5 <nil> true", "/a 6 {N:1} false", "/a 7 <nil> true", "/a 8 {N:1} false"}; !slices.Equal(seen, want) {
			t.Errorf("who follows has seen %q, want %q", seen, want)
		}
		if err := p.Erase(k.Context(), ""); err == nil || !strings.Contains(err.Error(), "id must have") {
			t.Errorf("%v", err)
		}
	})
}

func TestAHandlerThatRunsDuringAnErasureFails(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		p, seen := open(k, memory.New()), actortest.NewProbe[string](k)
		a := persist.Spawn(p, k.System(), "a", func() *account { return &account{} })
		ask(k, a, 1).Await()
		req := msg{do: func(ctx *actor.Context[msg], a *account) error {
			if err := ctx.Sleep(time.Minute); err != nil {
				return err
			}
			seen.Ref().Tell(ctx, fmt.Sprint("it has ", a.sum))
			return nil
		}}
		a.Tell(k.Context(), req)
		k.Settle()
		if err := p.Erase(k.Context(), "/a"); err != nil {
			t.Fatal(err)
		}
		k.Advance(2 * time.Minute)
		seen.ExpectNone()
		if got := ask(k, a, 0).Await().Answer(); got != 0 {
			t.Errorf("it still has %d", got)
		}
		k.AllowFailures()
	})
}

func TestAnErasureInAHandlerDoesNotDivideIt(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		p := open(k, memory.New())
		a := persist.Spawn(p, k.System(), "a", func() *account { return &account{} })
		b := persist.Spawn(p, k.System(), "b", func() *account { return &account{} })
		ask(k, b, 7).Await()
		call := actortest.Ask(k, a, msg{do: func(ctx *actor.Context[msg], a *account) error {
			a.Record(added{1})
			if err := p.Erase(ctx, "/b"); err != nil {
				t.Error(err)
			}
			return errors.New("planned")
		}})
		if err := call.Await().Err(); err == nil || !strings.Contains(err.Error(), "planned") {
			t.Errorf("%v", err)
		}
		for _, ref := range []actor.Ref[msg]{a, b} {
			if got := ask(k, ref, 0).Await().Answer(); got != 0 {
				t.Errorf("%s has %d", ref, got)
			}
		}
		k.AllowFailures()
	})
}

// tardyJournal takes a millisecond for a commit.
type tardyJournal struct{ persist.Journal }

func (j tardyJournal) Commit(ctx context.Context, b *persist.Batch) error {
	select {
	case <-time.After(time.Millisecond):
		return j.Journal.Commit(ctx, b)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func TestAnErasureFailsNothingThatIsOnItsWay(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		p := open(k, tardyJournal{memory.New()})
		a := persist.Spawn(p, k.System(), "a", func() *account { return &account{} })
		done := make(chan error, 1)
		var calls []*actortest.Call[int]
		for i := range 200 {
			calls = append(calls, ask(k, a, 1))
			if i == 100 {
				k.Settle() // a handler that runs meanwhile would fail
				go func() { done <- p.Erase(k.Context(), "/a") }()
			}
			k.Advance(300 * time.Microsecond)
		}
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
		default:
			t.Error("it is not erased yet")
		}
		k.Advance(time.Second)
		for i, call := range calls {
			if err := call.Err(); err != nil {
				t.Fatalf("ask %d: %v", i, err)
			}
		}
		if got := ask(k, a, 0).Await().Answer(); got < 80 || got > 120 {
			t.Errorf("it has %d", got)
		}
		k.ExpectFailures(1) // the message with which it begins anew, which is set aside
	})
}

// pageDoor has the pages of events after the first one wait at a door, before or after they are read.
type pageDoor struct {
	persist.Journal
	late        bool
	asked, open chan struct{}
}

func (j *pageDoor) Events(ctx context.Context, id string, after uint64, limit int) (page []persist.Record, err error) {
	if j.late {
		page, err = j.Journal.Events(ctx, id, after, limit)
	}
	select {
	case j.asked <- struct{}{}:
	default:
	}
	select {
	case <-j.open:
	case <-ctx.Done():
	}
	if j.late {
		return page, err
	}
	return j.Journal.Events(ctx, id, after, limit)
}

func TestAnErasureDuringARecoveryOfSeveralPagesBeginsAnew(t *testing.T) {
	for name, late := range map[string]bool{"a page is missing": false, "all pages were read": true} {
		t.Run(name, func(t *testing.T) {
			actortest.Run(t, func(k *actortest.Kit) {
				j := &pageDoor{memory.New(), late, make(chan struct{}, 1), make(chan struct{})}
				for n := range uint64(2 * persist.PageRecords) {
					write(t, j, "/a", n, added{1})
				}
				p := open(k, j)
				a := persist.Spawn(p, k.System(), "a", func() *account { return &account{} })
				calls := []*actortest.Call[int]{ask(k, a, 5)}
				<-j.asked // the first page was applied
				calls = append(calls, ask(k, a, 0))
				if err := p.Erase(k.Context(), "/a"); err != nil {
					t.Fatal(err)
				}
				close(j.open)
				for i, call := range calls {
					if got, err := call.Await().Answer(), call.Err(); err != nil || got != 5 {
						t.Errorf("ask %d was answered %d, %v; want 5", i, got, err)
					}
				}
				k.ExpectFailures(1)
			})
		})
	}
}

// outboxView returns what the outbox has in memory.
func outboxView(k *actortest.Kit) persist.Undelivered {
	ref, err := actor.LookupPath[any](k.System(), "/persist/outbox")
	if err != nil {
		k.T().Fatal(err)
	}
	d, err := k.System().Detail(k.Context(), ref.PID())
	if err != nil || d.Busy {
		k.T().Fatalf("%+v, %v", d, err)
	}
	return d.View.(persist.Undelivered)
}

func TestWhatWasSentAndNotDeliveredIsErased(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		const most = 600 // more than a pair has in memory
		j, delivered := memory.New(), actortest.NewJournal(k)
		p := open(k, j)
		p.Deliver("elsewhere", func(_ context.Context, from string, number uint64, m any) error {
			delivered.Addf("%s %d", from, number)
			return errors.New("not now")
		})
		a := persist.Spawn(p, k.System(), "a", newTeller)
		other := persist.Spawn(p, k.System(), "other", newTeller)
		deaf := true
		persist.Spawn(p, k.System(), "deaf", func() *teller {
			d := newTeller()
			d.err = func() error {
				if deaf {
					return errors.New("not now")
				}
				return nil
			}
			return d
		})
		before := k.System().Stats().Actors
		for range most {
			a.Tell(k.Context(), pay{"/late"})
			a.Tell(k.Context(), pay{"/deaf"})
		}
		a.Tell(k.Context(), pay{"elsewhere"})
		other.Tell(k.Context(), pay{"/late"})
		a.Tell(k.Context(), ring{"one", time.Now()}) // which it does not hear, as it is stopped
		k.Settle()
		a.Stop()
		k.Advance(time.Minute)
		if v := outboxView(k); v.Pairs != 4 || v.Messages < 500 {
			t.Fatalf("in memory: %+v", v)
		}
		if err := p.Erase(k.Context(), "/a"); err != nil {
			t.Fatal(err)
		}
		delivered.All()
		k.Advance(time.Hour)
		if v := outboxView(k); v.Pairs != 1 || v.Messages != 1 || v.Bytes == 0 {
			t.Errorf("in memory after the erasure, of the other one: %+v", v)
		}
		if n := k.System().Stats().Actors; n != before { // a is gone, and one delivery is there
			t.Errorf("%d actors, want %d", n, before)
		}
		deaf = false
		a = persist.Spawn(p, k.System(), "a", newTeller)
		for _, to := range []string{"/late", "/deaf"} {
			a.Tell(k.Context(), pay{to})
			a.Tell(k.Context(), pay{to})
		}
		persist.Spawn(p, k.System(), "late", newTeller)
		k.Advance(time.Hour)
		for _, to := range []string{"/late", "/deaf"} {
			if got, err := replayed(j, to); err != nil || !slices.Equal(got.got["/a"], serials(2)) {
				t.Errorf("%s has got %d messages, %v, %v; want two", to, len(got.got["/a"]), got.got["/a"], err)
			}
		}
		if late, err := replayed(j, "/late"); err != nil || !slices.Equal(late.got["/other"], serials(1)) {
			t.Errorf("of the other one: %v, %v", late.got, err)
		}
		if a, err := replayed(j, "/a"); err != nil || len(a.rung) > 0 {
			t.Errorf("it was reminded of %v, %v", a.rung, err)
		}
		delivered.Expect()
		k.AllowFailures()
	})
}

// readDoor has what is read of the outbox and of the reminders wait before it is handed over.
type readDoor struct {
	persist.Journal
	closed      atomic.Bool
	asked, open chan struct{}
}

func (j *readDoor) wait(n int) {
	if n == 0 || !j.closed.Load() {
		return
	}
	select {
	case j.asked <- struct{}{}:
	default:
	}
	<-j.open
}

func (j *readDoor) Outbox(ctx context.Context, part int, after uint64, limit int) ([]persist.Outgoing, error) {
	page, err := j.Journal.Outbox(ctx, part, after, limit)
	j.wait(len(page))
	return page, err
}

func (j *readDoor) Due(ctx context.Context, part int, now int64, after persist.Reminder, limit int) ([]persist.Reminder, error) {
	page, err := j.Journal.Due(ctx, part, now, after, limit)
	j.wait(len(page))
	return page, err
}

func TestWhatIsBeingReadIsErasedToo(t *testing.T) {
	for name, begin := range map[string]func(t *teller){
		"a message":  func(t *teller) { t.Send("/b", got{"/a", 1}) },
		"a reminder": func(t *teller) { t.Remind("one", time.Now(), rung{Key: "one"}) },
	} {
		t.Run(name, func(t *testing.T) {
			actortest.Run(t, func(k *actortest.Kit) {
				j := &readDoor{Journal: memory.New(), asked: make(chan struct{}, 1), open: make(chan struct{})}
				p := open(k, j)
				a := persist.Spawn(p, k.System(), "a", newTeller)
				persist.Spawn(p, k.System(), "b", newTeller)
				k.Settle()
				before := k.System().Stats().Actors
				j.closed.Store(true)
				a.Tell(k.Context(), begin)
				<-j.asked
				a.Stop()
				if err := p.Erase(k.Context(), "/a"); err != nil {
					t.Fatal(err)
				}
				j.closed.Store(false)
				close(j.open)
				k.Advance(time.Second)
				if n := k.System().Stats().Actors; n != before-1 {
					t.Errorf("%d actors, want %d", n, before-1)
				}
				a = persist.Spawn(p, k.System(), "a", newTeller)
				a.Tell(k.Context(), func(t *teller) { t.Send("/b", got{"/a", 2}) })
				a.Tell(k.Context(), func(t *teller) { t.Remind("one", time.Now(), rung{Key: "two"}) })
				k.Advance(time.Hour)
				if b, err := replayed(j.Journal, "/b"); err != nil || !slices.Equal(b.got["/a"], []int{2}) {
					t.Errorf("b has got %v, %v", b.got, err)
				}
				if a, err := replayed(j.Journal, "/a"); err != nil || !slices.Equal(a.rung, []rung{{Key: "two"}}) {
					t.Errorf("it was reminded of %v, %v", a.rung, err)
				}
				k.AllowFailures()
			})
		})
	}
}

func TestWhatAPairHasLeftInTheJournalIsErasedWhileItIsRead(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		j := &readDoor{Journal: memory.New(), asked: make(chan struct{}, 1), open: make(chan struct{})}
		p := open(k, j)
		a := persist.Spawn(p, k.System(), "a", newTeller)
		send := func(first, n int) func(t *teller) {
			return func(t *teller) {
				for i := range n {
					t.Send("/b", got{"/a", first + i})
				}
			}
		}
		a.Tell(k.Context(), send(1, 300))
		k.Settle()
		j.closed.Store(true)
		persist.Spawn(p, k.System(), "b", newTeller)
		<-j.asked // for those that were not in memory
		if err := p.Erase(k.Context(), "/a"); err != nil {
			t.Fatal(err)
		}
		j.closed.Store(false)
		close(j.open)
		k.Advance(time.Second)
		a.Tell(k.Context(), send(301, 2))
		k.Advance(time.Hour)
		if b, err := replayed(j.Journal, "/b"); err != nil || !slices.Equal(b.got["/a"], append(serials(256), 301, 302)) {
			t.Errorf("b has got %v, %v", b.got, err)
		}
		k.AllowFailures()
	})
}

// Where nobody is left to forget an id, nobody waits for that.
func TestEraseAfterTheShutdownEnds(t *testing.T) {
	sys := actor.NewSystem("x")
	p, err := persist.Open(t.Context(), sys, memory.New(), persist.Config{Types: types})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sys.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := p.Erase(t.Context(), "/a"); err == nil {
		t.Error("it is erased by nobody")
	}
}
