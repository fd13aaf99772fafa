package actor_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/actortest"
)

// Found by internal/attack: a reentrant actor that has stopped itself lets its other handlers finish and begins no
// message meanwhile, but takes asks, and the search for a cycle looks for none there since it is reentrant.
func TestAnAskOfAReentrantActorThatStopsAndWaitsForTheAskerFailsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := actortest.NewSystem(t)
		asked, stopped, outcome := make(chan struct{}), make(chan struct{}), make(chan error, 1)
		var r actor.Ref[any]
		b := actor.SpawnFunc(sys, "b", func(ctx *actor.Context[any], m any) error {
			close(asked)
			<-stopped
			_, err := actor.Ask(ctx, r, get{})
			outcome <- err
			actor.Reply(ctx, m.(get), 1)
			return nil
		})
		r = actor.SpawnFunc(sys, "r", func(ctx *actor.Context[any], m any) error {
			switch m {
			case "begin":
				_, _ = actor.Ask(ctx, b, get{})
				return nil
			case "stop":
				return actor.ErrStop
			}
			actor.Reply(ctx, m.(get), 2)
			return nil
		}, actor.Reentrant())
		r.Tell(bg, "begin")
		<-asked
		r.Tell(bg, "stop")
		synctest.Wait() // it stops as soon as its other handler has returned
		began := time.Now()
		close(stopped)
		if err := <-outcome; !errors.Is(err, actor.ErrDeadlock) && !errors.Is(err, actor.ErrStopped) || time.Since(began) > 0 {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
	})
}

// Found by internal/attack: to restart the siblings of an actor ends their waits, but not that of a child in its first
// Init on the stack of one of them.
func TestARestartOfAllEndsTheWaitOfAChildInItsInit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := actortest.NewSystem(t, actor.Supervise(actor.AllForOne))
		outcome := make(chan error, 1)
		first := actor.SpawnFunc(sys, "first", func(ctx *actor.Context[any], m any) error {
			switch m := m.(type) {
			case get:
				actor.Reply(ctx, m, 1)
			case string:
				return errBroken
			}
			return nil
		})
		hold, held := make(chan struct{}), make(chan struct{})
		second := actor.SpawnFunc(sys, "second", func(ctx *actor.Context[any], _ any) error {
			actor.Spawn[any](ctx, "", func() *asksInInit {
				return &asksInInit{func(ctx *actor.Context[any]) {
					close(held)
					<-hold
					_, err := actor.Ask(ctx, first, get{})
					outcome <- err
				}}
			})
			return nil
		})
		second.Tell(bg, 1)
		<-held
		first.Tell(bg, "fail")
		synctest.Wait() // it is suspended, and waits until its sibling has stopped
		began := time.Now()
		close(hold)
		if err := <-outcome; time.Since(began) > 0 {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
	})
}

// Found by internal/attack: the same for a sibling that is in an Init of its own.
func TestARestartOfAllEndsTheWaitOfASiblingInItsInit(t *testing.T) {
	for name, later := range map[string]bool{"first": false, "later": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sys := actortest.NewSystem(t, actor.Supervise(actor.AllForOne))
				outcome := make(chan error, 1)
				first := actor.SpawnFunc(sys, "first", func(ctx *actor.Context[any], m any) error {
					if m == "fail" {
						return errBroken
					}
					return nil
				})
				hold, held := make(chan struct{}), make(chan struct{})
				inits := 0
				spawn := func() actor.Ref[any] {
					return actor.Spawn[any](sys, "", func() *asksInInit {
						return &asksInInit{func(ctx *actor.Context[any]) {
							if inits++; inits == 1 == later {
								return
							}
							if hold != nil {
								close(held)
								<-hold
								hold = nil
								_, err := actor.Ask(ctx, first, get{})
								outcome <- err
							}
						}}
					})
				}
				if later {
					_ = sys.Restart(spawn().PID())
				} else {
					go spawn()
				}
				<-held
				first.Tell(bg, "fail")
				synctest.Wait() // it is suspended, and waits until its sibling has stopped
				began := time.Now()
				close(hold)
				if err := <-outcome; time.Since(began) > 0 {
					t.Errorf("after %v: %v", time.Since(began), err)
				}
			})
		})
	}
}

