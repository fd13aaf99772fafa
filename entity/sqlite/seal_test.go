package sqlite

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/block"
	"github.com/greenroom-go/greenroom/entity/storetest"
	"github.com/greenroom-go/greenroom/entity/value"
)

// fill commits n readings of "a", a second apart, with two keys each, and moves them into
// the table.
func fill(t *testing.T, s *Store, n int) {
	t.Helper()
	first := s.Info().LastChange + 1
	rnd := rand.New(rand.NewPCG(first, 1))
	b := &entity.Batch{First: first, Entities: []entity.BatchEntity{{ID: "a", Created: 1}}}
	for i := range n {
		at := int64(first) + int64(i)
		b.Records = append(b.Records, entity.Record{Seq: uint64(at), Reading: entity.Reading{TS: at*1000 + rnd.Int64N(100), Values: []entity.Sample{
			{Key: "t", Value: value.Float(float64(at%100) / 10)}, {Key: "u", Value: value.Int(at)},
		}}})
	}
	if err := errors.Join(s.Commit(t.Context(), b), moveAll(s)); err != nil {
		t.Fatal(err)
	}
}

// TestManyRowsOfASeriesArePackedWithoutBeingInserted has few rows of it, then many, some of which
// replace others and some of which lie in the range of a block.
func TestManyRowsOfASeriesArePackedWithoutBeingInserted(t *testing.T) {
	s := open(t, t.TempDir(), Options{})
	defer closeStore(t, s)
	s.halt() // nobody else moves rows
	want := make(map[int64]int64)
	first := uint64(1)
	move := func(from, n, by int64) {
		t.Helper()
		b := &entity.Batch{First: first, Entities: []entity.BatchEntity{{ID: "a", Created: 1}}}
		for i := range n {
			ts, v := from+i*by, int64(first)
			want[ts] = v
			b.Records = append(b.Records, entity.Record{Seq: first, Reading: entity.Reading{TS: ts, Values: []entity.Sample{{Key: "t", Value: value.Int(v)}}}})
			first++
		}
		if err := errors.Join(s.Commit(t.Context(), b), moveAll(s)); err != nil {
			t.Fatal(err)
		}
		got := points(t, s, "a", "t")
		if len(got) != len(want) {
			t.Errorf("%d points from %d on: %d points in all, want %d", n, from, len(got), len(want))
		}
		for _, p := range got {
			if p.Value.Int() != want[p.TS] {
				t.Fatalf("%d points from %d on: %d at %d, want %d", n, from, p.Value.Int(), p.TS, want[p.TS])
			}
		}
	}
	rows := func() int { return count(t, s, "SELECT count(*) FROM telemetry") }
	move(5000, packFrom-1, 1000)
	if n := rows(); n != packFrom-1 {
		t.Errorf("%d rows of few values", n)
	}
	move(100_000, packFrom, 1000) // over the last ones of these
	move(3000, 3*packFrom, 5000)  // over four hours
	move(0, packFrom, 0)          // the same place again and again
	few := rows()
	if blocks := count(t, s, "SELECT count(*) FROM block"); few >= packFrom || blocks == 0 {
		t.Errorf("%d rows, %d blocks of many values", few, blocks)
	}
	move(4500, packFrom-1, 3000)
	if n := rows(); n != few+packFrom-1 {
		t.Errorf("%d rows of few values over blocks, want %d", n, few+packFrom-1)
	}
	if err := errors.Join(s.Check(t.Context()), s.Compact(t.Context())); err != nil {
		t.Error(err)
	}
	move(10_000_000, 2*packFrom, 10_000)
	if n := rows(); n != 0 {
		t.Errorf("%d rows of many values", n)
	}
}

