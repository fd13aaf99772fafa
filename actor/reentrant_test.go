package actor_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/actortest"
)

// lookup is what a desk asks its backend for.
type lookup struct {
	actor.Returns[int]
	name string
}

func neverAnswers(ctx *actor.Context[lookup], m lookup) error {
	actor.Promise(ctx, m)
	return nil
}

func answersAtOnce(ctx *actor.Context[lookup], m lookup) error {
	actor.Reply(ctx, m, 1)
	return nil
}

// desk is a reentrant actor. It asks a backend, which the test plays, in the handler of each
// message whose name begins with a question mark.
type desk struct {
	k       *actortest.Kit
	ref     actor.Ref[string]
	backend *actortest.Probe[any]
	journal *actortest.Journal
	after   map[string]func(ctx *actor.Context[string]) error // what a handler does last, by message
}

func newDesk(k *actortest.Kit, opts ...actor.SpawnOption) *desk {
	d := &desk{
		k: k, backend: actortest.NewProbe[any](k), journal: actortest.NewJournal(k),
		after: make(map[string]func(*actor.Context[string]) error),
	}
	d.ref = actor.SpawnFunc(k.System(), "desk", d.receive, append(opts, actor.Reentrant())...)
	k.Watch(d.ref)
	return d
}

func (d *desk) receive(ctx *actor.Context[string], msg string) (err error) {
	d.journal.Addf("%s begins", msg)
	if strings.HasPrefix(msg, "?") {
		if _, err := actor.Ask(ctx, d.backend.Ref(), lookup{name: msg}); err != nil {
			d.journal.Addf("%s: canceled %t", msg, errors.Is(err, context.Canceled))
		}
	}
	if f := d.after[msg]; f != nil {
		err = f(ctx)
	}
	d.journal.Addf("%s ends", msg)
	return err
}

func (d *desk) tell(msgs ...string) {
	for _, msg := range msgs {
		d.ref.Tell(d.k.Context(), msg)
	}
	d.k.Settle()
}

// answer lets the handler of msg go on.
func (d *desk) answer(msg string) {
	actortest.Reply(d.backend, lookup{name: msg}, 1)
	d.k.Settle()
}

func TestAReentrantActorHandlesOthersWhileAHandlerWaits(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		d := newDesk(k)
		d.tell("?a", "b", "?c")
		d.journal.Expect("?a begins", "b begins", "b ends", "?c begins")
		if st, err := k.System().Detail(k.Context(), d.ref.PID()); err != nil || st.Waiting != 2 || !strings.HasPrefix(st.Waits.Path(), d.backend.Ref().PID().Path()) || st.Busy {
			k.T().Errorf("the tools see %+v, %v", st, err)
		}
		k.Settle() // the turn in which the tools looked
		if n, _ := d.ref.Backlog(); n != 2 {
			k.T().Errorf("backlog %d, want 2: the handlers under way", n)
		}
		d.answer("?c")
		d.tell("e")
		d.answer("?a")
		d.journal.Expect("?c ends", "e begins", "e ends", "?a ends")
	})
}

func TestReentrantActorsMayAskEachOtherAndThemselves(t *testing.T) {
	type visit struct {
		actor.Returns[int]
		route []int
	}
	actortest.Run(t, func(k *actortest.Kit) {
		var peers [2]actor.Ref[visit]
		for i, opts := range [][]actor.SpawnOption{{actor.Reentrant()}, nil} {
			peers[i] = actor.SpawnFunc(k.System(), "peer-*", func(ctx *actor.Context[visit], v visit) error {
				n := 0
				if len(v.route) > 0 {
					var err error
					if n, err = actor.Ask(ctx, peers[v.route[0]], visit{route: v.route[1:]}); err != nil {
						return err
					}
				}
				actor.Reply(ctx, v, n+1)
				return nil
			}, opts...)
		}
		for _, route := range [][]int{{0}, {1, 0}, {0, 1, 0, 0}} {
			if n := actortest.Ask(k, peers[0], visit{route: route}).Answer(); n != len(route)+1 {
				k.T().Errorf("by %v it went %d deep", route, n)
			}
		}
	})
}

