package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/block"
	"github.com/greenroom-go/greenroom/entity/internal/sealed"
	"github.com/greenroom-go/greenroom/internal/pgdb"
)

// Store is an [entity.Store] in a schema of a PostgreSQL database. Create one with Open. Its
// methods may be called concurrently.
type Store struct {
	opts Options
	name string // the address without the password
	cfg  *pgxpool.Config

	pool *pgxpool.Pool
	long chan struct{} // a semaphore for history queries

	// writing guards w. It is a channel, so that a context can end the wait for it.
	writing chan struct{}
	w       *writer

	spans spans

	// sealer, also a channel, is held by whoever changes blocks and uses packer and decoder, and
	// compacting by Compact, before sealer.
	sealer, compacting chan struct{}
	epoch              int64 // of the schema since it was opened
	packer             sealed.Packer
	decoder            block.Decoder
	sealing            sealing
	runRows            int              // runRows, but for tests
	unpackers          sealed.Unpackers // for those who read blocks

	mu   sync.Mutex
	info entity.StoreInfo // guarded by mu

	opened time.Time

	lost     chan struct{} // closed when another server has taken the schema
	loseOnce sync.Once

	stop func() // ends the goroutines that maintain the store and waits for them
	work chan struct{}
}

var _ entity.Store = (*Store)(nil)

// Open opens the store at the address, a URL of the form
// postgres://user:password@host:port/database?sslmode=verify-full, or anything else that libpq
// accepts; the environment (PGPASSWORD, PGPASSFILE, PGSERVICE and others) supplies what is missing.
// It creates the schema if that does not exist.
//
// It waits for the lock of the schema up to Options.LockWait. It fails with ErrInUse if another
// server holds it, with ErrSchema, ErrServer or ErrAddress, or with an error of the connection.
//
// Close the store when done; an entity runtime closes the store that it was given.
func Open(ctx context.Context, address string, opts Options) (_ *Store, err error) {
	s := &Store{writing: make(chan struct{}, 1), work: make(chan struct{}, 1), sealer: make(chan struct{}, 1), compacting: make(chan struct{}, 1), runRows: runRows, lost: make(chan struct{})}
	s.opts = opts.withDefaults()
	s.sealing = newSealing(s.opts.SealAfter)
	if s.cfg, err = parse(address, &s.opts); err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	s.name = pgdb.Name(s.cfg, s.opts.Schema)
	defer func() {
		if err != nil {
			_ = s.Close() // the error that led here says more
			err = fmt.Errorf("open store %s: %w", s.name, err)
		}
	}()
	if s.pool, err = pgxpool.NewWithConfig(ctx, s.cfg); err != nil {
		return nil, err
	}
	s.long = make(chan struct{}, max(1, s.cfg.MaxConns/2))
	s.w = newWriter(s)
	if err := s.w.ready(ctx); err != nil {
		return nil, err
	}
	s.epoch = s.w.epoch
	if err := s.ahead(ctx, time.Now()); err != nil {
		return nil, err
	}
	s.opened = time.Now()
	s.stop = s.maintain()
	return s, nil
}

// TakenOver returns a channel that is closed when the store finds that another server has taken the
// schema, which it does when it writes. It writes nothing any more then, and what it has read may
// be out of date.
func (s *Store) TakenOver() <-chan struct{} { return s.lost }

// takenOver records that another server has taken the schema, and returns the error.
func (s *Store) takenOver() error {
	s.loseOnce.Do(func() { close(s.lost) })
	return fmt.Errorf("%w: restart this one", ErrTakenOver)
}

// String returns the address of the store without the password, for logs.
func (s *Store) String() string { return s.name }

// Info returns information about the store. It may be called concurrently.
func (s *Store) Info() entity.StoreInfo {
	s.mu.Lock()
	defer s.mu.Unlock()
	info := s.info
	info.SealFailures = s.sealing.failures.Count()
	return info
}

func (s *Store) setInfo(info entity.StoreInfo) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.info = info
}

// beginWrite waits for the writer's connection, and restores it if needed. The caller must call
// end.
func (s *Store) beginWrite(ctx context.Context) (w *writer, end func(), err error) {
	select {
	case s.writing <- struct{}{}:
	case <-ctx.Done():
		return nil, nil, context.Cause(ctx)
	}
	if err := context.Cause(ctx); err != nil {
		<-s.writing
		return nil, nil, err
	}
	if err := s.w.ready(ctx); err != nil {
		<-s.writing
		return nil, nil, err
	}
	return s.w, func() { <-s.writing }, nil
}

// beginLong waits until a history query may run. The caller must call end.
func (s *Store) beginLong(ctx context.Context) (end func(), err error) {
	select {
	case s.long <- struct{}{}:
		return func() { <-s.long }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Close closes the connections, which releases the schema. A second Close does nothing.
func (s *Store) Close() error {
	var errs []error
	if s.stop != nil {
		s.stop()
	}
	if s.pool != nil {
		s.pool.Close()
	}
	if s.w != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		errs = append(errs, s.w.Close(ctx))
	}
	s.stop, s.pool, s.w = nil, nil, nil
	return errors.Join(errs...)
}
