package actor_test

import (
	"errors"
	"log/slog"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/actortest"
)

func TestRoutedReferencePassesOnWhatItGets(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		sys := k.System()
		cause := errors.New("no")
		refuser := actor.SpawnFunc(sys, "refuser", func(*actor.Context[get], get) error { return cause })
		answerer := actor.SpawnFunc(sys, "answerer", func(ctx *actor.Context[get], m get) error {
			actor.Reply(ctx, m, len(ctx.Sender().Path()))
			return nil
		})
		gone := actor.SpawnFunc(sys, "gone", func(*actor.Context[get], get) error { return nil })
		k.Watch(gone)
		gone.Stop()
		actortest.ExpectDown(k, gone)
		owner := actor.Spawn(sys, "owner", newCounter)
		route := func(refs ...actor.Ref[get]) actor.Ref[get] {
			ref, err := actor.Routed(sys, owner.PID(), func(_ get, to func(actor.Ref[get])) {
				for _, r := range refs {
					to(r)
				}
			})
			if err != nil {
				k.T().Fatal(err)
			}
			return ref
		}
		if n := actortest.Ask(k, route(refuser, gone, answerer), get{}).Answer(); n != 0 {
			k.T().Errorf("got %d", n)
		}
		if _, err := actor.Ask(k.Context(), route(refuser, refuser), get{}); !errors.Is(err, cause) {
			k.T().Errorf("all refuse: %v", err)
		}
		if _, err := actor.Ask(k.Context(), route(gone), get{}); !errors.Is(err, actor.ErrStopped) {
			k.T().Errorf("the only one is gone: %v", err)
		}
		nobody := route()
		nobody.Tell(k.Context(), get{})
		if d := sys.DeadLetters()[0]; d.To != owner.PID() || d.Reason != actor.NoActor {
			k.T().Errorf("a message for nobody: %+v", d)
		}
		if nobody.PID() != owner.PID() {
			k.T().Errorf("address %v, want the owner's", nobody.PID())
		}
		k.ExpectFailures(3)
	})
}

// forwardedAndAnswered is a request that goes to two at once: after a second the one forwards it to last, and after three
// the other answers it with 7.
func forwardedAndAnswered(t *testing.T, sys *actor.System, last actor.Ref[any]) actor.Ref[get] {
	after := func(d time.Duration, f func(ctx *actor.Context[get], m get) error) actor.Ref[get] {
		return actor.SpawnFunc(sys, "", func(ctx *actor.Context[get], m get) error {
			if err := ctx.Sleep(d); err != nil {
				return err
			}
			return f(ctx, m)
		})
	}
	forwards := after(time.Second, func(ctx *actor.Context[get], _ get) error { return actor.Forward(ctx, last) })
	answers := after(3*time.Second, func(ctx *actor.Context[get], m get) error {
		actor.Reply(ctx, m, 7)
		return nil
	})
	both, err := actor.Routed(sys, answers.PID(), func(_ get, to func(actor.Ref[get])) { to(forwards); to(answers) })
	if err != nil {
		t.Fatal(err)
	}
	return both
}

// The asker waits for whoever answers first: that one receiver waits for the asker keeps the other from nothing.
func TestAForwardOfASharedRequestIsNoDeadlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := actortest.NewSystem(t)
		errs := make(chan error, 2)
		var asker actor.Ref[any]
		last := actor.SpawnFunc(sys, "last", func(ctx *actor.Context[any], _ any) error {
			_, err := actor.Ask(ctx, asker, askBack{})
			errs <- err
			return nil
		})
		both := forwardedAndAnswered(t, sys, last)
		asker = actor.SpawnFunc(sys, "asker", func(ctx *actor.Context[any], m any) error {
			if m, ok := m.(askBack); ok {
				actor.Reply(ctx, m, 1)
				return nil
			}
			_, err := actor.Ask(ctx, both, get{})
			errs <- err
			return nil
		})
		asker.Tell(bg, "go")
		for range 2 {
			if err := <-errs; err != nil {
				t.Error(err)
			}
		}
	})
}

// Who gets the request waits for the asker already: it may refuse the request later, and that would be its second rejection.
func TestAForwardOfASharedRequestRejectsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := actortest.NewSystem(t)
		outcome := make(chan error, 1)
		var asker actor.Ref[any]
		last := actor.SpawnFunc(sys, "last", func(ctx *actor.Context[any], m any) error {
			if _, ok := m.(get); ok {
				return actor.Refuse(ctx, errors.New("no"))
			}
			_, _ = actor.Ask(ctx, asker, askBack{}, actor.Within(2*time.Second))
			return nil
		})
		both := forwardedAndAnswered(t, sys, last)
		asker = actor.SpawnFunc(sys, "asker", func(ctx *actor.Context[any], _ any) error {
			_, err := actor.Ask(ctx, both, get{})
			outcome <- err
			return nil
		})
		asker.Tell(bg, "go")
		synctest.Wait()
		last.Tell(bg, "go")
		if err := <-outcome; err != nil {
			t.Error(err)
		}
	})
}

