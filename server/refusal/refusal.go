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

// Sources of refused messages. They are labels of a metric.
const (
	MQTT = "mqtt"
	HTTP = "http"
)

// Causes of a refusal besides those of entity.PayloadError. They are labels of a metric
// and keys of the log: a bounded set.
const (
	CauseTopic           = "topic"             // nothing takes the topic
	CauseID              = "entity_id"         // not an id
	CauseType            = "type"              // not as the type of the entity wants it
	CauseTooManyKeys     = "too_many_keys"     // of an entity, or of all
	CauseTooManyCommands = "too_many_commands" // of an entity
	CauseConflict        = "conflict"          // its condition does not hold
	CauseNotFound        = "not_found"         // it is about what does not exist
	CauseForbidden       = "forbidden"         // its sender may not do that
	CauseLogin           = "login"             // no message: somebody who was not let in
	CauseInvalid         = "invalid"           // any other complaint about the message
	CausePacketSize      = "packet_size"       // the message was too large to be read
	CauseRetain          = "retain"            // taken, but not kept for new subscribers
	CauseForward         = "not_forwarded"     // taken, but a subscriber that is too far behind did not get it
	CauseSession         = "session"           // no message: a session was given up
	CauseWill            = "will"              // no message: a client with a will for which there was no room
	CauseFull            = "disk_full"         // the store has no room
	CauseBusy            = "busy"              // the server was too slow
	CauseClosing         = "closing"           // the server shuts down
	CauseFailed          = "failed"            // the server has failed
)

// Verdict says what becomes of a message that was not committed.
type Verdict struct {
	Cause  string
	Detail string // for a person: what was wrong and what is expected
	Code   byte   // the reason code of MQTT 5
	// Retry says that the message is not at fault: it must not be acknowledged, so
	// that its sender keeps it.
	Retry bool
}

// Judge returns the verdict for an error of entity.ParseReadings or of the runtime, as
// Answers has it.
func Judge(err error) Verdict {
	a, _ := Find(err)
	v := Verdict{Cause: a.Cause, Detail: err.Error(), Code: a.Code, Retry: a.Retry}
	if a.Instead && a.Cause != CauseFailed { // of a failure the log should have the reason
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

// Topic is the verdict for a message with a topic that takes none; cause is CauseTopic
// or CauseID.
func Topic(cause, detail string) *Verdict {
	return &Verdict{Cause: cause, Detail: detail, Code: codeTopic}
}

// ErrTopic is what errors about topics that nothing takes wrap.
var ErrTopic = errors.New("nothing takes this topic")

// logEvery is how often a cause may be logged. In between it is counted.
const logEvery = time.Minute

// Key is what refusals are counted by.
type Key struct{ Source, Cause string }

type entry struct {
	count  uint64
	unsaid uint64    // since the last line
	logged time.Time // when that was
}

// MaxLatest is how many refusals Latest remembers.
const MaxLatest = 100

// Refusal is what was refused last at one place for one cause.
type Refusal struct {
	Key
	Where  string // the topic or the path, cut after 300 bytes
	Client string // of MQTT; "" for HTTP
	Detail string // what was wrong the last time, cut after 500 bytes
	Count  uint64 // how often, since the server remembers it
	First  time.Time
	Last   time.Time
	// Payload is the beginning of the last message, at most MaxExcerpt bytes, where it is kept; Size
	// is the length of all of it.
	Payload []byte
	Size    int
}

// MaxExcerpt is how much of a refused message is kept.
const MaxExcerpt = 4 << 10

// Counter counts refusals by source and cause, and remembers the latest of them. It logs
// each cause once, then once a minute while it goes on: a device with a wrong payload
// sends it thousands of times. Its methods may be called concurrently. Make it with
// NewCounter.
type Counter struct {
	log *slog.Logger
	now func() time.Time

	mu      sync.Mutex
	entries map[Key]*entry // guarded by mu
	latest  []*Refusal     // guarded by mu; at most MaxLatest, one a place and cause
}

// NewCounter returns a Counter that logs to log.
func NewCounter(log *slog.Logger) *Counter {
	return &Counter{log: log, now: time.Now, entries: map[Key]*entry{}}
}

// Add counts a refusal. where is the topic or the path, and client the one of MQTT that
// sent the message.
func (c *Counter) Add(source, cause, where, client, detail string) {
	c.AddMessage(source, cause, where, client, detail, nil)
}

// AddMessage is Add for a message of which the beginning is kept, for who may see all messages. nil
// keeps nothing.
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
		c.log.LogAttrs(context.Background(), slog.LevelWarn, "message refused; more of this cause are counted and summed up once a minute",
			slog.String("source", source), slog.String("cause", cause), slog.String("where", where), slog.String("client", client),
			slog.String("detail", detail), slog.Uint64("since_last_line", unsaid))
	}
}

// remember notes a refusal among the latest: a device that repeats its mistake does not
// drive out those of others. The caller holds mu.
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

// Latest returns what was refused last, the newest first.
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
		switch key.Cause {
		case CauseRetain, CauseForward, CauseSession, CauseLogin: // taken all the same, or no messages
		default:
			n += count
		}
	}
	return n
}
