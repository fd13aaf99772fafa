package postgres

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/internal/pgdb"
	"github.com/greenroom-go/greenroom/internal/pgtest"
)

func TestSpansAreOfAWidthNearNowAndOfAYearElsewhere(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	date := func(text string) int64 {
		d, err := time.Parse(time.DateOnly, text)
		if err != nil {
			t.Fatal(err)
		}
		return d.UnixMilli()
	}
	for _, tt := range []struct {
		ts     string
		width  time.Duration
		lo, hi int64
		table  string
	}{
		{"2026-11-21", 7 * day, date("2026-11-16"), date("2026-11-23"), "telemetry_20261116"},
		{"2026-11-16", 7 * day, date("2026-11-16"), date("2026-11-23"), "telemetry_20261116"},
		{"2026-11-21", day, date("2026-11-21"), date("2026-11-22"), "telemetry_20261121"},
		{"2015-02-04", 7 * day, date("2015-01-01"), date("2016-01-01"), "telemetry_20150101"},
		{"2031-02-04", 7 * day, date("2031-01-01"), date("2032-01-01"), "telemetry_20310101"},
		{"1970-01-01", 7 * day, math.MinInt64, date("2000-01-01"), "telemetry_before"},
		{"1999-12-31", 7 * day, math.MinInt64, date("2000-01-01"), "telemetry_before"},
		{"2100-01-01", 7 * day, date("2100-01-01"), math.MaxInt64, "telemetry_21000101"},
		{"9999-12-31", 7 * day, date("2100-01-01"), math.MaxInt64, "telemetry_21000101"},
	} {
		s := around(date(tt.ts), now, tt.width)
		if s != (span{tt.lo, tt.hi}) || s.table() != tt.table {
			t.Errorf("%s: %+v, table %s, want %+v", tt.ts, s, s.table(), tt)
		}
	}
	if s := around(date("1970-01-02"), time.UnixMilli(date("1970-01-03")), 7*day); s.lo != date("1969-12-29") || s.hi != date("1970-01-05") {
		t.Errorf("before the first Monday: %+v", s)
	}
}

// Whatever the times, the widths and the clock: each time gets one span, and no
// two overlap.
func TestSpansNeverOverlap(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		var list []span
		for range 100 {
			now := time.UnixMilli(1_700_000_000_000 + rnd.Int64N(1e12))
			ts := rnd.Int64N(entity.MaxTS + 1)
			if rnd.IntN(2) == 0 {
				ts = now.UnixMilli() - 1e10 + rnd.Int64N(2e10)
			}
			var made span
			list, made = with(list, ts, now, time.Duration(1+rnd.IntN(40))*day)
			if ts < made.lo || ts >= made.hi {
				t.Fatalf("%d is not in %+v", ts, made)
			}
			if i, ok := at(list, ts); !ok || list[i] != made {
				t.Fatalf("%d is not found again", ts)
			}
		}
		if !slices.IsSortedFunc(list, func(a, b span) int {
			if a.hi <= b.lo {
				return -1
			}
			return 1
		}) {
			t.Fatalf("they overlap: %v", list)
		}
		names := map[string]bool{}
		for _, s := range list {
			names[s.table()] = true
		}
		if len(names) != len(list) {
			t.Fatalf("%d names for %d spans", len(names), len(list))
		}
	}
}

