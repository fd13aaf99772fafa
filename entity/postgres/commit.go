package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/internal/changelog"
	"github.com/greenroom-go/greenroom/internal/pgdb"
)

// Commit makes a batch durable in one transaction. See [entity.Store]. It is interrupted when ctx
// ends or Options.CommitTimeout has passed; when the batch is tried again, Commit determines
// whether the interrupted attempt took effect.
func (s *Store) Commit(ctx context.Context, b *entity.Batch) error {
	ctx, cancel := context.WithTimeout(ctx, s.opts.CommitTimeout)
	defer cancel()
	w, end, err := s.beginWrite(ctx)
	if err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	defer end()
	if err := w.commit(ctx, b); err != nil {
		return fmt.Errorf("commit %d changes: %w", len(b.Records), fullError(err))
	}
	return nil
}

func (w *writer) commit(ctx context.Context, b *entity.Batch) error {
	if w.happened(b) {
		return w.fillIn(ctx, b)
	}
	if next := w.s.Info().LastChange + 1; b.First != next {
		return fmt.Errorf("batch begins with change %d where %d is next", b.First, next)
	}
	t := transaction{w: w, b: b, next: w.state}
	if err := t.prepare(ctx); err != nil {
		return err
	}
	defer t.letGo()
	w.unsure = nil
	err := t.run(ctx)
	if pgdb.Code(err) == pgdb.CodeUniqueViolation && t.copies() {
		// There is a reading of that time already. Devices that repeat readings, and people who
		// import something twice, usually do so more than once.
		w.merging = mergeAfter
		err = t.run(ctx)
	}
	switch {
	case err == nil:
		w.merging = max(0, w.merging-1)
		t.adopt()
	case w.Conn.IsClosed():
		w.unsure = &attempt{commits: t.next.commits, first: b.First, records: len(b.Records)}
	case pgdb.Code(err) == pgdb.CodeDivisionByZero || pgdb.Code(err) == pgdb.CodeUniqueViolation && w.isOvertaken(ctx):
		err = w.s.takenOver()
	}
	return err
}

// isOvertaken reports whether the epoch is not this writer's. The rows of the next one may be in the way before the
// count of the commits is: that comes last in a transaction.
func (w *writer) isOvertaken(ctx context.Context) bool {
	var epoch int64
	err := w.Conn.QueryRow(ctx, "SELECT epoch FROM greenroom").Scan(&epoch)
	return err == nil && epoch != w.epoch // the next attempt shows it otherwise
}

// mergeAfter is how many commits do not try to copy after a failure to copy.
const mergeAfter = 16

// happened reports whether the batch was committed by an attempt whose result was lost.
func (w *writer) happened(b *entity.Batch) bool {
	u := w.unsure
	return u != nil && u.commits == w.state.commits && u.first == b.First && u.records == len(b.Records)
}

// fillIn sets the numbers of the entities of a batch that was committed before.
func (w *writer) fillIn(ctx context.Context, b *entity.Batch) error {
	var ids []string
	for i := range b.Entities {
		if b.Entities[i].Num == 0 {
			ids = append(ids, b.Entities[i].ID)
		}
	}
	nums, err := w.lookUp(ctx, ids)
	if err != nil {
		return err
	}
	for i := range b.Entities {
		if e := &b.Entities[i]; e.Num == 0 {
			e.Num = int64(nums[e.ID])
		}
	}
	w.unsure, w.begun = nil, true
	w.s.sealing.forget()
	return nil
}

// lookUp returns the numbers of the entities that exist.
func (w *writer) lookUp(ctx context.Context, ids []string) (map[string]int32, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	rows, err := w.Conn.Query(ctx, "SELECT id, num FROM entity WHERE id = ANY($1)", ids)
	if err != nil {
		return nil, fmt.Errorf("look up entities: %w", err)
	}
	nums := make(map[string]int32, len(ids))
	var id string
	var num int32
	if _, err := pgx.ForEachRow(rows, []any{&id, &num}, func() error {
		nums[id] = num
		return nil
	}); err != nil {
		return nil, fmt.Errorf("look up entities: %w", err)
	}
	return nums, nil
}

// transaction is one commit.
type transaction struct {
	w     *writer
	b     *entity.Batch
	next  state  // the state after the commit
	first uint64 // the oldest change that is kept

	nums    []int32          // of the batch's entities; 0 for one that never existed
	fresh   []int            // indexes of the new ones
	keys    map[string]int32 // new ones
	targets map[string]int32 // of the entities that edges lead to
	rows    []telemetryRow
	blob    []byte
	doomed  bool // there is telemetry of a deleted entity
}

// prepare reads everything that the transaction needs, and changes nothing except the partitions.
// The result stays valid until the transaction, because nobody else writes.
func (t *transaction) prepare(ctx context.Context) error {
	if err := t.entities(ctx); err != nil {
		return err
	}
	t.keys = make(map[string]int32)
	for i := range t.b.Latest {
		if !t.b.Entities[t.b.Latest[i].Entity].Deleted {
			t.key(t.b.Latest[i].Key)
		}
	}
	t.history()
	times := make([]int64, 0, 8)
	for i := range t.rows {
		if i == 0 || t.rows[i].ts != t.rows[i-1].ts {
			times = append(times, t.rows[i].ts)
		}
	}
	return t.w.s.cover(ctx, times...)
}

