// Package loadtogether reads what is wanted while something is being read together next:
// one by one costs four times as much.
//
// A Queue decides what is read together and does nothing itself: an actor can ask it. A
// Loader asks it on goroutines.
package loadtogether

// Queue decides which items are read together. It has no goroutine and no lock of its
// own, and is not safe for concurrent use. Set Readers and Together before the first Add.
type Queue[T any] struct {
	Readers  int // how many reads may be under way
	Together int // how many items one read is for, at most

	wanted  []T
	reading int
}

// Add wants an item. If begin is true, one more read may be under way: ask Next for it.
func (q *Queue[T]) Add(item T) (begin bool) {
	q.wanted = append(q.wanted, item)
	if q.reading == q.Readers {
		return false
	}
	q.reading++
	return true
}

// Next returns what is to be read now: after an Add that begins a read, and after the end
// of each read until nothing is left. With nil that read is over.
func (q *Queue[T]) Next() []T {
	n := min(len(q.wanted), q.Together)
	if n == 0 {
		q.wanted = nil
		q.reading--
		return nil
	}
	batch := q.wanted[:n:n]
	q.wanted = q.wanted[n:]
	return batch
}

// Waiting returns how many items wait for a read to begin.
func (q *Queue[T]) Waiting() int { return len(q.wanted) }
