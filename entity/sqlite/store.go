package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/internal/changelog"
	"github.com/greenroom-go/greenroom/entity/internal/sealed"
	"github.com/greenroom-go/greenroom/internal/sqlitedb"
)

const (
	databaseName = "greenroom.db"
	lockName     = "greenroom.lock"
	reserveName  = "greenroom.reserve"

	// readers is the number of queries that run at the same time; others wait.
	readers = 4
	// longReaders is how many of them may be queries of a history, which may take
	// long if the range is wide. The rest is for activations of entities, for which
	// devices wait.
	longReaders = 2

	// pageSize is that of new databases. Most of a history are blocks of 1 to 10 KB, each with a part in
	// a page of its table and the rest in pages of its own. With the usual pages of 4096 bytes a fifth of
	// the database is free space behind these parts.
	pageSize = "page_size(2048)"

	// DefaultChangeLogBytes is the default limit of the change log.
	DefaultChangeLogBytes = 64 << 20
	// DefaultChangeLogAge is the default for how long changes stay in it, if they fit.
	DefaultChangeLogAge = time.Hour
)

// ErrInUse means that another process has the directory open.
var ErrInUse = errors.New("store in use by another process")

// ErrDamaged means that some of the store's files are missing or damaged. The text says which,
// and what can be done. Nothing was changed.
var ErrDamaged = sqlitedb.ErrDamaged

// Options configures a store. The zero value is ready to use.
type Options struct {
	// ChangeLogBytes limits the change log, from which streams resume. When it
	// grows larger, the oldest changes are dropped. Defaults to
	// DefaultChangeLogBytes.
	ChangeLogBytes int64
	// ChangeLogAge is the age at which changes are dropped from the log, though not within
	// that time after Open, because streams that resume need them. Defaults to
	// DefaultChangeLogAge; if it is negative, only ChangeLogBytes limits the log.
	ChangeLogAge time.Duration
	// Existing makes Open fail with an error that wraps [os.ErrNotExist] if there is no store,
	// instead of creating one.
	Existing bool
	// SealAfter is how long an hour of the history must have received no reading before it
	// is sealed, that is, packed into blocks. Defaults to DefaultSealAfter; if it is negative,
	// only Compact seals. Otherwise, 256 values or more of a series that come within some
	// seconds are packed at once.
	SealAfter time.Duration
	// Logger receives what an operator should know. Defaults to [slog.Default].
	Logger *slog.Logger
}

// Store is an [entity.Store] in a directory. Use Open to create one.
type Store struct {
	opts Options
	path string // of the database
	lock *os.File

	// reserve belongs to Open and Close, and between them to the goroutine that makes checkpoints.
	reserve *sqlitedb.Reserve

	readDB  *sql.DB
	queries queries
	long    chan struct{} // holds a token for each query of a history that runs

	copies  *sqlitedb.Checkpoints
	stop    chan struct{}  // closed to end the background goroutines
	working sync.WaitGroup // of these goroutines
	commits atomic.Uint64
	longWAL int   // sqlitedb.LongWAL, except in tests
	maxTail int64 // the constant maxTail, except in tests
	slice   int64 // the constant sliceBytes, except in tests
	opened  time.Time

	unpackers sealed.Unpackers // for reading blocks
	failures  sealed.Failures

	compacting sync.Mutex // held by Compact, before slicing
	slicing    sync.Mutex // held for a slice, before writing, so that a commit rarely waits for more than one
	writing    sync.Mutex
	waiting    atomic.Int32 // how many wait for writing, slices not included
	w          *writer      // guarded by writing
	mark       mark         // guarded by writing
	tail       *tail
	names      *names

	mu   sync.Mutex
	info entity.StoreInfo // guarded by mu
}

var _ entity.Store = (*Store)(nil)

