package actor_test

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/actortest"
)

// askBack is a request to one who asks.
type askBack struct{ actor.Returns[int] }

// failsAtOnce reports an ask that has not been seen to close a cycle.
func failsAtOnce(t *testing.T, errs chan error) {
	t.Helper()
	began := time.Now()
	if err := <-errs; !errors.Is(err, actor.ErrDeadlock) || time.Since(began) != 0 {
		t.Errorf("after %v: %v", time.Since(began), err)
	}
}

func TestAnAskOfAnAskerThatHasItsAnswerIsNoDeadlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := actortest.NewSystem(t)
		errs := make(chan error, 1)
		var b actor.Ref[any]
		a := actor.SpawnFunc(sys, "a", func(ctx *actor.Context[any], m any) error {
			if m, ok := m.(askBack); ok {
				actor.Reply(ctx, m, 1)
				return nil
			}
			_, err := actor.Ask(ctx, b, get{})
			return err
		})
		b = actor.SpawnFunc(sys, "b", func(ctx *actor.Context[any], m any) error {
			actor.Reply(ctx, m.(get), 1)
			_, err := actor.Ask(ctx, a, askBack{})
			errs <- err
			return nil
		})
		a.Tell(bg, "go")
		if err := <-errs; err != nil {
			t.Error(err)
		}
	})
}

type asksSpawner struct{ spawner actor.Ref[any] }

func (a asksSpawner) Init(ctx *actor.Context[any]) error {
	_, err := actor.Ask(ctx, a.spawner, get{})
	return err
}

func (asksSpawner) Receive(*actor.Context[any], any) error { return nil }

// reentrantOrNot runs a test with and without [actor.Reentrant].
func reentrantOrNot(t *testing.T, test func(t *testing.T, sys *actor.System, opts ...actor.SpawnOption)) {
	for name, opts := range map[string][]actor.SpawnOption{"reentrant": {actor.Reentrant()}, "not reentrant": nil} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(t, actortest.NewSystem(t), opts...) })
		})
	}
}

func TestInitThatAsksWhoSpawnsItFailsAtOnce(t *testing.T) {
	reentrantOrNot(t, func(t *testing.T, sys *actor.System, opts ...actor.SpawnOption) {
		errs := make(chan error, 1)
		ref := actor.SpawnFunc(sys, "a", func(ctx *actor.Context[any], m any) error {
			if _, ok := m.(string); ok {
				_, err := actor.TrySpawn(ctx, "", func() asksSpawner { return asksSpawner{ctx.Self()} })
				errs <- err
			}
			return nil
		}, opts...)
		ref.Tell(bg, "go")
		failsAtOnce(t, errs)
	})
}

func TestInlineActorThatAsksItsTellerFailsAtOnce(t *testing.T) {
	reentrantOrNot(t, func(t *testing.T, sys *actor.System, opts ...actor.SpawnOption) {
		errs := make(chan error, 1)
		var teller actor.Ref[any]
		inline := actor.SpawnFunc(sys, "inline", func(ctx *actor.Context[int], _ int) error {
			_, err := actor.Ask(ctx, teller, get{})
			errs <- err
			return nil
		}, actor.Inline())
		teller = actor.SpawnFunc(sys, "teller", func(ctx *actor.Context[any], m any) error {
			if _, ok := m.(string); ok {
				inline.Tell(ctx, 1)
			}
			return nil
		}, opts...)
		teller.Tell(bg, "go")
		failsAtOnce(t, errs)
	})
}

func TestABlockingHandlerThatAsksItselfFailsAtOnce(t *testing.T) {
	reentrantOrNot(t, func(t *testing.T, sys *actor.System, opts ...actor.SpawnOption) {
		errs := make(chan error, 1)
		ref := actor.SpawnFunc(sys, "a", func(ctx *actor.Context[any], m any) error {
			return actor.Blocking(ctx, func() error {
				_, err := actor.Ask(ctx, ctx.Self(), get{})
				errs <- err
				return nil
			})
		}, opts...)
		ref.Tell(bg, "go")
		failsAtOnce(t, errs)
	})
}

