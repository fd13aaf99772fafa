package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/block"
	"github.com/greenroom-go/greenroom/entity/internal/sealed"
	"github.com/greenroom-go/greenroom/entity/storetest"
	"github.com/greenroom-go/greenroom/entity/value"
	"github.com/greenroom-go/greenroom/internal/pgtest"
)

// commitMany commits n readings of "a", a second apart and of the last hours, with two keys each.
func commitMany(t *testing.T, s *Store, n int) {
	t.Helper()
	first := s.Info().LastChange + 1
	start := time.Now().UnixMilli()/1000*1000 - 1000*int64(n)
	b := &entity.Batch{First: first, Committed: 1, Entities: []entity.BatchEntity{{ID: "a", Created: 1}}}
	for i := range int64(n) {
		b.Records = append(b.Records, entity.Record{Seq: first + uint64(i), Reading: entity.Reading{TS: start + i*1000 + i*i%97, Values: []entity.Sample{
			{Key: "t", Value: value.Float(float64(i%100) / 10)}, {Key: "u", Value: value.Int(i)},
		}}})
	}
	commit(t, s, b)
}

// add commits one reading of "a" with the key "u".
func add(t *testing.T, s *Store, ts int64, v value.Value) {
	t.Helper()
	first := s.Info().LastChange + 1
	commit(t, s, &entity.Batch{First: first, Committed: 1, Entities: []entity.BatchEntity{{ID: "a", Created: 1}}, Records: []entity.Record{
		{Seq: first, Reading: entity.Reading{TS: ts, Values: []entity.Sample{{Key: "u", Value: v}}}},
	}})
}

