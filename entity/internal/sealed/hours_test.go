package sealed

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestAnHourIsSealedWhenNothingCameForAWhile is about which hours are sealed when.
func TestAnHourIsSealedWhenNothingCameForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := NewHours(10 * time.Minute)
		due := func(hour int64, want bool, when string) {
			t.Helper()
			if got := h.Due(hour, time.Now()); got != want {
				t.Errorf("%s: due is %v", when, got)
			}
		}
		due(1, false, "just opened")
		time.Sleep(10 * time.Minute)
		due(1, true, "10 minutes later")
		h.Touch(1, 5, time.Now())
		due(1, false, "after a row")
		for range 6 {
			time.Sleep(9 * time.Minute)
			due(1, false, "while rows come")
			h.Touch(1, 5, time.Now())
		}
		time.Sleep(6 * time.Minute)
		due(1, true, "after an hour of rows")
		h.Touch(2, DueRows, time.Now())
		due(2, true, "after very many rows")
	})
}
