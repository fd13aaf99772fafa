package actor_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-go/greenroom/actor"
)

// Regressions: each of these was found by a review or by a neighbor package's tests, and
// failed before its fix.

// script is an actor that does what it is told, for tests that need odd handlers.
type script = func(ctx *actor.Context[any]) error

func playScript(ctx *actor.Context[any], m any) error {
	if f, ok := m.(script); ok {
		return f(ctx)
	}
	return nil
}

func TestStopAndKillTogetherEndAnActorOnce(t *testing.T) {
	for _, opt := range []actor.SpawnOption{actor.Weight(1), actor.Pinned()} {
		sys := newSystem(t)
		log := new(journal)
		ref := actor.Spawn(sys, "c", func() *counter { return &counter{log: log} }, opt)
		down := ended(t, sys, ref)
		h := newHold()
		ref.Tell(bg, h)
		<-h.entered
		ref.Stop()
		ref.Kill()
		ref.Stop()
		close(h.release)
		down()
		if _, err := sys.Shutdown(bg); err != nil {
			t.Error(err)
		}
		log.expect(t, "init /c") // the order to kill was there when it began to end
	}
}

func TestHandlerSeesThatItWasToldToStop(t *testing.T) {
	sys := newSystem(t)
	entered := make(chan struct{})
	ref := actor.SpawnFunc(sys, "", func(ctx *actor.Context[int], _ int) error {
		close(entered)
		for ctx.Err() == nil { // it has asked for no Done channel before
			runtime.Gosched()
		}
		<-ctx.Done()
		return nil
	})
	down := ended(t, sys, ref)
	ref.Tell(bg, 1)
	<-entered
	ref.Stop()
	down()
}

func TestShutdownDuringAGroupRestartHandlesWhatIsQueued(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys, log, find := stageTroupe(t, []actor.SpawnOption{actor.Supervise(actor.AllForOne, actor.Backoff(time.Hour, time.Hour))}, abc(actor.Transient)...)
		b := find("b")
		find("a").Tell(bg, errBroken)
		settled(log)
		answer := make(chan int, 1)
		go func() {
			n, err := actor.Ask(bg, b, play{})
			if err != nil {
				t.Error(err)
			}
			answer <- n
		}()
		synctest.Wait()
		if _, err := sys.Shutdown(bg); err != nil {
			t.Error(err)
		}
		if n := <-answer; n != 1 {
			t.Errorf("got %d", n)
		}
	})
}

func TestChildThatEndsAsAGroupRestartBeginsDoesNotHoldItUp(t *testing.T) {
	for range 50 {
		var children []member
		for i := range 20 {
			children = append(children, member{name: fmt.Sprint("c", i)})
		}
		_, _, find := stageTroupe(t, []actor.SpawnOption{actor.Supervise(actor.AllForOne, actor.MaxRestarts(1000, time.Minute))}, children...)
		first := find("c0")
		var rest []actor.Ref[any]
		for i := 1; i < 20; i++ {
			rest = append(rest, find(fmt.Sprint("c", i)))
		}
		first.Tell(bg, errBroken)
		for _, r := range rest {
			r.Stop()
		}
		mustAsk(t, first, play{})
	}
}

func TestFailureBesideAGroupRestartIsNotForgottenWhenItBeginsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
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
		_, _, find := stageTroupe(t, []actor.SpawnOption{actor.Supervise(actor.RestForOne)}, children...)
		a, b := find("a"), find("b")
		b.Tell(bg, errBroken)
		<-inInit
		a.Tell(bg, errBroken) // not of b's group
		synctest.Wait()
		close(goOn)
		for _, ref := range []actor.Ref[any]{a, b, find("c")} {
			mustAsk(t, ref, play{})
		}
	})
}

func TestResumeAfterAnEscalationResumesTheChildToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := newSystem(t, actor.Supervise(actor.OneForOne, actor.Decide(func(error) actor.Directive { return actor.Resume })))
		log := new(journal)
		actor.Spawn(sys, "troupe", func() *troupe { return &troupe{log, abc(actor.Transient)} },
			actor.Supervise(actor.OneForOne, actor.Decide(func(error) actor.Directive { return actor.Escalate })))
		a, err := actor.LookupPath[any](sys, "/troupe/a")
		if err != nil {
			t.Fatal(err)
		}
		mustAsk(t, a, play{})
		a.Tell(bg, errBroken)
		if n := mustAsk(t, a, play{}); n != 2 {
			t.Errorf("got %d, want the state as it was", n)
		}
	})
}

