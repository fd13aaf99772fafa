package actor_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/actortest"
)

// holdingGate holds everything until it is released.
type holdingGate struct {
	mu       sync.Mutex
	held     []func(error) // guarded by mu
	handling int           // where in held what the handler sends begins, -1 outside of a handler; guarded by mu
	refuse   error         // what Settle fails with; guarded by mu
	before   error         // what Handle returns in place of the handler's error; guarded by mu
}

func (g *holdingGate) Handle(_ context.Context, next func() error) (err error) {
	g.mu.Lock()
	before := g.before
	g.handling = len(g.held)
	g.mu.Unlock()
	if before != nil {
		return before
	}
	err = errors.New("the handler has not returned")
	defer func() {
		g.mu.Lock()
		var dropped []func(error)
		if err != nil {
			dropped, g.held = g.held[g.handling:], g.held[:g.handling:g.handling]
		}
		g.handling = -1
		g.mu.Unlock()
		for _, leave := range dropped {
			leave(fmt.Errorf("dropped: %w", err))
		}
	}()
	return next()
}

func (g *holdingGate) Hold(leave func(error)) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.held = append(g.held, leave)
	return true
}

func (g *holdingGate) Settle(context.Context) error {
	g.mu.Lock()
	refuse := g.refuse
	g.mu.Unlock()
	if refuse == nil {
		g.release()
	}
	return refuse
}

// release lets everything go, in order.
func (g *holdingGate) release() (n int) {
	for ; ; n++ {
		g.mu.Lock()
		if len(g.held) == 0 {
			g.mu.Unlock()
			return n
		}
		leave := g.held[0]
		g.held, g.handling = g.held[1:], max(g.handling-1, 0)
		g.mu.Unlock()
		leave(nil)
	}
}

type gateAsk struct {
	actor.Returns[string]
	what string
}

// do is a message whose handler does something.
type do func(ctx *actor.Context[any]) error

// gatedActor does what it is told, with a gate, and answers requests with an echo.
func gatedActor(k *actortest.Kit, g actor.Gate, opts ...actor.SpawnOption) actor.Ref[any] {
	return actor.SpawnFunc(k.System(), "gated", func(ctx *actor.Context[any], m any) error {
		switch m := m.(type) {
		case do:
			return m(ctx)
		case gateAsk:
			actor.Reply(ctx, m, "echo "+m.what)
		}
		return nil
	}, append(opts, actor.Gated(g))...)
}

// listener writes down what it is told, and answers what it is asked.
func listener(k *actortest.Kit, log *actortest.Journal) actor.Ref[any] {
	return actor.SpawnFunc(k.System(), "listener", func(ctx *actor.Context[any], m any) error {
		if m, ok := m.(gateAsk); ok {
			log.Addf("asked %s by %s", m.what, ctx.Sender().Path())
			actor.Reply(ctx, m, "answer")
			return nil
		}
		log.Addf("told %v by %s", m, ctx.Sender().Path())
		return nil
	})
}

func TestGateHoldsWhatAHandlerSendsInItsOrder(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		log, g := actortest.NewJournal(k), &holdingGate{}
		to, a := listener(k, log), gatedActor(k, g)
		routed, err := actor.Routed(k.System(), to.PID(), func(_ any, pass func(actor.Ref[any])) { pass(to) })
		if err != nil {
			t.Fatal(err)
		}
		a.Tell(k.Context(), do(func(ctx *actor.Context[any]) error {
			to.Tell(ctx, 1)
			if err := to.TryTell(ctx, 2); err != nil {
				t.Error(err)
			}
			routed.Tell(ctx, 3)
			derived, cancel := context.WithTimeout(ctx, time.Hour)
			defer cancel()
			to.Tell(derived, 4)
			actor.AskThen(ctx, to, gateAsk{what: "5"}, func(answer string, err error) any {
				return do(func(*actor.Context[any]) error { log.Addf("%s %v", answer, err); return nil })
			})
			actor.Pipe(ctx, func(context.Context) (int, error) { log.Addf("piped"); return 0, nil }, func(int, error) any { return 0 })
			actor.AskFuture(ctx, to, gateAsk{what: "7"})
			if !actor.Hold(ctx, func(later context.Context) { to.Tell(later, 6) }) {
				t.Error("not held")
			}
			ctx.Self().Tell(ctx, do(func(ctx *actor.Context[any]) error { log.Addf("told itself by %s", ctx.Sender().Path()); return nil }))
			return nil
		}))
		k.Settle()
		log.Expect()
		if n := g.release(); n != 9 {
			t.Errorf("%d were held", n)
		}
		k.Settle()
		expectAll(t, log, "told 1 by /gated", "told 2 by /gated", "told 3 by /gated", "told 4 by /gated", "asked 5 by /gated", "answer <nil>",
			"piped", "told 6 by /gated", "asked 7 by /gated", "told itself by /gated")
	})
}

