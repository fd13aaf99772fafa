package actor_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/actortest"
)

// Each test here is a defect that was verified in another actor runtime for Go, turned
// into what must hold here. Those that package tests cover under another name are listed
// in docs/guarantees.md.

func TestConformanceStopLosesNoQueuedMail(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		ref := actor.Spawn(k.System(), "", newCounter)
		h := newHold()
		ref.Tell(k.Context(), h)
		k.Settle()
		for i := range 100 {
			ref.Tell(k.Context(), add{i})
		}
		k.Watch(ref)
		ref.Stop()
		close(h.release)
		actortest.ExpectDown(k, ref)
		letters := k.System().DeadLetters()
		if len(letters) != 100 {
			k.T().Fatalf("%d dead letters, want all 100", len(letters))
		}
		for i, d := range letters { // newest first
			if d.Message != counterMsg(add{99 - i}) || d.Reason != actor.Stopped {
				k.T().Fatalf("dead letter %d is %+v", i, d)
			}
		}
	})
}

func TestConformanceDrainHandlesMoreThanABatchAndSurvivesAPanic(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		var handled sync.Map
		count := 0
		ref := actor.SpawnFunc(k.System(), "", func(_ *actor.Context[int], n int) error {
			if _, again := handled.LoadOrStore(n, true); again {
				k.T().Errorf("message %d was delivered twice", n)
			}
			if count++; n == 2000 {
				panic("in the middle of it")
			}
			return nil
		})
		k.Watch(ref)
		for i := range 5090 {
			ref.Tell(k.Context(), i)
		}
		ref.Drain()
		if d := actortest.ExpectDown(k, ref); d.Reason != actor.Stopped || count != 5090 {
			k.T().Errorf("%v after %d of 5090 messages", d.Reason, count)
		}
		k.ExpectFailures(1)
	})
}

func TestConformanceStopOvertakesQueuedMail(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		handled := 0
		release := make(chan struct{})
		ref := actor.SpawnFunc(k.System(), "", func(_ *actor.Context[int], n int) error {
			if handled++; n == 0 {
				<-release
			}
			return nil
		})
		k.Watch(ref)
		for i := range 1000 {
			ref.Tell(k.Context(), i)
		}
		k.Settle()
		ref.Stop()
		close(release)
		actortest.ExpectDown(k, ref)
		if handled != 1 {
			k.T().Errorf("%d messages were handled, want the current one only", handled)
		}
	})
}

func TestConformanceTerminateNeverRunsBesideReceive(t *testing.T) {
	for range 100 {
		actortest.Run(t, func(k *actortest.Kit) {
			a := &exclusive{k: k, entered: make(chan struct{})}
			ref := actor.Spawn(k.System(), "", func() *exclusive { return a })
			k.Watch(ref)
			ref.Tell(k.Context(), 1)
			<-a.entered // it is in its handler, and does not wait there
			ref.Stop()
			ref.Kill()
			ref.Stop()
			actortest.ExpectDown(k, ref)
		})
	}
}

// exclusive notices when two callbacks run at the same time; so does the race detector.
type exclusive struct {
	k       *actortest.Kit
	inside  atomic.Bool
	n       int
	entered chan struct{}
}

func (e *exclusive) Receive(*actor.Context[int], int) error {
	e.inside.Store(true)
	close(e.entered)
	for range 100 {
		e.n++
		runtime.Gosched()
	}
	e.inside.Store(false)
	return nil
}

func (e *exclusive) Terminate(*actor.Context[int], error) {
	if e.n++; e.inside.Load() {
		e.k.T().Error("Terminate ran beside Receive")
	}
}

func TestConformanceNoMessageReachesAFailedIncarnation(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		failures := 0
		ref := actor.Spawn(k.System(), "", func() *brittle { return &brittle{k: k, failures: &failures} })
		for i := range 10 {
			for range 500 {
				ref.Tell(k.Context(), false)
			}
			ref.Tell(k.Context(), true)
			_ = i
		}
		k.Watch(ref)
		ref.Drain()
		actortest.ExpectDown(k, ref)
		if failures != 10 {
			k.T().Errorf("%d failures, want 10", failures)
		}
		k.ExpectFailures(10)
	})
}

type brittle struct {
	k        *actortest.Kit
	failures *int
	broken   bool
}

