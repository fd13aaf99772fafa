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
		"Tell":           func(sys *actor.System) { nobody[any](sys).Tell(noContext, 1) },
		"TryTell":        func(sys *actor.System) { _ = nobody[any](sys).TryTell(noContext, 1) },
		"Ask":            func(sys *actor.System) { _, _ = actor.Ask(noContext, nobody[get](sys), get{}) },
		"AskFuture":      func(sys *actor.System) { actor.AskFuture(noContext, nobody[get](sys), get{}) },
		"Wait":           func(sys *actor.System) { _, _ = nobody[any](sys).Wait(noContext) },
		"HeaderOf":       func(*actor.System) { actor.HeaderOf(noContext) },
		"Profile":        func(sys *actor.System) { sys.Profile(noContext) },
		"Record":         func(sys *actor.System) { _, _ = sys.Record(noContext, nobody[any](sys).PID(), 1) },
		"Shutdown":       func(sys *actor.System) { _, _ = sys.Shutdown(noContext) },
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

// noContext is the nil context of a caller that has none.
var noContext context.Context

// nobody returns a reference to an actor that ignores what it is sent.
func nobody[M any](sys *actor.System) actor.Ref[M] {
	return actor.SpawnFunc(sys, "", func(*actor.Context[M], M) error { return nil })
}

func TestARequestThatIsNilIsRefusedByName(t *testing.T) {
	sys := actortest.NewSystem(t)
	_, err := actor.AskFor[int](bg, nobody[any](sys), nil)
	if !errors.Is(err, actor.ErrNotAccepted) || !strings.Contains(err.Error(), "the request is nil") || strings.Contains(err.Error(), "%!") {
		t.Errorf("got %v", err)
	}
}

func TestForwardWhereNoMessageIsHandledFails(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		p := actortest.NewProbe[int](k)
		err := errors.New("Init did not run")
		actor.Spawn(k.System(), "", func() *forwardsInInit { return &forwardsInInit{to: p.Ref(), err: &err} })
		if err == nil || !strings.Contains(err.Error(), "no message is being handled") {
			k.T().Errorf("got %v", err)
		}
		p.ExpectNone()
	})
}

type forwardsInInit struct {
	to  actor.Ref[int]
	err *error
}

func (f *forwardsInInit) Init(ctx *actor.Context[int]) error {
	*f.err = actor.Forward(ctx, f.to)
	return nil
}

func (f *forwardsInInit) Receive(*actor.Context[int], int) error { return nil }

// A kill must be able to take the handler away: it is in no function of the runtime any more.
func TestAForwardToNobodyLeavesTheRuntime(t *testing.T) {
	sys := actortest.NewSystem(t)
	release, panicked := make(chan struct{}), make(chan any, 1)
	defer close(release)
	stuck := actor.SpawnFunc(sys, "", func(ctx *actor.Context[int], _ int) error {
		func() {
			defer func() { panicked <- recover() }()
			_ = actor.Forward(ctx, actor.Ref[int]{})
		}()
		<-release
		return nil
	})
	stuck.Tell(bg, 1)
	if r := <-panicked; r == nil {
		t.Fatal("no panic")
	}
	stuck.Kill()
	if _, err := stuck.Wait(bg, actor.Within(10*time.Second)); err != nil {
		t.Error(err)
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
			other, err := actor.ParsePID(text[:strings.IndexByte(text, '/')] + "/other" + text[strings.LastIndexByte(text, '#'):])
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
