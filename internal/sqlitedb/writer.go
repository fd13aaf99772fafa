package sqlitedb

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Writer is the one connection that writes to a database, each of whose commits is synced
// unless it need not be. It is not safe for concurrent use.
//
// A transaction speaks to the driver itself (sql.Conn.Raw): package sql would convert and
// copy each of the thousands of parameters of a batch.
type Writer struct {
	connection

	db   *sql.DB
	lazy bool // the connection does not sync its commits
}

// connection is a connection with the statements that were prepared for it.
type connection struct {
	Conn *sql.Conn

	statements map[string]driver.Stmt
	params     *parameters
}

func newConnection(conn *sql.Conn) connection {
	return connection{Conn: conn, statements: make(map[string]driver.Stmt), params: newParameters()}
}

// Snapshot calls f with a transaction that reads one moment of the database throughout.
func (c *connection) Snapshot(ctx context.Context, f func(t *Tx) error) error {
	return c.Conn.Raw(func(raw any) error {
		t := &Tx{c: c, ctx: ctx, conn: raw.(rawConn)}
		if err := t.Exec("BEGIN"); err != nil {
			return err
		}
		return errors.Join(f(t), t.Exec("ROLLBACK"))
	})
}

func (c *connection) close(bulks ...*Bulk) error {
	err := c.Conn.Raw(func(any) error {
		var errs []error
		for _, b := range bulks {
			errs = append(errs, b.close())
		}
		for _, stmt := range c.statements {
			errs = append(errs, stmt.Close())
		}
		return errors.Join(errs...)
	})
	return errors.Join(err, c.Conn.Close())
}

// OpenWriter opens a database to write to it, in WAL mode and without checkpoints. The pragmas are
// executed before the database becomes one in WAL mode, after which its pages keep their size.
func OpenWriter(ctx context.Context, path string, pragmas ...string) (*Writer, error) {
	dsn := DSN(path, "immediate", append(pragmas, "busy_timeout(5000)", "synchronous(FULL)",
		"cache_size(-64000)", "wal_autocheckpoint(0)", "journal_size_limit(67108864)", "temp_store(MEMORY)")...)
	db, err := sql.Open("sqlite", dsn+"&_journal_mode=WAL") // as _pragma the driver would execute it in the order of the alphabet
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &Writer{connection: newConnection(conn), db: db}, nil
}

// Close closes the connection and what was prepared for it.
func (w *Writer) Close(bulks ...*Bulk) error {
	return errors.Join(w.close(bulks...), w.db.Close())
}

// rawConn is what the driver's connection can do.
type rawConn interface {
	driver.ConnPrepareContext
	driver.ExecerContext
}

// Tx is one transaction. It ends when the function returns that it was given to.
type Tx struct {
	c    *connection
	ctx  context.Context //nolint:containedctx // lives as long as one call of Transact or Snapshot
	conn rawConn
}

// Transact runs f between BEGIN and COMMIT, and takes everything back when that fails. If
// it need not be durable, a loss of power may undo it as long as no durable one comes
// after it; and neither are the commits that others make on Conn, until Durable.
func (w *Writer) Transact(ctx context.Context, durable bool, f func(t *Tx) error) error {
	return w.Conn.Raw(func(raw any) (err error) {
		t := &Tx{c: &w.connection, ctx: ctx, conn: raw.(rawConn)}
		if err := w.sync(t, durable); err != nil {
			return err
		}
		if err := t.Exec("BEGIN IMMEDIATE"); err != nil {
			return err
		}
		defer func() {
			if err == nil {
				return
			}
			if rerr := t.Exec("ROLLBACK"); rerr != nil && !strings.Contains(rerr.Error(), "no transaction is active") {
				err = fmt.Errorf("%w; and the rollback: %w", err, rerr)
			}
		}()
		if err := f(t); err != nil {
			return err
		}
		return t.Exec("COMMIT")
	})
}

// Durable sees to it that the connection syncs its commits, for who uses Conn itself.
func (w *Writer) Durable(ctx context.Context) error {
	if !w.lazy {
		return nil
	}
	return w.Conn.Raw(func(raw any) error { return w.sync(&Tx{ctx: ctx, conn: raw.(rawConn)}, true) })
}

// sync tells the connection whether it is to sync its commits.
func (w *Writer) sync(t *Tx, durable bool) error {
	if durable != w.lazy {
		return nil
	}
	level := "NORMAL"
	if durable {
		level = "FULL"
	}
	_, err := t.conn.ExecContext(t.ctx, "PRAGMA synchronous = "+level, nil)
	if err == nil {
		w.lazy = !durable
	}
	return err
}

// prepare returns a statement, prepared once, with its parameters.
func (t *Tx) prepare(query string, args []any) (driver.Stmt, []driver.NamedValue, error) {
	stmt := t.c.statements[query]
	if stmt == nil {
		var err error
		if stmt, err = t.conn.PrepareContext(t.ctx, query); err != nil {
			return nil, nil, err
		}
		t.c.statements[query] = stmt
	}
	params := t.c.params[:len(args)]
	for i := range args {
		params[i].Value = args[i]
	}
	return stmt, params, nil
}

// Exec executes a statement, which is prepared once.
func (t *Tx) Exec(query string, args ...any) error {
	stmt, params, err := t.prepare(query, args)
	if err != nil {
		return err
	}
	_, err = stmt.(driver.StmtExecContext).ExecContext(t.ctx, params)
	return err
}

// Each runs a statement, which is prepared once, and calls f for each row until it returns
// false or an error. The row has so many columns and is valid until f returns; the texts
// and bytes in it are the caller's.
func (t *Tx) Each(query string, columns int, f func(row []driver.Value) (more bool, err error), args ...any) error {
	stmt, params, err := t.prepare(query, args)
	if err != nil {
		return err
	}
	rows, err := stmt.(driver.StmtQueryContext).QueryContext(t.ctx, params)
	if err != nil {
		return err
	}
	row := make([]driver.Value, columns)
	for more := true; more && err == nil; {
		if err = rows.Next(row); err == nil {
			more, err = f(row)
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return errors.Join(err, rows.Close())
}

// Bulk inserts n rows; fill sets the parameters of row i.
func (t *Tx) Bulk(b *Bulk, n int, fill func(i int, row []driver.NamedValue)) error {
	return b.insert(t.ctx, t.conn, t.c.params, n, fill)
}
