// Package refusal classifies why a message or a request was refused, and counts refusals. The MQTT
// broker and the HTTP API of package server share it.
package refusal

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/internal/text"
)

// Sources of refused messages, used as labels of a metric.
const (
	MQTT = "mqtt"
	HTTP = "http"
)

// Causes of a refusal, besides those of entity.PayloadError. They are a fixed set, used as labels
// of a metric and in the log.
const (
	CauseTopic           = "topic"             // no layout or template uses the topic
	CauseID              = "entity_id"         // not a valid id
	CauseType            = "type"              // not what the type of the entity requires
	CauseTooManyKeys     = "too_many_keys"     // in the entity, or in all
	CauseTooManyCommands = "too_many_commands" // for the entity
	CauseConflict        = "conflict"          // its condition does not hold
	CauseNotFound        = "not_found"         // it refers to something that does not exist
	CauseForbidden       = "forbidden"         // the sender lacks the permission
	CauseLogin           = "login"             // not a message: a failed login
	CauseInvalid         = "invalid"           // any other fault of the message
	CausePacketSize      = "packet_size"       // the message was too large to be read
	CauseRetain          = "retain"            // accepted, but not kept for new subscribers
	CauseForward         = "not_forwarded"     // accepted, but not forwarded to a subscriber that is too far behind
	CauseSession         = "session"           // not a message: a session was given up
	CauseWill            = "will"              // not a message: a client was refused because there was no room for its will
	CauseFull            = "disk_full"         // the store is full
	CauseRate            = "rate"              // its principal sends more than it may
	CauseBusy            = "busy"              // the server was too slow
	CauseClosing         = "closing"           // the server is shutting down
	CauseFailed          = "failed"            // the server failed
)

// Verdict says what happens to a message that was not committed.
type Verdict struct {
	Cause  string
	Detail string // for people: what is wrong, and what is expected
	Code   byte   // the MQTT 5 reason code
	// Retry reports whether the message is not at fault: it must not be acknowledged, so that its
	// sender keeps it.
	Retry bool
}

// Judge returns the verdict on an error of entity.ParseReadings or of the runtime, according to
// Answers.
func Judge(err error) Verdict {
	a, _ := Find(err)
	v := Verdict{Cause: a.Cause, Detail: err.Error(), Code: a.Code, Retry: a.Retry}
	if a.Instead && a.Cause != CauseFailed { // the log of a failure should contain the error itself
		v.Detail = a.Hint
	}
	if payload, ok := errors.AsType[*entity.PayloadError](err); ok {
		v.Cause, v.Detail = payload.Cause, payload.Detail
		if payload.Cause == entity.CauseTooLarge {
			v.Code = codeQuota
		}
	}
	return v
}

// Topic returns the verdict on a message with an invalid topic. cause is CauseTopic or CauseID.
func Topic(cause, detail string) *Verdict {
	return &Verdict{Cause: cause, Detail: detail, Code: codeTopic}
}

// ErrTopic is wrapped by errors about topics that no layout or template uses.
var ErrTopic = errors.New("nothing takes this topic")

// logEvery is the interval at which a cause is logged at most. In between, refusals are only
// counted.
const logEvery = time.Minute

// Key identifies a count of refusals.
type Key struct{ Source, Cause string }

type entry struct {
	count  uint64
	unsaid uint64    // not logged yet
	logged time.Time // the time of the last log entry
}

// MaxLatest is the number of refusals that Latest remembers.
const MaxLatest = 100

// Refusal describes the refusals at one place for one cause.
type Refusal struct {
	Key
	Where  string // the topic or the path, shortened to 300 bytes
	Client string // the MQTT client; "" for HTTP
	Detail string // what was wrong the last time, shortened to 500 bytes
	Count  uint64 // how often, since the server remembers it
	First  time.Time
	Last   time.Time
	// Payload is the beginning of the last message, at most MaxExcerpt bytes, or nil if it is not
	// kept. Size is the length of the whole message.
	Payload []byte
	Size    int
}

// MaxExcerpt is how many bytes of a refused message are kept.
const MaxExcerpt = 4 << 10

// Counter counts refusals by source and cause, and remembers the latest. It logs a cause at once,
// and then once a minute while it persists: a misconfigured device repeats its mistake thousands of
// times. Create one with NewCounter. Its methods may be called concurrently.
type Counter struct {
	log *slog.Logger
	now func() time.Time

	mu      sync.Mutex
	entries map[Key]*entry // guarded by mu
	latest  []*Refusal     // guarded by mu; at most MaxLatest, one for each client, place and cause
}

// NewCounter returns a Counter that logs to log.
func NewCounter(log *slog.Logger) *Counter {
	return &Counter{log: log, now: time.Now, entries: map[Key]*entry{}}
}

// Add counts a refusal. where is the topic or the path, and client the MQTT client that sent the
// message.
func (c *Counter) Add(source, cause, where, client, detail string) {
	c.AddMessage(source, cause, where, client, detail, nil)
}

// AddMessage is like Add, and also keeps the beginning of the message for those who may see all
// messages. A nil payload keeps nothing.
func (c *Counter) AddMessage(source, cause, where, client, detail string, payload []byte) {
	now := c.now()
	where, client, detail = text.Shorten(where, 300), text.Shorten(client, 100), text.Shorten(detail, 500)
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
	c.remember(Refusal{
		Key: Key{source, cause}, Where: where, Client: client, Detail: detail, Count: 1, First: now, Last: now,
		Payload: bytes.Clone(payload[:min(len(payload), MaxExcerpt)]), Size: len(payload),
	})
	c.mu.Unlock()
	if say {
		c.log.LogAttrs(context.Background(), slog.LevelWarn, "message refused; further ones for this cause are counted, and logged once a minute",
			slog.String("source", source), slog.String("cause", cause), slog.String("where", where), slog.String("client", client),
			slog.String("detail", detail), slog.Uint64("since_last_line", unsaid))
	}
}

// remember adds a refusal to the latest ones. A repeated one is merged, so that it does not
// displace those of other devices. The caller holds mu.
func (c *Counter) remember(r Refusal) {
	oldest := 0
	for i, have := range c.latest {
		if have.Key == r.Key && have.Where == r.Where && have.Client == r.Client {
			have.Detail, have.Last, have.Payload, have.Size = r.Detail, r.Last, r.Payload, r.Size
			have.Count++
			return
		}
		if have.Last.Before(c.latest[oldest].Last) {
			oldest = i
		}
	}
	if len(c.latest) < MaxLatest {
		c.latest = append(c.latest, &r)
	} else {
		*c.latest[oldest] = r
	}
}

// Latest returns the latest refusals, newest first.
func (c *Counter) Latest() []Refusal {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := make([]Refusal, len(c.latest))
	for i, r := range c.latest {
		list[i] = *r
	}
	slices.SortStableFunc(list, func(a, b Refusal) int { return cmp.Compare(b.Last.UnixNano(), a.Last.UnixNano()) })
	return list
}

// Counts returns the number of refusals.
func (c *Counter) Counts() map[Key]uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make(map[Key]uint64, len(c.entries))
	for k, e := range maps.All(c.entries) {
		out[k] = e.count
	}
	return out
}

// Total returns how many messages were refused, from any source and for any cause.
func (c *Counter) Total() (n uint64) {
	for key, count := range c.Counts() {
		switch key.Cause {
		case CauseRetain, CauseForward, CauseSession, CauseLogin: // accepted nevertheless, or not messages
		default:
			n += count
		}
	}
	return n
}
