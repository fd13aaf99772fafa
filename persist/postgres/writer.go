package postgres

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"

	"github.com/jackc/pgx/v5"

	"github.com/greenroom-go/greenroom/internal/pgdb"
	"github.com/greenroom-go/greenroom/persist"
	"github.com/greenroom-go/greenroom/persist/internal/plan"
)

// writer is the one connection of this process that writes, with what it knows of the
// database. It holds the lock of the process. When the connection breaks another one is
// made, which waits for that lock, so that the server is done with the old one.
type writer struct {
	pgdb.Writer
	j   *Journal
	num int32 // of the process; 0 before the first connection

	parts  [persist.Parts]partition
	known  int                 // ids in all of parts
	types  map[string]int64    // those that are known
	shards map[string]struct{} // those that are known to have a row
	epochs map[string]uint64   // of the shards of the batch that is written

	done  plan.Outcome // of the last batch that was committed
	tried plan.Outcome // of the one that may have been

	attempts uint64 // to write a batch

	plan plan.Plan
}

// partition is what the writer knows of a partition. It is valid while the position is unchanged,
// because each commit, whoever makes it, changes that.
type partition struct {
	position, actors int64
	ids              map[string]*plan.ID
}

// maxKnown bounds how many ids a writer remembers, 200 bytes each.
const maxKnown = 1 << 17

// forget forgets what is known of the partitions.
func (w *writer) forget() {
	w.known = 0
	for i := range w.parts {
		w.parts[i] = partition{position: -1, ids: make(map[string]*plan.ID)}
	}
}

// ready makes sure that there is a connection. REQUIRES: j.writing held, or nobody else
// has the journal yet.
func (w *writer) ready(ctx context.Context) error {
	return w.Ready(ctx, w.j.cfg.ConnConfig, w.j.opts.LockWait, w.j.opts.CommitTimeout, w.begin)
}

// begin makes a new connection the writer's.
func (w *writer) begin(ctx context.Context) error {
	if err := pgdb.CheckServer(ctx, w.Conn, w.j.opts.Logger); err != nil {
		return err
	}
	w.forget()
	w.types, w.shards = make(map[string]int64), make(map[string]struct{})
	if w.num == 0 {
		return w.enter(ctx)
	}
	if err := w.lock(ctx, w.num); err != nil {
		return err
	}
	var batch uint64
	err := w.Conn.QueryRow(ctx, "SELECT batch FROM process WHERE num = $1", w.num).Scan(&batch)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return fmt.Errorf("%w: open it again", ErrForgotten)
	case err != nil:
		return fmt.Errorf("read what became of the last batch: %w", err)
	case batch == w.tried.Attempt:
		w.done = w.tried
	}
	return nil
}

// forgetAfter is how long a process may be gone or disconnected before it is forgotten.
const forgetAfter = "7 days"

// enter makes the schema if need be, and the row and the lock of the process.
func (w *writer) enter(ctx context.Context) error {
	if err := w.lock(ctx, 0); err != nil { // one process at a time
		return err
	}
	if err := migration.Run(ctx, w.Conn, w.j.opts.Schema); err != nil {
		return err
	}
	if err := w.Conn.QueryRow(ctx, "SELECT identity FROM journal").Scan(&w.j.identity); err != nil {
		return fmt.Errorf("read the identity: %w", err)
	}
	if _, err := w.Conn.Exec(ctx, `DELETE FROM process WHERE used < now() - $1::interval AND pg_try_advisory_xact_lock($2, num)`, forgetAfter, w.class()); err != nil {
		return fmt.Errorf("forget processes: %w", err)
	}
	var num int32
	if err := w.Conn.QueryRow(ctx, "INSERT INTO process DEFAULT VALUES RETURNING num").Scan(&num); err != nil {
		return fmt.Errorf("enter the process: %w", err)
	}
	if err := w.lock(ctx, num); err != nil {
		return err
	}
	if _, err := w.Conn.Exec(ctx, "SELECT pg_advisory_unlock($1, 0)", w.class()); err != nil {
		return fmt.Errorf("unlock the schema: %w", err)
	}
	w.num = num
	return nil
}

// leave removes the row of the process, which nobody will look for any more.
func (w *writer) leave(ctx context.Context) error {
	if w.num == 0 || w.Conn == nil || w.Conn.IsClosed() {
		return nil
	}
	if _, err := w.Conn.Exec(ctx, "SET synchronous_commit = off"); err != nil { // it need not be durable
		return err
	}
	_, err := w.Conn.Exec(ctx, "DELETE FROM process WHERE num = $1", w.num)
	return err
}

// class is the class of this journal's advisory locks.
func (w *writer) class() int32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte("journal " + w.j.opts.Schema)) // it cannot fail
	return int32(h.Sum32() & 0x7fffffff)
}

// lock takes the lock of a process, or with 0 that of the schema.
func (w *writer) lock(ctx context.Context, num int32) error {
	if _, err := w.Conn.Exec(ctx, "SELECT set_config('lock_timeout', $1, false)", pgdb.Milliseconds(w.j.opts.LockWait)); err != nil {
		return fmt.Errorf("take the lock of the process: %w", err)
	}
	if _, err := w.Conn.Exec(ctx, "SELECT pg_advisory_lock($1, $2)", w.class(), num); err != nil {
		return fmt.Errorf("take the lock of the process: %w", err)
	}
	// Commits wait for those of other processes.
	_, err := w.Conn.Exec(ctx, "SELECT set_config('lock_timeout', $1, false)", pgdb.Milliseconds(w.j.opts.CommitTimeout))
	return err
}

// Find implements [plan.Journal], as do the others.
func (w *writer) Find(id string) *plan.ID { return w.parts[persist.PartOf(id)].ids[id] }

// Epoch returns the epoch of a shard.
func (w *writer) Epoch(shard string) uint64 { return w.epochs[shard] }

// Actor returns the number of a new id.
func (w *writer) Actor(part int) int64 {
	p := &w.parts[part]
	p.actors++
	return p.actors*persist.Parts + int64(part)
}

// Position returns the next position of a partition.
func (w *writer) Position(part int) int64 {
	w.parts[part].position++
	return w.parts[part].position
}

// Type returns the number of a type.
func (w *writer) Type(name string) int64 { return w.types[name] }
