package actor_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-go/greenroom/actor"
)

func TestReceiveMiddlewareStandsAroundTheHandlerInOrder(t *testing.T) {
	log := new(journal)
	around := func(name string) actor.ReceiveOption {
		return actor.AroundReceive(func(_ context.Context, r actor.Reception, next func() error) error {
			log.add("%s before %v to %s", name, r.Message, r.To.Path())
			err := next()
			log.add("%s after: %v", name, err)
			return err
		})
	}
	sys := newSystem(t, around("system"))
	ref := actor.SpawnFunc(sys, "a", func(ctx *actor.Context[string], m string) error {
		log.add("handled %s", m)
		return nil
	}, around("first"), around("second"))
	down := make(chan struct{})
	ref.Tell(bg, "x")
	ref.Drain()
	go func() {
		for {
			if _, err := sys.Inspect("/a", 0); err != nil {
				close(down)
				return
			}
		}
	}()
	<-down
	expectLines(t, log.all(), "system before x to /a", "first before x to /a", "second before x to /a", "handled x",
		"second after: <nil>", "first after: <nil>", "system after: <nil>")
}

func TestReceiveMiddlewareMayRefuse(t *testing.T) {
	sys := newSystem(t)
	errForbidden := errors.New("forbidden")
	ref := actor.Spawn(sys, "a", newCounter, actor.AroundReceive(func(_ context.Context, r actor.Reception, next func() error) error {
		if _, ok := r.Message.(get); ok && r.From.IsZero() {
			return errForbidden
		}
		return next()
	}))
	if _, err := actor.Ask(bg, ref, get{}); !errors.Is(err, errForbidden) {
		t.Errorf("got %v", err)
	}
}

type traceKey struct{}

// Trace context enters with a context from outside, is put on the message by the
// sending middleware, and travels on through handlers, stashes and forwards.
func TestHeaderTravelsWithTheMessage(t *testing.T) {
	sys := newSystem(t, actor.BeforeSend(func(ctx context.Context, s *actor.Sending) {
		if id, ok := ctx.Value(traceKey{}).(string); ok {
			s.Header = actor.Header{"trace": id}
		}
	}))
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
	if n, err := actor.Ask(context.WithValue(bg, traceKey{}, "abc"), asks, get{}); n != 1 || err != nil {
		t.Errorf("got %d, %v", n, err)
	}
	if _, err := actor.Ask(bg, asks, get{}); !errors.Is(err, actor.ErrUnhandled) {
		t.Errorf("the header of an earlier message is still there: %v", err)
	}
}

func TestSpawnMiddlewareMayRefuse(t *testing.T) {
	errQuota := errors.New("too many")
	var asked []string
	sys := newSystem(t, actor.BeforeSpawn(func(s actor.Spawning) error {
		asked = append(asked, fmt.Sprintf("%s under %s: %s", s.Name, s.Parent.Path(), s.Type))
		if s.Name == "b" {
			return errQuota
		}
		return nil
	}))
	actor.Spawn(sys, "a", newCounter)
	if _, err := actor.TrySpawn(sys, "b", newCounter); !errors.Is(err, errQuota) {
		t.Errorf("got %v", err)
	}
	expectLines(t, asked, "a under /: actor_test.counterMsg", "b under /: actor_test.counterMsg")
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
	synctest.Test(t, func(t *testing.T) {
		sys := newSystem(t)
		log := new(journal)
		began := time.Now()
		actor.SpawnFunc(sys, "", func(ctx *actor.Context[string], m string) error {
			log.add("%s at %v", m, time.Since(began))
			if m == "go" {
				ctx.On("plan", &thrice{3}, "due")
				ctx.On("never", &thrice{}, "never")
			}
			return nil
		}).Tell(bg, "go")
		time.Sleep(time.Minute)
		log.expect(t, "go at 0s", "due at 1s", "due at 2s", "due at 3s")
		if n := sys.Stats().Timers; n != 0 {
			t.Errorf("%d timers are left", n)
		}
	})
}
