package actor_test

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/actortest"
)

// noError returns what many a function returns by mistake: an error that is not nil, whose
// methods panic.
func noError() error {
	var err *fs.PathError
	return err
}

// loudError is an error that panics when somebody asks for its text.
type loudError struct{}

func (loudError) Error() string { panic("no text") }

// brokenStart fails in Init, from the given start on.
type brokenStart struct {
	starts *atomic.Int32
	from   int32
	err    error
}

func (b brokenStart) Init(*actor.Context[any]) error {
	if b.starts.Add(1) >= b.from {
		return b.err
	}
	return nil
}

func (b brokenStart) Receive(_ *actor.Context[any], m any) error {
	err, _ := m.(error)
	return err
}

func TestErrorsWhoseMethodsPanicAreFailuresLikeOthers(t *testing.T) {
	for name, err := range map[string]error{"a nil pointer": noError(), "a text that panics": loudError{}} {
		for at, from := range map[string]int32{"the first Init": 1, "a later Init": 2, "a handler": 100} {
			t.Run(name+" in "+at, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					sys := actortest.NewSystem(t, actor.Supervise(actor.OneForOne, actor.MaxRestarts(3, time.Minute)))
					var starts atomic.Int32
					newChild := func() brokenStart { return brokenStart{&starts, from, err} }
					parent := actor.SpawnFunc(sys, "parent", func(ctx *actor.Context[any], m any) error {
						if _, ok := m.(get); !ok {
							actor.Spawn(ctx, "child", newChild)
							return nil
						}
						actor.Reply(ctx, m.(get), len(ctx.Children()))
						return nil
					}, actor.Supervise(actor.OneForOne, actor.MaxRestarts(3, time.Minute), actor.Exhausted(actor.Stop)))
					parent.Tell(bg, "spawn")
					synctest.Wait()
					for range 5 {
						if child, err := actor.LookupPath[any](sys, "/parent/child"); err == nil {
							child.Tell(bg, noError())
						}
						synctest.Wait()
					}
					if n, err := actor.Ask(bg, parent, get{}); err != nil || n != 0 {
						t.Errorf("the parent has %d children, %v", n, err)
					}
				})
			})
		}
	}
}

func TestAnErrorWithoutATextEscalatesToTheRoot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := actortest.NewSystem(t, actor.Supervise(actor.OneForOne, actor.Decide(func(error) actor.Directive { return actor.Escalate })))
		ref := actor.SpawnFunc(sys, "a", func(*actor.Context[int], int) error { return loudError{} })
		ref.Tell(bg, 1)
		synctest.Wait()
		if _, err := actor.LookupPath[int](sys, "/a"); !errors.Is(err, actor.ErrStopped) {
			t.Errorf("it lives on: %v", err)
		}
	})
}

func TestADeciderThatEndsItsGoroutineEscalates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		sys := actortest.NewSystem(t, actor.Supervise(actor.OneForOne, actor.Decide(func(error) actor.Directive {
			asked++
			runtime.Goexit()
			return actor.Resume
		})))
		ref := actor.SpawnFunc(sys, "a", func(*actor.Context[int], int) error { return errBroken })
		ref.Tell(bg, 1)
		synctest.Wait()
		if _, err := actor.LookupPath[int](sys, "/a"); !errors.Is(err, actor.ErrStopped) || asked != 1 {
			t.Errorf("asked %d times; %v", asked, err)
		}
	})
}

// badLog is a log handler that does not return.
type badLog struct {
	slog.Handler

	crash func()
}

func (badLog) Enabled(context.Context, slog.Level) bool { return true }

func (l badLog) Handle(context.Context, slog.Record) error {
	l.crash()
	return nil
}

func (l badLog) WithAttrs([]slog.Attr) slog.Handler { return l }
func (l badLog) WithGroup(string) slog.Handler      { return l }