func TestAReentrantActorThatAsksWhoWaitsForThatHandlerFailsAtOnce(t *testing.T) {
	// hop is handled by asking the next on the way, and answered with what came of it: a failure
	// would end the waits of other handlers.
	type hop struct {
		actor.Returns[error]
		way []string
	}
	for way, want := range map[string]string{
		"r x r":     "",                           // the second handler of r answers
		"x r x":     "/r -> /x -> /r",             // x waits for the handler that asks it
		"r x r x":   "/r -> /x -> /r",             //
		"x r y r":   "",                           //
		"x r y r x": "/r -> /x -> /r -> /y -> /r", // by way of two handlers of r
	} {
		t.Run(way, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sys := actortest.NewSystem(t)
				refs := make(map[string]actor.Ref[hop])
				handle := func(ctx *actor.Context[hop], h hop) error {
					var end error
					if len(h.way) > 0 {
						answer, err := actor.Ask(ctx, refs[h.way[0]], hop{way: h.way[1:]})
						end = cmp.Or(err, answer)
					}
					actor.Reply(ctx, h, end)
					return nil
				}
				for _, name := range []string{"x", "y"} {
					refs[name] = actor.SpawnFunc(sys, name, handle)
				}
				refs["r"] = actor.SpawnFunc(sys, "r", handle, actor.Reentrant())
				began := time.Now()
				route := strings.Fields(way)
				answer, err := actor.Ask(bg, refs[route[0]], hop{way: route[1:]})
				err = cmp.Or(err, answer)
				switch {
				case time.Since(began) != 0:
					t.Errorf("after %v: %v", time.Since(began), err)
				case want == "" && err != nil:
					t.Error(err)
				case want != "" && (!errors.Is(err, actor.ErrDeadlock) || !strings.HasSuffix(err.Error(), ": "+want)):
					t.Errorf("got %v, want the cycle %s", err, want)
				}
			})
		})
	}
}

func TestTryTellIntoOnesOwnFullMailboxFailsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := actortest.NewSystem(t)
		errs := make(chan error, 2)
		ref := actor.SpawnFunc(sys, "x", func(ctx *actor.Context[int], n int) error {
			if n == 0 {
				errs <- ctx.Self().TryTell(ctx, 1)
				errs <- ctx.Self().TryTell(ctx, 2)
			}
			return nil
		}, actor.Bounded(1, actor.Block))
		ref.Tell(bg, 0)
		if err := <-errs; err != nil {
			t.Errorf("with room: %v", err)
		}
		began := time.Now()
		select {
		case err := <-errs:
			if !errors.Is(err, actor.ErrMailboxFull) || time.Since(began) != 0 {
				t.Errorf("without room: %v after %v", err, time.Since(began))
			}
		case <-time.After(time.Hour):
			t.Error("it waits for itself")
			ref.Kill()
		}
	})
}

func TestAskOfAGoroutineThatOutlivesItsHandlerIsNoDeadlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := actortest.NewSystem(t)
		errs := make(chan error, 2)
		var b actor.Ref[any]
		a := actor.SpawnFunc(sys, "a", func(ctx *actor.Context[any], m any) error {
			if m, ok := m.(askBack); ok {
				actor.Reply(ctx, m, 1)
				return nil
			}
			derived, cancel := context.WithCancel(ctx)
			go func() {
				defer cancel()
				_, err := actor.Ask(derived, b, get{})
				errs <- err
			}()
			return nil
		})
		b = actor.SpawnFunc(sys, "b", func(ctx *actor.Context[any], m any) error {
			_, err := actor.Ask(ctx, a, askBack{})
			actor.Reply(ctx, m.(get), 1)
			errs <- err
			return nil
		})
		a.Tell(bg, "go")
		for range 2 {
			if err := <-errs; err != nil {
				t.Error(err)
			}
		}
	})
}

