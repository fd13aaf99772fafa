package persist_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/actortest"
	"github.com/greenroom-go/greenroom/codec"
	"github.com/greenroom-go/greenroom/persist"
	"github.com/greenroom-go/greenroom/persist/memory"
)

// saver is an account that takes snapshots.
type saver struct {
	account
	applied *int         // events applied in this process
	snap    func() error // what Snapshot returns
	restore func(total) error
	off     int // how wrong its snapshots are
}

func (s *saver) Apply(e any) {
	if s.applied != nil {
		*s.applied++
	}
	s.account.Apply(e)
}

func (s *saver) Snapshot() (total, error) {
	if s.snap != nil {
		return total{}, s.snap()
	}
	return total{s.sum + s.off, s.numbers}, nil
}

func (s *saver) Restore(t total) error {
	s.sum, s.numbers = t.Sum, t.Numbers
	if s.restore != nil {
		return s.restore(t)
	}
	return nil
}

// saved is a journal of savers, over several systems.
type saved struct {
	*memory.Journal
	damaged func(s *persist.Snapshot) // what becomes of snapshots that are read
}

func (j *saved) Load(ctx context.Context, ids []string) ([]persist.Loaded, error) {
	list, err := j.Journal.Load(ctx, ids)
	for _, l := range list {
		if l.Snapshot != nil && j.damaged != nil {
			j.damaged(l.Snapshot)
		}
	}
	return list, err
}

func (j *saved) Snapshot(ctx context.Context, id string, below uint64) (persist.Snapshot, error) {
	s, err := j.Journal.Snapshot(ctx, id, below)
	if s.Number > 0 && j.damaged != nil {
		j.damaged(&s)
	}
	return s, err
}

// add has a saver that takes a snapshot after each ten events add 1 n times, in a system of its
// own, and returns what it comes to.
func (j *saved) add(t *testing.T, n, failures int, newSaver func() *saver) (sum int, log string) {
	t.Helper()
	actortest.Run(t, func(k *actortest.Kit) {
		a := persist.Spawn(open(k, j), k.System(), "a", newSaver, persist.Every(10, 0))
		for range n {
			ask(k, a, 1).Await()
		}
		sum = ask(k, a, 0).Await().Answer()
		k.ExpectFailures(failures)
		log = k.Log()
	})
	return sum, log
}

// after35 returns a journal with 35 events, and snapshots of 20 and 30 of them.
func after35(t *testing.T) *saved {
	t.Helper()
	j := &saved{Journal: memory.New()}
	if sum, _ := j.add(t, 35, 0, func() *saver { return &saver{} }); sum != 35 {
		t.Fatalf("%d", sum)
	}
	return j
}

func TestRecoveryBeginsWithTheNewestSnapshotThatCanBeRead(t *testing.T) {
	refuse := func(more func() error) func(t total) error {
		return func(t total) error {
			if t.Sum < 30 {
				return nil
			}
			return more()
		}
	}
	for name, c := range map[string]struct {
		damaged           func(s *persist.Snapshot)
		restore           func(total) error
		applied, failures int
		log               string
	}{
		"whole": {applied: 5},
		"broken": {applied: 15, log: "checksum", damaged: func(s *persist.Snapshot) {
			if s.Number == 30 {
				s.Data[0]++
			}
		}},
		"all broken":    {applied: 35, log: "checksum", damaged: func(s *persist.Snapshot) { s.Data[0]++ }},
		"unknown types": {applied: 35, log: "not registered", damaged: func(s *persist.Snapshot) { s.Type = "nobody.knows"; s.Seal("/a", s.Number) }},
		"other type":    {applied: 35, failures: 2, log: "it is a persist_test.added", damaged: func(s *persist.Snapshot) { s.Type = "test.added"; s.Seal("/a", s.Number) }},
		"refused":       {applied: 15, failures: 1, log: "not this one", restore: refuse(func() error { return errors.New("not this one") })},
		"panic":         {applied: 15, failures: 1, log: "not this one", restore: refuse(func() error { panic("not this one") })},
	} {
		t.Run(name, func(t *testing.T) {
			j, applied := after35(t), 0
			j.damaged = c.damaged
			sum, log := j.add(t, 0, c.failures, func() *saver { return &saver{applied: &applied, restore: c.restore} })
			if sum != 35 || applied != c.applied {
				t.Errorf("it came to %d with %d events, want 35 with %d", sum, applied, c.applied)
			}
			if !strings.Contains(log, c.log) {
				t.Errorf("the log does not say %q:\n%s", c.log, log)
			}
		})
	}
}

func TestASnapshotThatCannotBeTakenLeavesTheEvents(t *testing.T) {
	for name, snap := range map[string]func() error{
		"Error": func() error { return errors.New("not today") },
		"Panic": func() error { panic("not today") },
	} {
		t.Run(name, func(t *testing.T) {
			j, applied := &saved{Journal: memory.New()}, 0
			if _, log := j.add(t, 25, 0, func() *saver { return &saver{snap: snap} }); strings.Count(log, "not today") != 2 {
				t.Errorf("the log must say so twice:\n%s", log)
			}
			if sum, _ := j.add(t, 0, 0, func() *saver { return &saver{applied: &applied} }); sum != 25 || applied != 25 {
				t.Errorf("it came to %d with %d events", sum, applied)
			}
		})
	}
}

