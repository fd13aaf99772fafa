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
	"github.com/greenroom-go/greenroom/sim"
)

// shelf is where a projection keeps what it makes of events, and how far it has come, in one.
type shelf struct {
	after [persist.Parts]uint64
	seen  map[string][]uint64
}

func (s *shelf) put(events []persist.Event) {
	for _, e := range events {
		s.after[e.Part] = e.Position
		s.seen[e.ID] = append(s.seen[e.ID], e.Number)
	}
}

// withoutRepetitions leaves the first of each number, where nothing was skipped before it: after a
// step back the numbers come again one by one.
func withoutRepetitions(numbers []uint64) (list []uint64) {
	last := uint64(0)
	for _, n := range numbers {
		if n > last+1 {
			return append(list, n) // a gap
		}
		if last = n; n > uint64(len(list)) {
			list = append(list, n)
		}
	}
	return list
}

func TestProjectGetsTheEventsOfEachIDInOrder(t *testing.T) {
	for _, own := range []bool{true, false} {
		t.Run(fmt.Sprintf("OwnCursors=%v", own), func(t *testing.T) {
			sim.Check(t, sim.Options{Runs: 30, Faults: tellerFaults}, func(w *sim.World) {
				first := 1 + w.Rand().IntN(60)
				p := newProcess(w, none, first, first+1+w.Rand().IntN(30))
				s := &shelf{seen: map[string][]uint64{}}
				var opts []persist.ProjectOption
				if own {
					opts = append(opts, persist.CursorsFrom(func(context.Context) ([]uint64, error) { return slices.Clone(s.after[:]), nil }))
				}
				accounts := func(persistence *persist.Persistence) {
					if _, err := persistence.Project("sums", func(_ context.Context, events []persist.Event) error {
						if w.Sometimes(0.1) {
							return errors.New("planned")
						}
						s.put(events)
						return nil
					}, opts...); err != nil {
						w.Fatalf("%v", err)
					}
				}
				p.opened = accounts
				p.node.Crash()
				p.start()
				p.run()
				p.w.Advance(time.Minute)
				for i := range 3 {
					id := p.accounts[i].PID().Path()
					got := s.seen[id]
					if !own { // what comes again comes in order as well
						got = withoutRepetitions(got)
					}
					var want []uint64
					for n := range p.events(id) {
						want = append(want, uint64(n+1))
					}
					if !slices.Equal(got, want) {
						w.Fatalf("of %d events of %s the projection has got %v", len(want), id, s.seen[id])
					}
				}
			})
		})
	}
}

// loud is an error that panics when somebody asks it anything.
type loud struct{}

func (loud) Error() string   { panic("no text") }
func (loud) Is(error) bool   { panic("no comparison") }
func (loud) Unwrap() []error { panic("no cause") }

func TestProjectHearsOfAnErasureAndOutlivesErrorsThatPanic(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		p := open(k, memory.New())
		a := persist.Spawn(p, k.System(), "a", func() *account { return &account{} })
		var seen []bool // which were erasures
		tries := 0
		stop, err := p.Project("sums", func(_ context.Context, events []persist.Event) error {
			if tries++; tries <= 20 {
				return loud{}
			}
			for _, e := range events {
				seen = append(seen, e.Erased)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		defer stop()
		ask(k, a, 1).Await()
		k.Advance(time.Hour)
		if err := p.Erase(k.Context(), "/a"); err != nil {
			t.Fatal(err)
		}
		k.Advance(time.Minute)
		if !slices.Equal(seen, []bool{false, true}) {
			t.Errorf("the projection has seen %v, want an event and an erasure", seen)
		}
		k.AllowFailures() // of the actor that was erased
	})
}

func TestProjectSaysWhatItCannotRead(t *testing.T) {
	j := after35(t)
	actortest.Run(t, func(k *actortest.Kit) {
		p, err := persist.Open(k.Context(), k.System(), j, persist.Config{Types: few})
		if err != nil {
			t.Fatal(err)
		}
		stop, err := p.Project("sums", func(context.Context, []persist.Event) error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Project("sums", nil); !errors.Is(err, actor.ErrNameTaken) {
			t.Errorf("a second one of that name: %v", err)
		}
		k.Advance(time.Minute)
		if log := k.Log(); strings.Count(log, "journal cannot be read: number 1 of /a") != 1 {
			t.Errorf("the log must say so once:\n%s", log)
		}
		stop()
		stop()
		k.Settle()
		if _, err := p.Project("sums", func(context.Context, []persist.Event) error { return nil }); err != nil {
			t.Error(err)
		}
	})
}

// endlessJournal has an event more in its feed of each partition, as often as it is asked.
type endlessJournal struct{ persist.Journal }

func (j *endlessJournal) Feed(_ context.Context, part int, after uint64, _ int) ([]persist.Record, error) {
	_, data, err := types.Append(nil, added{1})
	r := persist.Record{ID: fmt.Sprint(part), Number: after + 1, Position: after + 1, Payload: persist.Payload{Type: "test.added", Data: data}}
	r.Seal(r.ID, r.Number)
	return []persist.Record{r}, err
}

func TestProjectServesAllPartitionsInTurn(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		p, served, fails := open(k, &endlessJournal{memory.New()}), [persist.Parts]int{}, 0
		enough := make(chan struct{})
		_, err := p.Project("sums", func(ctx context.Context, events []persist.Event) error {
			part := events[0].Part
			if part == 7 {
				fails++
				return errors.New("planned")
			}
			if served[part]++; served[part] == 10 && part == persist.Parts-1 {
				close(enough)
				<-ctx.Done()
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		<-enough
		for part, n := range served {
			if n != 10 && part != 7 {
				t.Errorf("partition %d was served %d times", part, n)
			}
		}
		if fails != 1 {
			t.Errorf("the one that fails was tried %d times", fails)
		}
	})
}

func TestProjectStartedAgainWaitsForTheHandlerBefore(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		p, log := open(k, memory.New()), actortest.NewJournal(k)
		a := persist.Spawn(p, k.System(), "a", newTeller)
		a.Tell(k.Context(), got{"/b", 1})
		k.Settle()
		last, door := uint64(0), make(chan struct{})
		project := func(name string) func() {
			stop, err := p.Project("sums", func(_ context.Context, events []persist.Event) error {
				log.Addf("%s begins with %d", name, events[0].Position)
				<-door
				last = events[0].Position
				log.Addf("%s ends", name)
				return nil
			}, persist.CursorsFrom(func(context.Context) ([]uint64, error) {
				cursors := make([]uint64, persist.Parts)
				cursors[persist.PartOf("/a")] = last
				return cursors, nil
			}))
			if err != nil {
				t.Fatal(err)
			}
			return stop
		}
		stop := project("first")
		k.Settle()
		stop()
		k.Settle()
		project("second")
		k.Settle()
		close(door)
		k.Settle()
		log.Expect("first begins with 1", "first ends")
	})
}
