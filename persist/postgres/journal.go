package postgres

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/greenroom-go/greenroom/internal/pgdb"
	"github.com/greenroom-go/greenroom/persist"
)

// Journal is a [persist.Journal] in a schema of a PostgreSQL database. Make it with Open.
// Its methods are safe for concurrent use; commits of one process wait for each other, and
// for those of other processes to the same partitions.
type Journal struct {
	opts     Options
	name     string // the address without the password
	cfg      *pgxpool.Config
	identity string

	pool  *pgxpool.Pool
	types types

	// writing is held, as a channel so that a context can end the wait, by who uses w.
	writing chan struct{}
	w       *writer

	mu     sync.RWMutex // held for reading by who uses the journal
	closed bool         // guarded by mu
}

var _ persist.Journal = (*Journal)(nil)

// Open opens the journal at the address, a URL of the form
// postgres://user:password@host:port/database?sslmode=verify-full, or another form that libpq
// understands; the environment (PGPASSWORD, PGPASSFILE, PGSERVICE and the others) supplies what it
// leaves out. The schema is made if it does not exist. It fails with ErrSchema, ErrServer or
// ErrAddress, or with an error of the connection. Close it when done.
func Open(ctx context.Context, address string, opts Options) (_ *Journal, err error) {
	j := &Journal{opts: opts.withDefaults(), writing: make(chan struct{}, 1)}
	j.types.names = make(map[int32]string)
	j.cfg, j.opts.Schema, err = pgdb.Parse(address, pgdb.Options{
		Schema: opts.Schema, DefaultSchema: DefaultSchema, Readers: opts.Readers, DefaultReaders: DefaultReaders, Timeout: j.opts.QueryTimeout,
	})
	if err != nil {
		return nil, fmt.Errorf("open journal: %w", err)
	}
	j.name = pgdb.Name(j.cfg, j.opts.Schema)
	defer func() {
		if err != nil {
			_ = j.Close() // the error that led here says more
			err = fmt.Errorf("open journal %s: %w", j.name, err)
		}
	}()
	if j.pool, err = pgxpool.NewWithConfig(ctx, j.cfg); err != nil {
		return nil, err
	}
	j.w = &writer{j: j}
	return j, j.w.ready(ctx)
}

// String returns where the journal is, without the password, for logs.
func (j *Journal) String() string { return j.name }

// Info implements [persist.Journal].
func (j *Journal) Info() persist.Info {
	return persist.Info{Kind: "postgres", Identity: j.identity}
}

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

// write calls f with the writer, which has a connection. It is interrupted when ctx ends or
// Options.CommitTimeout has passed.
func (j *Journal) write(ctx context.Context, what string, f func(ctx context.Context, w *writer) error) error {
	end, err := j.begin(ctx, what)
	if err != nil {
		return err
	}
	defer end()
	ctx, cancel := context.WithTimeout(ctx, j.opts.CommitTimeout)
	defer cancel()
	select {
	case j.writing <- struct{}{}:
		defer func() { <-j.writing }()
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", what, context.Cause(ctx))
	}
	if err = j.w.ready(ctx); err == nil {
		err = f(ctx, j.w)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// Claim implements [persist.Journal]. It waits for commits for the shard that are in progress,
// whoever makes them.
func (j *Journal) Claim(ctx context.Context, shard string, epoch uint64) error {
	if epoch > math.MaxInt64 {
		return fmt.Errorf("claim shard %q: epoch must be at most %d, not %d", shard, int64(math.MaxInt64), epoch)
	}
	if pgdb.Impossible(shard) {
		return fmt.Errorf("claim shard: it must be UTF-8 without a zero byte, not %q", shard)
	}
	return j.write(ctx, fmt.Sprintf("claim shard %q with epoch %d", shard, epoch), func(ctx context.Context, w *writer) error {
		tag, err := w.Conn.Exec(ctx, `INSERT INTO claim (shard, epoch) VALUES ($1, $2)
			ON CONFLICT (shard) DO UPDATE SET epoch = excluded.epoch WHERE claim.epoch <= excluded.epoch`, shard, int64(epoch))
		if err == nil && tag.RowsAffected() == 0 {
			return fmt.Errorf("a higher one has it: %w", persist.ErrFenced)
		}
		return err
	})
}

// Commit implements [persist.Journal]. It is interrupted when ctx ends or Options.CommitTimeout has
// passed; a retry of the batch first finds out whether it was committed.
func (j *Journal) Commit(ctx context.Context, b *persist.Batch) error {
	if err := b.Check(); err != nil {
		return err
	}
	return j.write(ctx, "commit", func(ctx context.Context, w *writer) error {
		if err := w.commit(ctx, b); err != nil {
			return fmt.Errorf("%d appends: %w", len(b.Appends), err)
		}
		return nil
	})
}

// Close implements [persist.Journal]. A second Close does nothing.
func (j *Journal) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return nil
	}
	j.closed = true
	if j.pool != nil {
		j.pool.Close()
	}
	if j.w == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return errors.Join(j.w.leave(ctx), j.w.Close(ctx))
}
