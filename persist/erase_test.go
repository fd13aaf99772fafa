package persist_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
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
