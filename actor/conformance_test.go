package actor_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-go/greenroom/actor"
)

// Each test here is a defect that was verified in another actor runtime for Go, turned
// into what must hold here. Those that package tests cover under another name are listed
// in docs/guarantees.md.

func TestConformanceStopLosesNoQueuedMail(t *testing.T) {
	sys := newSystem(t)
	ref := actor.Spawn(sys, "", newCounter)
	h := newHold()
	ref.Tell(bg, h)
	<-h.entered
	for i := range 100 {
		ref.Tell(bg, add{i})
	}
	down := ended(t, sys, ref)
	ref.Stop()
	close(h.release)
	down()
	letters := sys.DeadLetters()
	if len(letters) != 100 {
		t.Fatalf("%d dead letters, want all 100", len(letters))
	}
	for i, d := range letters { // newest first
		if d.Message != counterMsg(add{99 - i}) || d.Reason != actor.Stopped {
			t.Fatalf("dead letter %d is %+v", i, d)
		}
	}
}

func TestConformanceDrainHandlesMoreThanABatchAndSurvivesAPanic(t *testing.T) {
	sys := newSystem(t)
	var handled sync.Map
	count := 0
	ref := actor.SpawnFunc(sys, "", func(_ *actor.Context[int], n int) error {
		if _, again := handled.LoadOrStore(n, true); again {
			t.Errorf("message %d was delivered twice", n)
		}
		if count++; n == 2000 {
			panic("in the middle of it")
		}
		return nil
	})
	down := ended(t, sys, ref)
	for i := range 5090 {
		ref.Tell(bg, i)
	}
	ref.Drain()
	if d := down(); d.Reason != actor.Stopped || count != 5090 {
		t.Errorf("%v after %d of 5090 messages", d.Reason, count)
	}
}

func TestConformanceStopOvertakesQueuedMail(t *testing.T) {
	sys := newSystem(t)
	handled := 0
	entered, release := make(chan struct{}), make(chan struct{})
	ref := actor.SpawnFunc(sys, "", func(_ *actor.Context[int], n int) error {
		if handled++; n == 0 {
			close(entered)
			<-release
		}
		return nil
	})
	down := ended(t, sys, ref)
	for i := range 1000 {
		ref.Tell(bg, i)
	}
	<-entered
	ref.Stop()
	close(release)
	down()
	if handled != 1 {
		t.Errorf("%d messages were handled, want the current one only", handled)
	}
}

func TestConformanceTerminateNeverRunsBesideReceive(t *testing.T) {
	for range 100 {
		sys := newSystem(t)
		a := &exclusive{t: t, entered: make(chan struct{})}
		ref := actor.Spawn(sys, "", func() *exclusive { return a })
		down := ended(t, sys, ref)
		ref.Tell(bg, 1)
		<-a.entered
		ref.Stop()
		ref.Kill()
		ref.Stop()
		down()
	}
}

// exclusive notices when two callbacks run at the same time; so does the race detector.
type exclusive struct {
	t       *testing.T
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
		e.t.Error("Terminate ran beside Receive")
	}
}

func TestConformanceNoMessageReachesAFailedIncarnation(t *testing.T) {
	sys := newSystem(t)
	failures := 0
	ref := actor.Spawn(sys, "", func() *brittle { return &brittle{t: t, failures: &failures} })
	for i := range 10 {
		for range 500 {
			ref.Tell(bg, false)
		}
		ref.Tell(bg, true)
		_ = i
	}
	down := ended(t, sys, ref)
	ref.Drain()
	down()
	if failures != 10 {
		t.Errorf("%d failures, want 10", failures)
	}
}

type brittle struct {
	t        *testing.T
	failures *int
	broken   bool
}

func (b *brittle) Receive(_ *actor.Context[bool], fail bool) error {
	if b.broken {
		b.t.Error("a failed incarnation was handed a message")
	}
	if fail {
		b.broken = true
		*b.failures++
		panic("broken")
	}
	return nil
}

