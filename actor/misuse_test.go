package actor_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/actortest"
)

func TestALookUpOfNobodySaysThatThereIsNobody(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		_, byPath := actor.LookupPath[int](k.System(), "/typo")
		_, inspect := k.System().Inspect("/typo", 1)
		foreign, _ := actor.ParsePID("other/x#1")
		_, byPID := actor.Lookup[int](k.System(), foreign)
		for err, want := range map[error]string{byPath: "no actor", inspect: "no actor", byPID: `system "other"`} {
			if !errors.Is(err, actor.ErrStopped) || !strings.Contains(err.Error(), want) {
				k.T().Errorf("%q does not say %q", err, want)
			}
		}
	})
}

type badBegin struct{ actor.Actor[int] }

func (badBegin) Init(*actor.Context[int]) error { return errBroken }

func TestAFailureInInitIsNotThatOfAMessage(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		failures := actortest.Events[actor.ActorFailed](k)
		actor.Spawn[int](k.System(), "", func() badBegin { return badBegin{} }, actor.Temporary)
		k.ExpectFailures(1)
		if f := failures.Next(); f.MessageType != "" || !strings.Contains(f.Err.Error(), "init") {
			k.T().Errorf("got %q while handling %q", f.Err, f.MessageType)
		}
	})
}

func TestNilAndNonsenseSayWhatMustBe(t *testing.T) {
	nop := func(*actor.Context[any], any) error { return nil }
	for what, misuse := range map[string]func(sys *actor.System){
		"SpawnFunc":      func(sys *actor.System) { actor.SpawnFunc[any](sys, "", nil) },
		"Spawn":          func(sys *actor.System) { actor.Spawn[any](sys, "", (func() badAny)(nil)) },
		"parent":         func(*actor.System) { actor.SpawnFunc(nil, "", nop) },
		"option":         func(sys *actor.System) { actor.SpawnFunc(sys, "", nop, nil) },
		"WithLogger":     func(*actor.System) { actor.WithLogger(nil) },
		"WithAskTimeout": func(*actor.System) { actor.WithAskTimeout(-1) },
		"AroundReceive":  func(*actor.System) { actor.AroundReceive(nil) },
		"BeforeSend":     func(*actor.System) { actor.BeforeSend(nil) },
		"Priority":       func(*actor.System) { actor.Priority[any](nil) },
		"Conflate":       func(*actor.System) { actor.Conflate[any, int](nil) },
		"Decide":         func(*actor.System) { actor.Decide(nil) },
		"MaxRestarts":    func(*actor.System) { actor.MaxRestarts(-1, time.Minute) },
		"within":         func(*actor.System) { actor.MaxRestarts(1, 0) },
		"Backoff":        func(*actor.System) { actor.Backoff(time.Hour, time.Second) },
		"Strategy":       func(*actor.System) { actor.Supervise(actor.Strategy(7)) },
		"Overflow":       func(*actor.System) { actor.Bounded(1, actor.Overflow(9)) },
		"Pinned":         func(sys *actor.System) { actor.SpawnFunc(sys, "", nop, actor.Pinned(), actor.Inline()) },
		"schedule": func(sys *actor.System) {
			said := make(chan any)
			actor.SpawnFunc(sys, "", func(ctx *actor.Context[any], _ any) error {
				defer func() { said <- recover() }()
				ctx.On("k", nil, 1)
				return nil
			}).Tell(bg, 1)
			panic(<-said)
		},
	} {
		t.Run(what, func(t *testing.T) {
			sys := actortest.NewSystem(t)
			defer func() {
				r := fmt.Sprint(recover())
				if strings.Contains(r, "nil pointer") || !strings.Contains(r, "actor:") {
					t.Errorf("got %s", r)
				}
			}()
			misuse(sys)
		})
	}
}

type badAny struct{}

func (badAny) Receive(*actor.Context[any], any) error { return nil }

func TestWaitingForRoomInVainSaysThatTheMailboxIsFull(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		_, p := gated(k, actor.Bounded(1, actor.Block))
		p.Ref().Tell(k.Context(), "1")
		ctx, cancel := context.WithTimeout(k.Context(), time.Second)
		defer cancel()
		err := p.Ref().TryTell(ctx, "2")
		if !errors.Is(err, actor.ErrMailboxFull) || !errors.Is(err, context.DeadlineExceeded) {
			k.T().Errorf("got %v", err)
		}
	})
}

