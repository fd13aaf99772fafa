package actor

import (
	"log/slog"
	"testing"
	"time"
)

// What is more than a round takes, or comes while one is on its way, is due again at the next tick.
func TestARoundOfStuckReportsIsBounded(t *testing.T) {
	sys := NewSystem("test", WithLogger(slog.New(slog.DiscardHandler)))
	t.Cleanup(func() { _, _ = sys.Shutdown(t.Context()) })
	Subscribe(sys, SpawnFunc(sys, "listener", func(*Context[Stuck], Stuck) error { return nil }))
	c := SpawnFunc(sys, "stuck", func(*Context[int], int) error { return nil }).to.base()
	w, m := &worker{s: c.sched()}, &monitor{}
	w.co.Store(&coroutine{id: 1})
	for i := range stuckMost {
		if !m.noteStuck(w, c, time.Second) {
			t.Fatalf("report %d has no room", i)
		}
	}
	if m.noteStuck(w, c, time.Second) || len(m.stuck) != stuckMost {
		t.Errorf("%d reports in a round, of at most %d", len(m.stuck), stuckMost)
	}
	m.stuck = nil
	m.reporting.Store(true)
	if m.noteStuck(w, c, time.Second) || len(m.stuck) != 0 {
		t.Errorf("%d reports while others are on their way", len(m.stuck))
	}
	m.reporting.Store(false)
	m.restUntil.Store(time.Now().Add(time.Hour).UnixNano())
	if m.noteStuck(w, c, time.Second) || len(m.stuck) != 0 {
		t.Errorf("%d reports while the last round is not paid for", len(m.stuck))
	}
}
