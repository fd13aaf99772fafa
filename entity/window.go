package entity

import (
	"container/list"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
)

// window bounds the memory of the readings between Ingest and their commit. It is a semaphore
// counted in bytes, shared fairly among sources: each may have share bytes in it, and waiting
// sources are admitted in turn, a message at a time, first come, first served within a source.
// Waiting is how a source is slowed down. While the store is full, only patient deliveries are
// admitted.
//
// Readings that wait are in memory, too. They take at most waitingWindows times the size of the
// window, of which no source may have more than remains for the others.
//
// The simpler design, one queue for all sources, puts what a source sends every few seconds behind
// everything that another one has sent as fast as it could: with 32 MiB in the window that was more
// than a second of commits, and as much again for each 32 MiB that waited.
type window struct {
	size, share int64
	full        atomic.Bool // written under mu

	mu      sync.Mutex
	used    int64
	sources map[sourceKey]*source // those that use bytes or wait
	free    []*source             // for reuse
	turns   list.List             // of *source: waiting sources with share left, in the order of their turns
	waiting int                   // applicants of all sources
	wanted  int64                 // total bytes that they wait for
	closed  bool
	idle    chan struct{} // made by close; closed when nothing is in use
}

// sourceKey identifies a source in the window. The zero key is the runtime itself, which may use
// the whole window.
type sourceKey struct {
	by     string // see Once.By
	entity string // set if by is ""
}

// sourceOf returns the key of a sender of readings to an entity.
func sourceOf(by, id string) sourceKey {
	if by != "" {
		return sourceKey{by: by}
	}
	return sourceKey{entity: id}
}

// source is the window's record of a source. It is guarded by window.mu.
type source struct {
	key     sourceKey
	used    int64
	waiting list.List     // of *applicant
	wanted  int64         // bytes that they wait for
	turn    *list.Element // in window.turns, nil while nothing waits or the share is used up
}

type applicant struct {
	source  *source
	bytes   int64
	patient bool
	granted chan struct{} // closed with the bytes taken, or with refused set
	refused error
}

// freeSources is how many unused sources are kept for reuse.
const freeSources = 256

// waitingWindows bounds the bytes that wait for the window, as a multiple of its size.
const waitingWindows = 8

// acquire takes bytes for a source, waiting for them until ctx ends. A request larger than the
// window, or than the share, takes all of it. A request that is not patient is refused while the
// store is full, or if too much waits.
func (w *window) acquire(ctx context.Context, key sourceKey, bytes int64, patient bool) (*source, error) {
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return nil, ErrClosed
	}
	if w.full.Load() && !patient {
		w.mu.Unlock()
		return nil, ErrFull
	}
	s := w.find(key)
	if s.waiting.Len() == 0 && w.turns.Len() == 0 && w.shares(s, bytes) && w.fits(bytes) {
		w.take(s, bytes)
		w.mu.Unlock()
		return s, nil
	}
	if left := waitingWindows*w.size - w.wanted; s.wanted+bytes > left && !patient {
		w.leave(s)
		w.mu.Unlock()
		return nil, fmt.Errorf("%w: %d bytes wait, and %d are left for others", ErrBusy, s.wanted, left)
	}
	a := &applicant{source: s, bytes: bytes, patient: patient, granted: make(chan struct{})}
	place := s.waiting.PushBack(a)
	w.waiting++
	w.wanted += bytes
	s.wanted += bytes
	w.line(s)
	w.mu.Unlock()

	select {
	case <-a.granted:
		return s, a.refused
	case <-ctx.Done():
		return s, w.withdraw(ctx, a, place)
	}
}

// find returns the source of a key. REQUIRES: w.mu held.
func (w *window) find(key sourceKey) *source {
	if s := w.sources[key]; s != nil {
		return s
	}
	if w.sources == nil {
		w.sources = make(map[sourceKey]*source)
	}
	var s *source
	if last := len(w.free) - 1; last >= 0 {
		s, w.free = w.free[last], w.free[:last]
	} else {
		s = &source{}
	}
	s.key = key
	w.sources[key] = s
	return s
}

