package actor

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"
)

// each is due each time that much has passed.
type each time.Duration

func (e each) Next(after time.Time) time.Time {
	return after.Truncate(time.Duration(e)).Add(time.Duration(e))
}

// A timer waits by a clock that nobody sets, so after the system's clock was set back it rings before its time has come.
func TestAScheduleIsNotEarlyWhenTheClockWasSetBack(t *testing.T) {
	for later, want := range map[time.Duration]time.Duration{ // by how much its time is later than it rings, and when it comes
		30 * time.Minute: 30 * time.Minute,
		2 * time.Hour:    time.Hour, // the next time by the clock
	} {
		t.Run(later.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sys := NewSystem("s", WithLogger(slog.New(slog.DiscardHandler)))
				came := make(chan time.Time, 100)
				ref := SpawnFunc(sys, "a", func(ctx *Context[string], m string) error {
					if m == "come" {
						came <- time.Now()
						return nil
					}
					ctx.On("key", each(time.Hour), "come")
					c := ctx.cell()
					at := c.mailbox().inc.timers["key"]
					at.plan.due = time.Now().Add(later)
					sys.clock.cancel(at.node)
					at.queued.Store(true)
					c.post(&envelope[string]{with: at}, nil) // it rings
					return nil
				})
				began := time.Now()
				ref.Tell(context.Background(), "set")
				if at := (<-came).Sub(began); at != want {
					t.Errorf("it comes after %v, want %v", at, want)
				}
				_, _ = sys.Shutdown(context.Background())
			})
		})
	}
}
