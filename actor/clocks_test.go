package actor_test

import (
	"context"
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/actortest"
)

const never = time.Duration(math.MaxInt64)

func TestTimersThatNeverFireHoldUpNoOther(t *testing.T) {
	for name, set := range map[string]func(ctx *actor.Context[any]) error{
		"After":             func(ctx *actor.Context[any]) error { ctx.After("never", never, "never"); return nil },
		"Every":             func(ctx *actor.Context[any]) error { ctx.Every("never", never, "never"); return nil },
		"SetReceiveTimeout": func(ctx *actor.Context[any]) error { ctx.SetReceiveTimeout(never, "never"); return nil },
		"Sleep":             func(ctx *actor.Context[any]) error { return ctx.Sleep(never) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sys := actortest.NewSystem(t, actor.WithAskTimeout(time.Second))
				time.Sleep(time.Second) // so that never is later than the latest time
				log, began := new(journal), time.Now()
				patient := actor.SpawnFunc(sys, "patient", func(ctx *actor.Context[any], m any) error {
					log.add("%v at %v", m, time.Since(began))
					if m != "go" {
						return nil
					}
					err := set(ctx)
					log.add("set at %v", time.Since(began))
					return err
				})
				patient.Tell(bg, "go")
				synctest.Wait()
				actor.SpawnFunc(sys, "brief", func(ctx *actor.Context[string], m string) error {
					if m == "go" {
						ctx.After("soon", time.Millisecond, "soon")
						return nil
					}
					log.add("%v at %v", m, time.Since(began))
					return nil
				}).Tell(bg, "go")
				mutes := actor.SpawnFunc(sys, "mutes", func(ctx *actor.Context[mute], m mute) error {
					actor.Promise(ctx, m)
					return nil
				})
				if _, err := actor.Ask(bg, mutes, mute{}); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Second {
					t.Errorf("the ask ended after %v: %v", time.Since(began), err)
				}
				time.Sleep(1000 * time.Hour)
				if name == "Sleep" {
					log.expect(t, "go at 0s", "soon at 1ms")
				} else {
					log.expect(t, "go at 0s", "set at 0s", "soon at 1ms")
				}
				patient.Kill()
			})
		})
	}
}

func TestAskTimeoutThatNeverComesLetsAsksWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := actortest.NewSystem(t, actor.WithAskTimeout(never))
		ref := actor.SpawnFunc(sys, "", func(ctx *actor.Context[get], m get) error {
			err := ctx.Sleep(time.Hour)
			actor.Reply(ctx, m, 7)
			return err
		})
		if n := mustAsk(t, ref, get{}); n != 7 {
			t.Errorf("got %d", n)
		}
	})
}

func TestAsksEndAlthoughShutdownGaveUp(t *testing.T) {
	for home, opt := range map[string]actor.SpawnOption{"pool": actor.Weight(1), "pinned": actor.Pinned()} {
		t.Run(home, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sys := actortest.NewSystem(t, actor.WithAskTimeout(time.Minute))
				h := newHeld()
				ref := actor.SpawnFunc(sys, "", func(*actor.Context[get], get) error {
					close(h.entered)
					<-h.release
					return nil
				}, opt)
				ended := make(chan error, 1)
				ask := func() {
					_, err := actor.Ask(bg, ref, get{})
					ended <- err
				}
				go ask()
				<-h.entered
				ctx, cancel := context.WithCancel(bg)
				cancel()
				if report, err := sys.Shutdown(ctx); err == nil {
					t.Errorf("a shutdown without time was complete: %+v", report)
				}
				for _, when := range []string{"under way", "new"} {
					began := time.Now()
					if when == "new" {
						go ask()
					}
					select {
					case err := <-ended:
						if !errors.Is(err, actor.ErrStopped) && !errors.Is(err, context.DeadlineExceeded) {
							t.Errorf("%s: %v", when, err)
						}
						if took := time.Since(began); took > time.Minute {
							t.Errorf("%s: ended after %v", when, took)
						}
					case <-time.After(time.Hour):
						t.Fatalf("%s: an ask never ends", when)
					}
				}
				close(h.release)
			})
		})
	}
}
