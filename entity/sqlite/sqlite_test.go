package sqlite

import (
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/storetest"
	"github.com/greenroom-go/greenroom/entity/value"
)

func TestConformance(t *testing.T) {
	storetest.Run(t, func(t *testing.T, dir string) entity.Store { return open(t, dir, Options{}) })
}

func open(t testing.TB, dir string, opts Options) *Store {
	t.Helper()
	s, err := Open(t.Context(), dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func closeStore(t testing.TB, s *Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// batch has one reading of n samples.
func batch(first uint64, ts int64, n int) *entity.Batch {
	b := &entity.Batch{First: first, Committed: 1, Entities: []entity.BatchEntity{{ID: "a", Created: 1}}}
	r := entity.Reading{TS: ts}
	for i := range n {
		s := entity.Sample{Key: fmt.Sprintf("key %d", i), Value: value.Int(ts)}
		r.Values = append(r.Values, s)
		b.Latest = append(b.Latest, entity.LatestRow{Latest: entity.Latest{Key: s.Key, TS: ts, Seq: first, Value: s.Value}})
	}
	b.Records = []entity.Record{{Seq: first, Reading: r}}
	return b
}

// The process that is started here is this test binary: it opens the directory
// that the parent has open, or a copy of what a killed parent would leave.
func TestSecondProcessIsToldThatTheStoreIsInUse(t *testing.T) {
	if dir := os.Getenv("GREENROOM_TEST_OPEN"); dir != "" {
		_, err := Open(t.Context(), dir, Options{})
		fmt.Printf("in use: %v\n%v\n", errors.Is(err, ErrInUse), err)
		return
	}
	dir := t.TempDir()
	s := open(t, dir, Options{})
	ask := func() string {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
		cmd.Env = append(os.Environ(), "GREENROOM_TEST_OPEN="+dir)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("second process: %v\n%s", err, out)
		}
		return string(out)
	}
	if out := ask(); !strings.Contains(out, "in use: true") || !strings.Contains(out, dir) {
		t.Errorf("the second process says:\n%s", out)
	}
	closeStore(t, s)
	if out := ask(); !strings.Contains(out, "in use: false\n<nil>") {
		t.Errorf("after the first has closed, the second process says:\n%s", out)
	}
}

func TestSameProcessCannotOpenAStoreTwice(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Options{})
	if _, err := Open(t.Context(), dir, Options{}); !errors.Is(err, ErrInUse) {
		t.Errorf("second Open: %v, want ErrInUse", err)
	}
	closeStore(t, s)
	closeStore(t, open(t, dir, Options{}))
}

// execute runs statements on the database of a store that is closed.
func execute(t *testing.T, dir, statements string) {
	t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(dir, databaseName))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), statements); err != nil {
		t.Fatal(err)
	}
}

func TestNewerSchemaIsRefusedAndLeftAlone(t *testing.T) {
	dir := t.TempDir()
	closeStore(t, open(t, dir, Options{}))
	execute(t, dir, fmt.Sprintf("PRAGMA user_version = %d", schemaVersion+1))
	_, err := Open(t.Context(), dir, Options{})
	if !errors.Is(err, ErrSchema) || !strings.Contains(err.Error(), "newer greenroom") {
		t.Errorf("open with a newer schema: %v", err)
	}
	execute(t, dir, fmt.Sprintf("PRAGMA user_version = %d", schemaVersion))
	closeStore(t, open(t, dir, Options{}))

	foreign := t.TempDir()
	execute(t, foreign, "CREATE TABLE recipes (name TEXT)")
	if _, err := Open(t.Context(), foreign, Options{}); !errors.Is(err, ErrSchema) || !strings.Contains(err.Error(), "not a database of greenroom") {
		t.Errorf("open a database of another program: %v", err)
	}
}