func points(t *testing.T, s *Store, id, key string) []entity.Point {
	t.Helper()
	list, err := s.History(t.Context(), id, key, entity.Place{}, entity.Place{TS: entity.MaxTS}, math.MaxInt32, false)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// count returns what a query for one number finds.
func count(t *testing.T, s *Store, sql string) (n int) {
	t.Helper()
	if err := s.pool.QueryRow(t.Context(), sql).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func compact(t *testing.T, s *Store) {
	t.Helper()
	if err := s.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestSealedValuesTakeATenthOfTheRoom(t *testing.T) {
	t.Parallel()
	s := open(t, pgtest.Database(t), Options{SealAfter: -1})
	defer closeStore(t, s)
	const n = 5000
	commitMany(t, s, n)
	size := func() int {
		return count(t, s, "SELECT sum(pg_total_relation_size(oid)) FROM pg_class WHERE relnamespace = 'greenroom'::regnamespace AND relkind = 'r' AND relname ~ 'telemetry|block|stamp'")
	}
	before, rows := points(t, s, "a", "t"), size()
	eventually(t, func() string { // while the server's own maintenance sees the rows they stay
		compact(t, s)
		after := size()
		if after < rows/3 { // beside the blocks, the pages that empty tables have
			return ""
		}
		return fmt.Sprintf("%d bytes on disk, and %d before", after, rows)
	})
	u, err := s.Usage(t.Context())
	if err != nil || u.Values != 2*n || u.Sealed != 2*n || u.Blocks != 4 || u.SealedBytes > 2*2*n || u.File == 0 || u.Log == 0 {
		t.Errorf("%+v, %v", u, err)
	}
	if len(u.Keys) != 2 || u.Keys[0].Name != "t" || u.Keys[0].Sealed != n || len(u.Types) != 1 || u.Types[0].Values != 2*n {
		t.Errorf("%+v", u)
	}
	if got := points(t, s, "a", "t"); !slices.Equal(got, before) || len(got) != n {
		t.Errorf("%d points, which are others than the %d before", len(got), len(before))
	}
	if stamps := count(t, s, "SELECT count(*) FROM stamp"); stamps != 2 {
		t.Errorf("%d stamps for four blocks of the same messages", stamps)
	}
	if err := s.Check(t.Context()); err != nil {
		t.Error(err)
	}
	if n, err := s.Trim(t.Context(), "a", "t", entity.MaxTS, 10_000); err != nil || n != 5000 || count(t, s, "SELECT count(*) FROM stamp") != 2 {
		t.Errorf("removed %d, %v, and stamps of another key", n, err)
	}
	if _, err := s.Trim(t.Context(), "a", "u", entity.MaxTS, 10_000); err != nil || count(t, s, "SELECT count(*) FROM stamp") != 0 {
		t.Errorf("%v, or stamps of nobody are left", err)
	}
}

func TestLateValuesCountAtOnceAndAreFoldedIn(t *testing.T) {
	t.Parallel()
	s := open(t, pgtest.Database(t), Options{SealAfter: -1})
	defer closeStore(t, s)
	commitMany(t, s, 3000)
	compact(t, s)
	want := points(t, s, "a", "u")
	at := want[1000].TS
	add(t, s, at, value.String("corrected"))
	add(t, s, at+1, value.Bool(true))
	want[1000].Value = value.String("corrected")
	want = slices.Insert(want, 1001, entity.Point{TS: at + 1, Value: value.Bool(true)})
	for _, state := range []string{"in a row", "folded in"} {
		if got := points(t, s, "a", "u"); !slices.Equal(got, want) {
			t.Errorf("%s: %d points, which are not the %d that there must be", state, len(got), len(want))
		}
		if n, err := s.CountNumbers(t.Context(), "a", "u", 0, entity.MaxTS); err != nil || n != 2999 {
			t.Errorf("%s: %d numbers, %v", state, n, err)
		}
		compact(t, s)
	}
	if rows := count(t, s, "SELECT count(*) FROM telemetry"); rows != 0 {
		t.Errorf("%d rows are left", rows)
	}
	if err := s.Check(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestRowsOfFormerVersionsAreSealedInTheBackground has a store of rows alone, as those that there were
// before blocks, and one of which a former process has sealed a part.
func TestRowsOfFormerVersionsAreSealedInTheBackground(t *testing.T) {
	t.Parallel()
	url := pgtest.Database(t)
	s := open(t, url, Options{SealAfter: -1, PartitionWidth: day})
	var all []int64
	now := time.Now().UnixMilli()
	for i := range int64(2000) {
		all = append(all, now-(2000-i)*300_000) // of a week
	}
	commit(t, s, atTimes(1, all...))
	s.runRows = 100
	p, _ := s.sealing.plan(s.spans.all()[0], time.Now(), true)
	c := sealCursor{list: []seriesNum{{1, 1}}}
	if _, err := s.sealSlice(t.Context(), &p, &c); err != nil {
		t.Fatal(err)
	}
	if n := count(t, s, "SELECT count(*) FROM block"); n == 0 {
		t.Fatal("no part is sealed: this tests less than it should")
	}
	closeStore(t, s)
	s = open(t, url, Options{SealAfter: time.Millisecond, PartitionWidth: day})
	defer closeStore(t, s)
	unsealed := func() string {
		if left := count(t, s, "SELECT count(*) FROM telemetry"); left > 0 {
			return fmt.Sprintf("%d rows are left", left)
		}
		return ""
	}
	eventually(t, unsealed)
	if got := times(t, s, "a", "t"); !slices.Equal(got, all) {
		t.Errorf("%d times, which are not the %d that there were", len(got), len(all))
	}
	// The readings that come now are sealed when nothing comes for them any more.
	commit(t, s, atTimes(uint64(len(all))+1, now, now+1))
	eventually(t, unsealed)
}

// TestCommitsAndReadersMeetTheSealer corrects values while they are sealed, by COPY and by merging, and
// has readers look: each place is there once, with one of its values, and in the end with the last one.
func TestCommitsAndReadersMeetTheSealer(t *testing.T) {
	t.Parallel()
	s := open(t, pgtest.Database(t), Options{SealAfter: -1})
	defer closeStore(t, s)
	s.runRows = 7
	const n, rounds = 2 * copyFrom, 6
	var places []int64
	for i := range int64(n) {
		places = append(places, 1_700_000_000_000+i*1000)
	}
	write := func(round int64, places []int64) error {
		first := s.Info().LastChange + 1
		b := &entity.Batch{First: first, Committed: 1, Entities: []entity.BatchEntity{{ID: "a", Created: 1}}}
		for _, ts := range places {
			b.Records = append(b.Records, entity.Record{Seq: first, Reading: entity.Reading{TS: ts, Values: []entity.Sample{{Key: "u", Value: value.Int(round)}}}})
		}
		return s.Commit(t.Context(), b)
	}
	if err := write(0, places); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	var working sync.WaitGroup
	working.Go(func() {
		defer close(done)
		for round := range int64(rounds) {
			s.w.merging = int(round%2) * 3
			part := places
			if round%3 == 1 {
				part = places[:copyFrom/2]
			}
			if err := write(round+1, part); err != nil {
				t.Error(err)
			}
		}
	})
	working.Go(func() {
		for {
			if err := s.sealSpans(t.Context(), true); err != nil {
				t.Error(err)
				return
			}
			select {
			case <-done:
				return
			default:
			}
		}
	})
	for look, last := 0, false; !last; look++ {
		select {
		case <-done:
			last = true
		default:
		}
		got, err := s.History(t.Context(), "a", "u", entity.Place{}, entity.Place{TS: entity.MaxTS}, n+1, look%2 == 1)
		if err != nil {
			t.Fatal(err)
		}
		if look%2 == 1 {
			slices.Reverse(got)
		}
		if !slices.EqualFunc(got, places, func(p entity.Point, ts int64) bool { return p.TS == ts }) {
			t.Errorf("look %d: %d points, or of other times than the %d", look, len(got), n)
		}
		if numbers, err := s.CountNumbers(t.Context(), "a", "u", 0, entity.MaxTS); err != nil || numbers != n {
			t.Errorf("look %d: %d numbers, %v", look, numbers, err)
		}
	}
	working.Wait()
	compact(t, s)
	for i, p := range points(t, s, "a", "u") {
		if want := int64(rounds); p.Value != value.Int(want) && i < copyFrom/2 || p.Value.Int() < rounds-1 {
			t.Fatalf("point %d is %v after %d rounds", i, p.Value, rounds)
		}
	}
	if err := s.Check(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestADamagedBlockIsNamedAndTheRestIsThere(t *testing.T) {
	t.Parallel()
	s := open(t, pgtest.Database(t), Options{SealAfter: -1})
	defer closeStore(t, s)
	commitMany(t, s, 4300)
	compact(t, s)
	all := points(t, s, "a", "u")
	var from, to int64
	if err := s.pool.QueryRow(t.Context(), "UPDATE block SET data = '\\x00'::bytea WHERE num = (SELECT num FROM block WHERE key = (SELECT num FROM key WHERE name = 'u') ORDER BY first LIMIT 1) RETURNING first, last").
		Scan(&from, &to); err != nil {
		t.Fatal(err)
	}
	storetest.CheckDamagedBlock(t, s, "a", "u", from, to, all)
	if err := s.Scan(t.Context(), "a", "u", 0, entity.MaxTS, func(*entity.Chunk) error { return nil }); !sealed.Unreadable(err) {
		t.Errorf("scanned: %v, want the error of a block", err)
	}
	// A late value in its range stays a row, and the others are sealed.
	add(t, s, from+1, value.Int(1))
	add(t, s, time.Now().UnixMilli(), value.Int(1))
	if err := s.Compact(t.Context()); !sealed.Unreadable(err) {
		t.Errorf("sealed in the range of a damaged block: %v", err)
	}
	if n := count(t, s, "SELECT count(*) FROM telemetry"); n != 1 {
		t.Errorf("%d rows are left, of two that were late", n)
	}
	n, err := s.Trim(t.Context(), "a", "u", entity.MaxTS, 5000)
	if err != nil || n == 0 || len(points(t, s, "a", "u")) != 0 {
		t.Errorf("removed %d, %v, and something is left", n, err)
	}
	if err := s.Check(t.Context()); err != nil {
		t.Error(err)
	}
	if n := len(points(t, s, "a", "t")); n != 4300 {
		t.Errorf("another key has %d points", n)
	}
}

func TestDeletedEntitiesLeaveNoBlocks(t *testing.T) {
	t.Parallel()
	s := open(t, pgtest.Database(t), Options{SealAfter: -1})
	defer closeStore(t, s)
	commitMany(t, s, 1500)
	compact(t, s)
	commitMany(t, s, 10) // and some rows
	commit(t, s, &entity.Batch{
		First: s.Info().LastChange + 1, Committed: 2, Entities: []entity.BatchEntity{{ID: "a", Edited: true, Revision: 1, Deleted: true}},
		Records: []entity.Record{{Reading: entity.Reading{TS: 1}, Edit: &entity.Edit{Revision: 1, Deleted: true}}},
	})
	add(t, s, 7, value.Int(1))    // another one of the same name
	eventually(t, func() string { // in the background
		compact(t, s)
		left := count(t, s, "SELECT (SELECT count(*) FROM doomed) + (SELECT count(*) FROM stamp) + (SELECT count(*) FROM block) + (SELECT count(*) FROM telemetry)")
		if left == 1 {
			return ""
		}
		return fmt.Sprintf("%d rows and blocks are left", left)
	})
	if got := points(t, s, "a", "u"); len(got) != 1 {
		t.Errorf("the new entity has %d points", len(got))
	}
}

// TestWhatIsSealedExpiresWithItsPartition has a block that lies in two partitions, and a late row over it
// in the one that expires: what the row has replaced must not come back.
func TestWhatIsSealedExpiresWithItsPartition(t *testing.T) {
	t.Parallel()
	s := open(t, pgtest.Database(t), Options{SealAfter: -1, Retention: 5 * day, PartitionWidth: day})
	defer closeStore(t, s)
	now := time.Now()
	midnight := now.Truncate(day).UnixMilli()
	old, edge := midnight-6*day.Milliseconds(), midnight-4*day.Milliseconds()
	list := []int64{old - 3, old - 2, old - 1, edge, edge + 1}
	commit(t, s, atTimes(1, list...))
	for _, p := range s.spans.all() { // as if it had been sealed before it expired
		one, _ := s.sealing.plan(p, now, true)
		s.opts.Retention = 0
		if err := s.sealSpan(t.Context(), &one); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.join(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := count(t, s, "SELECT count(*) FROM block"); n != 1 {
		t.Fatalf("%d blocks", n)
	}
	s.opts.Retention = 5 * day
	commit(t, s, atTimes(6, old-2))
	if err := s.tidy(t.Context(), now); err != nil {
		t.Fatal(err)
	}
	if got := times(t, s, "a", "t"); !slices.Equal(got, list[3:]) {
		t.Errorf("the times are %d, want %d", got, list[3:])
	}
	commit(t, s, atTimes(7, old-1)) // it has expired already
	if err := s.sealSpans(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	if n := count(t, s, "SELECT count(*) FROM telemetry"); n != 1 {
		t.Errorf("a row that has expired is sealed: %d are left", n)
	}
	if err := s.Check(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestAMillisecondCanHaveManyBlocks asks for parts of it, and for what lies before and behind.
func TestAMillisecondCanHaveManyBlocks(t *testing.T) {
	t.Parallel()
	s := open(t, pgtest.Database(t), Options{SealAfter: -1})
	defer closeStore(t, s)
	const n = 3 * block.MaxRows
	b := &entity.Batch{First: 1, Committed: 1, Entities: []entity.BatchEntity{{ID: "a", Created: 1}}}
	for i := range uint64(n + 2) {
		ts := int64(1000)
		switch i {
		case 0:
			ts = 100
		case n + 1:
			ts = 2000
		}
		b.Records = append(b.Records, entity.Record{Seq: i + 1, Reading: entity.Reading{TS: ts, Arrived: ts == 1000, Values: []entity.Sample{{Key: "t", Value: value.Int(int64(i))}}}})
	}
	commit(t, s, b)
	want := points(t, s, "a", "t")
	compact(t, s)
	if blocks := count(t, s, "SELECT count(*) FROM block WHERE first = 1000 AND last = 1000"); blocks < 2 {
		t.Fatalf("%d blocks are within a millisecond, want 2 or more", blocks)
	}
	ends := []entity.Place{{}, {TS: 1000}, {TS: 1000, Seq: n + 2}, {TS: 1001}, {TS: entity.MaxTS}}
	for i := block.MaxRows / 2; i < n; i += block.MaxRows {
		ends = append(ends, want[i].Place())
	}
	for _, from := range ends {
		for _, to := range ends {
			between := sealed.Within(want, from, to)
			for _, limit := range []int{1, n} {
				first := between[:min(limit, len(between))]
				last := slices.Clone(between[max(0, len(between)-limit):])
				slices.Reverse(last)
				up, err := s.History(t.Context(), "a", "t", from, to, limit, false)
				if err != nil || !slices.Equal(up, first) {
					t.Errorf("from %v to %v, limit %d: %d, %v, want %d", from, to, limit, len(up), err, len(first))
				}
				down, err := s.History(t.Context(), "a", "t", from, to, limit, true)
				if err != nil || !slices.Equal(down, last) {
					t.Errorf("from %v to %v, limit %d, descending: %d, %v, want %d", from, to, limit, len(down), err, len(last))
				}
			}
		}
	}
	for _, limits := range [][2]int{{1, 1}, {2, 8192}, {16, 2}} {
		if got, err := scanPages(t, s, limits[0], limits[1]); err != nil || !slices.Equal(got, want) {
			t.Errorf("pages of %d blocks and %d rows: %d points of %d, %v", limits[0], limits[1], len(got), len(want), err)
		}
	}
	if numbers, err := s.CountNumbers(t.Context(), "a", "t", 1000, 1001); err != nil || numbers != n {
		t.Errorf("%d numbers in the millisecond, want %d, %v", numbers, n, err)
	}
	// The points of one block in the place of another must neither be skipped nor be read for ever.
	if _, err := s.pool.Exec(t.Context(), `UPDATE block b SET stamp = f.stamp, times = f.times, data = f.data FROM (SELECT * FROM block ORDER BY first, first_seq LIMIT 1) f
		WHERE b.num = (SELECT num FROM block ORDER BY first, first_seq LIMIT 1 OFFSET 1)`); err != nil {
		t.Fatal(err)
	}
	for _, blocks := range []int{1, blocksAtOnce} {
		if list, err := scanPages(t, s, blocks, sealed.ScanRows); !errors.Is(err, block.ErrDamaged) {
			t.Errorf("pages of %d blocks: %d points, %v, want ErrDamaged", blocks, len(list), err)
		}
	}
}

// scanPages scans "t" of "a" in pages of so many blocks and rows.
func scanPages(t *testing.T, s *Store, blocks, rows int) (list []entity.Point, err error) {
	t.Helper()
	c := scanner{s: s, blocks: blocks, rows: rows, Scanner: sealed.Scanner{F: func(c *entity.Chunk) error {
		columns, err := c.Columns()
		if err != nil {
			return err
		}
		if n := columns.Len(); n == 0 || n > block.MaxRows {
			t.Errorf("a chunk of %d points", n)
		}
		list = sealed.AppendPoints(list, columns, math.MaxInt, false)
		return nil
	}}}
	err = c.scan(t.Context(), "a", "t", entity.Place{TS: entity.MaxTS})
	return list, err
}

func TestLongTextsAreSealedInSmallRuns(t *testing.T) {
	t.Parallel()
	s := open(t, pgtest.Database(t), Options{SealAfter: -1})
	defer closeStore(t, s)
	const n = 40
	for i := range int64(n) {
		add(t, s, 1000+i, value.String(strings.Repeat(string(rune('a'+i)), entity.MaxTextBytes)))
	}
	p, _ := s.sealing.plan(s.spans.all()[0], time.Now(), true)
	runs := 0
	err := s.changeBlocks(t.Context(), true, func(tx pgx.Tx) error {
		for next := p.lo; next < p.hi; runs++ {
			var sealed int
			var err error
			if sealed, next, err = s.sealRun(t.Context(), tx, seriesNum{1, 1}, next, p.hi); err != nil || sealed > 1+sealBytes/entity.MaxTextBytes {
				return fmt.Errorf("%d texts in a run, %w", sealed, err)
			}
		}
		return nil
	})
	if err != nil || runs < 2 || len(points(t, s, "a", "u")) != n {
		t.Errorf("%d runs, %v, %d points", runs, err, len(points(t, s, "a", "u")))
	}
}

// A run must begin where the one before it has ended: what that has deleted is still in the index.
func TestEachRunBeginsWhereTheOneBeforeHasEnded(t *testing.T) {
	t.Parallel()
	s := open(t, pgtest.Database(t), Options{SealAfter: -1})
	defer closeStore(t, s)
	const n = 50
	for i := range int64(n) {
		add(t, s, 1000+i, value.Int(i))
	}
	s.runRows = 20
	p, _ := s.sealing.plan(s.spans.all()[0], time.Now(), true)
	c := sealCursor{list: []seriesNum{{1, 1}}}
	for _, want := range []int64{1019, 1039, 0} {
		err := s.changeBlocks(t.Context(), true, func(tx pgx.Tx) error { return s.sealNext(t.Context(), tx, &p, &c) })
		if err != nil || c.from != want {
			t.Errorf("the next run begins at %d, %v, want %d", c.from, err, want)
		}
	}
	if u, err := s.Usage(t.Context()); err != nil || u.Sealed != n || len(c.list) > 0 {
		t.Errorf("%+v, %v, with %v left", u, err, c.list)
	}
}

// TestTheNextSeriesIsOneStepAlongTheIndex asks the server how it finds a series.
func TestTheNextSeriesIsOneStepAlongTheIndex(t *testing.T) {
	t.Parallel()
	s := open(t, pgtest.Database(t), Options{SealAfter: -1})
	defer closeStore(t, s)
	commitMany(t, s, 3000)
	span := s.spans.all()[len(s.spans.all())-2]
	if _, err := s.pool.Exec(t.Context(), "VACUUM ANALYZE"); err != nil {
		t.Fatal(err)
	}
	text := explain(t, s, fmt.Sprintf(nextSeries, span.table()), 0, 0, []int64{span.lo}, []int64{span.hi}, seriesPage)
	if strings.Contains(text, "Seq Scan on telemetry") || strings.Contains(text, "Sort") || !strings.Contains(text, "Index Cond: (ROW(entity, key)") {
		t.Errorf("the plan is\n%s", text)
	}
}

// A server that has lost the schema to another one must not touch its blocks.
func TestAServerThatWasTakenOverSealsNothing(t *testing.T) {
	t.Parallel()
	url := pgtest.Database(t)
	var log bytes.Buffer
	s := open(t, url, Options{SealAfter: -1, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	defer closeStore(t, s)
	commitMany(t, s, 10)
	pgtest.Exec(t, pgtest.Connect(t, url), "UPDATE greenroom.greenroom SET epoch = epoch + 1")
	err := s.sealSpans(t.Context(), true)
	if !errors.Is(err, ErrTakenOver) || count(t, s, "SELECT count(*) FROM block") != 0 {
		t.Fatalf("sealed with %v", err)
	}
	for range 3 {
		s.sealing.failures.Note(s.opts.Logger, err)
	}
	if n := s.Info().SealFailures; n != 3 || strings.Count(log.String(), "taken over") != 1 {
		t.Errorf("%d failures, and the log has\n%s", n, log.String())
	}
}

func TestHoursAreSealedWhenNothingCameForAWhile(t *testing.T) {
	const hour = sealed.HourMS
	opened := time.Now()
	s := &Store{opts: Options{SealAfter: 10 * time.Minute}, sealing: newSealing(10 * time.Minute)}
	week := span{0, 168 * hour}
	row := func(h int64, n int) (rows []telemetryRow) {
		for range n {
			rows = append(rows, telemetryRow{ts: h * hour})
		}
		return rows
	}
	plan := func(at time.Duration, want bool, froms, tos []int64) pass {
		t.Helper()
		one, ok := s.sealing.plan(week, opened.Add(at), false)
		if ok != want || ok && (!slices.Equal(one.froms, froms) || !slices.Equal(one.tos, tos)) {
			t.Fatalf("after %v: %v of %d to %d, want %v of %d to %d", at, ok, one.froms, one.tos, want, froms, tos)
		}
		return one
	}
	plan(time.Minute, false, nil, nil)
	s.touch(row(7, 5), opened.Add(19*time.Minute))
	one := plan(20*time.Minute, true, []int64{0, 8 * hour}, []int64{7 * hour, 168 * hour})
	s.sealing.done(one, false, opened.Add(20*time.Minute))
	plan(21*time.Minute, false, nil, nil)
	one = plan(30*time.Minute, true, []int64{0}, []int64{168 * hour})
	s.touch(row(9, 1), opened.Add(30*time.Minute)) // while the pass lasts
	s.sealing.done(one, false, opened.Add(30*time.Minute))
	plan(31*time.Minute, false, nil, nil)
	one = plan(41*time.Minute, true, []int64{0}, []int64{168 * hour})
	s.sealing.done(one, true, opened.Add(41*time.Minute))
	plan(42*time.Minute, false, nil, nil) // what has failed is tried again, but not at once
	one = plan(52*time.Minute, true, []int64{0}, []int64{168 * hour})
	s.sealing.done(one, false, opened.Add(52*time.Minute))
	for h := range int64(100) {
		s.touch(row(2*h, 1), opened.Add(60*time.Minute))
	}
	s.sealing.hours.Touch(5, sealed.DueRows, opened.Add(60*time.Minute))
	if one, _ := s.sealing.plan(week, opened.Add(61*time.Minute), false); one.whole || len(one.froms) != maxRanges || !one.has(5) || one.has(150) {
		t.Errorf("a pass over many hours that are not due: %+v", one)
	}
}

// TestCompactEnds is about a context that ends before all is sealed.
func TestCompactEnds(t *testing.T) {
	t.Parallel()
	s := open(t, pgtest.Database(t), Options{SealAfter: -1})
	defer closeStore(t, s)
	commitMany(t, s, 10)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Compact(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("compacted: %v", err)
	}
}
