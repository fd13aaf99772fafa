package postgres

import (
	"errors"
	"log/slog"
	"time"

	"github.com/greenroom-go/greenroom/internal/pgdb"
)

// Defaults of Options.
const (
	DefaultSchema        = "greenroom_journal"
	DefaultReaders       = 8
	DefaultLockWait      = 10 * time.Second
	DefaultCommitTimeout = 30 * time.Second
	DefaultQueryTimeout  = 60 * time.Second
)

// Options sets up a journal. The zero value is a sane one.
type Options struct {
	// Schema is the schema that the journal is, made when it does not exist. Defaults to
	// the search_path of the address, and to DefaultSchema.
	Schema string

	// Readers is how many reads run at the same time; others wait. Each has a connection
	// of its own, beside the one that writes. Defaults to the pool_max_conns of the address,
	// and to DefaultReaders.
	Readers int

	// LockWait is how long the end of the process's own last connection is waited for, of
	// which the server may not know yet, and Open waits for another process that is making
	// the schema. Defaults to DefaultLockWait.
	LockWait time.Duration

	// CommitTimeout bounds one try of a commit, QueryTimeout a read. Default to
	// DefaultCommitTimeout and DefaultQueryTimeout.
	CommitTimeout, QueryTimeout time.Duration

	// Logger takes what an operator should know. Defaults to slog.Default.
	Logger *slog.Logger
}

func (o Options) withDefaults() Options {
	pgdb.Default(&o.LockWait, DefaultLockWait)
	pgdb.Default(&o.CommitTimeout, DefaultCommitTimeout)
	pgdb.Default(&o.QueryTimeout, DefaultQueryTimeout)
	pgdb.DefaultLogger(&o.Logger)
	return o
}

var (
	// ErrForgotten says that this process was disconnected for so long that the others have
	// forgotten it: what became of its last batch is not known. It must open the journal again.
	ErrForgotten = errors.New("process forgotten by the journal")

	// ErrSchema says that the schema cannot be used by this version: a newer version wrote
	// it, or another program. Nothing was changed.
	ErrSchema = errors.New("schema not usable by this version")

	// ErrServer says that the PostgreSQL server is too old, or set up in a way in which it
	// cannot be used.
	ErrServer = pgdb.ErrServer

	// ErrAddress says that the address of the journal is not understood. The text never has
	// the password in it.
	ErrAddress = pgdb.ErrAddress
)