// Examine finds what contradicts itself in a database that SQLite itself takes for whole.
func TestExamineFindsContradictions(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Options{})
	batch := &entity.Batch{First: 1, Committed: 1, Entities: []entity.BatchEntity{{ID: "a", Created: 1}, {ID: "b", Created: 1}}}
	for i := range 4 {
		value := []entity.Sample{{Key: "t", Value: value.Int(int64(i))}}
		batch.Records = append(batch.Records, entity.Record{Entity: i % 2, Seq: uint64(i/2 + 1), Reading: entity.Reading{TS: int64(i + 1), Values: value}})
	}
	batch.Latest = []entity.LatestRow{
		{Entity: 0, Latest: entity.Latest{Key: "t", Value: value.Int(2), TS: 3, Seq: 2}},
		{Entity: 1, Latest: entity.Latest{Key: "t", Value: value.Int(3), TS: 4, Seq: 2}},
	}
	edge := entity.Relation{From: "a", Type: "to", To: "b"}
	batch.Records = append(batch.Records, entity.Record{Entity: 0, Edit: &entity.Edit{Relations: []entity.RelationEdit{{Relation: edge}}}})
	if err := s.Commit(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	examine := func(want ...string) {
		t.Helper()
		var found []string
		read, err := entity.Examine(t.Context(), s, func(err error) { found = append(found, err.Error()) })
		if damage := s.Check(t.Context()); damage != nil {
			found = append(found, damage.Error())
		}
		if err != nil || read.Latest != 2 || len(found) != len(want) {
			t.Fatalf("%+v, %v, found %q; want %q", read, err, found, want)
		}
		for i := range want {
			if !strings.Contains(found[i], want[i]) {
				t.Errorf("found %s, want %s", found[i], want[i])
			}
		}
	}
	examine()
	closeStore(t, s)
	execute(t, dir, `UPDATE latest SET ts = 2 WHERE ts = 3; UPDATE latest SET value = 7 WHERE ts = 4; UPDATE relation SET target = 99; DELETE FROM change`)
	s = open(t, dir, Options{})
	defer closeStore(t, s)
	examine("the history has one of 3", "is 7, and 3 in the history", "1 rows of table relation")
}

