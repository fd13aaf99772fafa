package schedule_test

import (
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/schedule"
)

var epoch = time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)

func TestTheZeroScheduleIsNeverDue(t *testing.T) {
	var s schedule.Schedule
	if next := s.Next(epoch); !next.IsZero() {
		t.Errorf("due at %v", next)
	}
	if s.String() != "never" {
		t.Errorf("prints %q", s)
	}
}

func TestEveryIsDueAPeriodLater(t *testing.T) {
	s := schedule.Every(1500 * time.Millisecond)
	if got, want := s.Next(epoch), epoch.Add(1500*time.Millisecond); !got.Equal(want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if s.String() != "@every 1.5s" {
		t.Errorf("prints %q", s)
	}
}

func TestEveryRefusesAPeriodThatIsNotPositive(t *testing.T) {
	for _, d := range []time.Duration{0, -time.Second} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("Every(%v) did not panic", d)
				}
			}()
			schedule.Every(d)
		}()
	}
}

func TestAtIsDueOnce(t *testing.T) {
	s := schedule.At(epoch)
	if got := s.Next(epoch.Add(-1)); !got.Equal(epoch) {
		t.Errorf("before: got %v", got)
	}
	for _, after := range []time.Time{epoch, epoch.Add(1)} {
		if got := s.Next(after); !got.IsZero() {
			t.Errorf("after %v: got %v", after, got)
		}
	}
	if s.String() != "at 2026-03-01T12:00:00Z" {
		t.Errorf("prints %q", s)
	}
}
