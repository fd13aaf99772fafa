// Package due finds what is due first.
package due

import (
	"container/heap"
	"math"
)

// Timer is when something is to happen to a value, in a unit and from a beginning that all of a Queue
// share. The zero value never is due. It is in one Queue at most, and must not be copied while it is.
type Timer[T any] struct {
	// Value is what the owner of the Timer makes of it.
	Value T

	at    int64 // 0 for never
	place int   // in the heap, while at is not 0
}

// At returns when the Timer is due, 0 for never.
func (t *Timer[T]) At() int64 { return t.at }

// Queue has timers, the one that is due first at its head. The zero value is empty and ready to use. It
// is not safe for concurrent use.
type Queue[T any] struct{ timers order[T] }

// Len returns how many timers there are.
func (q *Queue[T]) Len() int { return len(q.timers) }

// First returns the timer that is due first, nil where there is none.
func (q *Queue[T]) First() *Timer[T] {
	if len(q.timers) == 0 {
		return nil
	}
	return q.timers[0]
}

// Next returns when the first timer is due, math.MaxInt64 where there is none.
func (q *Queue[T]) Next() int64 {
	if len(q.timers) == 0 {
		return math.MaxInt64
	}
	return q.timers[0].at
}

// Set sets when a timer is due. One that never was due comes into the queue, and 0 takes it out.
func (q *Queue[T]) Set(t *Timer[T], at int64) {
	was := t.at
	switch t.at = at; {
	case at == was:
	case at == 0:
		heap.Remove(&q.timers, t.place)
	case was == 0:
		heap.Push(&q.timers, t)
	default:
		heap.Fix(&q.timers, t.place)
	}
}

// order is for package heap.
type order[T any] []*Timer[T]

// Len is for package heap.
func (o order[T]) Len() int { return len(o) }

// Less is for package heap.
func (o order[T]) Less(i, j int) bool { return o[i].at < o[j].at }

// Swap is for package heap.
func (o order[T]) Swap(i, j int) {
	o[i], o[j] = o[j], o[i]
	o[i].place, o[j].place = i, j
}

// Push is for package heap.
func (o *order[T]) Push(x any) {
	t := x.(*Timer[T]) //nolint:forcetypeassert // that is what Set pushes
	t.place = len(*o)
	*o = append(*o, t)
}

// Pop is for package heap.
func (o *order[T]) Pop() any {
	last := len(*o) - 1
	t := (*o)[last]
	(*o)[last] = nil
	*o = (*o)[:last]
	return t
}
