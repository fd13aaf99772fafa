package workload

import (
	"context"
	"fmt"
)

// children is how many an inner actor of the tree has.
const children = 10

// skynet is the benchmark of that name (github.com/atemerev/skynet): an actor
// spawns ten, each of which spawns ten, until there are enough leaves; the
// leaves answer with their numbers, and every other actor with the sum of its
// children's. A small tree warms up.
func (s show[C, R, S, A]) skynet(ctx context.Context, size Size) (Figures, error) {
	if _, err := s.tree(ctx, min(size.Actors, 1000)); err != nil {
		return nil, fmt.Errorf("warm up: %w", err)
	}
	m := startMeter()
	actors, err := s.tree(ctx, size.Actors)
	if err != nil {
		return nil, err
	}
	return m.stop(actors), nil
}

// tree grows one with that many leaves, a power of ten, and returns how many
// actors it had.
func (s show[C, R, S, A]) tree(ctx context.Context, leaves int) (actors int, err error) {
	for level := leaves; level > 0; level /= children {
		actors += level
	}
	var outside C
	done := make(chan int64, 1)
	root := s.node(leaves, func(_ C, sum int64) { done <- sum })(outside)
	s.a.Tell(outside, root, Msg{0})
	sum, err := await(ctx, done)
	if err != nil {
		return 0, err
	}
	if want := int64(leaves) * int64(leaves-1) / 2; sum != want {
		return 0, fmt.Errorf("%w: the sum of the leaves is %d, not %d", ErrWrongCount, sum, want)
	}
	return actors, nil
}

// node is the role of an actor with that many leaves under it, itself being
// one if it has none. Its first message is the number of its first leaf, the
// others are the sums of its children.
func (s show[C, R, S, A]) node(leaves int, report func(ctx C, sum int64)) func(ctx C) R {
	if leaves == 1 {
		return s.a.Role(func() Handler[C] {
			return func(ctx C, m Msg) {
				report(ctx, m.N)
				s.a.End(ctx)
			}
		})
	}
	return s.a.Role(func() Handler[C] {
		var sum int64
		missing := 0
		return func(ctx C, m Msg) {
			if missing == 0 {
				s.grow(ctx, leaves/children, m.N)
				missing = children
				return
			}
			sum += m.N
			if missing--; missing == 0 {
				report(ctx, sum)
				s.a.End(ctx)
			}
		}
	})
}

// grow spawns the children of the actor with ctx, with that many leaves each.
func (s show[C, R, S, A]) grow(ctx C, leaves int, first int64) {
	self := s.a.Self(ctx)
	spawn := s.node(leaves, func(ctx C, sum int64) { s.a.Tell(ctx, self, Msg{sum}) })
	for i := range int64(children) {
		s.a.Tell(ctx, spawn(ctx), Msg{first + i*int64(leaves)})
	}
}
