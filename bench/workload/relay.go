package workload

import (
	"context"
	"fmt"
)

// pingPong counts at the pong's side and numbers the round trips downwards, so
// that one that is lost or doubled shows.
func (s show[C, R, S, A]) pingPong(ctx context.Context, size Size) (Figures, error) {
	var outside C
	var ping, pong R
	var received tally
	done := make(chan struct{}, 1)
	pong = s.a.Role(func() Handler[C] {
		return func(ctx C, m Msg) {
			received.add(m)
			s.a.Tell(ctx, ping, m)
		}
	})(outside)
	ping = s.a.Role(func() Handler[C] {
		return func(ctx C, m Msg) {
			if m.N == 0 {
				done <- struct{}{}
				return
			}
			s.a.Tell(ctx, pong, Msg{m.N - 1})
		}
	})(outside)
	return measure(size.Ops, func(ops int) error {
		received = tally{}
		s.a.Tell(outside, ping, Msg{int64(ops)})
		if _, err := await(ctx, done); err != nil {
			return err
		}
		return received.check(upTo(ops))
	})
}

// ring sends a token around. Each actor counts its hops: all must have the
// same number, but for those that the token reached once more.
func (s show[C, R, S, A]) ring(ctx context.Context, size Size) (Figures, error) {
	var outside C
	actors := make([]R, size.Actors)
	hops := make([]int64, size.Actors)
	done := make(chan struct{}, 1)
	made := 0
	spawn := s.a.Role(func() Handler[C] {
		i := made
		next := (i + 1) % size.Actors
		made++
		return func(ctx C, m Msg) {
			hops[i]++
			if m.N == 1 {
				done <- struct{}{}
				return
			}
			s.a.Tell(ctx, actors[next], Msg{m.N - 1})
		}
	})
	for i := range actors {
		actors[i] = spawn(outside)
	}
	return measure(size.Ops, func(ops int) error {
		clear(hops)
		s.a.Tell(outside, actors[0], Msg{int64(ops)})
		if _, err := await(ctx, done); err != nil {
			return err
		}
		return checkHops(hops, ops)
	})
}

func checkHops(hops []int64, total int) error {
	for i, n := range hops {
		want := int64(total / len(hops))
		if i < total%len(hops) {
			want++
		}
		if n != want {
			return fmt.Errorf("%w: actor %d of the ring had the token %d times, not %d times", ErrWrongCount, i, n, want)
		}
	}
	return nil
}
