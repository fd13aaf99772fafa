package actor_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/actortest"
)

// Regressions: each of these was found by a review or by a neighbor package's tests, and
// failed before its fix.

func TestStopAndKillTogetherEndAnActorOnce(t *testing.T) {
	for name, opt := range map[string]actor.SpawnOption{"pool": actor.Weight(1), "pinned": actor.Pinned()} {
		t.Run(name, func(t *testing.T) {
			actortest.Run(t, func(k *actortest.Kit) {
				log := actortest.NewJournal(k)
				ref := actor.Spawn(k.System(), "c", func() *counter { return &counter{log: log} }, opt)
				h := newHold()
				ref.Tell(k.Context(), h)
				k.Settle()
				ref.Stop()
				ref.Kill()
				ref.Stop()
				close(h.release)
				actortest.ExpectDown(k, ref)
				if _, err := k.System().Shutdown(k.Context()); err != nil {
					k.T().Error(err)
				}
				log.Expect("init /c") // the order to kill was there when it began to end
			})
		})
	}
}

func TestHandlerSeesThatItWasToldToStop(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		entered := make(chan struct{})
		ref := actor.SpawnFunc(k.System(), "", func(ctx *actor.Context[int], _ int) error {
			close(entered)
			for ctx.Err() == nil { // it has asked for no Done channel before
				runtime.Gosched()
			}
			<-ctx.Done()
			return nil
		})
		k.Watch(ref)
		ref.Tell(k.Context(), 1)
		<-entered
		ref.Stop()
		actortest.ExpectDown(k, ref)
	})
}

func TestShutdownDuringAGroupRestartHandlesWhatIsQueued(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		_, find := startGroup(k, []actor.SpawnOption{actor.Supervise(actor.AllForOne, actor.Backoff(time.Hour, time.Hour))}, abc(actor.Transient)...)
		b := find("b")
		find("a").Tell(k.Context(), errBroken)
		k.Settle()
		answer := make(chan int, 1)
		go func() {
			n, err := actor.Ask(k.Context(), b, play{})
			if err != nil {
				k.T().Error(err)
			}
			answer <- n
		}()
		k.Settle()
		if _, err := k.System().Shutdown(k.Context()); err != nil {
			k.T().Error(err)
		}
		if n := <-answer; n != 1 {
			k.T().Errorf("got %d", n)
		}
		k.ExpectFailures(1)
	})
}

func TestChildThatEndsAsAGroupRestartBeginsDoesNotHoldItUp(t *testing.T) {
	for range 50 {
		actortest.Run(t, func(k *actortest.Kit) {
			var children []member
			for i := range 20 {
				children = append(children, member{name: fmt.Sprint("c", i)})
			}
			_, find := startGroup(k, []actor.SpawnOption{actor.Supervise(actor.AllForOne, actor.MaxRestarts(1000, time.Minute))}, children...)
			first := find("c0")
			var rest []actor.Ref[any]
			for i := 1; i < 20; i++ {
				rest = append(rest, find(fmt.Sprint("c", i)))
			}
			first.Tell(k.Context(), errBroken)
			for _, r := range rest {
				r.Stop()
			}
			actortest.Ask(k, first, play{}).Answer()
			k.ExpectFailures(1)
		})
	}
}

func TestFailureBesideAGroupRestartIsNotForgottenWhenItBeginsAnew(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		children := abc(actor.Transient)
		inInit, goOn := make(chan struct{}), make(chan struct{})
		children[1].failInit = func(n int) bool {
			if n != 2 {
				return false
			}
			close(inInit)
			<-goOn
			return true
		}
		_, find := startGroup(k, []actor.SpawnOption{actor.Supervise(actor.RestForOne)}, children...)
		a, b := find("a"), find("b")
		b.Tell(k.Context(), errBroken)
		<-inInit
		a.Tell(k.Context(), errBroken) // not of b's group
		k.Settle()
		close(goOn)
		for _, ref := range []actor.Ref[any]{a, b, find("c")} {
			actortest.Ask(k, ref, play{}).Answer()
		}
		k.ExpectFailures(3)
	})
}

func TestResumeAfterAnEscalationResumesTheChildToo(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		log := actortest.NewJournal(k)
		actor.Spawn(k.System(), "parent", func() *groupParent { return &groupParent{log, abc(actor.Transient)} },
			actor.Supervise(actor.OneForOne, actor.Decide(func(error) actor.Directive { return actor.Escalate })))
		a, err := actor.LookupPath[any](k.System(), "/parent/a")
		if err != nil {
			k.T().Fatal(err)
		}
		actortest.Ask(k, a, play{}).Answer()
		a.Tell(k.Context(), errBroken)
		if n := actortest.Ask(k, a, play{}).Answer(); n != 2 {
			k.T().Errorf("got %d, want the state as it was", n)
		}
		k.ExpectFailures(2)
	}, actor.Supervise(actor.OneForOne, actor.Decide(func(error) actor.Directive { return actor.Resume })))
}

