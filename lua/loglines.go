package lua

import (
	"errors"
	"log/slog"
	"time"

	glua "github.com/yuin/gopher-lua"
)

// What scripts write to the log. Without a limit a service that waits again and again, or whose
// messages all fail, could fill the disk.
const (
	stepsPerLine = 200     // what a line costs
	maxLogged    = 4 << 10 // bytes of a text

	linesPerService = 100 // in a second
	linesPerRuntime = 500 // in a second
)

// lines counts those of a second.
type lines struct {
	second int64
	n      int
}

// take reports whether another line may be written now, of so many in a second.
func (c *lines) take(now time.Time, most int) bool {
	if second := now.Unix(); second != c.second {
		c.second, c.n = second, 0
	}
	if c.n >= most {
		return false
	}
	c.n++
	return true
}

// takeLine is take for all services.
func (rt *Runtime) takeLine(now time.Time) bool {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	return rt.lines.take(now, linesPerRuntime)
}

// writeLine writes a line to the log of the system, or counts it for the next one that is written.
func (s *service) writeLine(level slog.Level, message string, attrs ...slog.Attr) {
	a, now := s.account, time.Now()
	if !a.lines.take(now, linesPerService) || !s.rt.takeLine(now) {
		a.leftOut++
		return
	}
	if a.leftOut > 0 {
		attrs = append(attrs, slog.Int64("lines_left_out", a.leftOut))
		a.leftOut = 0
	}
	s.ctx.Log().LogAttrs(s.ctx, level, message, attrs...) //nolint:sloglint // a constant of each caller
}

// log writes its arguments to the log of the system.
func (s *service) log(l *glua.LState) int {
	s.meter.spend(l, stepsPerLine)
	text := ""
	for i := range l.GetTop() {
		if i > 0 {
			text += " " //nolint:modernize // it is cut at maxLogged
		}
		text += l.ToStringMeta(l.Get(i + 1)).String()
		s.meter.spend(l, len(text)/bytesPerStep)
		if len(text) > maxLogged {
			break
		}
	}
	s.writeLine(slog.LevelInfo, "lua: a script says", slog.String("text", text[:min(len(text), maxLogged)]))
	return 0
}

func (s *service) logFailure(err error) {
	attrs := []slog.Attr{slog.Any("error", err)}
	if failed, ok := errors.AsType[*Error](err); ok && failed.Stack != "" {
		attrs = append(attrs, slog.String("stack", failed.Stack))
	}
	s.writeLine(slog.LevelError, "lua: a handler failed", attrs...)
}
