package persist_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/actortest"
	"github.com/greenroom-go/greenroom/persist"
	"github.com/greenroom-go/greenroom/persist/memory"
)

// slowCommits is a journal that takes a while to write.
type slowCommits struct{ persist.Journal }

func (j slowCommits) Commit(ctx context.Context, b *persist.Batch) error {
	<-time.After(200 * time.Millisecond)
	return j.Journal.Commit(ctx, b)
}

func TestShutdownWaitsForDurableActorsBelowAnActorThatIsOlderThanThePersistence(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		var p *persist.Persistence
		children := make(chan actor.Ref[msg], 1)
		parent := actor.SpawnFunc(k.System(), "parent", func(ctx *actor.Context[int], _ int) error {
			children <- persist.Spawn(p, ctx, "a", func() *account { return &account{} })
			return nil
		})
		j := slowCommits{memory.New()}
		p = open(k, j)
		parent.Tell(k.Context(), 1)
		a := <-children
		for range 5 {
			a.Tell(k.Context(), msg{add: 1})
		}
		if r, err := k.System().Shutdown(k.Context()); err != nil || r.DeadLetters > 0 {
			t.Errorf("%+v, %v", r, err)
		}
		if l, err := j.Load(k.Context(), []string{"/parent/a"}); err != nil || l[0].Last != 5 {
			t.Errorf("%d of 5 events are durable, %v", l[0].Last, err)
		}
	})
}

func TestNoMessageIsLostByTheEndOfAnActorThatIsBeingRecovered(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(a actor.Ref[msg], sibling actor.Ref[int])
		want string
	}{
		"a restart of its group": {func(_ actor.Ref[msg], sibling actor.Ref[int]) { sibling.Tell(context.Background(), 1) }, "[0 is handled 1 is handled]"},
		"Stop":                   {func(a actor.Ref[msg], _ actor.Ref[int]) { a.Stop() }, "[stopped stopped]"},
		"Kill":                   {func(a actor.Ref[msg], _ actor.Ref[int]) { a.Kill() }, "[killed killed]"},
	} {
		t.Run(name, func(t *testing.T) {
			actortest.Run(t, func(k *actortest.Kit) {
				j := &slowJournal{memory.New(), make(chan struct{})}
				p := open(k, j)
				var fates []string
				letters := actortest.NewProbe[actor.DeadLetter](k)
				actor.Subscribe(k.System(), letters.Ref())
				var a actor.Ref[msg]
				var sibling actor.Ref[int]
				actor.SpawnFunc(k.System(), "parent", func(ctx *actor.Context[int], _ int) error {
					sibling = actor.SpawnFunc(ctx, "sibling", func(*actor.Context[int], int) error { return errors.New("broken") })
					a = persist.Spawn(p, ctx, "a", func() *account { return &account{} })
					return nil
				}, actor.Supervise(actor.AllForOne)).Tell(k.Context(), 1)
				k.Settle()
				for i := range 2 {
					a.Tell(k.Context(), msg{do: func(*actor.Context[msg], *account) error {
						fates = append(fates, fmt.Sprintf("%d is handled", i))
						return nil
					}})
				}
				k.Settle()
				c.end(a, sibling)
				k.Settle()
				close(j.door)
				k.Advance(time.Minute)
				for _, l := range letters.All() {
					if l.To == a.PID() {
						fates = append(fates, l.Reason.String())
					}
				}
				if slices.Sort(fates); fmt.Sprint(fates) != c.want {
					t.Errorf("the two messages: %v, want %s", fates, c.want)
				}
				k.AllowFailures()
			})
		})
	}
}
