package actor

import (
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"
)

var errInside = errors.New("failed")

// member returns an actor that fails when told an error, waits for a channel, and passes on what else it is told.
func member(told chan<- any) func(*Context[any], any) error {
	return func(ctx *Context[any], m any) error {
		switch m := m.(type) {
		case error:
			return m
		case chan struct{}:
			<-m
		default:
			told <- m
		}
		return nil
	}
}

// A timer that is canceled as it fires may still fire: here by hand.
func TestABackoffThatPassesAsItIsGivenUpStartsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := NewSystem("test", WithLogger(slog.New(slog.DiscardHandler)))
		defer func() { _, _ = sys.Shutdown(t.Context()) }()
		told := make(chan any, 9)
		refs := make(map[string]Ref[any])
		SpawnFunc(sys, "parent", func(ctx *Context[any], _ any) error {
			slow := Supervise(OneForOne, Backoff(time.Hour, time.Hour))
			refs["busy"] = SpawnFunc(ctx, "busy", member(told))
			refs["fails"] = SpawnFunc(ctx, "fails", member(told))
			refs["waits"] = SpawnFunc(ctx, "waits", member(told), Guardian(slow))
			return nil
		}, Supervise(AllForOne)).Tell(t.Context(), 1)
		synctest.Wait()
		refs["waits"].Tell(t.Context(), errInside)
		synctest.Wait()
		backoff := refs["waits"].to.base().ext.backoff
		busy := make(chan struct{})
		refs["busy"].Tell(t.Context(), busy)
		refs["fails"].Tell(t.Context(), errInside)
		synctest.Wait() // the restart of all waits for who is busy
		backoff.what.ring()
		synctest.Wait()
		close(busy)
		synctest.Wait()
		for name, ref := range refs {
			ref.Tell(t.Context(), errInside) // nor is a later failure left undecided
			ref.Tell(t.Context(), name)
			synctest.Wait()
		}
		<-time.After(3 * time.Hour)
		if len(told) != len(refs) {
			t.Errorf("%d of %d handle messages again", len(told), len(refs))
		}
	})
}

// The same for the backoff of a restart of several.
func TestABackoffOfAGroupThatPassesAsItIsGivenUpShortensNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := NewSystem("test", WithLogger(slog.New(slog.DiscardHandler)))
		defer func() { _, _ = sys.Shutdown(t.Context()) }()
		told := make(chan any, 9)
		var child Ref[any]
		parent := Spawn[any](sys, "parent", func() *spawner {
			return &spawner{func(ctx *Context[any]) { child = SpawnFunc(ctx, "child", member(told)) }}
		}, Supervise(AllForOne, Backoff(time.Hour, time.Hour)))
		child.Tell(t.Context(), errInside)
		synctest.Wait()
		backoff := parent.to.base().ext.backoff
		if err := sys.Restart(parent.PID()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		child.Tell(t.Context(), errInside)
		child.Tell(t.Context(), 1)
		synctest.Wait() // the next one waits, too
		backoff.what.ring()
		synctest.Wait()
		if len(told) > 0 {
			t.Error("the second backoff is over with the first")
		}
		<-time.After(3 * time.Hour)
		if len(told) != 1 {
			t.Errorf("%d messages handled, want 1", len(told))
		}
	})
}

// spawner spawns when it begins.
type spawner struct{ begin func(*Context[any]) }

func (s *spawner) Init(ctx *Context[any]) error   { s.begin(ctx); return nil }
func (*spawner) Receive(*Context[any], any) error { return nil }