// expectAll requires these lines, in any order.
func expectAll(t *testing.T, log *actortest.Journal, want ...string) {
	t.Helper()
	got := log.All()
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("got\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

func TestGateHoldsAnswersAndForwards(t *testing.T) {
	errOwn := errors.New("own")
	for name, c := range map[string]struct {
		handle func(ctx *actor.Context[any], m gateAsk, to actor.Ref[any]) error
		answer string
		err    error
		fails  int
	}{
		"Reply": {func(ctx *actor.Context[any], m gateAsk, _ actor.Ref[any]) error {
			actor.Reply(ctx, m, "yes")
			return nil
		}, "yes", nil, 0},
		"ReplyFor": {func(ctx *actor.Context[any], _ gateAsk, _ actor.Ref[any]) error {
			actor.ReplyFor(ctx, "yes")
			return nil
		}, "yes", nil, 0},
		"Promise": {func(ctx *actor.Context[any], m gateAsk, _ actor.Ref[any]) error {
			actor.Promise(ctx, m).Resolve("yes")
			return nil
		}, "yes", nil, 0},
		"Reject": {func(ctx *actor.Context[any], m gateAsk, _ actor.Ref[any]) error {
			actor.Promise(ctx, m).Reject(errOwn)
			return nil
		}, "", errOwn, 0},
		"Refuse":    {func(ctx *actor.Context[any], _ gateAsk, _ actor.Ref[any]) error { return actor.Refuse(ctx, errOwn) }, "", errOwn, 0},
		"Unhandled": {func(*actor.Context[any], gateAsk, actor.Ref[any]) error { return nil }, "", actor.ErrUnhandled, 0},
		"Error":     {func(*actor.Context[any], gateAsk, actor.Ref[any]) error { return errOwn }, "", errOwn, 1},
		"Stop":      {func(*actor.Context[any], gateAsk, actor.Ref[any]) error { return actor.ErrStop }, "", actor.ErrStopped, 0},
		"Forward":   {func(ctx *actor.Context[any], _ gateAsk, to actor.Ref[any]) error { return actor.Forward(ctx, to) }, "answer", nil, 0},
		"Twice": {func(ctx *actor.Context[any], m gateAsk, _ actor.Ref[any]) error {
			actor.Reply(ctx, m, "yes")
			actor.Reply(ctx, m, "no")
			return nil
		}, "yes", nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			actortest.Run(t, func(k *actortest.Kit) {
				log, g := actortest.NewJournal(k), &holdingGate{}
				to := listener(k, log)
				a := actor.SpawnFunc(k.System(), "gated", func(ctx *actor.Context[any], m any) error {
					return c.handle(ctx, m.(gateAsk), to)
				}, actor.Gated(g))
				ask := actortest.Ask(k, a, gateAsk{what: "x"})
				k.Settle()
				if !ask.Pending() || len(log.All()) > 0 {
					t.Fatalf("it has left: %v", log.All())
				}
				g.release()
				k.Settle()
				if ask.Pending() {
					t.Fatal("it has not left")
				}
				if c.err == nil && ask.Answer() != c.answer || !errors.Is(ask.Err(), c.err) {
					t.Errorf("got %v, want %q, %v", ask.Err(), c.answer, c.err)
				}
				k.ExpectFailures(c.fails)
			})
		})
	}
}

func TestGateDropsWhatAHandlerThatFailsHasSent(t *testing.T) {
	for name, end := range map[string]func() error{
		"Error": func() error { return errors.New("broken") },
		"Panic": func() error { panic("broken") },
		"Exit":  func() error { runtime.Goexit(); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			actortest.Run(t, func(k *actortest.Kit) {
				log, g := actortest.NewJournal(k), &holdingGate{}
				to, a := listener(k, log), gatedActor(k, g)
				first := actortest.Ask(k, a, gateAsk{what: "before"})
				a.Tell(k.Context(), do(func(ctx *actor.Context[any]) error {
					to.Tell(ctx, 1)
					actor.AskThen(ctx, to, gateAsk{what: "2"}, func(string, error) any { return 0 })
					actor.Pipe(ctx, func(context.Context) (int, error) { log.Addf("piped"); return 0, nil }, func(int, error) any { return 0 })
					actor.Hold(ctx, func(context.Context) { log.Addf("held") })
					return end()
				}))
				last := actortest.Ask(k, a, gateAsk{what: "after"})
				k.Settle()
				k.ExpectFailures(1)
				g.release()
				k.Settle()
				log.Expect()
				if first.Answer() != "echo before" || last.Answer() != "echo after" {
					t.Errorf("answers %q, %q", first.Answer(), last.Answer())
				}
				k.ExpectNoDeadLetter()
			})
		})
	}
}

