package workload

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"
)

// period is how often the quiet actor is told something.
const period = time.Millisecond

// quiet is an actor that is told something each millisecond, and how long it
// took. Its sender is a goroutine outside with a timer; a message that is due
// while the sender is late is left out and not made up for, so that the load
// stays quiet. Times are nanoseconds since the beginning.
type quiet[R any] struct {
	to                 R
	began              time.Time
	due, told, handled []int64
	twice              int // messages handled more than once; the actor's own
	done               chan struct{}
}

func (s show[C, R, S, A]) quietActor(window time.Duration) *quiet[R] {
	var outside C
	room := int(window/period) + 1
	q := &quiet[R]{
		due: make([]int64, 0, room), told: make([]int64, 0, room), handled: make([]int64, room),
		done: make(chan struct{}, 1),
	}
	q.to = s.a.Role(func() Handler[C] {
		return func(_ C, m Msg) {
			if m.N == last {
				q.done <- struct{}{}
				return
			}
			if q.handled[m.N] != 0 {
				q.twice++
			}
			q.handled[m.N] = q.now()
		}
	})(outside)
	return q
}

func (q *quiet[R]) now() int64 { return int64(time.Since(q.began)) }

// tell has the actor told for as long as window, and waits until it has
// handled everything. Call it once.
func (s show[C, R, S, A]) tell(ctx context.Context, q *quiet[R], window time.Duration) error {
	var outside C
	q.began = time.Now()
	for due := int64(period); due < int64(window) && ctx.Err() == nil; {
		if wait := due - q.now(); wait > 0 {
			if err := rest(ctx, time.Duration(wait)); err != nil {
				return err
			}
		}
		now := q.now()
		n := int64(len(q.told))
		q.due, q.told = append(q.due, due), append(q.told, now)
		s.a.Tell(outside, q.to, Msg{n})
		due = max(due, now/int64(period)*int64(period)) + int64(period)
	}
	s.a.Tell(outside, q.to, Msg{last})
	if _, err := await(ctx, q.done); err != nil {
		return fmt.Errorf("quiet actor: %w", err)
	}
	return nil
}

// figures validates the counts and sums up the delays.
func (q *quiet[R]) figures() (Figures, error) {
	n := len(q.told)
	plain, e2e := make([]float64, n), make([]float64, n)
	for i, at := range q.handled[:n] {
		if at == 0 {
			return nil, fmt.Errorf("%w: message %d of %d to the quiet actor was not handled", ErrWrongCount, i, n)
		}
		plain[i], e2e[i] = float64(at-q.told[i])/1e3, float64(at-q.due[i])/1e3
	}
	if n == 0 || q.twice > 0 {
		return nil, fmt.Errorf("%w: the quiet actor was told %d messages and got %d of them twice", ErrWrongCount, n, q.twice)
	}
	slices.Sort(plain)
	slices.Sort(e2e)
	return Figures{
		Samples: float64(n),
		P50Us:   percentile(plain, 50), P99Us: percentile(plain, 99), MaxUs: plain[n-1],
		E2EP50Us: percentile(e2e, 50), E2EP99Us: percentile(e2e, 99), E2EMaxUs: e2e[n-1],
	}, nil
}

// percentile returns the smallest of the sorted values that p percent of them
// do not exceed.
func percentile(sorted []float64, p float64) float64 {
	rank := int(math.Ceil(p / 100 * float64(len(sorted))))
	return sorted[max(rank, 1)-1]
}
