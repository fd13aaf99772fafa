package actor

import "slices"

// arrivals is when the messages of a mailbox came from which they are taken in the order of their
// arrival: by marks, of which there is one for each tick of the coarse clock, and at most arrivalMost.
type arrivals struct {
	marks  []arrival
	posted uint64 // messages that have come so far
}

// arrival says that a message, and those up to the next mark, came at a time of the coarse clock or later.
type arrival struct {
	number uint64 // how many had come before
	at     int64
}

const arrivalMost = 64

// note counts a message that came at now. It is the last of so many that have come since the oldest that waits, those
// among them that do not wait any more included. Where there are too many marks
// the one goes that leaves the smallest gap: who came behind it counts as older than it is.
func (a *arrivals) note(now int64, waiting int) {
	if n := len(a.marks); n == 0 || a.marks[n-1].at != now {
		if n == cap(a.marks) || n == arrivalMost { // no more room than is needed: there may be very many mailboxes
			a.forget(waiting - 1)
		}
		if n = len(a.marks); n == arrivalMost {
			least := 1
			for i := 2; i < n-1; i++ {
				if a.marks[i+1].number-a.marks[i-1].number < a.marks[least+1].number-a.marks[least-1].number {
					least = i
				}
			}
			a.marks = slices.Delete(a.marks, least, least+1)
		}
		a.marks = append(a.marks, arrival{a.posted, now})
	}
	a.posted++
}

// forget drops the marks of messages that do not wait any more, but for the last.
func (a *arrivals) forget(waiting int) {
	if i := a.first(waiting); i > 0 {
		a.marks = slices.Delete(a.marks, 0, i)
	}
}

// first returns the index of the mark of the oldest of those that wait, -1 if there is none.
func (a *arrivals) first(waiting int) int {
	first := a.posted - uint64(waiting)
	for i, m := range slices.Backward(a.marks) {
		if m.number <= first || i == 0 {
			return i
		}
	}
	return -1
}

// oldest returns when the oldest of those that wait came, 0 if that is not known.
func (a *arrivals) oldest(waiting int) int64 {
	if i := a.first(waiting); i >= 0 {
		return a.marks[i].at
	}
	return 0
}