func TestResumeOfAFailingInitCountsAsARestart(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		tries := 0
		ref := actor.Spawn(k.System(), "", func() *initFails { tries++; return &initFails{err: errBroken, fail: true} })
		actortest.ExpectDown(k, ref)
		if tries != 4 {
			k.T().Errorf("%d tries, want 4", tries)
		}
		k.ExpectFailures(4)
	}, actor.Supervise(actor.OneForOne, actor.MaxRestarts(3, time.Minute), actor.Decide(func(error) actor.Directive { return actor.Resume })))
}

func TestContextOfAnAskThatComesBackToItsAskerDoesNotLock(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		var a, b actor.Ref[any]
		seen := make(chan error, 1)
		a = actor.SpawnFunc(k.System(), "a", func(ctx *actor.Context[any], m any) error {
			if _, ok := m.(get); ok {
				<-ctx.Done() // its asker, this very actor, has given up
				seen <- ctx.Err()
				return nil
			}
			_, err := actor.Ask(ctx, b, get{})
			if !errors.Is(err, context.DeadlineExceeded) {
				k.T().Errorf("the ask ended with %v", err)
			}
			return nil
		})
		// Behind a reference that may choose anybody nobody sees that the ask is to come back.
		back, err := actor.Routed(k.System(), a.PID(), func(_ any, to func(actor.Ref[any])) { to(a) })
		if err != nil {
			k.T().Fatal(err)
		}
		b = actor.SpawnFunc(k.System(), "b", func(ctx *actor.Context[any], _ any) error { return actor.Forward(ctx, back) })
		a.Tell(k.Context(), "go")
		if err := <-seen; !errors.Is(err, context.DeadlineExceeded) {
			k.T().Errorf("the handler's context ended with %v", err)
		}
	})
}

func TestAskNeverEndsWithoutAnswerAndWithoutError(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		release := make(chan struct{})
		slow := actor.SpawnFunc(k.System(), "", func(ctx *actor.Context[echo], m echo) error {
			<-release
			actor.Reply(ctx, m, 42)
			return nil
		})
		type out struct {
			n   int
			err error
		}
		got := make(chan out, 1)
		ref := actor.SpawnFunc(k.System(), "", func(ctx *actor.Context[get], m get) error {
			p := actor.Promise(ctx, m)
			derived, cancel := context.WithCancel(ctx)
			began := make(chan struct{})
			go func() {
				defer cancel()
				close(began)
				n, err := actor.Ask(derived, slow, echo{})
				got <- out{n, err}
				p.Resolve(n)
			}()
			<-began
			return nil // and the derived context ends
		})
		go func() { _, _ = actor.Ask(k.Context(), ref, get{}) }()
		o := <-got
		close(release)
		if o.err == nil && o.n != 42 {
			k.T().Errorf("got %d and no error", o.n)
		}
	})
}

func TestLinkWithTheRootAndAPanickingDeciderAreNoDisaster(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		p := actortest.NewProbe[any](k)
		k.Watch(p.Ref())
		actortest.Do(p, func(ctx *actor.Context[any]) error { ctx.Link(ctx.Parent()); return nil })
		if d := actortest.ExpectDown(k, p.Ref()); !errors.Is(d.Err, actor.ErrLinked) {
			k.T().Errorf("got %+v", d)
		}
		actortest.Ask(k, actor.Spawn(k.System(), "", newCounter), get{}).Answer()
		k.ExpectFailures(1)
	}, actor.Supervise(actor.OneForOne, actor.Decide(func(error) actor.Directive { panic("undecided") })))
}

// exits ends its goroutine in the callbacks that are set.
type exits struct{ init, terminate *bool }

func (e *exits) Init(*actor.Context[get]) error {
	if *e.init {
		*e.init = false
		runtime.Goexit()
	}
	return nil
}

func (e *exits) Receive(ctx *actor.Context[get], m get) error { actor.Reply(ctx, m, 1); return nil }

func (e *exits) Terminate(*actor.Context[get], error) {
	if *e.terminate {
		*e.terminate = false
		runtime.Goexit()
	}
}

func TestGoexitInInitAndTerminateLosesNoActor(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		sys := k.System()
		yes, no := true, false
		refs := make(chan struct{})
		go func() { // Init ends the spawner's goroutine
			defer close(refs)
			actor.Spawn(sys, "a", func() *exits { return &exits{&yes, &no} })
		}()
		<-refs
		a, err := actor.LookupPath[get](sys, "/a")
		if err != nil {
			k.T().Fatal(err)
		}
		actortest.Ask(k, a, get{}).Answer() // the supervisor has restarted it

		yes2 := true
		b := actor.Spawn(sys, "b", func() *exits { return &exits{&no, &yes2} })
		k.Watch(b)
		b.Stop()
		if d := actortest.ExpectDown(k, b); d.Reason != actor.Stopped {
			k.T().Errorf("got %v", d.Reason)
		}
		k.ExpectFailures(2)
	})
}

