package actor_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/actortest"
)

// prying is the context of an asker that looks at the asked actor whenever it is used.
type prying struct {
	context.Context
	look func()
}

func (p prying) Deadline() (time.Time, bool) { p.look(); return p.Context.Deadline() }
func (p prying) Done() <-chan struct{}       { p.look(); return p.Context.Done() }
func (p prying) Err() error                  { p.look(); return p.Context.Err() }
func (p prying) Value(key any) any           { p.look(); return p.Context.Value(key) }

// askerKey is the key of a value that an asker's context has.
type askerKey struct{}

// returns fails the test if f does not return: it must not wait for a lock that its own goroutine holds.
func returns(t *testing.T, f func()) {
	t.Helper()
	returned := make(chan struct{})
	go func() { defer close(returned); f() }()
	select {
	case <-returned:
	case <-time.After(10 * time.Second):
		t.Fatal("it does not return")
	}
}

// The asker's context is code of the user's: it runs under no lock.
func TestTheContextOfAnAskerMayLookAtTheAskedActor(t *testing.T) {
	for name, use := range map[string]func(context.Context){
		"Done":  func(ctx context.Context) { ctx.Done() },
		"Err":   func(ctx context.Context) { _ = ctx.Err() },
		"Value": func(ctx context.Context) { ctx.Value(askerKey{}) },
		"derived": func(ctx context.Context) {
			derived, cancel := context.WithCancel(ctx)
			defer cancel()
			_ = derived.Err()
		},
	} {
		t.Run(name, func(t *testing.T) {
			sys := actor.NewSystem("s", actor.WithLogger(slog.New(slog.DiscardHandler)))
			ref := actor.SpawnFunc(sys, "asked", func(ctx *actor.Context[any], _ any) error {
				use(ctx)
				actor.ReplyFor(ctx, 1)
				return nil
			})
			asker, cancel := context.WithCancel(bg)
			defer cancel()
			returns(t, func() {
				if _, err := actor.AskFor[int](prying{asker, func() { ref.Backlog() }}, ref, "request"); err != nil {
					t.Error(err)
				}
				_, _ = sys.Shutdown(bg)
			})
		})
	}
}

// endless is a context that never ends.
type endless struct {
	context.Context
	done chan struct{}
}

func (e endless) Done() <-chan struct{} { return e.done }
func (endless) Err() error              { return nil }

// indirectly asks for a value of the asker's context, first or not.
type indirectly struct {
	actor.Returns[any]
	first bool
}

// A handler may ask its own actor with a context whose values lead back to that actor.
func TestTheContextOfAnAskerMayLeadBackToTheAskedActor(t *testing.T) {
	sys := actor.NewSystem("s", actor.WithLogger(slog.New(slog.DiscardHandler)))
	ref := actor.SpawnFunc(sys, "both", func(ctx *actor.Context[any], m any) error {
		if m.(indirectly).first {
			v, err := actor.AskFuture(endless{ctx, make(chan struct{})}, ctx.Self(), indirectly{}).Wait(ctx)
			actor.ReplyFor(ctx, v)
			return err
		}
		derived, cancel := context.WithCancel(ctx)
		defer cancel()
		actor.ReplyFor(ctx, derived.Value(askerKey{}))
		return nil
	}, actor.Reentrant())
	returns(t, func() {
		v, err := actor.Ask[any](context.WithValue(bg, askerKey{}, "value"), ref, indirectly{first: true}, actor.Within(time.Second))
		if v != "value" || err != nil {
			t.Errorf("got %v, %v", v, err)
		}
		_, _ = sys.Shutdown(bg)
	})
}

// broken is the context of an asker whose Done panics.
type broken struct{ context.Context }

func (broken) Done() <-chan struct{} { panic("broken") }

// A handler that recovers from a panic of its asker's context is told to stop all the same.
func TestTheContextOfAHandlerEndsWhateverThatOfItsAskerDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := actortest.NewSystem(t)
		entered, told := make(chan struct{}), false
		ref := actor.SpawnFunc(sys, "asked", func(ctx *actor.Context[get], _ get) error {
			func() {
				defer func() { _ = recover() }()
				ctx.Done()
			}()
			close(entered)
			select {
			case <-ctx.Done():
				told = true
			case <-time.After(time.Hour):
			}
			return nil
		})
		go func() {
			defer func() { _ = recover() }() // the wait for the answer looks at the context, too
			_, _ = actor.Ask(broken{context.WithValue(bg, askerKey{}, 1)}, ref, get{})
		}()
		<-entered
		ref.Stop()
		if _, err := ref.Wait(bg, actor.Within(2*time.Hour)); err != nil || !told {
			t.Errorf("told: %v, %v", told, err)
		}
	})
}

