package entity

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/semaphore"
)

// window bounds the memory of the readings between Ingest and their commit: a semaphore
// counted in bytes, first come first served. A source that waits is slowed down.
type window struct {
	size int64
	free *semaphore.Weighted

	used    atomic.Int64
	closed  context.Context //nolint:containedctx // ends with close, and with it those that wait
	end     context.CancelFunc
	emptied sync.Once
	idle    chan struct{} // closed when the window is closed and nothing is in use
}

func newWindow(size int64) *window {
	w := &window{size: size, free: semaphore.NewWeighted(size), idle: make(chan struct{})}
	w.closed, w.end = context.WithCancel(context.Background())
	return w
}

// acquire takes bytes, at most size, waiting for them until ctx ends or the window is
// closed.
func (w *window) acquire(ctx context.Context, bytes int64) error {
	if !w.free.TryAcquire(bytes) {
		if err := w.wait(ctx, bytes); err != nil {
			return err
		}
	}
	w.used.Add(bytes) // before the look at closed, as close looks the other way round
	if w.closed.Err() != nil {
		w.release(bytes)
		return ErrClosed
	}
	return nil
}

// wait is acquire where the bytes are not free.
func (w *window) wait(ctx context.Context, bytes int64) error {
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(w.closed, cancel)()
	err := w.free.Acquire(waiting, bytes)
	switch {
	case err == nil:
		return nil
	case w.closed.Err() != nil:
		return ErrClosed
	default:
		return fmt.Errorf("wait for room in the window of %d bytes: %w", w.size, context.Cause(ctx))
	}
}

// release gives bytes back, those of one acquire or of many.
func (w *window) release(bytes int64) {
	w.free.Release(bytes)
	if w.used.Add(-bytes) == 0 && w.closed.Err() != nil {
		w.empty()
	}
}

// close refuses all who wait and all who come. The channel is closed when what is in use
// has been released.
func (w *window) close() <-chan struct{} {
	w.end()
	if w.used.Load() == 0 {
		w.empty()
	}
	return w.idle
}

func (w *window) empty() { w.emptied.Do(func() { close(w.idle) }) }

func (w *window) inUse() int64 { return w.used.Load() }