// The handler of an Inline actor ends the goroutine that sends: who comes after it gets the message nevertheless.
func TestAMessageToSeveralReachesThoseAfterOneThatEndsTheGoroutine(t *testing.T) {
	sys := actor.NewSystem("s", actor.WithLogger(slog.New(slog.DiscardHandler)))
	t.Cleanup(func() { _, _ = sys.Shutdown(bg) })
	const n = 7 // each other one ends the goroutine
	var all []actor.Ref[get]
	reached := make(chan int, n)
	for i := range n {
		opts := []actor.SpawnOption{actor.Inline()}
		if i%2 == 0 {
			opts = nil
		}
		all = append(all, actor.SpawnFunc(sys, "", func(ctx *actor.Context[get], m get) error {
			reached <- i
			if i%2 == 1 {
				runtime.Goexit()
			}
			if i == n-1 {
				actor.Reply(ctx, m, 7)
			}
			return nil
		}, opts...))
	}
	several, err := actor.Routed(sys, all[0].PID(), func(_ get, to func(actor.Ref[get])) {
		for _, ref := range all {
			to(ref)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	answers := make(chan *actor.Future[int], 1)
	go func() {
		slow := actor.SpawnFunc(sys, "", func(ctx *actor.Context[any], _ any) error { return actor.Forward(ctx, several) })
		answers <- actor.AskFuture(bg, slow, get{}, actor.Within(time.Minute))
	}()
	if v, err := (<-answers).Wait(bg); v != 7 || err != nil {
		t.Errorf("the answer is %d, %v", v, err)
	}
	for range n {
		select {
		case <-reached:
		case <-time.After(time.Minute):
			t.Fatal("one is not reached")
		}
	}
}

func TestASecondRejectionByAPromiseDoesNotCount(t *testing.T) {
	for name, opts := range map[string][]actor.SpawnOption{"plain": nil, "gated": {actor.Gated(openGate{})}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sys := actortest.NewSystem(t)
				last := actor.SpawnFunc(sys, "last", func(ctx *actor.Context[any], m any) error {
					p := actor.Promise(ctx, m.(get))
					p.Reject(errors.New("no"))
					if p.Reject(errors.New("no again")) || p.Resolve(1) {
						t.Error("the second call counts")
					}
					return nil
				}, opts...)
				if n, err := actor.Ask(bg, forwardedAndAnswered(t, sys, last), get{}); n != 7 || err != nil {
					t.Errorf("the answer is %d, %v", n, err)
				}
			})
		})
	}
}

func TestASecondRejectionByOneReceiverDoesNotCount(t *testing.T) {
	no := errors.New("no")
	for name, reject := range map[string]func(ctx *actor.Context[any], m get){
		"Refuse": func(ctx *actor.Context[any], _ get) {
			_ = actor.Refuse(ctx, no)
			_ = actor.Refuse(ctx, no)
		},
		"promises": func(ctx *actor.Context[any], m get) {
			first, second := actor.Promise(ctx, m), actor.Promise(ctx, m)
			second.Reject(no)
			if second.Resolve(1) {
				t.Error("the second call counts")
			}
			first.Resolve(2)
			first.Reject(no)
		},
		"another type": func(ctx *actor.Context[any], _ get) {
			actor.ReplyFor(ctx, "text")
			actor.ReplyFor(ctx, "text")
		},
		"Promise and Refuse": func(ctx *actor.Context[any], m get) {
			p := actor.Promise(ctx, m)
			_ = actor.Refuse(ctx, no)
			p.Reject(no)
		},
		"Promise and the dead letter of a stash": func(ctx *actor.Context[any], m get) {
			actor.Promise(ctx, m).Reject(no)
			if err := ctx.Stash(); err != nil {
				t.Error(err)
			}
			ctx.Self().Stop()
		},
		"two forwards": func(ctx *actor.Context[any], _ get) {
			for range 2 {
				refuses := actor.SpawnFunc(ctx, "", func(ctx *actor.Context[any], _ any) error { return actor.Refuse(ctx, no) })
				if err := actor.Forward(ctx, refuses); err != nil {
					t.Error(err)
				}
			}
		},
		"a forward to several": func(ctx *actor.Context[any], _ get) {
			var all []actor.Ref[any]
			for range 3 {
				all = append(all, actor.SpawnFunc(ctx, "", func(ctx *actor.Context[any], _ any) error { return actor.Refuse(ctx, no) }))
			}
			several, err := actor.Routed(ctx.System(), all[0].PID(), func(_ any, to func(actor.Ref[any])) {
				for _, ref := range all {
					to(ref)
				}
			})
			if err != nil {
				t.Error(err)
			}
			if err := actor.Forward(ctx, several); err != nil {
				t.Error(err)
			}
		},
	} {
		for gated, opts := range map[string][]actor.SpawnOption{"plain": nil, "gated": {actor.Gated(openGate{})}} {
			t.Run(name+"/"+gated, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					sys := actortest.NewSystem(t)
					last := actor.SpawnFunc(sys, "last", func(ctx *actor.Context[any], m any) error {
						reject(ctx, m.(get))
						return nil
					}, opts...)
					if n, err := actor.Ask(bg, forwardedAndAnswered(t, sys, last), get{}); n != 7 || err != nil {
						t.Errorf("the answer is %d, %v", n, err)
					}
				})
			})
		}
	}
}
