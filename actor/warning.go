package actor

import (
	"log/slog"
	"sync"
	"time"
)

// WithWarnings says whether the system writes to its log what nobody subscribes to: an [Overload],
// and a [Stuck] of a second or longer, with at most one line a minute for each actor and kind. Where
// an actor is subscribed to events of the kind, see [Subscribe], there are no lines. Defaults to true.
func WithWarnings(on bool) SystemOption {
	return systemOption(func(c *systemConfig) { c.silent = !on })
}

const (
	warnEvery      = time.Minute // for each actor and kind
	warnMost       = 1024        // actors that are remembered for that; beyond it there are no lines
	warnStuckAfter = time.Second
)

// warnings remembers about whom the log has a line already.
type warnings struct {
	off bool // never changes

	mu   sync.Mutex
	said map[warning]time.Time // guarded by mu
}

// warning is what a line is about.
type warning struct {
	actor uint64
	stuck bool
}

// due reports whether there may be a line now, and notes that there is one.
func (w *warnings) due(about warning, now time.Time) bool {
	if w.off {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if last, ok := w.said[about]; ok && now.Sub(last) < warnEvery {
		return false
	}
	if len(w.said) >= warnMost {
		for about, last := range w.said {
			if now.Sub(last) >= warnEvery {
				delete(w.said, about)
			}
		}
		if len(w.said) >= warnMost {
			return false
		}
	}
	if w.said == nil {
		w.said = make(map[warning]time.Time)
	}
	w.said[about] = now
	return true
}

// warnOverload writes a line about an actor that does not keep up.
func (s *System) warnOverload(o Overload) {
	attrs := []slog.Attr{
		slog.String("actor", o.PID.String()),
		slog.Int("messages", o.Length),
		slog.Duration("oldest", o.Oldest),
	}
	if len(o.Top) > 0 && !o.Top[0].PID.IsZero() {
		attrs = append(attrs, slog.String("most_from", o.Top[0].PID.String()))
	}
	s.say(slog.LevelWarn, "actor does not keep up with its messages", attrs...)
}

// warnStuck writes a line about an actor whose handler does not return.
func (s *System) warnStuck(e Stuck) {
	s.say(slog.LevelWarn, "actor is stuck in a handler",
		slog.String("actor", e.PID.String()), slog.Duration("for", e.For),
		slog.String("message_type", e.MessageType), slog.String("stack", e.Stack))
}
