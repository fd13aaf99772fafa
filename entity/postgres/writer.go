package postgres

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/internal/changelog"
	"github.com/greenroom-go/greenroom/internal/pgdb"
)

// writer is the only connection that writes, with what it caches of the database. It holds the lock
// of the schema, so that nobody else writes, or shares the lock with servers of other claims, of
// which the row of the table greenroom lets only the last one write. If the connection breaks, it
// is replaced, and the lock taken again; if another server has held the lock in between, nothing is
// written any more.
type writer struct {
	pgdb.Writer
	s        *Store
	identity string // of the store, "" before the first connection
	epoch    int64  // of the store, since it was opened
	state    state
	keys     map[string]int32

	// generations ends with that of the next commit. begun reports whether that is in the table: it
	// is written with the first commit.
	generations []entity.Generation
	begun       bool

	// unsure is the commit that was interrupted when the connection broke, or nil.
	unsure *attempt
	// merging is how many commits will merge their telemetry instead of copying it.
	merging int
	rows    []telemetryRow // empty; reused by the next commit
	ended   changelog.Ended
}

// state is the last committed row of the table greenroom.
type state struct {
	commits, lastChange, logBytes, entities, lastEntity, lastKey int64
}

// attempt is a commit that may have taken effect: if so, the counter is commits.
type attempt struct {
	commits int64
	first   uint64
	records int
}

func newWriter(s *Store) *writer { return &writer{s: s} }

// ready ensures that there is a connection that holds the lock and is up to date. REQUIRES:
// s.writing held, or nobody else has the store yet.
func (w *writer) ready(ctx context.Context) error {
	return w.Ready(ctx, w.s.cfg.ConnConfig, w.s.opts.LockWait, w.s.opts.CommitTimeout, w.begin)
}

// begin initializes a new connection of the writer.
func (w *writer) begin(ctx context.Context) error {
	if err := pgdb.CheckServer(ctx, w.Conn, w.s.opts.Logger); err != nil {
		return err
	}
	if err := w.lock(ctx); err != nil {
		return err
	}
	if w.identity == "" {
		if err := migration.Run(ctx, w.Conn, w.s.opts.Schema); err != nil {
			return err
		}
		if err := w.claim(ctx); err != nil {
			return err
		}
	}
	return w.load(ctx)
}

// claim begins an epoch: from then on, whatever others have read is out of date, and their writes
// are refused.
func (w *writer) claim(ctx context.Context) error {
	claim := int64(w.s.opts.Claim)
	if claim > 0 {
		if err := w.evict(ctx, claim); err != nil {
			return err
		}
	}
	// The same claim may come again, when a server that has failed opens the store once more.
	err := w.Conn.QueryRow(ctx, "UPDATE greenroom SET epoch = epoch + 1, claim = greatest(claim, $1::bigint) WHERE $1::bigint = 0 OR claim <= $1::bigint RETURNING epoch", claim).Scan(&w.epoch)
	if errors.Is(err, pgx.ErrNoRows) {
		return fmt.Errorf("%w, whose claim is higher than %d", ErrTakenOver, claim)
	}
	if err != nil {
		return fmt.Errorf("begin an epoch: %w", err)
	}
	return nil
}

// evict ends the connections of servers with lower claims that hold a lock of the schema. A server
// that is frozen in a transaction would keep its locks for as long as the kernel keeps the
// connection. A running server is not harmed: if it is evicted wrongly, it connects again.
func (w *writer) evict(ctx context.Context, claim int64) error {
	var highest int64
	if err := w.Conn.QueryRow(ctx, "SELECT claim FROM greenroom").Scan(&highest); err != nil {
		return fmt.Errorf("read the claim: %w", err)
	}
	if highest > claim {
		return nil // which claim refuses
	}
	_, err := w.Conn.Exec(ctx, `SELECT pg_terminate_backend(pid, $1) FROM
		(SELECT DISTINCT pid FROM pg_locks WHERE locktype = 'advisory' AND granted AND classid::bigint = ANY($2) AND objid::bigint = $3
			AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) AND pid <> pg_backend_pid()) others`,
		evictWithin.Milliseconds(), []int64{lockClass, blockLockClass}, int64(lockKey(w.s.opts.Schema)))
	if err != nil {
		return fmt.Errorf("end the connections of the servers before: %w", err)
	}
	return nil
}

// evictWithin bounds the wait for the end of each connection.
const evictWithin = 5 * time.Second

// lockClass identifies our advisory locks ("grnr"), together with a hash of the schema's name.
const lockClass = 0x67726e72

// lockKey returns the part that the locks of a schema have in common.
func lockKey(schema string) int32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(schema)) // it cannot fail
	return int32(h.Sum32() & 0x7fffffff)
}

