package sqlite

import (
	"database/sql/driver"
	"slices"
	"strings"
	"testing"

	"github.com/greenroom-go/greenroom/internal/sqlitedb"
	"github.com/greenroom-go/greenroom/persist"
)

// rest ends what is done beside commits, for a test that does it itself.
func rest(j *Journal) {
	close(j.stop)
	j.working.Wait()
	j.stop = nil
}

// rows returns how many rows tables have.
func rows(t *testing.T, j *Journal, tables ...string) (list []int64) {
	t.Helper()
	for _, table := range tables {
		if err := j.readers.Snapshot(t.Context(), func(tx *sqlitedb.Tx) error {
			return tx.Each("SELECT count(*) FROM "+table, 1, func(row []driver.Value) (bool, error) {
				list = append(list, integer(row[0]))
				return false, nil
			})
		}); err != nil {
			t.Fatal(err)
		}
	}
	return list
}

// A large past is not removed by the commit that erases it, but by slices after it, also by those of
// the next process; nobody sees it meanwhile.
func TestAnErasureIsSweptInSlices(t *testing.T) {
	const events = 2*sliceEvents + 101 // thrice a whole number
	dir := t.TempDir()
	j := open(t, dir)
	rest(j)
	number := uint64(0)
	commit := func(appends ...persist.Append) {
		t.Helper()
		number++
		if err := j.Commit(t.Context(), &persist.Batch{Number: number, Appends: appends}); err != nil || appends[0].Err != nil {
			t.Fatal(err, appends[0].Err)
		}
	}
	for n := range uint64(3) {
		a := persist.Append{ID: "large", After: n * events / 3, Events: slices.Repeat([]persist.Payload{event("secret")}, events/3)}
		b := persist.Append{ID: "other", After: n, Events: []persist.Payload{event("kept")}}
		if commit(a, b); n == 1 {
			if err := j.flush(); err != nil {
				t.Fatal(err)
			}
		}
	}
	check := func(when string) {
		t.Helper()
		l, err := j.Load(t.Context(), []string{"large", "other"})
		if err != nil || l[0].Last != events+1 || l[0].Erased != events+1 || len(l[0].Events) > 0 || l[1].Last != 3 || len(l[1].Events) != 3 {
			t.Errorf("%s: it has %d events, number %d and %d; the other one %d: %v", when, len(l[0].Events), l[0].Last, l[0].Erased, len(l[1].Events), err)
		}
		list, err := j.Events(t.Context(), "large", 0, 10)
		if err != nil || len(list) > 0 {
			t.Errorf("%s: %d events, %v", when, len(list), err)
		}
		feed, err := j.Feed(t.Context(), persist.PartOf("large"), 0, 10)
		if err != nil || len(feed) != 1 || !feed[0].Erased {
			t.Errorf("%s: the feed has %d events, %v", when, len(feed), err)
		}
	}
	commit(persist.Append{ID: "large", After: events, Erase: true})
	check("erased")
	if got := rows(t, j, "event"); got[0] != events+1+3 {
		t.Errorf("the commit has left %d events, and not all of them", got[0])
	}
	if err := j.flush(); err != nil {
		t.Fatal(err)
	}
	check("flushed")
	if err := j.slice(func(tx *sqlitedb.Tx) error {
		more, err := j.w.sweep(tx)
		if !more {
			t.Error("the first slice was all of it")
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if got, want := rows(t, j, "event", "place", "feed"), int64(events+1+3-sliceEvents); !slices.Equal(got, []int64{want, want, want}) {
		t.Errorf("the first slice has left %v rows, want %d", got, want)
	}
	check("swept in part")
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	j = open(t, dir)
	rest(j)
	if !j.w.erasing.Load() {
		t.Error("the next process does not know that there is more")
	}
	if err := j.sweep(); err != nil {
		t.Fatal(err)
	}
	check("swept")
	if got := rows(t, j, "event", "place", "feed", "erasing"); !slices.Equal(got, []int64{4, 4, 4, 0}) || j.w.erasing.Load() {
		t.Errorf("the sweep has left %v rows", got)
	}
}

// Commits wait for a slice: what is large has fewer events in one.
func TestASliceOfASweepIsBoundedInBytes(t *testing.T) {
	const events, most = 10, 4
	j := open(t, t.TempDir())
	rest(j)
	large := event(strings.Repeat("x", sliceBytes/most))
	for n := range uint64(events) {
		b := &persist.Batch{Number: n + 1, Appends: []persist.Append{{ID: "large", After: n, Events: []persist.Payload{large}}}}
		if err := j.Commit(t.Context(), b); err != nil || b.Appends[0].Err != nil {
			t.Fatal(err, b.Appends[0].Err)
		}
	}
	b := &persist.Batch{Number: events + 1, Appends: []persist.Append{{ID: "large", After: events, Erase: true}}}
	if err := j.Commit(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if err := j.flush(); err != nil {
		t.Fatal(err)
	}
	var left []int64
	for more := true; more; {
		if err := j.slice(func(tx *sqlitedb.Tx) (err error) {
			more, err = j.w.sweep(tx)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		left = append(left, rows(t, j, "event")...)
	}
	if want := []int64{7, 3, 1, 1}; !slices.Equal(left, want) { // the erasure stays, and the last slice finds nothing
		t.Errorf("the slices have left %v events, want %v", left, want)
	}
}