func TestALogHandlerThatDoesNotReturnLosesItsLinesOnly(t *testing.T) {
	for name, crash := range map[string]func(){"panics": func() { panic("the disk is full") }, "ends its goroutine": runtime.Goexit} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sys := actortest.NewSystem(t, actor.WithLogger(slog.New(badLog{crash: crash})))
				ref := actor.Spawn(sys, "counter", newCounter)
				ref.Tell(bg, fail{errBroken})
				ref.Tell(bg, boom{"loudly"})
				if _, err := actor.Ask(bg, ref, get{}); err != nil {
					t.Error(err)
				}
				ref.Kill()
				synctest.Wait()
				ref.Tell(bg, add{1}) // a dead letter

				last := actor.Spawn(sys, "last", func() *badEnd { return &badEnd{} })
				last.Tell(bg, get{})
				asked := actor.AskFuture[int](bg, last, get{}) // another, when it stops
				last.Stop()
				if _, err := asked.Wait(bg); !errors.Is(err, actor.ErrStopped) {
					t.Error(err)
				}
				if _, err := last.Wait(bg, actor.Within(time.Hour)); err != nil {
					t.Errorf("an actor whose Terminate fails: %v", err)
				}
			})
		})
	}
}

// badEnd has a Terminate that panics.
type badEnd struct{}

func (*badEnd) Receive(ctx *actor.Context[get], _ get) error {
	<-time.After(time.Second)
	return nil
}

func (*badEnd) Terminate(*actor.Context[get], error) { panic("at the end") }

func TestAHandlerThatStopsAndFailsEnds(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		ref := actor.SpawnFunc(k.System(), "a", func(ctx *actor.Context[int], _ int) error {
			ctx.Stop()
			return errBroken
		})
		k.Watch(ref)
		ref.Tell(k.Context(), 1)
		if down := actortest.ExpectDown(k, ref); down.Reason != actor.Failed || !errors.Is(down.Err, errBroken) {
			k.T().Errorf("it ended with %+v", down)
		}
		k.ExpectFailures(1)
	})
}

// lingers stops and fails, and tells in its Terminate what it finds there.
type lingers struct {
	panics  bool
	stashes error
	sender  actor.PID
}

func (l *lingers) Receive(ctx *actor.Context[any], _ any) error {
	ctx.Stop()
	if l.panics {
		panic("broken")
	}
	return errBroken
}

func (l *lingers) Terminate(ctx *actor.Context[any], _ error) {
	l.stashes, l.sender = ctx.Stash(), ctx.Sender()
}

func TestTerminateHasNotTheMessageWhoseHandlerStoppedAndFailed(t *testing.T) {
	for _, panics := range []bool{false, true} {
		actortest.Run(t, func(k *actortest.Kit) {
			l := &lingers{panics: panics}
			ref := actor.Spawn[any](k.System(), "a", func() *lingers { return l })
			sender := actor.SpawnFunc(k.System(), "sender", func(ctx *actor.Context[any], m any) error {
				ref.Tell(ctx, m)
				return nil
			})
			sender.Tell(k.Context(), 1)
			k.Settle()
			if l.stashes == nil || l.sender != (actor.PID{}) {
				k.T().Errorf("panics %v: Terminate stashes the message, with the error %v, of the sender %v", panics, l.stashes, l.sender)
			}
			k.ExpectFailures(1)
		})
	}
}

// The waits of the others end, as with any other failure after which the actor stops.
func TestAHandlerThatStopsAndFailsEndsAReentrantActor(t *testing.T) {
	for name, after := range map[string]error{"the other goes on": nil, "the other stops, too": actor.ErrStop} {
		t.Run(name, func(t *testing.T) {
			actortest.Run(t, func(k *actortest.Kit) {
				var waited error
				ref := actor.SpawnFunc(k.System(), "a", func(ctx *actor.Context[any], m any) error {
					if m == "wait" {
						waited = ctx.Sleep(time.Hour)
						return after
					}
					ctx.Stop()
					return errBroken
				}, actor.Reentrant())
				k.Watch(ref)
				ref.Tell(k.Context(), "wait")
				k.Settle()
				ref.Tell(k.Context(), "stop")
				if down := actortest.ExpectDown(k, ref); down.Reason != actor.Failed || !errors.Is(down.Err, errBroken) || k.Elapsed() > 0 {
					k.T().Errorf("it ended with %+v after %v", down, k.Elapsed())
				}
				if !errors.Is(waited, context.Canceled) {
					k.T().Errorf("the wait of the other ends with %v", waited)
				}
				k.ExpectFailures(1)
			})
		})
	}
}

