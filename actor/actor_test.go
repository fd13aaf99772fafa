package actor_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/actortest"
)

var bg = context.Background()

// counterMsg is the protocol of the counter that most tests use.
type counterMsg interface{ counterMsg() }

type (
	add  struct{ n int }
	get  struct{ actor.Returns[int] }
	fail struct{ err error }
	boom struct{ value any }
	hold struct{ release chan struct{} } // in its handler, where the runtime does not know of the wait
	mute struct{ actor.Returns[int] }
	quit struct{}
)

func (add) counterMsg()  {}
func (get) counterMsg()  {}
func (fail) counterMsg() {}
func (boom) counterMsg() {}
func (hold) counterMsg() {}
func (mute) counterMsg() {}
func (quit) counterMsg() {}

func newHold() hold { return hold{make(chan struct{})} }

type counter struct {
	n   int
	log *actortest.Journal
}

func (c *counter) Init(ctx *actor.Context[counterMsg]) error {
	c.log.Addf("init %s", ctx.Self().PID().Path())
	return nil
}

func (c *counter) Terminate(ctx *actor.Context[counterMsg], why error) {
	c.log.Addf("terminate %s: %v", ctx.Self().PID().Path(), why)
}

func (c *counter) Receive(ctx *actor.Context[counterMsg], msg counterMsg) error {
	switch m := msg.(type) {
	case add:
		c.n += m.n
	case get:
		actor.Reply(ctx, m, c.n)
	case fail:
		return m.err
	case boom:
		panic(m.value)
	case hold:
		<-m.release
	case held:
		close(m.entered)
		<-m.release
	case quit:
		return actor.ErrStop
	}
	return nil
}

func newCounter() *counter { return &counter{} }

func TestTellThenAskSeesWhatWasTold(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		ref := actor.Spawn(k.System(), "counter", newCounter)
		for range 1000 {
			ref.Tell(k.Context(), add{1})
		}
		if n := actortest.Ask(k, ref, get{}).Answer(); n != 1000 {
			k.T().Errorf("counted %d, want 1000", n)
		}
	})
}

func TestRestartKeepsReferenceAndMailboxAndForgetsStateAndMessage(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		log := actortest.NewJournal(k)
		ref := actor.Spawn(k.System(), "c", func() *counter { return &counter{log: log} })
		h := newHold()
		ref.Tell(k.Context(), add{5})
		ref.Tell(k.Context(), h)
		k.Settle()
		ref.Tell(k.Context(), fail{errors.New("broken")})
		ref.Tell(k.Context(), add{2})
		close(h.release)
		if n := actortest.Ask(k, ref, get{}).Answer(); n != 2 {
			k.T().Errorf("after the restart the counter is %d, want 2: the state is fresh, the mail kept", n)
		}
		log.Expect("init /c", "terminate /c: broken", "init /c")
		if s := k.System().Stats(); s.Failures != 1 || s.Restarts != 1 {
			k.T().Errorf("failures %d, restarts %d, want 1 and 1", s.Failures, s.Restarts)
		}
		k.ExpectFailures(1)
	})
}

func TestPanicAndGoexitAreFailures(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		sys := k.System()
		ref := actor.SpawnFunc(sys, "", func(_ *actor.Context[string], m string) error {
			if m == "exit" {
				runtime.Goexit()
			}
			panic(m)
		})
		ref.Tell(k.Context(), "panic")
		ref.Tell(k.Context(), "exit")
		k.ExpectFailures(2)
		if n := sys.Stats().Restarts; n != 2 {
			k.T().Errorf("%d restarts, want 2", n)
		}
	})
}

func TestActorThatFailsTooOftenIsStoppedAndItsWatcherTold(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		ref := actor.Spawn(k.System(), "c", newCounter)
		k.Watch(ref)
		h, cause := newHold(), errors.New("broken")
		ref.Tell(k.Context(), h)
		k.Settle()
		for range 4 {
			ref.Tell(k.Context(), fail{cause})
		}
		close(h.release)
		d := actortest.ExpectDown(k, ref)
		if d.Reason != actor.Failed || !errors.Is(d.Err, actor.ErrRestartBudget) || !errors.Is(d.Err, cause) {
			k.T().Errorf("got %v %v", d.Reason, d.Err)
		}
		if got := k.System().Stats().DeadLettersByReason["failed"]; got != 1 {
			k.T().Errorf("%d dead letters, want the one message that was left", got)
		}
		k.ExpectFailures(3)
	}, actor.Supervise(actor.OneForOne, actor.MaxRestarts(2, time.Minute)))
}

