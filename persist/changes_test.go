package persist_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/actortest"
	"github.com/greenroom-go/greenroom/persist"
	"github.com/greenroom-go/greenroom/persist/memory"
)

// following collects what Changes yields, and says when it has ended.
type following struct {
	log    *actortest.Journal
	places []uint64
	err    error
	ended  chan struct{}
}

func followChanges(ctx context.Context, k *actortest.Kit, p *persist.Persistence, opts ...persist.ChangesOption) *following {
	f := &following{log: actortest.NewJournal(k), places: make([]uint64, persist.Parts), ended: make(chan struct{})}
	go func() {
		defer close(f.ended)
		for e, err := range p.Changes(ctx, opts...) {
			if err != nil {
				f.err = err
				return
			}
			if e.Part != persist.PartOf(e.ID) || e.Position <= f.places[e.Part] {
				f.log.Addf("%+v is out of order", e)
			}
			f.places[e.Part] = e.Position
			f.log.Addf("%s %d %+v %v", e.ID, e.Number, e.Value, e.Erased)
		}
	}()
	k.Settle()
	return f
}

func TestChangesComeAsTheyAreCommitted(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		j := newDoor()
		p := open(k, j)
		a := persist.Spawn(p, k.System(), "a", func() *account { return &account{} })
		ask(k, a, 1).Await()
		ctx, cancel := context.WithCancel(k.Context())
		live := followChanges(ctx, k, p)
		all := followChanges(ctx, k, p, persist.FromTheBeginning(), persist.OfIDs(func(id string) bool { return id == "/a" }))
		j.close()
		call := ask(k, a, 2)
		k.Settle()
		live.log.Expect()
		j.letIn()
		call.Await()
		k.Settle()
		live.log.Expect("/a 2 {N:2} false")
		write(t, j, "/b", 0, added{7}) // by another process
		k.Advance(2 * time.Second)
		live.log.Expect("/b 1 {N:7} false")
		all.log.Expect("/a 1 {N:1} false", "/a 2 {N:2} false")
		cancel()
		<-live.ended
		<-all.ended
		if !errors.Is(live.err, context.Canceled) {
			t.Errorf("ended with %v", live.err)
		}
		ask(k, a, 3).Await()
		ctx, cancel = context.WithCancel(k.Context())
		again := followChanges(ctx, k, p, persist.After(live.places))
		again.log.Expect("/a 3 {N:3} false")
		cancel()
		<-again.ended
	})
}

func TestChangesEndWhereSomethingCannotBeRead(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		j := memory.New()
		p := open(k, j)
		write(t, j, "/a", 0, added{1})
		if err := j.Commit(t.Context(), &persist.Batch{Session: 9, Number: 1, Appends: []persist.Append{{ID: "/a", After: 1, Events: []persist.Payload{{Type: "nobody.knows"}}}}}); err != nil {
			t.Fatal(err)
		}
		f := followChanges(k.Context(), k, p, persist.FromTheBeginning())
		<-f.ended
		f.log.Expect("/a 1 {N:1} false")
		if !errors.Is(f.err, persist.ErrUnreadable) || !strings.Contains(f.err.Error(), "number 2 of /a") {
			t.Errorf("ended with %v", f.err)
		}
		wrong := followChanges(k.Context(), k, p, persist.After(make([]uint64, 3)))
		<-wrong.ended
		if wrong.err == nil || !strings.Contains(wrong.err.Error(), "there must be 64 places, not 3") {
			t.Errorf("ended with %v", wrong.err)
		}
	})
}
