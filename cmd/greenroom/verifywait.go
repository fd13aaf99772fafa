package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/greenroom-go/greenroom/internal/pause"
)

// beginnings waits until each writer has its first acknowledgement. It is safe for concurrent use.
type beginnings struct {
	failed chan error // why a writer ended before

	mu      sync.Mutex
	missing map[string]bool // guarded by mu; writers without an acknowledgement
	begun   bool            // guarded by mu; all is closed
	acked   int64           // guarded by mu; acknowledgements of all writers
	all     chan struct{}   // closed once missing is empty
}

func newBeginnings() *beginnings {
	return &beginnings{failed: make(chan error, 1), missing: make(map[string]bool), all: make(chan struct{})}
}

// of adds a writer, before await, and returns what it must call with each acknowledgement.
func (b *beginnings) of(name string) (acknowledged func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.missing[name] = true
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.acked++
		if b.missing[name] {
			delete(b.missing, name)
			if len(b.missing) == 0 && !b.begun {
				b.begun = true // and stays so when writers are added afterwards
				close(b.all)
			}
		}
	}
}

// ended records that a writer has ended, and why.
func (b *beginnings) ended(name string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err == nil || !b.missing[name] {
		return
	}
	select {
	case b.failed <- fmt.Errorf("%s: it ended before anything was acknowledged: %w", name, err):
	default: // the first one says enough
	}
}

// await waits until each writer has begun. It gives up when a writer has ended before, when nothing
// is acknowledged for verifyPatience, or with ctx; the error tells a server that stands still from a
// machine that is slow.
func (b *beginnings) await(ctx context.Context) error {
	ticker := time.NewTicker(verifyPatience)
	defer ticker.Stop()
	for before := int64(-1); ; {
		select {
		case <-b.all:
			return nil
		case err := <-b.failed:
			return err
		case <-ctx.Done():
			missing, acked := b.state()
			return fmt.Errorf("the machine is too slow for this test: %d writes were acknowledged in %v, but not one of %s", acked, verifyLongest, missing)
		case <-ticker.C:
			missing, acked := b.state()
			if acked == before {
				return fmt.Errorf("nothing was acknowledged in %v, and not once %s", verifyPatience, missing)
			}
			before = acked
		}
	}
}

func (b *beginnings) state() (missing string, acked int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Join(slices.Sorted(maps.Keys(b.missing)), ", "), b.acked
}

// settling says how long to wait for a result that is computed from what was written. The zero value
// is ready to use.
type settling struct {
	state any // as it was seen last
	since time.Time
}

// more waits a moment and returns true, unless the state has not changed for verifyPatience or ctx
// has ended. The state must be comparable.
func (p *settling) more(ctx context.Context, state any) bool {
	if state != p.state || p.since.IsZero() {
		p.state, p.since = state, time.Now()
	}
	return time.Since(p.since) < verifyPatience && pause.For(ctx, verifyPoll) == nil
}
