package workload

import (
	"context"
	"fmt"
	"runtime"
	"time"
)

// timersEach is which part of the idle actors has a timer: one of ten.
const timersEach = 10

// farAway is when the timers are due: not while anybody looks.
const farAway = time.Hour

// idle measures what a system costs that has nothing to do. What the process
// still does about its past, such as giving memory back, is given half as much
// time as the measurement to be over.
func (s show[C, R, S, A]) idle(ctx context.Context, size Size) (Figures, error) {
	timers, ok := any(s.a).(Timers[C])
	if !ok {
		return nil, fmt.Errorf("idle: timers: %w", ErrUnsupported)
	}
	done := make(chan struct{}, 1)
	c, spawn := s.gather(size.Actors, done, func(ctx C, m Msg) {
		if m.N%timersEach == 0 {
			timers.After(ctx, farAway, m)
		}
	})
	spawn()
	if err := s.greet(ctx, c, done); err != nil {
		return nil, err
	}
	inUse()
	if err := rest(ctx, size.Window/2); err != nil {
		return nil, err
	}
	before, err := CPUTime()
	if err != nil {
		return nil, err
	}
	began := time.Now()
	if err := rest(ctx, size.Window); err != nil {
		return nil, err
	}
	took := time.Since(began)
	after, err := CPUTime()
	if err != nil {
		return nil, err
	}
	err = c.check() // no timer has fired
	runtime.KeepAlive(c)
	return Figures{CPUPercent: 100 * float64(after-before) / float64(took), Actors: float64(size.Actors)}, err
}

// rest waits until d has passed or ctx is done.
func rest(ctx context.Context, d time.Duration) error {
	over := time.NewTimer(d)
	defer over.Stop()
	select {
	case <-over.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