// A database of the first version, with a row of its change log as that version
// wrote it.
func TestDatabaseOfTheFirstVersionIsBroughtUpToDate(t *testing.T) {
	dir := t.TempDir()
	db, err := sql.Open("sqlite", filepath.Join(dir, databaseName))
	if err != nil {
		t.Fatal(err)
	}
	// Format 1: the id "a", the key "t", one change: entity 0, ts 7, one value, key 0, the integer 3.
	row := []byte{1, 1, 1, 'a', 1, 1, 't', 0, 14, 1, 0, byte(value.KindInt), 6}
	for _, step := range []struct {
		sql  string
		args []any
	}{
		{sql: schema},
		{sql: fmt.Sprintf("PRAGMA application_id = %d; PRAGMA user_version = 1; PRAGMA journal_mode = WAL", applicationID)},
		{sql: "INSERT INTO meta VALUES ('identity', 'OLD')"},
		{sql: "INSERT INTO entity VALUES (1, 'a', NULL, 5)"},
		{sql: "INSERT INTO key VALUES (1, 't')"},
		{sql: "INSERT INTO latest VALUES (1, 1, 7, 1, 2, 3)"},
		{sql: "INSERT INTO hour VALUES (0)"},
		{sql: "INSERT INTO telemetry VALUES (0, 1, 1, 7, 2, 3)"},
		{sql: "INSERT INTO change VALUES (1, 1, 9, ?)", args: []any{row}},
	} {
		if _, err := db.ExecContext(t.Context(), step.sql, step.args...); err != nil {
			t.Fatalf("%s: %v", step.sql, err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		s := open(t, dir, Options{})
		info := s.Info()
		if len(info.Generations) != 2 || info.Generations[0] != (entity.Generation{ID: "OLD"}) || info.Generations[1].First != 2 {
			t.Errorf("generations %+v; want that of the old cursors and one of changes to come", info.Generations)
		}
		info.Generations = nil
		if !reflect.DeepEqual(info, entity.StoreInfo{Identity: "OLD", LastChange: 1, FirstChange: 1, Entities: 1}) {
			t.Errorf("info %+v", info)
		}
		if e, err := s.Load(t.Context(), "a"); err != nil || e.Created != 5 || len(e.Latest) != 1 || e.Latest[0].Value.Int() != 3 || e.Revision != 0 {
			t.Errorf("loaded %+v, %v", e, err)
		}
		changes, err := s.Changes(t.Context(), 0, 10)
		if err != nil || len(changes) != 1 || changes[0].Entity != "a" || changes[0].TS != 7 || changes[0].Values[0].Value.Int() != 3 || changes[0].Edit != nil {
			t.Errorf("changes %+v, %v", changes, err)
		}
		closeStore(t, s)
	}
	s := open(t, dir, Options{})
	defer closeStore(t, s)
	if err := s.Commit(t.Context(), batch(2, 8, 1)); err != nil {
		t.Fatal(err)
	}
}

func TestDirectoryNamesWithCharactersOfURIsWork(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a?b=c&d %41 #e é")
	s := open(t, dir, Options{})
	if err := s.Commit(t.Context(), batch(1, 1, 1)); err != nil {
		t.Fatal(err)
	}
	closeStore(t, s)
	if _, err := os.Stat(filepath.Join(dir, databaseName)); err != nil {
		t.Error(err)
	}
}

func TestDurabilityIsSwitchedOn(t *testing.T) {
	s := open(t, t.TempDir(), Options{})
	defer closeStore(t, s)
	for pragma, want := range map[string]string{"journal_mode": "wal", "synchronous": "2"} {
		var got string
		if err := s.w.Conn.QueryRowContext(t.Context(), "PRAGMA "+pragma).Scan(&got); err != nil || got != want {
			t.Errorf("%s is %q, %v, want %q", pragma, got, err, want)
		}
	}
}

func TestChangeLogIsBoundedAndKeepsTheNewest(t *testing.T) {
	const limit = 20_000
	dir := t.TempDir()
	s := open(t, dir, Options{ChangeLogBytes: limit})
	logged := func() (bytes int64) {
		if err := s.readDB.QueryRowContext(t.Context(), "SELECT coalesce(sum(length(data)), 0) FROM change").Scan(&bytes); err != nil {
			t.Fatal(err)
		}
		return bytes
	}
	const commits = 600
	for i := uint64(1); i <= commits; i++ {
		if err := s.Commit(t.Context(), batch(i, int64(i), 10)); err != nil {
			t.Fatal(err)
		}
		if n := logged(); n > limit {
			t.Fatalf("after %d commits the log has %d bytes, more than %d", i, n, limit)
		}
	}
	if n := logged(); n < limit/2 || n != s.w.logBytes {
		t.Errorf("the log has %d bytes, and is thought to have %d", n, s.w.logBytes)
	}
	for range 2 {
		info := storetest.CheckShortened(t, s, commits)
		closeStore(t, s)
		s = open(t, dir, Options{ChangeLogBytes: limit})
		again := s.Info()
		if again.Generations = info.Generations; !reflect.DeepEqual(again, info) {
			t.Errorf("reopened: %+v, was %+v", again, info)
		}
	}
	closeStore(t, s)

	s = open(t, dir, Options{ChangeLogBytes: 1}) // less than any batch
	if err := s.Commit(t.Context(), batch(commits+1, 1, 10)); err != nil {
		t.Fatal(err)
	}
	if info := s.Info(); info.FirstChange != commits+1 || info.LastChange != commits+1 {
		t.Errorf("with a tiny limit: %+v", info)
	}
	closeStore(t, s)
}

// A transaction that fails late must take back the keys and hours that it had
// noted down.
func TestFailedCommitLeavesNothingBehind(t *testing.T) {
	s := open(t, t.TempDir(), Options{})
	defer closeStore(t, s)
	if _, err := s.w.Conn.ExecContext(t.Context(), "ALTER TABLE change RENAME TO hidden"); err != nil {
		t.Fatal(err)
	}
	if err := s.Commit(t.Context(), batch(1, 5*hourMS, 3)); err == nil {
		t.Fatal("a commit without a change log succeeded")
	}
	if len(s.w.keys) != 0 || len(s.w.hours) != 0 || s.Info().Entities != 0 {
		t.Errorf("left: keys %v, hours %v, info %+v", s.w.keys, s.w.hours, s.Info())
	}
	if _, err := s.w.Conn.ExecContext(t.Context(), "ALTER TABLE hidden RENAME TO change"); err != nil {
		t.Fatal(err)
	}
	if err := s.Commit(t.Context(), batch(1, 5*hourMS, 3)); err != nil {
		t.Fatal(err)
	}
	points, err := s.History(t.Context(), "a", "key 2", entity.Place{}, entity.Place{TS: entity.MaxTS + 1}, 10, false)
	if err != nil || len(points) != 1 {
		t.Errorf("history %v, %v", points, err)
	}
}

// An error of COMMIT itself leaves open whether it happened. Here it did, and the
// store was not told.
func TestCommitWhoseOutcomeIsUnknownCanBeRepeated(t *testing.T) {
	s := open(t, t.TempDir(), Options{})
	defer closeStore(t, s)
	if err := s.Commit(t.Context(), batch(1, 1, 2)); err != nil {
		t.Fatal(err)
	}
	before := s.Info()
	other := func() *entity.Batch {
		b := batch(2, 5, 2)
		b.Entities[0].ID = "b"
		return b
	}
	if err := s.Commit(t.Context(), other()); err != nil {
		t.Fatal(err)
	}
	after := s.Info()
	s.info, s.w.unsure = before, true
	clear(s.w.keys)
	clear(s.w.hours)
	if err := s.Commit(t.Context(), other()); err != nil {
		t.Fatal(err)
	}
	if got := s.Info(); !reflect.DeepEqual(got, after) {
		t.Errorf("info %+v, want %+v", got, after)
	}
	if changes, err := s.Changes(t.Context(), 0, 10); err != nil || len(changes) != 2 {
		t.Errorf("%d changes, %v", len(changes), err)
	}
	if points, err := s.History(t.Context(), "b", "key 1", entity.Place{}, entity.Place{TS: entity.MaxTS + 1}, 10, false); err != nil || len(points) != 1 {
		t.Errorf("history %v, %v", points, err)
	}
}

// Without a checkpoint in the commits the WAL must begin anew all the same, also
// when commits come without a pause.
func TestWALBeginsAnewBetweenCommits(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Options{ChangeLogBytes: 1})
	defer closeStore(t, s)
	s.halt() // nobody else makes checkpoints
	size := func() int64 {
		info, err := os.Stat(filepath.Join(dir, databaseName+"-wal"))
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	s.longWAL = 300
	text := strings.Repeat("x", 50_000)
	next, largest := uint64(1), int64(0)
	for range 4 {
		for range 3 { // some 400 pages together
			b := batch(next, int64(next), 1)
			b.Records = b.Records[:0]
			for range 10 {
				r := entity.Record{Seq: next, Reading: entity.Reading{TS: int64(next), Values: []entity.Sample{{Key: "key 0", Value: value.String(text)}}}}
				b.Records = append(b.Records, r)
				next++
			}
			if err := s.Commit(t.Context(), b); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.checkpoint(); err != nil {
			t.Fatal(err)
		}
		if largest == 0 {
			largest = size()
		}
	}
	if now := size(); largest == 0 || now > 2*largest {
		t.Errorf("the WAL has %d bytes, and had %d after the first checkpoint", now, largest)
	}
	if points, err := s.History(t.Context(), "a", "key 0", entity.Place{}, entity.Place{TS: entity.MaxTS + 1}, 10_000, false); err != nil || len(points) != int(next-1) {
		t.Errorf("%d points, %v, want %d", len(points), err, next-1)
	}
}

// BenchmarkCommitLatency is the time of each of many commits of 80 messages of
// three keys, of so many entities: what a source waits for at least. The control is
// one fsync of as many bytes.
func BenchmarkCommitLatency(b *testing.B) {
	quantiles := func(b *testing.B, took []time.Duration) {
		slices.Sort(took)
		for name, q := range map[string]float64{"p50-ms": 0.5, "p99-ms": 0.99, "max-ms": 1} {
			b.ReportMetric(float64(took[int(q*float64(len(took)-1))].Microseconds())/1000, name)
		}
	}
	b.Run("control=fsync", func(b *testing.B) {
		f, err := os.Create(filepath.Join(b.TempDir(), "f"))
		if err != nil {
			b.Fatal(err)
		}
		defer f.Close()
		var took []time.Duration
		for b.Loop() {
			began := time.Now()
			if _, err := f.Write(make([]byte, 8000)); err != nil {
				b.Fatal(err)
			}
			if err := f.Sync(); err != nil {
				b.Fatal(err)
			}
			took = append(took, time.Since(began))
		}
		quantiles(b, took)
	})
	for _, entities := range []int{50, 500} {
		b.Run(fmt.Sprintf("entities=%d", entities), func(b *testing.B) {
			s := open(b, b.TempDir(), Options{})
			defer closeStore(b, s)
			next, ts := uint64(1), int64(1_451_649_600_000)
			nums := make([]int64, entities)
			var took []time.Duration
			for b.Loop() {
				batch := &entity.Batch{First: next, Committed: ts}
				for i := range 80 {
					if i < entities {
						e := (int(batch.First) + i) % entities
						batch.Entities = append(batch.Entities, entity.BatchEntity{Num: nums[e], ID: fmt.Sprintf("sensor-%d", e), Created: 1})
					}
					ts++
					r := entity.Record{Entity: i % min(80, entities), Seq: next, Reading: entity.Reading{TS: ts}}
					for _, key := range []string{"temperature", "humidity", "battery"} {
						v := value.Float(float64(ts % 100))
						r.Values = append(r.Values, entity.Sample{Key: key, Value: v})
						if i < entities {
							batch.Latest = append(batch.Latest, entity.LatestRow{Entity: r.Entity, Latest: entity.Latest{Key: key, TS: ts, Seq: next, Value: v}})
						}
					}
					batch.Records = append(batch.Records, r)
					next++
				}
				began := time.Now()
				if err := s.Commit(b.Context(), batch); err != nil {
					b.Fatal(err)
				}
				took = append(took, time.Since(began))
				for i := range batch.Entities {
					nums[(int(batch.First)+i)%entities] = batch.Entities[i].Num
				}
			}
			quantiles(b, took)
		})
	}
}

func TestQueriesUseTheIndexAndNoSorter(t *testing.T) {
	s := open(t, t.TempDir(), Options{})
	defer closeStore(t, s)
	const (
		listed  = "SEARCH h USING PRIMARY KEY (entity=? AND key=? AND hour>? AND hour<?)"
		hours   = "SEARCH t USING PRIMARY KEY (hour=? AND entity=? AND key=? AND "
		place   = "USING INDEX block_place (entity=? AND key=? AND "
		between = "SEARCH b " + place + "(first,first_seq)>(?,?) AND (first,first_seq)<(?,?))"
		begin   = "SEARCH block USING COVERING INDEX block_place (entity=? AND key=? AND (first,first_seq)<(?,?))"
		rows    = "SELECT t.ts, t.kind, t.value " + series
	)
	for query, parts := range map[string][]string{
		rows + "ORDER BY h.hour, t.ts LIMIT ?5":           {listed, hours + "ts>? AND ts<?)"},
		rows + "ORDER BY h.hour DESC, t.ts DESC LIMIT ?5": {listed, hours + "ts>? AND ts<?)"},
		countRows:  {listed, hours + "ts>? AND ts<?)"},
		ascending:  {listed, hours + "(ts,seq)>(?,?) AND (ts,seq)<(?,?))", between, begin},
		descending: {listed, hours + "(ts,seq)>(?,?) AND (ts,seq)<(?,?))", between, begin},
		ranges:     {listed, hours + "ts>? AND ts<?)", "SEARCH b " + place + "first>? AND first<?)", "block_place (entity=? AND key=? AND first<?)"},
	} {
		args := []any{"a", "t", 0, 1, 0, 0, 1}
		for len(args) > 0 && !strings.Contains(query, fmt.Sprintf("?%d", len(args))) {
			args = args[:len(args)-1]
		}
		rows, err := s.readDB.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+query, args...) //nolint:sqlclosecheck // scan does
		if err != nil {
			t.Fatal(err)
		}
		var plan strings.Builder
		err = scan(rows, func() error {
			var a, b, c int
			var detail string
			err := rows.Scan(&a, &b, &c, &detail)
			plan.WriteString(detail + "\n")
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		text := plan.String()
		if strings.Contains(text, "TEMP B-TREE") || strings.Contains(text, "SCAN b") {
			t.Errorf("%s:\n%s", query, text)
		}
		for _, part := range parts {
			if !strings.Contains(text, part) {
				t.Errorf("%s: no %q in\n%s", query, part, text)
			}
		}
	}
}

func BenchmarkCommit(b *testing.B) {
	for _, n := range []int{1, 100, 3000} {
		b.Run(fmt.Sprintf("readings=%d/keys=3", n), func(b *testing.B) {
			s := open(b, b.TempDir(), Options{})
			defer closeStore(b, s)
			const entities = 1000
			nums := make([]int64, entities)
			values := []entity.Sample{{Key: "temperature", Value: value.Float(21.5)}, {Key: "humidity", Value: value.Float(40)}, {Key: "on", Value: value.Bool(true)}}
			next, ts := uint64(1), int64(1_451_649_600_000)
			b.ReportAllocs()
			for b.Loop() {
				batch := &entity.Batch{First: next, Committed: ts}
				places := map[int]int{}
				for i := range n {
					ts += 11
					e := (int(next) + i*7) % entities
					place, ok := places[e]
					if !ok {
						place = len(batch.Entities)
						places[e] = place
						batch.Entities = append(batch.Entities, entity.BatchEntity{Num: nums[e], ID: fmt.Sprintf("sensor-%d", e), Created: 1})
						for _, v := range values {
							batch.Latest = append(batch.Latest, entity.LatestRow{Entity: place, Latest: entity.Latest{Key: v.Key, TS: ts, Seq: next + uint64(i), Value: v.Value}})
						}
					}
					batch.Records = append(batch.Records, entity.Record{Entity: place, Seq: next + uint64(i), Reading: entity.Reading{TS: ts, Values: values}})
				}
				if err := s.Commit(b.Context(), batch); err != nil {
					b.Fatal(err)
				}
				for e, place := range places {
					nums[e] = batch.Entities[place].Num
				}
				next += uint64(n)
			}
			b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "readings/s")
		})
	}
}

// BenchmarkEntities reads pages of a thousand entities of three keys and two leaves:
// by their ids, as a traversal with a filter does, and in their order, as an index is
// made.
func BenchmarkEntities(b *testing.B) {
	const n = 1000
	s := open(b, b.TempDir(), Options{})
	defer closeStore(b, s)
	batch := &entity.Batch{First: 1, Committed: 1}
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprintf("sensor-%04d", i)
		batch.Entities = append(batch.Entities, entity.BatchEntity{ID: ids[i], Created: 1, Edited: true, Revision: 1})
		leaf := func(path string) entity.AttributeEdit {
			return entity.AttributeEdit{Section: entity.Attributes, Attribute: entity.Attribute{Path: path, TS: 1, Value: value.String("x")}}
		}
		batch.Records = append(batch.Records,
			entity.Record{Entity: i, Seq: 1, Reading: entity.Reading{TS: int64(i), Values: []entity.Sample{
				{Key: "temperature", Value: value.Float(21.5)}, {Key: "humidity", Value: value.Int(40)}, {Key: "on", Value: value.Bool(true)},
			}}},
			entity.Record{Entity: i, Edit: &entity.Edit{Revision: 1, Attributes: []entity.AttributeEdit{leaf("/floor"), leaf("/room")}}})
	}
	if err := errors.Join(s.Commit(b.Context(), batch), s.flushAll(b.Context())); err != nil {
		b.Fatal(err)
	}
	for _, q := range []struct {
		name  string
		query entity.ListQuery
	}{{"by-id", entity.ListQuery{IDs: ids, Limit: n}}, {"in-order", entity.ListQuery{Limit: n}}} {
		b.Run(q.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if list, err := s.Entities(b.Context(), q.query); err != nil || len(list) != n || len(list[0].Latest) != 3 || len(list[0].Attributes) != 2 {
					b.Fatal(len(list), err)
				}
			}
		})
	}
}