func TestGateRejectsTheAnswerOfAHandlerThatFails(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		errOwn := errors.New("own")
		a := actor.SpawnFunc(k.System(), "gated", func(ctx *actor.Context[any], m any) error {
			actor.Reply(ctx, m.(gateAsk), "too early")
			return errOwn
		}, actor.Gated(&holdingGate{}))
		ask := actortest.Ask(k, a, gateAsk{what: "x"})
		k.Settle()
		if !errors.Is(ask.Err(), errOwn) {
			t.Errorf("got %v", ask.Err())
		}
		k.ExpectFailures(1)
	})
}

func TestGateIsSettledBeforeWhatCannotBeHeld(t *testing.T) {
	child := func(*actor.Context[int], int) error { return nil }
	for name, act := range map[string]func(ctx *actor.Context[any], to actor.Ref[any]) error{
		"Ask": func(ctx *actor.Context[any], to actor.Ref[any]) error {
			_, err := actor.Ask(ctx, to, gateAsk{what: "2"})
			return err
		},
		"Derived": func(ctx *actor.Context[any], to actor.Ref[any]) error {
			derived, cancel := context.WithTimeout(ctx, time.Hour)
			defer cancel()
			_, err := actor.Ask(derived, to, gateAsk{what: "2"})
			return err
		},
		"AskFor": func(ctx *actor.Context[any], to actor.Ref[any]) error {
			_, err := actor.AskFor[string](ctx, to, gateAsk{what: "2"})
			return err
		},
		"Gather": func(ctx *actor.Context[any], to actor.Ref[any]) (err error) {
			for _, answer := range actor.Gather(ctx, []actor.Ref[any]{to}, gateAsk{what: "2"}) {
				err = answer.Err
			}
			return err
		},
		"Blocking": func(ctx *actor.Context[any], to actor.Ref[any]) error {
			return actor.Blocking(ctx, func() error { _, err := actor.Ask(context.Background(), to, gateAsk{what: "2"}); return err })
		},
		"Spawn": func(ctx *actor.Context[any], to actor.Ref[any]) error {
			_, err := actor.TrySpawnFunc(ctx, "child", child)
			if err == nil {
				_, err = actor.Ask(context.Background(), to, gateAsk{what: "2"})
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			actortest.Run(t, func(k *actortest.Kit) {
				log, g := actortest.NewJournal(k), &holdingGate{}
				to, a := listener(k, log), gatedActor(k, g)
				errClosed := errors.New("closed")
				var got error
				a.Tell(k.Context(), do(func(ctx *actor.Context[any]) error {
					to.Tell(ctx, 1)
					g.mu.Lock()
					g.refuse = errClosed
					g.mu.Unlock()
					if got = act(ctx, to); !errors.Is(got, errClosed) {
						t.Errorf("with a gate that refuses: %v", got)
					}
					g.mu.Lock()
					g.refuse = nil
					g.mu.Unlock()
					got = act(ctx, to)
					to.Tell(ctx, 3)
					return got
				}))
				k.Advance(time.Second) // until the handler that blocks has a worker beside it
				if got != nil {
					t.Fatal(got)
				}
				asked := "asked 2 by /gated"
				if name == "Blocking" || name == "Spawn" {
					asked = "asked 2 by "
				}
				log.Expect("told 1 by /gated", asked)
				g.release()
				k.Settle()
				log.Expect("told 3 by /gated")
			})
		})
	}
}

