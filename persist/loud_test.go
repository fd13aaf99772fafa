package persist_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/actortest"
	"github.com/greenroom-go/greenroom/persist"
	"github.com/greenroom-go/greenroom/persist/memory"
)

// loudJournal fails with errors whose methods panic, each method so many times.
type loudJournal struct {
	persist.Journal
	mu   sync.Mutex
	left map[string]int // guarded by mu
}

func (j *loudJournal) fails(what string) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.left[what]--; j.left[what] >= 0 {
		return loud{}
	}
	return nil
}

func (j *loudJournal) Commit(ctx context.Context, b *persist.Batch) error {
	if err := j.fails("commit"); err != nil {
		return err
	}
	return j.Journal.Commit(ctx, b)
}

func (j *loudJournal) Load(ctx context.Context, ids []string) ([]persist.Loaded, error) {
	if err := j.fails("load"); err != nil {
		return nil, err
	}
	return j.Journal.Load(ctx, ids)
}

func (j *loudJournal) Outbox(ctx context.Context, part int, after uint64, limit int) ([]persist.Outgoing, error) {
	if err := j.fails("outbox"); err != nil {
		return nil, err
	}
	return j.Journal.Outbox(ctx, part, after, limit)
}

func (j *loudJournal) Due(ctx context.Context, part int, now int64, after persist.Reminder, limit int) ([]persist.Reminder, error) {
	if err := j.fails("due"); err != nil {
		return nil, err
	}
	return j.Journal.Due(ctx, part, now, after, limit)
}

func TestErrorsOfAJournalWhoseMethodsPanicFailNobody(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		j := &loudJournal{Journal: memory.New(), left: map[string]int{"commit": 2, "load": 2, "outbox": 2, "due": 2}}
		wakes := 0
		p, err := persist.Open(k.Context(), k.System(), j, persist.Config{Types: types, Wake: func(_ context.Context, p *persist.Persistence, id string) error {
			if wakes++; wakes == 1 {
				return loud{}
			}
			persist.Spawn(p, k.System(), id[1:], newTeller)
			return nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		a := persist.Spawn(p, k.System(), "a", newTeller)
		a.Tell(k.Context(), pay{"/b"})
		a.Tell(k.Context(), ring{"bell", time.Now()})
		k.Advance(time.Hour)
		b, err := replayed(j.Journal, "/b")
		if err != nil || len(b.got["/a"]) != 1 || wakes != 2 {
			t.Errorf("%v, %v, woken %d times", b.got, err, wakes)
		}
		if a, err := replayed(j.Journal, "/a"); err != nil || len(a.rung) != 2 {
			t.Errorf("%v, %v", a.rung, err)
		}
		k.ExpectFailures(0)
	})
}

// shouting is an account whose own methods fail so.
type shouting struct {
	account
	applies bool
	restore func() error
}

func (a *shouting) Apply(e any) {
	if a.applies {
		panic(loud{})
	}
	a.account.Apply(e)
}

func (a *shouting) Snapshot() (total, error) {
	if a.numbers > 20 {
		return total{}, loud{}
	}
	return total{a.sum, a.numbers}, nil
}

func (a *shouting) Restore(t total) error {
	a.sum, a.numbers = t.Sum, t.Numbers
	return a.restore()
}

func TestErrorsOfAnActorWhoseMethodsPanicAreItsFailures(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		j := memory.New()
		p := open(k, j)
		spawn := func(name string, applies bool) actor.Ref[msg] {
			return persist.Spawn(p, k.System(), name, func() *shouting {
				return &shouting{applies: applies, restore: func() error { return loud{} }}
			}, persist.ID("a"), persist.Every(10, 0))
		}
		a := spawn("one", false)
		for range 30 {
			ask(k, a, 1).Await()
		}
		a.Stop()
		k.Settle()
		a = spawn("two", false) // passes over the snapshots
		if got := ask(k, a, 0).Await().Answer(); got != 30 {
			t.Errorf("it has %d", got)
		}
		k.AllowFailures()
		fails := actortest.Ask(k, a, msg{do: func(_ *actor.Context[msg], a *account) error {
			a.Record(added{1})
			return fmt.Errorf("wrapped: %w", loud{})
		}})
		if err := fails.Await().Err(); err == nil {
			t.Error("it did not fail")
		}
		if got := ask(k, a, 0).Await().Answer(); got != 30 {
			t.Errorf("it has %d after a failure", got)
		}
		a.Stop()
		k.Settle()
		if err := ask(k, spawn("three", true), 0).Await().Err(); !errors.Is(err, persist.ErrUnreadable) || !strings.Contains(k.Log(), "number 1 of a: panic") {
			t.Errorf("what Apply panics with: %v\n%s", err, k.Log())
		}
	})
}
