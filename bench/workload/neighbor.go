package workload

import (
	"context"
	"fmt"
	"maps"
	"sync/atomic"
	"time"
)

// The flooder of the workload flooded-neighbor has credit for so many messages,
// in so many parts: the flood is flat out and the memory bounded.
const (
	creditParts = 4
	creditPart  = 256
)

// neighbor has an actor flood another: all the work is inside the runtime, and
// there is always some.
func (s show[C, R, S, A]) neighbor(ctx context.Context, size Size) (Figures, error) {
	var outside C
	var flooder, flooded R
	var over atomic.Bool
	var handled atomic.Int64
	sums, received := make(chan tally, 1), make(chan tally, 1)
	flooded = s.a.Role(func() Handler[C] {
		var t tally
		return func(ctx C, m Msg) {
			if m.N == last {
				received <- t
				return
			}
			t.add(m)
			if t.count%creditPart == 0 {
				handled.Store(t.count)
				s.a.Tell(ctx, flooder, Msg{creditPart})
			}
		}
	})(outside)
	flooder = s.a.Role(func() Handler[C] {
		var sent tally
		returned := 0 // parts of the credit, after the time is over
		return func(ctx C, m Msg) {
			if over.Load() {
				if returned++; returned == creditParts {
					sums <- sent
					s.a.Tell(ctx, flooded, Msg{last})
				}
				return
			}
			for range m.N {
				next := Msg{sent.count}
				s.a.Tell(ctx, flooded, next)
				sent.add(next)
			}
		}
	})(outside)

	q := s.quietActor(size.Window)
	for range creditParts {
		s.a.Tell(outside, flooder, Msg{creditPart})
	}
	if err := s.tell(ctx, q, size.Window); err != nil {
		return nil, err
	}
	perS := float64(handled.Load()) / time.Since(q.began).Seconds()
	over.Store(true)
	sent, err := await(ctx, sums)
	if err != nil {
		return nil, fmt.Errorf("flooder: %w", err)
	}
	got, err := await(ctx, received)
	if err != nil {
		return nil, fmt.Errorf("flooded actor: %w", err)
	}
	if err := got.check(sent); err != nil {
		return nil, err
	}
	figures, err := q.figures()
	if err != nil {
		return nil, err
	}
	maps.Copy(figures, Figures{FloodPerS: perS})
	return figures, nil
}
