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

// Options sets up a store. The zero value is a sane one.
type Options struct {
	// Schema is the schema that the store is, made when it does not exist.
	// Defaults to the search_path of the address, and to DefaultSchema.
	Schema string

	// ChangeLogBytes bounds the change log, from which streams resume. When it
	// is larger the oldest changes are dropped. Defaults to
	// DefaultChangeLogBytes.
	ChangeLogBytes int64

	// ChangeLogAge is the age at which changes are dropped from the log, though never within
	// that time after Open: whoever resumes needs them then. Defaults to DefaultChangeLogAge;
	// if it is negative, only ChangeLogBytes bounds the log.
	ChangeLogAge time.Duration

	// PartitionWidth is how much time one partition of the telemetry covers, in
	// whole days. It may be changed: partitions that exist stay as they are. One
	// partition's indexes should fit into memory. Defaults to
	// DefaultPartitionWidth.
	PartitionWidth time.Duration

	// Retention is the age at which telemetry expires, whatever it is. A partition
	// is dropped when all of it is older, and so is what is sealed of its time. 0 keeps everything. What is the latest
	// value stays.
	Retention time.Duration

	// SealAfter is how long no reading must have come for an hour of the history before it is
	// sealed, that is, packed into blocks, which only this package reads. Defaults to
	// DefaultSealAfter; if it is negative, only Compact seals.
	SealAfter time.Duration

	// Readers is how many queries run at the same time; others wait. Each has a
	// connection of its own, beside the one that writes. Defaults to the
	// pool_max_conns of the address, and to DefaultReaders.
	Readers int

	// LockWait is how long the lock of the schema is waited for: the server may
	// need a moment to notice that a writer is gone. Defaults to DefaultLockWait.
	LockWait time.Duration

	// CommitTimeout bounds one try of a commit, QueryTimeout a query. Default to
	// DefaultCommitTimeout and DefaultQueryTimeout.
	CommitTimeout, QueryTimeout time.Duration

	// Logger takes what an operator should know. Defaults to slog.Default.
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
