package postgres

import (
	"log/slog"
	"time"

	"github.com/greenroom-go/greenroom/internal/pgdb"
)

// Defaults of Options.
const (
	DefaultSchema         = "greenroom"
	DefaultChangeLogBytes = 64 << 20
	DefaultChangeLogAge   = time.Hour
	DefaultPartitionWidth = 7 * day
	DefaultReaders        = 8
	DefaultLockWait       = 10 * time.Second
	DefaultCommitTimeout  = 30 * time.Second
	DefaultQueryTimeout   = 60 * time.Second
)

const day = 24 * time.Hour

// Options configures a store. The zero value is usable.
type Options struct {
	// Schema is the schema of the store, which is created if it does not exist. The default is the
	// search_path of the address, or DefaultSchema.
	Schema string

	// ChangeLogBytes bounds the change log, from which streams resume. Beyond it, the oldest
	// changes are dropped. The default is DefaultChangeLogBytes.
	ChangeLogBytes int64

	// ChangeLogAge is the age at which changes are dropped from the log, but never within that time
	// after Open, when clients resume. The default is DefaultChangeLogAge; if it is negative, only
	// ChangeLogBytes bounds the log.
	ChangeLogAge time.Duration

	// PartitionWidth is how much time a partition of the telemetry covers, in whole days. It may be
	// changed; existing partitions stay as they are. The indexes of one partition should fit into
	// memory. The default is DefaultPartitionWidth.
	PartitionWidth time.Duration

	// Retention is the age at which all telemetry expires. A partition is dropped, with the blocks
	// of its time, when everything in it is older. 0 keeps everything. Latest values stay.
	Retention time.Duration

	// SealAfter is how long an hour of the history must have received no reading before it is
	// sealed, that is, packed into blocks, which only this package can read. Defaults to
	// DefaultSealAfter; if it is negative, only Compact seals.
	SealAfter time.Duration

	// Readers is how many queries run concurrently; others wait. Each uses its own connection,
	// besides the writer's. The default is the pool_max_conns of the address, or DefaultReaders.
	Readers int

	// LockWait bounds the wait for the lock of the schema: the server may need a moment to notice
	// that a writer is gone. The default is DefaultLockWait.
	LockWait time.Duration

	// Claim makes this one of several servers that open the schema in turn, as the owners of a
	// shard of package cluster do: it is the epoch of the shard. Open takes the schema from a
	// server with a lower Claim without waiting for that server, which may be frozen or cut off;
	// its later writes are refused with ErrTakenOver. Open fails with ErrTakenOver if the schema
	// was opened with a higher Claim. A Claim of 0 means that there is only one server, for whose
	// end Open waits; it and servers with a Claim exclude each other.
	Claim uint64

	// CommitTimeout bounds one attempt of a commit, and QueryTimeout a query. The defaults are
	// DefaultCommitTimeout and DefaultQueryTimeout.
	CommitTimeout, QueryTimeout time.Duration

	// Logger logs what an operator should know. The default is slog.Default.
	Logger *slog.Logger
}

func (o Options) withDefaults() Options {
	if o.ChangeLogBytes <= 0 {
		o.ChangeLogBytes = DefaultChangeLogBytes
	}
	if o.ChangeLogAge == 0 {
		o.ChangeLogAge = DefaultChangeLogAge
	}
	if o.PartitionWidth = o.PartitionWidth.Truncate(day); o.PartitionWidth <= 0 {
		o.PartitionWidth = DefaultPartitionWidth
	}
	if o.SealAfter == 0 {
		o.SealAfter = DefaultSealAfter
	}
	pgdb.Default(&o.LockWait, DefaultLockWait)
	pgdb.Default(&o.CommitTimeout, DefaultCommitTimeout)
	pgdb.Default(&o.QueryTimeout, DefaultQueryTimeout)
	pgdb.DefaultLogger(&o.Logger)
	return o
}