// The child is told to stop while it waits with the context of its parent, which is in its first Init, too.
func TestTheStopOfAChildDoesNotEndTheWaitsOfItsParent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := actortest.NewSystem(t)
		silent := actor.SpawnFunc(sys, "silent", func(ctx *actor.Context[any], m any) error {
			actor.Promise(ctx, m.(get))
			return nil
		})
		quick := actor.SpawnFunc(sys, "quick", func(ctx *actor.Context[any], m any) error {
			actor.Reply(ctx, m.(get), 1)
			return nil
		})
		children, outcome := make(chan actor.Ref[any], 1), make(chan error, 1)
		go actor.Spawn[any](sys, "", func() *asksInInit {
			return &asksInInit{func(parent *actor.Context[any]) {
				actor.Spawn[any](parent, "", func() *asksInInit {
					return &asksInInit{func(child *actor.Context[any]) {
						children <- child.Self()
						_, _ = actor.Ask(parent, silent, get{})
					}}
				})
				_, err := actor.Ask(parent, quick, get{})
				outcome <- err
			}}
		})
		child := <-children
		synctest.Wait()
		child.Stop()
		if err := <-outcome; err != nil {
			t.Error(err)
		}
	})
}

// The child is two above its parent: on an Inline actor that the parent sends to.
func TestTheStopOfAParentEndsTheInitOfAChildOnAnInlineActor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := actortest.NewSystem(t)
		silent := actor.SpawnFunc(sys, "silent", func(ctx *actor.Context[any], m any) error {
			actor.Promise(ctx, m.(get))
			return nil
		})
		outcome := make(chan error, 1)
		inline := actor.SpawnFunc(sys, "inline", func(_ *actor.Context[any], m any) error {
			m.(func())()
			return nil
		}, actor.Inline())
		parent := actor.SpawnFunc(sys, "parent", func(parent *actor.Context[any], _ any) error {
			inline.Tell(parent, func() {
				actor.Spawn[any](parent, "", func() *asksInInit {
					return &asksInInit{func(child *actor.Context[any]) {
						_, err := actor.Ask(child, silent, get{})
						outcome <- err
					}}
				})
			})
			return nil
		})
		parent.Tell(bg, 1)
		synctest.Wait() // the Init waits
		began := time.Now()
		parent.Stop()
		if err := <-outcome; !errors.Is(err, context.Canceled) || time.Since(began) > 0 {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
	})
}

// Found by internal/attack: a handler of the reentrant actor has failed, and another one is under way, which spawns.
func TestARestartOfAllEndsTheWaitOfAnInitOnAHandlerOfWhoHasFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold, held := make(chan struct{}), make(chan struct{})
		sys := actortest.NewSystem(t, actor.Supervise(actor.AllForOne, actor.Decide(func(error) actor.Directive {
			<-held
			return actor.Restart
		})))
		var sibling actor.Ref[any] // halted first, since it is the younger one
		outcome := make(chan error, 1)
		failing := actor.SpawnFunc(sys, "failing", func(ctx *actor.Context[any], m any) error {
			if m == "fail" {
				return errBroken
			}
			_ = ctx.Sleep(time.Second) // meanwhile the other handler fails
			actor.Spawn[any](ctx, "", func() *asksInInit {
				return &asksInInit{func(child *actor.Context[any]) {
					close(held)
					<-hold
					_, err := actor.Ask(child, sibling, get{})
					outcome <- err
				}}
			})
			return nil
		}, actor.Reentrant())
		sibling = actor.SpawnFunc(sys, "sibling", func(ctx *actor.Context[any], m any) error {
			actor.Reply(ctx, m.(get), 1)
			return nil
		})
		failing.Tell(bg, "spawn")
		failing.Tell(bg, "fail")
		<-held
		synctest.Wait() // its siblings are halted
		began := time.Now()
		close(hold)
		if err := <-outcome; !errors.Is(err, context.Canceled) || time.Since(began) > 0 {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
	})
}

