package postgres

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/greenroom-go/greenroom/internal/pgdb"
	"github.com/greenroom-go/greenroom/persist"
	"github.com/greenroom-go/greenroom/persist/internal/plan"
)

func (w *writer) commit(ctx context.Context, b *persist.Batch) error {
	return w.done.Commit(b, func() error { return w.write(ctx, b) })
}

// write commits a batch that was not committed before: first it takes the locks and reads
// what there is, then it writes.
func (w *writer) write(ctx context.Context, b *persist.Batch) (err error) {
	if err := w.name(ctx, b); err != nil {
		return fmt.Errorf("write types: %w", err)
	}
	defer func() {
		w.plan.Forget()
		if err == nil {
			return
		}
		w.forget() // the plan has changed it
		if !w.Conn.IsClosed() && w.Conn.PgConn().TxStatus() != 'I' {
			err = errors.Join(err, pgdb.Rollback(ctx, w.Conn))
		}
	}()
	parts, err := w.begun(ctx, b)
	if err != nil {
		return err
	}
	w.attempts++
	w.tried = plan.Outcome{Session: b.Session, Number: b.Number, Attempt: w.attempts, Refused: w.plan.Make(w, b)}
	t := transaction{&w.plan, w, parts, nil}
	if err := t.run(ctx); err != nil {
		if pgdb.Code(err) == pgdb.CodeDivisionByZero {
			err = fmt.Errorf("%w: open it again", ErrForgotten)
		}
		return err
	}
	w.done = w.tried
	for shard := range w.epochs {
		w.shards[shard] = struct{}{}
	}
	return nil
}

// name makes sure that the types of a batch have numbers.
func (w *writer) name(ctx context.Context, b *persist.Batch) error {
	missing := make(map[string]struct{})
	note := func(p *persist.Payload) {
		if _, ok := w.types[p.Type]; !ok {
			missing[p.Type] = struct{}{}
		}
	}
	for i := range b.Appends {
		a := &b.Appends[i]
		for j := range a.Events {
			note(&a.Events[j])
		}
		for j := range a.Send {
			note(&a.Send[j].Payload)
		}
		for j := range a.Reminders {
			note(&a.Reminders[j].Payload)
		}
		for _, p := range []*persist.Payload{a.State, a.Snapshot} {
			if p != nil {
				note(p)
			}
		}
	}
	if len(missing) == 0 {
		return nil
	}
	names := slices.Sorted(maps.Keys(missing))
	var rows pgx.Batch
	rows.Queue("INSERT INTO type (name) SELECT * FROM unnest($1::text[]) ON CONFLICT DO NOTHING", names)
	rows.Queue("SELECT name, num FROM type WHERE name = ANY($1)", names).Query(func(rows pgx.Rows) error {
		var name string
		var num int64
		_, err := pgx.ForEachRow(rows, []any{&name, &num}, func() error {
			w.types[name] = num
			return nil
		})
		return err
	})
	return w.Conn.SendBatch(ctx, &rows).Close()
}

// begun begins the transaction, takes its locks and reads what the plan has to know. It
// returns the positions of the partitions. Locks are taken in one order by everybody.
func (w *writer) begun(ctx context.Context, b *persist.Batch) (positions map[int]int64, err error) {
	if w.known > maxKnown {
		w.forget()
	}
	var rows pgx.Batch
	rows.Queue("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE") // whatever the server's default is
	w.readEpochs(&rows, b)
	positions = make(map[int]int64)
	var missing []string
	for i := range b.Appends {
		id := b.Appends[i].ID
		positions[persist.PartOf(id)] = 0
		if w.Find(id) == nil {
			missing = append(missing, id)
		}
	}
	for _, d := range b.Delivered {
		positions[persist.PartOf(d.From)] = 0
	}
	changed := make(map[int]bool) // by others
	rows.Queue("SELECT num, position, actors FROM part WHERE num = ANY($1) ORDER BY num FOR UPDATE", slices.Sorted(maps.Keys(positions))).Query(func(rows pgx.Rows) error {
		var num int
		var position, actors int64
		_, err := pgx.ForEachRow(rows, []any{&num, &position, &actors}, func() error {
			positions[num] = position
			if p := &w.parts[num]; p.position != position {
				w.known -= len(p.ids)
				*p, changed[num] = partition{position, actors, make(map[string]*plan.ID)}, true
			}
			return nil
		})
		return err
	})
	found := make(map[string]*plan.ID)
	w.readIDs(&rows, missing, found)
	if err := w.Conn.SendBatch(ctx, &rows).Close(); err != nil {
		return nil, fmt.Errorf("take the locks: %w", err)
	}
	asked := make(map[string]bool, len(missing))
	for _, id := range missing {
		asked[id] = true
	}
	missing = missing[:0]
	for i := range b.Appends {
		if id := b.Appends[i].ID; !asked[id] && changed[persist.PartOf(id)] {
			missing, asked[id] = append(missing, id), true
		}
	}
	if len(missing) > 0 {
		rows = pgx.Batch{}
		w.readIDs(&rows, missing, found)
		if err := w.Conn.SendBatch(ctx, &rows).Close(); err != nil {
			return nil, fmt.Errorf("look up ids: %w", err)
		}
	}
	for id := range asked {
		k := found[id]
		if k == nil {
			k = plan.NewID(id)
		}
		w.parts[k.Part].ids[id] = k
		w.known++
	}
	return positions, nil
}

