// Package refusal classifies why a message or a request was not taken, and counts that.
// It is what the MQTT broker and the HTTP API of package server share.
package refusal

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/internal/text"
)

// Sources of refused messages. They are labels of a metric.
const (
	MQTT = "mqtt"
	HTTP = "http"
)

// Causes of a refusal besides those of entity.PayloadError. They are labels of a metric
// and keys of the log: a bounded set.
const (
	CauseTopic       = "topic"         // nothing takes the topic
	CauseID          = "entity_id"     // not an id
	CauseTooManyKeys = "too_many_keys" // of an entity, or of all
	CauseInvalid     = "invalid"       // any other complaint about the message
	CausePacketSize  = "packet_size"   // the message was too large to be read
	CauseRetain      = "retain"        // taken, but not kept for new subscribers
	CauseClosing     = "closing"       // the server shuts down
	CauseFailed      = "failed"        // the server has failed
)

// Verdict says what becomes of a message that was not committed.
type Verdict struct {
	Cause  string
	Detail string // for a person: what was wrong and what is expected
	// Retry says that the message is not at fault: it must not be acknowledged, so
	// that its sender keeps it.
	Retry bool
}

// Judge returns the verdict for an error of entity.ParseReadings or of the runtime.
func Judge(err error) Verdict {
	var payload *entity.PayloadError
	switch {
	case errors.As(err, &payload):
		return Verdict{Cause: payload.Cause, Detail: payload.Detail}
	case errors.Is(err, entity.ErrTooManyKeys):
		return Verdict{Cause: CauseTooManyKeys, Detail: err.Error()}
	case errors.Is(err, entity.ErrInvalid):
		return Verdict{Cause: CauseInvalid, Detail: err.Error()}
	case errors.Is(err, entity.ErrClosed), errors.Is(err, context.Canceled):
		return Verdict{Cause: CauseClosing, Detail: "the server is shutting down", Retry: true}
	default:
		return Verdict{Cause: CauseFailed, Detail: err.Error(), Retry: true}
	}
}

// logEvery is how often a cause may be logged. In between it is counted.
const logEvery = time.Minute

// Key is what refusals are counted by.
type Key struct{ Source, Cause string }

type entry struct {
	count  uint64
	unsaid uint64    // since the last line
	logged time.Time // when that was
}

// Counter counts refusals by source and cause. It logs each of them once, then once a
// minute while it goes on: a device with a wrong payload sends it thousands of times.
// Its methods may be called concurrently. Make it with NewCounter.
type Counter struct {
	log *slog.Logger
	now func() time.Time

	mu      sync.Mutex
	entries map[Key]*entry // guarded by mu
}

// NewCounter returns a Counter that logs to log.
func NewCounter(log *slog.Logger) *Counter {
	return &Counter{log: log, now: time.Now, entries: map[Key]*entry{}}
}

// Add counts a refusal. where is the topic or the path.
func (c *Counter) Add(source, cause, where, detail string) {
	now := c.now()
	c.mu.Lock()
	e := c.entries[Key{source, cause}]
	if e == nil {
		e = &entry{}
		c.entries[Key{source, cause}] = e
	}
	e.count++
	e.unsaid++
	say, unsaid := e.logged.IsZero() || now.Sub(e.logged) >= logEvery, e.unsaid
	if say {
		e.logged, e.unsaid = now, 0
	}
	c.mu.Unlock()
	if say {
		c.log.LogAttrs(context.Background(), slog.LevelWarn, "message refused; more of this cause are counted and summed up once a minute",
			slog.String("source", source), slog.String("cause", cause), slog.String("where", text.Shorten(where, 300)),
			slog.String("detail", detail), slog.Uint64("since_last_line", unsaid))
	}
}

// Counts returns how much was refused.
func (c *Counter) Counts() map[Key]uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make(map[Key]uint64, len(c.entries))
	for k, e := range maps.All(c.entries) {
		out[k] = e.count
	}
	return out
}

// Total returns how many messages were refused, by any source and for any cause.
func (c *Counter) Total() (n uint64) {
	for key, count := range c.Counts() {
		if key.Cause != CauseRetain { // taken all the same
			n += count
		}
	}
	return n
}