// What its asker does with the answer, and when its handler returns, is nothing to who has answered.
func TestAHandlerThatHasAnsweredGoesOnWhenItsAskerHasReturned(t *testing.T) {
	answers := map[string]func(ctx *actor.Context[get], m get){
		"Reply":   func(ctx *actor.Context[get], m get) { actor.Reply(ctx, m, 1) },
		"Refuse":  func(ctx *actor.Context[get], _ get) { _ = actor.Refuse(ctx, errors.New("no")) },
		"Promise": func(ctx *actor.Context[get], m get) { actor.Promise(ctx, m).Resolve(1) },
		"early": func(ctx *actor.Context[get], m get) { // there is a context before the answer
			<-time.After(time.Millisecond)
			_ = ctx.Done()
			actor.Reply(ctx, m, 1)
		},
	}
	for name, answer := range answers {
		for _, shared := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/shared=%t", name, shared), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { testGoesOnAfterItsAnswer(t, answer, shared) })
			})
		}
	}
}

// testGoesOnAfterItsAnswer has a handler answer, alone or with one that refuses, and go on.
func testGoesOnAfterItsAnswer(t *testing.T, answer func(ctx *actor.Context[get], m get), shared bool) {
	sys := actortest.NewSystem(t)
	other := actor.SpawnFunc(sys, "other", func(ctx *actor.Context[get], m get) error {
		actor.Reply(ctx, m, 2)
		return nil
	})
	outcome := make(chan error, 1)
	asked := actor.SpawnFunc(sys, "asked", func(ctx *actor.Context[get], m get) error {
		answer(ctx, m)
		<-time.After(time.Second)
		_, err := actor.Ask(ctx, other, get{})
		outcome <- cmp.Or(err, ctx.Err())
		return nil
	})
	refuses := actor.SpawnFunc(sys, "refuses", func(ctx *actor.Context[get], _ get) error { return actor.Refuse(ctx, errors.New("no")) })
	route, err := actor.Routed(sys, asked.PID(), func(_ get, to func(actor.Ref[get])) {
		if to(asked); shared {
			to(refuses)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	asker := actor.SpawnFunc(sys, "asker", func(ctx *actor.Context[get], m get) error {
		_, _ = actor.Ask(ctx, route, get{})
		actor.Reply(ctx, m, 3)
		return nil
	})
	if _, err := actor.Ask(bg, asker, get{}); err != nil {
		t.Error(err)
	}
	if err := <-outcome; err != nil {
		t.Error(err)
	}
}

// Nobody waits any more for those that have not answered.
func TestTheOthersOfASharedRequestHearThatTheirAskerHasReturned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := actortest.NewSystem(t)
		returned, woken := make(chan time.Time, 1), make(chan time.Time, 1)
		quick := actor.SpawnFunc(sys, "quick", func(ctx *actor.Context[get], m get) error { actor.Reply(ctx, m, 1); return nil })
		slow := actor.SpawnFunc(sys, "slow", func(ctx *actor.Context[get], _ get) error {
			err := ctx.Sleep(4 * time.Second)
			woken <- time.Now()
			return err
		})
		both, err := actor.Routed(sys, quick.PID(), func(_ get, to func(actor.Ref[get])) { to(slow); to(quick) })
		if err != nil {
			t.Fatal(err)
		}
		asker := actor.SpawnFunc(sys, "asker", func(ctx *actor.Context[get], m get) error {
			_, _ = actor.Ask(ctx, both, get{})
			<-time.After(time.Second)
			actor.Reply(ctx, m, 3)
			returned <- time.Now()
			return nil
		})
		if _, err := actor.Ask(bg, asker, get{}); err != nil {
			t.Error(err)
		}
		if late := (<-woken).Sub(<-returned); late != 0 {
			t.Errorf("it has slept %v longer", late)
		}
	})
}