func TestRestartBudgetRefills(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		ref := actor.Spawn(k.System(), "c", newCounter)
		for range 5 {
			ref.Tell(k.Context(), fail{errors.New("broken")})
			k.Advance(time.Minute)
		}
		actortest.Ask(k, ref, get{}).Answer()
		k.ExpectFailures(5)
	}, actor.Supervise(actor.OneForOne, actor.MaxRestarts(1, time.Minute)))
}

func TestBackoffDelaysTheRestartAndBlocksNobody(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		ref, other := actor.Spawn(k.System(), "c", newCounter), actor.Spawn(k.System(), "d", newCounter)
		for n, base := range []time.Duration{1, 2, 4, 4} {
			ref.Tell(k.Context(), fail{errors.New("broken")})
			k.Settle()
			began := k.Elapsed()
			actortest.Ask(k, other, get{}).Answer() // at once
			actortest.Ask(k, ref, get{}).Await().Answer()
			base *= time.Second
			if d := k.Elapsed() - began; d < base-base/8 || d > base+base/8 {
				k.T().Errorf("restart %d after %v, want about %v", n+1, d, base)
			}
		}
		k.ExpectFailures(4)
	}, actor.Supervise(actor.OneForOne, actor.Backoff(time.Second, 4*time.Second)))
}

func TestFailingInitIsAFailureForSpawnAndAnErrorForTrySpawn(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		sys := k.System()
		cause := errors.New("no database")
		tries := 0
		ref := actor.Spawn(sys, "a", func() *initFails {
			tries++
			return &initFails{err: cause, fail: tries < 3}
		})
		if n := actortest.Ask(k, ref, get{}).Answer(); n != 3 {
			k.T().Errorf("got %d", n)
		}
		_, err := actor.TrySpawn(sys, "b", func() *initFails { return &initFails{err: cause, fail: true} })
		if !errors.Is(err, cause) {
			k.T().Errorf("TrySpawn returned %v", err)
		}
		if _, err := actor.TrySpawn(sys, "b", newCounter); err != nil {
			k.T().Errorf("the name of an actor that did not start is still taken: %v", err)
		}
		k.ExpectFailures(2)
	})
}

type initFails struct {
	err  error
	fail bool
}

func (a *initFails) Init(*actor.Context[get]) error {
	if a.fail {
		return a.err
	}
	return nil
}

func (a *initFails) Receive(ctx *actor.Context[get], m get) error {
	actor.Reply(ctx, m, 3)
	return nil
}

func TestStopEndsAfterTheCurrentMessageAndTheRestAreDeadLetters(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		sys := k.System()
		log := actortest.NewJournal(k)
		ref := actor.Spawn(sys, "c", func() *counter { return &counter{log: log} })
		k.Watch(ref)
		h := newHold()
		ref.Tell(k.Context(), h)
		k.Settle()
		for i := range 100 {
			ref.Tell(k.Context(), add{i})
		}
		ref.Stop()
		close(h.release)
		if d := actortest.ExpectDown(k, ref); d.Reason != actor.Stopped || d.PID != ref.PID() || d.Err != nil {
			k.T().Errorf("got %+v", d)
		}
		log.Expect("init /c", "terminate /c: <nil>")
		ref.Tell(k.Context(), add{1})
		if err := ref.TryTell(k.Context(), add{1}); !errors.Is(err, actor.ErrStopped) {
			k.T().Errorf("TryTell returned %v", err)
		}
		s := sys.Stats().DeadLettersByReason
		if s["stopped"] != 100 || s["no_actor"] != 1 {
			k.T().Errorf("dead letters %v, want 100 stopped, 1 no_actor", s)
		}
		newest := sys.DeadLetters()[0]
		if newest.Reason != actor.NoActor || newest.To != ref.PID() || newest.Message != counterMsg(add{1}) || newest.Type != "actor_test.add" {
			k.T().Errorf("the newest dead letter is %+v", newest)
		}
	})
}

