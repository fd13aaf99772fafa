package sqlite

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/internal/sealed"
	"github.com/greenroom-go/greenroom/entity/storetest"
	"github.com/greenroom-go/greenroom/entity/value"
	"github.com/greenroom-go/greenroom/internal/soaktest"
	"github.com/greenroom-go/greenroom/internal/sqlitedb"
)

// troubled is a store that does something after each commit, and ends as by a crash
// if it is to.
type troubled struct {
	*Store
	after   func(*Store) error
	crashes bool
}

func (s troubled) Commit(ctx context.Context, b *entity.Batch) error {
	err := s.Store.Commit(ctx, b)
	if err == nil && s.after != nil {
		err = s.after(s.Store)
	}
	return err
}

func (s troubled) Close() error {
	if !s.crashes {
		return s.Store.Close()
	}
	s.halt()
	return s.release()
}

// moveSlice moves one slice of the tail.
func moveSlice(s *Store) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	return s.flushSlice(context.Background())
}

// moveBit moves three rows of the tail.
func moveBit(s *Store) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	size := s.slice
	s.slice = 3 * tailRowBytes
	defer func() { s.slice = size }()
	return s.flushSlice(context.Background())
}

// each returns a function that calls f at each n-th call.
func each(n int, f func(*Store) error) func(*Store) error {
	calls := 0
	return func(s *Store) error {
		if calls++; calls%n != 0 {
			return nil
		}
		return f(s)
	}
}

// sealAll seals all that there is, some rows at a time.
func sealAll(s *Store) error {
	s.w.runRows = 29
	return s.Compact(context.Background())
}

// sealBit moves all into the tables and makes one slice of the sealer, as short as possible.
func sealBit(s *Store, hour int64) error {
	s.waiting.Add(1)
	defer s.waiting.Add(-1)
	s.w.runRows = 3
	c := sealCursor{hour: hour}
	_, _, err := s.sealSlice(func(t *transaction) (bool, error) { return t.seal(&c) })
	return errors.Join(err, c.failed)
}

func moveAll(s *Store) error { return s.flushAll(context.Background()) }

func TestConformanceWhereverTheTailIs(t *testing.T) {
	troubles := []struct {
		name string
		troubled
		packFrom int
		run      func(*testing.T, storetest.Open)
	}{
		{"sealed, moved in bits, crashed", troubled{after: moveBit, crashes: true}, packFrom, storetest.RunSealed},
		{"packed in bits, crashed", troubled{after: moveBit, crashes: true}, 2, storetest.Run},
		{"moved in bits, crashed", troubled{after: moveBit, crashes: true}, packFrom, storetest.Run},
		{"sealed at each fourth commit, crashed", troubled{after: each(4, sealAll), crashes: true}, packFrom, storetest.Run},
		{"moved in bits", troubled{after: moveBit}, packFrom, storetest.Run},
		{"crashed", troubled{crashes: true}, packFrom, storetest.Run},
		{"all packed", troubled{after: moveAll}, 1, storetest.RunSealed},
		{"all moved", troubled{after: moveAll}, packFrom, storetest.Run},
		{"sealed", troubled{}, packFrom, storetest.RunSealed},
	}
	for _, tt := range troubles[:soaktest.Rounds(t, 2, len(troubles))] {
		t.Run(tt.name, func(t *testing.T) {
			tt.run(t, func(t *testing.T, dir string) entity.Store {
				tt.Store = open(t, dir, Options{})
				tt.tail.sortFrom, tt.w.packFrom = 2, tt.packFrom
				return tt.troubled
			})
		})
	}
}

// model is one store whose tables are always complete, and another one with a tail
// of whatever size, whose process ends at any moment.
type model struct {
	t              *testing.T
	rnd            *rand.Rand
	dir            string
	plain, subject *Store
	next, seq      uint64
	revision       map[string]uint64
	typ            map[string]string
}

func (m *model) each(f func(s *Store) error) {
	m.t.Helper()
	for _, s := range []*Store{m.plain, m.subject} {
		if err := f(s); err != nil {
			m.t.Fatal(err)
		}
	}
	if err := moveAll(m.plain); err != nil {
		m.t.Fatal(err)
	}
}