func TestConformanceExhaustedRestartsDoNotEndTheProcess(t *testing.T) {
	for _, opt := range []actor.SystemOption{
		actor.Supervise(actor.OneForOne, actor.MaxRestarts(0, time.Minute)),
		actor.Supervise(actor.AllForOne, actor.MaxRestarts(0, time.Minute)),
		actor.Supervise(actor.OneForOne, actor.Decide(func(error) actor.Directive { return actor.Escalate })),
	} {
		sys := newSystem(t, opt)
		ref := actor.Spawn(sys, "", newCounter)
		other := actor.Spawn(sys, "", newCounter)
		down := ended(t, sys, ref)
		ref.Tell(bg, boom{"ouch"})
		if d := down(); d.Reason != actor.Failed {
			t.Errorf("got %v", d.Reason)
		}
		mustAsk(t, other, get{})
	}
}

func TestConformancePanicInTerminateHidesNoEnd(t *testing.T) {
	sys := newSystem(t)
	parent := actor.Spawn(sys, "", func() *parentOfSore { return &parentOfSore{} })
	down := ended(t, sys, parent)
	parent.Stop()
	if d := down(); d.Reason != actor.Stopped {
		t.Errorf("got %v", d.Reason)
	}
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

func TestConformanceNoMessageIsHandledWhileChildrenStop(t *testing.T) {
	sys := newSystem(t)
	entered, release := make(chan struct{}), make(chan struct{})
	handled := 0
	parent := actor.SpawnFunc(sys, "", func(ctx *actor.Context[int], n int) error {
		handled++
		actor.SpawnFunc(ctx, "slow", func(*actor.Context[int], int) error {
			close(entered)
			<-release
			return nil
		}).Tell(ctx, 1)
		return nil
	})
	down := ended(t, sys, parent)
	parent.Tell(bg, 1)
	<-entered
	parent.Stop()
	for i := range 10 {
		parent.Tell(bg, i)
	}
	close(release)
	down()
	if handled != 1 {
		t.Errorf("%d messages handled, want the one before the stop", handled)
	}
	if n := sys.Stats().DeadLetters; n != 10 {
		t.Errorf("%d dead letters, want 10", n)
	}
}

func TestConformanceDroppingMailboxGoesIdleAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := newSystem(t)
		g := spawnGated(sys, actor.Bounded(1, actor.DropOldest))
		for range 10 {
			g.ref.Tell(bg, "x")
		}
		close(g.release)
		synctest.Wait() // returns only when no goroutine spins
		g.log.expect(t, "x")
	})
}

func TestConformanceSecondAnswerBlocksNobodyAndReachesNobody(t *testing.T) {
	sys := newSystem(t)
	ref := actor.SpawnFunc(sys, "", func(ctx *actor.Context[get], m get) error {
		for i := range 10 {
			actor.Reply(ctx, m, i)
		}
		return nil
	})
	for range 100 {
		if n := mustAsk(t, ref, get{}); n != 0 {
			t.Fatalf("got %d, want the first answer", n)
		}
	}
}

func TestConformanceNilIsAnAnswer(t *testing.T) {
	sys := newSystem(t)
	type ask struct{ actor.Returns[error] }
	ref := actor.SpawnFunc(sys, "", func(ctx *actor.Context[ask], m ask) error { actor.Reply(ctx, m, error(nil)); return nil })
	if v, err := actor.Ask(bg, ref, ask{}); v != nil || err != nil {
		t.Errorf("got %v, %v", v, err)
	}
}

type echo struct {
	actor.Returns[int]
	n int
}

// Answers arrive late, early and never, askers give up: each answer that an ask returns
// is to its own request.
func TestConformanceAnswersBelongToTheirRequests(t *testing.T) {
	sys := newSystem(t)
	ref := actor.SpawnFunc(sys, "", func(ctx *actor.Context[echo], m echo) error {
		switch m.n % 3 {
		case 0:
			actor.Reply(ctx, m, m.n)
		case 1:
			p := actor.Promise(ctx, m)
			go p.Resolve(m.n)
		case 2:
			p := actor.Promise(ctx, m)
			go func() { runtime.Gosched(); p.Resolve(m.n) }()
		}
		return nil
	})
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := range 2000 {
				n := w*1_000_000 + i
				ctx, cancel := context.WithCancel(bg)
				if i%4 == 0 {
					go cancel()
				}
				got, err := actor.Ask(ctx, ref, echo{n: n})
				cancel()
				if err == nil && got != n {
					t.Errorf("asked %d, got the answer to %d", n, got)
				}
			}
		})
	}
	wg.Wait()
}