func (b *brittle) Receive(_ *actor.Context[bool], fail bool) error {
	if b.broken {
		b.k.T().Error("a failed incarnation was handed a message")
	}
	if fail {
		b.broken = true
		*b.failures++
		panic("broken")
	}
	return nil
}

func TestConformanceExhaustedRestartsDoNotEndTheProcess(t *testing.T) {
	for name, opt := range map[string]actor.SystemOption{
		"one for one": actor.Supervise(actor.OneForOne, actor.MaxRestarts(0, time.Minute)),
		"all for one": actor.Supervise(actor.AllForOne, actor.MaxRestarts(0, time.Minute)),
		"escalation":  actor.Supervise(actor.OneForOne, actor.Decide(func(error) actor.Directive { return actor.Escalate })),
	} {
		t.Run(name, func(t *testing.T) {
			actortest.Run(t, func(k *actortest.Kit) {
				ref := actor.Spawn(k.System(), "", newCounter)
				other := actor.Spawn(k.System(), "", newCounter)
				k.Watch(ref)
				ref.Tell(k.Context(), boom{"ouch"})
				if d := actortest.ExpectDown(k, ref); d.Reason != actor.Failed {
					k.T().Errorf("got %v", d.Reason)
				}
				actortest.Ask(k, other, get{}).Answer()
				k.ExpectFailures(1)
			}, opt)
		})
	}
}

func TestConformancePanicInTerminateHidesNoEnd(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		parent := actor.Spawn(k.System(), "", func() *parentOfSore { return &parentOfSore{} })
		k.Watch(parent)
		parent.Stop()
		if d := actortest.ExpectDown(k, parent); d.Reason != actor.Stopped {
			k.T().Errorf("got %v", d.Reason)
		}
		k.ExpectFailures(1)
	})
}

type parentOfSore struct{}

func (*parentOfSore) Init(ctx *actor.Context[int]) error {
	actor.Spawn(ctx, "", func() *sore { return &sore{} })
	return nil
}
func (*parentOfSore) Receive(*actor.Context[int], int) error { return nil }

type sore struct{}

func (*sore) Receive(*actor.Context[int], int) error { return nil }
func (*sore) Terminate(*actor.Context[int], error)   { panic("sore loser") }
func (*sore) String() string                         { return "sore" }

// What is told as a failure is counted as one, and kept for Detail.
func TestAPanicInTerminateIsCounted(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		failures := actortest.Events[actor.ActorFailed](k)
		ref := actor.Spawn(k.System(), "sore", func() *sore { return &sore{} })
		if err := k.System().Restart(ref.PID()); err != nil {
			k.T().Fatal(err)
		}
		k.Settle()
		failed := failures.Next()
		d, err := k.System().Detail(k.Context(), ref.PID())
		if n := k.System().Stats().Failures; n != 1 || failed.PID != ref.PID() || err != nil || len(d.Failures) != 1 || !errors.Is(d.Failures[0].Err, failed.Err) {
			k.T().Errorf("%d failures, told of %v, kept %v, %v", n, failed, d.Failures, err)
		}
		k.AllowFailures()
	})
}

func TestConformanceNoMessageIsHandledWhileChildrenStop(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		release := make(chan struct{})
		handled := 0
		parent := actor.SpawnFunc(k.System(), "", func(ctx *actor.Context[int], n int) error {
			handled++
			actor.SpawnFunc(ctx, "slow", func(*actor.Context[int], int) error {
				<-release
				return nil
			}).Tell(ctx, 1)
			return nil
		})
		k.Watch(parent)
		parent.Tell(k.Context(), 1)
		k.Settle()
		parent.Stop()
		for i := range 10 {
			parent.Tell(k.Context(), i)
		}
		close(release)
		actortest.ExpectDown(k, parent)
		if handled != 1 {
			k.T().Errorf("%d messages handled, want the one before the stop", handled)
		}
		if n := k.System().Stats().DeadLetters; n != 10 {
			k.T().Errorf("%d dead letters, want 10", n)
		}
	})
}

func TestConformanceDroppingMailboxGoesIdleAgain(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		gate, p := gated(k, actor.Bounded(1, actor.DropOldest))
		for range 10 {
			p.Ref().Tell(k.Context(), "x")
		}
		gate.Open() // settles, and so returns only when no goroutine spins
		p.ExpectAll("held", "x")
	})
}

