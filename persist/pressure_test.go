package persist_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/actortest"
	"github.com/greenroom-go/greenroom/persist"
	"github.com/greenroom-go/greenroom/persist/memory"
)

// deafJournal cannot be read, and counts how often that is tried.
type deafJournal struct {
	persist.Journal
	reads atomic.Int64
}

func (j *deafJournal) Load(context.Context, []string) ([]persist.Loaded, error) {
	j.reads.Add(1)
	return nil, errors.New("the disk does not answer")
}

func TestAReadingThatAlwaysFailsIsTriedForWhoWaitsOnly(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		j := &deafJournal{Journal: memory.New()}
		a := persist.Spawn(open(k, j), k.System(), "a", func() *account { return &account{} })
		a.Tell(k.Context(), msg{add: 1})
		readsOf := func(d time.Duration) int64 {
			before := j.reads.Load()
			k.Advance(d)
			return j.reads.Load() - before
		}
		first := readsOf(time.Minute)
		k.Advance(10 * time.Minute)
		if later := readsOf(time.Minute); later > 2*first {
			t.Errorf("%d reads in the first minute, and %d in the twelfth", first, later)
		}
		a.Kill()
		k.Advance(2 * time.Second)
		if n := readsOf(time.Minute); n > 0 {
			t.Errorf("%d reads for an actor that is gone", n)
		}
		k.AllowFailures()
	})
}

// slowJournal has who loads wait at a door.
type slowJournal struct {
	persist.Journal
	door chan struct{}
}

func (j *slowJournal) Load(ctx context.Context, ids []string) ([]persist.Loaded, error) {
	select {
	case <-j.door:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	return j.Journal.Load(ctx, ids)
}

func TestNoMessageIsLostWhenTooManyActorsWaitForTheJournal(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		j, log := &slowJournal{memory.New(), make(chan struct{})}, actortest.NewJournal(k)
		p := open(k, j)
		for i := range 5 {
			var opts []persist.Option
			if i == 4 {
				opts = append(opts, persist.Eager())
			}
			a := persist.Spawn(p, k.System(), fmt.Sprint("a", i), func() *account { return &account{} }, opts...)
			for n := range 3 {
				a.Tell(k.Context(), msg{do: func(*actor.Context[msg], *account) error {
					log.Addf("%d of %d", n, i)
					return nil
				}})
				k.Settle()
			}
		}
		k.Advance(10 * time.Second)
		close(j.door)
		k.Advance(10 * time.Second)
		count := make(map[byte]int)
		for _, line := range log.All() {
			if n := line[0] - '0'; int(n) != count[line[5]] {
				t.Errorf("%s: message %d is next", line, count[line[5]])
			}
			count[line[5]]++
		}
		for i := range 5 {
			if n := count[byte('0'+i)]; n != 3 {
				t.Errorf("actor %d has handled %d messages of 3", i, n)
			}
		}
	}, actor.WithMaxWaiting(1))
}

// strangeJournal has a message of nobody in its outbox.
type strangeJournal struct{ persist.Journal }

func (j strangeJournal) Outbox(ctx context.Context, part int, after uint64, limit int) ([]persist.Outgoing, error) {
	if part != 3 || after > 0 {
		return j.Journal.Outbox(ctx, part, after, limit)
	}
	m := persist.Outgoing{From: "", Position: 1, Message: persist.Message{Number: 1, To: "anywhere", Payload: persist.Payload{Type: "test.added", Data: []byte{0xa1, 0x61, 0x4e, 0x01}}}}
	m.Seal(m.From, m.Number)
	return []persist.Outgoing{m}, nil
}

func TestAMessageOfNobodyHoldsUpNoCommit(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		p := open(k, strangeJournal{memory.New()})
		delivered := 0
		p.Deliver("anywhere", func(context.Context, string, uint64, any) error {
			delivered++
			return nil
		})
		k.Settle()
		if delivered == 0 {
			t.Fatal("it was not delivered")
		}
		a := persist.Spawn(p, k.System(), "a", func() *account { return &account{} })
		if got := ask(k, a, 1).Await().Answer(); got != 1 {
			t.Errorf("got %d", got)
		}
	})
}

// fencingJournal refuses what comes after the first event of "/a".
type fencingJournal struct{ *doorJournal }

func (j fencingJournal) Commit(ctx context.Context, b *persist.Batch) error {
	rest := *b
	rest.Appends = nil
	for _, a := range b.Appends {
		if a.ID != "/a" || a.After == 0 {
			rest.Appends = append(rest.Appends, a)
		}
	}
	if err := j.doorJournal.Commit(ctx, &rest); err != nil {
		return err
	}
	for i, a := range b.Appends {
		if a.ID == "/a" && a.After > 0 {
			b.Appends[i].Err = persist.ErrFenced
		}
	}
	return nil
}

func TestErrorsOfWhatWasRefusedDoNotOvertakeAnswers(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		j, log := newDoor(), actortest.NewJournal(k)
		p, err := persist.Open(k.Context(), k.System(), fencingJournal{j}, persist.Config{Types: types, BatchBytes: 200}) // two of the units
		if err != nil {
			t.Fatal(err)
		}
		a := persist.Spawn(p, k.System(), "a", func() *account { return &account{} })
		b := persist.Spawn(p, k.System(), "b", func() *account { return &account{} })
		asker := actor.SpawnFunc(k.System(), "asker", func(ctx *actor.Context[string], m string) error {
			if m != "go" {
				log.Addf("%s", m)
				return nil
			}
			for n := range 3 {
				actor.AskThen(ctx, a, msg{add: 1}, func(_ int, err error) string { return fmt.Sprint(n, " ", errors.Is(err, persist.ErrFenced)) })
			}
			return nil
		})
		ask(k, a, 0).Await()
		j.close()
		first := ask(k, b, 1) // a batch of its own
		k.Settle()
		asker.Tell(k.Context(), "go")
		k.Settle()
		j.letIn()
		first.Await()
		k.Settle()
		log.Expect("0 false", "1 true", "2 true")
		k.AllowFailures()
	})
}
