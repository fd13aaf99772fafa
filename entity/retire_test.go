package entity_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/value"
)

// untilCold returns when no entity has an actor, and all of them have ended: one who
// goes is no longer live, then evicted, and gives back its bytes at its end.
func (s *stage) untilCold() {
	s.t.Helper()
	for began := time.Now(); ; runtime.Gosched() {
		st := s.Stats()
		if st.Live == 0 && st.HotBytes == 0 {
			return
		}
		if time.Since(began) > patience {
			s.t.Fatalf("some are not cold: %+v", st)
		}
		if err := s.SweepAll(s.t.Context()); err != nil {
			s.t.Fatal(err)
		}
	}
}

// untilRetired returns the counters when n entities that were live once have at most
// that many bytes, and those before the oldest that may stay have gone. One who goes
// is counted as live no longer and as evicted a moment later, and those who were asked
// together do not go together.
func (s *stage) untilRetired(n int, bytes int64, oldest int) entity.Stats {
	s.t.Helper()
	for began := time.Now(); ; runtime.Gosched() {
		st := s.Stats()
		settled := st.HotBytes <= bytes && st.Live+int(st.Evicted) == n
		for i := range oldest {
			settled = settled && !s.IsLive(fmt.Sprint("e", i))
		}
		if settled || time.Since(began) > patience {
			return st
		}
		if err := s.SweepAll(s.t.Context()); err != nil {
			s.t.Fatal(err)
		}
	}
}

func TestIdleEntitiesGoColdAndComeBackAsTheyWere(t *testing.T) {
	s := open(t, t.TempDir(), entity.Config{IdleAfter: time.Nanosecond})
	const n = 40
	before := map[string]entity.Snapshot{}
	for i := range int64(n) {
		id := fmt.Sprint("e", i)
		s.write(id, at(10+i, "t", value.Int(i)), at(5, "s", value.String("text")))
		s.patch(id, entity.Desired, fmt.Sprintf(`{"x":{"y":%d}}`, i))
		before[id] = s.entity(id)
	}
	s.untilCold()
	if st := s.Stats(); st.Evicted < n || st.HotBytes != 0 || st.Registered != n {
		t.Errorf("stats %+v", st)
	}
	if h := s.Handles(); h != 0 {
		t.Errorf("the dispatcher knows %d cold entities", h)
	}
	for id, want := range before {
		got := s.entity(id)
		got.Actor, want.Actor = "", ""
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s came back as %+v, was %+v", id, got, want)
		}
	}
	s.write("e7", at(1, "t", value.Int(99))) // late, also after it was cold
	s.untilCold()
	if l := s.latest("e7", "t"); l.TS != 17 || l.Value.Int() != 7 {
		t.Errorf("latest %+v", l)
	}
	s.write("e7", at(17, "t", value.Int(100))) // the same time, a later sequence
	if l := s.latest("e7", "t"); l.Value.Int() != 100 {
		t.Errorf("latest %+v", l)
	}
}

