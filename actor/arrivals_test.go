package actor

import (
	"math/rand/v2"
	"testing"
)

// Beside all times of arrival, the marks are exact while there are few, never say that the oldest came later
// than it did, and are wrong by a few of many that wait.
func TestArrivalsKnowWhenTheOldestCame(t *testing.T) {
	t.Parallel()
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 1))
		var a arrivals
		var times []int64 // of all that have come
		now, taken, most := int64(1), 0, 1+random.IntN(1000)
		for range 5000 {
			now += int64(random.IntN(3))
			waiting := len(times) - taken
			if waiting < most && random.IntN(3) > 0 {
				times = append(times, now)
				a.note(now, waiting+1)
				continue
			}
			if waiting == 0 {
				continue
			}
			got, want, least := a.oldest(waiting), times[taken], times[max(0, taken-most/arrivalMost*4)]
			if got > want || got < least {
				t.Fatalf("seed %d: of %d that wait, of at most %d, the oldest came at %d, and not at %d", seed, waiting, most, want, got)
			}
			taken++
		}
		if len(a.marks) > arrivalMost {
			t.Errorf("seed %d: %d marks", seed, len(a.marks))
		}
	}
}

// Where one message waits at a time, over any number of ticks, the marks take no more room than for a few.
func TestArrivalsOfAMailboxThatIsHardlyUsedAreSmall(t *testing.T) {
	t.Parallel()
	var a arrivals
	for now := range int64(1000) {
		a.note(now+1, 1)
		if got := a.oldest(1); got != now+1 {
			t.Fatalf("the oldest came at %d, and not at %d", got, now+1)
		}
	}
	if cap(a.marks) > 4 {
		t.Errorf("there is room for %d marks", cap(a.marks))
	}
}

// A note is not dropped: it may be older than all messages that come and go.
func TestTheOldestIsANoteBeforeMessagesThatWereDropped(t *testing.T) {
	t.Parallel()
	q := &fifoQueue[int]{}
	s := &special[int]{queue: q, bound: 1, overflow: DropOldest}
	for now := int64(1); now <= 1000; now++ {
		e := envelope[int]{}
		if now == 1 {
			e.with = (*timer[int])(nil)
		}
		s.admit(&e, hasty, never, func() (none envelope[int], did bool) {
			q.put(&e)
			return none, false
		})
		s.came(now)
	}
	if got := s.since(0); got != 1 {
		t.Errorf("the oldest came at %d", got)
	}
}