func TestAHandlerHasItsOwnMessageAgainAfterAWait(t *testing.T) {
	type order struct {
		actor.Returns[string]
		name string
	}
	actortest.Run(t, func(k *actortest.Kit) {
		backend := actortest.NewProbe[any](k)
		ref := actor.SpawnFunc(k.System(), "", func(ctx *actor.Context[order], o order) error {
			before := ctx.Sender().String() + actor.HeaderOf(ctx)["of"]
			deadline, _ := ctx.Deadline()
			if _, err := actor.Ask(ctx, backend.Ref(), lookup{name: o.name}); err != nil {
				return err
			}
			now, _ := ctx.Deadline()
			if after := ctx.Sender().String() + actor.HeaderOf(ctx)["of"]; after != before || now != deadline {
				k.T().Errorf("%s has become %s", before, after)
			}
			actor.Reply(ctx, o, "for "+o.name)
			return nil
		}, actor.Reentrant())
		var calls []*actortest.Call[string]
		for i, name := range []string{"a", "b", "c"} {
			ctx, cancel := context.WithTimeout(k.Context(), time.Duration(i+1)*time.Minute)
			defer cancel()
			calls = append(calls, actortest.AskContext(ctx, k, ref, order{name: name}))
			k.Settle()
		}
		for _, name := range []string{"b", "c", "a"} {
			actortest.Reply(backend, lookup{name: name}, 1)
			k.Settle()
		}
		for i, want := range []string{"for a", "for b", "for c"} {
			if got := calls[i].Answer(); got != want {
				k.T().Errorf("got %q, want %q", got, want)
			}
		}
	})
}

func TestTheWaitOfAReentrantHandlerEndsWithItsAsker(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		backend := actortest.NewProbe[any](k)
		ref := actor.SpawnFunc(k.System(), "", func(ctx *actor.Context[lookup], m lookup) error {
			_, _ = actor.Ask(ctx, backend.Ref(), m)
			return nil
		}, actor.Reentrant())
		ctx, cancel := context.WithCancel(k.Context())
		first, second := actortest.AskContext(ctx, k, ref, lookup{name: "1"}), actortest.Ask(k, ref, lookup{name: "2"})
		k.Settle()
		cancel()
		k.Settle()
		if first.Pending() || !second.Pending() {
			k.T().Errorf("pending: %t and %t, want only the second one", first.Pending(), second.Pending())
		}
	})
}

func TestStopEndsTheWaitsOfAReentrantActor(t *testing.T) {
	for name, stop := range map[string]func(d *desk){
		"stop": func(d *desk) { d.ref.Stop() },
		"kill": func(d *desk) { d.ref.Kill() },
	} {
		t.Run(name, func(t *testing.T) {
			actortest.Run(t, func(k *actortest.Kit) {
				d := newDesk(k)
				d.tell("?a", "?b")
				stop(d)
				actortest.ExpectDown(k, d.ref)
				d.journal.Expect("?a begins", "?b begins", "?a: canceled true", "?a ends", "?b: canceled true", "?b ends")
			})
		})
	}
}

func TestDrainLetsTheHandlersUnderWayEnd(t *testing.T) {
	for name, stop := range map[string]func(d *desk){
		"drain": func(d *desk) { d.ref.Drain() },
		"ErrStop": func(d *desk) {
			d.after["last"] = func(*actor.Context[string]) error { return actor.ErrStop }
			d.tell("last")
		},
		"Context.Stop": func(d *desk) {
			d.after["last"] = func(ctx *actor.Context[string]) error { ctx.Stop(); return nil }
			d.tell("last")
		},
	} {
		t.Run(name, func(t *testing.T) {
			actortest.Run(t, func(k *actortest.Kit) {
				d := newDesk(k)
				d.tell("?a", "?b")
				stop(d)
				d.tell("late")
				d.journal.All()
				d.answer("?b")
				if _, err := actor.Lookup[string](k.System(), d.ref.PID()); err != nil {
					k.T().Error("it has not waited for the first handler")
				}
				d.answer("?a")
				d.journal.Expect("?b ends", "?a ends")
				if down := actortest.ExpectDown(k, d.ref); down.Reason != actor.Stopped {
					k.T().Errorf("it ended by %s", down.Reason)
				}
				actortest.ExpectDeadLetter[string](k)
			})
		})
	}
}

