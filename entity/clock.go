package entity

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// clock gives the times that the server itself puts on readings and edits. It never goes back:
// neither when the machine's clock is set back, nor across a restart, when it starts at the last
// commit. While the machine's clock is behind, this clock runs at half speed until the other has
// caught up, so that times still define an order and an hour is made up in two.
type clock struct {
	log *slog.Logger
	now func() time.Time // of the machine

	mu     sync.Mutex
	last   time.Time // the last time returned, guarded by mu
	seen   time.Time // the machine's clock then, with its monotonic reading, guarded by mu
	behind bool      // that the machine's clock is behind has been logged, guarded by mu
}

// setBack is how far the machine's clock must be behind before it is logged.
const setBack = time.Second

func newClock(log *slog.Logger, now func() time.Time, last int64) *clock {
	seen := now()
	return &clock{log: log, now: now, last: time.UnixMilli(last), seen: seen}
}

// stamp returns the time in milliseconds since the epoch, never less than one it has returned
// before.
func (c *clock) stamp() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	seen := c.now()
	wall := seen.Round(0)
	switch lag := c.last.Sub(wall); {
	case lag <= 0:
		c.last = wall
		if c.behind {
			c.behind = false
			c.log.LogAttrs(context.Background(), slog.LevelInfo, "the clock has caught up with the times that were given before it was set back")
		}
	default:
		c.last = c.last.Add(max(0, seen.Sub(c.seen)) / 2)
		if lag >= setBack && !c.behind {
			c.behind = true
			c.log.LogAttrs(context.Background(), slog.LevelWarn, "the clock has been set back; the server's own times go on from where they were, at half of the speed until it has caught up",
				slog.Duration("behind", lag), slog.Time("clock", wall), slog.Time("time", c.last))
		}
	}
	c.seen = seen
	return c.last.UnixMilli()
}