func TestConformanceAnAnsweredAskDoesNotTimeOut(t *testing.T) {
	sys := newSystem(t, actor.WithAskTimeout(time.Hour))
	ref := actor.SpawnFunc(sys, "", func(ctx *actor.Context[echo], m echo) error { actor.Reply(ctx, m, m.n); return nil })
	ctx, cancel := context.WithTimeout(bg, time.Hour)
	defer cancel()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range 5000 {
				if got, err := actor.Ask(ctx, ref, echo{n: i}); err != nil || got != i {
					t.Errorf("got %d, %v", got, err)
					return
				}
			}
		})
	}
	wg.Wait()
}

func TestConformanceAskThatTimesOutInAHandlerIsNoFailureOfTheAsker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := newSystem(t)
		silent := actor.SpawnFunc(sys, "", func(ctx *actor.Context[get], m get) error { actor.Promise(ctx, m); return nil })
		asker := actor.SpawnFunc(sys, "", func(ctx *actor.Context[any], m any) error {
			switch m := m.(type) {
			case string:
				_, err := actor.Ask(ctx, silent, get{})
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("got %v", err)
				}
			case get:
				actor.Reply(ctx, m, 1)
			}
			return nil
		})
		asker.Tell(bg, "ask")
		time.Sleep(time.Minute)
		if n := mustAsk(t, asker, get{}); n != 1 || sys.Stats().Failures != 0 {
			t.Errorf("answer %d, %d failures", n, sys.Stats().Failures)
		}
	})
}

func TestConformanceSpawnRunsNoRestartDelaysOnTheSpawner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := newSystem(t, actor.Supervise(actor.OneForOne, actor.Backoff(time.Hour, time.Hour), actor.MaxRestarts(3, 24*time.Hour)))
		began := time.Now()
		tries := 0
		ref := actor.Spawn(sys, "", func() *initFails { tries++; return &initFails{err: errBroken, fail: tries < 3} })
		if d := time.Since(began); d > 0 {
			t.Errorf("Spawn took %v", d)
		}
		ctx, cancel := context.WithTimeout(bg, 24*time.Hour)
		defer cancel()
		if n, err := actor.Ask(ctx, ref, get{}); n != 3 || err != nil {
			t.Errorf("got %d, %v", n, err)
		}
	})
}

func TestConformanceShutdownIsBoundedWhenAHandlerIsStuck(t *testing.T) {
	sys := actor.NewSystem("test", actor.WithLogger(newSystem(t).Log()))
	parent := actor.SpawnFunc(sys, "parent", func(ctx *actor.Context[hold], h hold) error {
		actor.Spawn(ctx, "child", newCounter).Tell(ctx, h)
		return nil
	})
	h := newHold()
	defer close(h.release)
	parent.Tell(bg, h)
	<-h.entered
	ctx, cancel := context.WithCancel(bg)
	cancel()
	report, err := sys.Shutdown(ctx)
	var paths []string
	for _, i := range report.Unfinished {
		paths = append(paths, i.Path)
	}
	if err == nil || fmt.Sprint(paths) != "[/parent/child]" {
		t.Errorf("got %v, %v", paths, err)
	}
}

// A shutdown with a deadline that is over at once, while others go on sending: each
// message is handled or a dead letter.
func TestConformanceShutdownAccountsForEveryMessage(t *testing.T) {
	for round := range 30 {
		sys := actor.NewSystem("test", quiet)
		var handled atomic.Uint64
		var refs []actor.Ref[int]
		for range 20 {
			refs = append(refs, actor.SpawnFunc(sys, "", func(_ *actor.Context[int], n int) error {
				handled.Add(1)
				if n%50 == 49 {
					return errBroken
				}
				return nil
			}))
		}
		const senders, each = 4, 500
		var wg sync.WaitGroup
		started := make(chan struct{}, senders)
		for s := range senders {
			wg.Go(func() {
				started <- struct{}{}
				for i := range each {
					refs[(s+i)%len(refs)].Tell(bg, i)
				}
			})
		}
		<-started
		ctx, cancel := context.WithCancel(bg)
		if round%2 == 0 {
			cancel() // no time to drain: what is left is killed
		}
		_, err := sys.Shutdown(ctx)
		cancel()
		if err != nil {
			t.Fatal(err)
		}
		wg.Wait()
		if dead := sys.Stats().DeadLetters; handled.Load()+dead != senders*each {
			t.Fatalf("round %d: %d handled + %d dead, want %d", round, handled.Load(), dead, senders*each)
		}
	}
}