func TestDrainHandlesWhatLiesInTheMailbox(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		var handled atomic.Int64
		entered, release := make(chan struct{}, 101), make(chan struct{})
		ref := actor.SpawnFunc(k.System(), "", func(*actor.Context[int], int) error {
			entered <- struct{}{}
			<-release
			handled.Add(1)
			return nil
		})
		k.Watch(ref)
		for i := range 100 {
			ref.Tell(k.Context(), i)
		}
		<-entered
		ref.Drain()
		ref.Tell(k.Context(), 101) // too late
		close(release)
		if d := actortest.ExpectDown(k, ref); d.Reason != actor.Stopped || handled.Load() != 100 {
			k.T().Errorf("%v after %d messages, want stopped after 100", d.Reason, handled.Load())
		}
		if n := k.System().Stats().DeadLetters; n != 1 {
			k.T().Errorf("%d dead letters, want 1", n)
		}
	})
}

func TestKillSkipsTerminate(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		log := actortest.NewJournal(k)
		ref := actor.Spawn(k.System(), "c", func() *counter { return &counter{log: log} })
		k.Watch(ref)
		ref.Kill()
		if d := actortest.ExpectDown(k, ref); d.Reason != actor.Killed {
			k.T().Errorf("got %v", d.Reason)
		}
		log.Expect("init /c")
	})
}

func TestErrStopAndContextStopAreNormalEnds(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		sys := k.System()
		a := actor.Spawn(sys, "", newCounter)
		b := actor.SpawnFunc(sys, "", func(ctx *actor.Context[int], _ int) error { ctx.Stop(); return nil })
		k.Watch(a)
		k.Watch(b)
		a.Tell(k.Context(), quit{})
		b.Tell(k.Context(), 1)
		if d := actortest.ExpectDown(k, a); d.Reason != actor.Stopped {
			k.T().Errorf("ErrStop: %v", d.Reason)
		}
		if d := actortest.ExpectDown(k, b); d.Reason != actor.Stopped {
			k.T().Errorf("ctx.Stop: %v", d.Reason)
		}
		if n := sys.Stats().Failures; n != 0 {
			k.T().Errorf("%d failures", n)
		}
	})
}

// family spawns two children with two children each and logs who comes and goes.
type family struct {
	log   *actortest.Journal
	depth int
}

func (f *family) Init(ctx *actor.Context[any]) error {
	f.log.Addf("init %s", ctx.Self().PID().Path())
	if f.depth == 0 {
		return nil
	}
	for _, name := range []string{"a", "b"} {
		actor.Spawn(ctx, name, func() *family { return &family{f.log, f.depth - 1} })
	}
	return nil
}

func (f *family) Receive(_ *actor.Context[any], m any) error {
	err, _ := m.(error)
	return err
}

func (f *family) Terminate(ctx *actor.Context[any], _ error) {
	f.log.Addf("end %s", ctx.Self().PID().Path())
}

func TestChildrenStopBeforeParentsInReverseOrder(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		log := actortest.NewJournal(k)
		ref := actor.Spawn(k.System(), "f", func() *family { return &family{log, 2} })
		k.Watch(ref)
		ref.Stop()
		actortest.ExpectDown(k, ref)
		log.Expect("init /f", "init /f/a", "init /f/a/a", "init /f/a/b", "init /f/b", "init /f/b/a", "init /f/b/b",
			"end /f/b/b", "end /f/b/a", "end /f/b", "end /f/a/b", "end /f/a/a", "end /f/a", "end /f")
	})
}

func TestRestartStopsTheChildrenFirst(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		log := actortest.NewJournal(k)
		ref := actor.Spawn(k.System(), "f", func() *family { return &family{log, 1} })
		k.Watch(ref)
		ref.Tell(k.Context(), errors.New("broken"))
		ref.Drain()
		actortest.ExpectDown(k, ref)
		log.Expect("init /f", "init /f/a", "init /f/b",
			"end /f/b", "end /f/a", "end /f", "init /f", "init /f/a", "init /f/b",
			"end /f/b", "end /f/a", "end /f")
		k.ExpectFailures(1)
	})
}

