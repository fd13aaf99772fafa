package entity

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"
)

func TestTheClockGoesOnAtHalfOfTheSpeedWhileTheMachinesIsBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := time.Duration(0)
		c := newClock(slog.New(slog.DiscardHandler), func() time.Time { return time.Now().Add(set) }, 0)
		before := c.stamp()
		set = -time.Hour
		if got := c.stamp(); got != before {
			t.Errorf("the clock was set back: %d after %d", got, before)
		}
		time.Sleep(30 * time.Minute)
		if got, want := c.stamp(), before+15*60_000; got != want {
			t.Errorf("half an hour later: %d, want %d", got, want)
		}
		time.Sleep(2 * time.Hour)
		if got, want := c.stamp(), time.Now().Add(set).UnixMilli(); got != want {
			t.Errorf("when it has caught up: %d, want %d", got, want)
		}
		set = 0
		if got, want := c.stamp(), time.Now().UnixMilli(); got != want {
			t.Errorf("set forward again: %d, want %d", got, want)
		}
	})
}
