// Package pause waits for a time, or for the end of a context.
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
