package retention

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/internal/entitytest"
	"github.com/greenroom-go/greenroom/entity/series"
	"github.com/greenroom-go/greenroom/entity/value"
	"github.com/greenroom-go/greenroom/internal/pgtest"
)

// A series whose record is damaged does not keep the rules from the others.
func TestRetentionGoesOnBeyondADamagedSeries(t *testing.T) {
	t.Parallel()
	rt := entitytest.Open(t)
	later := time.UnixMilli(0).AddDate(1, 0, 0)
	for _, id := range []string{"a", "b", "c"} {
		entitytest.Post(t, rt, id, `{"ts":1000,"values":{"t":1}}`)
		entitytest.Post(t, rt, id, fmt.Sprintf(`{"ts":%d,"values":{"t":2}}`, later.UnixMilli()))
	}
	if _, err := rt.PutDoc(t.Context(), kindSeries, string(newSeriesName("b", "t")), []byte("damaged"), ""); err != nil {
		t.Fatal(err)
	}
	r := New(rt, slog.New(slog.DiscardHandler))
	r.now = func() time.Time { return later }
	t.Cleanup(r.Close)
	if _, err := r.PutRule(t.Context(), "r", &series.Rule{Key: "t", Raw: 7 * 24 * 3_600_000}, ""); err != nil {
		t.Fatal(err)
	}
	r.round()
	status := r.Status()
	if status.Removed != 2 {
		t.Errorf("the status is %+v; want two values removed", status)
	}
	if !strings.Contains(status.Error, `"b"`) {
		t.Errorf("the error is %s", status.Error)
	}
}

// countedStore counts what is done with documents, and fails beyond a limit: what this
// tests would otherwise go on for minutes.
type countedStore struct {
	entity.Store
	calls atomic.Int64
}

const mostCalls = 20_000

func (s *countedStore) count() error {
	if s.calls.Add(1) > mostCalls {
		return errTooMuch
	}
	return nil
}

var errTooMuch = errors.New("too many documents")

func (s *countedStore) Doc(ctx context.Context, kind, id string) (entity.Doc, error) {
	if err := s.count(); err != nil {
		return entity.Doc{}, err
	}
	return s.Store.Doc(ctx, kind, id)
}

func (s *countedStore) PutDoc(ctx context.Context, doc entity.Doc, condition string) (entity.Doc, error) {
	if err := s.count(); err != nil {
		return doc, err
	}
	return s.Store.PutDoc(ctx, doc, condition)
}

func (s *countedStore) DeleteDoc(ctx context.Context, kind, id, condition string) error {
	if err := s.count(); err != nil {
		return err
	}
	return s.Store.DeleteDoc(ctx, kind, id, condition)
}

// A reading of 1970 costs a chunk of each tier, not the fifty years since: when rows are
// made, read and deleted, and when it comes late.
func TestAReadingOf1970CostsWhatItTouches(t *testing.T) {
	t.Parallel()
	const second = 1000
	store := &countedStore{}
	rt := entitytest.OpenOn(t, func(s entity.Store) entity.Store { store.Store = s; return store })
	now := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	post := func(ts int64) { entitytest.Post(t, rt, "a", fmt.Sprintf(`{"ts":%d,"values":{"t":1}}`, ts)) }
	post(5000)
	for i := range int64(100) {
		post(now.UnixMilli() - hour - i*second)
	}
	r := New(rt, slog.New(slog.DiscardHandler))
	r.now = func() time.Time { return now }
	t.Cleanup(r.Close)
	rule := series.Rule{Key: "t", Raw: 30 * 365 * day, Tiers: []series.Tier{{Step: second, Keep: 100 * 365 * day}, {Step: hour}}}
	round := func(what string, most int64) {
		t.Helper()
		before := store.calls.Load()
		r.round()
		if status, n := r.Status(), store.calls.Load()-before; status.Error != "" || n > most {
			t.Errorf("%s: %d documents, %+v; want at most %d", what, n, status, most)
		}
	}
	count := func(want int64) {
		t.Helper()
		kept, err := r.Series(t.Context(), "a", "t")
		if err != nil {
			t.Fatal(err)
		}
		before, n := store.calls.Load(), int64(0)
		for row, err := range r.Rows(t.Context(), kept, second, series.Range{From: 0, To: entity.MaxTS}) {
			if err != nil {
				t.Fatal(err)
			}
			n += row.Summary.Count
		}
		if calls := store.calls.Load() - before; n != want || calls > 10 {
			t.Errorf("the rows have %d values by %d documents; want %d by at most 10", n, calls, want)
		}
	}
	if _, err := r.PutRule(t.Context(), "r", &rule, ""); err != nil {
		t.Fatal(err)
	}
	round("the first rows", 50)
	count(101)
	// One late value 40 years ago and one an hour ago concern two rows of each tier.
	post(now.UnixMilli() - 20*365*day)
	post(now.UnixMilli() - 2*hour)
	for deadline := time.Now().Add(patience); r.Status().Late == 0; {
		round("late values", 50)
		if time.Now().After(deadline) {
			t.Fatal("the late values were not seen")
		}
	}
	round("once more", 50)
	count(103)
	rule.Raw, rule.Tiers[0].Keep = hour, day
	if _, err := r.PutRule(t.Context(), "r", &rule, ""); err != nil {
		t.Fatal(err)
	}
	round("the deletion of old rows", 50)
	count(101)
}

