package sqlite

import (
	"context"
	"database/sql/driver"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/greenroom-go/greenroom/internal/sqlitedb"
	"github.com/greenroom-go/greenroom/persist"
	"github.com/greenroom-go/greenroom/persist/internal/plan"
)

// maxKnown bounds how many ids the writer remembers, 100 bytes each.
const maxKnown = 1 << 17

// writer is the one connection that writes, with what it knows of the database. When a
// commit fails, what it knows is read again.
type writer struct {
	*sqlitedb.Writer
	session string // of this opening of the journal
	commits atomic.Uint64
	erasing atomic.Bool // there is something to sweep
	tail    *tail
	inserts inserts

	position int64 // that was given last
	actors   int64 // the number of the newest one
	types    map[string]int64
	claims   map[string]uint64
	known    map[string]*plan.ID

	done  plan.Outcome // of the last batch that was committed
	tried plan.Outcome // of the one that may have been, if stale
	stale bool         // a commit has failed

	attempts uint64 // to write a batch

	plan     plan.Plan
	newTypes []string // of the batch that is written
}

// load reads what the writer needs to know.
func (w *writer) load(ctx context.Context) error {
	w.known, w.types, w.claims = make(map[string]*plan.ID), make(map[string]int64), make(map[string]uint64)
	if err := w.Snapshot(ctx, w.read); err != nil {
		return fmt.Errorf("read what the journal has: %w", err)
	}
	w.stale = false
	return nil
}

func (w *writer) read(t *sqlitedb.Tx) error {
	var flushed int64
	const head = "SELECT position, session, batch, flushed, (SELECT coalesce(max(num), 0) FROM actor) FROM head"
	if err := t.Each(head, 5, func(row []driver.Value) (bool, error) {
		if text(row[1]) == w.session && uint64(integer(row[2])) == w.tried.Attempt {
			w.done = w.tried
		}
		w.position, flushed, w.actors = integer(row[0]), integer(row[3]), integer(row[4])
		return true, nil
	}); err != nil {
		return err
	}
	if err := w.tail.load(t, flushed); err != nil {
		return err
	}
	if err := t.Each("SELECT 1 FROM erasing LIMIT 1", 1, func([]driver.Value) (bool, error) {
		w.erasing.Store(true)
		return false, nil
	}); err != nil {
		return err
	}
	if err := t.Each("SELECT name, num FROM type", 2, func(row []driver.Value) (bool, error) {
		w.types[text(row[0])] = integer(row[1])
		return true, nil
	}); err != nil {
		return err
	}
	return t.Each("SELECT shard, epoch FROM claim", 2, func(row []driver.Value) (bool, error) {
		w.claims[text(row[0])] = uint64(integer(row[1]))
		return true, nil
	})
}

// ready reloads what the writer knows if that may be out of date.
func (w *writer) ready(ctx context.Context) error {
	if !w.stale {
		return nil
	}
	return w.load(ctx)
}

func (w *writer) claim(ctx context.Context, shard string, epoch uint64) error {
	if err := w.ready(ctx); err != nil {
		return err
	}
	has, ok := w.claims[shard]
	switch {
	case epoch < has:
		return fmt.Errorf("epoch %d has it: %w", has, persist.ErrFenced)
	case ok && epoch == has:
		return nil
	}
	w.tried = plan.Outcome{}
	err := w.transact(ctx, true, func(t *sqlitedb.Tx) error {
		return t.Exec("INSERT INTO claim (shard, epoch) VALUES (?, ?) ON CONFLICT (shard) DO UPDATE SET epoch = excluded.epoch", shard, int64(epoch))
	})
	if err == nil {
		w.claims[shard] = epoch
	}
	return err
}

func (w *writer) commit(ctx context.Context, b *persist.Batch) error {
	if err := w.ready(ctx); err != nil {
		return err
	}
	return w.done.Commit(b, func() error { return w.write(ctx, b) })
}

// write commits a batch that was not committed before.
func (w *writer) write(ctx context.Context, b *persist.Batch) error {
	if err := w.lookUp(ctx, b); err != nil {
		return fmt.Errorf("look up ids: %w", err)
	}
	w.stale = true // what follows changes what is known
	w.newTypes = w.newTypes[:0]
	w.attempts++
	w.tried = plan.Outcome{Session: b.Session, Number: b.Number, Attempt: w.attempts, Refused: w.plan.Make(w, b)}
	if err := w.transact(ctx, true, (&write{&w.plan, w}).all); err != nil {
		return err
	}
	if len(w.plan.Erased) > 0 {
		w.erasing.Store(true)
	}
	w.done, w.stale = w.tried, false
	w.commits.Add(1)
	w.plan.Forget()
	return nil
}

// Find implements [plan.Journal], as do the others.
func (w *writer) Find(id string) *plan.ID { return w.known[id] }

// Epoch returns the epoch of a shard.
func (w *writer) Epoch(shard string) uint64 { return w.claims[shard] }

// Actor returns the number of a new id.
func (w *writer) Actor(int) int64 {
	w.actors++
	return w.actors
}

// Position returns the next position, of any partition.
func (w *writer) Position(int) int64 {
	w.position++
	return w.position
}

// Type returns the number of a type, giving it one if it has none.
func (w *writer) Type(name string) int64 {
	num, ok := w.types[name]
	if !ok {
		num = int64(len(w.types) + 1)
		w.types[name] = num
		w.newTypes = append(w.newTypes, name)
	}
	return num
}

// lookUp makes sure that the ids of a batch are known.
func (w *writer) lookUp(ctx context.Context, b *persist.Batch) error {
	if len(w.known) > maxKnown {
		clear(w.known)
	}
	var missing []string
	for i := range b.Appends {
		if id := b.Appends[i].ID; w.known[id] == nil {
			w.known[id] = plan.NewID(id)
			missing = append(missing, id)
		}
	}
	for chunk := range slices.Chunk(missing, inIDs) {
		if err := w.find(ctx, chunk); err != nil {
			w.stale = true // some are not known, and seem to be new
			return err
		}
	}
	return nil
}

func (w *writer) find(ctx context.Context, ids []string) error {
	return w.Snapshot(ctx, func(t *sqlitedb.Tx) error {
		return t.Each(selectActors, 5, func(row []driver.Value) (bool, error) {
			k := w.known[text(row[1])]
			k.Num, k.Erased, k.Sent = integer(row[0]), integer(row[3]), integer(row[4])
			k.Last = max(integer(row[2]), w.tail.last(k.Num))
			return true, nil
		}, texts(ids)...)
	})
}

// transact is [sqlitedb.Writer.Transact], and notes when what is known may be wrong.
func (w *writer) transact(ctx context.Context, durable bool, f func(t *sqlitedb.Tx) error) error {
	err := w.Transact(ctx, durable, f)
	w.stale = w.stale || err != nil
	return err
}
