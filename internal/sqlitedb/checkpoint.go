package sqlitedb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// Checkpoints copy pages from the WAL into the database, so that the WAL can begin
// anew. SQLite makes them in a commit whenever the WAL has so many pages; whoever
// waits for that commit then waits for some ten megabytes to be written and
// synced as well. Here they are made on a connection of their own, beside the
// commits. What is added meanwhile is left in the WAL, so that under load it would
// never begin anew; when it is long the rest is copied between two commits, after a
// second copy beside them, which makes it short.

const (
	// CheckpointEvery is how often the WAL is copied while there are commits.
	CheckpointEvery = 500 * time.Millisecond
	// LongWAL is the number of pages from which on the WAL is to begin anew: 32 MB, or less if pages
	// are smaller.
	LongWAL = 8192

	pageBytes = 4096 // at most
)

// SpareRoom is what is left on a disk, beside the room for a checkpoint, by whoever moves
// rows that are committed.
const SpareRoom = 4 << 20

// Checkpoints makes checkpoints of a database. A commit takes room of the disk in the WAL.
// All the rest takes room only where enough is left for commits: a checkpoint that cannot
// be finished would take all of it and give nothing back, since the WAL begins anew only
// when all of it is in the database.
type Checkpoints struct {
	// Free is how much room there is on the disk of a directory; Free, but for tests.
	Free func(dir string) (int64, error)

	db   *sql.DB
	path string
}

// OpenCheckpoints opens a database to make checkpoints of it.
func OpenCheckpoints(path string) (*Checkpoints, error) {
	db, err := sql.Open("sqlite", DSN(path, "deferred", "busy_timeout(5000)", "synchronous(FULL)", "cache_size(-2000)"))
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	return &Checkpoints{Free: Free, db: db, path: path}, nil
}

// Close closes the connection.
func (c *Checkpoints) Close() error { return c.db.Close() }

// Queryer is a connection, or several.
type Queryer interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// Fits reports whether the disk has room for so many bytes and a whole checkpoint. It asks
// db; a connection that makes no checkpoints waits for none that is under way.
func (c *Checkpoints) Fits(ctx context.Context, db Queryer, bytes int64) (bool, error) {
	free, err := c.Free(filepath.Dir(c.path))
	if err != nil {
		return true, nil //nolint:nilerr // where it cannot be known a full disk shows when it is written to
	}
	var size int64 // with what is in the WAL
	if err := db.QueryRowContext(ctx, "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size").Scan(&size); err != nil {
		return false, fmt.Errorf("read the size of the database: %w", err)
	}
	file, err := os.Stat(c.path)
	if err != nil {
		return false, err
	}
	return free >= bytes+max(0, size-file.Size()), nil
}

// Make copies the WAL. When it has at least long pages, what has come meanwhile is copied
// between a call of lock and one of unlock, which keep others from committing, so that it
// begins anew.
func (c *Checkpoints) Make(ctx context.Context, long int, lock, unlock func()) error {
	pages, err := c.Copy(ctx)
	if err != nil || pages < long {
		return err
	}
	if _, err := c.Copy(ctx); err != nil {
		return err
	}
	lock()
	defer unlock()
	_, err = c.Copy(ctx)
	return err
}

// Truncate copies the WAL and gives its room on the disk back, between a call of lock and one of
// unlock. It reports whether it has. It does not while somebody reads what is in the WAL, nor while
// the disk is nearly full: commits can use the room that the WAL has, and others could take it.
func (c *Checkpoints) Truncate(ctx context.Context, lock, unlock func()) (done bool, err error) {
	if fits, err := c.Fits(ctx, c.db, LongWAL*pageBytes+SpareRoom); err != nil || !fits {
		return false, err
	}
	if _, err := c.Copy(ctx); err != nil {
		return false, err
	}
	lock()
	defer unlock()
	conn, err := c.db.Conn(ctx) // the only one: whoever commits may need it for room, and has the lock then
	if err != nil {
		return false, err
	}
	defer conn.Close()
	if _, err := conn.ExecContext(ctx, "PRAGMA busy_timeout = 0"); err != nil { // nobody is to wait for a reader
		return false, err
	}
	var busy, pages, copied int
	err = conn.QueryRowContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, &pages, &copied)
	_, back := conn.ExecContext(ctx, "PRAGMA busy_timeout = 5000")
	return busy == 0 && err == nil, errors.Join(err, back)
}

// Copy copies the WAL into the database, if the disk has room for all of it, and waits for
// nobody. It returns how many pages the WAL has, or 0 if there was no room.
func (c *Checkpoints) Copy(ctx context.Context) (pages int, err error) {
	if fits, err := c.Fits(ctx, c.db, 0); err != nil || !fits {
		return 0, err
	}
	var busy, done int
	if err := c.db.QueryRowContext(ctx, "PRAGMA wal_checkpoint(PASSIVE)").Scan(&busy, &pages, &done); err != nil {
		return 0, fmt.Errorf("checkpoint: %w", err)
	}
	return pages, nil
}
