package sealed

import (
	"maps"
	"slices"
	"time"
)

const (
	// DefaultAfter is how long nothing must have arrived for an hour before it is sealed.
	DefaultAfter = 10 * time.Minute
	// anyway is the time after which an hour is sealed even if it still gets readings.
	anyway = time.Hour
	// DueRows is the number of readings after which an hour is sealed even if it still gets more.
	DueRows = 1 << 20
	// every is how often the sealer looks for hours to seal.
	every = 10 * time.Second

	// HourMS is an hour of a history.
	HourMS = 3_600_000

	maxHours = 1 << 16
)

// Every returns how often to look for hours for which nothing has arrived for so long.
func Every(after time.Duration) time.Duration { return min(every, after+time.Millisecond) }

// Hours records which hours of a history have got rows since they were sealed. It is not safe for
// concurrent use.
type Hours struct {
	after   time.Duration
	opened  time.Time
	touched map[int64]touch
	touches uint64
}

// touch says when an hour got rows that are not sealed.
type touch struct {
	first, last time.Time
	rows        int
	at          uint64 // of the touches of all hours
}

// NewHours returns the Hours of a store that is opened now. An hour is due once nothing has arrived
// for it for that long.
func NewHours(after time.Duration) Hours {
	return Hours{after: after, opened: time.Now(), touched: make(map[int64]touch)}
}

// Touch records that an hour has got rows. It reports whether there were too many hours to
// remember, so that all others were forgotten and become due a little early.
func (h *Hours) Touch(hour int64, rows int, now time.Time) (forgotten bool) {
	t, ok := h.touched[hour]
	if !ok {
		if forgotten = len(h.touched) >= maxHours; forgotten {
			clear(h.touched)
		}
		t.first = now
	}
	h.touches++
	t.last, t.rows, t.at = now, t.rows+rows, h.touches
	h.touched[hour] = t
	return forgotten
}

// Due reports whether an hour is to be sealed.
func (h *Hours) Due(hour int64, now time.Time) bool {
	t, ok := h.touched[hour]
	if !ok {
		return h.Settled(now)
	}
	return now.Sub(t.last) >= h.after || now.Sub(t.first) >= anyway || t.rows >= DueRows
}

// Settled reports whether hours are due that have got no rows since the store was opened.
func (h *Hours) Settled(now time.Time) bool { return now.Sub(h.opened) >= h.after }

// Sealed records that an hour has no rows any more.
func (h *Hours) Sealed(hour int64) { delete(h.touched, hour) }

// Split returns the hours that were touched in a range [from, to) of times, in order: those that are
// due, and the others.
func (h *Hours) Split(from, to int64, now time.Time) (due, others []int64) {
	for hour := range h.touched {
		if ts := hour * HourMS; ts < from || ts >= to {
			continue
		}
		if h.Due(hour, now) {
			due = append(due, hour)
		} else {
			others = append(others, hour)
		}
	}
	slices.Sort(due)
	slices.Sort(others)
	return due, others
}

// Mark is a moment between two touches.
type Mark uint64

// Mark returns the present one.
func (h *Hours) Mark() Mark { return Mark(h.touches) }

// SealedSince is Sealed for all hours that were sealed since a mark and have got no rows since.
func (h *Hours) SealedSince(m Mark, sealed func(hour int64) bool) {
	maps.DeleteFunc(h.touched, func(hour int64, t touch) bool { return t.at <= uint64(m) && sealed(hour) })
}
