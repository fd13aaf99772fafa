package series

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/greenroom-go/greenroom/entity/value"
)

// Unit is a unit of the calendar.
type Unit uint8

// The units.
const (
	Minute Unit = iota + 1
	Hour
	Day
	Week // from Monday
	Month
	Year
)

var unitNames = [...]string{Minute: "minute", Hour: "hour", Day: "day", Week: "week", Month: "month", Year: "year"}

// String returns the name of the unit.
func (u Unit) String() string {
	if u >= Minute && u <= Year {
		return unitNames[u]
	}
	return "none"
}

// Grid divides time into buckets. Each bucket includes its start and excludes its end, which is the
// start of the next one. A Grid is immutable and may be shared. The zero Grid has one bucket: the
// whole range of a query.
type Grid struct {
	step, origin int64 // of a fixed one, in milliseconds
	unit         Unit  // of a calendar, else 0
	n            int64
	zone         *time.Location
}

// Fixed returns the grid of buckets of the same length, in whole milliseconds and at least one,
// with an edge at origin, in milliseconds since the epoch: with 0 the edges are multiples of the
// step since 1970 in UTC. The error wraps ErrInvalid.
func Fixed(step time.Duration, origin int64) (Grid, error) {
	if step < time.Millisecond || step%time.Millisecond != 0 {
		return Grid{}, fmt.Errorf("step %v: %w: must be whole milliseconds, at least one", step, ErrInvalid)
	}
	g := Grid{step: step.Milliseconds()}
	g.origin = floorMod(origin, g.step)
	return g, nil
}

// Calendar returns the grid of n units of the calendar in a time zone, nil for
// UTC.
//
// Days, weeks, months and years begin when the clock of the zone first shows their first day; if
// the clock skips midnight, that is the moment after the gap. Days and weeks are counted from
// Monday, 29 December 1969 (days from 1 January 1970), months from January 1970 and years from the
// year 0, so 3 months are the quarters and 10 years a decade.
//
// Hours and minutes begin when the clock of the zone shows a multiple of n of them since midnight,
// so n of them must divide a day. If the clock is put forward, a bucket is shorter, or left out if
// all of it is skipped. If the clock is put back onto an edge, a bucket begins again: a day of 25
// hours has 25 buckets of an hour. If it is put back into the middle of a bucket, that bucket is
// longer.
//
// The error wraps ErrInvalid.
func Calendar(n int, unit Unit, zone *time.Location) (Grid, error) {
	if zone == nil {
		zone = time.UTC
	}
	g := Grid{unit: unit, n: int64(n), zone: zone}
	switch most := 100_000; {
	case unit < Minute || unit > Year:
		return Grid{}, fmt.Errorf("unit %d: %w: there are minute, hour, day, week, month and year", unit, ErrInvalid)
	case n < 1 || n > most:
		return Grid{}, fmt.Errorf("%d %ss: %w: must be 1 to %d", n, unit, ErrInvalid, most)
	case unit <= Hour && dayMillis%g.clock() != 0:
		return Grid{}, fmt.Errorf("%d %ss: %w: they do not divide a day; a fixed step has any length", n, unit, ErrInvalid)
	}
	return g, nil
}

// ParseGrid parses a grid: a duration such as 90s or 1h30m for a fixed step with an edge at origin,
// or a unit with an optional number before it, as in day, 15minute and 3month, for the calendar of
// a zone (nil for UTC). The empty text is the zero Grid. The error wraps ErrInvalid.
func ParseGrid(text string, origin int64, zone *time.Location) (Grid, error) {
	if text == "" {
		return Grid{}, nil
	}
	name := strings.TrimLeft(text, "0123456789")
	for unit := Minute; unit <= Year; unit++ {
		if name != unit.String() {
			continue
		}
		digits := strings.TrimSuffix(text, name)
		if digits == "" {
			return Calendar(1, unit, zone)
		}
		n, err := strconv.Atoi(digits)
		if err != nil {
			n = 0
		}
		return Calendar(n, unit, zone)
	}
	ms, ok := value.ParseDuration(text)
	if !ok {
		return Grid{}, fmt.Errorf("step %q: %w: must be a duration such as 90s, or minute, hour, day, week, month, year with a number before it as in 15minute", text, ErrInvalid)
	}
	return Fixed(time.Duration(min(ms, math.MaxInt64/int64(time.Millisecond)))*time.Millisecond, origin)
}

// IsZero reports whether g is the zero Grid.
func (g Grid) IsZero() bool { return g.step == 0 && g.unit == 0 }

// Step returns the length of the buckets of a fixed grid, and 0 for any other grid.
func (g Grid) Step() time.Duration { return time.Duration(g.step) * time.Millisecond }

// String returns the text that ParseGrid reads, without origin and zone.
func (g Grid) String() string {
	switch {
	case g.IsZero():
		return ""
	case g.unit == 0:
		return g.Step().String()
	case g.n == 1:
		return g.unit.String()
	default:
		return strconv.FormatInt(g.n, 10) + g.unit.String()
	}
}

// Bucket returns the bucket that contains a time, all in milliseconds since the epoch: start <= ts
// < end. The bucket of the zero Grid contains all times.
func (g Grid) Bucket(ts int64) (start, end int64) {
	switch {
	case g.IsZero():
		return math.MinInt64, math.MaxInt64
	case g.unit == 0:
		start = ts - floorMod(ts-g.origin, g.step)
		return start, start + g.step
	case g.unit <= Hour:
		return g.clockStart(ts), g.clockEnd(ts)
	default:
		return g.dateBucket(ts)
	}
}

// aligned reports whether rows of a length, whose edges are multiples of it, fit
// into the buckets of the grid from one time to another. It may say false where
// they happen to.
func (g Grid) aligned(step, from, to int64) bool {
	switch {
	case g.IsZero():
		return true
	case g.unit == 0:
		return g.step%step == 0 && g.origin%step == 0
	case g.unit <= Hour && g.clock()%step != 0, g.unit == Day && g.n*dayMillis%step != 0, g.unit >= Month && dayMillis%step != 0:
		return false
	case g.unit == Week && (3*dayMillis%step != 0 || 7*g.n*dayMillis%step != 0):
		return false // weeks begin three days before a multiple of seven
	}
	for at := from; at < to; {
		// The edges are multiples by the clock of the zone; so they are in time
		// if its offset is, and a bucket may begin where the clock is changed.
		p := periodAt(at, g.zone)
		if floorMod(p.offset, step) != 0 || p.start > from && floorMod(p.start, step) != 0 {
			return false
		}
		at = p.end
	}
	return true
}

// floorMod is the remainder of a division rounded down: never negative.
func floorMod(a, b int64) int64 {
	m := a % b
	if m < 0 {
		m += b
	}
	return m
}

// floorDiv is a division rounded down.
func floorDiv(a, b int64) int64 { return (a - floorMod(a, b)) / b }