// TestBlocksOfManyValuesEndWithTheHour has a value a second, whatever parts of it come at once.
func TestBlocksOfManyValuesEndWithTheHour(t *testing.T) {
	s := open(t, t.TempDir(), Options{})
	defer closeStore(t, s)
	s.halt() // nobody else moves rows
	for n := range uint64(12) {
		b := &entity.Batch{First: 1 + n*1000, Entities: []entity.BatchEntity{{ID: "a", Created: 1}}}
		for seq := b.First; seq < b.First+1000; seq++ {
			b.Records = append(b.Records, entity.Record{Seq: seq, Reading: entity.Reading{TS: int64(seq) * 1000, Values: []entity.Sample{{Key: "t", Value: value.Int(1)}}}})
		}
		if err := errors.Join(s.Commit(t.Context(), b), moveAll(s)); err != nil {
			t.Fatal(err)
		}
	}
	if got := len(points(t, s, "a", "t")); got != 12_000 {
		t.Errorf("%d points", got)
	}
	if n := count(t, s, "SELECT count(*) FROM block WHERE first / 3600000 <> last / 3600000"); n > 0 {
		t.Errorf("%d of %d blocks are of several hours", n, count(t, s, "SELECT count(*) FROM block"))
	}
}

// count returns what a query for one number finds.
func count(t *testing.T, s *Store, sql string) (n int) {
	t.Helper()
	if err := s.readDB.QueryRowContext(t.Context(), sql).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func points(t *testing.T, s *Store, id, key string) []entity.Point {
	t.Helper()
	list, err := s.History(t.Context(), id, key, entity.Place{}, entity.Place{TS: entity.MaxTS}, math.MaxInt32, false)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func TestSealedValuesTakeATenthOfTheRoom(t *testing.T) {
	s := open(t, t.TempDir(), Options{})
	defer closeStore(t, s)
	const n = 5000
	fill(t, s, n)
	before := points(t, s, "a", "t")
	if err := s.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	if rows := count(t, s, "SELECT count(*) FROM telemetry"); rows != 0 {
		t.Errorf("%d rows are left", rows)
	}
	if hours := count(t, s, "SELECT count(*) FROM hour"); hours != 0 {
		t.Errorf("%d hours are left", hours)
	}
	if hours := count(t, s, "SELECT count(*) FROM series_hour"); hours != 0 {
		t.Errorf("%d hours of series are left", hours)
	}
	bytes := count(t, s, "SELECT (SELECT sum(length(data) + coalesce(length(times), 0)) FROM block) + (SELECT coalesce(sum(length(data)), 0) FROM stamp)")
	if perValue := float64(bytes) / (2 * n); perValue > 2 {
		t.Errorf("a value takes %.2f bytes", perValue)
	}
	if blocks := count(t, s, "SELECT count(*) FROM block"); blocks != 4 {
		t.Errorf("%d blocks", blocks)
	}
	if got := points(t, s, "a", "t"); fmt.Sprint(got) != fmt.Sprint(before) || len(got) != n {
		t.Errorf("%d points, which are others than the %d before", len(got), len(before))
	}
	if err := s.Check(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestTimesOfAMessageAreKeptOnce(t *testing.T) {
	s := open(t, t.TempDir(), Options{})
	defer closeStore(t, s)
	fill(t, s, 1000)
	if err := s.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	stamps := func() int { return count(t, s, "SELECT count(*) FROM stamp") }
	if n := stamps(); n != 1 {
		t.Errorf("%d stamps for two keys of the same messages", n)
	}
	b := &entity.Batch{First: s.Info().LastChange + 1, Entities: []entity.BatchEntity{{ID: "a", Created: 1}}, Records: []entity.Record{
		{Seq: 5000, Reading: entity.Reading{TS: 5500, Values: []entity.Sample{{Key: "t", Value: value.Int(1)}}}},
	}}
	if err := errors.Join(s.Commit(t.Context(), b), s.Compact(t.Context())); err != nil {
		t.Fatal(err)
	}
	if n := stamps(); n != 2 {
		t.Errorf("%d stamps for two keys of which one has a late value", n)
	}
	if _, err := s.Trim(t.Context(), "a", "t", entity.MaxTS, 10_000); err != nil || stamps() != 1 {
		t.Errorf("%d stamps for one key, %v", stamps(), err)
	}
	if _, err := s.Trim(t.Context(), "a", "u", entity.MaxTS, 10_000); err != nil || stamps() != 0 {
		t.Errorf("%d stamps for none, %v", stamps(), err)
	}
	if err := s.Check(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestLateValuesCountAtOnceAndAreFoldedIn corrects and adds values in the range of a block.
func TestLateValuesCountAtOnceAndAreFoldedIn(t *testing.T) {
	s := open(t, t.TempDir(), Options{})
	defer closeStore(t, s)
	fill(t, s, 3000)
	if err := s.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := points(t, s, "a", "u")
	correct := want[1000].TS
	b := &entity.Batch{First: s.Info().LastChange + 1, Entities: []entity.BatchEntity{{ID: "a", Created: 1}}, Records: []entity.Record{
		{Seq: 5000, Reading: entity.Reading{TS: correct, Values: []entity.Sample{{Key: "u", Value: value.String("corrected")}}}},
		{Seq: 5001, Reading: entity.Reading{TS: correct + 1, Values: []entity.Sample{{Key: "u", Value: value.Bool(true)}}}},
	}}
	if err := s.Commit(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	want[1000].Value = value.String("corrected")
	want = append(want[:1001:1001], append([]entity.Point{{TS: correct + 1, Value: value.Bool(true)}}, want[1001:]...)...)
	for _, state := range []struct {
		name string
		make func() error
	}{{"in the log", func() error { return nil }}, {"in a row", func() error { return moveAll(s) }}, {"folded in", func() error { return s.Compact(t.Context()) }}} {
		if err := state.make(); err != nil {
			t.Fatal(err)
		}
		if got := points(t, s, "a", "u"); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: %d points, which are not the %d that there must be", state.name, len(got), len(want))
		}
		if n, err := s.CountNumbers(t.Context(), "a", "u", 0, entity.MaxTS); err != nil || n != 2999 {
			t.Errorf("%s: %d numbers, %v", state.name, n, err)
		}
	}
	if err := s.Check(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestASliceOfTheSealerMakesWay bounds what a commit waits for.
func TestASliceOfTheSealerMakesWay(t *testing.T) {
	s := open(t, t.TempDir(), Options{SealAfter: -1})
	defer closeStore(t, s)
	s.halt() // nobody else writes
	fill(t, s, 5000)
	var c sealCursor
	slice := func() (sealed int) {
		t.Helper()
		before := count(t, s, "SELECT count(*) FROM telemetry")
		if _, _, err := s.sealSlice(func(tx *transaction) (bool, error) { return tx.seal(&c) }); err != nil {
			t.Fatal(err)
		}
		return before - count(t, s, "SELECT count(*) FROM telemetry")
	}
	if n := slice(); n < 1 || n > sliceRows {
		t.Errorf("a slice has sealed %d rows, and at most %d are allowed", n, sliceRows)
	}
	s.waiting.Add(1)
	if n := slice(); n < 1 || n > runRows {
		t.Errorf("a slice has sealed %d rows while a commit waited, and at most %d are allowed", n, runRows)
	}
	s.waiting.Add(-1)
}

func TestASliceIsBoundedInBytes(t *testing.T) {
	s := open(t, t.TempDir(), Options{SealAfter: -1})
	defer closeStore(t, s)
	s.halt() // nobody else writes
	const size = 60_000
	for i := range uint64(20) {
		b := batch(i+1, int64(i), 1)
		b.Records[0].Values[0].Value = value.String(strings.Repeat(string(rune('a'+i)), size))
		if err := s.Commit(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	if err := moveAll(s); err != nil {
		t.Fatal(err)
	}
	s.waiting.Add(1)
	defer s.waiting.Add(-1)
	var c sealCursor
	if _, _, err := s.sealSlice(func(tx *transaction) (bool, error) { return tx.seal(&c) }); err != nil {
		t.Fatal(err)
	}
	if n := 20 - count(t, s, "SELECT count(*) FROM telemetry"); n < 1 || n > sealBytes/size+1 {
		t.Errorf("a slice has sealed %d texts of %d bytes", n, size)
	}
	if err := s.sealHours(nil, true); err != nil {
		t.Fatal(err)
	}
	if n := len(points(t, s, "a", "key 0")); n != 20 || count(t, s, "SELECT count(*) FROM telemetry") != 0 {
		t.Errorf("%d points", n)
	}
}

// TestTheSealerLeavesRoomAndMakesCheckpoints is about a disk that is almost full, and a WAL
// that would grow with what is sealed.
func TestTheSealerLeavesRoomAndMakesCheckpoints(t *testing.T) {
	s := open(t, t.TempDir(), Options{SealAfter: -1})
	defer closeStore(t, s)
	s.halt() // nobody else makes checkpoints
	fill(t, s, 100)
	free := s.copies.Free
	s.copies.Free = func(string) (int64, error) { return 1 << 20, nil }
	if err := s.sealHours(nil, true); !errors.Is(err, entity.ErrFull) {
		t.Errorf("sealed on a disk that is almost full: %v, want ErrFull", err)
	}
	if n := count(t, s, "SELECT count(*) FROM telemetry"); n != 200 {
		t.Errorf("%d rows of 200 are left", n)
	}
	s.copies.Free = free
	before := s.commits.Load()
	if err := s.sealHours(nil, true); err != nil || s.commits.Load() == before {
		t.Errorf("sealed with %d commits that the checkpointer knows of, %v", s.commits.Load()-before, err)
	}
}

func TestADamagedBlockIsNamedAndTheRestIsThere(t *testing.T) {
	s := open(t, t.TempDir(), Options{})
	defer closeStore(t, s)
	s.halt() // nobody else writes
	fill(t, s, 4300)
	if err := s.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	all := points(t, s, "a", "t")
	var num, from, to int64
	if err := s.readDB.QueryRowContext(t.Context(), "SELECT num, first, last FROM block WHERE key = (SELECT num FROM key WHERE name = 't') ORDER BY first LIMIT 1").Scan(&num, &from, &to); err != nil {
		t.Fatal(err)
	}
	for _, damage := range []string{
		"UPDATE block SET data = CAST(substr(data, 1, length(data) - 1) || x'00' AS BLOB) WHERE num = ?",
		"UPDATE block SET data = CAST(x'63' || substr(data, 2) AS BLOB) WHERE num = ?",
	} {
		if _, err := s.w.Conn.ExecContext(t.Context(), damage, num); err != nil {
			t.Fatal(err)
		}
		storetest.CheckDamagedBlock(t, s, "a", "t", from, to, all)
		if n := len(points(t, s, "a", "u")); n != 4300 {
			t.Errorf("another key has %d points", n)
		}
		if err := s.Check(t.Context()); !errors.Is(err, ErrDamaged) || !errors.Is(err, block.ErrDamaged) {
			t.Errorf("check: %v", err)
		}
	}
	// A late value in its range stays a row, and the others are sealed.
	b := &entity.Batch{First: s.Info().LastChange + 1, Entities: []entity.BatchEntity{{ID: "a", Created: 1}}, Records: []entity.Record{
		{Seq: 50_000, Reading: entity.Reading{TS: from + 1, Values: []entity.Sample{{Key: "t", Value: value.Int(1)}, {Key: "u", Value: value.Int(1)}}}},
	}}
	if err := s.Commit(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if err := s.Compact(t.Context()); !errors.Is(err, block.ErrDamaged) {
		t.Errorf("sealed in the range of a damaged block: %v", err)
	}
	if n := count(t, s, "SELECT count(*) FROM telemetry"); n != 1 {
		t.Errorf("%d rows are left, of two that were late", n)
	}
}

func TestDeletedEntitiesLeaveNoBlocks(t *testing.T) {
	s := open(t, t.TempDir(), Options{})
	defer closeStore(t, s)
	fill(t, s, 4500)
	if err := s.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	fill(t, s, purgeRows+10) // and some rows
	commit := func(b *entity.Batch) {
		t.Helper()
		b.First = s.Info().LastChange + 1
		if err := s.Commit(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	commit(&entity.Batch{
		Entities: []entity.BatchEntity{{ID: "a", Created: 1, Edited: true, Revision: 1, Deleted: true}},
		Records:  []entity.Record{{Edit: &entity.Edit{Revision: 1, Deleted: true}}},
	})
	again := entity.Reading{TS: 1, Values: []entity.Sample{{Key: "t", Value: value.Int(1)}}}
	commit(&entity.Batch{Entities: []entity.BatchEntity{{ID: "a", Created: 1}}, Records: []entity.Record{{Seq: 1, Reading: again}}})
	if got := points(t, s, "a", "t"); len(got) != 1 {
		t.Errorf("a new entity has %d points", len(got))
	}
	if err := s.Compact(t.Context()); err != nil { // while something of the old one is there
		t.Fatal(err)
	}
	for i := range uint64(100) { // a commit removes a bit
		commit(&entity.Batch{Entities: []entity.BatchEntity{{ID: "b", Created: 1}}, Records: []entity.Record{{Seq: i + 1, Reading: again}}})
	}
	if blocks, stamps, doomed := count(t, s, "SELECT count(*) FROM block"), count(t, s, "SELECT count(*) FROM stamp"), count(t, s, "SELECT count(*) FROM doomed"); blocks != 1 || stamps != 0 || doomed != 0 {
		t.Errorf("%d blocks, %d stamps, %d deleted entities", blocks, stamps, doomed)
	}
	if err := s.Check(t.Context()); err != nil {
		t.Error(err)
	}
	if rows, hours := count(t, s, "SELECT count(*) FROM telemetry WHERE entity NOT IN (SELECT num FROM entity)"), count(t, s, "SELECT count(*) FROM series_hour WHERE entity NOT IN (SELECT num FROM entity)"); rows != 0 || hours != 0 {
		t.Errorf("%d rows, %d hours are left", rows, hours)
	}
	if got := points(t, s, "a", "t"); len(got) != 1 {
		t.Errorf("the new entity has %d points", len(got))
	}
}

func TestShrinkGivesSpaceBack(t *testing.T) {
	s := open(t, t.TempDir(), Options{SealAfter: -1})
	defer closeStore(t, s)
	fill(t, s, 5000)
	pages := func() int { return count(t, s, "SELECT page_count FROM pragma_page_count") }
	before := pages()
	if err := errors.Join(s.Compact(t.Context()), s.Shrink(t.Context())); err != nil {
		t.Fatal(err)
	}
	if after := pages(); after > 2*before/3 {
		t.Errorf("%d pages of %d", after, before)
	}
	if n := len(points(t, s, "a", "u")); n != 5000 {
		t.Errorf("%d points", n)
	}
	fill(t, s, 10)
	if n := len(points(t, s, "a", "u")); n != 5010 {
		t.Errorf("%d points after another commit", n)
	}
}

// With pages of 4096 bytes a quarter of the table is free space.
func TestBlocksFillTheirPages(t *testing.T) {
	s := open(t, t.TempDir(), Options{})
	defer closeStore(t, s)
	s.halt()
	rnd := rand.New(rand.NewPCG(1, 2))
	for i := range 60 {
		var series block.Columns
		for ts := range 1000 + rnd.Int64N(3000) {
			series.Append(ts, 0, value.Int(rnd.Int64N(100)))
		}
		s.begin()
		err := s.w.transact(t.Context(), false, func(tx *transaction) error {
			_, err := s.w.packer.Seal(sealedSeries{tx, int64(i), 1}, &series)
			return err
		})
		s.writing.Unlock()
		if err != nil {
			t.Fatal(err)
		}
	}
	size := count(t, s, "SELECT sum(pgsize) FROM dbstat WHERE name = 'block'")
	if unused := count(t, s, "SELECT sum(unused) FROM dbstat WHERE name = 'block'"); unused > size/6 {
		t.Errorf("%d of %d bytes are unused", unused, size)
	}
}

// TestReadersFindEachValueOnceWhileItIsSealed has readers look while rows become blocks, and
// corrected values of the same places go from the log into rows and into blocks.
func TestReadersFindEachValueOnceWhileItIsSealed(t *testing.T) {
	s := open(t, t.TempDir(), Options{})
	defer closeStore(t, s)
	s.halt() // nobody else moves it
	const n = 120
	fill(t, s, n)
	places := points(t, s, "a", "u")
	s.w.runRows = 10
	var working sync.WaitGroup
	done := make(chan struct{})
	working.Go(func() {
		defer close(done)
		for i := range uint64(4) {
			b := &entity.Batch{First: s.Info().LastChange + 1, Entities: []entity.BatchEntity{{ID: "a", Created: 1}}}
			for j := i; j < n; j += 30 {
				b.Records = append(b.Records, entity.Record{Seq: n + i*n + j, Reading: entity.Reading{
					TS: places[j].TS, Values: []entity.Sample{{Key: "u", Value: value.Int(-int64(i))}},
				}})
			}
			if err := errors.Join(s.Commit(t.Context(), b), moveAll(s), s.sealHours(nil, true)); err != nil {
				t.Error(err)
			}
		}
	})
	for look := 0; ; look++ {
		last := false
		select {
		case <-done:
			last = true
		default:
		}
		got := points(t, s, "a", "u")
		if look%2 == 1 {
			page, err := s.History(t.Context(), "a", "u", entity.Place{}, entity.Place{TS: entity.MaxTS}, n+1, true)
			if err != nil {
				t.Fatal(err)
			}
			slices.Reverse(page)
			got = page
		}
		if len(got) != n || !slices.EqualFunc(got, places, func(a, b entity.Point) bool { return a.TS == b.TS }) {
			t.Errorf("look %d: %d points, or of other times than the %d", look, len(got), n)
		}
		if numbers, err := s.CountNumbers(t.Context(), "a", "u", 0, entity.MaxTS); err != nil || numbers != n {
			t.Errorf("look %d: %d numbers, %v", look, numbers, err)
		}
		if last {
			break
		}
	}
	working.Wait()
}

// TestTheNextSeriesIsOneStepAlongTheIndex asks SQLite how it finds a series: with each entity that
// exists in the search, a slice took as long as there were entities.
func TestTheNextSeriesIsOneStepAlongTheIndex(t *testing.T) {
	s := open(t, t.TempDir(), Options{})
	defer closeStore(t, s)
	rows, err := s.readDB.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+nextSeries, 1, 2, 3) //nolint:sqlclosecheck // scan does
	if err != nil {
		t.Fatal(err)
	}
	var plan []string
	err = scan(rows, func() error {
		var id, parent, unused int
		var detail string
		err := rows.Scan(&id, &parent, &unused, &detail)
		plan = append(plan, detail)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Join(plan, "\n")
	if !strings.Contains(text, "SEARCH t USING PRIMARY KEY (hour=? AND (entity,key)>(?,?))") || strings.Contains(text, "IN-OPERATOR") || strings.Contains(text, "TEMP B-TREE") {
		t.Errorf("the plan is\n%s", text)
	}
}

func TestTrimRemovesADamagedBlockWithItsRows(t *testing.T) {
	s := open(t, t.TempDir(), Options{SealAfter: -1})
	defer closeStore(t, s)
	fill(t, s, 1000)
	if err := s.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	var first, last int64
	if err := s.readDB.QueryRowContext(t.Context(), "SELECT first, last FROM block WHERE key = (SELECT num FROM key WHERE name = 't') ORDER BY first LIMIT 1").Scan(&first, &last); err != nil {
		t.Fatal(err)
	}
	if _, err := s.w.Conn.ExecContext(t.Context(), "UPDATE block SET data = zeroblob(length(data)) WHERE first = ? AND key = (SELECT num FROM key WHERE name = 't')", first); err != nil {
		t.Fatal(err)
	}
	b := &entity.Batch{First: s.Info().LastChange + 1, Entities: []entity.BatchEntity{{ID: "a", Created: 1}}, Records: []entity.Record{
		{Seq: 50_000, Reading: entity.Reading{TS: first + 1, Values: []entity.Sample{{Key: "t", Value: value.Int(1)}}}},
	}}
	if err := s.Commit(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	n, err := s.Trim(t.Context(), "a", "t", entity.MaxTS, 5000)
	if err != nil || n == 0 {
		t.Fatalf("removed %d, %v", n, err)
	}
	if left := points(t, s, "a", "t"); len(left) != 0 {
		t.Errorf("%d points are left", len(left))
	}
	if n := len(points(t, s, "a", "u")); n != 1000 {
		t.Errorf("another key has %d points", n)
	}
	if err := s.Check(t.Context()); err != nil {
		t.Error(err)
	}
}
