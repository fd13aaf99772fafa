package actortest

import (
	"context"
	"log/slog"
	"testing"

	"github.com/greenroom-go/greenroom/actor"
)

// NewSystem returns a system named "test" on the real clock, for tests that do not fit
// into a bubble: benchmarks, allocation counts, tests that need all threads and the
// runtime's own timers. It logs nothing unless opts say otherwise. It is shut down when
// the test ends, and the test fails if that fails; a test may shut it down earlier. For
// everything else use [Run].
func NewSystem(t testing.TB, opts ...actor.SystemOption) *actor.System {
	t.Helper()
	opts = append([]actor.SystemOption{actor.WithLogger(slog.New(slog.DiscardHandler))}, opts...)
	sys := actor.NewSystem("test", opts...)
	t.Cleanup(func() {
		t.Helper()
		ctx, cancel := context.WithTimeoutCause(context.Background(), patience, errPatience)
		defer cancel()
		if _, err := sys.Shutdown(ctx); err != nil {
			t.Errorf("the system did not shut down: %v", err)
		}
	})
	return sys
}
