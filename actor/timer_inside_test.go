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
	const period = 3 * time.Hour
	for early, want := range map[time.Duration]int{
		time.Minute:   1, // for the same time
		2 * time.Hour: 1, // for the next time by the clock, which is the same here
		-time.Second:  2,
	} {
		t.Run(early.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sys := NewSystem("s", WithLogger(slog.New(slog.DiscardHandler)))
				var rung []time.Time
				ref := SpawnFunc(sys, "a", func(ctx *Context[string], m string) error {
					if m == "ring" {
						rung = append(rung, time.Now())
						return nil
					}
					ctx.On("key", each(period), "ring")
					return nil
				})
				ref.Tell(context.Background(), "set")
				synctest.Wait()
				c := ref.to.(*cell[string])
				at := c.mailbox().inc.timers["key"]
				due := at.plan.due
				time.Sleep(time.Until(due.Add(-early)))
				synctest.Wait()
				if early > 0 {
					if !at.queued.Swap(true) { // rings now
						sys.clock.cancel(at.node)
						c.post(&envelope[string]{with: at}, nil)
					}
				}
				synctest.Wait()
				if early > 0 && len(rung) > 0 {
					t.Fatalf("rang at %v for %v", rung, due)
				}
				time.Sleep(time.Until(due.Add(time.Duration(want-1)*period + time.Second)))
				synctest.Wait()
				if len(rung) != want || rung[0].Before(due) {
					t.Errorf("rang at %v for %v", rung, due)
				}
				_, _ = sys.Shutdown(context.Background())
			})
		})
	}
}