func TestAFailureLetsTheOtherHandlersEndBeforeTheRestart(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		d := newDesk(k)
		d.after["fail"] = func(*actor.Context[string]) error { return errBroken }
		d.tell("?a", "fail", "b")
		d.journal.Expect("?a begins", "fail begins", "fail ends", "?a: canceled true", "?a ends", "b begins", "b ends")
		k.ExpectFailures(1)
	})
}

func TestSeveralFailuresOfAnIncarnationAreOneToTheSupervisor(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		k.AllowFailures()
		d := newDesk(k)
		fail := func(*actor.Context[string]) error { return errBroken }
		d.after["?a"], d.after["?b"], d.after["c"] = fail, fail, fail
		d.tell("?a", "?b", "c")
		d.tell("d")
		st, err := k.System().Detail(k.Context(), d.ref.PID())
		if err != nil || st.Restarts != 1 || len(st.Failures) != 3 {
			k.T().Errorf("%d restarts after %d failures, %v; want 1 after 3", st.Restarts, len(st.Failures), err)
		}
	})
}

func TestResumeLeavesTheOtherHandlersAlone(t *testing.T) {
	resume := actor.Supervise(actor.OneForOne, actor.Decide(func(error) actor.Directive { return actor.Resume }))
	actortest.Run(t, func(k *actortest.Kit) {
		d := newDesk(k)
		d.after["fail"] = func(*actor.Context[string]) error { return errBroken }
		d.tell("?a", "fail", "b")
		d.answer("?a")
		d.journal.Expect("?a begins", "fail begins", "fail ends", "b begins", "b ends", "?a ends")
		k.ExpectFailures(1)
	}, resume)
}

func TestChildrenAreSupervisedWhileHandlersWait(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		d := newDesk(k)
		d.after["spawn"] = func(ctx *actor.Context[string]) error {
			actor.Spawn(ctx, "child", newCounter)
			return nil
		}
		d.tell("spawn", "?a")
		child, err := actor.LookupPath[counterMsg](k.System(), "/desk/child")
		if err != nil {
			k.T().Fatal(err)
		}
		child.Tell(k.Context(), fail{errBroken})
		if n := actortest.Ask(k, child, get{}).Answer(); n != 0 || k.Elapsed() != 0 {
			k.T().Errorf("the child has %d after %v", n, k.Elapsed())
		}
		k.ExpectFailures(1)
		d.answer("?a")
	})
}

func TestOnlySoManyHandlersOfAnActorWait(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		const most = 1000 // docs/limits.md
		begun := 0
		open := make(chan struct{})
		ref := actor.SpawnFunc(k.System(), "", func(ctx *actor.Context[int], n int) error {
			if begun++; n < 0 {
				close(open)
				return nil
			}
			return ctx.Sleep(time.Duration(n+1) * time.Second)
		}, actor.Reentrant())
		for n := range most {
			ref.Tell(k.Context(), n)
		}
		ref.Tell(k.Context(), -1)
		k.Settle()
		if begun != most {
			k.T().Errorf("%d handlers began, want %d", begun, most)
		}
		k.Advance(time.Second)
		<-open
		k.Advance(most * time.Second)
	})
}

