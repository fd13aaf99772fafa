package actor_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/greenroom-go/greenroom/actor"
)

// What the tests on the machine's own clock use, where handlers that do not return and the
// monitor's own timers are the matter: no bubble has those.

// journal is a list of what happened. The zero value is empty.
type journal struct {
	mu    sync.Mutex
	lines []string
}

func (j *journal) add(format string, args ...any) {
	if j == nil {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, fmt.Sprintf(format, args...))
}

func (j *journal) all() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.lines)
}

func (j *journal) expect(t *testing.T, want ...string) {
	t.Helper()
	if got := j.all(); !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func mustAsk[R, M any](t testing.TB, ref actor.Ref[M], req actor.Request[R]) R {
	t.Helper()
	answer, err := actor.Ask(bg, ref, req)
	if err != nil {
		t.Fatalf("ask: %v", err)
	}
	return answer
}

// ended waits until the actor is gone and returns how.
func ended[M any](t testing.TB, sys *actor.System, ref actor.Ref[M]) func() actor.Down {
	t.Helper()
	downs := make(chan actor.Down, 1)
	watching := make(chan struct{})
	actor.SpawnFunc(sys, "", func(ctx *actor.Context[any], m any) error {
		switch m := m.(type) {
		case string:
			ctx.Watch(ref.PID(), func(d actor.Down) any { return d })
			close(watching)
		case actor.Down:
			downs <- m
			return actor.ErrStop
		}
		return nil
	}).Tell(bg, "watch")
	<-watching
	return func() actor.Down { return <-downs }
}

// held is a message whose handler tells that it has it, and does not return before it may.
type held struct{ entered, release chan struct{} }

func (held) counterMsg() {}

func newHeld() held { return held{make(chan struct{}), make(chan struct{})} }

// enter is what the handler does.
func (h held) enter() {
	close(h.entered)
	<-h.release
}

// inert handles nothing.
func inert(*actor.Context[any], any) error { return nil }

// collect gathers events of one type, as they come.
func collect[E actor.Event](sys *actor.System) func() []E {
	var mu sync.Mutex
	var events []E
	actor.Subscribe(sys, actor.SpawnFunc(sys, "", func(_ *actor.Context[E], e E) error {
		mu.Lock()
		defer mu.Unlock()
		events = append(events, e)
		return nil
	}))
	return func() []E {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(events)
	}
}