func TestEntityIsNotColdBeforeItsTime(t *testing.T) {
	for name, cfg := range map[string]entity.Config{"not yet": {}, "never": {IdleAfter: -1}} {
		s := open(t, t.TempDir(), cfg)
		s.write("a", at(1, "t", value.Int(1)))
		if err := s.SweepAll(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.entity("a")
		if st := s.Stats(); st.Live != 1 || st.Evicted != 0 || st.HotBytes < 500 {
			t.Errorf("%s: stats %+v", name, st)
		}
	}
}

func TestEntityWithReadingsOnTheirWayStaysUntilTheyAreCommitted(t *testing.T) {
	s := open(t, t.TempDir(), entity.Config{IdleAfter: time.Nanosecond})
	g := newGate()
	s.store.onCommit(func(ctx context.Context, _ *entity.Batch) error { return g.pass(ctx) })
	settled := newSettlements(t)
	if err := settled.ingest(t.Context(), s, "one", "a", at(1, "t", value.Int(1))); err != nil {
		t.Fatal(err)
	}
	wait(t, g.came, "the commit")
	for range 3 {
		s.Retire("a")
		s.taken("a")
	}
	if !s.IsLive("a") {
		t.Error("it went cold with a reading that is not committed")
	}
	g.open()
	settled.wait()
	s.untilCold()
	if l := s.latest("a", "t"); l.Value.Int() != 1 {
		t.Errorf("latest %+v", l)
	}
}

func TestWhenThereIsNoRoomThoseNotUsedForLongestGoCold(t *testing.T) {
	const budget = 200_000
	s := open(t, t.TempDir(), entity.Config{HotBytes: budget, IdleAfter: -1})
	const n = 600 // three times what fits
	for i := range int64(n) {
		s.write(fmt.Sprint("e", i), at(i, "t", value.Int(i)))
		if i%20 == 0 {
			if err := s.SweepAll(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	st := s.untilRetired(n, budget, n/3)
	if st.HotBytes > budget || st.Live >= n || st.Evicted < n/2 || st.Live+int(st.Evicted) != n {
		t.Errorf("stats %+v", st)
	}
	for i := range n {
		if s.IsLive(fmt.Sprint("e", i)) && i < n/3 {
			t.Errorf("e%d stayed, and newer ones went", i)
		}
	}
	for _, i := range []int64{0, n / 2, n - 1} {
		if l := s.latest(fmt.Sprint("e", i), "t"); l.Value.Int() != i {
			t.Errorf("e%d: %+v", i, l)
		}
	}
}

// Whatever comes while entities go cold and come back is taken in once, in order,
// and nobody sees an old state.
func TestNothingIsLostOrStaleWhileEntitiesGoColdUnderLoad(t *testing.T) {
	s := open(t, t.TempDir(), entity.Config{BatchDelay: -1, IdleAfter: -1})
	const entities, readings = 5, 300
	settled := newSettlements(t)
	stop := make(chan struct{})
	var troublers, wg sync.WaitGroup
	for range 2 {
		troublers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					s.Retire(fmt.Sprint("e", rand.IntN(entities)))
					runtime.Gosched()
				}
			}
		})
	}
	for e := range entities {
		id := fmt.Sprint("e", e)
		wg.Go(func() {
			etag := ""
			for i := range int64(readings) {
				if err := settled.ingest(t.Context(), s, fmt.Sprint(id, " ", i), id, at(i, "t", value.Int(i))); err != nil {
					t.Error(err)
					return
				}
				if i%10 != 0 {
					continue
				}
				done, err := s.Edit(t.Context(), id, entity.Edits{If: etag, Patches: []entity.Patch{merge(entity.Attributes, fmt.Sprintf(`{"n":%d}`, i))}})
				if err != nil {
					t.Errorf("%s: edit %d: %v", id, i, err)
					return
				}
				etag = done.ETag
				snap, err := s.Entity(t.Context(), id)
				if err != nil || snap.ETag != etag || snap.Section(entity.Attributes)[0].Value.Int() != i || snap.Latest[0].TS != i {
					t.Errorf("%s after %d: %+v, %v", id, i, snap, err)
					return
				}
			}
		})
	}
	wg.Wait()
	settled.wait()
	close(stop)
	troublers.Wait()
	if n := settled.count(nil); n != entities*readings {
		t.Errorf("%d of %d were acknowledged", n, entities*readings)
	}
	if s.Stats().Evicted == 0 {
		t.Error("none ever went cold")
	}
	for e := range entities {
		id := fmt.Sprint("e", e)
		if l := s.latest(id, "t"); l.TS != readings-1 || l.Seq != readings {
			t.Errorf("%s: latest %+v", id, l)
		}
		if got := s.history(id, "t"); len(got) != readings {
			t.Errorf("%s: %d readings in the history, want %d", id, len(got), readings)
		}
	}
}