var modelIDs, modelKeys = []string{"a", "b", "c", "d"}, []string{"t", "u", "v"}

const modelSpan = 5 * hourMS

func pick[T any](rnd *rand.Rand, list []T) T { return list[rnd.IntN(len(list))] }

// edit edits some leaves of an entity, or none, and sometimes its type.
func (m *model) edit(b *entity.Batch, place int) {
	e := &b.Entities[place]
	m.revision[e.ID]++
	edit := entity.Edit{Revision: m.revision[e.ID]}
	for section := entity.Attributes; section <= entity.Reported; section++ {
		for _, path := range modelKeys[m.rnd.IntN(len(modelKeys)+1):] {
			a := entity.AttributeEdit{Section: section, Attribute: entity.Attribute{Path: "/" + path, TS: int64(m.next)}}
			if m.rnd.IntN(3) > 0 {
				a.Value = pick(m.rnd, []value.Value{value.Int(int64(edit.Revision)), value.String("x"), entity.ParseJSON([]byte("[1]"))})
			}
			edit.Attributes = append(edit.Attributes, a)
		}
	}
	if m.rnd.IntN(4) == 0 {
		m.typ[e.ID] = pick(m.rnd, []string{"", "room", "hall"})
		edit.Typed, edit.Type = true, m.typ[e.ID]
	}
	e.Edited, e.Type, e.Revision = true, m.typ[e.ID], edit.Revision
	b.Records = append(b.Records, entity.Record{Entity: place, Reading: entity.Reading{TS: int64(m.next)}, Edit: &edit})
}

// commit commits some readings, each with a time that may have been before, of devices
// or computed, and edits, and sometimes the end of an entity.
func (m *model) commit() {
	m.t.Helper()
	b := entity.Batch{First: m.next, Committed: int64(m.next)}
	for _, id := range modelIDs {
		if m.rnd.IntN(2) == 0 {
			continue
		}
		place := len(b.Entities)
		b.Entities = append(b.Entities, entity.BatchEntity{ID: id, Created: int64(m.next)})
		for range m.rnd.IntN(5) {
			m.seq++
			r := entity.Record{Entity: place, Seq: m.seq, Reading: entity.Reading{TS: m.rnd.Int64N(modelSpan/400_000) * 400_000, Arrived: m.rnd.IntN(3) == 0}}
			for _, key := range modelKeys[m.rnd.IntN(len(modelKeys)):] {
				v := pick(m.rnd, []value.Value{value.Int(m.rnd.Int64N(1000)), value.Float(float64(m.rnd.IntN(100)) / 4), value.String(fmt.Sprint("text ", m.seq)), value.Bool(true)})
				r.Values = append(r.Values, entity.Sample{Key: key, Value: v})
			}
			if m.rnd.IntN(4) == 0 { // what is computed has a time
				r.Arrived, r.TS = false, r.TS+1
				r.Origin = entity.Origin{Source: pick(m.rnd, []string{"sum", "mean"}), Seq: m.seq}
			}
			b.Records = append(b.Records, r)
		}
		for range m.rnd.IntN(3) {
			m.edit(&b, place)
		}
		if m.rnd.IntN(12) == 0 {
			m.revision[id]++
			m.typ[id] = ""
			b.Entities[place].Deleted, b.Entities[place].Edited, b.Entities[place].Revision = true, true, m.revision[id]
			b.Records = append(b.Records, entity.Record{Entity: place, Edit: &entity.Edit{Revision: m.revision[id], Deleted: true}})
		}
	}
	m.each(func(s *Store) error {
		mine := b
		mine.Entities = append([]entity.BatchEntity(nil), b.Entities...)
		return s.Commit(m.t.Context(), &mine)
	})
	m.next += uint64(len(b.Records))
}

func (m *model) crash() {
	m.t.Helper()
	s := troubled{Store: m.subject, crashes: true}
	closeTroubled(m.t, s)
	m.subject = open(m.t, m.dir, Options{})
	m.subject.tail.sortFrom, m.subject.w.packFrom = 2, 1+m.rnd.IntN(6)
}