func TestStopEndsAnAskBesideAnAskOfAGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := actortest.NewSystem(t, actor.WithAskTimeout(time.Hour))
		never := actor.SpawnFunc(sys, "never", func(ctx *actor.Context[get], m get) error {
			actor.Promise(ctx, m)
			return nil
		})
		counter := actor.Spawn(sys, "counter", newCounter)
		ref := actor.SpawnFunc(sys, "x", func(ctx *actor.Context[int], _ int) error {
			derived, cancel := context.WithCancel(ctx)
			go func() {
				defer cancel()
				time.Sleep(time.Second) // until the handler waits
				_, _ = actor.Ask(derived, counter, get{})
			}()
			_, err := actor.Ask(ctx, never, get{})
			return err
		})
		down := ended(t, sys, ref)
		ref.Tell(bg, 1)
		time.Sleep(time.Minute)
		began := time.Now()
		ref.Stop()
		down()
		if took := time.Since(began); took != 0 {
			t.Errorf("it has stopped after %v", took)
		}
	})
}

func TestAReentrantActorMayAskWhoWaitsForAPromiseOfIts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := actortest.NewSystem(t)
		var waits, promises actor.Ref[any]
		errs := make(chan error, 1)
		waits = actor.SpawnFunc(sys, "waits", func(ctx *actor.Context[any], m any) error {
			if m, ok := m.(askBack); ok {
				actor.Reply(ctx, m, 1)
				return nil
			}
			_, err := actor.Ask(ctx, promises, get{})
			errs <- err
			return nil
		})
		promises = actor.SpawnFunc(sys, "promises", func(ctx *actor.Context[any], m any) error {
			promised := actor.Promise(ctx, m.(get))
			time.AfterFunc(time.Second, func() { promised.Resolve(1) })
			if _, err := actor.Ask(ctx, waits, askBack{}); err != nil {
				t.Error(err)
			}
			return nil
		}, actor.Reentrant())
		began := time.Now()
		waits.Tell(bg, "go")
		if err := <-errs; err != nil || time.Since(began) != time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
	})
}

func TestInlineActorThatAsksItsAskerFailsAtOnce(t *testing.T) {
	reentrantOrNot(t, func(t *testing.T, sys *actor.System, opts ...actor.SpawnOption) {
		errs := make(chan error, 1)
		var asker actor.Ref[any]
		inline := actor.SpawnFunc(sys, "inline", func(ctx *actor.Context[askBack], m askBack) error {
			_, err := actor.Ask(ctx, asker, get{})
			errs <- err
			actor.Reply(ctx, m, 1)
			return nil
		}, actor.Inline())
		asker = actor.SpawnFunc(sys, "asker", func(ctx *actor.Context[any], m any) error {
			if _, ok := m.(string); ok {
				_, err := actor.Ask(ctx, inline, askBack{})
				return err
			}
			return nil
		}, opts...)
		asker.Tell(bg, "go")
		failsAtOnce(t, errs)
	})
}

func TestAPromiseThatOthersKeepIsNoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := actortest.NewSystem(t)
		errs := make(chan error, 1)
		var a, b actor.Ref[any]
		a = actor.SpawnFunc(sys, "a", func(ctx *actor.Context[any], m any) error {
			switch m := m.(type) {
			case askBack:
				actor.Reply(ctx, m, 1)
			default:
				if n, err := actor.Ask(ctx, b, get{}); n != 7 || err != nil {
					t.Errorf("b has answered %d, %v", n, err)
				}
			}
			return nil
		}, actor.Reentrant())
		b = actor.SpawnFunc(sys, "b", func(ctx *actor.Context[any], m any) error {
			switch m := m.(type) {
			case get:
				p := actor.Promise(ctx, m)
				time.AfterFunc(2*time.Second, func() { p.Resolve(7) })
			default:
				_, err := actor.Ask(ctx, a, askBack{})
				errs <- err
			}
			return nil
		})
		c := actor.SpawnFunc(sys, "c", func(ctx *actor.Context[any], m any) error { // asks and is not reentrant
			if m, ok := m.(askBack); ok {
				actor.Reply(ctx, m, 1)
				return nil
			}
			n, err := actor.Ask(ctx, b, get{})
			if n != 7 || err != nil {
				t.Errorf("b has answered %d, %v", n, err)
			}
			return nil
		})
		c.Tell(bg, "go")
		synctest.Wait()
		a = c
		b.Tell(bg, "ask back")
		if err := <-errs; err != nil {
			t.Error(err)
		}
	})
}