// leave removes a source that has nothing in the window and waits for nothing. REQUIRES: w.mu held.
func (w *window) leave(s *source) {
	if s.used != 0 || s.waiting.Len() > 0 {
		return
	}
	delete(w.sources, s.key)
	if s.key = (sourceKey{}); len(w.free) < freeSources {
		w.free = append(w.free, s)
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
	w.remove(a, place)
	w.grant() // the next one may be smaller
	return fmt.Errorf("wait for room in the window of %d bytes: %w", w.size, context.Cause(ctx))
}

// remove removes an applicant from the queue of its source. REQUIRES: w.mu held.
func (w *window) remove(a *applicant, place *list.Element) {
	s := a.source
	s.waiting.Remove(place)
	w.waiting--
	w.wanted -= a.bytes
	s.wanted -= a.bytes
	w.line(s) // the next one may be smaller
	w.leave(s)
}

// line adds a source to window.turns or removes it, depending on whether it can be admitted.
// REQUIRES: w.mu held.
func (w *window) line(s *source) {
	first := s.waiting.Front()
	switch ready := first != nil && w.shares(s, first.Value.(*applicant).bytes); {
	case ready && s.turn == nil:
		s.turn = w.turns.PushBack(s)
	case !ready && s.turn != nil:
		w.turns.Remove(s.turn)
		s.turn = nil
	}
}

// fits reports whether bytes are free. An empty window has room for anything.
// REQUIRES: w.mu held.
func (w *window) fits(bytes int64) bool { return w.used == 0 || w.used+bytes <= w.size }

// shares reports whether a source's share allows that many more bytes. REQUIRES: w.mu held.
func (w *window) shares(s *source, bytes int64) bool {
	return s.used <= 0 || s.used+bytes <= w.share || s.key == sourceKey{}
}

func (w *window) take(s *source, bytes int64) {
	w.used += bytes
	s.used += bytes
}

// grant admits waiting applicants, each source in turn. REQUIRES: w.mu held.
func (w *window) grant() {
	for e := w.turns.Front(); e != nil; e = w.turns.Front() {
		s := e.Value.(*source)
		first := s.waiting.Front()
		a := first.Value.(*applicant)
		if !w.fits(a.bytes) {
			return
		}
		w.take(s, a.bytes)
		w.turns.Remove(e)
		s.turn = nil
		w.remove(a, first)
		close(a.granted)
	}
}

// charge takes bytes without waiting, even beyond the size, for a delivery that was admitted and
// turns out to be larger. Other deliveries wait for that.
func (w *window) charge(s *source, bytes int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.take(s, bytes)
	w.line(s)
}

// release gives back what a delivery has taken.
func (w *window) release(d *delivery) { w.releaseAll([]*delivery{d}) }

// releaseAll is release for several.
func (w *window) releaseAll(deliveries []*delivery) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, d := range deliveries {
		w.used -= d.cost
		d.source.used -= d.cost
		w.line(d.source)
		w.leave(d.source)
	}
	w.grant()
	if w.closed && w.used == 0 {
		close(w.idle)
	}
}

// close refuses all waiting and all future applicants. The channel is closed when everything in use
// has been released.
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

// setFull records whether the store is full.
func (w *window) setFull(full bool) {
	if w.full.Load() == full {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.full.Store(full); full {
		w.turnAway(ErrFull, func(a *applicant) bool { return !a.patient })
		w.grant() // those who waited behind them may be smaller
	}
}

// turnAway refuses the waiting applicants for which some returns true. REQUIRES: w.mu held.
func (w *window) turnAway(why error, some func(*applicant) bool) {
	if w.waiting == 0 {
		return
	}
	for _, s := range w.sources {
		for e := s.waiting.Front(); e != nil; {
			a, next := e.Value.(*applicant), e.Next()
			if some(a) {
				a.refused = why
				w.remove(a, e)
				close(a.granted)
			}
			e = next
		}
	}
}

func (w *window) inUse() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.used
}