// readIDs reads ids into found.
func (w *writer) readIDs(rows *pgx.Batch, ids []string, found map[string]*plan.ID) {
	if len(ids) == 0 {
		return
	}
	rows.Queue("SELECT id, num, last, erased, sent FROM actor WHERE id = ANY($1)", ids).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			var k plan.ID
			if err := rows.Scan(&k.ID, &k.Num, &k.Last, &k.Erased, &k.Sent); err != nil {
				return err
			}
			k.Part = persist.PartOf(k.ID)
			found[k.ID] = &k
		}
		return rows.Err()
	})
}

// readEpochs reads the epochs of the shards of a batch, and keeps others from claiming
// them until it is committed. A shard that was never claimed gets a row for that.
func (w *writer) readEpochs(rows *pgx.Batch, b *persist.Batch) {
	w.epochs = make(map[string]uint64)
	var fresh []string
	for i := range b.Appends {
		shard := b.Appends[i].Shard
		if _, ok := w.epochs[shard]; shard == "" || ok {
			continue
		}
		w.epochs[shard] = 0
		if _, ok := w.shards[shard]; !ok {
			fresh = append(fresh, shard)
		}
	}
	if len(w.epochs) == 0 {
		return
	}
	if len(fresh) > 0 {
		slices.Sort(fresh)
		rows.Queue("INSERT INTO claim (shard, epoch) SELECT *, 0 FROM unnest($1::text[]) ON CONFLICT DO NOTHING", fresh)
	}
	rows.Queue("SELECT shard, epoch FROM claim WHERE shard = ANY($1) ORDER BY shard FOR SHARE", slices.Sorted(maps.Keys(w.epochs))).Query(func(rows pgx.Rows) error {
		var shard string
		var epoch int64
		_, err := pgx.ForEachRow(rows, []any{&shard, &epoch}, func() error {
			w.epochs[shard] = uint64(epoch)
			return nil
		})
		return err
	})
}

// transaction is what is written of a batch.
type transaction struct {
	*plan.Plan
	w         *writer
	positions map[int]int64 // of the partitions, before
	rows      *pgx.Batch
}

// copyFrom is how many events are copied and not inserted. For fewer the two more round
// trips of COPY cost more than it saves.
const copyFrom = 64

// run writes it all and commits: in one round trip, or in three with COPY at the beginning.
func (t *transaction) run(ctx context.Context) error {
	t.rows = &pgx.Batch{}
	t.erase()
	if len(t.Events) >= copyFrom {
		columns := []string{"actor", "number", "position", "time", "sum", "type", "part", "data"}
		if _, err := t.w.Conn.CopyFrom(ctx, pgx.Identifier{"event"}, columns, pgx.CopyFromSlice(len(t.Events), t.event)); err != nil {
			return fmt.Errorf("copy events: %w", err)
		}
	} else {
		t.events()
	}
	for _, add := range []func(){t.ids, t.messages, t.states, t.snapshots, t.seen, t.reminders, t.cursors, t.counters} {
		add()
	}
	t.rows.Queue("COMMIT")
	return t.w.Conn.SendBatch(ctx, t.rows).Close()
}

// erase deletes the old rows of erased ids. Their later events may have been inserted already.
func (t *transaction) erase() {
	if len(t.Erased) == 0 {
		return
	}
	actors := column(t.Erased, func(k **plan.ID) int64 { return (*k).Num })
	t.rows.Queue("DELETE FROM event USING unnest($1::bigint[], $2::bigint[]) AS gone (actor, number) WHERE event.actor = gone.actor AND event.number < gone.number",
		actors, column(t.Erased, func(k **plan.ID) int64 { return (*k).Erased }))
	for _, table := range []string{"state", "snapshot", "outbox", "reminder"} {
		t.rows.Queue("DELETE FROM "+table+" WHERE actor = ANY($1)", actors)
	}
}

// column returns one column of some rows.
func column[R, V any](rows []R, of func(*R) V) []V {
	list := make([]V, len(rows))
	for i := range rows {
		list[i] = of(&rows[i])
	}
	return list
}