// What a series that was stored by an earlier version has of chunks is found.
func TestChunksOfAnEarlierVersionAreFound(t *testing.T) {
	t.Parallel()
	k, err := decodeSeries([]byte(`{"entity":"a","key":"t","created":1,"kept":{"tiers":[{"step":"1s","from":0,"to":600000}]},"first":{"1s":1}}`))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := slices.Collect(k.chunks[1000].between(0, 100)), []int64{1, 2}; !slices.Equal(got, want) {
		t.Errorf("the chunks are %v, want %v", got, want)
	}
}

// Runs have what was put into them, and above their limit a little more.
func TestRunsHaveWhatWasPutIntoThem(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		var runs chunkRuns
		there := make(map[int64]bool)
		for range 60 {
			first := rng.Int64N(100)
			run := chunkRun{first, first + 1 + rng.Int64N(4)}
			runs = runs.with(run)
			for n := run[0]; n < run[1]; n++ {
				there[n] = true
			}
			if rng.IntN(20) == 0 {
				cut, end := rng.Int64N(30), 70+rng.Int64N(40)
				runs = runs.from(cut).until(end)
				maps.DeleteFunc(there, func(n int64, _ bool) bool { return n < cut || n >= end })
			}
			if got, want := slices.Collect(runs.between(0, 200)), slices.Sorted(maps.Keys(there)); !slices.Equal(got, want) {
				t.Fatalf("the runs %v have %v, want %v", runs, got, want)
			}
		}
	}
	var many chunkRuns
	for n := range int64(maxRuns + 10) {
		many = many.with(chunkRun{3 * n, 3*n + 1})
	}
	if len(many) != maxRuns {
		t.Errorf("%d runs, want %d", len(many), maxRuns)
	}
	for n := range int64(maxRuns + 10) {
		if many.next(3*n) != 3*n {
			t.Fatalf("%d is lost", 3*n)
		}
	}
}

func TestLateRangesCoverWhatWasAdded(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(3, 4))
	var list, added []series.Range
	for range 500 {
		from := rng.Int64N(100_000)
		r := series.Range{From: from, To: from + 1 + rng.Int64N(50)}
		list, added = addRange(list, r), append(added, r)
		if len(list) > maxLateRanges {
			t.Fatalf("%d ranges", len(list))
		}
		for i := 1; i < len(list); i++ {
			if list[i].From <= list[i-1].To {
				t.Fatalf("%v is not apart from %v", list[i], list[i-1])
			}
		}
	}
	for _, r := range added {
		if !slices.ContainsFunc(list, func(o series.Range) bool { return o.From <= r.From && r.To <= o.To }) {
			t.Errorf("%v is lost", r)
		}
	}
}

func TestRetentionOnPostgres(t *testing.T) {
	t.Parallel()
	pgtest.Again(t, "TestRetentionGoesOnBeyondADamagedSeries", "TestAReadingOf1970CostsWhatItTouches")
}

func FuzzDecodeChunk(f *testing.F) {
	sum := series.NewSummary(true)
	for i := range 3 {
		if err := sum.Add(series.Point{TS: 3_600_000 + int64(i), Value: value.Int(int64(i))}); err != nil {
			f.Fatal(err)
		}
	}
	const hour series.Span = 3_600_000
	body, err := encodeChunk([]series.Row{{Start: int64(hour), End: 2 * int64(hour), Summary: sum}}, hour, 0)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(body)
	f.Fuzz(func(t *testing.T, body []byte) {
		rows, err := decodeChunk(body, hour, 0)
		if err != nil {
			return
		}
		again, err := encodeChunk(rows, hour, 0)
		if err != nil {
			t.Fatal(err)
		}
		if back, err := decodeChunk(again, hour, 0); err != nil || len(back) != len(rows) {
			t.Errorf("%d rows became %d: %v", len(rows), len(back), err)
		}
	})
}
