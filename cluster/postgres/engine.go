// Package postgres provides an engine for package cluster on PostgreSQL 14 or newer, for members
// that need a database anyway:
//
//	engine, err := postgres.Open(ctx, "postgres://shop@db.example/shop", postgres.Config{})
//	defer engine.Close()
//	member, err := cluster.Join(sys, cluster.Config{Engine: engine})
//
// Its map is a table in a schema of its own, which the first member creates; only the role that has
// created it can read it, unless the administrator changes that. A put is one statement, and so
// never leaves a lock behind, whatever happens to its client. The lock of a row serializes puts:
// revisions increase in the order of commits, and a watch that has seen a revision has missed none
// before it. Watches are woken by NOTIFY, and also poll every second.
//
// What was put is on the disk of the server: synchronous_commit is on, whatever the server's default is. With
// synchronous standbys (synchronous_standby_names) it is on those as well. An asynchronous standby that takes over
// may lack the last commits. An engine that notices that its database has gone back to an earlier
// revision refuses all calls from then on, with [ErrWentBack], so that its member loses its lease; see
// [Engine.WentBack]. What was taken from a member that has not noticed, because it was started later, it may take twice:
// who needs more needs a synchronous standby.
package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/greenroom-go/greenroom/cluster"
	"github.com/greenroom-go/greenroom/internal/pgdb"
)

// DefaultSchema is the schema of an engine if neither the Config nor the address names one.
const DefaultSchema = "greenroom_cluster"

const (
	defaultTimeout = 2 * time.Second
	openWithin     = 10 * time.Second
	pollEvery      = time.Second            // so late a watch may be if a notification is lost
	watchAgain     = 100 * time.Millisecond // until a watch that has failed is begun anew
	maxConns       = 4                      // for puts and gets; one more watches
)

var (
	// ErrWentBack says that the database lacks what it had taken, as after the failover to an asynchronous standby.
	// Members that know better must begin anew, in a new process as a rule.
	ErrWentBack = errors.New("the database has gone back to an earlier revision")
	// ErrNoSchema says that no member has created the schema yet, see [Config].
	ErrNoSchema = errors.New("no member of a cluster has been here")
	// ErrClosed says that the engine was closed.
	ErrClosed = errors.New("engine closed")
)

// Config says where an engine keeps its map. The zero value works.
type Config struct {
	// Schema is the schema of the tables. It defaults to the search_path of the address, and then
	// to DefaultSchema. The schema is created if it does not exist, and must have no tables of
	// others.
	Schema string
	// Existing makes Open fail with ErrNoSchema if there is no schema, instead of creating one, for
	// programs that only read.
	Existing bool
	// Timeout bounds each call, even if its context does not; it defaults to 2 seconds.
	Timeout time.Duration
	// Log gets watches that fail; it defaults to slog.Default.
	Log *slog.Logger
}

// Engine is a cluster.Engine. [Open] makes one. It has up to four connections for calls, and one for its
// watches.
type Engine struct {
	cfg     *pgx.ConnConfig
	channel string // of notifications
	timeout time.Duration
	log     *slog.Logger
	calls   chan struct{} // a place for each call under way
	stop    context.CancelFunc
	ended   sync.WaitGroup

	seen atomic.Int64 // the greatest revision that is known to be committed
	back chan struct{}
	once sync.Once // closes back

	mu      sync.Mutex
	idle    []idleConn // guarded by mu
	closed  bool       // guarded by mu
	watches []*watch   // guarded by mu
	wake    func()     // guarded by mu; has the reader look, nil while it does
}

// idleConn is an idle connection.
type idleConn struct {
	*pgx.Conn
	used time.Time
}

var _ cluster.Engine = (*Engine)(nil)

// Open returns the engine on the database with that address, a URL or keywords and values, and
// creates its schema if there is none. The role must be allowed to do that. It fails if the server
// is not available, or does not answer within 10 seconds.
func Open(ctx context.Context, address string, cfg Config) (*Engine, error) {
	timeout := cfg.Timeout
	pgdb.Default(&timeout, defaultTimeout)
	pool, schema, err := pgdb.Parse(address, pgdb.Options{Schema: cfg.Schema, DefaultSchema: DefaultSchema, Timeout: timeout})
	if err != nil {
		return nil, fmt.Errorf("open the engine: %w", err)
	}
	e := &Engine{cfg: pool.ConnConfig, channel: schema, timeout: timeout, log: cmp.Or(cfg.Log, slog.Default()), calls: make(chan struct{}, maxConns), back: make(chan struct{})}
	if err := e.prepare(ctx, schema, cfg.Existing); err != nil {
		return nil, fmt.Errorf("open the engine in %s: %w", pgdb.Name(pool, schema), err)
	}
	reading, stop := context.WithCancel(context.WithoutCancel(ctx))
	e.stop = stop
	e.ended.Go(func() { e.read(reading) })
	return e, nil
}

// Close ends the watches and the connections. Calls that are under way may end with an error.
func (e *Engine) Close() {
	e.mu.Lock()
	e.closed = true
	e.watches = nil
	e.mu.Unlock()
	e.drop()
	e.stop()
	e.ended.Wait()
}

// WentBack returns a channel that is closed when the database has lost something that it had
// accepted, see [ErrWentBack].
func (e *Engine) WentBack() <-chan struct{} { return e.back }

