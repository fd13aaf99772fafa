package sqlite

import (
	"context"
	"crypto/rand"
	"database/sql/driver"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/greenroom-go/greenroom/internal/sqlitedb"
	"github.com/greenroom-go/greenroom/persist"
)

const (
	databaseName = "journal.db"
	lockName     = "journal.lock"
	reserveName  = "journal.reserve"

	// readers is how many reads run at the same time; others wait.
	readers = 4
)

// ErrInUse says that another process has the journal open.
var ErrInUse = errors.New("journal in use by another process")

// ErrDamaged says that a part of the journal's files is missing. The text says which part, and what
// to do. Nothing was changed.
var ErrDamaged = sqlitedb.ErrDamaged

// Options configures a journal. The zero value has sensible defaults.
type Options struct {
	// ReadOnly opens an existing journal to read it, even while a process writes to it. Claim and
	// Commit fail.
	ReadOnly bool
}

// Journal is a [persist.Journal] in a directory. Make it with Open. Its methods are safe
// for concurrent use; commits wait for each other.
type Journal struct {
	identity string
	lock     *os.File // nil if it is read only

	readers *sqlitedb.Readers
	types   types
	copies  *sqlitedb.Checkpoints // nil if it is read only
	// reserve belongs to Open and Close, and between them to maintain; nil if it is read only.
	reserve *sqlitedb.Reserve

	writing  sync.Mutex
	w        *writer    // guarded by writing; nil if it is read only
	tail     *tail      // of the writer; if it is read only, each read looks for its own
	flushing sync.Mutex // held by who flushes
	foreign  atomic.Pointer[foreign]

	mu     sync.RWMutex // held for reading by who uses the journal
	closed bool         // guarded by mu

	stop    chan struct{} // closed to end the checkpoints
	working sync.WaitGroup
}

var _ persist.Journal = (*Journal)(nil)

// Open opens the journal in the directory dir, and creates both if they do not exist. It fails with
// ErrInUse if another process has it open, with ErrSchema if a newer version wrote it, and with
// ErrDamaged if some of it is missing. Close it when done.
func Open(ctx context.Context, dir string, opts Options) (_ *Journal, err error) {
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, fmt.Errorf("open journal: %w", err)
	}
	j := &Journal{}
	defer func() {
		if err != nil {
			_ = j.release() // the error that led here says more
			err = fmt.Errorf("open journal %s: %w", dir, err)
		}
	}()
	path := filepath.Join(dir, databaseName)
	if opts.ReadOnly {
		if _, err := os.Stat(path); err != nil {
			return nil, err
		}
		return j, j.openReaders(ctx, path)
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, err
	}
	if j.lock, err = sqlitedb.Lock(filepath.Join(dir, lockName)); err != nil {
		return nil, err
	}
	if j.lock == nil {
		return nil, fmt.Errorf("%w: stop the other one, or use another directory", ErrInUse)
	}
	if err := sqlitedb.CheckFiles(path, sqlitedb.Known{}); err != nil {
		return nil, err
	}
	j.reserve = sqlitedb.NewReserve(filepath.Join(dir, reserveName))
	if err := j.reserve.Open(path, func() error { return j.openDatabase(ctx, path) }, j.closeDatabase); err != nil {
		return nil, err
	}
	j.stop = make(chan struct{})
	j.working.Go(j.maintain)
	return j, nil
}

// openWriter opens the one connection that writes.
func (j *Journal) openWriter(ctx context.Context, path string) error {
	w, err := sqlitedb.OpenWriter(ctx, path)
	if err != nil {
		return err
	}
	j.tail = newTail()
	j.w = &writer{Writer: w, session: rand.Text(), tail: j.tail, inserts: newInserts()}
	if err := migrate(ctx, w.Conn); err != nil {
		return err
	}
	return j.w.load(ctx)
}

func (j *Journal) openReaders(ctx context.Context, path string) (err error) {
	j.types.names = make(map[int64]string)
	if j.readers, err = sqlitedb.OpenReaders(ctx, path, readers, "cache_size(-16000)"); err != nil {
		return err
	}
	mark, err := j.readers.Mark(ctx)
	if err != nil {
		return err
	}
	if err := check(mark); err != nil {
		return err
	}
	return j.readers.Snapshot(ctx, func(t *sqlitedb.Tx) error {
		return t.Each("SELECT value FROM meta WHERE name = 'identity'", 1, func(row []driver.Value) (bool, error) {
			j.identity = text(row[0])
			return true, nil
		})
	})
}

