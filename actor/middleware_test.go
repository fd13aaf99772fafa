package actor_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/actortest"
)

func TestReceiveMiddlewareStandsAroundTheHandlerInOrder(t *testing.T) {
	var log *actortest.Journal
	around := func(name string) actor.ReceiveOption {
		return actor.AroundReceive(func(_ context.Context, r actor.Reception, next func() error) error {
			log.Addf("%s before %v to %s", name, r.Message, r.To.Path())
			err := next()
			log.Addf("%s after: %v", name, err)
			return err
		})
	}
	actortest.Run(t, func(k *actortest.Kit) {
		log = actortest.NewJournal(k)
		ref := actor.SpawnFunc(k.System(), "a", func(ctx *actor.Context[string], m string) error {
			log.Addf("handled %s", m)
			return nil
		}, around("first"), around("second"))
		ref.Tell(k.Context(), "x")
		log.Expect("system before x to /a", "first before x to /a", "second before x to /a", "handled x",
			"second after: <nil>", "first after: <nil>", "system after: <nil>")
	}, around("system"))
}

func TestReceiveMiddlewareMayRefuse(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		errForbidden := errors.New("forbidden")
		ref := actor.Spawn(k.System(), "a", newCounter, actor.AroundReceive(func(_ context.Context, r actor.Reception, next func() error) error {
			if _, ok := r.Message.(get); ok && r.From.IsZero() {
				return errForbidden
			}
			return next()
		}))
		if _, err := actor.Ask(k.Context(), ref, get{}); !errors.Is(err, errForbidden) {
			k.T().Errorf("got %v", err)
		}
		k.ExpectFailures(1)
	})
}

type traceKey struct{}

// Trace context enters with a context from outside, is put on the message by the
// sending middleware, and travels on through handlers, stashes and forwards.
func TestHeaderTravelsWithTheMessage(t *testing.T) {
	trace := actor.BeforeSend(func(ctx context.Context, s *actor.Sending) error {
		if id, ok := ctx.Value(traceKey{}).(string); ok {
			s.Header = actor.Header{"trace": id}
		}
		return nil
	})
	actortest.Run(t, func(k *actortest.Kit) {
		sys := k.System()
		last := actor.SpawnFunc(sys, "last", func(ctx *actor.Context[get], m get) error {
			if actor.HeaderOf(ctx)["trace"] == "abc" {
				actor.Reply(ctx, m, 1)
			}
			return nil
		})
		forwards := actor.SpawnFunc(sys, "forwards", func(ctx *actor.Context[get], _ get) error { return actor.Forward(ctx, last) })
		stashes := actor.SpawnFunc(sys, "stashes", func(ctx *actor.Context[get], _ get) error {
			ctx.Become(func(ctx *actor.Context[get], _ get) error { return actor.Forward(ctx, forwards) })
			err := ctx.Stash()
			ctx.Unstash()
			return err
		})
		asks := actor.SpawnFunc(sys, "asks", func(ctx *actor.Context[get], m get) error {
			n, err := actor.Ask(ctx, stashes, get{})
			if err == nil {
				actor.Reply(ctx, m, n)
			}
			return err
		})
		if n, err := actor.Ask(context.WithValue(k.Context(), traceKey{}, "abc"), asks, get{}); n != 1 || err != nil {
			k.T().Errorf("got %d, %v", n, err)
		}
		if _, err := actor.Ask(k.Context(), asks, get{}); !errors.Is(err, actor.ErrUnhandled) {
			k.T().Errorf("the header of an earlier message is still there: %v", err)
		}
		k.ExpectFailures(1) // of the actor that returns what its ask returned
	}, trace)
}

// A header is nothing to be lost with: what carries one ends as everything does.
func TestMessagesWithAHeaderEndAsThoseWithout(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		ref := actor.Spawn(k.System(), "x", newCounter)
		h := newHold()
		ref.Tell(k.Context(), h)
		k.Settle()
		ref.Tell(k.Context(), add{1})
		call := actortest.Ask(k, ref, get{})
		if !call.Pending() {
			k.T().Error("the ask has ended before its target")
		}
		ref.Stop()
		close(h.release)
		if err := call.Err(); !errors.Is(err, actor.ErrStopped) {
			k.T().Errorf("got %v", err)
		}
		if d := actortest.ExpectDeadLetter[add](k); d.Message != (add{1}) || d.Reason != actor.Stopped {
			k.T().Errorf("got %+v", d)
		}
		actortest.ExpectDeadLetter[get](k)
	}, actor.BeforeSend(func(_ context.Context, s *actor.Sending) error { s.Header = actor.Header{"trace": "abc"}; return nil }))
}

func TestSpawnMiddlewareMayRefuse(t *testing.T) {
	errQuota := errors.New("too many")
	var asked []string
	quota := actor.BeforeSpawn(func(s actor.Spawning) error {
		asked = append(asked, fmt.Sprintf("%s under %s: %s", s.Name, s.Parent.Path(), s.Type))
		if s.Name == "b" {
			return errQuota
		}
		return nil
	})
	actortest.Run(t, func(k *actortest.Kit) {
		actor.Spawn(k.System(), "a", newCounter)
		if _, err := actor.TrySpawn(k.System(), "b", newCounter); !errors.Is(err, errQuota) {
			k.T().Errorf("got %v", err)
		}
		if want := []string{"a under /: actor_test.counterMsg", "b under /: actor_test.counterMsg"}; !slices.Equal(asked, want) {
			k.T().Errorf("got %q, want %q", asked, want)
		}
	}, quota)
}

// thrice is due three times, a second apart.
type thrice struct{ left int }

func (s *thrice) Next(after time.Time) time.Time {
	if s.left == 0 {
		return time.Time{}
	}
	s.left--
	return after.Truncate(time.Second).Add(time.Second)
}

func TestScheduleSendsAtEachOfItsTimes(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		log := actortest.NewJournal(k)
		actor.SpawnFunc(k.System(), "", func(ctx *actor.Context[string], m string) error {
			log.Addf("%s at %v", m, k.Elapsed())
			if m == "go" {
				ctx.On("plan", &thrice{3}, "due")
				ctx.On("never", &thrice{}, "never")
			}
			return nil
		}).Tell(k.Context(), "go")
		k.Advance(time.Minute)
		log.Expect("go at 0s", "due at 1s", "due at 2s", "due at 3s")
		if n := k.System().Stats().Timers; n != 0 {
			k.T().Errorf("%d timers are left", n)
		}
	})
}