func TestDownComesAfterTheTargetsLastMessage(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		watcher := actortest.NewProbe[any](k)
		for range 200 {
			target := actor.SpawnFunc(k.System(), "", func(ctx *actor.Context[int], n int) error {
				for i := range n {
					watcher.Ref().Tell(ctx, i)
				}
				return actor.ErrStop
			})
			actortest.Do(watcher, func(ctx *actor.Context[any]) error {
				ctx.Watch(target.PID(), func(d actor.Down) any { return d.Reason })
				return nil
			})
			target.Tell(k.Context(), 5)
			watcher.ExpectAll(0, 1, 2, 3, 4, actor.Stopped)
		}
	})
}

func TestWatchOfNobodyIsAnsweredAtOnce(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		ref := actor.Spawn(k.System(), "", newCounter)
		ref.Stop()
		k.Settle()
		if d := actortest.ExpectDown(k, ref); d.Reason != actor.NoActor || d.PID != ref.PID() {
			k.T().Errorf("got %+v", d)
		}
	})
}

func TestUnwatchedActorSendsNoDown(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		target := actor.Spawn(k.System(), "", newCounter)
		watcher := actortest.NewProbe[any](k)
		actortest.Do(watcher, func(ctx *actor.Context[any]) error {
			watch := func(name string) { ctx.Watch(target.PID(), func(actor.Down) any { return name }) }
			watch("first")
			watch("second")
			ctx.Unwatch(target.PID())
			watch("third")
			return nil
		})
		target.Stop()
		watcher.ExpectAll("third")
	})
}

func TestTimersFireInTimeAndNeverEarly(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		log := actortest.NewJournal(k)
		actor.SpawnFunc(k.System(), "", func(ctx *actor.Context[string], m string) error {
			log.Addf("%s at %v", m, k.Elapsed())
			if m == "go" {
				ctx.After("late", 3*time.Second, "late")
				ctx.After("never", time.Second, "never")
				ctx.After("early", time.Second, "early")
				ctx.Every("tick", 2*time.Second, "tick")
				ctx.After("never", time.Second, "replaced")
				ctx.After("gone", time.Second, "gone")
				ctx.Cancel("gone")
			}
			if m == "late" {
				ctx.Cancel("tick")
			}
			return nil
		}).Tell(k.Context(), "go")
		k.Advance(time.Minute)
		log.Expect("go at 0s", "early at 1s", "replaced at 1s", "tick at 2s", "late at 3s")
		if n := k.System().Stats().Timers; n != 0 {
			k.T().Errorf("%d timers are left", n)
		}
	})
}

func TestCanceledTimerIsNotDeliveredEvenIfItWaitsInTheMailbox(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		log := actortest.NewJournal(k)
		ref := actor.SpawnFunc(k.System(), "", func(ctx *actor.Context[string], m string) error {
			log.Addf("%s", m)
			if m == "go" {
				ctx.After("x", time.Second, "x")
				time.Sleep(2 * time.Second) // it fires now and waits
				ctx.Cancel("x")
			}
			return nil
		})
		ref.Tell(k.Context(), "go")
		k.Advance(5 * time.Second)
		log.Expect("go")
	})
}

func TestTimersDieWithTheIncarnation(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		ticks := 0
		ref := actor.SpawnFunc(k.System(), "", func(ctx *actor.Context[any], m any) error {
			switch m := m.(type) {
			case string:
				ctx.Every("tick", time.Second, 1)
			case int:
				ticks++
			case error:
				return m
			}
			return nil
		})
		ref.Tell(k.Context(), "go")
		k.Advance(3500 * time.Millisecond)
		ref.Tell(k.Context(), errors.New("broken"))
		k.Advance(time.Minute)
		if ticks != 3 {
			k.T().Errorf("%d ticks, want the 3 before the restart", ticks)
		}
		k.ExpectFailures(1)
	})
}