// Info implements [persist.Journal].
func (j *Journal) Info() persist.Info { return persist.Info{Kind: "sqlite", Identity: j.identity} }

// begin keeps the journal open until end is called. After an error there is nothing to end.
func (j *Journal) begin(ctx context.Context, what string) (end func(), err error) {
	if ctx.Err() != nil {
		return nil, fmt.Errorf("%s: %w", what, context.Cause(ctx))
	}
	j.mu.RLock()
	if j.closed {
		j.mu.RUnlock()
		return nil, fmt.Errorf("%s: %w", what, persist.ErrClosed)
	}
	return j.mu.RUnlock, nil
}

var errReadOnly = errors.New("the journal was opened to be read only")

// beginWrite is begin for a caller that uses j.w.
func (j *Journal) beginWrite(ctx context.Context, what string) (end func(), err error) {
	done, err := j.begin(ctx, what)
	if err != nil {
		return nil, err
	}
	if j.w == nil {
		done()
		return nil, fmt.Errorf("%s: %w", what, errReadOnly)
	}
	if err := j.makeRoom(); err != nil {
		done()
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	j.writing.Lock()
	return func() { j.writing.Unlock(); done() }, nil
}

// Claim implements [persist.Journal].
func (j *Journal) Claim(ctx context.Context, shard string, epoch uint64) error {
	end, err := j.beginWrite(ctx, "claim")
	if err != nil {
		return err
	}
	defer end()
	if epoch > math.MaxInt64 {
		return fmt.Errorf("claim shard %q: epoch must be at most %d, not %d", shard, int64(math.MaxInt64), epoch)
	}
	if err := j.w.claim(context.WithoutCancel(ctx), shard, epoch); err != nil {
		return fmt.Errorf("claim shard %q with epoch %d: %w", shard, epoch, err)
	}
	return nil
}

// Commit implements [persist.Journal]. A commit that has begun is not interrupted when ctx ends: it
// takes milliseconds, and interrupting it would lose the connection.
func (j *Journal) Commit(ctx context.Context, b *persist.Batch) error {
	if err := b.Check(); err != nil {
		return err
	}
	end, err := j.beginWrite(ctx, "commit")
	if err != nil {
		return err
	}
	defer end()
	if err := j.w.commit(context.WithoutCancel(ctx), b); err != nil {
		return fmt.Errorf("commit %d appends: %w", len(b.Appends), err)
	}
	return nil
}

// Close implements [persist.Journal]. A second Close does nothing.
func (j *Journal) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return nil
	}
	j.closed = true
	return j.release()
}

// release closes whatever is open.
func (j *Journal) release() error {
	if j.stop != nil {
		close(j.stop)
		j.working.Wait()
		_ = j.flush() // without it the next Open has more to read
	}
	err := j.closeDatabase()
	if j.reserve != nil {
		j.reserve.Refill() // with what a full disk has just got back
	}
	if j.lock != nil {
		err = errors.Join(err, sqlitedb.Unlock(j.lock))
	}
	return err
}

// makeRoom flushes the tail if it is too long.
func (j *Journal) makeRoom() error {
	if j.tail.size() < maxTail {
		return nil
	}
	return j.flush()
}

// maintain flushes the tail, and copies the WAL into the database on a connection of its
// own, until stop is closed: if a commit did that, its callers would wait for it.
func (j *Journal) maintain() {
	ticker := time.NewTicker(sqlitedb.CheckpointEvery)
	defer ticker.Stop()
	var before uint64
	for {
		select {
		case <-j.stop:
			return
		case <-ticker.C:
		}
		j.reserve.Fill(sqlitedb.SpareRoom)
		n := j.w.commits.Load()
		idle := n == before
		before = n
		if j.w.erasing.Load() {
			_ = j.sweep() // it is tried again
			idle = false
		}
		// An error shows in the next commit, if it matters: without a flush the tail grows,
		// and without a checkpoint the WAL.
		if size := j.tail.size(); size >= flushFrom || idle && size > 0 {
			_ = j.flush()
		} else if idle {
			continue
		}
		_ = j.copies.Make(context.Background(), sqlitedb.LongWAL, j.writing.Lock, j.writing.Unlock)
	}
}