func TestResumeOfAFailingInitCountsAsARestart(t *testing.T) {
	sys := newSystem(t, actor.Supervise(actor.OneForOne, actor.MaxRestarts(3, time.Minute), actor.Decide(func(error) actor.Directive { return actor.Resume })))
	tries := 0
	ref := actor.Spawn(sys, "", func() *initFails { tries++; return &initFails{err: errBroken, fail: true} })
	ended(t, sys, ref)()
	if tries != 4 {
		t.Errorf("%d tries, want 4", tries)
	}
}

func TestContextOfAnAskThatComesBackToItsAskerDoesNotLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := newSystem(t)
		var a, b actor.Ref[any]
		seen := make(chan error, 1)
		a = actor.SpawnFunc(sys, "a", func(ctx *actor.Context[any], m any) error {
			if _, ok := m.(get); ok {
				<-ctx.Done() // its asker, this very actor, has given up
				seen <- ctx.Err()
				return nil
			}
			_, err := actor.Ask(ctx, b, get{})
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("the ask ended with %v", err)
			}
			return nil
		})
		b = actor.SpawnFunc(sys, "b", func(ctx *actor.Context[any], _ any) error { return actor.Forward(ctx, a) })
		a.Tell(bg, "go")
		if err := <-seen; !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the handler's context ended with %v", err)
		}
	})
}

func TestAskNeverEndsWithoutAnswerAndWithoutError(t *testing.T) {
	sys := newSystem(t)
	release := make(chan struct{})
	slow := actor.SpawnFunc(sys, "", func(ctx *actor.Context[echo], m echo) error {
		<-release
		actor.Reply(ctx, m, 42)
		return nil
	})
	type out struct {
		n   int
		err error
	}
	got := make(chan out, 1)
	ref := actor.SpawnFunc(sys, "", func(ctx *actor.Context[get], m get) error {
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
	go func() { _, _ = actor.Ask(bg, ref, get{}) }()
	o := <-got
	close(release)
	if o.err == nil && o.n != 42 {
		t.Errorf("got %d and no error", o.n)
	}
}

func TestLinkWithTheRootAndAPanickingDeciderAreNoDisaster(t *testing.T) {
	sys := newSystem(t, actor.Supervise(actor.OneForOne, actor.Decide(func(error) actor.Directive { panic("undecided") })))
	ref := actor.SpawnFunc(sys, "", playScript)
	down := ended(t, sys, ref)
	ref.Tell(bg, func(ctx *actor.Context[any]) error { ctx.Link(ctx.Parent()); return nil })
	if d := down(); !errors.Is(d.Err, actor.ErrLinked) {
		t.Errorf("got %+v", d)
	}
	mustAsk(t, actor.Spawn(sys, "", newCounter), get{})
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
	sys := newSystem(t)
	yes, no := true, false
	refs := make(chan struct{})
	go func() { // Init ends the spawner's goroutine
		defer close(refs)
		actor.Spawn(sys, "a", func() *exits { return &exits{&yes, &no} })
	}()
	<-refs
	a, err := actor.LookupPath[get](sys, "/a")
	if err != nil {
		t.Fatal(err)
	}
	mustAsk(t, a, get{}) // the supervisor has restarted it

	yes2 := true
	b := actor.Spawn(sys, "b", func() *exits { return &exits{&no, &yes2} })
	down := ended(t, sys, b)
	b.Stop()
	if d := down(); d.Reason != actor.Stopped {
		t.Errorf("got %v", d.Reason)
	}
}

func TestAskAtAFullBlockingMailboxEndsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := newSystem(t)
		entered, release := make(chan struct{}), make(chan struct{})
		ref := actor.SpawnFunc(sys, "", func(*actor.Context[any], any) error {
			close(entered)
			<-release
			return actor.ErrStop
		}, actor.Bounded(1, actor.Block))
		ref.Tell(bg, 1)
		<-entered
		ref.Tell(bg, 2)
		began := time.Now()
		_, err := actor.Ask(bg, ref, get{})
		if !errors.Is(err, actor.ErrMailboxFull) || !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != 5*time.Second {
			t.Errorf("got %v after %v", err, time.Since(began))
		}
		close(release)
	})
}

func TestDrainOfARankedMailboxEndsUnderLoad(t *testing.T) {
	sys := newSystem(t)
	var ref actor.Ref[int]
	handled := 0
	ref = actor.SpawnFunc(sys, "", func(ctx *actor.Context[int], n int) error {
		handled++
		ref.Tell(ctx, n+1) // there is always something more urgent than to stop
		return nil
	}, actor.Priority(func(n int) int { return n }))
	down := ended(t, sys, ref)
	ref.Tell(bg, 1)
	ref.Drain()
	if d := down(); d.Reason != actor.Stopped || handled == 0 {
		t.Errorf("%v after %d", d.Reason, handled)
	}
}

