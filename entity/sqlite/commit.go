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

// writer is the only connection that writes, with what it caches of the database.
// If a transaction fails, its additions to keys and hours are undone.
type writer struct {
	*sqlitedb.Writer
	keys     map[string]*name
	names    *names
	hours    map[int64]struct{} // hours known to be in the table, at most maxHours
	logBytes int64              // the size of the change log
	unsure   bool               // a commit has failed, so the counters may be wrong
	doomed   bool               // there may be history of deleted entities
	touched  sealed.Hours       // hours that have received rows since they were sealed
	runRows  int                // the constant runRows, except in tests
	packFrom int                // the constant packFrom, except in tests; more than there can be if nothing is sealed by itself

	packer   sealed.Packer
	unpacker block.Decoder
	run      block.Columns

	// generations ends with the generation of the next commit. begun reports whether that one is in the
	// table: the first commit writes it, so that opening a store writes nothing.
	generations []entity.Generation
	begun       bool

	entity, latest, telemetry, hour, seriesHour, computed, attribute, revision, command, presence, item sqlitedb.Bulk

	ended changelog.Ended

	fresh     []freshRow
	rows      []movedRow
	newest    []movedRow
	loose     []movedRow // those that are not packed
	starts    []int      // indexes of loose that begin a series whose hour may be missing in series_hour
	edited    []movedRow
	revisions []revisionRow
	typed     []int // indexes of entities whose type was set
	nums      []int64
	unknown   []int // indexes of entities without a number
	blob      []byte
	newKeys   []string
	newHour   []int64
	listed    listedHours
}

// freshRow is a value of a batch on its way to the tail.
type freshRow struct {
	place int // index of its entity in the batch
	tailRow
}

const maxHours = 1 << 16

func (w *writer) loadKeys(ctx context.Context) error {
	w.doomed = true // until the first commit finds that there are none
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
	w.item = sqlitedb.Bulk{Head: "INSERT INTO item (kind, key, body)", Width: 3, Tail: "ON CONFLICT (kind, key) DO UPDATE SET body = excluded.body"}
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
	return w.Close(&w.entity, &w.latest, &w.telemetry, &w.hour, &w.seriesHour, &w.computed, &w.attribute, &w.revision, &w.command, &w.presence, &w.item)
}

// Commit makes a batch durable in one transaction with one fsync. See
// [entity.Store]. The end of ctx does not interrupt a commit that has begun.
func (s *Store) Commit(ctx context.Context, b *entity.Batch) error {
	if err := context.Cause(ctx); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	s.begin()
	defer s.writing.Unlock()
	// An interrupt would lose the connection and leave the outcome of COMMIT
	// unknown: finishing takes only milliseconds.
	ctx = context.WithoutCancel(ctx)
	err := s.withRoom(func() error { return s.commit(ctx, b) })
	if err == nil {
		s.setMark()
	}
	return err
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
	held := false // the lock of the tail
	err := s.w.transact(ctx, true, func(t *transaction) (err error) {
		t.b = b
		if err = t.run(s.opts.ChangeLogBytes, s.tail.flushed); err != nil {
			return err
		}
		added, dropped = t.added, t.dropped
		if held = len(s.w.unknown)+len(s.w.typed) > 0; held { // readers must not see new entities without their readings, nor half an edit
			s.tail.mu.Lock()
		}
		if len(s.w.typed) > 0 { // also after the commit: a reader may begin in between
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
	if s.w.unsure && s.readInfo(ctx) == nil { // the commit that failed may have happened after all
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

// take adds what a batch has committed and drops the entities that it deletes.
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

	dropped uint64 // the last change dropped from the log, 0 for none

	isOver func() bool // reports whether a slice of the sealer must end
}

// transact runs f in a transaction. If durable is false, a loss of power may undo the
// transaction until the next durable one.
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
		err = errors.Join(err, w.Durable(ctx)) // which all other users expect
	}
	return err
}

// run writes a batch and shortens the log to its limit.
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

// entities finds the numbers of the entities and assigns new ones where there are none.
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

// find looks up the numbers of the unknown entities.
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

// create assigns numbers to the unknown entities. A number is not reused while the
// store still has data of the deleted entity that had it.
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

// first returns the first column of a row, or zero if it has another type.
func first[T any](row []driver.Value) (v T) {
	if len(row) > 0 {
		v, _ = row[0].(T)
	}
	return v
}

// query runs a statement, which is prepared once, and returns its first row, nil for none.
func (t *transaction) query(sql string, columns int, args ...any) (first []driver.Value, err error) {
	err = t.Each(sql, columns, func(row []driver.Value) (bool, error) {
		if first == nil {
			first = slices.Clone(row)
		}
		return true, nil // run it to the end: it may write
	}, args...)
	return first, err
}

// key returns a key, with a new number if it has none.
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

// readings makes the rows of the readings for the tail.
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

// applied records the source of a computed reading or edit and returns it, nil if there is
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

// hour makes sure that the hour is in the table of hours.
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

// generation records, in the first commit, the generation that begins with it, and deletes
// those that no cursor can refer to any more.
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
		1, int64(mine.First), mine.ID) // an earlier attempt may have written it: its outcome may be unknown
	if err != nil {
		return fmt.Errorf("generation: %w", err)
	}
	return nil
}

// log writes the changes. If a batch is written again because the outcome of the first
// attempt is unknown, its row is replaced.
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
