package entity

import (
	"log/slog"
	"time"
)

// Defaults of Config.
const (
	DefaultWindowBytes  = 32 << 20
	DefaultShareBytes   = 1 << 20
	DefaultBatchBytes   = 4 << 20
	DefaultBatchDelay   = time.Millisecond
	DefaultStreamBuffer = 4096
	DefaultHotBytes     = 512 << 20
	DefaultIdleAfter    = 10 * time.Minute

	DefaultPresenceTimeout = 10 * time.Minute
	DefaultPresenceGrace   = 5 * time.Second
	DefaultPresenceReturn  = time.Minute
)

// Config configures a Runtime. The zero value has sensible defaults.
type Config struct {
	// WindowBytes bounds the memory of all readings between Ingest and their commit. When they use
	// it up, Ingest waits. Defaults to DefaultWindowBytes.
	WindowBytes int64

	// ShareBytes is how much of WindowBytes one source may use, see Once.By. A source that has used
	// up its share waits, so that readings of others never wait behind more than this. Defaults to
	// DefaultShareBytes, and is at most WindowBytes.
	ShareBytes int64

	// BatchBytes is the size at which a batch is full and is committed without
	// waiting for BatchDelay. Defaults to DefaultBatchBytes.
	BatchBytes int64

	// BatchDelay is how long a batch waits for more readings before it is committed, while more
	// keep coming. If commits take longer than that, it waits as long as they take, up to four
	// times BatchDelay. If nothing comes for a quarter of the delay, the batch is committed at
	// once; and while a commit is running, the next batch gathers anyway. Defaults to
	// DefaultBatchDelay; a negative delay means none.
	BatchDelay time.Duration

	// RetryMin and RetryMax bound the wait before a failed commit is retried, which doubles from
	// RetryMin to RetryMax. They default to 20 ms and 5 s.
	RetryMin, RetryMax time.Duration

	// StreamBuffer is how many changes a subscription holds for its reader
	// before it gives up with ErrLagged. Defaults to DefaultStreamBuffer.
	StreamBuffer int

	// HotBytes bounds the memory of the entities that have an actor. When they take more, the least
	// recently used go cold: they stay in the store, and are loaded again when they are needed. The
	// bound is not strict: an entity that is working stays. Defaults to DefaultHotBytes.
	HotBytes int64

	// Keys bounds the distinct names of keys that this process knows. No sender may add more new
	// names than remain for all others, see Once.By. Defaults to MaxKeys.
	Keys int

	// IdleAfter is how long an entity may be idle before it goes cold. Defaults to
	// DefaultIdleAfter; a negative time means never.
	IdleAfter time.Duration

	// PresenceTimeout is how long a device without a connection of its own may be silent before it
	// is offline, and PresenceGrace how long a device stays online after it has lost its
	// connection. The type of an entity may override them. They default to DefaultPresenceTimeout
	// and DefaultPresenceGrace; a negative timeout means forever, a negative grace none.
	PresenceTimeout, PresenceGrace time.Duration

	// PresenceReturn is how long devices that were online have to come back after the runtime was
	// opened. Defaults to DefaultPresenceReturn; a negative time means none.
	PresenceReturn time.Duration

	// Logger gets what an operator should know. Defaults to the system's.
	Logger *slog.Logger
}

// withDefaults fills in what is not set.
func (c Config) withDefaults() Config {
	orDefault(&c.WindowBytes, DefaultWindowBytes)
	orDefault(&c.ShareBytes, DefaultShareBytes)
	c.ShareBytes = min(c.ShareBytes, c.WindowBytes)
	orDefault(&c.BatchBytes, DefaultBatchBytes)
	orDefault(&c.RetryMin, 20*time.Millisecond)
	orDefault(&c.RetryMax, 5*time.Second)
	orDefault(&c.StreamBuffer, DefaultStreamBuffer)
	orDefault(&c.HotBytes, DefaultHotBytes)
	orDefault(&c.Keys, MaxKeys)
	if c.IdleAfter == 0 {
		c.IdleAfter = DefaultIdleAfter
	}
	if c.BatchDelay == 0 {
		c.BatchDelay = DefaultBatchDelay
	}
	for field, def := range map[*time.Duration]time.Duration{
		&c.PresenceTimeout: DefaultPresenceTimeout, &c.PresenceGrace: DefaultPresenceGrace, &c.PresenceReturn: DefaultPresenceReturn,
	} {
		switch {
		case *field == 0:
			*field = def
		case *field < 0:
			*field = 0
		}
	}
	c.RetryMax = max(c.RetryMin, c.RetryMax)
	return c
}

func orDefault[T int | int64 | time.Duration](field *T, def T) {
	if *field <= 0 {
		*field = def
	}
}