func TestStopInInitNeedsNoMessage(t *testing.T) {
	sys := newSystem(t)
	ref := actor.Spawn(sys, "", func() *shortLived { return &shortLived{} })
	if d := ended(t, sys, ref)(); d.Reason != actor.Stopped && d.Reason != actor.NoActor {
		t.Errorf("got %v", d.Reason)
	}
}

type shortLived struct{}

func (*shortLived) Init(ctx *actor.Context[int]) error     { ctx.Stop(); return nil }
func (*shortLived) Receive(*actor.Context[int], int) error { return nil }

func TestSilenceBeginsWhenTheHandlerReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := newSystem(t)
		log := new(journal)
		began := time.Now()
		actor.SpawnFunc(sys, "", func(ctx *actor.Context[string], m string) error {
			log.add("%s at %v", m, time.Since(began))
			switch m {
			case "on":
				ctx.SetReceiveTimeout(10*time.Second, "idle")
				return ctx.Sleep(30 * time.Second)
			case "idle":
				ctx.SetReceiveTimeout(0, "")
			}
			return nil
		}).Tell(bg, "on")
		time.Sleep(time.Hour)
		log.expect(t, "on at 0s", "idle at 40s")
	})
}

func TestShutdownWaitsForPipedWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // the bubble fails if a goroutine is left
		sys := newSystem(t)
		actor.SpawnFunc(sys, "", func(ctx *actor.Context[int], _ int) error {
			actor.Pipe(ctx, func(ctx context.Context) (int, error) {
				<-ctx.Done()
				time.Sleep(time.Second)
				return 0, nil
			}, func(n int, _ error) int { return n })
			return nil
		}).Tell(bg, 1)
		synctest.Wait()
		began := time.Now()
		if _, err := sys.Shutdown(bg); err != nil || time.Since(began) != time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

// A handler's context on another goroutine is a mistake, but no message may hang on it.
func TestTellWithAHandlersContextFromElsewhereStrandsNobody(t *testing.T) {
	sys := newSystem(t)
	for range 2000 {
		got := make(chan struct{})
		target := actor.SpawnFunc(sys, "", func(*actor.Context[int], int) error { close(got); return actor.ErrStop })
		actor.SpawnFunc(sys, "", func(ctx *actor.Context[int], _ int) error {
			go target.Tell(ctx, 1)
			return actor.ErrStop
		}).Tell(bg, 1)
		<-got
	}
}

func TestSubscribersThatStoppedAreForgotten(t *testing.T) {
	sys := newSystem(t)
	events := actor.Spawn(sys, "events", newRecorder)
	actor.Subscribe(sys, events)
	var paths []string
	for i := range 10 {
		ref := actor.SpawnFunc(sys, fmt.Sprint("s", i), func(*actor.Context[actor.DeadLetter], actor.DeadLetter) error { return nil })
		actor.Subscribe(sys, ref)
		down := ended(t, sys, ref)
		ref.Stop()
		down()
		paths = append(paths, ref.PID().Path())
	}
	stopped := 0
	for _, e := range mustAsk(t, events, seen{}) {
		if s, ok := e.(actor.ActorStopped); ok && slices.Contains(paths, s.PID.Path()) {
			stopped++
		}
	}
	if stopped != 10 {
		t.Errorf("%d of 10 ends were published", stopped)
	}
}

// Found by package sim, seed 0x8a4605e870407ca1 of its engine test.
func TestAHandlerThatUnstashesStillHasItsMessage(t *testing.T) {
	sys := newSystem(t)
	got := make(chan int, 4)
	to := actor.SpawnFunc(sys, "to", func(_ *actor.Context[int], n int) error {
		got <- n
		return nil
	})
	ref := actor.SpawnFunc(sys, "a", func(ctx *actor.Context[int], n int) error {
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
	ref.Tell(bg, 1)
	ref.Tell(bg, 2)
	for _, want := range []int{2, 1} {
		if n := <-got; n != want {
			t.Errorf("forwarded %d, want %d", n, want)
		}
	}
}

// Found by package sim, seed 0xf91622cec2c0d50a of its engine test.
func TestAnAskOfAnActorThatIsToldToStopWhileItAnswersFails(t *testing.T) {
	sys := newSystem(t)
	server := actor.Spawn(sys, "", newCounter)
	got := make(chan error, 1)
	ref := actor.SpawnFunc(sys, "", func(ctx *actor.Context[get], _ get) error {
		_ = ctx.Done() // the context of the request is there before the order to stop is
		ctx.Self().Stop()
		_, err := actor.Ask(ctx, server, get{})
		got <- err
		return nil
	})
	_, _ = actor.Ask(bg, ref, get{})
	if err := <-got; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
}