func TestAHandlerThatWaitsAgainAndAgainDoesNotKeepTheMailAway(t *testing.T) {
	sys := actortest.NewSystem(t)
	server := actor.SpawnFunc(sys, "", answersAtOnce)
	done := make(chan struct{})
	over := false
	ref := actor.SpawnFunc(sys, "", func(ctx *actor.Context[string], msg string) error {
		if msg == "end" {
			over = true
			return nil
		}
		for !over {
			if _, err := actor.Ask(ctx, server, lookup{}); err != nil {
				return err
			}
		}
		close(done)
		return nil
	}, actor.Reentrant())
	ref.Tell(bg, "begin")
	ref.Tell(bg, "end")
	<-done
}

func TestAKilledReentrantActorIsNotTakenFromAHandlerWhileOthersWait(t *testing.T) {
	sys := actortest.NewSystem(t)
	silent := actor.SpawnFunc(sys, "", neverAnswers)
	h := newHeld()
	returned := make(chan struct{})
	ref := actor.SpawnFunc(sys, "", func(ctx *actor.Context[string], msg string) error {
		if msg == "wait" {
			_, err := actor.Ask(ctx, silent, lookup{})
			close(returned)
			return err
		}
		close(h.entered)
		<-h.release
		return nil
	}, actor.Reentrant())
	down := ended(t, sys, ref)
	ref.Tell(bg, "wait")
	ref.Tell(bg, "cling")
	<-h.entered
	ref.Kill()
	close(h.release)
	down()
	<-returned
}

func TestReentrantActorsAreOfThePool(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		for _, home := range []actor.SpawnOption{actor.Pinned(), actor.Inline()} {
			_, err := actor.TrySpawn(k.System(), "x", newCounter, home, actor.Reentrant())
			if err == nil || !strings.Contains(err.Error(), "cannot be Reentrant") {
				k.T().Errorf("spawn: %v", err)
			}
		}
	})
}

func TestAPromiseMadeBeforeAWaitIsKeptAfterIt(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		backend := actortest.NewProbe[any](k)
		var promised *actor.Promised[int]
		ref := actor.SpawnFunc(k.System(), "", func(ctx *actor.Context[lookup], m lookup) error {
			if m.name == "first" {
				promised = actor.Promise(ctx, m)
				_, err := actor.Ask(ctx, backend.Ref(), m)
				return err
			}
			actor.Reply(ctx, m, 2)
			return nil
		}, actor.Reentrant())
		first := actortest.Ask(k, ref, lookup{name: "first"})
		k.Settle()
		if n := actortest.Ask(k, ref, lookup{name: "second"}).Answer(); n != 2 {
			k.T().Errorf("the second got %d", n)
		}
		actortest.Reply(backend, lookup{name: "first"}, 1)
		k.Settle()
		if !first.Pending() {
			k.T().Fatalf("the first ask ended with %v before the promise was kept", first.Err())
		}
		promised.Resolve(3)
		if n := first.Answer(); n != 3 {
			k.T().Errorf("the first got %d", n)
		}
	})
}

func TestADrainOutlivesTheFailureOfAHandlerUnderWay(t *testing.T) {
	for name, stop := range map[string]func(d *desk){
		"drain":        func(d *desk) { d.ref.Drain() },
		"ErrStop":      func(d *desk) { d.tell("ErrStop") },
		"Context.Stop": func(d *desk) { d.tell("Context.Stop") },
	} {
		t.Run(name, func(t *testing.T) {
			actortest.Run(t, func(k *actortest.Kit) {
				d := newDesk(k)
				d.after["?a"] = func(*actor.Context[string]) error { return errBroken }
				d.after["ErrStop"] = func(*actor.Context[string]) error { return actor.ErrStop }
				d.after["Context.Stop"] = func(ctx *actor.Context[string]) error { ctx.Stop(); return nil }
				d.tell("?a")
				stop(d)
				d.answer("?a")
				if down := actortest.ExpectDown(k, d.ref); down.Reason != actor.Stopped {
					k.T().Errorf("it ended by %s", down.Reason)
				}
				k.ExpectFailures(1)
			})
		})
	}
}

