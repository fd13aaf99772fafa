package sqlitedb

import (
	"context"
	"database/sql"
	"errors"
)

// Readers are connections that read a database. They are safe for concurrent use: who
// finds none waits.
type Readers struct {
	db   *sql.DB
	free chan *connection
	all  []*connection
}

// OpenReaders opens n connections.
func OpenReaders(ctx context.Context, path string, n int, pragmas ...string) (_ *Readers, err error) {
	r := &Readers{free: make(chan *connection, n)}
	if r.db, err = sql.Open("sqlite", DSN(path, "deferred", append(pragmas, "busy_timeout(5000)", "query_only(1)")...)); err != nil {
		return nil, err
	}
	r.db.SetMaxOpenConns(n)
	for range n {
		conn, err := r.db.Conn(ctx)
		if err != nil {
			return nil, errors.Join(err, r.Close())
		}
		c := newConnection(conn)
		r.all = append(r.all, &c)
		r.free <- &c
	}
	return r, nil
}

// Mark returns the mark of the database. It is to be called before anything else.
func (r *Readers) Mark(ctx context.Context) (Mark, error) { return ReadMark(ctx, r.all[0].Conn) }

// Snapshot calls f with a transaction that sees one moment of the database throughout.
func (r *Readers) Snapshot(ctx context.Context, f func(t *Tx) error) error {
	var c *connection
	select {
	case c = <-r.free:
		defer func() { r.free <- c }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return c.Snapshot(ctx, f)
}

// Close closes the connections, which nobody may use any more.
func (r *Readers) Close() error {
	var errs []error
	for _, c := range r.all {
		errs = append(errs, c.close())
	}
	return errors.Join(append(errs, r.db.Close())...)
}