func TestKillDropsWhatAGateHolds(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		log, g := actortest.NewJournal(k), &holdingGate{}
		to, a := listener(k, log), gatedActor(k, g)
		a.Tell(k.Context(), do(func(ctx *actor.Context[any]) error { to.Tell(ctx, 1); return nil }))
		ask := actortest.Ask(k, a, gateAsk{what: "x"})
		k.Settle()
		a.Kill()
		k.Settle()
		g.release()
		k.Settle()
		log.Expect()
		if !errors.Is(ask.Err(), actor.ErrStopped) {
			t.Errorf("the asker got %v", ask.Err())
		}
		if d := actortest.ExpectDeadLetter[int](k); d.Reason != actor.Killed {
			t.Errorf("dead letter %+v", d)
		}
	})
}

func TestGateHandlesBehaviorsAndNotes(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		log, g := actortest.NewJournal(k), &holdingGate{}
		to, a := listener(k, log), gatedActor(k, g)
		tell := func(n int) do { return func(ctx *actor.Context[any]) error { to.Tell(ctx, n); return nil } }
		a.Tell(k.Context(), do(func(ctx *actor.Context[any]) error {
			ctx.After("k", time.Second, tell(2))
			ctx.Become(func(ctx *actor.Context[any], m any) error { return m.(do)(ctx) })
			return nil
		}))
		a.Tell(k.Context(), tell(1))
		k.Advance(2 * time.Second)
		log.Expect()
		g.mu.Lock()
		g.before = errors.New("not now")
		g.mu.Unlock()
		a.Tell(k.Context(), tell(3))
		k.Settle()
		g.release()
		k.Settle()
		log.Expect("told 1 by /gated", "told 2 by /gated")
		k.ExpectFailures(1)
	})
}

func TestResumeRestartsAGatedActor(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		made := 0
		parent := actor.SpawnFunc(k.System(), "parent", func(ctx *actor.Context[any], _ any) error {
			actor.Spawn(ctx, "gated", func() *counter { made++; return newCounter() }, actor.Gated(&holdingGate{}))
			return nil
		}, actor.Supervise(actor.OneForOne, actor.Decide(func(error) actor.Directive { return actor.Resume })))
		parent.Tell(k.Context(), 0)
		k.Settle()
		child, err := actor.LookupPath[counterMsg](k.System(), "/parent/gated")
		if err != nil {
			t.Fatal(err)
		}
		child.Tell(k.Context(), fail{errors.New("broken")})
		k.Settle()
		k.ExpectFailures(1)
		if made != 2 {
			t.Errorf("%d states were made, want 2", made)
		}
	})
}

func TestGatedActorIsNeitherReentrantNorInline(t *testing.T) {
	sys := actortest.NewSystem(t)
	for _, opt := range []actor.SpawnOption{actor.Reentrant(), actor.Inline()} {
		_, err := actor.TrySpawnFunc(sys, "", func(*actor.Context[int], int) error { return nil }, actor.Gated(&holdingGate{}), opt)
		if err == nil || !strings.Contains(err.Error(), "Gated") {
			t.Errorf("got %v", err)
		}
	}
}

func TestRefuseIsNoFailure(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		errOwn := errors.New("own")
		a := actor.SpawnFunc(k.System(), "", func(ctx *actor.Context[any], _ any) error { return actor.Refuse(ctx, errOwn) })
		a.Tell(k.Context(), 1)
		if _, err := actor.Ask(k.Context(), a, gateAsk{}); !errors.Is(err, errOwn) {
			t.Errorf("got %v", err)
		}
		k.ExpectFailures(0)
	})
}

// A gate lets go on a goroutine that must not block, as that of a journal's commits.
func TestWhatLeavesAGateDoesNotWaitForAnInlineActor(t *testing.T) {
	for name, send := range map[string]func(*actor.Context[any], actor.Ref[any]) error{
		"Tell": func(ctx *actor.Context[any], to actor.Ref[any]) error {
			to.Tell(ctx, 1)
			return nil
		},
		"Forward": actor.Forward[any, any],
		"AskThen": func(ctx *actor.Context[any], to actor.Ref[any]) error {
			actor.AskThen(ctx, to, gateAsk{what: "1"}, func(string, error) any { return nil })
			return nil
		},
		"Hold": func(ctx *actor.Context[any], to actor.Ref[any]) error {
			actor.Hold(ctx, func(ctx context.Context) { to.Tell(ctx, 1) })
			return nil
		},
	} {
		for order, opt := range map[string]actor.SpawnOption{
			"plain": actor.Inline(), "ordered": actor.Ordered(func() actor.Queue[any] { return new(custom[any]) }),
		} {
			t.Run(name+" "+order, func(t *testing.T) {
				actortest.Run(t, func(k *actortest.Kit) {
					released, handled := make(chan struct{}), make(chan struct{})
					inline := actor.SpawnFunc(k.System(), "inline", func(*actor.Context[any], any) error {
						<-released
						close(handled)
						return nil
					}, actor.Inline(), opt)
					g := &holdingGate{}
					gatedActor(k, g).Tell(k.Context(), do(func(ctx *actor.Context[any]) error { return send(ctx, inline) }))
					k.Settle()
					if g.release() == 0 { // a deadlock, which synctest finds, if it handles the message
						t.Error("nothing was held")
					}
					close(released)
					<-handled
				})
			})
		}
	}
}

