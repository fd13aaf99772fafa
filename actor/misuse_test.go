package actor_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/actortest"
)

// What is a programmer's error panics at once, and says what would be right.
func TestMisusePanicsWithWhatWouldBeRight(t *testing.T) {
	for what, c := range map[string]struct {
		misuse func()
		want   string
	}{
		"weight":       {func() { actor.Weight(17) }, "from 1 to 16"},
		"mailbox":      {func() { actor.Bounded(0, actor.Reject) }, "at least one message"},
		"exhausted":    {func() { actor.Exhausted(actor.Restart) }, "Escalate or Stop"},
		"system name":  {func() { actor.NewSystem("a/b") }, `"a/b"`},
		"zero ref":     {func() { actor.Ref[int]{}.Tell(bg, 1) }, "zero Ref[int]"},
		"taken period": {func() { inTurn(t, func(ctx *actor.Context[any]) { ctx.Every("beat", 0, "beat") }) }, `Every("beat")`},
	} {
		t.Run(what, func(t *testing.T) {
			defer func() {
				if r := recover(); r == nil || !strings.Contains(fmt.Sprint(r), c.want) {
					t.Errorf("got %v, want a text with %q", r, c.want)
				}
			}()
			c.misuse()
		})
	}
}

// inTurn runs f in a handler, and panics as f does.
func inTurn(t *testing.T, f func(ctx *actor.Context[any])) {
	var failure error
	actortest.Run(t, func(k *actortest.Kit) {
		failures := actortest.Events[actor.ActorFailed](k)
		actortest.Do(actortest.NewProbe[any](k), func(ctx *actor.Context[any]) error {
			f(ctx)
			return nil
		})
		k.ExpectFailures(1)
		failure = failures.Next().Err
	})
	panic(failure)
}

// What is asked of nobody, or taken back though it was never set, does nothing.
func TestWhatWasNeverSetIsTakenBackWithoutHarm(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		p, other := actortest.NewProbe[any](k), actortest.NewProbe[any](k)
		actor.Unsubscribe(k.System(), p.Ref())
		actortest.Do(p, func(ctx *actor.Context[any]) error {
			ctx.Unwatch(other.Ref().PID())
			ctx.Unlink(other.Ref().PID())
			ctx.Unstash()
			ctx.Unbecome()
			if ctx.Cancel("nothing") {
				k.T().Error("a timer that was never set was still set")
			}
			return nil
		})
		p.Ref().Tell(k.Context(), "still there")
		p.ExpectAll("still there")
		for range actor.Gather(k.Context(), []actor.Ref[any]{}, get{}) {
			k.T().Error("an answer of nobody")
		}
	})
}

func TestAddressesThatLeadToNobody(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		sys := k.System()
		never, err := actor.ParsePID("test/never#zzzzzzzzz")
		if err != nil {
			k.T().Fatal(err)
		}
		if _, err := actor.Lookup[any](sys, never); !errors.Is(err, actor.ErrStopped) {
			k.T().Errorf("an address that was never given: %v", err)
		}
		if _, err := actor.LookupPath[struct{}](sys, "/"); !errors.Is(err, actor.ErrStopped) {
			k.T().Errorf("the root: %v", err)
		}
		if _, err := actor.Routed(sys, never, func(int, func(actor.Ref[int])) {}); !errors.Is(err, actor.ErrStopped) {
			k.T().Errorf("a route of nobody: %v", err)
		}
		if _, err := sys.Detail(k.Context(), never); !errors.Is(err, actor.ErrStopped) {
			k.T().Errorf("the detail of nobody: %v", err)
		}
	})
}

func TestBacklogOfTheIdleTheBusyAndTheGone(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		gate, p := gated(k)
		p.Ref().Tell(k.Context(), "waits")
		if n, ok := p.Ref().Backlog(); n != 2 || !ok {
			k.T().Errorf("busy: %d, %v; want the one in hand and the one that waits", n, ok)
		}
		gate.Open()
		if n, ok := p.Ref().Backlog(); n != 0 || !ok {
			k.T().Errorf("idle: %d, %v", n, ok)
		}
		route, err := actor.Routed(k.System(), p.Ref().PID(), func(m string, to func(actor.Ref[string])) { to(p.Ref()) })
		if err != nil {
			k.T().Fatal(err)
		}
		if n, ok := route.Backlog(); n != 0 || !ok {
			k.T().Errorf("a route: %d, %v", n, ok)
		}
		p.Ref().Stop()
		actortest.ExpectDown(k, p.Ref())
		if n, ok := p.Ref().Backlog(); n != 0 || ok {
			k.T().Errorf("gone: %d, %v", n, ok)
		}
		if _, ok := route.Backlog(); ok {
			k.T().Error("a route of one who is gone still takes messages")
		}
	})
}

// lastWords tries to begin something in its Terminate.
type lastWords struct{ err *error }

func (lastWords) Receive(*actor.Context[int], int) error { return nil }

func (l lastWords) Terminate(ctx *actor.Context[int], _ error) {
	_, *l.err = actor.TrySpawn(ctx, "heir", newCounter)
}

func TestAnActorThatEndsHasNoMoreChildren(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		var err error
		ref := actor.Spawn(k.System(), "testator", func() lastWords { return lastWords{&err} })
		ref.Stop()
		actortest.ExpectDown(k, ref)
		if !errors.Is(err, actor.ErrStopped) {
			k.T().Errorf("got %v", err)
		}
		if _, err := k.System().Inspect("/testator/heir", 0); !errors.Is(err, actor.ErrStopped) {
			k.T().Errorf("the name of the child that was refused is taken: %v", err)
		}
		k.Advance(time.Second)
	})
}