// event returns the columns of an event, for COPY.
func (t *transaction) event(i int) ([]any, error) {
	e := &t.Events[i]
	var typ any
	if e.Type != 0 {
		typ = int32(e.Type)
	}
	return []any{e.Actor, e.Number, e.Position, t.Batch.Time, int64(e.Sum), typ, int16(e.Part), plan.Bytes(e.Payload)}, nil
}

func (t *transaction) events() {
	if len(t.Events) == 0 {
		return
	}
	t.rows.Queue(`INSERT INTO event (actor, number, position, sum, type, part, data, time)
		SELECT actor, number, position, sum, nullif(type, 0), part, data, $8
		FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::integer[], $6::smallint[], $7::bytea[]) AS e (actor, number, position, sum, type, part, data)`,
		column(t.Events, func(e *plan.Event) int64 { return e.Actor }), column(t.Events, func(e *plan.Event) int64 { return e.Number }),
		column(t.Events, func(e *plan.Event) int64 { return e.Position }), column(t.Events, func(e *plan.Event) int64 { return int64(e.Sum) }),
		column(t.Events, func(e *plan.Event) int32 { return int32(e.Type) }), column(t.Events, func(e *plan.Event) int16 { return int16(e.Part) }),
		column(t.Events, func(e *plan.Event) []byte { return plan.Bytes(e.Payload) }), t.Batch.Time)
}

// ids writes the numbers of the ids.
func (t *transaction) ids() {
	if len(t.Touched) == 0 {
		return
	}
	t.rows.Queue(`INSERT INTO actor (num, last, erased, sent, id) SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::text[])
		ON CONFLICT (num) DO UPDATE SET last = excluded.last, erased = excluded.erased, sent = excluded.sent`,
		column(t.Touched, func(k **plan.ID) int64 { return (*k).Num }), column(t.Touched, func(k **plan.ID) int64 { return (*k).Last }),
		column(t.Touched, func(k **plan.ID) int64 { return (*k).Erased }), column(t.Touched, func(k **plan.ID) int64 { return (*k).Sent }),
		column(t.Touched, func(k **plan.ID) string { return (*k).ID }))
}

// messages writes the outbox, and takes out of it what was delivered.
func (t *transaction) messages() {
	if len(t.Messages) > 0 {
		t.rows.Queue(`INSERT INTO outbox (actor, number, position, sum, type, part, receiver, data, time)
			SELECT *, $9 FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::integer[], $6::smallint[], $7::text[], $8::bytea[])`,
			column(t.Messages, func(m *plan.Message) int64 { return m.Actor }), column(t.Messages, func(m *plan.Message) int64 { return int64(m.Number) }),
			column(t.Messages, func(m *plan.Message) int64 { return m.Position }), column(t.Messages, func(m *plan.Message) int64 { return int64(m.Sum) }),
			column(t.Messages, func(m *plan.Message) int32 { return int32(m.Type) }), column(t.Messages, func(m *plan.Message) int16 { return int16(m.Part) }),
			column(t.Messages, func(m *plan.Message) string { return m.To }), column(t.Messages, func(m *plan.Message) []byte { return plan.Bytes(&m.Payload) }), t.Batch.Time)
	}
	if gone := t.Batch.Delivered; len(gone) > 0 {
		t.rows.Queue(`DELETE FROM outbox USING unnest($1::text[], $2::bigint[]) AS gone (id, number) JOIN actor ON actor.id = gone.id
			WHERE outbox.actor = actor.num AND outbox.number = gone.number`,
			column(gone, func(d *persist.Delivery) string { return d.From }), column(gone, func(d *persist.Delivery) int64 { return int64(d.Number) }))
	}
}

func (t *transaction) states() {
	t.payloads("state", "actor", t.States)
}

// snapshots writes the snapshots, and deletes those beyond the number to keep.
func (t *transaction) snapshots() {
	t.payloads("snapshot", "actor, number", t.Snapshots)
	if len(t.Snapshots) > 0 {
		t.rows.Queue(`DELETE FROM snapshot WHERE actor = ANY($1) AND number <
			(SELECT number FROM snapshot newer WHERE newer.actor = snapshot.actor ORDER BY number DESC LIMIT 1 OFFSET $2)`,
			column(t.Snapshots, func(p *plan.Payload) int64 { return p.Actor }), persist.KeepSnapshots-1)
	}
}

