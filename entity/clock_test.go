package entity

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestTheClockGoesOnAtHalfOfTheSpeedWhileTheMachinesIsBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := time.Duration(0)
		var log strings.Builder
		logged := func(what string, want int) {
			t.Helper()
			if got := strings.Count(log.String(), what); got != want {
				t.Errorf("%q is logged %d times, want %d:\n%s", what, got, want, &log)
			}
		}
		c := newClock(slog.New(slog.NewTextHandler(&log, nil)), func() time.Time { return time.Now().Add(set) }, 0)
		before := c.stamp()
		set = -time.Hour
		if got := c.stamp(); got != before {
			t.Errorf("the clock was set back: %d after %d", got, before)
		}
		logged("the clock has been set back", 1)
		logged("behind=1h0m0s", 1)
		time.Sleep(30 * time.Minute)
		if got, want := c.stamp(), before+15*60_000; got != want {
			t.Errorf("half an hour later: %d, want %d", got, want)
		}
		logged("the clock has been set back", 1)
		logged("caught up with the times", 0)
		time.Sleep(2 * time.Hour)
		if got, want := c.stamp(), time.Now().Add(set).UnixMilli(); got != want {
			t.Errorf("when it has caught up: %d, want %d", got, want)
		}
		logged("caught up with the times", 1)
		set = 0
		if got, want := c.stamp(), time.Now().UnixMilli(); got != want {
			t.Errorf("set forward again: %d, want %d", got, want)
		}
		set = -time.Minute
		c.stamp()
		logged("the clock has been set back", 2)
	})
}
