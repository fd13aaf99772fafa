// Package owner runs functions on the goroutine that owns a state, for callers on other goroutines.
package owner

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/greenroom-go/greenroom/entity"
)

// Calls passes calls to the owner of an S. Make it with make; it needs no buffer. Its methods are
// safe for concurrent use.
type Calls[S any] chan Call[S]

// Call is a function that a caller waits for. The owner answers each call that it receives exactly
// once.
type Call[S any] struct {
	// Context is the caller's.
	Context context.Context //nolint:containedctx // it travels with the call
	f       func(context.Context, S) error
	done    chan error
}

// Do waits until the owner has run f, and returns the owner's answer. It returns the cause of ctx
// if that ends before the owner has received the call, and closed if ended is closed before that.
func (q Calls[S]) Do(ctx context.Context, ended <-chan struct{}, closed error, f func(context.Context, S) error) error {
	c := Call[S]{Context: ctx, f: f, done: make(chan error, 1)}
	select {
	case q <- c:
		return <-c.done
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-ended:
		return closed
	}
}

// Run runs the function and returns its error. It does not answer the caller.
func (c Call[S]) Run(ctx context.Context, s S) error { return c.f(ctx, s) }

// Answer ends the caller's wait. It does not block.
func (c Call[S]) Answer(err error) { c.done <- err }

// Rerun calls work, and again with its error each time that it has failed, until ctx ends or the
// runtime is closed. again waits for delay and prepares the next call of work; if it fails, it is
// called once more with that error. The delay doubles from shortest to longest, and is shortest once
// more after a call of work that took longer than longest. err is the reason to begin with again,
// nil to begin with work.
func Rerun(ctx context.Context, shortest, longest time.Duration, err error, work func() error, again func(why error, delay time.Duration) error) {
	delay := shortest
	for {
		if err == nil {
			began := time.Now()
			err = work()
			if time.Since(began) > longest {
				delay = shortest
			}
		}
		if ctx.Err() != nil || errors.Is(err, entity.ErrClosed) {
			return
		}
		err = again(err, delay)
		delay = min(2*delay, longest)
	}
}

// Wait waits for the goroutines of wg, and returns the cause of ctx if that ends before they do.
func Wait(ctx context.Context, wg *sync.WaitGroup) error {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		wg.Wait()
	}()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