// Open opens the store in the directory dir, and creates both if they do not
// exist. It fails with ErrInUse if another process has the store open, with ErrSchema
// if a newer version wrote it, and with ErrDamaged if some of its files are missing.
//
// Close the store when done. An entity runtime closes the store that it was given.
func Open(ctx context.Context, dir string, opts Options) (_ *Store, err error) {
	if opts.ChangeLogBytes <= 0 {
		opts.ChangeLogBytes = DefaultChangeLogBytes
	}
	if opts.ChangeLogAge == 0 {
		opts.ChangeLogAge = DefaultChangeLogAge
	}
	if opts.SealAfter == 0 {
		opts.SealAfter = DefaultSealAfter
	}
	if opts.Logger == nil {
		opts.Logger = slog.Default()
	}
	dir, err = filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	s := &Store{opts: opts, longWAL: sqlitedb.LongWAL, maxTail: maxTail, slice: sliceBytes, opened: time.Now()}
	defer func() {
		if err != nil {
			_ = s.Close() // the error that led here says more
			err = fmt.Errorf("open store %s: %w", dir, err)
		}
	}()
	if opts.Existing {
		if _, err := os.Stat(filepath.Join(dir, databaseName)); err != nil {
			return nil, err
		}
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, err
	}
	if s.lock, err = sqlitedb.Lock(filepath.Join(dir, lockName)); err != nil {
		return nil, err
	}
	if s.lock == nil {
		return nil, fmt.Errorf("%w: stop the other one, or use another directory", ErrInUse)
	}
	s.path = filepath.Join(dir, databaseName)
	s.reserve = sqlitedb.NewReserve(filepath.Join(dir, reserveName))
	if err := checkFiles(s.path); err != nil {
		return nil, err
	}
	if err := s.openInReserve(ctx); err != nil {
		return nil, err
	}
	s.stop = make(chan struct{})
	s.working.Go(func() { s.checkpoints(s.stop) })
	s.working.Go(func() { s.flushes(s.stop) })
	if opts.ChangeLogAge > 0 {
		s.working.Go(func() { s.shortens(s.stop) })
	}
	if opts.SealAfter > 0 {
		s.working.Go(func() { s.seals(s.stop) })
	}
	return s, nil
}

// openDatabase opens the connections, and reads what is in memory while the store is open.
func (s *Store) openDatabase(ctx context.Context) (err error) {
	s.tail, s.names = newTail(), &names{byNum: make(map[int64]string)}
	if err := s.openWriter(ctx, s.path); err != nil {
		return err
	}
	s.readDB, err = sql.Open("sqlite", sqlitedb.DSN(s.path, "immediate", "busy_timeout(5000)", "query_only(1)", "cache_size(-8000)"))
	if err != nil {
		return err
	}
	s.long = make(chan struct{}, longReaders)
	s.readDB.SetMaxOpenConns(readers)
	s.readDB.SetMaxIdleConns(readers)
	if err := s.queries.prepare(ctx, s.readDB); err != nil {
		return err
	}
	if s.copies, err = sqlitedb.OpenCheckpoints(s.path); err != nil {
		return err
	}
	if err := s.readInfo(ctx); err != nil {
		return err
	}
	return s.replay(ctx)
}

// openWriter opens the connection that writes.
func (s *Store) openWriter(ctx context.Context, path string) error {
	w, err := sqlitedb.OpenWriter(ctx, path, pageSize)
	if err != nil {
		s.removeMark() // SQLite may have removed the WAL when it closed what it had opened
		return err
	}
	from := packFrom
	if s.opts.SealAfter < 0 {
		from = math.MaxInt
	}
	s.w = &writer{Writer: w, packFrom: from, keys: make(map[string]*name), names: s.names, hours: make(map[int64]struct{}), touched: sealed.NewHours(s.opts.SealAfter), runRows: runRows}
	if err := migrate(ctx, w.Conn); err != nil {
		return err
	}
	var computed, commanded bool
	if err := w.Conn.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM applied), EXISTS (SELECT 1 FROM command)").Scan(&computed, &commanded); err != nil {
		return err
	}
	s.names.computed.Store(computed)
	s.names.commanded.Store(commanded)
	return s.w.loadKeys(ctx)
}

// readInfo reads what the store holds. REQUIRES: s.writing held, or nobody
// else has the store yet.
func (s *Store) readInfo(ctx context.Context) error {
	row := s.readDB.QueryRowContext(ctx, `
		SELECT (SELECT value FROM meta WHERE name = 'identity'),
		       (SELECT count(*) FROM entity),
		       coalesce((SELECT min(first) FROM change), 1),
		       coalesce((SELECT first + n - 1 FROM change ORDER BY first DESC LIMIT 1), 0),
		       (SELECT coalesce(sum(length(data)), 0) FROM change)`)
	var info entity.StoreInfo
	if err := row.Scan(&info.Identity, &info.Entities, &info.FirstChange, &info.LastChange, &s.w.logBytes); err != nil {
		return err
	}
	if s.w.generations == nil {
		stored, err := s.readGenerations(ctx)
		if err != nil {
			return fmt.Errorf("read the generations: %w", err)
		}
		s.w.generations = changelog.Begin(stored, info)
	}
	info.Generations = s.w.generations
	s.mu.Lock()
	defer s.mu.Unlock()
	s.info = info
	return nil
}

func (s *Store) readGenerations(ctx context.Context) (list []entity.Generation, err error) {
	rows, err := s.readDB.QueryContext(ctx, "SELECT first, id FROM generation ORDER BY first")
	if err != nil {
		return nil, err
	}
	err = scan(rows, func() error {
		var g entity.Generation
		err := rows.Scan(&g.First, &g.ID)
		list = append(list, g)
		return err
	})
	return list, err
}