// A device whose clock is garbage must not fill the catalog, nor hold up anybody.
func TestReadingsOfAnyTimeFitIntoFewPartitions(t *testing.T) {
	s := open(t, pgtest.Database(t), Options{PartitionWidth: day})
	defer closeStore(t, s)
	rnd := rand.New(rand.NewPCG(1, 2))
	var all []int64
	seen := map[int64]bool{}
	add := func(ts int64) {
		if !seen[ts] {
			seen[ts] = true
			all = append(all, ts)
		}
	}
	now := time.Now().UnixMilli()
	for range 4000 {
		add(rnd.Int64N(entity.MaxTS + 1))
		add(now - 20*day.Milliseconds() + rnd.Int64N(40*day.Milliseconds()))
		add(rnd.Int64N(2 * now))
	}
	add(0)
	add(entity.MaxTS)
	commit(t, s, atTimes(1, all...))
	slices.Sort(all)
	if got := times(t, s, "a", "t"); !slices.Equal(got, all) {
		t.Errorf("%d times came back of %d", len(got), len(all))
	}
	if n := len(s.spans.all()); n > 102+2*nearWidths+2 {
		t.Errorf("%d partitions", n)
	}
	down, err := s.History(t.Context(), "a", "t", entity.Place{}, entity.Place{TS: entity.MaxTS + 1}, 3000, true)
	if err != nil || len(down) != 3000 {
		t.Fatalf("%d points, %v", len(down), err)
	}
	for i, p := range down {
		if p.TS != all[len(all)-1-i] {
			t.Fatalf("point %d from the end is of %d, want %d", i, p.TS, all[len(all)-1-i])
		}
	}
}

func TestCountGoesOverTheEdgesOfPartitions(t *testing.T) {
	s := open(t, pgtest.Database(t), Options{PartitionWidth: day})
	defer closeStore(t, s)
	const hour = int64(time.Hour / time.Millisecond)
	start := time.Now().UnixMilli()/hour*hour - 200*hour
	var all []int64
	for i := range int64(200) {
		all = append(all, start+i*hour)
	}
	commit(t, s, atTimes(1, all...))
	if n := len(s.spans.all()); n < 8 {
		t.Fatalf("only %d partitions: this tests nothing", n)
	}
	for _, r := range [][2]int{{0, 200}, {0, 1}, {1, 199}, {30, 31}, {20, 150}, {199, 200}, {5, 5}} {
		n, err := s.CountNumbers(t.Context(), "a", "t", start+int64(r[0])*hour, start+int64(r[1])*hour)
		if err != nil || n != r[1]-r[0] {
			t.Errorf("hours %v: %d, %v", r, n, err)
		}
	}
}

func TestPartitionsAreMadeAheadOfTime(t *testing.T) {
	url := pgtest.Database(t)
	s := open(t, url, Options{})
	defer closeStore(t, s)
	later := time.Now().Add(40 * day)
	if err := s.ahead(t.Context(), later); err != nil {
		t.Fatal(err)
	}
	before := s.spans.all()
	if len(before) != 4 { // those that Open makes as well
		t.Errorf("the partitions are %v", before)
	}
	for _, ts := range []int64{later.UnixMilli(), later.Add(DefaultPartitionWidth).UnixMilli()} {
		if _, ok := at(before, ts); !ok {
			t.Errorf("there is no partition of %d", ts)
		}
	}
	commit(t, s, atTimes(1, later.UnixMilli()))
	if after := s.spans.all(); len(after) != len(before) {
		t.Errorf("the commit made a partition: %v, before %v", after, before)
	}
}

func TestExpiredPartitionsAreDroppedAndTheLatestValuesStay(t *testing.T) {
	url := pgtest.Database(t)
	s := open(t, url, Options{Retention: 5 * day, PartitionWidth: day})
	defer closeStore(t, s)
	now := time.Now()
	old, edge, fresh := now.Add(-8*day).UnixMilli(), now.Add(-5*day+time.Hour).UnixMilli(), now.UnixMilli()
	commit(t, s, atTimes(1, old, edge, fresh))
	gone, err := s.History(t.Context(), "a", "t", entity.Place{TS: old}, entity.Place{TS: old + 1}, 1, false)
	if err != nil || len(gone) != 1 {
		t.Fatalf("%v, %v", gone, err)
	}
	if err := s.tidy(t.Context(), now); err != nil {
		t.Fatal(err)
	}
	if got := times(t, s, "a", "t"); !slices.Equal(got, []int64{edge, fresh}) {
		t.Errorf("the times are %v, want %v", got, []int64{edge, fresh})
	}
	if e, err := s.Load(t.Context(), "a"); err != nil || len(e.Latest) != 1 || e.Latest[0].TS != old {
		t.Errorf("loaded %+v, %v", e, err)
	}
	tables := pgtest.Ask[int](t, pgtest.Connect(t, url), "SELECT count(*) FROM pg_inherits WHERE inhparent = 'greenroom.telemetry'::regclass")
	if spans := len(s.spans.all()); spans != tables {
		t.Errorf("%d spans, %d tables", spans, tables)
	}
	// What comes late all the same has a partition made for it again.
	commit(t, s, atTimes(4, old))
	if got := times(t, s, "a", "t"); len(got) != 3 {
		t.Errorf("the times are %v", got)
	}
}