func TestTicksDoNotPileUp(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		ticks := 0
		actor.SpawnFunc(k.System(), "", func(ctx *actor.Context[string], m string) error {
			if m == "go" {
				ctx.Every("tick", time.Second, "tick")
				time.Sleep(10*time.Second + time.Millisecond)
			} else {
				ticks++
			}
			return nil
		}).Tell(k.Context(), "go")
		k.Advance(10*time.Second + 500*time.Millisecond)
		if ticks != 1 {
			k.T().Errorf("%d ticks after a handler of ten periods, want 1", ticks)
		}
	})
}

func TestNames(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		sys := k.System()
		ref := actor.Spawn(sys, "cart", newCounter)
		if p := ref.PID(); p.Path() != "/cart" || p.Node() != "test" {
			k.T().Errorf("PID %v", p)
		}
		if _, err := actor.TrySpawn(sys, "cart", newCounter); !errors.Is(err, actor.ErrNameTaken) {
			k.T().Errorf("a taken name gave %v", err)
		}
		for _, bad := range []string{"a/b", "$x", "a#b", "*-*"} {
			if _, err := actor.TrySpawn(sys, bad, newCounter); !errors.Is(err, actor.ErrBadName) {
				k.T().Errorf("%q gave %v", bad, err)
			}
		}
		a, b := actor.Spawn(sys, "w-*", newCounter), actor.Spawn(sys, "w-*", newCounter)
		if a.PID().Path() == b.PID().Path() || !strings.HasPrefix(a.PID().Path(), "/w-") {
			k.T().Errorf("generated names %v, %v", a, b)
		}
		func() {
			defer func() {
				if r := recover(); r == nil || !strings.Contains(fmt.Sprint(r), "TrySpawn") {
					k.T().Errorf("Spawn of a taken name: %v", r)
				}
			}()
			actor.Spawn(sys, "cart", newCounter)
		}()
		k.Watch(ref)
		ref.Stop()
		actortest.ExpectDown(k, ref)
		again, err := actor.TrySpawn(sys, "cart", newCounter)
		if err != nil {
			k.T().Errorf("the name is not free after Down: %v", err)
		}
		if again.PID() == ref.PID() {
			k.T().Error("the namesake has the same PID")
		}
		if _, err := actor.Lookup[counterMsg](sys, ref.PID()); !errors.Is(err, actor.ErrStopped) {
			k.T().Errorf("the old PID finds its namesake: %v", err)
		}
	})
}

func TestLookup(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		sys := k.System()
		for _, name := range []string{"", "c"} {
			ref := actor.Spawn(sys, name, newCounter)
			text, err := ref.PID().MarshalText()
			if err != nil {
				k.T().Fatal(err)
			}
			var pid actor.PID
			if err := pid.UnmarshalText(text); err != nil || pid != ref.PID() {
				k.T().Errorf("%s reads as %v, %v", text, pid, err)
			}
			if got, err := actor.Lookup[counterMsg](sys, pid); err != nil || got != ref {
				k.T().Errorf("Lookup(%v) = %v, %v", pid, got, err)
			}
			if _, err := actor.Lookup[int](sys, pid); !errors.Is(err, actor.ErrNotAccepted) {
				k.T().Errorf("Lookup as another type: %v", err)
			}
		}
		for _, bad := range []string{"", "x", "/a#1", "n/a", "n/a#!", "n#1/a"} {
			if _, err := actor.ParsePID(bad); !errors.Is(err, actor.ErrBadPID) {
				k.T().Errorf("ParsePID(%q) = %v", bad, err)
			}
		}
	})
}

func TestSenderAndFamilyAreKnown(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		p := actortest.NewProbe[actor.PID](k)
		parent := actor.SpawnFunc(k.System(), "parent", func(ctx *actor.Context[int], _ int) error {
			child := actor.SpawnFunc(ctx, "child", func(ctx *actor.Context[int], _ int) error {
				p.Ref().Tell(ctx, ctx.Sender())
				p.Ref().Tell(ctx, ctx.Parent())
				return nil
			})
			child.Tell(ctx, 1)
			if kids := ctx.Children(); len(kids) != 1 || kids[0] != child.PID() {
				k.T().Errorf("children %v", kids)
			}
			return nil
		})
		parent.Tell(k.Context(), 1)
		p.ExpectAll(parent.PID(), parent.PID())
	})
}