// beginLong waits until a query of a history may run. The caller must call end after it.
func (s *Store) beginLong(ctx context.Context) (end func(), err error) {
	select {
	case s.long <- struct{}{}:
		return func() { <-s.long }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// begin waits until nobody else writes. A slice that is writing makes way.
func (s *Store) begin() {
	s.waiting.Add(1)
	s.writing.Lock()
	s.waiting.Add(-1)
}

// beginSlice is begin for who works between the commits.
func (s *Store) beginSlice() {
	s.slicing.Lock()
	s.writing.Lock()
}

// endSlice ends what beginSlice has begun.
func (s *Store) endSlice() {
	s.writing.Unlock()
	s.slicing.Unlock()
}

// Info returns what the store holds. It is safe for concurrent use.
func (s *Store) Info() entity.StoreInfo {
	s.mu.Lock()
	defer s.mu.Unlock()
	info := s.info
	info.SealFailures = s.failures.Count()
	return info
}

// Close completes the tables, closes the database, which copies the rest of the WAL into the
// file, and releases the directory. A second Close does nothing.
func (s *Store) Close() error {
	if s.halt() {
		// If the disk has no room for it, the next Open finds it in the log.
		_ = s.flushAll(context.Background())
	}
	return s.release()
}

// halt ends the goroutines and reports whether there were any.
func (s *Store) halt() bool {
	if s.stop == nil {
		return false
	}
	close(s.stop)
	s.working.Wait()
	s.stop = nil
	return true
}

// release closes everything that is open.
func (s *Store) release() error {
	err := s.closeDatabase()
	if s.reserve != nil {
		s.reserve.Refill() // with what a full disk has just got back
	}
	if s.lock != nil {
		err = errors.Join(err, sqlitedb.Unlock(s.lock))
	}
	s.lock = nil
	return err
}

// closeDatabase closes what openDatabase has opened.
func (s *Store) closeDatabase() error {
	if s.w != nil {
		s.removeMark()
	}
	var errs []error
	if s.copies != nil {
		errs = append(errs, s.copies.Close())
	}
	if s.readDB != nil {
		s.queries.close()
		errs = append(errs, s.readDB.Close())
	}
	if s.w != nil {
		errs = append(errs, s.w.close())
	}
	if s.mark.index != nil {
		errs = append(errs, s.mark.index.Close())
	}
	s.copies, s.readDB, s.w, s.mark.index = nil, nil, nil, nil
	return errors.Join(errs...)
}

// orphans counts rows of entities that do not exist.
const orphans = `SELECT n || ' rows of table ' || t || ' are of an entity that is not there' FROM (
	SELECT 'relation' AS t, count(*) AS n FROM relation WHERE source NOT IN (SELECT num FROM entity) OR target NOT IN (SELECT num FROM entity)
	UNION ALL SELECT 'latest', count(*) FROM latest WHERE entity NOT IN (SELECT num FROM entity)
	UNION ALL SELECT 'attribute', count(*) FROM attribute WHERE entity NOT IN (SELECT num FROM entity)
	UNION ALL SELECT 'command', count(*) FROM command WHERE entity NOT IN (SELECT num FROM entity)
	UNION ALL SELECT 'applied', count(*) FROM applied WHERE entity NOT IN (SELECT num FROM entity)
	UNION ALL SELECT 'block', count(*) FROM block WHERE entity NOT IN (SELECT num FROM entity UNION ALL SELECT num FROM doomed)
	UNION ALL SELECT 'stamp', count(*) FROM stamp WHERE entity NOT IN (SELECT num FROM entity UNION ALL SELECT num FROM doomed)
) WHERE n > 0`

// unlisted counts rows that queries of their series do not find.
const unlisted = `SELECT n || ' rows of telemetry are in hours that the table series_hour does not have' FROM (
	SELECT count(*) AS n FROM telemetry t WHERE NOT EXISTS (SELECT 1 FROM series_hour WHERE entity = t.entity AND key = t.key AND hour = t.hour)
) WHERE n > 0`

// Check reads the whole database, unpacks all blocks, and reports what is wrong with pages, tables,
// indexes and blocks. It takes as long as reading all files. The error wraps ErrDamaged.
func (s *Store) Check(ctx context.Context) error {
	var wrong []error
	for _, query := range []string{"PRAGMA integrity_check", orphans, unlisted} {
		rows, err := s.readDB.QueryContext(ctx, query) //nolint:sqlclosecheck // scan does
		if err == nil {
			err = scan(rows, func() error {
				var text string
				if err := rows.Scan(&text); err != nil || text == "ok" {
					return err
				}
				wrong = append(wrong, errors.New(text))
				return nil
			})
		}
		wrong = append(wrong, err)
	}
	wrong = append(wrong, s.checkBlocks(ctx)...)
	if err := errors.Join(wrong...); err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return nil
}