func TestConformanceSecondAnswerBlocksNobodyAndReachesNobody(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		ref := actor.SpawnFunc(k.System(), "", func(ctx *actor.Context[get], m get) error {
			for i := range 10 {
				actor.Reply(ctx, m, i)
			}
			return nil
		})
		for range 100 {
			if n := actortest.Ask(k, ref, get{}).Answer(); n != 0 {
				k.T().Fatalf("got %d, want the first answer", n)
			}
		}
	})
}

func TestConformanceNilIsAnAnswer(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		type ask struct{ actor.Returns[error] }
		ref := actor.SpawnFunc(k.System(), "", func(ctx *actor.Context[ask], m ask) error { actor.Reply(ctx, m, error(nil)); return nil })
		if v, err := actor.Ask(k.Context(), ref, ask{}); v != nil || err != nil {
			k.T().Errorf("got %v, %v", v, err)
		}
	})
}

type echo struct {
	actor.Returns[int]
	n int
}

func TestConformanceAnAnsweredAskDoesNotTimeOut(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		ref := actor.SpawnFunc(k.System(), "", func(ctx *actor.Context[echo], m echo) error { actor.Reply(ctx, m, m.n); return nil })
		ctx, cancel := context.WithTimeout(k.Context(), time.Hour)
		defer cancel()
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for i := range 5000 {
					if got, err := actor.Ask(ctx, ref, echo{n: i}); err != nil || got != i {
						k.T().Errorf("got %d, %v", got, err)
						return
					}
				}
			})
		}
		wg.Wait()
	}, actor.WithAskTimeout(time.Hour))
}

func TestConformanceAskThatTimesOutInAHandlerIsNoFailureOfTheAsker(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		sys := k.System()
		silent := actor.SpawnFunc(sys, "", func(ctx *actor.Context[get], m get) error { actor.Promise(ctx, m); return nil })
		asker := actor.SpawnFunc(sys, "", func(ctx *actor.Context[any], m any) error {
			switch m := m.(type) {
			case string:
				_, err := actor.Ask(ctx, silent, get{})
				if !errors.Is(err, context.DeadlineExceeded) {
					k.T().Errorf("got %v", err)
				}
			case get:
				actor.Reply(ctx, m, 1)
			}
			return nil
		})
		asker.Tell(k.Context(), "ask")
		k.Advance(time.Minute)
		if n := actortest.Ask(k, asker, get{}).Answer(); n != 1 || sys.Stats().Failures != 0 {
			k.T().Errorf("answer %d, %d failures", n, sys.Stats().Failures)
		}
	})
}

func TestConformanceSpawnRunsNoRestartDelaysOnTheSpawner(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		tries := 0
		ref := actor.Spawn(k.System(), "", func() *initFails { tries++; return &initFails{err: errBroken, fail: tries < 3} })
		if d := k.Elapsed(); d > 0 {
			k.T().Errorf("Spawn took %v", d)
		}
		ctx, cancel := context.WithTimeout(k.Context(), 24*time.Hour)
		defer cancel()
		if n, err := actor.Ask(ctx, ref, get{}); n != 3 || err != nil {
			k.T().Errorf("got %d, %v", n, err)
		}
		k.ExpectFailures(2)
	}, actor.Supervise(actor.OneForOne, actor.Backoff(time.Hour, time.Hour), actor.MaxRestarts(3, 24*time.Hour)))
}

func TestConformanceShutdownIsBoundedWhenAHandlerIsStuck(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		parent := actor.SpawnFunc(k.System(), "parent", func(ctx *actor.Context[hold], h hold) error {
			actor.Spawn(ctx, "child", newCounter).Tell(ctx, h)
			return nil
		})
		h := newHold()
		defer close(h.release)
		parent.Tell(k.Context(), h)
		k.Settle()
		ctx, cancel := context.WithCancel(k.Context())
		cancel()
		report, err := k.System().Shutdown(ctx)
		var paths []string
		for _, i := range report.Unfinished {
			paths = append(paths, i.Path)
		}
		if err == nil || fmt.Sprint(paths) != "[/parent/child]" {
			k.T().Errorf("got %v, %v", paths, err)
		}
	})
}
