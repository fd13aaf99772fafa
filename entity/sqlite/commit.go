package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/greenroom-go/greenroom/entity"
)

// writer is the one connection that writes, with what it knows of the database.
// What a transaction adds to keys and hours is taken back when it fails.
//
// It speaks to the driver itself (sql.Conn.Raw): package sql would convert and
// copy each of the thousands of parameters of a batch.
type writer struct {
	conn     *sql.Conn
	params   *parameters
	keys     map[string]int64   // numbers of keys
	hours    map[int64]struct{} // hours known to be in the table, bounded by maxHours
	logBytes int64              // the size of the change log
	unsure   bool               // a commit has failed, and what was counted may be wrong
	doomed   bool               // there may be history of deleted entities

	latest, telemetry, hour, computed bulk
	single                            map[string]driver.Stmt

	rows    []telemetryRow
	origins []computedRow
	nums    []int64
	blob    []byte
	newKeys []string
	newHour []int64
}

// telemetryRow is a row of the table telemetry.
type telemetryRow struct {
	hour, entity, key, ts int64
	value                 entity.Value
}

// computedRow is a row of the table computed.
type computedRow struct {
	entity, key, ts, seq, source, n int64
}

const maxHours = 1 << 16

func (w *writer) loadKeys(ctx context.Context) error {
	w.params = newParameters()
	w.doomed = true // until the first commit finds that there is nobody
	w.single = make(map[string]driver.Stmt)
	w.latest = bulk{
		head: "INSERT INTO latest (entity, key, ts, seq, kind, value)", width: 6,
		tail: `ON CONFLICT (entity, key) DO UPDATE SET ts = excluded.ts, seq = excluded.seq, kind = excluded.kind, value = excluded.value
			WHERE (excluded.ts, excluded.seq) >= (ts, seq)`,
	}
	w.telemetry = bulk{
		head: "INSERT INTO telemetry (hour, entity, key, ts, kind, value)", width: 6,
		tail: "ON CONFLICT (hour, entity, key, ts) DO UPDATE SET kind = excluded.kind, value = excluded.value",
	}
	w.computed = bulk{
		head: "INSERT INTO computed (entity, key, ts, seq, source, n)", width: 6,
		tail: "ON CONFLICT (entity, key, ts) DO UPDATE SET seq = excluded.seq, source = excluded.source, n = excluded.n WHERE excluded.seq >= seq",
	}
	w.hour = bulk{head: "INSERT INTO hour (hour)", width: 1, tail: "ON CONFLICT (hour) DO NOTHING"}

	rows, err := w.conn.QueryContext(ctx, "SELECT name, num FROM key")
	if err != nil {
		return fmt.Errorf("read keys: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		var num int64
		if err := rows.Scan(&name, &num); err != nil {
			return fmt.Errorf("read keys: %w", err)
		}
		w.keys[name] = num
	}
	return rows.Err()
}

func (w *writer) close() error {
	err := w.conn.Raw(func(any) error {
		errs := []error{w.latest.close(), w.telemetry.close(), w.hour.close(), w.computed.close()}
		for _, stmt := range w.single {
			errs = append(errs, stmt.Close())
		}
		return errors.Join(errs...)
	})
	return errors.Join(err, w.conn.Close())
}

// Commit makes a batch durable in one transaction with one fsync. See
// [entity.Store]. A commit that has begun is not broken off when ctx ends.
func (s *Store) Commit(ctx context.Context, b *entity.Batch) error {
	if err := context.Cause(ctx); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	last := s.Info().LastChange
	if b.First != last+1 {
		return fmt.Errorf("commit: batch begins with change %d where %d is next", b.First, last+1)
	}
	// An interrupted connection is lost, and the outcome of an interrupted
	// COMMIT unknown: better to finish what takes milliseconds.
	ctx = context.WithoutCancel(ctx)
	var dropped uint64
	var added int64
	err := s.w.conn.Raw(func(raw any) (err error) {
		tx := transaction{w: s.w, ctx: ctx, conn: raw.(rawConn), b: b}
		dropped, err = tx.run(s.opts.ChangeLogBytes)
		added = tx.added
		return err
	})
	if err != nil {
		s.w.unsure = true
		return fmt.Errorf("commit %d changes: %w", len(b.Records), err)
	}
	s.commits.Add(1)
	for i, num := range s.w.nums {
		b.Entities[i].Num = num
	}
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

// rawConn is what the driver's connection can do.
type rawConn interface {
	driver.ConnPrepareContext
	driver.ExecerContext
}

// transaction is one commit.
type transaction struct {
	w     *writer
	ctx   context.Context //nolint:containedctx // lives as long as one call of Commit
	conn  rawConn
	b     *entity.Batch
	added int64 // new entities
}

// run does it all; dropped is the last change that the log lost to its limit.
func (t *transaction) run(logLimit int64) (dropped uint64, err error) {
	w := t.w
	w.newKeys, w.newHour = w.newKeys[:0], w.newHour[:0]
	logBytes := w.logBytes
	if err := t.exec("BEGIN IMMEDIATE"); err != nil {
		return 0, err
	}
	defer func() {
		if err == nil {
			return
		}
		if rerr := t.exec("ROLLBACK"); rerr != nil && !strings.Contains(rerr.Error(), "no transaction is active") {
			err = fmt.Errorf("%w; and the rollback: %w", err, rerr)
		}
		for _, k := range w.newKeys {
			delete(w.keys, k)
		}
		for _, h := range w.newHour {
			delete(w.hours, h)
		}
		w.logBytes = logBytes
	}()
	for _, step := range []func() error{t.entities, t.history, t.latest, t.edits, t.deletions, t.log, t.purge} {
		if err := step(); err != nil {
			return 0, err
		}
	}
	if w.logBytes > logLimit {
		if dropped, err = t.prune(logLimit); err != nil {
			return 0, err
		}
	}
	return dropped, t.exec("COMMIT")
}

func (t *transaction) exec(sql string) error {
	_, err := t.conn.ExecContext(t.ctx, sql, nil)
	return err
}

// entities finds the numbers of the entities, and gives one to those without.
func (t *transaction) entities() error {
	w := t.w
	w.nums = slices.Grow(w.nums[:0], len(t.b.Entities))
	for i := range t.b.Entities {
		e := &t.b.Entities[i]
		num := e.Num
		if num == 0 {
			var err error
			if num, err = t.number(e); err != nil {
				return fmt.Errorf("entity %q: %w", e.ID, err)
			}
		}
		w.nums = append(w.nums, num)
	}
	return nil
}

func (t *transaction) number(e *entity.BatchEntity) (int64, error) {
	row, err := t.query("SELECT num FROM entity WHERE id = ?", 1, e.ID)
	if err != nil || row != nil {
		return first[int64](row), err
	}
	var fold any
	if lower := strings.ToLower(e.ID); lower != e.ID {
		fold = lower
	}
	row, err = t.query(`INSERT INTO entity (num, id, fold, created) VALUES (
		1 + max(coalesce((SELECT max(num) FROM entity), 0), coalesce((SELECT max(num) FROM doomed), 0)), ?, ?, ?) RETURNING num`,
		1, e.ID, fold, e.Created)
	t.added++
	return first[int64](row), err
}

// first returns the first column of a row, if there is one of this type.
func first[T any](row []driver.Value) (v T) {
	if len(row) > 0 {
		v, _ = row[0].(T)
	}
	return v
}

// query runs a statement, prepared once, and returns the first row, nil for none.
func (t *transaction) query(sql string, columns int, args ...any) ([]driver.Value, error) {
	stmt := t.w.single[sql]
	if stmt == nil {
		var err error
		if stmt, err = t.conn.PrepareContext(t.ctx, sql); err != nil {
			return nil, err
		}
		t.w.single[sql] = stmt
	}
	params := t.w.params[:len(args)]
	for i := range args {
		params[i].Value = args[i]
	}
	rows, err := stmt.(driver.StmtQueryContext).QueryContext(t.ctx, params)
	if err != nil {
		return nil, err
	}
	row := make([]driver.Value, columns)
	err = rows.Next(row)
	if errors.Is(err, io.EOF) {
		row, err = nil, nil
	}
	for more := err; more == nil && row != nil; { // to its end, or the statement is not done
		more = rows.Next(make([]driver.Value, columns))
	}
	if cerr := rows.Close(); err == nil {
		err = cerr
	}
	return row, err
}

// key returns the number of a key, giving it one if it has none.
func (t *transaction) key(name string) (int64, error) {
	if num, ok := t.w.keys[name]; ok {
		return num, nil
	}
	row, err := t.query(
		"INSERT INTO key (name) VALUES (?) ON CONFLICT (name) DO UPDATE SET name = excluded.name RETURNING num", 1, name)
	if err != nil {
		return 0, fmt.Errorf("key %q: %w", name, err)
	}
	name = strings.Clone(name) // it may be part of a payload
	t.w.keys[name] = first[int64](row)
	t.w.newKeys = append(t.w.newKeys, name)
	return first[int64](row), nil
}

// history writes the telemetry, in the order of the table so that the inserts
// walk along the tree. Rows of the same key and time stay in the order of the
// records: the later replaces the earlier.
func (t *transaction) history() error {
	w := t.w
	w.rows, w.origins = w.rows[:0], w.origins[:0]
	for i := range t.b.Records {
		r := &t.b.Records[i]
		if r.Edit != nil {
			continue
		}
		source, err := t.applied(r)
		if err != nil {
			return err
		}
		hour := r.TS / hourMS
		if err := t.hour(hour); err != nil {
			return err
		}
		for j := range r.Values {
			key, err := t.key(r.Values[j].Key)
			if err != nil {
				return err
			}
			w.rows = append(w.rows, telemetryRow{hour, w.nums[r.Entity], key, r.TS, r.Values[j].Value})
			if source != 0 {
				w.origins = append(w.origins, computedRow{w.nums[r.Entity], key, r.TS, int64(r.Seq), source, int64(r.Origin.Seq)})
			}
		}
	}
	slices.SortStableFunc(w.rows, func(a, b telemetryRow) int {
		return cmp.Or(cmp.Compare(a.hour, b.hour), cmp.Compare(a.entity, b.entity), cmp.Compare(a.key, b.key), cmp.Compare(a.ts, b.ts))
	})
	err := w.telemetry.exec(t.ctx, t.conn, w.params, len(w.rows), func(i int, row []driver.NamedValue) {
		r := &w.rows[i]
		row[0].Value, row[1].Value, row[2].Value, row[3].Value = r.hour, r.entity, r.key, r.ts
		row[4].Value, row[5].Value = int64(r.value.Kind()), column(r.value)
	})
	clear(w.rows) // texts belong to payloads
	if err != nil {
		return err
	}
	return w.computed.exec(t.ctx, t.conn, w.params, len(w.origins), func(i int, row []driver.NamedValue) {
		r := &w.origins[i]
		row[0].Value, row[1].Value, row[2].Value = r.entity, r.key, r.ts
		row[3].Value, row[4].Value, row[5].Value = r.seq, r.source, r.n
	})
}

// applied notes the source of a computed reading and returns its number, 0 for a
// reading of a device.
func (t *transaction) applied(r *entity.Record) (source int64, err error) {
	if r.Origin.IsZero() {
		return 0, nil
	}
	if source, err = t.key(r.Origin.Source); err != nil {
		return 0, err
	}
	_, err = t.query(`INSERT INTO applied (entity, source, n) VALUES (?, ?, ?)
		ON CONFLICT (entity, source) DO UPDATE SET n = max(n, excluded.n)`, 1, t.w.nums[r.Entity], source, int64(r.Origin.Seq))
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
	return w.hour.exec(t.ctx, t.conn, w.params, 1, func(_ int, row []driver.NamedValue) { row[0].Value = hour })
}

// latest writes the change buffer.
func (t *transaction) latest() error {
	w := t.w
	keys := make([]int64, len(t.b.Latest))
	for i := range t.b.Latest {
		key, err := t.key(t.b.Latest[i].Key)
		if err != nil {
			return err
		}
		keys[i] = key
	}
	return w.latest.exec(t.ctx, t.conn, w.params, len(t.b.Latest), func(i int, row []driver.NamedValue) {
		l := &t.b.Latest[i]
		row[0].Value, row[1].Value, row[2].Value, row[3].Value = w.nums[l.Entity], keys[i], l.TS, int64(l.Seq)
		row[4].Value, row[5].Value = int64(l.Value.Kind()), column(l.Value)
	})
}

// log writes the changes. Writing the same batch again replaces its row, where
// the outcome of the first time was unknown.
func (t *transaction) log() error {
	w := t.w
	w.blob = appendChanges(w.blob[:0], t.b)
	_, err := t.query(`INSERT INTO change (first, n, committed, data) VALUES (?, ?, ?, ?)
		ON CONFLICT (first) DO UPDATE SET n = excluded.n, committed = excluded.committed, data = excluded.data`,
		1, int64(t.b.First), int64(len(t.b.Records)), t.b.Committed, w.blob)
	if err != nil {
		return fmt.Errorf("change log: %w", err)
	}
	w.logBytes += int64(len(w.blob))
	return nil
}

// prune drops the oldest commits from the log until an eighth of the limit is
// free again, but never the newest: its number must survive. It returns the last
// change that was dropped.
func (t *transaction) prune(limit int64) (dropped uint64, err error) {
	goal := limit - limit/8
	for t.w.logBytes > goal {
		row, err := t.query(`SELECT max(first), sum(bytes), max(first + n - 1) FROM
			(SELECT first, n, length(data) AS bytes FROM change WHERE first < ? ORDER BY first LIMIT 64)`, 3, int64(t.b.First))
		if err != nil {
			return 0, fmt.Errorf("shorten the change log: %w", err)
		}
		if row == nil || row[0] == nil {
			break
		}
		if _, err := t.query("DELETE FROM change WHERE first <= ?", 1, row[0]); err != nil {
			return 0, fmt.Errorf("shorten the change log: %w", err)
		}
		bytes, _ := row[1].(int64)
		last, _ := row[2].(int64)
		t.w.logBytes -= bytes
		dropped = uint64(last)
	}
	return dropped, nil
}