func TestGateOutlivesWhatItHoldsPanicking(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		g := &holdingGate{}
		a := gatedActor(k, g)
		a.Tell(k.Context(), do(func(ctx *actor.Context[any]) error {
			actor.Hold(ctx, func(context.Context) { panic("in what was held") })
			return nil
		}))
		k.Settle()
		g.release()
		if !strings.Contains(k.Log(), "in what was held") {
			t.Errorf("the log does not say so:\n%s", k.Log())
		}
	})
}

func TestGateOfALaterIncarnationDoesNotLetGoWhatAnEarlierOneHasPromised(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		g := &holdingGate{}
		var promise *actor.Promised[string]
		m := gateAsk{what: "later"}
		a := actor.SpawnFunc(k.System(), "gated", func(ctx *actor.Context[any], msg any) error {
			if _, ok := msg.(gateAsk); ok {
				promise = actor.Promise(ctx, m)
				return nil
			}
			return errors.New("broken")
		}, actor.Gated(g))
		call := actortest.Ask[string, any](k, a, m)
		k.Settle()
		a.Tell(k.Context(), 1)
		k.ExpectFailures(1)
		if promise.Resolve("of a state that is gone") {
			t.Error("it was kept")
		}
		g.release()
		if err := call.Await().Err(); !errors.Is(err, actor.ErrStopped) {
			t.Errorf("got %v", err)
		}
	})
}

func TestWhatAGateHoldsLeavesAfterANormalEnd(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		log, g := actortest.NewJournal(k), &holdingGate{}
		to, a := listener(k, log), gatedActor(k, g)
		a.Tell(k.Context(), do(func(ctx *actor.Context[any]) error {
			to.Tell(ctx, 1)
			ctx.Stop()
			return nil
		}))
		answer := actor.AskFuture(k.Context(), a, gateAsk{what: "2"})
		k.Settle()
		if n := g.release(); n == 0 {
			t.Error("nothing was held")
		}
		k.Settle()
		log.Expect("told 1 by /gated")
		if _, err := answer.Wait(k.Context()); !errors.Is(err, actor.ErrStopped) {
			t.Errorf("the ask that came after it: %v", err)
		}
	})
}

// failingGate holds nothing, and Hold fails so many times.
type failingGate struct {
	openGate
	fail func()
	left int // owned by the turn
}

func (g *failingGate) Hold(func(error)) bool {
	if g.left--; g.left >= 0 {
		g.fail()
	}
	return false
}

func TestAGateWhoseHoldFailsIsAFailureOfItsActorAndEndsTheAsk(t *testing.T) {
	fails := map[string]func(){"panics": func() { panic("in Hold") }, "ends its goroutine": runtime.Goexit}
	for name, handle := range map[string]func(ctx *actor.Context[any], m gateAsk, to actor.Ref[any]) error{
		"Nothing": func(*actor.Context[any], gateAsk, actor.Ref[any]) error { return nil },
		"Error":   func(*actor.Context[any], gateAsk, actor.Ref[any]) error { return errors.New("own") },
		"Panic":   func(*actor.Context[any], gateAsk, actor.Ref[any]) error { panic("in the handler") },
		"Exit":    func(*actor.Context[any], gateAsk, actor.Ref[any]) error { runtime.Goexit(); return nil },
		"Reply": func(ctx *actor.Context[any], m gateAsk, _ actor.Ref[any]) error {
			actor.Reply(ctx, m, "yes")
			return nil
		},
		"Promise": func(ctx *actor.Context[any], m gateAsk, _ actor.Ref[any]) error {
			actor.Promise(ctx, m).Resolve("yes")
			return nil
		},
		"Refuse": func(ctx *actor.Context[any], _ gateAsk, _ actor.Ref[any]) error {
			return actor.Refuse(ctx, errors.New("own"))
		},
		"Forward": func(ctx *actor.Context[any], _ gateAsk, to actor.Ref[any]) error { return actor.Forward(ctx, to) },
	} {
		for how, fail := range fails {
			for _, times := range []int{1, 1000} {
				t.Run(fmt.Sprintf("%s, it %s, %d", name, how, times), func(t *testing.T) {
					actortest.Run(t, func(k *actortest.Kit) {
						log := actortest.NewJournal(k)
						to := actor.SpawnFunc(k.System(), "", func(*actor.Context[any], any) error { return nil })
						a := actor.SpawnFunc(k.System(), "gated", func(ctx *actor.Context[any], m any) error {
							if m, ok := m.(gateAsk); ok {
								return handle(ctx, m, to)
							}
							log.Addf("handled %v", m)
							return nil
						}, actor.Gated(&failingGate{fail: fail, left: times}))
						_, err := actor.Ask(k.Context(), a, gateAsk{})
						if err == nil || errors.Is(err, context.DeadlineExceeded) {
							t.Errorf("the ask ended with %v", err)
						}
						k.ExpectFailures(1)
						a.Tell(k.Context(), 2)
						log.Expect("handled 2")
					})
				})
			}
		}
	}
}

