package postgres

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/greenroom-go/greenroom/internal/pgdb"
	"github.com/greenroom-go/greenroom/persist"
)

// paged is a query for records in order, cut where a page is full. The first record is always
// returned, whatever its size.
func paged(columns, from, order, limit string) string {
	return fmt.Sprintf(`SELECT %[1]s FROM
		(SELECT *, row_number() OVER w AS nth, sum(length(data)) OVER w AS bytes FROM
			(SELECT * FROM %[2]s ORDER BY %[3]s LIMIT %[4]s) page
		WINDOW w AS (ORDER BY %[3]s ROWS UNBOUNDED PRECEDING)) e
		WHERE nth = 1 OR bytes <= %[5]d`, columns, from, order, limit, persist.PageBytes)
}

const (
	selectActors    = "SELECT num, id, last, erased, sent FROM actor WHERE id = ANY($1)"
	selectStates    = "SELECT actor, number, type, sum, data FROM state WHERE actor IN (SELECT num FROM actor WHERE id = ANY($1))"
	selectNewest    = "SELECT DISTINCT ON (actor) actor, number, type, sum, data FROM snapshot WHERE actor IN (SELECT num FROM actor WHERE id = ANY($1)) ORDER BY actor, number DESC"
	selectSeen      = "SELECT actor, sender, number FROM seen WHERE actor IN (SELECT num FROM actor WHERE id = ANY($1)) ORDER BY actor, sender"
	selectReminders = "SELECT actor, key, at, type, sum, data FROM reminder WHERE actor IN (SELECT num FROM actor WHERE id = ANY($1)) ORDER BY actor, key"
	selectSnapshot  = "SELECT actor, number, type, sum, data FROM snapshot WHERE actor = (SELECT num FROM actor WHERE id = $1) AND number < $2 ORDER BY number DESC LIMIT 1"
	selectEnds      = "SELECT num, position FROM part"
	selectCursors   = "SELECT part, position FROM cursor WHERE projection = $1"
	selectIDs       = "SELECT id FROM actor WHERE id > $1 ORDER BY id LIMIT $2"
)

var (
	selectFirst = "SELECT e.* FROM (SELECT num, coalesce((SELECT max(number) FROM snapshot WHERE actor = num), 0) AS after FROM actor WHERE id = ANY($1)) a CROSS JOIN LATERAL (" +
		paged("actor, number, position, time, type, sum, data", "event WHERE event.actor = a.num AND number > a.after AND type IS NOT NULL", "number", "$2") + ") e ORDER BY actor, number"
	selectEvents = paged("number, position, time, type, sum, data",
		"event WHERE actor = (SELECT num FROM actor WHERE id = $1) AND number > $2 AND type IS NOT NULL", "number", "$3") + " ORDER BY number"
	selectFeed = "SELECT actor.id, number, position, time, type, sum, data FROM (" +
		paged("*", "event WHERE part = $1 AND position > $2", "position", "$3") + ") e JOIN actor ON actor.num = e.actor ORDER BY position"
	selectOutbox = "SELECT actor.id, number, position, time, receiver, type, sum, data FROM (" +
		paged("*", "outbox WHERE part = $1 AND position > $2", "position", "$3") + ") e JOIN actor ON actor.num = e.actor ORDER BY position"
	selectDue = paged("id, key, at, type, sum, data", "reminder JOIN actor ON actor.num = reminder.actor WHERE part = $1 AND at BETWEEN $4 AND $2 AND (at, id, key) > ($4, $5, $6)",
		"at, id, key", "$3") + " ORDER BY at, id, key"
)

// types are the names of the types, by their numbers.
type types struct {
	mu    sync.RWMutex
	names map[int32]string // guarded by mu
}

// errType says that a type is not known yet.
var errType = errors.New("a type is not known")

// load reads all names.
func (t *types) load(ctx context.Context, conn *pgxpool.Conn) error {
	rows, err := conn.Query(ctx, "SELECT num, name FROM type")
	if err != nil {
		return err
	}
	var num int32
	var name string
	t.mu.Lock()
	defer t.mu.Unlock()
	_, err = pgx.ForEachRow(rows, []any{&num, &name}, func() error {
		t.names[num] = name
		return nil
	})
	return err
}

// payload is a payload as the database stores it.
type payload struct {
	typ  *int32
	sum  int64
	data []byte
}

func (j *Journal) payload(p *payload) (persist.Payload, error) {
	if p.typ == nil {
		return persist.Payload{}, nil
	}
	j.types.mu.RLock()
	defer j.types.mu.RUnlock()
	name, ok := j.types.names[*p.typ]
	if !ok {
		return persist.Payload{}, errType
	}
	return persist.Payload{Type: name, Sum: uint32(p.sum), Data: p.data}, nil
}