func closeTroubled(t *testing.T, s troubled) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func (m *model) trim() {
	id, key, before := pick(m.rnd, modelIDs), pick(m.rnd, modelKeys), m.rnd.Int64N(modelSpan)
	var gone []int
	m.each(func(s *Store) error {
		all := 0
		for {
			n, err := s.Trim(m.t.Context(), id, key, before, 7) // which of them is its own affair
			if all += n; err != nil || n < 7 {
				gone = append(gone, all)
				return err
			}
		}
	})
	if gone[0] != gone[1] {
		m.t.Fatalf("trimmed %d, and %d with a tail", gone[0], gone[1])
	}
}

// answers is everything that the stores can be asked.
func (m *model) answers(s *Store) (all []any) {
	m.t.Helper()
	ctx := m.t.Context()
	got := func(v any, err error) {
		if err != nil {
			m.t.Fatal(err)
		}
		all = append(all, v)
	}
	for _, types := range [][]string{nil, {"room"}, {"room", "hall"}} {
		list, err := s.Entities(ctx, entity.ListQuery{Limit: 10, Types: types})
		for i := range list {
			list[i].Num = 0 // the numbers of deleted ones are given again at other times
			if len(list[i].Attributes) == 0 {
				list[i].Attributes = nil
			}
		}
		got(list, err)
	}
	from := m.rnd.Int64N(modelSpan)
	to := from + m.rnd.Int64N(modelSpan)
	limit := 1 + m.rnd.IntN(20)
	for _, id := range modelIDs {
		for _, key := range modelKeys {
			for _, descending := range []bool{false, true} {
				points, err := s.History(ctx, id, key, entity.Place{TS: from}, entity.Place{TS: to}, limit, descending)
				got(append([]entity.Point{}, points...), err)
			}
			var scanned []entity.Point
			err := s.Scan(ctx, id, key, from, to, func(c *entity.Chunk) error {
				columns, err := c.Columns()
				if err == nil {
					scanned = sealed.AppendPoints(scanned, columns, math.MaxInt, false)
				}
				return err
			})
			got(scanned, err)
			n, err := s.CountNumbers(ctx, id, key, from, to)
			got(n, err)
			origins, err := s.Origins(ctx, id, key, from, to, limit)
			got(append([]entity.PointOrigin{}, origins...), err)
		}
	}
	return all
}

func (m *model) compare(step int) {
	m.t.Helper()
	seed := m.rnd.Uint64()
	m.rnd = rand.New(rand.NewPCG(seed, 1))
	want := m.answers(m.plain)
	m.rnd = rand.New(rand.NewPCG(seed, 1))
	got := m.answers(m.subject)
	for i := range want {
		if !reflect.DeepEqual(got[i], want[i]) {
			m.t.Fatalf("step %d, answer %d:\n got %+v\nwant %+v", step, i, got[i], want[i])
		}
	}
}

func TestStoreWithATailAnswersAsOneWithout(t *testing.T) {
	for seed := range uint64(soaktest.Rounds(t, 2, 100)) {
		dir := t.TempDir()
		m := &model{
			t: t, rnd: rand.New(rand.NewPCG(seed, 0)), dir: dir, plain: open(t, t.TempDir(), Options{SealAfter: -1}), subject: open(t, dir, Options{}),
			next: 1, revision: map[string]uint64{}, typ: map[string]string{},
		}
		m.subject.tail.sortFrom, m.subject.w.packFrom = 2, 3
		for step := range 60 {
			switch m.rnd.IntN(11) {
			case 0, 1, 2:
				m.commit()
			case 3, 4:
				if err := moveBit(m.subject); err != nil {
					t.Fatal(err)
				}
			case 5:
				m.trim()
			case 6:
				m.crash()
			case 7, 8:
				if err := sealBit(m.subject, m.rnd.Int64N(modelSpan/hourMS)); err != nil {
					t.Fatal(err)
				}
			case 9:
				if err := sealAll(m.subject); err != nil {
					t.Fatal(err)
				}
			default:
			}
			m.compare(step)
		}
		for _, s := range []*Store{m.plain, m.subject} {
			if err := s.Check(t.Context()); err != nil {
				t.Errorf("seed %d: %v", seed, err)
			}
			closeStore(t, s)
		}
	}
}