func TestTheWishOfAFailedHandlerToStopIsForgotten(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		d := newDesk(k)
		d.after["?a"] = func(ctx *actor.Context[string]) error { ctx.Stop(); return errBroken }
		d.after["fail"] = func(*actor.Context[string]) error { return errBroken }
		d.tell("?a", "fail", "b", "c")
		d.journal.Expect("?a begins", "fail begins", "fail ends", "?a: canceled true", "?a ends", "b begins", "b ends", "c begins", "c ends")
		k.ExpectFailures(2)
	})
}

func TestAPermanentReentrantActorIsRestartedOnceForAFailureAndAStop(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		d := newDesk(k, actor.Permanent)
		d.after["?a"] = func(*actor.Context[string]) error { return actor.ErrStop }
		d.after["fail"] = func(*actor.Context[string]) error { return errBroken }
		d.tell("?a", "fail", "?b", "?c")
		d.journal.All()
		d.answer("?c")
		d.answer("?b")
		d.journal.Expect("?c ends", "?b ends")
		if st, err := k.System().Detail(k.Context(), d.ref.PID()); err != nil || st.Restarts != 1 {
			k.T().Errorf("%d restarts, %v; want 1", st.Restarts, err)
		}
		k.ExpectFailures(1)
	})
}

func TestTheFunctionThatMakesAMessageOfAnOutcomeMayWait(t *testing.T) {
	for name, opts := range map[string][]actor.SpawnOption{"reentrant": {actor.Reentrant()}, "not reentrant": nil} {
		t.Run(name, func(t *testing.T) {
			actortest.Run(t, func(k *actortest.Kit) {
				journal := actortest.NewJournal(k)
				ref := actor.SpawnFunc(k.System(), "", func(ctx *actor.Context[string], msg string) error {
					if msg == "begin" {
						actor.Pipe(ctx, func(context.Context) (int, error) { return 1, nil }, func(int, error) string {
							_ = ctx.Sleep(time.Second)
							return "outcome"
						})
						return nil
					}
					journal.Addf("%s", msg)
					return nil
				}, opts...)
				ref.Tell(k.Context(), "begin")
				k.Settle()
				ref.Tell(k.Context(), "other")
				k.Advance(time.Second)
				got := journal.All()
				slices.Sort(got)
				if !slices.Equal(got, []string{"other", "outcome"}) {
					k.T().Errorf("it got %q", got)
				}
			})
		})
	}
}

func TestAGroupRestartOfReentrantActorsCountsOneFailure(t *testing.T) {
	for name, strategy := range map[string]actor.Strategy{"all": actor.AllForOne, "rest": actor.RestForOne} {
		t.Run(name, func(t *testing.T) {
			actortest.Run(t, func(k *actortest.Kit) {
				var refs []actor.Ref[string]
				for range 3 {
					refs = append(refs, actor.SpawnFunc(k.System(), "member-*", func(ctx *actor.Context[string], msg string) error {
						switch msg {
						case "fail":
							return errBroken
						case "check":
							return ctx.Err()
						}
						return ctx.Sleep(time.Hour)
					}, actor.Reentrant()))
				}
				tellAll := func(msg string) {
					for _, ref := range refs {
						ref.Tell(k.Context(), msg)
					}
					k.Settle()
				}
				tellAll("wait")
				tellAll("wait")
				refs[0].Tell(k.Context(), "fail")
				k.Settle()
				tellAll("check")
				if st := k.System().Stats(); st.Failures != 1 || st.Restarts != 3 || st.Waiting != 0 {
					k.T().Errorf("%d failures, %d restarts and %d that wait; want 1, 3 and 0", st.Failures, st.Restarts, st.Waiting)
				}
				k.ExpectFailures(1)
			}, actor.Supervise(strategy))
		})
	}
}

