package entity

import (
	"log/slog"
	"time"
)

// Defaults of Config.
const (
	DefaultWindowBytes  = 32 << 20
	DefaultBatchBytes   = 4 << 20
	DefaultBatchDelay   = time.Millisecond
	DefaultStreamBuffer = 4096
)

// Config sets up a Runtime. The zero value is a sane one.
type Config struct {
	// WindowBytes bounds the memory of all readings between Ingest and their
	// commit. When it is used up Ingest waits. Defaults to DefaultWindowBytes.
	WindowBytes int64

	// BatchBytes is the size at which a batch is full and is committed without
	// waiting for BatchDelay. Defaults to DefaultBatchBytes.
	BatchBytes int64

	// BatchDelay is how long the first reading of a batch waits for others when
	// no commit is running. While one is running the next batch gathers anyway.
	// Defaults to DefaultBatchDelay; a negative delay means none.
	BatchDelay time.Duration

	// RetryMin and RetryMax bound the wait before a failed commit is tried
	// again, which doubles from the one to the other. Default to 20 ms and 5 s.
	RetryMin, RetryMax time.Duration

	// StreamBuffer is how many changes a subscription holds for its reader
	// before it gives up with ErrLagged. Defaults to DefaultStreamBuffer.
	StreamBuffer int

	// Logger takes what an operator should know. Defaults to the system's.
	Logger *slog.Logger
}

// withDefaults fills in what is not set.
func (c Config) withDefaults() Config {
	orDefault(&c.WindowBytes, DefaultWindowBytes)
	orDefault(&c.BatchBytes, DefaultBatchBytes)
	orDefault(&c.RetryMin, 20*time.Millisecond)
	orDefault(&c.RetryMax, 5*time.Second)
	orDefault(&c.StreamBuffer, DefaultStreamBuffer)
	if c.BatchDelay == 0 {
		c.BatchDelay = DefaultBatchDelay
	}
	c.RetryMax = max(c.RetryMin, c.RetryMax)
	return c
}

func orDefault[T int | int64 | time.Duration](field *T, def T) {
	if *field <= 0 {
		*field = def
	}
}