func TestAMailboxOptionForAnotherTypeNamesBoth(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		_, err := actor.TrySpawnFunc(k.System(), "x", func(*actor.Context[string], string) error { return nil }, actor.Priority(func(int) int { return 0 }))
		if err == nil || !strings.Contains(err.Error(), "int") || !strings.Contains(err.Error(), "string") {
			k.T().Errorf("got %v", err)
		}
	})
}

func TestAnAskerThatGivesUpIsNoFailureOfWhomItAsked(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		silent := actortest.NewProbe[get](k)
		middle := actor.SpawnFunc(k.System(), "middle", func(ctx *actor.Context[get], m get) error {
			_, err := actor.Ask(ctx, silent.Ref(), m)
			return err
		})
		ctx, cancel := context.WithTimeout(k.Context(), time.Second)
		defer cancel()
		_ = actortest.AskContext(ctx, k, middle, get{}).Await().Err()
		k.ExpectFailures(0)
	})
}

func TestBecomeOfNothingIsAFailureThatSaysSo(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		failures := actortest.Events[actor.ActorFailed](k)
		actor.SpawnFunc(k.System(), "", func(ctx *actor.Context[int], _ int) error {
			ctx.Become(nil)
			return nil
		}, actor.Temporary).Tell(k.Context(), 1)
		k.ExpectFailures(1)
		if f := failures.Next(); !strings.Contains(f.Err.Error(), "Become") {
			k.T().Errorf("got %v", f.Err)
		}
	})
}

func TestAnAddressWithAnotherPathReachesNobody(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		named := actor.Spawn(k.System(), "named", newCounter)
		bare := actor.Spawn(k.System(), "", newCounter)
		for _, ref := range []actor.Ref[counterMsg]{named, bare} {
			if got, err := actor.Lookup[counterMsg](k.System(), ref.PID()); err != nil || got != ref {
				k.T().Errorf("got %v, %v", got, err)
			}
			text := ref.PID().String()
			other, err := actor.ParsePID("test/other" + text[strings.LastIndexByte(text, '#'):])
			if err != nil {
				k.T().Fatal(err)
			}
			if _, err := actor.Lookup[counterMsg](k.System(), other); !errors.Is(err, actor.ErrStopped) {
				k.T().Errorf("looking up %s: %v", other, err)
			}
			p := actortest.NewProbe[any](k)
			actortest.Do(p, func(ctx *actor.Context[any]) error {
				ctx.Watch(other, func(d actor.Down) any { return d.Reason })
				return nil
			})
			p.ExpectAll(actor.NoActor)
		}
	})
}

func TestAWaitWithTheHandlersContextOnAnotherGoroutineFails(t *testing.T) {
	sys := actortest.NewSystem(t)
	answers := actor.SpawnFunc(sys, "answers", func(ctx *actor.Context[get], m get) error {
		actor.Reply(ctx, m, 1)
		return nil
	})
	type outcome struct{ own, derived, after error }
	outcomes := make(chan outcome, 1)
	misuse := func(ctx *actor.Context[any], _ any) error {
		var o outcome
		var wg sync.WaitGroup
		wg.Go(func() { _, o.own = actor.Ask(ctx, answers, get{}) })
		wg.Wait()
		derived, cancel := context.WithCancel(ctx)
		wg.Go(func() { _, o.derived = actor.Ask(derived, answers, get{}) })
		wg.Wait()
		cancel()
		_, o.after = actor.Ask(ctx, answers, get{})
		outcomes <- o
		return nil
	}
	for name, opts := range map[string][]actor.SpawnOption{"plain": nil, "reentrant": {actor.Reentrant()}} {
		ref := actor.SpawnFunc(sys, name, misuse, opts...)
		for range 20 {
			ref.Tell(bg, 1)
			if o := <-outcomes; !errors.Is(o.own, actor.ErrWrongGoroutine) || o.derived != nil || o.after != nil {
				t.Errorf("%s: with the handler's context %v, with a derived one %v, in the handler %v", name, o.own, o.derived, o.after)
			}
		}
	}
}