// Put implements cluster.Engine. An error that is neither cluster.ErrUnsure nor that of ctx says that nothing
// was changed.
func (e *Engine) Put(ctx context.Context, key string, value []byte, was cluster.Revision) (cluster.Revision, error) {
	if pgdb.Impossible(key) {
		return 0, fmt.Errorf("put: the key %q must be UTF-8 without a zero byte", key)
	}
	if value == nil {
		value = []byte{}
	}
	var last int64
	var done bool
	sent, err := e.call(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		seen := e.seen.Load()
		// In the simple protocol this is one message, so the server waits for nothing while it
		// holds the lock.
		err := conn.QueryRow(ctx, "SELECT last, done FROM put($1, $2, $3, $4)", pgx.QueryExecModeSimpleProtocol, key, value, int64(was), seen).Scan(&last, &done)
		if err != nil {
			return err
		}
		return e.saw(last, seen)
	})
	switch {
	case err == nil && done:
		return cluster.Revision(last), nil
	case err == nil:
		return 0, fmt.Errorf("put %q at %d: %w", key, was, cluster.ErrConflict)
	case !sent || errors.Is(err, ErrWentBack) || refused(err):
		return 0, fmt.Errorf("put %q: %w", key, err)
	default:
		return 0, fmt.Errorf("put %q: %w: %w", key, cluster.ErrUnsure, err)
	}
}

// refused reports whether the server has answered that nothing was changed. After a fatal error, which ends the
// connection, that is not known.
func refused(err error) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && cmp.Or(e.SeverityUnlocalized, e.Severity) == "ERROR"
}

// Get implements cluster.Engine.
func (e *Engine) Get(ctx context.Context, key string) (cluster.Entry, error) {
	if pgdb.Impossible(key) {
		return cluster.Entry{}, fmt.Errorf("get %q: %w", key, cluster.ErrNotFound)
	}
	at := cluster.Entry{Key: key}
	_, err := e.call(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		var last int64
		var revision *int64
		seen := e.seen.Load()
		err := conn.QueryRow(ctx, "SELECT last, revision, value FROM engine LEFT JOIN entry ON key = $1", key).Scan(&last, &revision, &at.Value)
		if err != nil {
			return err
		}
		if revision == nil {
			return cmp.Or(e.saw(last, seen), cluster.ErrNotFound)
		}
		at.Revision = cluster.Revision(*revision)
		return e.saw(last, seen)
	})
	if err != nil {
		return cluster.Entry{}, fmt.Errorf("get %q: %w", key, err)
	}
	return at, nil
}

// List returns the entries whose keys have a prefix, in the order of their revisions.
func (e *Engine) List(ctx context.Context, prefix string) (entries []cluster.Entry, err error) {
	_, err = e.call(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		_, entries, err = e.newer(ctx, conn, 0)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list %q: %w", prefix, err)
	}
	return slices.DeleteFunc(entries, func(at cluster.Entry) bool { return !strings.HasPrefix(at.Key, prefix) }), nil
}

// saw records that the database has the revision last. It fails if that is less than was known
// before.
func (e *Engine) saw(last, before int64) error {
	if last < before {
		e.once.Do(func() {
			e.log.Error("the database of a cluster has lost what it had taken: this member has to begin anew", slog.Int64("had", before), slog.Int64("has", last))
			close(e.back)
		})
		return fmt.Errorf("%w: it has had %d, and has %d", ErrWentBack, before, last)
	}
	for {
		seen := e.seen.Load()
		if last <= seen || e.seen.CompareAndSwap(seen, last) {
			return nil
		}
	}
}

// call calls f with a connection, and reports whether it did; otherwise nothing was sent.
func (e *Engine) call(ctx context.Context, f func(ctx context.Context, conn *pgx.Conn) error) (sent bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, e.timeout)
	defer cancel()
	select {
	case <-e.back:
		return false, ErrWentBack
	default:
	}
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	select {
	case e.calls <- struct{}{}:
	case <-ctx.Done():
		return false, ctx.Err()
	}
	defer func() { <-e.calls }()
	conn, err := e.acquire(ctx)
	if err != nil {
		return false, err
	}
	err = f(ctx, conn)
	if conn.IsClosed() { // whatever has ended this connection may have ended all
		e.drop()
	} else {
		e.release(conn)
	}
	return true, err
}

// acquire returns a connection that answers.
func (e *Engine) acquire(ctx context.Context) (*pgx.Conn, error) {
	e.mu.Lock()
	closed := e.closed
	var had idleConn
	if n := len(e.idle); n > 0 {
		had, e.idle = e.idle[n-1], e.idle[:n-1]
	}
	e.mu.Unlock()
	switch {
	case closed:
		return nil, ErrClosed
	case pgdb.Usable(ctx, had.Conn, had.used):
		return had.Conn, nil
	case had.Conn != nil:
		closeSoon(had.Conn)
		e.drop()
	}
	return e.dial(ctx)
}

// dial connects. It does not wait for a server that is unavailable.
func (e *Engine) dial(ctx context.Context) (*pgx.Conn, error) {
	conn, err := pgdb.Dial(ctx, e.cfg, 0)
	if err != nil {
		return nil, err
	}
	// With anything less than on, a commit may be lost that was acknowledged.
	if _, err := conn.Exec(ctx, "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') NOT IN ('on', 'remote_apply')"); err != nil {
		closeSoon(conn)
		return nil, err
	}
	return conn, nil
}

func (e *Engine) release(conn *pgx.Conn) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed || conn.PgConn().TxStatus() != 'I' {
		closeSoon(conn)
		return
	}
	e.idle = append(e.idle, idleConn{conn, time.Now()})
}

// drop closes all idle connections.
func (e *Engine) drop() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, c := range e.idle {
		closeSoon(c.Conn)
	}
	e.idle = nil
}

// closeSoon closes a connection without waiting for the server, which may not answer.
func closeSoon(conn *pgx.Conn) {
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = conn.Close(ctx) // it is of no use any more
	}()
}
