package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/block"
	"github.com/greenroom-go/greenroom/entity/internal/changelog"
	"github.com/greenroom-go/greenroom/entity/internal/sealed"
	"github.com/greenroom-go/greenroom/internal/sqlitedb"
)

// writer is the one connection that writes, with what it knows of the database.
// What a transaction adds to keys and hours is taken back when it fails.
type writer struct {
	*sqlitedb.Writer
	keys     map[string]*name
	names    *names
	hours    map[int64]struct{} // hours known to be in the table, bounded by maxHours
	logBytes int64              // the size of the change log
	unsure   bool               // a commit has failed, and what was counted may be wrong
	doomed   bool               // there may be history of deleted entities
	touched  sealed.Hours       // hours that got rows since they were sealed
	runRows  int                // runRows, but for tests
	packFrom int                // packFrom, but for tests; more than there can be if nothing is sealed by itself

	packer   sealed.Packer
	unpacker block.Decoder
	run      block.Columns

	// generations has that of the next commit at its end, which begun says is in the
	// table: it is written with the first commit, so that to open a store writes nothing.
	generations []entity.Generation
	begun       bool

	entity, latest, telemetry, hour, seriesHour, computed, attribute, revision, command, presence sqlitedb.Bulk

	ended changelog.Ended

	fresh     []freshRow
	rows      []movedRow
	newest    []movedRow
	loose     []movedRow // those that are not packed
	starts    []int      // places in loose where a series begins that series_hour may not have in the hour
	edited    []movedRow
	revisions []revisionRow
	typed     []int // places of entities whose type was set
	nums      []int64
	unknown   []int // places of entities without a number
	blob      []byte
	newKeys   []string
	newHour   []int64
	listed    listedHours
}

// freshRow is a value of a batch on its way to the tail.
type freshRow struct {
	place int // of its entity in the batch
	tailRow
}

const maxHours = 1 << 16

