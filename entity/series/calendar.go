package series

import (
	"math"
	"time"
)

const (
	minuteMillis = 60_000
	hourMillis   = 60 * minuteMillis
	dayMillis    = 24 * hourMillis
)

// The wall time of a zone is kept as the instant, in milliseconds, at which a clock in UTC shows
// the same, so that one can calculate with it.

// period is a time in which a zone is a constant offset from UTC.
type period struct {
	start, end int64 // instants; the ends of int64 where there is none
	offset     int64 // milliseconds to the east
}

// periodAt returns the period that an instant is in.
func periodAt(ts int64, zone *time.Location) period {
	t := time.UnixMilli(ts).In(zone)
	_, seconds := t.Zone()
	p := period{start: math.MinInt64, end: math.MaxInt64, offset: int64(seconds) * 1000}
	start, end := t.ZoneBounds()
	if !start.IsZero() {
		p.start = start.UnixMilli()
	}
	if !end.IsZero() {
		p.end = end.UnixMilli()
	}
	return p
}

// clock returns the length of the buckets of a grid of hours or minutes, as the
// clock shows it.
func (g Grid) clock() int64 {
	if g.unit == Hour {
		return g.n * hourMillis
	}
	return g.n * minuteMillis
}

// clockStart returns the start of the bucket of hours or minutes that ts is in.
func (g Grid) clockStart(ts int64) int64 {
	length := g.clock()
	for {
		p := periodAt(ts, g.zone)
		edge := floorDiv(ts+p.offset, length) * length
		if edge-p.offset >= p.start {
			return edge - p.offset
		}
		// The edge was before the clock was changed, or skipped by that.
		before := periodAt(p.start-1, g.zone)
		if floorDiv(p.start-1+before.offset, length)*length != edge {
			return p.start
		}
		ts = p.start - 1
	}
}

// clockEnd returns the end of the bucket of hours or minutes that ts is in.
func (g Grid) clockEnd(ts int64) int64 {
	length := g.clock()
	for {
		p := periodAt(ts, g.zone)
		end := floorDiv(ts+p.offset, length)*length + length - p.offset
		if end < p.end {
			return end
		}
		if g.clockStart(p.end) == p.end {
			return p.end
		}
		ts = p.end // the bucket continues after the change of the clock
	}
}

// dateBucket returns the bucket of days, weeks, months or years that ts is in.
func (g Grid) dateBucket(ts int64) (start, end int64) {
	index := g.index(ts + periodAt(ts, g.zone).offset)
	start = g.begin(index)
	for {
		// After the clock is put back over midnight it shows the previous day again. That time
		// belongs to the day that has already begun.
		end = g.begin(index + 1)
		if end > ts {
			return start, end
		}
		index++
		start = end
	}
}

// index returns the number of the bucket that a wall time is in.
func (g Grid) index(wall int64) int64 {
	switch year, month, _ := time.UnixMilli(wall).UTC().Date(); g.unit {
	case Day:
		return floorDiv(floorDiv(wall, dayMillis), g.n)
	case Week: // 1 January 1970 was a Thursday, three days after the Monday
		return floorDiv(floorDiv(floorDiv(wall, dayMillis)+3, 7), g.n)
	case Month:
		return floorDiv(int64(year-1970)*12+int64(month-time.January), g.n)
	default:
		return floorDiv(int64(year), g.n)
	}
}

// begin returns the instant at which the bucket of a number begins.
func (g Grid) begin(index int64) int64 {
	first := index * g.n
	switch g.unit {
	case Day:
		return g.reach(first * dayMillis)
	case Week:
		return g.reach((first*7 - 3) * dayMillis)
	case Month:
		return g.reach(time.Date(1970, time.January+time.Month(first), 1, 0, 0, 0, 0, time.UTC).UnixMilli())
	default:
		return g.reach(time.Date(int(first), time.January, 1, 0, 0, 0, 0, time.UTC).UnixMilli())
	}
}

// reach returns the first instant at which the clock of the zone shows the wall
// time or a later one.
func (g Grid) reach(wall int64) int64 {
	// No zone is as far as this from UTC: it is not there yet.
	p := periodAt(wall-26*hourMillis, g.zone)
	for {
		ts := max(wall-p.offset, p.start)
		if ts < p.end {
			return ts
		}
		p = periodAt(p.end, g.zone)
	}
}
