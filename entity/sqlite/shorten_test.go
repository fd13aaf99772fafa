package sqlite

import (
	"reflect"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/entity/storetest"
)

func TestOldChangesAreDroppedFromTheLog(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Options{})
	s.halt() // nobody else writes
	const old, commits = 30, 40
	now := time.Now()
	for i := uint64(1); i <= commits; i++ {
		b := batch(i, int64(i), 10)
		if b.Committed = now.UnixMilli(); i <= old {
			b.Committed = now.Add(-2 * DefaultChangeLogAge).UnixMilli()
		}
		if err := s.Commit(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	shorten := func(now time.Time, first uint64, when string) {
		t.Helper()
		if err := s.shorten(nil, now); err != nil {
			t.Fatal(err)
		}
		if info := s.Info(); info.FirstChange != first || info.LastChange != commits {
			t.Errorf("%s: %+v, want changes from %d on", when, info, first)
		}
	}
	shorten(now, 1, "just opened")
	s.opened = now.Add(-DefaultChangeLogAge)
	shorten(now, 1, "with readings that are not in the tables")
	if err := moveAll(s); err != nil {
		t.Fatal(err)
	}
	shorten(now, old+1, "an hour later")
	storetest.CheckShortened(t, s, commits)
	if n := count(t, s, "SELECT sum(length(data)) FROM change"); int64(n) != s.w.logBytes {
		t.Errorf("the log has %d bytes, and is thought to have %d", n, s.w.logBytes)
	}
	shorten(now.Add(2*DefaultChangeLogAge), commits, "at rest")
	info := storetest.CheckShortened(t, s, commits)
	closeStore(t, s)
	s = open(t, dir, Options{})
	defer closeStore(t, s)
	again := s.Info()
	if again.Generations = info.Generations; !reflect.DeepEqual(again, info) {
		t.Errorf("reopened: %+v, was %+v", again, info)
	}
}

func TestTheLogIsShortenedAtRest(t *testing.T) {
	// A log of a quarter of its bytes is moved into the tables at once.
	s := open(t, t.TempDir(), Options{ChangeLogAge: time.Millisecond, ChangeLogBytes: 8 << 10})
	defer closeStore(t, s)
	const commits = 20
	for i := uint64(1); i <= commits; i++ {
		if err := s.Commit(t.Context(), batch(i, int64(i), 10)); err != nil {
			t.Fatal(err)
		}
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for s.Info().FirstChange < commits {
		select {
		case <-tick.C:
		case <-t.Context().Done():
			t.Fatal(s.Info())
		}
	}
}
