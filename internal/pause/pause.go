// Package pause waits for a time, or for the end of a context, and shares out the time until that.
package pause

import (
	"context"
	"time"
)

// For waits for d and returns nil, or returns the cause of ctx as soon as that ends.
func For(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Half returns a context that ends when half of the time until ctx ends has passed: what comes
// afterwards has the other half. Where ctx has no deadline, it ends with ctx. cancel ends it at once.
func Half(ctx context.Context) (half context.Context, cancel context.CancelFunc) {
	until, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, time.Until(until)/2)
}
