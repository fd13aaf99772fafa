package actor_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/actortest"
)

type spanKey struct{}

// spans are the middleware of a trace: a handler's span is that of the message and its own name.
func spans() []actor.SystemOption {
	return []actor.SystemOption{
		actor.AroundReceive(func(ctx context.Context, r actor.Reception, next func() error) error {
			span := r.Header["span"] + r.To.Path()
			actor.SetHeader(ctx, actor.Header{"span": span})
			actor.Decorate(ctx, func(c context.Context) context.Context { return context.WithValue(c, spanKey{}, span) })
			return next()
		}),
		actor.BeforeSend(func(ctx context.Context, s *actor.Sending) error {
			if span, ok := ctx.Value(spanKey{}).(string); ok {
				s.Header = actor.Header{"span": span}
			}
			return nil
		}),
	}
}

func spanOf(ctx context.Context) string {
	span, _ := ctx.Value(spanKey{}).(string)
	return span + " " + actor.HeaderOf(ctx)["span"]
}

func TestWhatDecoratesAContextFollowsTheMessages(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		got := make(map[string]string) // by the last actor, one message after the other
		last := actor.SpawnFunc(k.System(), "last", func(ctx *actor.Context[string], m string) error {
			got[m] = spanOf(ctx)
			return nil
		})
		answers := actor.SpawnFunc(k.System(), "answers", func(ctx *actor.Context[get], m get) error {
			last.Tell(ctx, "asked")
			actor.Reply(ctx, m, 1)
			return nil
		})
		first := actor.SpawnFunc(k.System(), "first", func(ctx *actor.Context[string], m string) error {
			switch m {
			case "go":
				last.Tell(ctx, "told")
				derived, cancel := context.WithTimeout(ctx, time.Second)
				defer cancel()
				last.Tell(context.WithValue(derived, spanKey{}, "own"), "own")
				ctx.After("t", time.Second, "timer")
				actor.Pipe(ctx, func(context.Context) (int, error) { return 1, nil }, func(int, error) string { return "pipe" })
				_, err := actor.Ask(ctx, answers, get{})
				return err
			case "fail":
				panic("fail")
			}
			last.Tell(ctx, m)
			return nil
		})
		first.Tell(context.WithValue(k.Context(), spanKey{}, "out"), "go")
		k.Advance(2 * time.Second)
		first.Tell(context.WithValue(k.Context(), spanKey{}, "out"), "fail")
		first.Tell(k.Context(), "none")
		k.Settle()
		k.ExpectFailures(1)
		for m, want := range map[string]string{
			"told": "out/first/last", "own": "own/last", "asked": "out/first/answers/last",
			"timer": "out/first/first/last", "pipe": "out/first/first/last", "none": "/first/last",
		} {
			if want += " " + want; got[m] != want {
				k.T().Errorf("%s has %q, not %q", m, got[m], want)
			}
		}
	}, spans()...)
}

func TestWhatDecoratesAContextEndsWithItsMessage(t *testing.T) {
	for name, opts := range map[string][]actor.SpawnOption{"plain": nil, "reentrant": {actor.Reentrant()}} {
		t.Run(name, func(t *testing.T) {
			actortest.Run(t, func(k *actortest.Kit) {
				var before, after, left string
				opts = append(opts, actor.AroundReceive(func(ctx context.Context, r actor.Reception, next func() error) error {
					if r.Message == 1 {
						actor.SetHeader(ctx, actor.Header{"span": "header"})
						actor.Decorate(ctx, func(c context.Context) context.Context { return context.WithValue(c, spanKey{}, "value") })
					}
					return next()
				}))
				ref := actor.SpawnFunc(k.System(), "x", func(ctx *actor.Context[int], n int) error {
					if n == 2 {
						left = spanOf(ctx)
						return nil
					}
					before = spanOf(ctx)
					err := ctx.Sleep(time.Second)
					after = spanOf(ctx)
					return err
				}, opts...)
				ref.Tell(k.Context(), 1)
				ref.Tell(k.Context(), 2)
				k.Advance(2 * time.Second)
				if before != "value header" || after != before || left != " " {
					k.T().Errorf("%q before a wait, %q after it, and %q in another message", before, after, left)
				}
			})
		})
	}
}

func TestDecorateOutsideOfAHandlerDoesNothing(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		set := func(ctx context.Context) {
			actor.SetHeader(ctx, actor.Header{"a": "b"})
			actor.Decorate(ctx, func(c context.Context) context.Context { return context.WithValue(c, spanKey{}, "value") })
		}
		set(k.Context())
		got := "nothing"
		ref := actor.SpawnFunc(k.System(), "x", func(ctx *actor.Context[int], _ int) error {
			set(ctx)
			got = spanOf(ctx)
			return nil
		})
		ref.Tell(k.Context(), 1)
		k.Settle()
		if got != " " {
			k.T().Errorf("a handler without middleware has %q", got)
		}
	})
}

// The work of a Pipe has the values of the handler's context, and no way back to the handler; and the message
// of a PipeTo is sent with those of who has asked.
func TestWorkHasTheValuesOfItsHandler(t *testing.T) {
	var sent sync.Map // of the span by the message
	spanWhenSent := func(m any) any {
		span, _ := sent.Load(m)
		return span
	}
	opts := append(spans(), actor.BeforeSend(func(ctx context.Context, s *actor.Sending) error {
		sent.Store(s.Message, ctx.Value(spanKey{}))
		return nil
	}))
	actortest.Run(t, func(k *actortest.Kit) {
		got, ended := "", false
		answers := actor.SpawnFunc(k.System(), "answers", func(ctx *actor.Context[get], m get) error {
			actor.Reply(ctx, m, 1)
			return nil
		})
		sink := actor.SpawnFunc(k.System(), "sink", func(*actor.Context[string], string) error { return nil })
		first := actor.SpawnFunc(k.System(), "first", func(ctx *actor.Context[string], m string) error {
			if m != "go" {
				return nil
			}
			actor.Pipe(ctx, func(work context.Context) (int, error) {
				got, _ = work.Value(spanKey{}).(string)
				sink.Tell(work, "from the work")
				derived, cancel := context.WithCancel(work)
				defer cancel()
				<-derived.Done()
				ended = true
				return 0, derived.Err()
			}, func(int, error) string { return "over" })
			actor.PipeTo(actor.AskFuture(ctx, answers, get{}), sink, func(int, error) string { return "from the future" })
			return nil
		})
		first.Tell(context.WithValue(k.Context(), spanKey{}, "out"), "go")
		k.Settle()
		first.Stop()
		k.Settle()
		if got != "out/first" || !ended {
			k.T().Errorf("the work has %q, and has ended with its actor: %t", got, ended)
		}
		for _, m := range []string{"from the work", "from the future"} {
			if span := spanWhenSent(m); span != "out/first" {
				k.T().Errorf("the message %s is sent with %v", m, span)
			}
		}
		outside := context.WithValue(k.Context(), spanKey{}, "outside")
		actor.PipeTo(actor.AskFuture(outside, answers, get{}), sink, func(int, error) string { return "of an outsider" })
		k.Settle()
		if span := spanWhenSent("of an outsider"); span != "outside" {
			k.T().Errorf("an outsider's is sent with %v", span)
		}
	}, opts...)
}
