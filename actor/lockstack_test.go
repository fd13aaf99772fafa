package actor

import (
	"context"
	"log/slog"
	"runtime"
	"testing"
	"time"
)

// A sender whose thread the operating system has put aside may hold the lock that the end of a turn needs, for
// milliseconds: another worker takes over meanwhile.
func TestAWorkerThatCannotEndItsTurnStepsOut(t *testing.T) {
	if currentG() == 0 {
		t.Skip("the engine does not know goroutines on this processor")
	}
	bg := context.Background()
	sys := NewSystem("s", WithLogger(slog.New(slog.DiscardHandler)))
	entered, release := make(chan struct{}), make(chan struct{})
	c := SpawnFunc(sys, "", func(*Context[int], int) error { close(entered); <-release; return nil })
	c.Tell(bg, 1)
	<-entered
	at := c.to.base()
	w := at.worker.Load()
	until(t, w.due.Load) // then the turn ends with this message
	at.mu.Lock()
	close(release)
	until(t, w.out.Load)
	at.mu.Unlock()
	if _, err := sys.Shutdown(bg); err != nil {
		t.Error(err)
	}
	if w.out.Load() {
		t.Error("the worker has not stepped in again")
	}
}

// until waits for it.
func until(t *testing.T, it func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !it(); runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatal("not within 10 s")
		}
	}
}