// About the failure is decided first, and if the actor is resumed it stops.
func TestAReentrantActorThatFailsAndIsToldToStopIsDecidedAbout(t *testing.T) {
	for name, test := range map[string]struct {
		decide actor.Directive
		reason actor.Reason
	}{"stop": {actor.Stop, actor.Failed}, "resume": {actor.Resume, actor.Stopped}} {
		t.Run(name, func(t *testing.T) {
			actortest.Run(t, func(k *actortest.Kit) {
				h := newHeld()
				var child actor.Ref[any]
				parent := actor.SpawnFunc(k.System(), "parent", func(ctx *actor.Context[any], m any) error {
					if m, ok := m.(held); ok { // meanwhile it decides nothing
						m.enter()
						return nil
					}
					child = actor.SpawnFunc(ctx, "child", func(ctx *actor.Context[any], m any) error {
						if m == "wait" {
							_ = ctx.Sleep(time.Second)
							return actor.ErrStop
						}
						return errBroken
					}, actor.Reentrant())
					return nil
				}, always(test.decide))
				parent.Tell(k.Context(), 1)
				parent.Tell(k.Context(), h)
				<-h.entered
				k.Watch(child)
				child.Tell(k.Context(), "wait")
				child.Tell(k.Context(), "fail")
				k.Advance(2 * time.Second)
				close(h.release)
				k.Settle()
				k.ExpectFailures(1)
				if down := actortest.ExpectDown(k, child); down.Reason != test.reason {
					k.T().Errorf("it ended as %v", down.Reason)
				}
			})
		})
	}
}

func TestManyFailuresWithinTheWindowCostTheSame(t *testing.T) {
	cost := func(n int) time.Duration {
		began := time.Now()
		synctest.Test(t, func(t *testing.T) {
			sys := actortest.NewSystem(t, actor.Supervise(actor.OneForOne, actor.MaxRestarts(n+1, time.Hour),
				actor.Decide(func(error) actor.Directive { return actor.Restart })))
			ref := actor.SpawnFunc(sys, "a", func(*actor.Context[int], int) error { return errBroken })
			for range n {
				ref.Tell(bg, 1)
			}
			synctest.Wait()
			if failures := sys.Stats().Failures; failures != uint64(n) {
				t.Errorf("%d failures, want %d", failures, n)
			}
		})
		return time.Since(began) / time.Duration(n)
	}
	const few, many = 500, 10_000
	var ratio time.Duration
	for range 3 { // what looks at all of the window's failures costs ten times as much with many
		if ratio = cost(many) / max(cost(few), time.Nanosecond); ratio < 4 {
			return
		}
	}
	t.Errorf("a failure among %d costs %d times one among %d, want less than 4", many, ratio, few)
}

func TestReplyToAnotherRequestPanics(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		type numbered struct {
			actor.Returns[int]
			n int
			x float64
			s string
		}
		var stored *numbered
		ref := actor.SpawnFunc(k.System(), "a", func(ctx *actor.Context[numbered], m numbered) error {
			if stored == nil {
				stored = &m
				actor.Promise(ctx, m)
				return nil
			}
			if m.n > 2 {
				m.s = strings.Clone(m.s) // equal, and not the same
				actor.Reply(ctx, m, m.n)
				return nil
			}
			actor.Reply(ctx, *stored, 1)
			return nil
		})
		actortest.Ask(k, ref, numbered{n: 1})
		k.Settle()
		if _, err := actor.Ask(k.Context(), ref, numbered{n: 2}); err == nil || !strings.Contains(err.Error(), "not the request that is being handled") {
			k.T().Errorf("the asker of 2 got %v", err)
		}
		if n, err := actor.Ask(k.Context(), ref, numbered{n: 3, x: nan()}); n != 3 || err != nil {
			k.T().Errorf("with NaN in the request: %d, %v", n, err)
		}
		if n, err := actor.Ask(k.Context(), ref, numbered{n: 4, s: "four"}); n != 4 || err != nil {
			k.T().Errorf("with an equal request: %d, %v", n, err)
		}
		k.ExpectFailures(1)
	})
}

func nan() float64 { var zero float64; return zero / zero }
