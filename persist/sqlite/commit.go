package sqlite

import (
	"context"
	"database/sql/driver"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/greenroom-go/greenroom/internal/sqlitedb"
	"github.com/greenroom-go/greenroom/persist"
)

// maxKnown bounds how many ids the writer remembers, 100 bytes each.
const maxKnown = 1 << 17

// writer is the one connection that writes, with what it knows of the database. When a
// commit fails, what it knows is read again.
type writer struct {
	*sqlitedb.Writer
	session string // of this opening of the journal
	commits atomic.Uint64
	tail    *tail
	inserts inserts

	position int64 // that was given last
	actors   int64 // the number of the newest one
	types    map[string]int64
	claims   map[string]uint64
	known    map[string]*known

	done  outcome // of the last batch that was committed
	tried outcome // of the one that may have been, if stale
	stale bool    // a commit has failed

	plan plan
}

// outcome is what became of a batch.
type outcome struct {
	number  uint64
	refused map[int]error // by its appends
}

// known is an id as the journal has it, or as the batch that is made will have left it.
type known struct {
	num                int64 // 0 for one that was never written to
	id                 string
	last, erased, sent int64
	fresh, touched     bool // by the batch that is made
	dirty              bool // by the batch, in more than by events
}

// load reads what the writer has to know.
func (w *writer) load(ctx context.Context) error {
	w.known, w.types, w.claims = make(map[string]*known), make(map[string]int64), make(map[string]uint64)
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
		if text(row[1]) == w.session && uint64(integer(row[2])) == w.tried.number {
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

// ready reads again what is known, if that may be wrong.
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
	w.tried = outcome{}
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
	switch {
	case b.Number < w.done.number:
		return fmt.Errorf("batch %d comes after batch %d", b.Number, w.done.number)
	case b.Number > w.done.number:
		if err := w.write(ctx, b); err != nil {
			return err
		}
	}
	for i := range b.Appends {
		b.Appends[i].Err = w.done.refused[i]
	}
	return nil
}

// write commits a batch that was not committed before.
func (w *writer) write(ctx context.Context, b *persist.Batch) error {
	if err := w.lookUp(ctx, b); err != nil {
		return fmt.Errorf("look up ids: %w", err)
	}
	w.stale = true // what follows changes what is known
	p := &w.plan
	p.begin(w, b)
	refused := make(map[int]error)
	wrong := make(map[string]error) // by id
	for i := range b.Appends {
		a := &b.Appends[i]
		k, err := w.known[a.ID], wrong[a.ID]
		if err == nil {
			err = w.check(a, k)
		}
		if err != nil {
			wrong[a.ID], refused[i] = err, err
			continue
		}
		p.add(k, a)
	}
	w.tried = outcome{b.Number, refused}
	if err := w.transact(ctx, true, p.write); err != nil {
		return err
	}
	for _, k := range p.erased {
		w.tail.forget(k.num, persist.PartOf(k.id), k.erased)
	}
	w.done, w.stale = w.tried, false
	w.commits.Add(1)
	p.end()
	return nil
}

// check returns the error with which an append is refused.
func (w *writer) check(a *persist.Append, k *known) error {
	if epoch := w.claims[a.Shard]; a.Shard != "" && a.Epoch < epoch {
		return fmt.Errorf("append to %q: epoch %d of shard %q has come after %d: %w", a.ID, epoch, a.Shard, a.Epoch, persist.ErrFenced)
	}
	if a.After != uint64(k.last) {
		return fmt.Errorf("append to %q after number %d: its number is %d: %w", a.ID, a.After, k.last, persist.ErrConflict)
	}
	return nil
}

// lookUp makes sure that the ids of a batch are known.
func (w *writer) lookUp(ctx context.Context, b *persist.Batch) error {
	if len(w.known) > maxKnown {
		clear(w.known)
	}
	var missing []string
	for i := range b.Appends {
		if id := b.Appends[i].ID; w.known[id] == nil {
			w.known[id] = &known{id: id}
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
			k.num, k.erased, k.sent = integer(row[0]), integer(row[3]), integer(row[4])
			k.last = max(integer(row[2]), w.tail.last(k.num))
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