func TestAnOrderThatPanicsEndsTheAskThatIsForwarded(t *testing.T) {
	for order, ordered := range map[string]actor.SpawnOption{
		"Priority": actor.Priority(func(int) int { panic("thirteen") }),
		"Ordered":  actor.Ordered(func() actor.Queue[int] { return &lifo{} }),
	} {
		for name, opts := range map[string][]actor.SpawnOption{
			"by itself":      nil,
			"through a gate": {actor.Gated(openGate{})},
		} {
			t.Run(order+" "+name, func(t *testing.T) {
				actortest.Run(t, func(k *actortest.Kit) {
					to := actor.SpawnFunc(k.System(), "", func(*actor.Context[int], int) error { return nil }, ordered)
					a := actor.SpawnFunc(k.System(), "", func(ctx *actor.Context[int], _ int) error { return actor.Forward(ctx, to) }, opts...)
					_, err := actor.AskFor[string](k.Context(), a, 13)
					if p, ok := errors.AsType[*actor.PanicError](err); !ok || p.Value != "thirteen" {
						t.Errorf("the ask ended with %v", err)
					}
					k.ExpectFailures(1)
				})
			})
		}
	}
}

func TestAnOrderThatPanicsEndsTheAskThatAGateLetsGo(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		to := actor.SpawnFunc(k.System(), "", func(*actor.Context[any], any) error { return nil },
			actor.Priority(func(any) int { panic("in the rank") }))
		g, outcomes := &holdingGate{}, make(map[string]error)
		a := gatedActor(k, g)
		var future *actor.Future[string]
		a.Tell(k.Context(), do(func(ctx *actor.Context[any]) error {
			actor.AskThen(ctx, to, gateAsk{}, func(_ string, err error) any {
				return do(func(*actor.Context[any]) error { outcomes["AskThen"] = err; return nil })
			})
			future = actor.AskFuture(ctx, to, gateAsk{})
			return nil
		}))
		forwarded := actortest.Ask(k, actor.SpawnFunc(k.System(), "", func(ctx *actor.Context[any], _ any) error {
			return actor.Forward(ctx, to)
		}, actor.Gated(g)), gateAsk{})
		k.Settle()
		g.release()
		k.Settle()
		_, outcomes["AskFuture"] = future.Wait(k.Context())
		outcomes["Forward"] = forwarded.Await().Err()
		for _, name := range []string{"AskThen", "AskFuture", "Forward"} {
			if _, ok := errors.AsType[*actor.PanicError](outcomes[name]); !ok {
				t.Errorf("%s ended with %v", name, outcomes[name])
			}
		}
	})
}

func TestAPipeThatAGateDropsHasTheErrorForItsOutcome(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		g, errOwn := &holdingGate{}, errors.New("own")
		a := gatedActor(k, g)
		var outcome error
		a.Tell(k.Context(), do(func(ctx *actor.Context[any]) error {
			actor.Pipe(ctx, func(context.Context) (int, error) { t.Error("the work was begun"); return 0, nil }, func(_ int, err error) any {
				return do(func(*actor.Context[any]) error { outcome = err; return nil })
			})
			return nil
		}))
		k.Settle()
		for _, leave := range g.held {
			leave(errOwn)
		}
		k.Settle()
		if !errors.Is(outcome, errOwn) {
			t.Errorf("the outcome is %v", outcome)
		}
	})
}