// entities looks up the numbers of the entities, and assigns one to those without.
func (t *transaction) entities(ctx context.Context) error {
	var ids []string
	for i := range t.b.Entities {
		if t.b.Entities[i].Num == 0 {
			ids = append(ids, t.b.Entities[i].ID)
		}
	}
	for i := range t.b.Records {
		if edit := t.b.Records[i].Edit; edit != nil {
			for j := range edit.Relations {
				ids = append(ids, edit.Relations[j].To)
			}
		}
	}
	found, err := t.w.lookUp(ctx, ids)
	if err != nil {
		return err
	}
	t.nums = make([]int32, len(t.b.Entities))
	for i := range t.b.Entities {
		e := &t.b.Entities[i]
		num := int32(e.Num)
		if num == 0 {
			num = found[e.ID]
		}
		if num == 0 && !e.Deleted {
			t.next.lastEntity++
			num = int32(t.next.lastEntity)
			t.fresh = append(t.fresh, i)
			if found != nil { // an edge may lead to it
				found[e.ID] = num
			}
		}
		t.nums[i] = num
	}
	for i := range t.b.Entities {
		if t.b.Entities[i].Deleted {
			delete(found, t.b.Entities[i].ID) // no edge leads to it
		}
	}
	t.targets = found
	return nil
}

// key returns the number of a key, which it assigns if needed.
func (t *transaction) key(name string) int32 {
	if num, ok := t.w.keys[name]; ok {
		return num
	}
	if num, ok := t.keys[name]; ok {
		return num
	}
	t.next.lastKey++
	num := int32(t.next.lastKey)
	t.keys[name] = num
	return num
}

// copyFrom is the number of rows from which telemetry is copied, not merged. For fewer, the two
// additional round trips of COPY cost more than it saves.
const copyFrom = 64

// copies reports whether the telemetry is copied, not merged.
func (t *transaction) copies() bool { return len(t.rows) >= copyFrom && t.w.merging == 0 }

// run executes the transaction: in one round trip, or in three with COPY between the first and the
// last.
func (t *transaction) run(ctx context.Context) (err error) {
	conn := t.w.Conn
	defer func() {
		if err != nil && !conn.IsClosed() && conn.PgConn().TxStatus() != 'I' {
			err = errors.Join(err, pgdb.Rollback(ctx, conn))
		}
	}()
	t.reckon()
	var rows pgx.Batch
	rows.Queue("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE") // whatever the server's default is
	for _, add := range []func(*pgx.Batch){t.names, t.latest, t.origins, t.edits, t.commands, t.presences, t.deletions, t.generation, t.log} {
		add(&rows)
	}
	if t.copies() {
		if err := conn.SendBatch(ctx, &rows).Close(); err != nil {
			return err
		}
		if _, err := conn.CopyFrom(ctx, pgx.Identifier{"telemetry"}, telemetryColumns, &copySource{rows: t.rows}); err != nil {
			return fmt.Errorf("copy telemetry: %w", err)
		}
		rows = pgx.Batch{}
	} else {
		t.merge(&rows)
	}
	t.count(&rows)
	rows.Queue("COMMIT")
	return conn.SendBatch(ctx, &rows).Close()
}

// reckon computes the state after the commit, except for the shortening of the log.
func (t *transaction) reckon() {
	now := &t.w.state
	t.first = t.w.s.Info().FirstChange
	t.next.commits = now.commits + 1
	t.next.lastChange = now.lastChange + int64(len(t.b.Records))
	t.next.entities = now.entities + int64(len(t.fresh))
	if t.blob == nil {
		t.blob = changelog.Append(nil, t.b)
	}
	t.next.logBytes = now.logBytes + int64(len(t.blob))
}

// names writes the new entities and keys.
func (t *transaction) names(rows *pgx.Batch) {
	if len(t.keys) > 0 {
		names, nums := make([]string, 0, len(t.keys)), make([]int32, 0, len(t.keys))
		for name, num := range t.keys {
			names, nums = append(names, name), append(nums, num)
		}
		rows.Queue("INSERT INTO key (num, name) SELECT * FROM unnest($1::integer[], $2::text[])", nums, names)
	}
	if len(t.fresh) > 0 {
		nums, ids := make([]int32, len(t.fresh)), make([]string, len(t.fresh))
		folds, created := make([]*string, len(t.fresh)), make([]int64, len(t.fresh))
		for i, place := range t.fresh {
			e := &t.b.Entities[place]
			nums[i], ids[i], folds[i], created[i] = t.nums[place], e.ID, fold(e.ID), e.Created
		}
		rows.Queue("INSERT INTO entity (num, id, fold, created) SELECT * FROM unnest($1::integer[], $2::text[], $3::text[], $4::bigint[])",
			nums, ids, folds, created)
	}
}