// read calls f with a connection, and calls it again if the connection turns out to be broken or a
// type was new. f must start over each time.
func (j *Journal) read(ctx context.Context, what string, f func(conn *pgxpool.Conn) error) error {
	end, err := j.begin(ctx, what)
	if err != nil {
		return err
	}
	defer end()
	err = pgdb.Read(ctx, j.pool, func(conn *pgxpool.Conn) error {
		err := f(conn)
		if errors.Is(err, errType) {
			if err = j.types.load(ctx, conn); err == nil {
				err = f(conn)
			}
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// each calls f for the rows of a query.
func each(ctx context.Context, conn *pgxpool.Conn, f func(rows pgx.Rows) error, query string, args ...any) error {
	rows, err := conn.Query(ctx, query, args...)
	if err != nil {
		return err
	}
	return eachOf(rows, f)
}

func eachOf(rows pgx.Rows, f func(rows pgx.Rows) error) error {
	defer rows.Close()
	for rows.Next() {
		if err := f(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

func clamp(n uint64) int64 { return int64(min(n, math.MaxInt64)) }

// atMost is how many records a limit allows.
func atMost(limit int) int { return min(max(limit, 0), persist.PageRecords) }

// inIDs is how many ids are loaded together.
const inIDs = 64

// Load implements [persist.Journal].
func (j *Journal) Load(ctx context.Context, ids []string) ([]persist.Loaded, error) {
	list := make([]persist.Loaded, 0, len(ids))
	for chunk := range slices.Chunk(ids, inIDs) {
		var loaded map[string]*persist.Loaded
		if err := j.read(ctx, "load", func(conn *pgxpool.Conn) (err error) {
			loaded, err = j.load(ctx, conn, slices.DeleteFunc(slices.Clone(chunk), pgdb.Impossible))
			return err
		}); err != nil {
			return nil, err
		}
		for _, id := range chunk {
			if l := loaded[id]; l != nil {
				list = append(list, *l)
			} else {
				list = append(list, persist.Loaded{ID: id})
			}
		}
	}
	return list, nil
}

// load reads what there is of some ids at one moment, in one round trip.
func (j *Journal) load(ctx context.Context, conn *pgxpool.Conn, ids []string) (map[string]*persist.Loaded, error) {
	byID, byNum := make(map[string]*persist.Loaded, len(ids)), make(map[int64]*persist.Loaded, len(ids))
	var b pgx.Batch
	queue := func(query string, f func(rows pgx.Rows) error, args ...any) {
		b.Queue(query, append([]any{ids}, args...)...).Query(func(rows pgx.Rows) error { return eachOf(rows, f) })
	}
	b.Queue("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
	queue(selectActors, func(rows pgx.Rows) error {
		var num int64
		var l persist.Loaded
		err := rows.Scan(&num, &l.ID, &l.Last, &l.Erased, &l.Sent)
		byID[l.ID], byNum[num] = &l, &l
		return err
	})
	queue(selectStates, func(rows pgx.Rows) error {
		num, s, err := j.scanSnapshot(rows)
		if err == nil {
			byNum[num].State = s
		}
		return err
	})
	queue(selectNewest, func(rows pgx.Rows) error {
		num, s, err := j.scanSnapshot(rows)
		if err == nil {
			byNum[num].Snapshot = s
		}
		return err
	})
	queue(selectSeen, func(rows pgx.Rows) error {
		var num int64
		var s persist.Seen
		err := rows.Scan(&num, &s.From, &s.Number)
		if err == nil {
			byNum[num].Seen = append(byNum[num].Seen, s)
		}
		return err
	})
	queue(selectReminders, func(rows pgx.Rows) error {
		var num int64
		var r persist.Reminder
		var p payload
		err := rows.Scan(&num, &r.Key, &r.At, &p.typ, &p.sum, &p.data)
		if err == nil {
			r.ID = byNum[num].ID
			r.Payload, err = j.payload(&p)
			byNum[num].Reminders = append(byNum[num].Reminders, r)
		}
		return err
	})
	queue(selectFirst, func(rows pgx.Rows) error {
		var num int64
		var e persist.Record
		var p payload
		err := rows.Scan(&num, &e.Number, &e.Position, &e.Time, &p.typ, &p.sum, &p.data)
		if err == nil {
			e.ID = byNum[num].ID
			e.Payload, err = j.payload(&p)
			byNum[num].Events = append(byNum[num].Events, e)
		}
		return err
	}, persist.PageRecords)
	b.Queue("COMMIT")
	return byID, conn.SendBatch(ctx, &b).Close()
}

func (j *Journal) scanSnapshot(rows pgx.Rows) (num int64, s *persist.Snapshot, err error) {
	s = new(persist.Snapshot)
	var p payload
	if err := rows.Scan(&num, &s.Number, &p.typ, &p.sum, &p.data); err != nil {
		return 0, nil, err
	}
	s.Payload, err = j.payload(&p)
	return num, s, err
}

// Events implements [persist.Journal].
func (j *Journal) Events(ctx context.Context, id string, after uint64, limit int) (list []persist.Record, err error) {
	if pgdb.Impossible(id) {
		return nil, nil
	}
	err = j.read(ctx, "read events", func(conn *pgxpool.Conn) error {
		list = nil
		return each(ctx, conn, func(rows pgx.Rows) error {
			e := persist.Record{ID: id}
			var p payload
			err := rows.Scan(&e.Number, &e.Position, &e.Time, &p.typ, &p.sum, &p.data)
			if err == nil {
				e.Payload, err = j.payload(&p)
			}
			list = append(list, e)
			return err
		}, selectEvents, id, clamp(after), atMost(limit))
	})
	return list, err
}

// Snapshot implements [persist.Journal].
func (j *Journal) Snapshot(ctx context.Context, id string, below uint64) (s persist.Snapshot, err error) {
	if pgdb.Impossible(id) {
		return s, nil
	}
	err = j.read(ctx, "read a snapshot", func(conn *pgxpool.Conn) error {
		return each(ctx, conn, func(rows pgx.Rows) error {
			_, found, err := j.scanSnapshot(rows)
			if err == nil {
				s = *found
			}
			return err
		}, selectSnapshot, id, clamp(below))
	})
	return s, err
}

// Feed implements [persist.Journal].
func (j *Journal) Feed(ctx context.Context, part int, after uint64, limit int) (list []persist.Record, err error) {
	err = j.read(ctx, "read a feed", func(conn *pgxpool.Conn) error {
		list = nil
		return each(ctx, conn, func(rows pgx.Rows) error {
			var e persist.Record
			var p payload
			err := rows.Scan(&e.ID, &e.Number, &e.Position, &e.Time, &p.typ, &p.sum, &p.data)
			if err == nil {
				e.Erased = p.typ == nil
				e.Payload, err = j.payload(&p)
			}
			list = append(list, e)
			return err
		}, selectFeed, part, clamp(after), atMost(limit))
	})
	return list, err
}

// Ends implements [persist.Journal].
func (j *Journal) Ends(ctx context.Context) ([]uint64, error) {
	ends := make([]uint64, persist.Parts)
	err := j.read(ctx, "read the ends", func(conn *pgxpool.Conn) error {
		return each(ctx, conn, func(rows pgx.Rows) error {
			var part int
			var position int64
			err := rows.Scan(&part, &position)
			if err == nil {
				ends[part] = uint64(position)
			}
			return err
		}, selectEnds)
	})
	if err != nil {
		return nil, err
	}
	return ends, nil
}

// Outbox implements [persist.Journal].
func (j *Journal) Outbox(ctx context.Context, part int, after uint64, limit int) (list []persist.Outgoing, err error) {
	err = j.read(ctx, "read an outbox", func(conn *pgxpool.Conn) error {
		list = nil
		return each(ctx, conn, func(rows pgx.Rows) error {
			var o persist.Outgoing
			var p payload
			err := rows.Scan(&o.From, &o.Number, &o.Position, &o.Time, &o.To, &p.typ, &p.sum, &p.data)
			if err == nil {
				o.Payload, err = j.payload(&p)
			}
			list = append(list, o)
			return err
		}, selectOutbox, part, clamp(after), atMost(limit))
	})
	return list, err
}

// Due implements [persist.Journal].
func (j *Journal) Due(ctx context.Context, part int, now int64, after persist.Reminder, limit int) (list []persist.Reminder, err error) {
	err = j.read(ctx, "read reminders", func(conn *pgxpool.Conn) error {
		list = nil
		return each(ctx, conn, func(rows pgx.Rows) error {
			var r persist.Reminder
			var p payload
			err := rows.Scan(&r.ID, &r.Key, &r.At, &p.typ, &p.sum, &p.data)
			if err == nil {
				r.Payload, err = j.payload(&p)
			}
			list = append(list, r)
			return err
		}, selectDue, part, now, atMost(limit), after.At, pgdb.PossiblePart(after.ID), pgdb.PossiblePart(after.Key))
	})
	return list, err
}

// Cursors implements [persist.Journal].
func (j *Journal) Cursors(ctx context.Context, projection string) ([]uint64, error) {
	list := make([]uint64, persist.Parts)
	if pgdb.Impossible(projection) {
		return list, nil
	}
	err := j.read(ctx, "read cursors", func(conn *pgxpool.Conn) error {
		return each(ctx, conn, func(rows pgx.Rows) error {
			var part int
			var position int64
			err := rows.Scan(&part, &position)
			if err == nil {
				list[part] = uint64(position)
			}
			return err
		}, selectCursors, projection)
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

// IDs implements [persist.Journal].
func (j *Journal) IDs(ctx context.Context, after string, limit int) (list []string, err error) {
	err = j.read(ctx, "list ids", func(conn *pgxpool.Conn) error {
		list = nil
		return each(ctx, conn, func(rows pgx.Rows) error {
			var id string
			err := rows.Scan(&id)
			list = append(list, id)
			return err
		}, selectIDs, pgdb.PossiblePart(after), max(limit, 0))
	})
	return list, err
}
