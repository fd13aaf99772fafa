package server

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"sync"
	"time"

	"github.com/mochi-mqtt/server/v2/packets"

	"github.com/greenroom-go/greenroom/entity"
)

// Sources of what is refused: labels.
const (
	sourceMQTT = "mqtt"
	sourceHTTP = "http"
)

// Causes of a refusal besides those of entity.PayloadError. They are labels and
// the keys of the log: a bounded set.
const (
	causeTopic       = "topic"         // not e/{id}/telemetry
	causeID          = "entity_id"     // not an id
	causeTooManyKeys = "too_many_keys" // of an entity, or of all
	causeInvalid     = "invalid"       // any other complaint about the readings
	causePacketSize  = "packet_size"   // the connection was closed over it
	causeRetain      = "retain"        // accepted, but not kept for new subscribers
	causeClosing     = "closing"       // the server shuts down
	causeFailed      = "failed"        // our fault
)

// verdict is what becomes of a message that was not committed.
type verdict struct {
	cause  string
	detail string       // for a person: what was wrong and what would be right
	code   packets.Code // for an MQTT 5 client
	// again says that the message is not at fault: it must not be acknowledged,
	// so that its sender keeps it.
	again bool
}

// judge turns an error of ParseReadings, CheckID or the runtime into a verdict.
func judge(err error) verdict {
	var payload *entity.PayloadError
	var p *problem
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &p) && p.Status < http.StatusInternalServerError:
		return verdict{cause: causeInvalid, detail: p.Detail, code: packets.ErrPayloadFormatInvalid}
	case errors.As(err, &tooLarge):
		return verdict{cause: causePacketSize, detail: err.Error(), code: packets.ErrPacketTooLarge}
	case errors.As(err, &payload):
		code := packets.ErrPayloadFormatInvalid
		if payload.Cause == entity.CauseTooLarge {
			code = packets.ErrQuotaExceeded
		}
		return verdict{cause: payload.Cause, detail: payload.Detail, code: code}
	case errors.Is(err, entity.ErrTooManyKeys):
		return verdict{cause: causeTooManyKeys, detail: err.Error(), code: packets.ErrQuotaExceeded}
	case errors.Is(err, entity.ErrInvalid):
		return verdict{cause: causeInvalid, detail: err.Error(), code: packets.ErrPayloadFormatInvalid}
	case errors.Is(err, entity.ErrClosed), errors.Is(err, context.Canceled):
		return verdict{cause: causeClosing, detail: "the server is shutting down", code: packets.ErrServerShuttingDown, again: true}
	default:
		return verdict{cause: causeFailed, detail: err.Error(), code: packets.ErrImplementationSpecificError, again: true}
	}
}

// refusalLogEvery is how often a cause may be logged. In between it is counted.
const refusalLogEvery = time.Minute

type refusalKey struct{ source, cause string }

type refusalEntry struct {
	count  uint64
	unsaid uint64    // since the last line
	logged time.Time // when that was
}

// refusals counts what was refused, by source and cause, and logs each of them
// once, then once a minute while it goes on: a device with a wrong payload sends
// it thousands of times.
type refusals struct {
	log *slog.Logger
	now func() time.Time

	mu      sync.Mutex
	entries map[refusalKey]*refusalEntry
}

func newRefusals(log *slog.Logger) *refusals {
	return &refusals{log: log, now: time.Now, entries: map[refusalKey]*refusalEntry{}}
}

// add counts a refusal. Where is the topic or the path.
func (r *refusals) add(source, cause, where, detail string) {
	now := r.now()
	r.mu.Lock()
	e := r.entries[refusalKey{source, cause}]
	if e == nil {
		e = &refusalEntry{}
		r.entries[refusalKey{source, cause}] = e
	}
	e.count++
	e.unsaid++
	say, unsaid := e.logged.IsZero() || now.Sub(e.logged) >= refusalLogEvery, e.unsaid
	if say {
		e.logged, e.unsaid = now, 0
	}
	r.mu.Unlock()
	if say {
		r.log.LogAttrs(context.Background(), slog.LevelWarn, "message refused; more of this cause are counted and summed up once a minute",
			slog.String("source", source), slog.String("cause", cause), slog.String("where", shorten(where, 300)),
			slog.String("detail", detail), slog.Uint64("since_last_line", unsaid))
	}
}

// counts returns how much was refused.
func (r *refusals) counts() map[refusalKey]uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make(map[refusalKey]uint64, len(r.entries))
	for k, e := range maps.All(r.entries) {
		out[k] = e.count
	}
	return out
}

func (r *refusals) total() (n uint64) {
	for key, count := range r.counts() {
		if key.cause != causeRetain { // accepted all the same
			n += count
		}
	}
	return n
}

// shorten cuts a text that came from outside for the log.
func shorten(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return s[:limit] + "…"
}
