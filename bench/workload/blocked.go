package workload

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"
)

// The handlers block that long, and do not say so to the runtime.
const (
	longBlock  = 50 * time.Millisecond
	shortBlock = time.Millisecond
)

// sleepers are actors that block in their handlers.
type sleepers[R any] struct {
	actors   []R
	received []*tally     // by actor, its own while it has mail
	goal     atomic.Int64 // how many messages all of them will get together
	handled  atomic.Int64
	done     chan struct{}
}

func (s show[C, R, S, A]) spawnSleepers(n int, d time.Duration) *sleepers[R] {
	var outside C
	c := &sleepers[R]{actors: make([]R, n), done: make(chan struct{}, 1)}
	spawn := s.a.Role(func() Handler[C] {
		received := new(tally)
		c.received = append(c.received, received)
		return func(_ C, m Msg) {
			time.Sleep(d) //nolint:forbidigo // a handler that blocks is what is measured
			received.add(m)
			if c.handled.Add(1) == c.goal.Load() {
				c.done <- struct{}{}
			}
		}
	})
	for i := range c.actors {
		c.actors[i] = spawn(outside)
	}
	return c
}

// lull tells each sleeper that many messages.
func (s show[C, R, S, A]) lull(c *sleepers[R], each int) {
	var outside C
	c.handled.Store(0)
	c.goal.Store(int64(each * len(c.actors)))
	for _, t := range c.received {
		*t = tally{}
	}
	for i := range each {
		for _, to := range c.actors {
			s.a.Tell(outside, to, Msg{int64(i)})
		}
	}
}

// wait is for the end of a lull of that many messages each.
func (c *sleepers[R]) wait(ctx context.Context, each int) error {
	if _, err := await(ctx, c.done); err != nil {
		return fmt.Errorf("%d of %d blocking handlers have returned: %w", c.handled.Load(), c.goal.Load(), err)
	}
	for i, t := range c.received {
		if err := t.check(upTo(each)); err != nil {
			return fmt.Errorf("blocking actor %d: %w", i, err)
		}
	}
	return nil
}

func (s show[C, R, S, A]) blocking(ctx context.Context, size Size) (Figures, error) {
	c := s.spawnSleepers(size.Actors, shortBlock)
	return measure(size.Ops, func(ops int) error {
		each := max(1, ops/size.Actors)
		s.lull(c, each)
		return c.wait(ctx, each)
	})
}

func (s show[C, R, S, A]) blocked(ctx context.Context, size Size) (Figures, error) {
	each := max(1, int(size.Window/longBlock))
	c, q := s.spawnSleepers(size.Actors, longBlock), s.quietActor(size.Window)
	began := time.Now()
	s.lull(c, each)
	if err := s.tell(ctx, q, size.Window); err != nil {
		return nil, err
	}
	if err := c.wait(ctx, each); err != nil {
		return nil, err
	}
	took := time.Since(began)
	figures, err := q.figures()
	if err != nil {
		return nil, err
	}
	figures[DrainMs] = float64(took) / float64(time.Millisecond)
	return figures, nil
}