func TestAskAtAFullBlockingMailboxEndsInTime(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		entered, release := make(chan struct{}), make(chan struct{})
		ref := actor.SpawnFunc(k.System(), "", func(*actor.Context[any], any) error {
			close(entered)
			<-release
			return actor.ErrStop
		}, actor.Bounded(1, actor.Block))
		ref.Tell(k.Context(), 1)
		<-entered
		ref.Tell(k.Context(), 2)
		_, err := actor.Ask(k.Context(), ref, get{})
		if !errors.Is(err, actor.ErrMailboxFull) || !errors.Is(err, context.DeadlineExceeded) || k.Elapsed() != 5*time.Second {
			k.T().Errorf("got %v after %v", err, k.Elapsed())
		}
		close(release)
	})
}

func TestDrainOfARankedMailboxEndsUnderLoad(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		var ref actor.Ref[int]
		handled := 0
		ref = actor.SpawnFunc(k.System(), "", func(ctx *actor.Context[int], n int) error {
			handled++
			ref.Tell(ctx, n+1) // there is always something more urgent than to stop
			return nil
		}, actor.Priority(func(n int) int { return n }))
		k.Watch(ref)
		ref.Tell(k.Context(), 1)
		ref.Drain()
		if d := actortest.ExpectDown(k, ref); d.Reason != actor.Stopped || handled == 0 {
			k.T().Errorf("%v after %d", d.Reason, handled)
		}
	})
}

func TestStopInInitNeedsNoMessage(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		ref := actor.Spawn(k.System(), "", func() *shortLived { return &shortLived{} })
		if d := actortest.ExpectDown(k, ref); d.Reason != actor.Stopped && d.Reason != actor.NoActor {
			k.T().Errorf("got %v", d.Reason)
		}
	})
}

type shortLived struct{}

func (*shortLived) Init(ctx *actor.Context[int]) error     { ctx.Stop(); return nil }
func (*shortLived) Receive(*actor.Context[int], int) error { return nil }

func TestSilenceBeginsWhenTheHandlerReturns(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		log := actortest.NewJournal(k)
		actor.SpawnFunc(k.System(), "", func(ctx *actor.Context[string], m string) error {
			log.Addf("%s at %v", m, k.Elapsed())
			switch m {
			case "on":
				ctx.SetReceiveTimeout(10*time.Second, "idle")
				return ctx.Sleep(30 * time.Second)
			case "idle":
				ctx.SetReceiveTimeout(0, "")
			}
			return nil
		}).Tell(k.Context(), "on")
		k.Advance(time.Hour)
		log.Expect("on at 0s", "idle at 40s")
	})
}

func TestShutdownWaitsForPipedWork(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) { // the bubble fails if a goroutine is left
		actor.SpawnFunc(k.System(), "", func(ctx *actor.Context[int], _ int) error {
			actor.Pipe(ctx, func(ctx context.Context) (int, error) {
				<-ctx.Done()
				time.Sleep(time.Second) // it takes its time to end
				return 0, nil
			}, func(n int, _ error) int { return n })
			return nil
		}).Tell(k.Context(), 1)
		k.Settle()
		if _, err := k.System().Shutdown(k.Context()); err != nil || k.Elapsed() != time.Second {
			k.T().Errorf("%v after %v", err, k.Elapsed())
		}
	})
}

func TestSubscribersThatStoppedAreForgotten(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		ends := actortest.Events[actor.ActorStopped](k)
		for range 10 {
			p := actortest.Events[actor.DeadLetter](k)
			p.Ref().Stop()
			if end := ends.Next(); end.PID != p.Ref().PID() {
				k.T().Errorf("the end of %s was published, want that of %s", end.PID, p.Ref())
			}
		}
		ends.ExpectNone()
	})
}

// Found by package sim, seed 0x8a4605e870407ca1 of its engine test.
func TestAHandlerThatUnstashesStillHasItsMessage(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		got := make(chan int, 4)
		to := actor.SpawnFunc(k.System(), "to", func(_ *actor.Context[int], n int) error {
			got <- n
			return nil
		})
		ref := actor.SpawnFunc(k.System(), "a", func(ctx *actor.Context[int], n int) error {
			if n == 1 {
				return ctx.Stash()
			}
			ctx.Unstash()
			if n == 2 {
				ctx.Become(func(ctx *actor.Context[int], _ int) error { return actor.Forward(ctx, to) })
				return actor.Forward(ctx, to)
			}
			return nil
		})
		ref.Tell(k.Context(), 1)
		ref.Tell(k.Context(), 2)
		for _, want := range []int{2, 1} {
			if n := <-got; n != want {
				k.T().Errorf("forwarded %d, want %d", n, want)
			}
		}
	})
}

// Found by package sim, seed 0xf91622cec2c0d50a of its engine test.
func TestAnAskOfAnActorThatIsToldToStopWhileItAnswersFails(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		server := actor.Spawn(k.System(), "", newCounter)
		got := make(chan error, 1)
		ref := actor.SpawnFunc(k.System(), "", func(ctx *actor.Context[get], _ get) error {
			_ = ctx.Done() // the context of the request is there before the order to stop is
			ctx.Self().Stop()
			_, err := actor.Ask(ctx, server, get{})
			got <- err
			return nil
		})
		_, _ = actor.Ask(k.Context(), ref, get{})
		if err := <-got; !errors.Is(err, context.Canceled) {
			k.T().Errorf("got %v, want context.Canceled", err)
		}
	})
}