// Found by internal/attack: a failed actor handles nothing until its supervisor has decided, and that one's handler
// waits for it, itself or by the Init of another child.
func TestASupervisorThatWaitsForItsFailedChildIsTold(t *testing.T) {
	wait := map[string]func(ctx *actor.Context[any], failed actor.Ref[any]) error{
		"Ask": func(ctx *actor.Context[any], failed actor.Ref[any]) error {
			_, err := actor.Ask(ctx, failed, get{})
			return err
		},
		"Init": func(ctx *actor.Context[any], failed actor.Ref[any]) (err error) {
			actor.Spawn[any](ctx, "", func() *asksInInit {
				return &asksInInit{func(ctx *actor.Context[any]) { _, err = actor.Ask(ctx, failed, get{}) }}
			})
			return err
		},
		"Wait": func(ctx *actor.Context[any], failed actor.Ref[any]) error {
			_, err := failed.Wait(ctx)
			return err
		},
		"Ask and room": func(ctx *actor.Context[any], failed actor.Ref[any]) error {
			failed.Tell(ctx, "more")
			_, err := actor.Ask(ctx, failed, get{})
			return err
		},
		"room": func(ctx *actor.Context[any], failed actor.Ref[any]) error {
			for range 2 {
				if err := failed.TryTell(ctx, "more"); err != nil {
					return err
				}
			}
			return nil
		},
	}
	for name, wait := range wait {
		for when, first := range map[string]bool{"fails before": true, "fails meanwhile": false} {
			for kind, opts := range map[string][]actor.SpawnOption{"plain": nil, "reentrant": {actor.Reentrant()}} {
				t.Run(name+" "+when+" "+kind, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						sys := actortest.NewSystem(t)
						hold, outcome := make(chan struct{}), make(chan error, 1)
						parent := actor.SpawnFunc(sys, "parent", func(ctx *actor.Context[any], _ any) error {
							child := actor.SpawnFunc(ctx, "child", func(_ *actor.Context[any], m any) error {
								if m == "fail" {
									<-hold
									return errBroken
								}
								return nil
							}, append(opts, actor.Bounded(1, actor.Block))...)
							child.Tell(ctx, "fail")
							if first {
								close(hold)
								_ = actor.Blocking(ctx, func() error { time.Sleep(time.Second); return nil })
							} else {
								time.AfterFunc(time.Second, func() { close(hold) })
							}
							outcome <- wait(ctx, child)
							return nil
						})
						began := time.Now()
						parent.Tell(bg, 1)
						if err := <-outcome; !errors.Is(err, actor.ErrDeadlock) || time.Since(began) > time.Second {
							t.Errorf("after %v: %v", time.Since(began), err)
						} else if !strings.Contains(err.Error(), "/parent/child -> /parent") && !strings.Contains(err.Error(), "/parent -> /parent/child") {
							t.Errorf("the error does not say so: %v", err)
						}
					})
				})
			}
		}
	}
}

// A request that a handler of the failed actor has at hand is answered all the same.
func TestAHandlerThatWaitsAnswersItsRequestAfterAnotherHasFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := actortest.NewSystem(t)
		outcome := make(chan error, 1)
		parent := actor.SpawnFunc(sys, "parent", func(ctx *actor.Context[any], _ any) error {
			child := actor.SpawnFunc(ctx, "child", func(ctx *actor.Context[any], m any) error {
				if m == "fail" {
					return errBroken
				}
				_ = ctx.Sleep(time.Second)
				actor.Reply(ctx, m.(get), 1)
				return nil
			}, actor.Reentrant())
			time.AfterFunc(time.Second/2, func() { child.Tell(bg, "fail") })
			_, err := actor.Ask(ctx, child, get{})
			outcome <- err
			return nil
		})
		parent.Tell(bg, 1)
		if err := <-outcome; err != nil {
			t.Error(err)
		}
	})
}

type asksInInit struct{ init func(ctx *actor.Context[any]) }

func (a *asksInInit) Init(ctx *actor.Context[any]) error     { a.init(ctx); return nil }
func (a *asksInInit) Receive(*actor.Context[any], any) error { return nil }