// A asks B, B passes the request on, and whoever has it waits for A, or will.
func TestACycleThroughForwardIsFound(t *testing.T) {
	for _, late := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			sys := actortest.NewSystem(t)
			errs := make(chan error, 2)
			var a actor.Ref[any]
			c := actor.SpawnFunc(sys, "c", func(ctx *actor.Context[any], m any) error {
				if late {
					if err := ctx.Sleep(time.Second); err != nil {
						return err
					}
				}
				_, err := actor.Ask(ctx, a, askBack{})
				errs <- err
				return nil
			})
			b := actor.SpawnFunc(sys, "b", func(ctx *actor.Context[any], _ any) error {
				if !late {
					if err := ctx.Sleep(time.Second); err != nil {
						return err
					}
				}
				return actor.Forward(ctx, c)
			})
			a = actor.SpawnFunc(sys, "a", func(ctx *actor.Context[any], m any) error {
				if m, ok := m.(askBack); ok {
					actor.Reply(ctx, m, 1)
					return nil
				}
				_, err := actor.Ask(ctx, b, get{})
				errs <- err
				return nil
			})
			a.Tell(bg, "go")
			if !late {
				synctest.Wait()
				c.Tell(bg, "go") // and so it waits for a when the request comes
			}
			began := time.Now()
			if err := <-errs; !errors.Is(err, actor.ErrDeadlock) || time.Since(began) > time.Second {
				t.Errorf("late %v, after %v: %v", late, time.Since(began), err)
			}
		})
	}
}

// A reentrant actor handles nothing else before its request is in the mailbox of the other.
func TestAReentrantActorThatWaitsForRoomIsPartOfACycle(t *testing.T) {
	for name, first := range map[string]string{"it waits first": "/reentrant", "the other waits first": "/plain"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sys := actortest.NewSystem(t)
				var refs [2]actor.Ref[get]
				errs := make(chan error, 2)
				handler := func(i int) func(*actor.Context[get], get) error {
					return func(ctx *actor.Context[get], m get) error {
						if ctx.Sender().IsZero() {
							pause := time.Second
							if ctx.Self().PID().Path() == first {
								pause /= 2
							}
							_ = actor.Blocking(ctx, func() error { time.Sleep(pause); return nil }) // meanwhile the mailbox fills
							_, err := actor.Ask(ctx, refs[1-i], m)
							errs <- err
						}
						actor.Reply(ctx, m, i)
						return nil
					}
				}
				refs[0] = actor.SpawnFunc(sys, "reentrant", handler(0), actor.Reentrant())
				refs[1] = actor.SpawnFunc(sys, "plain", handler(1), actor.Bounded(1, actor.Block))
				for _, ref := range refs {
					ref.Tell(bg, get{})
				}
				synctest.Wait()
				filler := actor.SpawnFunc(sys, "", func(ctx *actor.Context[any], _ any) error { refs[1].Tell(ctx, get{}); return nil })
				filler.Tell(bg, 1)
				second, other := <-errs, <-errs
				if !errors.Is(second, actor.ErrDeadlock) || !strings.Contains(second.Error(), "/plain") || !strings.Contains(second.Error(), "/reentrant") {
					t.Errorf("the one that waits last: %v", second)
				}
				if other != nil {
					t.Errorf("the one that waits first: %v", other)
				}
			})
		})
	}
}