func (t *transaction) payloads(table, key string, list []plan.Payload) {
	if len(list) == 0 {
		return
	}
	t.rows.Queue("INSERT INTO "+table+` (actor, number, sum, type, data) SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::integer[], $5::bytea[])
		ON CONFLICT (`+key+") DO UPDATE SET number = excluded.number, sum = excluded.sum, type = excluded.type, data = excluded.data",
		column(list, func(p *plan.Payload) int64 { return p.Actor }), column(list, func(p *plan.Payload) int64 { return p.Number }),
		column(list, func(p *plan.Payload) int64 { return int64(p.Sum) }), column(list, func(p *plan.Payload) int32 { return int32(p.Type) }),
		column(list, func(p *plan.Payload) []byte { return plan.Bytes(p.Payload) }))
}

func (t *transaction) seen() {
	if len(t.Seen) == 0 {
		return
	}
	t.rows.Queue(`INSERT INTO seen (actor, sender, number) SELECT actor, sender, max(number)
		FROM unnest($1::bigint[], $2::text[], $3::bigint[]) AS s (actor, sender, number) GROUP BY actor, sender
		ON CONFLICT (actor, sender) DO UPDATE SET number = excluded.number WHERE seen.number < excluded.number`,
		column(t.Seen, func(s *plan.Seen) int64 { return s.Actor }), column(t.Seen, func(s *plan.Seen) string { return s.From }),
		column(t.Seen, func(s *plan.Seen) int64 { return int64(s.Number) }))
}

func (t *transaction) reminders() {
	var set, removed []plan.Reminder
	for _, r := range t.Reminders {
		if r.At == 0 {
			removed = append(removed, r)
		} else {
			set = append(set, r)
		}
	}
	actor, key := func(r *plan.Reminder) int64 { return r.Actor }, func(r *plan.Reminder) string { return r.Key }
	if len(removed) > 0 {
		t.rows.Queue("DELETE FROM reminder USING unnest($1::bigint[], $2::text[]) AS gone (actor, key) WHERE reminder.actor = gone.actor AND reminder.key = gone.key",
			column(removed, actor), column(removed, key))
	}
	if len(set) > 0 {
		t.rows.Queue(`INSERT INTO reminder (actor, key, at, sum, type, part, data)
			SELECT * FROM unnest($1::bigint[], $2::text[], $3::bigint[], $4::bigint[], $5::integer[], $6::smallint[], $7::bytea[])
			ON CONFLICT (actor, key) DO UPDATE SET at = excluded.at, sum = excluded.sum, type = excluded.type, data = excluded.data`,
			column(set, actor), column(set, key), column(set, func(r *plan.Reminder) int64 { return r.At }),
			column(set, func(r *plan.Reminder) int64 { return int64(r.Sum) }), column(set, func(r *plan.Reminder) int32 { return int32(r.Type) }),
			column(set, func(r *plan.Reminder) int16 { return int16(r.Part) }), column(set, func(r *plan.Reminder) []byte { return plan.Bytes(&r.Payload) }))
	}
}

// cursors writes the last place of each, in one order for everybody.
func (t *transaction) cursors() {
	type place struct {
		projection string
		part       int
	}
	last := make(map[place]int64)
	for _, c := range t.Batch.Cursors {
		last[place{c.Projection, c.Part}] = int64(c.Position)
	}
	if len(last) == 0 {
		return
	}
	var projections []string
	var parts []int16
	var positions []int64
	for p, position := range last {
		projections, parts, positions = append(projections, p.projection), append(parts, int16(p.part)), append(positions, position)
	}
	t.rows.Queue(`INSERT INTO cursor (projection, part, position) SELECT * FROM unnest($1::text[], $2::smallint[], $3::bigint[]) ORDER BY 1, 2
		ON CONFLICT (projection, part) DO UPDATE SET position = excluded.position`, projections, parts, positions)
}

// counters writes the counters of the partitions, and the number of the batch if the process is still
// known. If it is not, the statement divides by zero, so that the COMMIT after it fails.
func (t *transaction) counters() {
	var nums []int16
	var positions, actors []int64
	for _, k := range t.Touched {
		if p := &t.w.parts[k.Part]; p.position == t.positions[k.Part] {
			p.position++ // so that others see that something has changed
		}
	}
	for part, before := range t.positions {
		if p := &t.w.parts[part]; p.position != before {
			nums, positions, actors = append(nums, int16(part)), append(positions, p.position), append(actors, p.actors)
		}
	}
	if len(nums) > 0 {
		t.rows.Queue(`UPDATE part SET position = p.position, actors = p.actors
			FROM unnest($1::smallint[], $2::bigint[], $3::bigint[]) AS p (num, position, actors) WHERE part.num = p.num`, nums, positions, actors)
	}
	t.rows.Queue("WITH counted AS (UPDATE process SET batch = $2, used = now() WHERE num = $1 RETURNING 1) SELECT 1 / count(*) FROM counted",
		t.w.num, int64(t.w.attempts))
}
