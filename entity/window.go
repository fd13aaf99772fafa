package entity

import (
	"container/list"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
)

// window bounds the memory of the readings between Ingest and their commit. It
// is a semaphore counted in bytes, first come first served: who waits is a
// source that is slowed down. While the store is full it lets in the patient only.
type window struct {
	size int64
	full atomic.Bool // written under mu

	mu      sync.Mutex
	used    int64
	waiting list.List // of *applicant
	closed  bool
	idle    chan struct{} // made by close; closed when nothing is in use
}

type applicant struct {
	bytes   int64
	patient bool
	granted chan struct{} // closed with the bytes taken, or with refused set
	refused error
}

// acquire takes bytes, waiting for them until ctx ends. What is larger than the
// window takes all of it. Who is not patient is refused while the store is full.
func (w *window) acquire(ctx context.Context, bytes int64, patient bool) error {
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return ErrClosed
	}
	if w.full.Load() && !patient {
		w.mu.Unlock()
		return ErrFull
	}
	if w.waiting.Len() == 0 && w.fits(bytes) {
		w.used += bytes
		w.mu.Unlock()
		return nil
	}
	a := &applicant{bytes: bytes, patient: patient, granted: make(chan struct{})}
	place := w.waiting.PushBack(a)
	w.mu.Unlock()

	select {
	case <-a.granted:
		return a.refused
	case <-ctx.Done():
		return w.withdraw(ctx, a, place)
	}
}

// withdraw gives up waiting, unless the bytes were granted at the last moment.
func (w *window) withdraw(ctx context.Context, a *applicant, place *list.Element) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-a.granted:
		return a.refused
	default:
	}
	w.waiting.Remove(place)
	w.grant() // who comes next may be smaller
	return fmt.Errorf("wait for room in the window of %d bytes: %w", w.size, context.Cause(ctx))
}

// fits reports whether bytes are free. An empty window has room for anything.
// REQUIRES: w.mu held.
func (w *window) fits(bytes int64) bool { return w.used == 0 || w.used+bytes <= w.size }

// grant lets in who waits, in order. REQUIRES: w.mu held.
func (w *window) grant() {
	for e := w.waiting.Front(); e != nil; e = w.waiting.Front() {
		a := e.Value.(*applicant)
		if !w.fits(a.bytes) {
			return
		}
		w.used += a.bytes
		w.waiting.Remove(e)
		close(a.granted)
	}
}

// charge takes bytes without waiting, also beyond the size: for what was let in and turns
// out to be larger. Others wait for that.
func (w *window) charge(bytes int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.used += bytes
}

func (w *window) release(bytes int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.used -= bytes
	w.grant()
	if w.closed && w.used == 0 {
		close(w.idle)
	}
}

// close refuses all who wait and all who come. The channel is closed when what
// is in use has been released.
func (w *window) close() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return w.idle
	}
	w.closed, w.idle = true, make(chan struct{})
	w.turnAway(ErrClosed, func(*applicant) bool { return true })
	if w.used == 0 {
		close(w.idle)
	}
	return w.idle
}

// setFull says whether the store has no room.
func (w *window) setFull(full bool) {
	if w.full.Load() == full {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.full.Store(full); full {
		w.turnAway(ErrFull, func(a *applicant) bool { return !a.patient })
		w.grant() // who waited behind them may be smaller
	}
}

// turnAway refuses some of those who wait. REQUIRES: w.mu held.
func (w *window) turnAway(why error, some func(*applicant) bool) {
	for e := w.waiting.Front(); e != nil; {
		a, next := e.Value.(*applicant), e.Next()
		if some(a) {
			a.refused = why
			w.waiting.Remove(e)
			close(a.granted)
		}
		e = next
	}
}

func (w *window) inUse() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.used
}
