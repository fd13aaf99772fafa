package schedule

import (
	"fmt"
	"time"
)

// Schedule is a sequence of times. It is an immutable value, safe for concurrent use.
// The zero Schedule is never due.
type Schedule struct{ rule rule }

// rule is one way to make times.
type rule interface {
	fmt.Stringer
	next(after time.Time) time.Time
}

// Next returns the first due time after the given one, which is never that one itself,
// or the zero time if there is none.
func (s Schedule) Next(after time.Time) time.Time {
	if s.rule == nil {
		return time.Time{}
	}
	return s.rule.next(after)
}

// String describes the schedule; for one made by [Cron] it is the expression.
func (s Schedule) String() string {
	if s.rule == nil {
		return "never"
	}
	return s.rule.String()
}

// Every is due every d, counted from the time that Next is given. It panics if d is not
// positive.
func Every(d time.Duration) Schedule {
	if d <= 0 {
		panic(fmt.Sprintf("schedule: Every(%v): the period must be positive", d))
	}
	return Schedule{every(d)}
}

// every is the rule of Every.
type every time.Duration

func (d every) next(after time.Time) time.Time { return after.Add(time.Duration(d)) }
func (d every) String() string                 { return "@every " + time.Duration(d).String() }

// At is due once, at t.
func At(t time.Time) Schedule { return Schedule{at(t)} }

// at is the rule of At.
type at time.Time

func (a at) next(after time.Time) time.Time {
	if t := time.Time(a); t.After(after) {
		return t
	}
	return time.Time{}
}

func (a at) String() string { return "at " + time.Time(a).Format(time.RFC3339Nano) }
