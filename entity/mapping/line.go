package mapping

import (
	"cmp"
	"slices"

	"github.com/greenroom-go/greenroom/entity/value"
)

// recent is how many readings of a source are kept in memory to compute what a late reading
// changes. For later ones than that, the history is read.
const recent = 16

// point is one reading of a source.
type point struct {
	ts    int64
	value value.Value
}

// line is the newest readings of one source, in the order of time.
type line struct {
	points []point
	// complete says that there was nothing before the first point.
	complete bool
	texts    int // bytes in the points
	room     *account
	paid     int // of room
	// lost is the time of the newest reading that was dropped, if there was one. A reading of that
	// time or earlier is not added, because the line would have a gap after it.
	lost int64
	gap  bool
}

// put adds a reading, replacing one of the same time.
func (l *line) put(ts int64, v value.Value) {
	i, found := l.find(ts)
	switch {
	case l.gap && ts <= l.lost:
		return
	case found:
		l.texts -= textBytes(l.points[i].value)
		l.points[i].value = v
	case i == 0 && len(l.points) == recent:
		l.complete = false
		return
	default:
		l.points = slices.Insert(l.points, i, point{ts, v})
	}
	l.texts += textBytes(v)
	if len(l.points) > recent {
		l.forget()
	}
	// What there is no room for is looked up in the history.
	for !l.room.take(l.size() - l.paid) {
		l.forget()
	}
	l.paid = l.size()
}

// forget takes the oldest reading out.
func (l *line) forget() {
	l.lost, l.gap = l.points[0].ts, true
	l.texts -= textBytes(l.points[0].value)
	l.points = slices.Delete(l.points, 0, 1)
	l.complete = false
}

func (l *line) size() int { return pointSize*len(l.points) + l.texts }

// find returns where a reading of this time is or belongs.
func (l *line) find(ts int64) (int, bool) {
	n := len(l.points)
	if n == 0 || l.points[n-1].ts < ts {
		return n, false
	}
	return slices.BinarySearchFunc(l.points, ts, func(p point, ts int64) int { return cmp.Compare(p.ts, ts) })
}

// covers reports whether the line knows the source's value at a time.
func (l *line) covers(ts int64) bool {
	return l.complete || len(l.points) > 0 && l.points[0].ts <= ts
}

// at returns the source's value at a time, the zero Value if it had none.
func (l *line) at(ts int64) value.Value {
	i, found := l.find(ts)
	switch {
	case found:
		return l.points[i].value
	case i == 0:
		return value.Value{}
	}
	return l.points[i-1].value
}

// after returns the time of the next reading after one; false when there is none.
func (l *line) after(ts int64) (int64, bool) {
	i, found := l.find(ts)
	if found {
		i++
	}
	if i == len(l.points) {
		return 0, false
	}
	return l.points[i].ts, true
}