func TestAHandlersSnapshotIsNotOfTheNextOne(t *testing.T) {
	j := after35(t)
	actortest.Run(t, func(k *actortest.Kit) {
		a := persist.Spawn(open(k, j), k.System(), "a", func() *saver { return &saver{} }, persist.Every(10, 0))
		a.Tell(k.Context(), msg{do: func(_ *actor.Context[msg], a *account) error {
			for range 4 {
				a.Record(added{1})
			}
			return errors.New("broken") // these must not count
		}})
		for range 4 {
			ask(k, a, 1).Await()
		}
		k.ExpectFailures(1)
		if s, err := j.Journal.Snapshot(t.Context(), "/a", 100); err != nil || s.Number != 30 {
			t.Errorf("snapshot %d, %v", s.Number, err)
		}
		ask(k, a, 1).Await()
		if s, err := j.Journal.Snapshot(t.Context(), "/a", 100); err != nil || s.Number != 40 {
			t.Errorf("snapshot %d, %v", s.Number, err)
		}
	})
}

func TestTheViewOfAnActorShowsWhereItIs(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		door := newDoor()
		a := persist.Spawn(open(k, door), k.System(), "a", func() *saver { return &saver{} }, persist.Every(3, 0))
		view := func() persist.Inspection {
			d, err := k.System().Detail(k.Context(), a.PID())
			if err != nil || d.Busy {
				t.Fatalf("%+v, %v", d, err)
			}
			return d.View.(persist.Inspection)
		}
		if v := view(); v.ID != "/a" || v.Ready {
			t.Errorf("before its first message: %+v", v)
		}
		for range 4 {
			ask(k, a, 1).Await()
		}
		door.close()
		ask(k, a, 1)
		k.Settle()
		ask(k, a, 0)
		k.Settle()
		if v := view(); !v.Ready || v.Number != 5 || v.Snapshot != 3 || v.SinceSnapshot != 2 || v.OnItsWay != 1 || v.Held != 2 || v.RecoverTo != 0 || v.Trouble != "" {
			t.Errorf("with something on its way: %+v", v)
		}
		door.letIn()
		k.Settle()
		if v := view(); v.OnItsWay != 0 || v.Held != 0 {
			t.Errorf("when that is durable: %+v", v)
		}
	})
}

// halting is an account that waits in the middle of its past.
type halting struct {
	account
	at     int
	goOn   chan struct{}
	halted chan struct{}
}

func (h *halting) Apply(e any) {
	if h.sum == h.at {
		close(h.halted)
		<-h.goOn
	}
	h.account.Apply(e)
}

func TestTheProgressOfARecoveryIsSeen(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		p := open(k, memory.New())
		a := persist.Spawn(p, k.System(), "a", func() *account { return &account{} })
		const events = 3*persist.PageRecords + 10
		_, err := actor.Ask(k.Context(), a, msg{do: func(ctx *actor.Context[msg], a *account) error {
			for range events {
				a.Record(added{1})
			}
			actor.ReplyFor(ctx, 0)
			return nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		a.Stop()
		k.Settle()
		h := &halting{at: 2*persist.PageRecords + 5, goOn: make(chan struct{}), halted: make(chan struct{})}
		b := persist.Spawn(p, k.System(), "a", func() *halting { return h })
		ask(k, b, 0)
		<-h.halted
		d, err := k.System().Detail(k.Context(), b.PID())
		v, _ := d.View.(persist.Inspection)
		if !d.Busy || v.Ready || v.ID != "/a" || v.Number != 2*persist.PageRecords || v.RecoverTo != events || err != nil {
			t.Errorf("in the middle of it: %+v, %v", d, err)
		}
		close(h.goOn)
		k.Settle()
		d, err = k.System().Detail(k.Context(), b.PID())
		v, _ = d.View.(persist.Inspection)
		if d.Busy || !v.Ready || v.Number != events || v.RecoverTo != 0 || err != nil {
			t.Errorf("after it: %+v, %v", d, err)
		}
	})
}

func TestVerifyFindsWhatDoesNotComeToOneState(t *testing.T) {
	calls := 0
	for name, c := range map[string]struct {
		newActor func() *saver
		damaged  func(s *persist.Snapshot)
		off      int
		want     error
		text     string
	}{
		"right": {newActor: func() *saver { return &saver{} }},
		"chance": {want: persist.ErrNotReproducible, text: "a second replay", newActor: func() *saver {
			calls++
			s := &saver{}
			s.sum = calls // as if Apply had asked a clock
			return s
		}},
		"snapshot of something else": {off: 1, want: persist.ErrNotReproducible, text: "snapshot 30", newActor: func() *saver { return &saver{} }},
		"broken snapshot": {want: persist.ErrNotReproducible, text: "checksum", newActor: func() *saver { return &saver{} }, damaged: func(s *persist.Snapshot) {
			if s.Number == 20 {
				s.Data[0]++
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			j := &saved{Journal: memory.New()}
			j.add(t, 35, 0, func() *saver { return &saver{off: c.off} })
			j.damaged = c.damaged
			err := persist.Verify(t.Context(), j, types, "/a", c.newActor)
			if !errors.Is(err, c.want) || (err == nil) != (c.want == nil) || err != nil && !strings.Contains(err.Error(), c.text) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// few are not all types.
var few = codec.NewTypes(codec.Of[removed]("test.removed"))

func TestVerifyComparesActorsWithoutSnapshots(t *testing.T) {
	j := after35(t)
	if err := persist.Verify(t.Context(), j, types, "/a", func() *account { return &account{} }); err != nil {
		t.Error(err)
	}
	n := 0
	err := persist.Verify(t.Context(), j, types, "/a", func() *account { n++; return &account{sum: n} })
	if !errors.Is(err, persist.ErrNotReproducible) {
		t.Errorf("got %v", err)
	}
	if err := persist.Verify(t.Context(), j, few, "/a", func() *account { return &account{} }); !errors.Is(err, persist.ErrUnreadable) {
		t.Errorf("got %v", err)
	}
}
