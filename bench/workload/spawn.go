package workload

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"time"
)

// crowd is a number of actors that have nothing to do.
type crowd[R any] struct {
	actors  []R
	handled *atomic.Int64
}

// gather spawns n actors with one handler and no state: what remains is what
// the runtime needs for an actor.
func (s show[C, R, S, A]) gather(n int, done chan<- struct{}, also func(ctx C, m Msg)) (c crowd[R], spawn func()) {
	var outside C
	c = crowd[R]{make([]R, n), new(atomic.Int64)}
	handle := Handler[C](func(ctx C, m Msg) {
		also(ctx, m)
		if c.handled.Add(1) == int64(n) {
			done <- struct{}{}
		}
	})
	role := s.a.Role(func() Handler[C] { return handle })
	return c, func() {
		for i := range c.actors {
			c.actors[i] = role(outside)
		}
	}
}

// greet tells each actor one message, which is its number, and waits until all
// are handled.
func (s show[C, R, S, A]) greet(ctx context.Context, c crowd[R], done <-chan struct{}) error {
	var outside C
	for i, to := range c.actors {
		s.a.Tell(outside, to, Msg{int64(i)})
	}
	if _, err := await(ctx, done); err != nil {
		return fmt.Errorf("%d of %d actors have handled their message: %w", c.handled.Load(), len(c.actors), err)
	}
	return nil
}

// check is for when everything is at rest.
func (c crowd[R]) check() error {
	if n := c.handled.Load(); n != int64(len(c.actors)) {
		return fmt.Errorf("%w: %d messages were handled, %d were sent", ErrWrongCount, n, len(c.actors))
	}
	return nil
}

func (s show[C, R, S, A]) spawn(ctx context.Context, size Size) (Figures, error) {
	done := make(chan struct{}, 1)
	c, spawn := s.gather(size.Actors, done, func(C, Msg) {})
	before := inUse()

	m := startMeter()
	spawn()
	figures := m.stop(size.Actors)

	began := time.Now()
	if err := s.greet(ctx, c, done); err != nil {
		return nil, err
	}
	figures[FirstNs] = float64(time.Since(began)) / float64(size.Actors)

	figures[BytesPerActor] = float64(inUse()-before) / float64(size.Actors)
	figures[GCMs] = float64(collect()) / float64(time.Millisecond)
	figures[Actors] = float64(size.Actors)
	err := c.check()
	runtime.KeepAlive(c)
	return figures, err
}

// inUse returns the bytes of heap and stacks in use after collections that
// have found all there was to find: pools give up their content in the second
// one.
func inUse() int64 {
	for range 3 {
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}

// collect returns the median time of three whole collections.
func collect() time.Duration {
	var took [3]time.Duration
	for i := range took {
		began := time.Now()
		runtime.GC()
		took[i] = time.Since(began)
	}
	slices.Sort(took[:])
	return took[1]
}