// While a group restarts, a member that is halted waits for a turn of its supervisor, as one does that has failed.
func TestASupervisorThatAsksAHaltedChildIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := actortest.NewSystem(t)
		outcome := make(chan error, 1)
		handle := func(ctx *actor.Context[any], m any) error {
			if m, ok := m.(get); ok {
				actor.Reply(ctx, m, 1)
				return nil
			}
			return errBroken
		}
		var sibling actor.Ref[any]
		super := actor.SpawnFunc(sys, "super", func(ctx *actor.Context[any], m any) error {
			if m == "spawn" {
				failing := actor.SpawnFunc(ctx, "failing", handle)
				sibling = actor.SpawnFunc(ctx, "sibling", handle)
				failing.Tell(ctx, "fail")
				ctx.Self().Tell(ctx, "ask")
				return ctx.Sleep(time.Second) // the failure is decided next
			}
			_, err := actor.Ask(ctx, sibling, get{})
			outcome <- err
			return nil
		}, actor.Supervise(actor.AllForOne))
		super.Tell(bg, "spawn")
		began := time.Now()
		if err := <-outcome; !errors.Is(err, actor.ErrDeadlock) || time.Since(began) > time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
	})
}

// The Inline actor waits with the context of the Init that it is above.
func TestTheStopOfAnInlineActorEndsNoInitBelowIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := actortest.NewSystem(t)
		slow := actor.SpawnFunc(sys, "slow", func(ctx *actor.Context[any], m any) error {
			p := actor.Promise(ctx, m.(get))
			time.AfterFunc(time.Second, func() { p.Resolve(1) })
			return nil
		})
		inline := actor.SpawnFunc(sys, "inline", func(_ *actor.Context[any], m any) error {
			m.(func())()
			return nil
		}, actor.Inline())
		outcome := make(chan error, 1)
		parent := actor.SpawnFunc(sys, "parent", func(ctx *actor.Context[any], _ any) error {
			actor.Spawn[any](ctx, "child", func() *asksInInit {
				return &asksInInit{func(child *actor.Context[any]) {
					inline.Tell(child, func() { _, _ = actor.Ask(child, slow, get{}) })
					_, err := actor.Ask(child, slow, get{}) // by itself, when nobody is above it any more
					outcome <- err
				}}
			})
			return nil
		})
		parent.Tell(bg, 1)
		synctest.Wait()
		inline.Stop()
		if err := <-outcome; err != nil {
			t.Errorf("nobody has told the child or its parent to stop: %v", err)
		}
	})
}

// The child has failed, its supervisor escalates that, and waits for its own supervisor, which waits for the child.
func TestAnEscalatedFailureClosesACycle(t *testing.T) {
	for _, late := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			sys := actortest.NewSystem(t)
			outcome, refs := make(chan error, 1), make(chan actor.Ref[any], 1)
			grand := actor.SpawnFunc(sys, "grand", func(ctx *actor.Context[any], _ any) error {
				super := actor.SpawnFunc(ctx, "super", func(ctx *actor.Context[any], _ any) error {
					refs <- actor.SpawnFunc(ctx, "child", func(ctx *actor.Context[any], m any) error {
						if m, ok := m.(get); ok {
							actor.Reply(ctx, m, 1)
							return nil
						}
						if !late {
							_ = ctx.Sleep(time.Second)
						}
						return errBroken
					})
					return nil
				}, actor.Supervise(actor.OneForOne, actor.Decide(func(error) actor.Directive { return actor.Escalate })))
				super.Tell(ctx, "spawn")
				var child actor.Ref[any]
				_ = actor.Blocking(ctx, func() error { child = <-refs; return nil })
				child.Tell(ctx, "fail")
				if late {
					_ = ctx.Sleep(time.Second)
				}
				_, err := actor.Ask(ctx, child, get{}, actor.Within(time.Hour))
				outcome <- err
				return nil
			})
			began := time.Now()
			grand.Tell(bg, "go")
			if err := <-outcome; !errors.Is(err, actor.ErrDeadlock) || time.Since(began) > time.Second {
				t.Errorf("late %v: after %v: %v", late, time.Since(began), err)
			}
		})
	}
}
