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

// Options configures a journal. The zero value has sensible defaults.
type Options struct {
	// Schema is the schema of the journal, made if it does not exist. It defaults to the
	// search_path of the address, and then to DefaultSchema.
	Schema string

	// Readers is how many reads run at the same time; others wait. Each has a connection of its
	// own, in addition to the one that writes. It defaults to the pool_max_conns of the address,
	// and then to DefaultReaders.
	Readers int

	// LockWait is how long to wait for the end of the process's own last connection, of which the
	// server may not know yet, and how long Open waits for another process that is making the
	// schema. It defaults to DefaultLockWait.
	LockWait time.Duration

	// CommitTimeout bounds one try of a commit, and QueryTimeout a read. They default to
	// DefaultCommitTimeout and DefaultQueryTimeout.
	CommitTimeout, QueryTimeout time.Duration

	// Logger gets what an operator should know. It defaults to slog.Default.
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
	// forgotten it: it is unknown whether its last batch was committed. It must open the journal
	// again.
	ErrForgotten = errors.New("process forgotten by the journal")

	// ErrSchema says that the schema cannot be used by this version: a newer version wrote
	// it, or another program. Nothing was changed.
	ErrSchema = errors.New("schema not usable by this version")

	// ErrServer says that the PostgreSQL server is too old, or configured in a way that makes it
	// unusable.
	ErrServer = pgdb.ErrServer

	// ErrAddress says that the address of the journal is malformed. The text never contains the
	// password.
	ErrAddress = pgdb.ErrAddress
)