func TestPartitionThatTrimHasEmptiedIsDropped(t *testing.T) {
	s := open(t, pgtest.Database(t), Options{PartitionWidth: day})
	defer closeStore(t, s)
	now := time.Now()
	old, kept := now.Add(-5*day).UnixMilli(), now.Add(-3*day).UnixMilli()
	commit(t, s, atTimes(1, old, old+1, kept))
	before := len(s.spans.all())
	if n, err := s.Trim(t.Context(), "a", "t", kept, 10); n != 2 || err != nil {
		t.Fatalf("%d trimmed, %v", n, err)
	}
	eventually(t, func() string { // while the server's own maintenance sees the rows it stays
		if err := s.expire(t.Context(), now); err != nil {
			t.Fatal(err)
		}
		after := len(s.spans.all())
		switch after {
		case before:
			return fmt.Sprintf("still %d partitions", after)
		case before - 1:
		default:
			t.Fatalf("%d partitions, were %d", after, before)
		}
		return ""
	})
	if got := times(t, s, "a", "t"); !slices.Equal(got, []int64{kept}) {
		t.Errorf("the times are %v", got)
	}
}

// A reader that takes its time must not keep everybody else out.
func TestDroppingAPartitionGivesWayToReaders(t *testing.T) {
	url := pgtest.Database(t)
	s := open(t, url, Options{Retention: 5 * day, PartitionWidth: day})
	defer closeStore(t, s)
	now := time.Now()
	commit(t, s, atTimes(1, now.Add(-8*day).UnixMilli(), now.UnixMilli()))
	reader := pgtest.Connect(t, url)
	pgtest.Exec(t, reader, "BEGIN")
	pgtest.Ask[int](t, reader, "SELECT count(*) FROM greenroom.telemetry")
	err := s.expire(t.Context(), now)
	if pgdb.Code(err) != pgdb.CodeNoLock || !strings.Contains(err.Error(), "telemetry_") {
		t.Errorf("dropped under a reader: %v", err)
	}
	commit(t, s, atTimes(3, now.UnixMilli()+1))
	pgtest.Exec(t, reader, "COMMIT")
	if err := s.expire(t.Context(), now); err != nil {
		t.Error(err)
	}
	if got := times(t, s, "a", "t"); len(got) != 2 {
		t.Errorf("the times are %v", got)
	}
}

// Plans must not depend on luck: no sorting, and only the partitions of the range.
func TestQueriesOfAHistoryUseTheIndexOfItsPartitionsOnly(t *testing.T) {
	s := open(t, pgtest.Database(t), Options{PartitionWidth: day})
	defer closeStore(t, s)
	now := time.Now()
	var all []int64
	for i := range 9 {
		all = append(all, now.Add(-time.Duration(i)*day).UnixMilli())
	}
	commit(t, s, atTimes(1, all...))
	from := now.Add(-2 * day).UnixMilli()
	for name, query := range map[string]string{"ascending": selectRows, "descending": descendingRows, "blocks": selectBlocks, "blocks descending": descendingBlocks} {
		text := explain(t, s, query, "a", "t", from, now.UnixMilli(), 0, 0, 100)
		blocks := strings.HasPrefix(name, "blocks")
		if strings.Contains(text, "Seq Scan on telemetry") || !blocks && (strings.Contains(text, "Sort") || strings.Count(text, " on telemetry_") != 3) {
			t.Errorf("%s:\n%s", name, text)
		}
	}
}

// explain returns the plan of a query.
func explain(t *testing.T, s *Store, query string, args ...any) string {
	t.Helper()
	rows, err := s.pool.Query(t.Context(), "EXPLAIN "+query, append([]any{planned}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(lines, "\n")
}