// What was moved and trimmed is in the log still; a crash must not bring it back.
func TestTrimmedReadingsDoNotComeBackAfterACrash(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Options{})
	s.slice = 1
	for i := range int64(3) {
		if err := s.Commit(t.Context(), batch(uint64(i+1), 100+i, 2)); err != nil {
			t.Fatal(err)
		}
	}
	if err := moveSlice(s); err != nil {
		t.Fatal(err)
	}
	if n, err := s.Trim(t.Context(), "a", "key 0", 102, 10); n != 2 || err != nil {
		t.Fatalf("trimmed %d, %v", n, err)
	}
	closeTroubled(t, troubled{Store: s, crashes: true})
	s = open(t, dir, Options{})
	defer closeStore(t, s)
	points, err := s.History(t.Context(), "a", "key 0", entity.Place{}, entity.Place{TS: entity.MaxTS}, 10, false)
	if err != nil || len(points) != 1 || points[0].TS != 102 {
		t.Errorf("history %v, %v", points, err)
	}
}

// Texts are the largest things, and none must keep a payload or too many of them in
// memory.
func TestTailIsBounded(t *testing.T) {
	s := open(t, t.TempDir(), Options{})
	defer closeStore(t, s)
	s.halt() // nobody else moves it
	s.maxTail = 300_000
	text := strings.Repeat("x", 50_000)
	for i := range uint64(30) {
		b := batch(i+1, int64(i), 1)
		b.Records[0].Values[0].Value = value.String(text)
		if err := s.Commit(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		if s.tail.bytes > s.maxTail+60_000 {
			t.Fatalf("after %d commits the tail has %d bytes", i+1, s.tail.bytes)
		}
	}
	if points, err := s.History(t.Context(), "a", "key 0", entity.Place{}, entity.Place{TS: entity.MaxTS}, 100, true); err != nil || len(points) != 30 || points[29].Value.Text() != text {
		t.Errorf("%d points, %v", len(points), err)
	}
	if err := s.flushAll(t.Context()); err != nil || s.tail.bytes != 0 || len(s.tail.entities) != 0 {
		t.Errorf("with all moved: %d bytes, %d entities, %v", s.tail.bytes, len(s.tail.entities), err)
	}
}

// The readings that are in the log only must stay there.
func TestChangeLogIsNotShortenedBeforeTheTablesAreComplete(t *testing.T) {
	const limit = 400
	dir := t.TempDir()
	s := open(t, dir, Options{ChangeLogBytes: limit})
	s.halt()
	const commits = 200
	for i := range uint64(commits) {
		if err := s.Commit(t.Context(), batch(i+1, int64(i), 3)); err != nil {
			t.Fatal(err)
		}
		if first := s.Info().FirstChange; first > s.tail.flushed+1 {
			t.Fatalf("the log begins with %d, and the tables end with %d", first, s.tail.flushed)
		}
	}
	if err := s.release(); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir, Options{ChangeLogBytes: limit})
	defer closeStore(t, s)
	if points, err := s.History(t.Context(), "a", "key 2", entity.Place{}, entity.Place{TS: entity.MaxTS}, 2*commits, false); err != nil || len(points) != commits {
		t.Errorf("%d points, %v, want %d", len(points), err, commits)
	}
}