// A handler that keeps the others from going on, for a moment, hides no cycle of theirs.
func TestACycleThroughAReentrantActorThatWaitsForRoomIsFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := actortest.NewSystem(t)
		release := make(chan struct{})
		defer close(release)
		full := actor.SpawnFunc(sys, "", func(ctx *actor.Context[any], _ any) error {
			return actor.Blocking(ctx, func() error { <-release; return nil })
		}, actor.Bounded(1, actor.Block))
		var a, reentrant actor.Ref[any]
		errs := make(chan error, 1)
		b := actor.SpawnFunc(sys, "b", func(ctx *actor.Context[any], m any) error {
			_ = actor.Blocking(ctx, func() error { time.Sleep(time.Second); return nil }) // meanwhile the other handler waits
			_, err := actor.Ask[int](ctx, a, get{})
			errs <- err
			actor.Reply(ctx, m.(get), 1)
			return nil
		})
		reentrant = actor.SpawnFunc(sys, "reentrant", func(ctx *actor.Context[any], m any) error {
			if m, ok := m.(get); ok {
				_, err := actor.Ask[int](ctx, b, m)
				actor.Reply(ctx, m, 1)
				return err
			}
			return full.TryTell(ctx, m)
		}, actor.Reentrant())
		a = actor.SpawnFunc(sys, "a", func(ctx *actor.Context[any], _ any) error {
			_, err := actor.Ask[int](ctx, reentrant, get{})
			return err
		})
		a.Tell(bg, 1)
		full.Tell(bg, 1)
		synctest.Wait()
		full.Tell(bg, 2)
		reentrant.Tell(bg, 3)
		if err := <-errs; !errors.Is(err, actor.ErrDeadlock) || !strings.Contains(err.Error(), "/b -> /a -> /reentrant -> /b") {
			t.Error(err)
		}
	})
}

func TestTwoThatWaitForRoomInEachOtherAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := actortest.NewSystem(t)
		var refs [2]actor.Ref[string]
		errs := make(chan error, 2)
		for i := range refs {
			refs[i] = actor.SpawnFunc(sys, []string{"a", "b"}[i], func(ctx *actor.Context[string], m string) error {
				if m == "go" {
					if err := ctx.Sleep(time.Second); err != nil { // meanwhile the mailboxes fill
						return err
					}
					errs <- refs[1-i].TryTell(ctx, "more")
				}
				return nil
			}, actor.Bounded(1, actor.Block))
		}
		for _, ref := range refs {
			ref.Tell(bg, "go")
		}
		synctest.Wait()
		for _, ref := range refs {
			ref.Tell(bg, "mail")
		}
		first, second := <-errs, <-errs
		if !errors.Is(first, actor.ErrDeadlock) || !strings.Contains(first.Error(), "/a") || !strings.Contains(first.Error(), "/b") {
			t.Errorf("first %v", first)
		}
		if second != nil && !errors.Is(second, actor.ErrDeadlock) { // both may have begun before either looked
			t.Errorf("second %v", second)
		}
	})
}

// Each of many reentrant actors waits twice for the end of the next one: there are 2²⁰ ways along them, and the cycle lies
// beside those.
func TestACycleBesideManyWaysIsFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := actortest.NewSystem(t)
		errs := make(chan error, 1)
		var plain actor.Ref[any]
		layers := make([]actor.Ref[any], 21)
		for i := range layers {
			layers[i] = actor.SpawnFunc(sys, "", func(ctx *actor.Context[any], m any) (err error) {
				if m == "ask" {
					_, err = actor.Ask(ctx, plain, askBack{})
				} else {
					_, err = layers[i+1].Wait(ctx)
				}
				return err
			}, actor.Reentrant())
		}
		plain = actor.SpawnFunc(sys, "plain", func(ctx *actor.Context[any], m any) error {
			if m, ok := m.(askBack); ok {
				actor.Reply(ctx, m, 1)
				return nil
			}
			if err := ctx.Sleep(time.Second); err != nil { // until the ask is there
				return err
			}
			_, err := layers[0].Wait(ctx, actor.Within(time.Minute))
			errs <- err
			return nil
		})
		for _, layer := range layers[:len(layers)-1] {
			layer.Tell(bg, "wait")
			layer.Tell(bg, "wait")
		}
		synctest.Wait()
		plain.Tell(bg, "go")
		layers[0].Tell(bg, "ask")
		<-time.After(time.Second)
		failsAtOnce(t, errs)
	})
}