// latest writes the change buffer, in the order of the table.
func (t *transaction) latest(rows *pgx.Batch) {
	order := make([]int, 0, len(t.b.Latest))
	for i := range t.b.Latest {
		if !t.b.Entities[t.b.Latest[i].Entity].Deleted {
			order = append(order, i)
		}
	}
	if len(order) == 0 {
		return
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Compare(t.nums[t.b.Latest[a].Entity], t.nums[t.b.Latest[b].Entity])
	})
	n := len(order)
	entities, keys := make([]int32, n), make([]int32, n)
	ts, seq, origins := make([]int64, n), make([]int64, n), make([][]byte, n)
	values := newColumnArrays(n)
	for i, place := range order {
		l := &t.b.Latest[place]
		entities[i], keys[i], ts[i], seq[i], origins[i] = t.nums[l.Entity], t.key(l.Key), l.TS, int64(l.Seq), packOrigin(l.Origin)
		values.add(columnsOf(l.Value))
	}
	rows.Queue(`INSERT INTO latest (entity, key, ts, seq, number, whole, text, json, origin)
		SELECT * FROM unnest($1::integer[], $2::integer[], $3::bigint[], $4::bigint[], $5::double precision[], $6::bigint[], $7::text[], $8::text[], $9::bytea[])
		ON CONFLICT (entity, key) DO UPDATE SET ts = excluded.ts, seq = excluded.seq, number = excluded.number, whole = excluded.whole,
			text = excluded.text, json = excluded.json, origin = excluded.origin
		WHERE (excluded.ts, excluded.seq) >= (latest.ts, latest.seq)`,
		entities, keys, ts, seq, values.number, values.whole, values.text, values.json, origins)
}

// generation records, with the first commit, the generation that begins with it, and deletes those
// that no cursor can refer to any more.
func (t *transaction) generation(rows *pgx.Batch) {
	if t.w.begun {
		return
	}
	all := t.w.generations
	mine := all[len(all)-1]
	rows.Queue("DELETE FROM generation WHERE first < $1", int64(all[0].First))
	rows.Queue("INSERT INTO generation (first, id) VALUES ($1, $2)", int64(mine.First), mine.ID)
}

// log writes the changes. When the log exceeds its limit, it drops the oldest commits, but never
// the newest, until an eighth of the limit is free.
func (t *transaction) log(rows *pgx.Batch) {
	rows.Queue("INSERT INTO change (first, n, committed, data) VALUES ($1, $2, $3, $4)", int64(t.b.First), len(t.b.Records), t.b.Committed, t.blob)
	limit := t.w.s.opts.ChangeLogBytes
	if t.next.logBytes <= limit {
		return
	}
	rows.Queue(`WITH gone AS (
			DELETE FROM change WHERE first <= (SELECT max(first) FROM
				(SELECT first, sum(length(data)) OVER (ORDER BY first DESC) AS kept FROM change) c WHERE kept > $1 AND first < $2)
			RETURNING first + n - 1 AS last, length(data) AS bytes),
		sums AS (SELECT coalesce(max(last), 0) AS last, coalesce(sum(bytes), 0) AS bytes FROM gone)
		UPDATE greenroom SET log_bytes = log_bytes - bytes FROM sums RETURNING last, bytes`, limit-limit/8, int64(t.b.First)).QueryRow(func(row pgx.Row) error {
		var dropped, bytes int64
		if err := row.Scan(&dropped, &bytes); err != nil {
			return fmt.Errorf("shorten the change log: %w", err)
		}
		t.next.logBytes -= bytes
		t.first = max(t.first, uint64(dropped)+1)
		return nil
	})
}

// count updates the state if it is still the one that the writer knows. Otherwise it divides by
// zero, which prevents the COMMIT that follows.
func (t *transaction) count(rows *pgx.Batch) {
	n := &t.next
	rows.Queue(`WITH counted AS (
			UPDATE greenroom SET commits = $3, last_change = $4, log_bytes = log_bytes + $5, entities = $6, last_entity = $7, last_key = $8
			WHERE epoch = $1 AND commits = $2 RETURNING 1)
		SELECT 1 / count(*) FROM counted`,
		t.w.epoch, t.w.state.commits, n.commits, n.lastChange, len(t.blob), n.entities, n.lastEntity, n.lastKey)
}

// letGo clears the rows, whose texts belong to the batch, and keeps their memory.
func (t *transaction) letGo() {
	clear(t.rows)
	t.w.rows = t.rows[:0]
}

// adopt updates what the writer knows after a commit.
func (t *transaction) adopt() {
	for i := range t.b.Entities {
		t.b.Entities[i].Num = int64(t.nums[i])
	}
	maps.Copy(t.w.keys, t.keys)
	t.w.state, t.w.begun = t.next, true
	info := t.w.s.Info()
	info.LastChange, info.FirstChange, info.Entities = uint64(t.next.lastChange), t.first, t.next.entities
	t.w.s.setInfo(info)
	t.w.s.touch(t.rows, time.Now())
	if t.doomed {
		select {
		case t.w.s.work <- struct{}{}:
		default: // it will be determined
		}
	}
}