func TestShutdownDrainsAndReportsWhoWouldNotStop(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		sys := k.System()
		good, stuck := actor.Spawn(sys, "good", newCounter), actor.Spawn(sys, "stuck", newCounter)
		h := newHold()
		stuck.Tell(k.Context(), h)
		k.Advance(time.Second) // on one processor the runtime has to let another worker in
		stuck.Tell(k.Context(), add{1})
		stuck.Tell(k.Context(), add{1})
		actortest.Ask(k, good, get{}).Answer()
		ctx, cancel := context.WithCancel(k.Context())
		cancel()
		report, err := sys.Shutdown(ctx)
		if !errors.Is(err, context.Canceled) || len(report.Unfinished) != 1 || report.Unfinished[0].Path != "/stuck" {
			k.T().Errorf("got %+v, %v", report, err)
		}
		close(h.release)
		if _, err := sys.Shutdown(k.Context()); err != nil {
			k.T().Errorf("once the handler has returned: %v", err)
		}
		if n := sys.Stats().DeadLettersByReason["killed"]; n != 2 {
			k.T().Errorf("%d dead letters by kill, want 2", n)
		}
	})
}

func TestShutdownHandlesWhatIsQueued(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		sys := k.System()
		var handled atomic.Int64
		for range 50 {
			ref := actor.SpawnFunc(sys, "", func(*actor.Context[int], int) error {
				handled.Add(1)
				return nil
			})
			for i := range 100 {
				ref.Tell(k.Context(), i)
			}
		}
		report, err := sys.Shutdown(k.Context())
		if err != nil || handled.Load() != 5000 || report.DeadLetters != 0 {
			k.T().Errorf("handled %d of 5000, %d dead letters, %v", handled.Load(), report.DeadLetters, err)
		}
		if _, err := actor.TrySpawn(sys, "", newCounter); !errors.Is(err, actor.ErrStopped) {
			k.T().Errorf("spawn after the shutdown: %v", err)
		}
	})
}

func TestNothingIsLeftAfterShutdown(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) { // its end fails if a goroutine is left
		sys := k.System()
		ref := actor.Spawn(sys, "f", func() *family { return &family{nil, 3} })
		actor.SpawnFunc(sys, "", func(ctx *actor.Context[int], _ int) error {
			ctx.Every("x", time.Second, 1)
			return nil
		}).Tell(k.Context(), 1)
		k.Advance(time.Minute)
		if _, err := sys.Shutdown(k.Context()); err != nil {
			k.T().Error(err)
		}
		if s := sys.Stats(); s.Actors != 0 || s.Timers != 0 {
			k.T().Errorf("left: %+v", s)
		}
		ref.Tell(k.Context(), 1)
	})
}

func TestInspectShowsTheTree(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		sys := k.System()
		actor.Spawn(sys, "f", func() *family { return &family{nil, 1} })
		c := actor.Spawn(sys, "c", newCounter)
		h := newHold()
		c.Tell(k.Context(), h)
		k.Settle()
		c.Tell(k.Context(), add{1})
		root, err := sys.Inspect("/", 10)
		if err != nil || len(root.Children) != 2 || root.Info.Children != 2 || root.More {
			k.T().Fatalf("got %+v, %v", root, err)
		}
		f, i := root.Children[0], root.Children[1]
		if f.Path != "/f" || f.Type != "*actor_test.family" || f.State != "running" || f.Children != 2 {
			k.T().Errorf("family: %+v", f)
		}
		if i.Path != "/c" || i.PID != c.PID().String() || i.Mailbox < 1 {
			k.T().Errorf("counter: %+v", i)
		}
		if sub, err := sys.Inspect("/f", 1); err != nil || len(sub.Children) != 1 || !sub.More || sub.Children[0].Path != "/f/a" {
			k.T().Errorf("got %+v, %v", sub, err)
		}
		if _, err := sys.Inspect("/nobody", 1); !errors.Is(err, actor.ErrStopped) {
			k.T().Errorf("got %v", err)
		}
		close(h.release)
	})
}
