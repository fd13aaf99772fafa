package actortest

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"
)

// logbook keeps what the system logs, in lines that begin with the virtual time since
// the start. It is safe for concurrent use.
type logbook struct {
	began time.Time

	mu    sync.Mutex
	lines []string
}

func newLogbook() *logbook { return &logbook{began: time.Now()} }

func (l *logbook) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{
		Level: slog.LevelDebug,
		ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey && len(groups) == 0 {
				return slog.Duration("at", a.Value.Time().Sub(l.began))
			}
			return a
		},
	}))
}

// Write takes a line from the handler, which calls it once for each.
func (l *logbook) Write(p []byte) (int, error) {
	line := string(bytes.TrimRight(p, "\n"))
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, line)
	return len(p), nil
}

func (l *logbook) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clip(l.lines)
}

// warnings returns the lines that say that something went wrong.
func (l *logbook) warnings() []string {
	var out []string
	for _, line := range l.all() {
		if strings.Contains(line, "level=WARN") || strings.Contains(line, "level=ERROR") {
			out = append(out, line)
		}
	}
	return out
}
