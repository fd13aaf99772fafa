package persist_test

import (
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

func TestOverdueRemindersOfWhoIsNotThereHoldFewActors(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		const each = 1500 // more than a page
		j, start := memory.New(), time.Now()
		p := open(k, j)
		for _, name := range []string{"a", "b"} {
			lost := persist.Spawn(p, k.System(), name, newTeller)
			lost.Tell(k.Context(), func(t *teller) {
				for i := range each {
					t.Remind(fmt.Sprint(i), start.Add(time.Minute), rung{Key: fmt.Sprint(i), At: start.Add(time.Minute).UnixMilli()})
				}
			})
			k.Settle()
			lost.Stop()
		}
		before := k.System().Stats().Actors
		k.Advance(2 * time.Minute)
		if n := k.System().Stats().Actors - before; n > 150 {
			t.Errorf("%d reminders that cannot be delivered hold %d actors", 2*each, n)
		}
		for _, name := range []string{"b", "a"} {
			persist.Spawn(p, k.System(), name, newTeller, persist.Eager())
			k.Advance(time.Second)
			if a, err := replayed(j, "/"+name); err != nil || len(a.rung) != each {
				t.Errorf("%s was reminded %d times of %d: %v", name, len(a.rung), each, err)
			}
		}
	})
}

// again sets its reminder again, to the same time, until it has had it three times.
type again struct {
	persist.Events[any]
	at   time.Time
	rung int
}

func (a *again) Apply(any) { a.rung++ }

func (a *again) Receive(_ *actor.Context[any], m any) error {
	if _, ok := m.(rung); ok {
		a.Record(m)
	}
	if a.rung < 3 {
		a.Remind("key", a.at, rung{Key: "key"})
	}
	return nil
}

func TestAReminderThatIsSetAgainToTheSameTimeComesAgain(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		j, at := memory.New(), time.Now()
		persist.Spawn(open(k, j), k.System(), "a", func() *again { return &again{at: at} }).Tell(k.Context(), "begin")
		k.Advance(time.Minute)
		if l, err := j.Load(t.Context(), []string{"/a"}); err != nil || len(l[0].Reminders) != 0 {
			t.Errorf("%+v, %v", l, err)
		}
	})
}

// A reminder that is replaced while it is being delivered is not the one that was set for the same
// time in its place.
func TestAReminderThatIsReplacedByOneOfTheSameTimeIsTheOther(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		j, at := memory.New(), time.Now().Add(time.Minute)
		p := open(k, j)
		remind := func(text string) func(*teller) {
			return func(t *teller) { t.Remind("key", at, rung{Key: text}) }
		}
		a := persist.Spawn(p, k.System(), "a", func() *teller {
			a := newTeller()
			a.err = func() error { return errors.New("not now") }
			return a
		})
		a.Tell(k.Context(), remind("first"))
		k.Advance(time.Minute + time.Second) // it is under way, and has been refused
		a.Tell(k.Context(), func(t *teller) {
			remind("second")(t)
			t.err = nil
		})
		k.Advance(time.Hour)
		if a, err := replayed(j, "/a"); err != nil || !slices.Equal(a.rung, []rung{{Key: "second"}}) {
			t.Errorf("%v, %v; want the second one", a.rung, err)
		}
		if l, err := j.Load(t.Context(), []string{"/a"}); err != nil || len(l[0].Reminders) != 0 {
			t.Errorf("%+v, %v", l, err)
		}
		k.AllowFailures()
	})
}