// A slice does not sync; whatever comes after it must.
func TestCommitsAfterAFlushAreDurable(t *testing.T) {
	s := open(t, t.TempDir(), Options{})
	defer closeStore(t, s)
	level := func() (got string) {
		if err := s.w.Conn.QueryRowContext(t.Context(), "PRAGMA synchronous").Scan(&got); err != nil {
			t.Fatal(err)
		}
		return got
	}
	within := ""
	err := s.w.transact(t.Context(), false, func(tx *transaction) error {
		row, err := tx.query("SELECT synchronous FROM pragma_synchronous", 1)
		within = fmt.Sprint(first[int64](row))
		return err
	})
	if err != nil || within != "1" || level() != "2" {
		t.Errorf("within %q, after %q, %v", within, level(), err)
	}
	if err := s.w.Transact(t.Context(), false, func(*sqlitedb.Tx) error { return nil }); err != nil || level() != "1" { // as if it could not be set back
		t.Fatal(err, level())
	}
	if _, err := s.PutDoc(t.Context(), entity.Doc{Kind: "k", ID: "i"}, ""); err != nil || level() != "2" {
		t.Errorf("after a document %q, %v", level(), err)
	}
}

// An edit is all or nothing for who reads, also while its leaves go from the tail to
// the table one by one.
func TestReadersFindNoMixtureOfTwoRevisions(t *testing.T) {
	s := open(t, t.TempDir(), Options{})
	defer closeStore(t, s)
	s.halt() // nobody else moves it
	s.slice = tailRowBytes
	types := []string{"room", "hall"}
	edit := func(revision uint64) {
		e := entity.Edit{Revision: revision, Typed: true, Type: types[revision%2]}
		for _, path := range []string{"/a", "/b", "/c"} {
			e.Attributes = append(e.Attributes, entity.AttributeEdit{Section: entity.Desired, Attribute: entity.Attribute{Path: path, TS: 1, Value: value.Int(int64(revision))}})
		}
		err := s.Commit(t.Context(), &entity.Batch{
			First: revision, Entities: []entity.BatchEntity{{ID: "a", Created: 1, Edited: true, Revision: revision, Type: e.Type}}, Records: []entity.Record{{Edit: &e}},
		})
		if err != nil {
			t.Error(err)
		}
	}
	edit(1)
	const edits = 500
	var wg sync.WaitGroup
	wg.Go(func() {
		for revision := uint64(2); revision <= edits; revision++ {
			edit(revision)
			if err := moveSlice(s); err != nil {
				t.Error(err)
			}
		}
	})
	for last := uint64(0); last < edits; {
		loaded, err := s.Load(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		list, err := s.Entities(t.Context(), entity.ListQuery{Limit: 1})
		if err != nil || len(list) != 1 {
			t.Fatal(list, err)
		}
		for _, e := range []entity.Stored{loaded, list[0]} {
			if e.Revision < last || len(e.Attributes) != 3 || e.Type != types[e.Revision%2] {
				t.Fatalf("after revision %d: %+v", last, e)
			}
			last = e.Revision
			for _, a := range e.Attributes {
				if uint64(a.Value.Int()) != e.Revision {
					t.Fatalf("a leaf of revision %d in %d: %+v", a.Value.Int(), e.Revision, e.Attributes)
				}
			}
		}
	}
	wg.Wait()
}

func TestPathsOfWhatWasDeletedAtOnceDoNotKeepTheStoreShut(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Options{})
	edit := &entity.Edit{Revision: 1, Created: true, Attributes: []entity.AttributeEdit{
		{Section: entity.Attributes, Attribute: entity.Attribute{Path: "/only/here", TS: 1, Value: value.Int(1)}},
	}}
	err := s.Commit(t.Context(), &entity.Batch{
		First: 1, Committed: 1,
		Entities: []entity.BatchEntity{{ID: "a", Created: 1, Edited: true, Revision: 2, Deleted: true}},
		Records:  []entity.Record{{Edit: edit}, {Edit: &entity.Edit{Revision: 2, Deleted: true}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	closeTroubled(t, troubled{Store: s, crashes: true})
	s = open(t, dir, Options{})
	defer closeStore(t, s)
	if e, err := s.Load(t.Context(), "a"); !errors.Is(err, entity.ErrNotFound) {
		t.Errorf("%+v, %v", e, err)
	}
}

func TestWhoReadsWhileEditsAreMovedReadsAgain(t *testing.T) {
	s := open(t, t.TempDir(), Options{})
	defer closeStore(t, s)
	s.halt() // nobody else moves it
	next := uint64(0)
	commit := func(r entity.Record) {
		t.Helper()
		next++
		b := &entity.Batch{First: next, Entities: []entity.BatchEntity{{ID: "a", Created: 1}}, Records: []entity.Record{r}}
		if err := errors.Join(s.Commit(t.Context(), b), moveAll(s)); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		name         string
		moves, reads int // how often it is moved while it is read, and how often it is read
		record       entity.Record
	}{
		{"not moved", 0, 1, entity.Record{}},
		{"readings", 1, 1, entity.Record{Seq: 1, Reading: batch(1, 1, 1).Records[0].Reading}},
		{"once", 1, 2, entity.Record{Edit: &entity.Edit{Revision: 1}}},
		{"twice", 2, 3, entity.Record{Edit: &entity.Edit{Revision: 2}}},
		{"again and again", consistentTries, consistentTries + 1, entity.Record{Edit: &entity.Edit{Revision: 3}}},
	} {
		reads, free := 0, false
		err := s.consistently(func() error {
			if reads++; reads <= tt.moves {
				commit(tt.record)
			}
			if free = s.writing.TryLock(); free {
				s.writing.Unlock()
			}
			return nil
		})
		if err != nil || reads != tt.reads || free == (reads > consistentTries) {
			t.Errorf("%s: read %d times, while others could write: %v; %v", tt.name, reads, free, err)
		}
	}
}

// TestARoundMovesAllThatItBeganWith has readings come for an entity between the beginning of a round
// and its turn, in which its rows are sorted by keys, and the process end after the round.
func TestARoundMovesAllThatItBeganWith(t *testing.T) {
	const keys, readings = 5, 10
	dir := t.TempDir()
	s := open(t, dir, Options{SealAfter: -1})
	s.halt() // nobody else moves rows
	s.slice, s.tail.sortFrom = tailRowBytes, 2
	next := uint64(1)
	commit := func(id string) {
		t.Helper()
		b := batch(next, int64(next), keys)
		b.Entities[0].ID = id
		if err := s.Commit(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		next++
	}
	for range readings {
		commit("a")
		commit("b")
	}
	for first := true; first || s.tail.round != nil; first = false {
		if err := moveSlice(s); err != nil {
			t.Fatal(err)
		}
		if first {
			commit("b")
		}
	}
	if rows := s.tail.entities["b"].rows; len(rows) == 0 || rows[0].change != next-1 {
		t.Errorf("%d rows are left", len(rows))
	}
	if err := s.release(); err != nil { // as a crash, but for the lock
		t.Fatal(err)
	}
	s = open(t, dir, Options{})
	defer closeStore(t, s)
	for id, want := range map[string]int{"a": readings, "b": readings + 1} {
		for i := range keys {
			n, err := s.CountNumbers(t.Context(), id, fmt.Sprintf("key %d", i), 0, entity.MaxTS)
			if err != nil || n != want {
				t.Errorf("%s has %d numbers of key %d, %v, want %d", id, n, i, err, want)
			}
		}
	}
}

// TestASliceHasAllRowsOfAKeyTogether bounds how many places of the tables a slice writes.
func TestASliceHasAllRowsOfAKeyTogether(t *testing.T) {
	const keys, readings = 50, 40
	s := open(t, t.TempDir(), Options{SealAfter: -1})
	defer closeStore(t, s)
	s.halt() // nobody else moves rows
	for i := range uint64(readings) {
		if err := s.Commit(t.Context(), batch(i+1, int64(i), keys)); err != nil {
			t.Fatal(err)
		}
	}
	s.slice = 4 * readings * tailRowBytes
	if err := moveSlice(s); err != nil {
		t.Fatal(err)
	}
	if rows, series := count(t, s, "SELECT count(*) FROM telemetry"), count(t, s, "SELECT count(DISTINCT key) FROM telemetry"); rows < 4*readings || series > 5 {
		t.Errorf("a slice has %d rows of %d keys", rows, series)
	}
}