// lock takes the lock of the schema, which servers with a claim share.
func (w *writer) lock(ctx context.Context) error {
	key := lockKey(w.s.opts.Schema)
	if _, err := w.Conn.Exec(ctx, "SELECT set_config('lock_timeout', $1, false)", pgdb.Milliseconds(w.s.opts.LockWait)); err != nil {
		return fmt.Errorf("lock the schema: %w", err)
	}
	lock := "SELECT pg_advisory_lock($1, $2)"
	if w.s.opts.Claim > 0 { // the claims are what keeps these apart
		lock = "SELECT pg_advisory_lock_shared($1, $2)"
	}
	_, err := w.Conn.Exec(ctx, lock, int32(lockClass), key)
	if pgdb.Code(err) == pgdb.CodeNoLock {
		return fmt.Errorf("%w: %s; stop that one, or name another schema with search_path", ErrInUse, w.holder(ctx, key))
	}
	if err != nil {
		return fmt.Errorf("lock the schema: %w", err)
	}
	return nil
}

// holder describes the holder of the lock.
func (w *writer) holder(ctx context.Context, key int32) string {
	var app, from, pid string
	err := w.Conn.QueryRow(ctx, `SELECT coalesce(a.application_name, ''), coalesce(host(a.client_addr), 'this machine'), l.pid::text
		FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid
		WHERE l.locktype = 'advisory' AND l.granted AND l.classid::bigint = $1 AND l.objid::bigint = $2
			AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())`, int64(lockClass), int64(key)).Scan(&app, &from, &pid)
	if err != nil {
		return "who it is cannot be seen"
	}
	return fmt.Sprintf("%q on %s, by the server's process %s", app, from, pid)
}

// load reads what the writer must know, and determines whether an interrupted commit took effect.
func (w *writer) load(ctx context.Context) error {
	var identity string
	var epoch, first int64
	var now state
	err := w.Conn.QueryRow(ctx, `SELECT identity, epoch, commits, last_change, log_bytes, entities, last_entity, last_key,
			coalesce((SELECT min(first) FROM change), last_change + 1) FROM greenroom`).
		Scan(&identity, &epoch, &now.commits, &now.lastChange, &now.logBytes, &now.entities, &now.lastEntity, &now.lastKey, &first)
	if err != nil {
		return fmt.Errorf("read the state: %w", err)
	}
	known := w.identity == "" || now.commits == w.state.commits || w.unsure != nil && now.commits == w.unsure.commits
	if epoch != w.epoch || w.identity != "" && identity != w.identity || !known {
		return w.s.takenOver()
	}
	if err := w.loadKeys(ctx); err != nil {
		return fmt.Errorf("read the keys: %w", err)
	}
	if err := w.s.spans.load(ctx, w.Conn); err != nil {
		return fmt.Errorf("read the partitions: %w", err)
	}
	info := entity.StoreInfo{Identity: identity, LastChange: uint64(now.lastChange), FirstChange: uint64(first), Entities: now.entities}
	if w.generations == nil {
		rows, err := w.Conn.Query(ctx, "SELECT first, id FROM generation ORDER BY first")
		if err != nil {
			return fmt.Errorf("read the generations: %w", err)
		}
		stored, err := pgx.CollectRows(rows, pgx.RowToStructByPos[entity.Generation])
		if err != nil {
			return fmt.Errorf("read the generations: %w", err)
		}
		w.generations = changelog.Begin(stored, info)
	}
	info.Generations = w.generations
	w.identity, w.state = identity, now
	w.s.setInfo(info)
	return nil
}

func (w *writer) loadKeys(ctx context.Context) error {
	rows, err := w.Conn.Query(ctx, "SELECT name, num FROM key")
	if err != nil {
		return err
	}
	w.keys = make(map[string]int32)
	var name string
	var num int32
	_, err = pgx.ForEachRow(rows, []any{&name, &num}, func() error {
		w.keys[name] = num
		return nil
	})
	return err
}

// update calls f with the writer's connection, between two commits.
func (s *Store) update(ctx context.Context, f func(ctx context.Context, w *writer) error) error {
	ctx, cancel := context.WithTimeout(ctx, s.opts.CommitTimeout)
	defer cancel()
	w, end, err := s.beginWrite(ctx)
	if err != nil {
		return err
	}
	defer end()
	return fullError(f(ctx, w))
}

// transact runs f in a transaction, unless the store was taken over. REQUIRES: s.writing held.
func (w *writer) transact(ctx context.Context, f func(tx pgx.Tx) error) error {
	tx, err := w.Conn.BeginTx(ctx, pgdb.ReadCommitted)
	if err != nil {
		return err
	}
	if err := w.current(ctx, tx); err != nil {
		return errors.Join(err, pgdb.Abort(ctx, tx))
	}
	if err := f(tx); err != nil {
		return errors.Join(err, pgdb.Abort(ctx, tx))
	}
	return tx.Commit(ctx)
}

// current returns nil if the store was not taken over, nor will be before the transaction has ended.
func (w *writer) current(ctx context.Context, tx pgx.Tx) error {
	var epoch int64
	if err := tx.QueryRow(ctx, "SELECT epoch FROM greenroom FOR SHARE").Scan(&epoch); err != nil {
		return fmt.Errorf("read the epoch: %w", err)
	}
	if epoch != w.epoch {
		return w.s.takenOver()
	}
	return nil
}
