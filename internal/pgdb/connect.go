package pgdb

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Dial connects. A server that is just starting up is waited for.
func Dial(ctx context.Context, cfg *pgx.ConnConfig, patience time.Duration) (*pgx.Conn, error) {
	for began := time.Now(); ; {
		conn, err := pgx.ConnectConfig(ctx, cfg)
		if err == nil {
			return conn, nil
		}
		if Code(err) != CodeStarting || time.Since(began) > patience {
			return nil, connectError{err}
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return nil, connectError{err}
		}
	}
}

// connectError is an error of several lines, one for each try to connect, as one
// line without those that say the same.
type connectError struct{ error }

func (e connectError) Error() string {
	var lines []string
	for line := range strings.Lines(e.error.Error()) {
		if line = strings.TrimSpace(line); !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	return strings.ReplaceAll(strings.Join(lines, "; "), ":; ", ": ")
}

func (e connectError) Unwrap() error { return e.error }

// idle is how long a connection may be left alone before it is asked whether it
// is still there.
const idle = time.Second

// Usable reports whether a connection can be used, which may be nil and was used last at
// that time.
func Usable(ctx context.Context, conn *pgx.Conn, used time.Time) bool {
	// One that is in a transaction still could not end it, not even by ROLLBACK.
	if conn == nil || conn.IsClosed() || conn.PgConn().TxStatus() != 'I' {
		return false
	}
	return time.Since(used) < idle || conn.Ping(ctx) == nil
}

// minServer is the oldest PostgreSQL that will do, as server_version_num.
const minServer = 140000

// CheckServer reports what the server lacks, and makes the connection wait for the disk.
func CheckServer(ctx context.Context, conn *pgx.Conn, log *slog.Logger) error {
	var version int
	var encoding, fsync, commit string
	err := conn.QueryRow(ctx, `SELECT current_setting('server_version_num')::integer, current_setting('server_encoding'),
		current_setting('fsync'), current_setting('synchronous_commit')`).Scan(&version, &encoding, &fsync, &commit)
	switch {
	case err != nil:
		return fmt.Errorf("ask for the server's version: %w", err)
	case version < minServer:
		return fmt.Errorf("%w: it is version %d; %d or newer is needed", ErrServer, version/10000, minServer/10000)
	case encoding != "UTF8":
		return fmt.Errorf("%w: the database's encoding is %s; make one with UTF8", ErrServer, encoding)
	case fsync != "on":
		log.LogAttrs(ctx, slog.LevelWarn, "the PostgreSQL server has fsync off: what is acknowledged does not survive the loss of power")
	}
	if commit == "off" { // any other waits for the disk at least
		_, err = conn.Exec(ctx, "SET synchronous_commit = on")
	}
	return err
}

// ReadCommitted is what the statements here are written for, whatever the server's
// default is.
var ReadCommitted = pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadWrite}

// Abort ends a transaction that has failed.
func Abort(ctx context.Context, tx pgx.Tx) error {
	if tx.Conn().IsClosed() {
		return nil
	}
	return Rollback(ctx, tx.Conn())
}

// Rollback ends a transaction that has failed, also when that was because its
// time was up.
func Rollback(ctx context.Context, conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_, err := conn.Exec(ctx, "ROLLBACK")
	return err
}

// readPatience is how long a read is tried again while the server is gone.
const readPatience = 5 * time.Second

// Read runs f with a connection, and again with another one when that one turns
// out to be broken: after the server has restarted all that are in the pool are. f
// begins from the beginning each time.
func Read(ctx context.Context, pool *pgxpool.Pool, f func(conn *pgxpool.Conn) error) error {
	began := time.Now()
	for delay := 5 * time.Millisecond; ; delay = min(2*delay, 500*time.Millisecond) {
		err := Try(ctx, pool, f)
		if err == nil || !disconnected(err) || ctx.Err() != nil || time.Since(began) > readPatience {
			return err
		}
		select {
		case <-time.After(delay):
		case <-ctx.Done():
			return err
		}
	}
}

// Try runs f with a connection once.
func Try(ctx context.Context, pool *pgxpool.Pool, f func(conn *pgxpool.Conn) error) error {
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	return f(conn)
}