func TestStoreOfWhichAPartIsMissingIsRefused(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Options{})
	if err := s.Commit(t.Context(), batch(1, 1, 2000)); err != nil {
		t.Fatal(err)
	}
	if err := s.checkpoint(); err != nil {
		t.Fatal(err)
	}
	if err := s.Commit(t.Context(), batch(2, 2, 1)); err != nil {
		t.Fatal(err)
	}
	crash := t.TempDir()
	if err := os.CopyFS(crash, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	closeStore(t, s)
	if _, err := os.Stat(filepath.Join(dir, databaseName+"-wal")); err == nil {
		t.Error("a store that was closed has a WAL")
	}
	closeStore(t, open(t, dir, Options{})) // which is how it should be

	for name, damage := range map[string]func(db, wal string) error{
		"the database is missing":   func(db, _ string) error { return os.Remove(db) },
		"the database is empty":     func(db, _ string) error { return os.Truncate(db, 0) },
		"the database has one page": func(db, _ string) error { return os.Truncate(db, 4096) },
		"its WAL is missing":        func(_, wal string) error { return os.Remove(wal) },
		"nothing":                   func(_, _ string) error { return nil },
	} {
		copied := t.TempDir()
		if err := os.CopyFS(copied, os.DirFS(crash)); err != nil {
			t.Fatal(err)
		}
		db := filepath.Join(copied, databaseName)
		if err := damage(db, db+"-wal"); err != nil {
			t.Fatal(err)
		}
		s, err := Open(t.Context(), copied, Options{})
		if err == nil {
			if last := s.Info().LastChange; last != 2 {
				t.Errorf("%s: the last change is %d", name, last)
			}
			closeStore(t, s)
		}
		if errors.Is(err, ErrDamaged) != (name != "nothing") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