func TestAStopMeetsAHandlerThatMayNotWait(t *testing.T) {
	sys := actortest.NewSystem(t, actor.WithMaxWaiting(1))
	silent := actor.SpawnFunc(sys, "", neverAnswers)
	waits := make(chan struct{})
	waiting := actor.SpawnFunc(sys, "", func(ctx *actor.Context[lookup], _ lookup) error {
		close(waits)
		_, err := actor.Ask(ctx, silent, lookup{}, actor.Within(time.Hour)) // longer than the rest of the test
		return err
	})
	defer waiting.Stop()
	waiting.Tell(bg, lookup{})
	<-waits
	for sys.Stats().Waiting == 0 {
		runtime.Gosched()
	}
	for range 200 {
		refused := make(chan struct{}, 1)
		ref := actor.SpawnFunc(sys, "", func(ctx *actor.Context[int], _ int) error {
			for ctx.Err() == nil {
				_, _ = actor.Ask(ctx, silent, lookup{})
				select {
				case refused <- struct{}{}:
				default:
				}
			}
			return nil
		})
		ref.Tell(bg, 1)
		<-refused
		ref.Stop()
	}
}

func TestDrainLetsAHandlerWaitMoreThanOnce(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		d := newDesk(k)
		d.after["?a"] = func(ctx *actor.Context[string]) error {
			d.journal.Addf("slept: %v", ctx.Sleep(time.Second))
			return nil
		}
		d.tell("?a")
		d.ref.Drain()
		k.Settle()
		d.answer("?a")
		k.Advance(time.Second)
		d.journal.Expect("?a begins", "slept: <nil>", "?a ends")
		actortest.ExpectDown(k, d.ref)
	})
}

func TestAStopOfAPermanentReentrantActorCountsWhateverItsHandlersWish(t *testing.T) {
	for name, stop := range map[string]func(d *desk){
		"stop": func(d *desk) { d.ref.Stop() },
		"kill": func(d *desk) { d.ref.Kill() },
	} {
		t.Run(name, func(t *testing.T) {
			actortest.Run(t, func(k *actortest.Kit) {
				d := newDesk(k, actor.Permanent)
				d.after["child"] = func(ctx *actor.Context[string]) error {
					actor.Spawn(ctx, "", newCounter)
					return nil
				}
				waits := func(ctx *actor.Context[string]) error {
					_ = ctx.Sleep(time.Second)
					if _, err := actor.Ask(ctx, d.backend.Ref(), lookup{}); err == nil {
						k.T().Error("the wait has not been cut short")
					}
					return actor.ErrStop
				}
				d.after["a"], d.after["b"] = waits, waits
				d.tell("child", "a", "b")
				k.Advance(time.Second)
				stop(d)
				actortest.ExpectDown(k, d.ref)
			})
		})
	}
}

// asksAtItsEnd is a reentrant actor that asks in Terminate.
type asksAtItsEnd struct {
	silent, server actor.Ref[lookup]
	errs           chan error
}

func (a *asksAtItsEnd) Receive(ctx *actor.Context[string], msg string) error {
	if msg == "fail" {
		return errBroken
	}
	_, err := actor.Ask(ctx, a.silent, lookup{})
	return err
}

func (a *asksAtItsEnd) Terminate(ctx *actor.Context[string], _ error) {
	_, err := actor.Ask(ctx, a.server, lookup{})
	a.errs <- err
}

func TestTerminateMayAskAfterARestartThatHasCutWaitsShort(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		errs := make(chan error, 2)
		silent := actor.SpawnFunc(k.System(), "", neverAnswers)
		server := actor.SpawnFunc(k.System(), "", answersAtOnce)
		ref := actor.Spawn(k.System(), "", func() *asksAtItsEnd { return &asksAtItsEnd{silent, server, errs} }, actor.Reentrant())
		ref.Tell(k.Context(), "wait")
		ref.Tell(k.Context(), "fail")
		k.Settle()
		if err := <-errs; err != nil {
			k.T().Error(err)
		}
		k.ExpectFailures(1)
	})
}
