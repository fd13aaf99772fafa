package actor_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/actortest"
)

func TestAskEndsWithTheHandlersError(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		cause := errors.New("no")
		ref := actor.SpawnFunc(k.System(), "x", func(*actor.Context[get], get) error { return cause })
		if _, err := actor.Ask(k.Context(), ref, get{}); !errors.Is(err, cause) {
			k.T().Errorf("got %v, want %v", err, cause)
		}
		k.ExpectFailures(1)
	})
}

func TestAskEndsWhenTheHandlerPanics(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		ref := actor.SpawnFunc(k.System(), "x", func(*actor.Context[get], get) error { panic("ouch") })
		_, err := actor.Ask(k.Context(), ref, get{})
		var p *actor.PanicError
		if !errors.As(err, &p) || p.Value != "ouch" || !strings.Contains(string(p.Stack), "TestAskEndsWhenTheHandlerPanics") {
			k.T().Errorf("got %v, want a PanicError with the handler's stack", err)
		}
		k.ExpectFailures(1)
	})
}

func TestAskThatNobodyAnswersEndsUnhandled(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		ref := actor.Spawn(k.System(), "x", newCounter)
		if _, err := actor.Ask(k.Context(), ref, mute{}); !errors.Is(err, actor.ErrUnhandled) {
			k.T().Errorf("got %v, want ErrUnhandled", err)
		}
	})
}

func TestAskOfAnActorThatIsGoneEndsAtOnce(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		ref := actor.Spawn(k.System(), "x", newCounter)
		k.Watch(ref)
		ref.Stop()
		actortest.ExpectDown(k, ref)
		if _, err := actor.Ask(k.Context(), ref, get{}); !errors.Is(err, actor.ErrStopped) {
			k.T().Errorf("got %v, want ErrStopped", err)
		}
	})
}

func TestAskQueuedAtAnActorThatStopsEnds(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		ref := actor.Spawn(k.System(), "x", newCounter)
		h := newHold()
		ref.Tell(k.Context(), h)
		k.Settle()
		call := actortest.Ask(k, ref, get{})
		if !call.Pending() {
			k.T().Error("the ask has ended before its target")
		}
		ref.Stop()
		close(h.release)
		if err := call.Err(); !errors.Is(err, actor.ErrStopped) {
			k.T().Errorf("got %v, want ErrStopped", err)
		}
	})
}

func TestAskTimesOutAndItsLateAnswerIsDropped(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		type slow struct{ actor.Returns[string] }
		release := make(chan *actor.Promised[string], 2)
		ref := actor.SpawnFunc(k.System(), "x", func(ctx *actor.Context[slow], m slow) error {
			release <- actor.Promise(ctx, m)
			return nil
		})
		_, err := actor.Ask(k.Context(), ref, slow{})
		if !errors.Is(err, context.DeadlineExceeded) || k.Elapsed() != 5*time.Second {
			k.T().Errorf("got %v after %v, want a deadline error after the default of 5 s", err, k.Elapsed())
		}
		first := <-release
		if first.Resolve("late") {
			k.T().Error("a late answer found somebody waiting")
		}
		go func() { (<-release).Resolve("mine") }()
		if answer := actortest.Ask(k, ref, slow{}).Answer(); answer != "mine" {
			k.T().Errorf("the second ask got %q", answer)
		}
	})
}

func TestAskEndsWithTheCauseOfItsContext(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		ref := actor.Spawn(k.System(), "x", newCounter)
		h := newHold()
		ref.Tell(k.Context(), h)
		k.Settle()
		defer close(h.release)
		cause := errors.New("changed my mind")
		ctx, cancel := context.WithCancelCause(k.Context())
		cancel(cause)
		if _, err := actor.Ask(ctx, ref, get{}); !errors.Is(err, cause) {
			k.T().Errorf("got %v, want %v", err, cause)
		}
	})
}

func TestHandlerSeesThatItsAskerGaveUp(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		seen, entered := make(chan error, 1), make(chan struct{})
		ref := actor.SpawnFunc(k.System(), "x", func(ctx *actor.Context[get], _ get) error {
			close(entered)
			<-ctx.Done()
			seen <- ctx.Err()
			return nil
		})
		ctx, cancel := context.WithCancel(k.Context())
		go func() { <-entered; cancel() }()
		_, _ = actor.Ask(ctx, ref, get{})
		if err := <-seen; !errors.Is(err, context.Canceled) {
			k.T().Errorf("the handler's context ended with %v", err)
		}
	})
}

func TestRequestThatTheTargetDoesNotAcceptIsRefused(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		ref := actor.SpawnFunc(k.System(), "x", func(*actor.Context[int], int) error { return nil })
		if _, err := actor.Ask(k.Context(), ref, get{}); !errors.Is(err, actor.ErrNotAccepted) {
			k.T().Errorf("got %v, want ErrNotAccepted", err)
		}
	})
}

func TestAsksInHandlersDoNotUseUpTheWorkers(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		type sum struct {
			actor.Returns[int]
			depth int
		}
		var receive func(*actor.Context[sum], sum) error
		receive = func(ctx *actor.Context[sum], m sum) error {
			if m.depth == 0 {
				actor.Reply(ctx, m, 1)
				return nil
			}
			child := actor.SpawnFunc(ctx, "", receive)
			n, err := actor.Ask(ctx, child, sum{depth: m.depth - 1})
			actor.Reply(ctx, m, n+1)
			return err
		}
		// 200 handlers wait for each other at the same time, on a few workers.
		if n := actortest.Ask(k, actor.SpawnFunc(k.System(), "", receive), sum{depth: 200}).Answer(); n != 201 {
			k.T().Errorf("got %d, want 201", n)
		}
	})
}

func TestAskThatClosesACycleFailsAtOnce(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		type ask struct{ actor.Returns[error] }
		var a, b actor.Ref[ask]
		a = actor.SpawnFunc(k.System(), "a", func(ctx *actor.Context[ask], m ask) error {
			answer, err := actor.Ask(ctx, b, ask{})
			if err != nil {
				return err
			}
			actor.Reply(ctx, m, answer)
			return nil
		})
		b = actor.SpawnFunc(k.System(), "b", func(ctx *actor.Context[ask], m ask) error {
			_, err := actor.Ask(ctx, a, ask{})
			actor.Reply(ctx, m, err)
			return nil
		})
		if err := actortest.Ask(k, a, ask{}).Answer(); !errors.Is(err, actor.ErrDeadlock) {
			k.T().Errorf("got %v, want ErrDeadlock", err)
		}
	})
}