func (w *writer) loadKeys(ctx context.Context) error {
	w.doomed = true // until the first commit finds that there is nobody
	w.entity = sqlitedb.Bulk{Head: "INSERT INTO entity (num, id, fold, created)", Width: 4}
	w.latest = sqlitedb.Bulk{
		Head: "INSERT INTO latest (entity, key, ts, seq, kind, value)", Width: 6,
		Tail: `ON CONFLICT (entity, key) DO UPDATE SET ts = excluded.ts, seq = excluded.seq, kind = excluded.kind, value = excluded.value
			WHERE (excluded.ts, excluded.seq) >= (ts, seq)`,
	}
	w.telemetry = sqlitedb.Bulk{
		Head: "INSERT INTO telemetry (hour, entity, key, ts, seq, kind, value)", Width: 7,
		Tail: "ON CONFLICT (hour, entity, key, ts, seq) DO UPDATE SET kind = excluded.kind, value = excluded.value",
	}
	w.computed = sqlitedb.Bulk{
		Head: "INSERT INTO computed (entity, key, ts, seq, source, n)", Width: 6,
		Tail: "ON CONFLICT (entity, key, ts) DO UPDATE SET seq = excluded.seq, source = excluded.source, n = excluded.n WHERE excluded.seq >= seq",
	}
	w.attribute = sqlitedb.Bulk{
		Head: "INSERT INTO attribute (entity, section, path, ts, kind, value)", Width: 6,
		Tail: "ON CONFLICT (entity, section, path) DO UPDATE SET ts = excluded.ts, kind = excluded.kind, value = excluded.value",
	}
	w.revision = sqlitedb.Bulk{
		Head: "WITH moved (num, revision) AS (", Width: 2,
		Tail: ") UPDATE entity SET revision = moved.revision FROM moved WHERE entity.num = moved.num AND entity.revision < moved.revision",
	}
	w.command = sqlitedb.Bulk{
		Head: "INSERT INTO command (entity, id, state, key, due, ended, data)", Width: 7,
		Tail: "ON CONFLICT (entity, id) DO UPDATE SET state = excluded.state, due = excluded.due, ended = excluded.ended, data = excluded.data",
	}
	w.presence = sqlitedb.Bulk{
		Head: "WITH given (num, presence, since, seen) AS (", Width: 4,
		Tail: ") UPDATE entity SET presence = given.presence, since = given.since, seen = max(entity.seen, given.seen) FROM given WHERE entity.num = given.num",
	}
	w.hour = sqlitedb.Bulk{Head: "INSERT INTO hour (hour)", Width: 1, Tail: "ON CONFLICT (hour) DO NOTHING"}
	w.seriesHour = sqlitedb.Bulk{Head: "INSERT INTO series_hour (entity, key, hour)", Width: 3, Tail: "ON CONFLICT (entity, key, hour) DO NOTHING"}

	rows, err := w.Conn.QueryContext(ctx, "SELECT name, num FROM key")
	if err != nil {
		return fmt.Errorf("read keys: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var text string
		var num int64
		if err := rows.Scan(&text, &num); err != nil {
			return fmt.Errorf("read keys: %w", err)
		}
		w.keys[text] = &name{num, text}
		w.names.set(w.keys[text])
	}
	return rows.Err()
}

func (w *writer) close() error {
	return w.Close(&w.entity, &w.latest, &w.telemetry, &w.hour, &w.seriesHour, &w.computed, &w.attribute, &w.revision, &w.command, &w.presence)
}

// Commit makes a batch durable in one transaction with one fsync. See
// [entity.Store]. A commit that has begun is not broken off when ctx ends.
func (s *Store) Commit(ctx context.Context, b *entity.Batch) error {
	if err := context.Cause(ctx); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	s.begin()
	defer s.writing.Unlock()
	// An interrupted connection is lost, and the outcome of an interrupted
	// COMMIT unknown: better to finish what takes milliseconds.
	ctx = context.WithoutCancel(ctx)
	return s.withRoom(func() error { return s.commit(ctx, b) })
}

// commit is Commit. REQUIRES: s.writing held.
func (s *Store) commit(ctx context.Context, b *entity.Batch) error {
	last := s.Info().LastChange
	if b.First != last+1 {
		return fmt.Errorf("commit: batch begins with change %d where %d is next", b.First, last+1)
	}
	if err := s.makeRoom(ctx); err != nil {
		return fmt.Errorf("commit %d changes: %w", len(b.Records), err)
	}
	var dropped uint64
	var added int64
	held := false // the tail
	err := s.w.transact(ctx, true, func(t *transaction) (err error) {
		t.b = b
		if err = t.run(s.opts.ChangeLogBytes, s.tail.flushed); err != nil {
			return err
		}
		added, dropped = t.added, t.dropped
		if held = len(s.w.unknown)+len(s.w.typed) > 0; held { // nobody is to find new entities without their readings, or half an edit
			s.tail.mu.Lock()
		}
		if len(s.w.typed) > 0 { // before and after: a reader may begin in between
			s.tail.moves.Add(1)
		}
		return nil
	})
	if err == nil && !held {
		s.tail.mu.Lock()
		held = true
	}
	if held {
		defer s.tail.mu.Unlock()
		if len(s.w.typed) > 0 {
			s.tail.moves.Add(1)
		}
	}
	if err != nil {
		s.w.unsure = true
		return fmt.Errorf("commit %d changes: %w", len(b.Records), err)
	}
	s.commits.Add(1)
	s.w.begun = true
	for i, num := range s.w.nums {
		b.Entities[i].Num = num
	}
	s.tail.take(b, s.w)
	if s.w.unsure && s.readInfo(ctx) == nil { // the one that failed may have been committed after all
		s.w.unsure = false
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.info.LastChange += uint64(len(b.Records))
	s.info.FirstChange = max(s.info.FirstChange, dropped+1)
	s.info.Entities += added
	return nil
}

// take adds what a batch has committed, and forgets the entities that it deletes.
// REQUIRES: mu and Store.writing held.
func (t *tail) take(b *entity.Batch, w *writer) {
	if t.flushed+1 == b.First {
		t.since = time.Now()
	}
	for i := range b.Entities {
		if e := t.entities[b.Entities[i].ID]; e != nil && b.Entities[i].Deleted {
			t.drop(e, len(e.rows))
		}
	}
	for i := range w.fresh {
		r := &w.fresh[i]
		if e := &b.Entities[r.place]; !e.Deleted {
			t.add(e.ID, e.Num, r.tailRow)
		}
	}
	clear(w.fresh)
	t.logged, t.loggedNew = t.logged+int64(len(w.blob)), t.loggedNew+int64(len(w.blob))
}

// transaction is one transaction of the writer.
type transaction struct {
	*sqlitedb.Tx
	w     *writer
	b     *entity.Batch // of a commit
	added int64         // new entities

	dropped uint64 // the last change that was dropped from the log, 0 for none

	isOver func() bool // reports whether a slice of the sealer is to end
}

// transact runs f in a transaction. Unless it is to be durable it may be undone by a
// loss of power, as long as no durable one comes after it.
func (w *writer) transact(ctx context.Context, durable bool, f func(t *transaction) error) error {
	w.newKeys, w.newHour = w.newKeys[:0], w.newHour[:0]
	logBytes := w.logBytes
	err := w.Transact(ctx, durable, func(tx *sqlitedb.Tx) error { return f(&transaction{Tx: tx, w: w}) })
	if err != nil {
		for _, k := range w.newKeys {
			delete(w.keys, k)
		}
		for _, h := range w.newHour {
			delete(w.hours, h)
		}
		clear(w.listed[:])
		w.logBytes = logBytes
	}
	if !durable {
		err = errors.Join(err, w.Durable(ctx)) // as everybody else expects it
	}
	return err
}

// run commits a batch, and shortens the log to its limit.
func (t *transaction) run(logLimit int64, flushed uint64) error {
	for _, step := range []func() error{t.entities, t.readings, t.edits, t.commands, t.presences, t.deletions, t.generation, t.log, t.purge} {
		if err := step(); err != nil {
			return err
		}
	}
	for t.w.logBytes > logLimit {
		if done, err := t.shorten(math.MaxInt64, flushed); done || err != nil {
			return err
		}
	}
	return nil
}

// entities finds the numbers of the entities, and gives one to those without.
func (t *transaction) entities() error {
	w := t.w
	w.nums, w.unknown = slices.Grow(w.nums[:0], len(t.b.Entities)), w.unknown[:0]
	for i := range t.b.Entities {
		w.nums = append(w.nums, t.b.Entities[i].Num)
		if t.b.Entities[i].Num == 0 {
			w.unknown = append(w.unknown, i)
		}
	}
	if len(w.unknown) == 0 {
		return nil
	}
	if err := t.find(); err != nil {
		return fmt.Errorf("find entities: %w", err)
	}
	w.unknown = slices.DeleteFunc(w.unknown, func(place int) bool { return w.nums[place] != 0 })
	if len(w.unknown) == 0 {
		return nil
	}
	if err := t.create(); err != nil {
		return fmt.Errorf("create entities: %w", err)
	}
	return nil
}

// find finds the numbers of the unknown entities that exist.
func (t *transaction) find() error {
	w := t.w
	ids := make([]string, len(w.unknown))
	for i, place := range w.unknown {
		ids[i] = t.b.Entities[place].ID
	}
	list, err := jsonArray(ids)
	if err != nil {
		return err
	}
	return t.Each("SELECT j.key, e.num FROM json_each(?) j CROSS JOIN entity e ON e.id = j.value", 2, func(row []driver.Value) (bool, error) {
		w.nums[w.unknown[first[int64](row)]] = first[int64](row[1:])
		return true, nil
	}, list)
}

// create gives numbers to the unknown entities: none that there ever was while
// something of its last owner is left.
func (t *transaction) create() error {
	w := t.w
	row, err := t.query("SELECT max(coalesce((SELECT max(num) FROM entity), 0), coalesce((SELECT max(num) FROM doomed), 0))", 1)
	if err != nil {
		return err
	}
	last := first[int64](row)
	for i, place := range w.unknown {
		w.nums[place] = last + 1 + int64(i)
	}
	t.added += int64(len(w.unknown))
	return t.Bulk(&w.entity, len(w.unknown), func(i int, row []driver.NamedValue) {
		e := &t.b.Entities[w.unknown[i]]
		row[0].Value, row[1].Value, row[2].Value, row[3].Value = w.nums[w.unknown[i]], e.ID, nil, e.Created
		if lower := strings.ToLower(e.ID); lower != e.ID {
			row[2].Value = lower
		}
	})
}

// first returns the first column of a row, if there is one of this type.
func first[T any](row []driver.Value) (v T) {
	if len(row) > 0 {
		v, _ = row[0].(T)
	}
	return v
}

// query runs a statement, prepared once, and returns the first row, nil for none.
func (t *transaction) query(sql string, columns int, args ...any) (first []driver.Value, err error) {
	err = t.Each(sql, columns, func(row []driver.Value) (bool, error) {
		if first == nil {
			first = slices.Clone(row)
		}
		return true, nil // to its end: it may write
	}, args...)
	return first, err
}

// key returns a key, giving it a number if it has none.
func (t *transaction) key(text string) (*name, error) {
	if k := t.w.keys[text]; k != nil {
		return k, nil
	}
	row, err := t.query(
		"INSERT INTO key (name) VALUES (?) ON CONFLICT (name) DO UPDATE SET name = excluded.name RETURNING num", 1, text)
	if err != nil {
		return nil, fmt.Errorf("key %q: %w", text, err)
	}
	k := &name{first[int64](row), strings.Clone(text)} // text may be part of a payload
	t.w.keys[k.text] = k
	t.w.names.set(k)
	t.w.newKeys = append(t.w.newKeys, k.text)
	return k, nil
}

// readings makes the rows of the readings, for the tail.
func (t *transaction) readings() error {
	w := t.w
	w.fresh = w.fresh[:0]
	for i := range t.b.Records {
		r := &t.b.Records[i]
		if r.Edit != nil || r.Command != nil || r.Presence != nil {
			continue
		}
		source, err := t.applied(r)
		if err != nil {
			return err
		}
		for j := range r.Values {
			key, err := t.key(r.Values[j].Key)
			if err != nil {
				return err
			}
			w.fresh = append(w.fresh, freshRow{r.Entity, tailRow{
				key: key, source: source, ts: r.TS, seq: r.Seq, arrived: r.Arrived, n: r.Origin.Seq, change: t.b.First + uint64(i), value: r.Values[j].Value.Clone(),
			}})
		}
	}
	return nil
}

// applied notes the source of a computed reading or edit and returns it, nil where there is
// none.
func (t *transaction) applied(r *entity.Record) (source *name, err error) {
	if r.Origin.IsZero() {
		return nil, nil //nolint:nilnil // there is none
	}
	if source, err = t.key(r.Origin.Source); err != nil {
		return nil, err
	}
	t.w.names.computed.Store(true)
	_, err = t.query(`INSERT INTO applied (entity, source, n) VALUES (?, ?, ?)
		ON CONFLICT (entity, source) DO UPDATE SET n = max(n, excluded.n)`, 1, t.w.nums[r.Entity], source.num, int64(r.Origin.Seq))
	return source, err
}

// hour sees to it that the hour is in the table of hours.
func (t *transaction) hour(hour int64) error {
	w := t.w
	if _, ok := w.hours[hour]; ok {
		return nil
	}
	if len(w.hours) >= maxHours {
		clear(w.hours)
	}
	w.hours[hour] = struct{}{}
	w.newHour = append(w.newHour, hour)
	return t.Bulk(&w.hour, 1, func(_ int, row []driver.NamedValue) { row[0].Value = hour })
}

// generation writes with the first commit which generation begins with it, and forgets
// those that no cursor can name any more.
func (t *transaction) generation() error {
	if t.w.begun {
		return nil
	}
	all := t.w.generations
	mine := all[len(all)-1]
	if _, err := t.query("DELETE FROM generation WHERE first < ?", 1, int64(all[0].First)); err != nil {
		return fmt.Errorf("generation: %w", err)
	}
	_, err := t.query("INSERT INTO generation (first, id) VALUES (?, ?) ON CONFLICT (first) DO UPDATE SET id = excluded.id",
		1, int64(mine.First), mine.ID) // the outcome of the first time may have been unknown
	if err != nil {
		return fmt.Errorf("generation: %w", err)
	}
	return nil
}

// log writes the changes. Writing the same batch again replaces its row, where
// the outcome of the first time was unknown.
func (t *transaction) log() error {
	w := t.w
	w.blob = changelog.Append(w.blob[:0], t.b)
	_, err := t.query(`INSERT INTO change (first, n, committed, data) VALUES (?, ?, ?, ?)
		ON CONFLICT (first) DO UPDATE SET n = excluded.n, committed = excluded.committed, data = excluded.data`,
		1, int64(t.b.First), int64(len(t.b.Records)), t.b.Committed, w.blob)
	if err != nil {
		return fmt.Errorf("change log: %w", err)
	}
	w.logBytes += int64(len(w.blob))
	return nil
}
