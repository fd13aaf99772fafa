package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/greenroom-go/greenroom/internal/sqlitedb"
	"github.com/greenroom-go/greenroom/persist"
)

// maxKnown bounds how many ids the writer remembers, 100 bytes each.
const maxKnown = 1 << 17

// writer is the one connection that writes, with what it knows of the database. When a
// commit fails, what it knows is read again.
//
// It speaks to the driver itself (sql.Conn.Raw): package sql would convert and copy each of
// the thousands of parameters of a batch.
type writer struct {
	conn    *sql.Conn
	session string // of this opening of the journal
	commits atomic.Uint64
	tail    *tail
	params  *sqlitedb.Parameters
	inserts inserts
	single  map[string]driver.Stmt

	position int64 // that was given last
	actors   int64 // the number of the newest one
	types    map[string]int64
	claims   map[string]uint64
	known    map[string]*known

	done  outcome // of the last batch that was committed
	tried outcome // of the one that may have been, if stale
	stale bool    // a commit has failed
	lazy  bool    // the connection does not sync its commits

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

func newWriter(conn *sql.Conn, session string, tail *tail) *writer {
	return &writer{conn: conn, session: session, tail: tail, params: sqlitedb.NewParameters(), inserts: newInserts(), single: make(map[string]driver.Stmt)}
}

func (w *writer) close() error {
	err := w.conn.Raw(func(any) error {
		errs := []error{w.inserts.close()}
		for _, stmt := range w.single {
			errs = append(errs, stmt.Close())
		}
		return errors.Join(errs...)
	})
	return errors.Join(err, w.conn.Close())
}

// load reads what the writer has to know.
func (w *writer) load(ctx context.Context) error {
	var session string
	var batch, flushed int64
	err := w.conn.QueryRowContext(ctx, "SELECT position, session, batch, flushed, (SELECT coalesce(max(num), 0) FROM actor) FROM head").
		Scan(&w.position, &session, &batch, &flushed, &w.actors)
	if err != nil {
		return fmt.Errorf("read the head: %w", err)
	}
	if err := w.tail.load(ctx, w.conn, flushed); err != nil {
		return err
	}
	w.known, w.types, w.claims = make(map[string]*known), make(map[string]int64), make(map[string]uint64)
	if err := w.each(ctx, "SELECT name, num FROM type", func(name string, num int64) { w.types[name] = num }); err != nil {
		return fmt.Errorf("read the types: %w", err)
	}
	if err := w.each(ctx, "SELECT shard, epoch FROM claim", func(shard string, epoch int64) { w.claims[shard] = uint64(epoch) }); err != nil {
		return fmt.Errorf("read the claims: %w", err)
	}
	if session == w.session && uint64(batch) == w.tried.number {
		w.done = w.tried
	}
	w.stale = false
	return nil
}

// each calls f with the rows of a query.
func (w *writer) each(ctx context.Context, query string, f func(string, int64)) error {
	rows, err := w.conn.QueryContext(ctx, query)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var text string
		var n int64
		if err := rows.Scan(&text, &n); err != nil {
			return err
		}
		f(text, n)
	}
	return rows.Err()
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
	err := w.transact(ctx, true, func(t *transaction) error {
		return t.exec("INSERT INTO claim (shard, epoch) VALUES (?, ?) ON CONFLICT (shard) DO UPDATE SET epoch = excluded.epoch", shard, int64(epoch))
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
	rows, err := w.conn.QueryContext(ctx, selectActors, texts(ids)...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var k known
		if err := rows.Scan(&k.num, &k.id, &k.last, &k.erased, &k.sent); err != nil {
			return err
		}
		k.last = max(k.last, w.tail.last(k.num))
		*w.known[k.id] = k
	}
	return rows.Err()
}

// rawConn is what the driver's connection can do.
type rawConn interface {
	driver.ConnPrepareContext
	driver.ExecerContext
}

// transaction is one transaction of the writer.
type transaction struct {
	w    *writer
	ctx  context.Context //nolint:containedctx // lives as long as one call of transact
	conn rawConn
}

// transact runs f between BEGIN and COMMIT, and takes everything back when that fails. If
// it need not be durable, a loss of power may undo it as long as no durable one comes after.
func (w *writer) transact(ctx context.Context, durable bool, f func(t *transaction) error) error {
	return w.conn.Raw(func(raw any) (err error) {
		t := &transaction{w: w, ctx: ctx, conn: raw.(rawConn)}
		if err := t.sync(durable); err != nil {
			return err
		}
		if err := t.exec("BEGIN IMMEDIATE"); err != nil {
			return err
		}
		defer func() {
			if err == nil {
				return
			}
			w.stale = true
			if rerr := t.exec("ROLLBACK"); rerr != nil && !strings.Contains(rerr.Error(), "no transaction is active") {
				err = fmt.Errorf("%w; and the rollback: %w", err, rerr)
			}
		}()
		if err := f(t); err != nil {
			return err
		}
		return t.exec("COMMIT")
	})
}

// sync tells the connection whether it is to sync its commits.
func (t *transaction) sync(durable bool) error {
	if durable != t.w.lazy {
		return nil
	}
	level := "NORMAL"
	if durable {
		level = "FULL"
	}
	_, err := t.conn.ExecContext(t.ctx, "PRAGMA synchronous = "+level, nil)
	if err == nil {
		t.w.lazy = !durable
	}
	return err
}

// exec executes one statement, which is prepared once.
func (t *transaction) exec(query string, args ...any) error {
	stmt := t.w.single[query]
	if stmt == nil {
		var err error
		if stmt, err = t.conn.PrepareContext(t.ctx, query); err != nil {
			return err
		}
		t.w.single[query] = stmt
	}
	values := make([]driver.NamedValue, len(args))
	for i, arg := range args {
		values[i] = driver.NamedValue{Ordinal: i + 1, Value: arg}
	}
	_, err := stmt.(driver.StmtExecContext).ExecContext(t.ctx, values)
	return err
}
