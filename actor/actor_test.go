package actor_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-go/greenroom/actor"
)

var bg = context.Background()

// newSystem returns a quiet system that must stop cleanly at the end of the test.
func newSystem(t testing.TB, opts ...actor.SystemOption) *actor.System {
	t.Helper()
	opts = append([]actor.SystemOption{actor.WithLogger(slog.New(slog.DiscardHandler))}, opts...)
	sys := actor.NewSystem("test", opts...)
	t.Cleanup(func() {
		if _, err := sys.Shutdown(bg); err != nil {
			t.Errorf("shutdown: %v", err)
		}
	})
	return sys
}

// counterMsg is the protocol of the counter that most tests use.
type counterMsg interface{ counterMsg() }

type (
	add  struct{ n int }
	get  struct{ actor.Returns[int] }
	fail struct{ err error }
	boom struct{ value any }
	hold struct{ entered, release chan struct{} }
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

func newHold() hold { return hold{make(chan struct{}), make(chan struct{})} }

type counter struct {
	n   int
	log *journal
}

// journal is a list of what happened that several goroutines write.
type journal struct {
	mu    sync.Mutex
	lines []string
}

func (j *journal) add(format string, args ...any) {
	if j == nil {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, fmt.Sprintf(format, args...))
}

func (j *journal) all() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.lines)
}

func (j *journal) expect(t *testing.T, want ...string) {
	t.Helper()
	if got := j.all(); !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func (c *counter) Init(ctx *actor.Context[counterMsg]) error {
	c.log.add("init %s", ctx.Self().PID().Path())
	return nil
}

func (c *counter) Terminate(ctx *actor.Context[counterMsg], why error) {
	c.log.add("terminate %s: %v", ctx.Self().PID().Path(), why)
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
		close(m.entered)
		<-m.release
	case quit:
		return actor.ErrStop
	}
	return nil
}

func newCounter() *counter { return &counter{} }

func mustAsk[R, M any](t testing.TB, ref actor.Ref[M], req actor.Request[R]) R {
	t.Helper()
	answer, err := actor.Ask(bg, ref, req)
	if err != nil {
		t.Fatalf("ask: %v", err)
	}
	return answer
}

// ended waits until the actor is gone and returns how.
func ended[M any](t testing.TB, sys *actor.System, ref actor.Ref[M]) func() actor.Down {
	t.Helper()
	downs := make(chan actor.Down, 1)
	watching := make(chan struct{})
	actor.SpawnFunc(sys, "", func(ctx *actor.Context[any], m any) error {
		switch m := m.(type) {
		case string:
			ctx.Watch(ref.PID(), func(d actor.Down) any { return d })
			close(watching)
		case actor.Down:
			downs <- m
			return actor.ErrStop
		}
		return nil
	}).Tell(bg, "watch")
	<-watching
	return func() actor.Down { return <-downs }
}

func TestTellThenAskSeesWhatWasTold(t *testing.T) {
	sys := newSystem(t)
	ref := actor.Spawn(sys, "counter", newCounter)
	for range 1000 {
		ref.Tell(bg, add{1})
	}
	if n := mustAsk(t, ref, get{}); n != 1000 {
		t.Errorf("counted %d, want 1000", n)
	}
}

func TestMessagesOfOneSenderKeepTheirOrder(t *testing.T) {
	sys := newSystem(t)
	const senders, each = 8, 5000
	var last [senders]int
	var wrong atomic.Int64
	type note struct{ sender, n int }
	done := make(chan struct{})
	count := 0
	ref := actor.SpawnFunc(sys, "", func(_ *actor.Context[note], m note) error {
		if m.n != last[m.sender]+1 {
			wrong.Add(1)
		}
		last[m.sender] = m.n
		if count++; count == senders*each {
			close(done)
		}
		return nil
	})
	for s := range senders {
		// Half of the senders are actors, half are goroutines.
		if s%2 == 0 {
			go func() {
				for i := range each {
					ref.Tell(bg, note{s, i + 1})
				}
			}()
			continue
		}
		actor.SpawnFunc(sys, "", func(ctx *actor.Context[int], n int) error {
			ref.Tell(ctx, note{s, n})
			if n < each {
				ctx.Self().Tell(ctx, n+1)
			}
			return nil
		}).Tell(bg, 1)
	}
	<-done
	if n := wrong.Load(); n > 0 {
		t.Errorf("%d messages out of order", n)
	}
}

func TestAskEndsWithTheHandlersError(t *testing.T) {
	sys := newSystem(t)
	cause := errors.New("no")
	ref := actor.SpawnFunc(sys, "x", func(*actor.Context[get], get) error { return cause })
	if _, err := actor.Ask(bg, ref, get{}); !errors.Is(err, cause) {
		t.Errorf("got %v, want %v", err, cause)
	}
}

func TestAskEndsWhenTheHandlerPanics(t *testing.T) {
	sys := newSystem(t)
	ref := actor.SpawnFunc(sys, "x", func(*actor.Context[get], get) error { panic("ouch") })
	_, err := actor.Ask(bg, ref, get{})
	var p *actor.PanicError
	if !errors.As(err, &p) || p.Value != "ouch" || !strings.Contains(string(p.Stack), "TestAskEndsWhenTheHandlerPanics") {
		t.Errorf("got %v, want a PanicError with the handler's stack", err)
	}
}

func TestAskThatNobodyAnswersEndsUnhandled(t *testing.T) {
	sys := newSystem(t)
	ref := actor.Spawn(sys, "x", newCounter)
	if _, err := actor.Ask(bg, ref, mute{}); !errors.Is(err, actor.ErrUnhandled) {
		t.Errorf("got %v, want ErrUnhandled", err)
	}
}

func TestAskOfAnActorThatIsGoneEndsAtOnce(t *testing.T) {
	sys := newSystem(t)
	ref := actor.Spawn(sys, "x", newCounter)
	down := ended(t, sys, ref)
	ref.Stop()
	down()
	if _, err := actor.Ask(bg, ref, get{}); !errors.Is(err, actor.ErrStopped) {
		t.Errorf("got %v, want ErrStopped", err)
	}
}

func TestAskQueuedAtAnActorThatStopsEnds(t *testing.T) {
	sys := newSystem(t)
	ref := actor.Spawn(sys, "x", newCounter)
	h := newHold()
	ref.Tell(bg, h)
	<-h.entered
	got := make(chan error)
	go func() {
		_, err := actor.Ask(bg, ref, get{})
		got <- err
	}()
	ref.Stop()
	close(h.release)
	if err := <-got; !errors.Is(err, actor.ErrStopped) {
		t.Errorf("got %v, want ErrStopped", err)
	}
}

func TestAskTimesOutAndItsLateAnswerIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := newSystem(t)
		type slow struct{ actor.Returns[string] }
		release := make(chan *actor.Promised[string], 2)
		ref := actor.SpawnFunc(sys, "x", func(ctx *actor.Context[slow], m slow) error {
			release <- actor.Promise(ctx, m)
			return nil
		})
		began := time.Now()
		_, err := actor.Ask(bg, ref, slow{})
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != 5*time.Second {
			t.Errorf("got %v after %v, want a deadline error after the default of 5 s", err, time.Since(began))
		}
		first := <-release
		if first.Resolve("late") {
			t.Error("a late answer found somebody waiting")
		}
		go func() { (<-release).Resolve("mine") }()
		if answer := mustAsk(t, ref, slow{}); answer != "mine" {
			t.Errorf("the second ask got %q", answer)
		}
	})
}

func TestAskEndsWithTheCauseOfItsContext(t *testing.T) {
	sys := newSystem(t)
	ref := actor.Spawn(sys, "x", newCounter)
	h := newHold()
	ref.Tell(bg, h)
	<-h.entered
	defer close(h.release)
	cause := errors.New("changed my mind")
	ctx, cancel := context.WithCancelCause(bg)
	cancel(cause)
	if _, err := actor.Ask(ctx, ref, get{}); !errors.Is(err, cause) {
		t.Errorf("got %v, want %v", err, cause)
	}
}

func TestHandlerSeesThatItsAskerGaveUp(t *testing.T) {
	sys := newSystem(t)
	seen, entered := make(chan error, 1), make(chan struct{})
	ref := actor.SpawnFunc(sys, "x", func(ctx *actor.Context[get], _ get) error {
		close(entered)
		<-ctx.Done()
		seen <- ctx.Err()
		return nil
	})
	ctx, cancel := context.WithCancel(bg)
	go func() { <-entered; cancel() }()
	_, _ = actor.Ask(ctx, ref, get{})
	if err := <-seen; !errors.Is(err, context.Canceled) {
		t.Errorf("the handler's context ended with %v", err)
	}
}

func TestRequestThatTheTargetDoesNotAcceptIsRefused(t *testing.T) {
	sys := newSystem(t)
	ref := actor.SpawnFunc(sys, "x", func(*actor.Context[int], int) error { return nil })
	if _, err := actor.Ask(bg, ref, get{}); !errors.Is(err, actor.ErrNotAccepted) {
		t.Errorf("got %v, want ErrNotAccepted", err)
	}
}

func TestAsksInHandlersDoNotUseUpTheWorkers(t *testing.T) {
	sys := newSystem(t)
	type sum struct {
		actor.Returns[int]
		depth int
	}
	var receive func(*actor.Context[sum], sum) error
	receive = func(ctx *actor.Context[sum], m sum) error {
		if m.depth == 0 {
			actor.Reply(ctx, m, 1)
			return nil
		}
		child := actor.SpawnFunc(ctx, "", receive)
		n, err := actor.Ask(ctx, child, sum{depth: m.depth - 1})
		actor.Reply(ctx, m, n+1)
		return err
	}
	// 200 handlers wait for each other at the same time, on a few workers.
	if n := mustAsk(t, actor.SpawnFunc(sys, "", receive), sum{depth: 200}); n != 201 {
		t.Errorf("got %d, want 201", n)
	}
}

func TestAskThatClosesACycleFailsAtOnce(t *testing.T) {
	sys := newSystem(t)
	type ask struct{ actor.Returns[error] }
	var a, b actor.Ref[ask]
	a = actor.SpawnFunc(sys, "a", func(ctx *actor.Context[ask], m ask) error {
		answer, err := actor.Ask(ctx, b, ask{})
		if err != nil {
			return err
		}
		actor.Reply(ctx, m, answer)
		return nil
	})
	b = actor.SpawnFunc(sys, "b", func(ctx *actor.Context[ask], m ask) error {
		_, err := actor.Ask(ctx, a, ask{})
		actor.Reply(ctx, m, err)
		return nil
	})
	if err := mustAsk(t, a, ask{}); !errors.Is(err, actor.ErrDeadlock) {
		t.Errorf("got %v, want ErrDeadlock", err)
	}
}

func TestHandlersThatBlockDoNotStarveOthers(t *testing.T) {
	sys := newSystem(t)
	release := make(chan struct{})
	defer close(release)
	n := 16 * runtime.GOMAXPROCS(0)
	var entered sync.WaitGroup
	entered.Add(n)
	for range n {
		actor.SpawnFunc(sys, "", func(*actor.Context[int], int) error {
			entered.Done()
			<-release
			return nil
		}).Tell(bg, 1)
	}
	entered.Wait() // all of them are in their handlers, at once
	if n := mustAsk(t, actor.Spawn(sys, "", newCounter), get{}); n != 0 {
		t.Errorf("got %d", n)
	}
}

func TestActorWokenByAHandlerThatThenBlocksIsServed(t *testing.T) {
	sys := newSystem(t)
	got := make(chan struct{})
	woken := actor.SpawnFunc(sys, "", func(*actor.Context[int], int) error { close(got); return nil })
	actor.SpawnFunc(sys, "", func(ctx *actor.Context[int], _ int) error {
		woken.Tell(ctx, 1)
		<-got
		return nil
	}).Tell(bg, 1)
	<-got
}

func TestRestartKeepsReferenceAndMailboxAndForgetsStateAndMessage(t *testing.T) {
	sys := newSystem(t)
	log := new(journal)
	ref := actor.Spawn(sys, "c", func() *counter { return &counter{log: log} })
	h := newHold()
	ref.Tell(bg, add{5})
	ref.Tell(bg, h)
	<-h.entered
	ref.Tell(bg, fail{errors.New("broken")})
	ref.Tell(bg, add{2})
	close(h.release)
	if n := mustAsk(t, ref, get{}); n != 2 {
		t.Errorf("after the restart the counter is %d, want 2: the state is fresh, the mail kept", n)
	}
	log.expect(t, "init /c", "terminate /c: broken", "init /c")
	if s := sys.Stats(); s.Failures != 1 || s.Restarts != 1 {
		t.Errorf("failures %d, restarts %d, want 1 and 1", s.Failures, s.Restarts)
	}
}

func TestPanicAndGoexitAreFailures(t *testing.T) {
	sys := newSystem(t)
	ref := actor.SpawnFunc(sys, "", func(_ *actor.Context[string], m string) error {
		if m == "exit" {
			runtime.Goexit()
		}
		panic(m)
	})
	alive := actor.Spawn(sys, "", newCounter)
	ref.Tell(bg, "panic")
	ref.Tell(bg, "exit")
	for sys.Stats().Restarts < 2 {
		mustAsk(t, alive, get{})
		runtime.Gosched()
	}
}

func TestActorThatFailsTooOftenIsStoppedAndItsWatcherTold(t *testing.T) {
	sys := newSystem(t, actor.Supervise(actor.OneForOne, actor.MaxRestarts(2, time.Minute)))
	ref := actor.Spawn(sys, "c", newCounter)
	down := ended(t, sys, ref)
	cause := errors.New("broken")
	for range 4 {
		ref.Tell(bg, fail{cause})
	}
	d := down()
	if d.Reason != actor.Failed || !errors.Is(d.Err, actor.ErrRestartBudget) || !errors.Is(d.Err, cause) {
		t.Errorf("got %v %v", d.Reason, d.Err)
	}
	if got := sys.Stats().DeadLettersByReason["failed"]; got != 1 {
		t.Errorf("%d dead letters, want the one message that was left", got)
	}
}

func TestRestartBudgetRefills(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := newSystem(t, actor.Supervise(actor.OneForOne, actor.MaxRestarts(1, time.Minute)))
		ref := actor.Spawn(sys, "c", newCounter)
		for range 5 {
			ref.Tell(bg, fail{errors.New("broken")})
			time.Sleep(time.Minute)
		}
		mustAsk(t, ref, get{})
	})
}

func TestBackoffDelaysTheRestartAndBlocksNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := newSystem(t, actor.Supervise(actor.OneForOne, actor.Backoff(time.Second, 4*time.Second)))
		ref, other := actor.Spawn(sys, "c", newCounter), actor.Spawn(sys, "d", newCounter)
		for n, base := range []time.Duration{1, 2, 4, 4} {
			ref.Tell(bg, fail{errors.New("broken")})
			synctest.Wait()
			began := time.Now()
			mustAsk(t, other, get{})
			if d := time.Since(began); d != 0 {
				t.Errorf("the other actor waited %v", d)
			}
			mustAsk(t, ref, get{})
			base *= time.Second
			if d := time.Since(began); d < base-base/8 || d > base+base/8 {
				t.Errorf("restart %d after %v, want about %v", n+1, d, base)
			}
		}
	})
}

func TestFailingInitIsAFailureForSpawnAndAnErrorForTrySpawn(t *testing.T) {
	sys := newSystem(t)
	cause := errors.New("no database")
	tries := 0
	ref := actor.Spawn(sys, "a", func() *initFails {
		tries++
		return &initFails{err: cause, fail: tries < 3}
	})
	if n := mustAsk(t, ref, get{}); n != 3 {
		t.Errorf("got %d", n)
	}
	_, err := actor.TrySpawn(sys, "b", func() *initFails { return &initFails{err: cause, fail: true} })
	if !errors.Is(err, cause) {
		t.Errorf("TrySpawn returned %v", err)
	}
	if _, err := actor.TrySpawn(sys, "b", newCounter); err != nil {
		t.Errorf("the name of an actor that did not start is still taken: %v", err)
	}
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
	sys := newSystem(t)
	log := new(journal)
	ref := actor.Spawn(sys, "c", func() *counter { return &counter{log: log} })
	down := ended(t, sys, ref)
	h := newHold()
	ref.Tell(bg, h)
	<-h.entered
	for i := range 100 {
		ref.Tell(bg, add{i})
	}
	ref.Stop()
	close(h.release)
	if d := down(); d.Reason != actor.Stopped || d.PID != ref.PID() || d.Err != nil {
		t.Errorf("got %+v", d)
	}
	log.expect(t, "init /c", "terminate /c: <nil>")
	ref.Tell(bg, add{1})
	if err := ref.TryTell(bg, add{1}); !errors.Is(err, actor.ErrStopped) {
		t.Errorf("TryTell returned %v", err)
	}
	s := sys.Stats().DeadLettersByReason
	if s["stopped"] != 100 || s["no_actor"] != 1 {
		t.Errorf("dead letters %v, want 100 stopped, 1 no_actor", s)
	}
	newest := sys.DeadLetters()[0]
	if newest.Reason != actor.NoActor || newest.To != ref.PID() || newest.Message != counterMsg(add{1}) || newest.Type != "actor_test.add" {
		t.Errorf("the newest dead letter is %+v", newest)
	}
}

func TestDrainHandlesWhatLiesInTheMailbox(t *testing.T) {
	sys := newSystem(t)
	var handled atomic.Int64
	entered, release := make(chan struct{}, 101), make(chan struct{})
	ref := actor.SpawnFunc(sys, "", func(*actor.Context[int], int) error {
		entered <- struct{}{}
		<-release
		handled.Add(1)
		return nil
	})
	down := ended(t, sys, ref)
	for i := range 100 {
		ref.Tell(bg, i)
	}
	<-entered
	ref.Drain()
	ref.Tell(bg, 101) // too late
	close(release)
	if d := down(); d.Reason != actor.Stopped || handled.Load() != 100 {
		t.Errorf("%v after %d messages, want stopped after 100", d.Reason, handled.Load())
	}
	if n := sys.Stats().DeadLetters; n != 1 {
		t.Errorf("%d dead letters, want 1", n)
	}
}

func TestKillSkipsTerminate(t *testing.T) {
	sys := newSystem(t)
	log := new(journal)
	ref := actor.Spawn(sys, "c", func() *counter { return &counter{log: log} })
	down := ended(t, sys, ref)
	ref.Kill()
	if d := down(); d.Reason != actor.Killed {
		t.Errorf("got %v", d.Reason)
	}
	log.expect(t, "init /c")
}

func TestErrStopAndContextStopAreNormalEnds(t *testing.T) {
	sys := newSystem(t)
	a := actor.Spawn(sys, "", newCounter)
	b := actor.SpawnFunc(sys, "", func(ctx *actor.Context[int], _ int) error { ctx.Stop(); return nil })
	downA, downB := ended(t, sys, a), ended(t, sys, b)
	a.Tell(bg, quit{})
	b.Tell(bg, 1)
	if d := downA(); d.Reason != actor.Stopped {
		t.Errorf("ErrStop: %v", d.Reason)
	}
	if d := downB(); d.Reason != actor.Stopped {
		t.Errorf("ctx.Stop: %v", d.Reason)
	}
	if n := sys.Stats().Failures; n != 0 {
		t.Errorf("%d failures", n)
	}
}

// family spawns two children with two children each and logs who comes and goes.
type family struct {
	log   *journal
	depth int
}

func (f *family) Init(ctx *actor.Context[any]) error {
	f.log.add("init %s", ctx.Self().PID().Path())
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
	f.log.add("end %s", ctx.Self().PID().Path())
}

func TestChildrenStopBeforeParentsInReverseOrder(t *testing.T) {
	sys := newSystem(t)
	log := new(journal)
	ref := actor.Spawn(sys, "f", func() *family { return &family{log, 2} })
	down := ended(t, sys, ref)
	ref.Stop()
	down()
	log.expect(t, "init /f", "init /f/a", "init /f/a/a", "init /f/a/b", "init /f/b", "init /f/b/a", "init /f/b/b",
		"end /f/b/b", "end /f/b/a", "end /f/b", "end /f/a/b", "end /f/a/a", "end /f/a", "end /f")
}

func TestRestartStopsTheChildrenFirst(t *testing.T) {
	sys := newSystem(t)
	log := new(journal)
	ref := actor.Spawn(sys, "f", func() *family { return &family{log, 1} })
	down := ended(t, sys, ref)
	ref.Tell(bg, errors.New("broken"))
	ref.Drain()
	down()
	log.expect(t, "init /f", "init /f/a", "init /f/b",
		"end /f/b", "end /f/a", "end /f", "init /f", "init /f/a", "init /f/b",
		"end /f/b", "end /f/a", "end /f")
}

func TestDownComesAfterTheTargetsLastMessage(t *testing.T) {
	sys := newSystem(t)
	const rounds = 200
	for range rounds {
		got := make(chan string, 1)
		seen := 0
		watcher := actor.SpawnFunc(sys, "", func(ctx *actor.Context[any], m any) error {
			switch m := m.(type) {
			case actor.PID:
				ctx.Watch(m, func(d actor.Down) any { return d })
			case int:
				seen++
			case actor.Down:
				got <- fmt.Sprintf("%v after %d", m.Reason, seen)
			}
			return nil
		})
		target := actor.SpawnFunc(sys, "", func(ctx *actor.Context[int], n int) error {
			for i := range n {
				watcher.Tell(ctx, i)
			}
			return actor.ErrStop
		})
		watcher.Tell(bg, target.PID())
		target.Tell(bg, 10)
		if s := <-got; s != "stopped after 10" && !strings.HasPrefix(s, "no_actor") {
			t.Fatalf("Down came %s messages, want 10", s)
		}
		watcher.Stop()
	}
}

func TestWatchOfNobodyIsAnsweredAtOnce(t *testing.T) {
	sys := newSystem(t)
	ref := actor.Spawn(sys, "", newCounter)
	first := ended(t, sys, ref)
	ref.Stop()
	first()
	if d := ended(t, sys, ref)(); d.Reason != actor.NoActor || d.PID != ref.PID() {
		t.Errorf("got %+v", d)
	}
}

func TestUnwatchedActorSendsNoDown(t *testing.T) {
	sys := newSystem(t)
	target := actor.Spawn(sys, "", newCounter)
	downs := 0
	watcher := actor.SpawnFunc(sys, "", func(ctx *actor.Context[any], m any) error {
		switch m := m.(type) {
		case string:
			ctx.Watch(target.PID(), func(d actor.Down) any { return d })
			ctx.Watch(target.PID(), func(d actor.Down) any { return d })
			ctx.Unwatch(target.PID())
			ctx.Watch(target.PID(), func(d actor.Down) any { return d })
		case actor.Down:
			downs++
		case get:
			actor.Reply(ctx, m, downs)
		}
		return nil
	})
	watcher.Tell(bg, "watch")
	mustAsk(t, watcher, get{})
	down := ended(t, sys, target)
	target.Stop()
	down()
	if n := mustAsk(t, watcher, get{}); n != 1 {
		t.Errorf("%d Downs, want one for the one watch that was left", n)
	}
}

func TestTimersFireInTimeAndNeverEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := newSystem(t)
		log := new(journal)
		began := time.Now()
		actor.SpawnFunc(sys, "", func(ctx *actor.Context[string], m string) error {
			log.add("%s at %v", m, time.Since(began))
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
		}).Tell(bg, "go")
		time.Sleep(time.Minute)
		log.expect(t, "go at 0s", "early at 1s", "replaced at 1s", "tick at 2s", "late at 3s")
		if n := sys.Stats().Timers; n != 0 {
			t.Errorf("%d timers are left", n)
		}
	})
}

func TestCanceledTimerIsNotDeliveredEvenIfItWaitsInTheMailbox(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := newSystem(t)
		log := new(journal)
		ref := actor.SpawnFunc(sys, "", func(ctx *actor.Context[string], m string) error {
			log.add("%s", m)
			if m == "go" {
				ctx.After("x", time.Second, "x")
				time.Sleep(2 * time.Second) // it fires now and waits
				ctx.Cancel("x")
			}
			return nil
		})
		ref.Tell(bg, "go")
		time.Sleep(5 * time.Second)
		log.expect(t, "go")
	})
}

func TestTimersDieWithTheIncarnation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := newSystem(t)
		ticks := 0
		ref := actor.SpawnFunc(sys, "", func(ctx *actor.Context[any], m any) error {
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
		ref.Tell(bg, "go")
		time.Sleep(3500 * time.Millisecond)
		ref.Tell(bg, errors.New("broken"))
		time.Sleep(time.Minute)
		synctest.Wait()
		if ticks != 3 {
			t.Errorf("%d ticks, want the 3 before the restart", ticks)
		}
	})
}

func TestTicksDoNotPileUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := newSystem(t)
		ticks := 0
		actor.SpawnFunc(sys, "", func(ctx *actor.Context[string], m string) error {
			if m == "go" {
				ctx.Every("tick", time.Second, "tick")
				time.Sleep(10*time.Second + time.Millisecond)
			} else {
				ticks++
			}
			return nil
		}).Tell(bg, "go")
		time.Sleep(10*time.Second + 500*time.Millisecond)
		synctest.Wait()
		if ticks != 1 {
			t.Errorf("%d ticks after a handler of ten periods, want 1", ticks)
		}
	})
}

func TestNames(t *testing.T) {
	sys := newSystem(t)
	ref := actor.Spawn(sys, "cart", newCounter)
	if p := ref.PID(); p.Path() != "/cart" || p.Node() != "test" {
		t.Errorf("PID %v", p)
	}
	if _, err := actor.TrySpawn(sys, "cart", newCounter); !errors.Is(err, actor.ErrNameTaken) {
		t.Errorf("a taken name gave %v", err)
	}
	for _, bad := range []string{"a/b", "$x", "a#b", "*-*"} {
		if _, err := actor.TrySpawn(sys, bad, newCounter); !errors.Is(err, actor.ErrBadName) {
			t.Errorf("%q gave %v", bad, err)
		}
	}
	a, b := actor.Spawn(sys, "w-*", newCounter), actor.Spawn(sys, "w-*", newCounter)
	if a.PID().Path() == b.PID().Path() || !strings.HasPrefix(a.PID().Path(), "/w-") {
		t.Errorf("generated names %v, %v", a, b)
	}
	func() {
		defer func() {
			if r := recover(); r == nil || !strings.Contains(fmt.Sprint(r), "TrySpawn") {
				t.Errorf("Spawn of a taken name: %v", r)
			}
		}()
		actor.Spawn(sys, "cart", newCounter)
	}()
	down := ended(t, sys, ref)
	ref.Stop()
	down()
	again, err := actor.TrySpawn(sys, "cart", newCounter)
	if err != nil {
		t.Errorf("the name is not free after Down: %v", err)
	}
	if again.PID() == ref.PID() {
		t.Error("the namesake has the same PID")
	}
	if _, err := actor.Lookup[counterMsg](sys, ref.PID()); !errors.Is(err, actor.ErrStopped) {
		t.Errorf("the old PID finds its namesake: %v", err)
	}
}

func TestNamedSpawnIsReachableAsSoonAsItsNameIs(t *testing.T) {
	sys := newSystem(t)
	for i := range 200 {
		name := fmt.Sprintf("n%d", i)
		stop, found := make(chan struct{}), make(chan int, 1)
		go func() {
			defer close(found)
			for {
				select {
				case <-stop:
					return
				default:
				}
				ref, err := actor.LookupPath[counterMsg](sys, "/"+name)
				if err != nil {
					continue
				}
				n, err := actor.Ask(bg, ref, get{})
				if err != nil {
					t.Errorf("ask: %v", err)
				}
				found <- n
				return
			}
		}()
		actor.Spawn(sys, name, newCounter)
		<-found
		close(stop)
	}
}

func TestLookup(t *testing.T) {
	sys := newSystem(t)
	for _, name := range []string{"", "c"} {
		ref := actor.Spawn(sys, name, newCounter)
		text, err := ref.PID().MarshalText()
		if err != nil {
			t.Fatal(err)
		}
		var pid actor.PID
		if err := pid.UnmarshalText(text); err != nil || pid != ref.PID() {
			t.Errorf("%s reads as %v, %v", text, pid, err)
		}
		if got, err := actor.Lookup[counterMsg](sys, pid); err != nil || got != ref {
			t.Errorf("Lookup(%v) = %v, %v", pid, got, err)
		}
		if _, err := actor.Lookup[int](sys, pid); !errors.Is(err, actor.ErrNotAccepted) {
			t.Errorf("Lookup as another type: %v", err)
		}
	}
	for _, bad := range []string{"", "x", "/a#1", "n/a", "n/a#!", "n#1/a"} {
		if _, err := actor.ParsePID(bad); !errors.Is(err, actor.ErrBadPID) {
			t.Errorf("ParsePID(%q) = %v", bad, err)
		}
	}
}

func TestSenderAndFamilyAreKnown(t *testing.T) {
	sys := newSystem(t)
	got := make(chan string, 1)
	var self actor.PID
	ref := actor.SpawnFunc(sys, "parent", func(ctx *actor.Context[int], _ int) error {
		self = ctx.Self().PID()
		child := actor.SpawnFunc(ctx, "child", func(ctx *actor.Context[int], _ int) error {
			got <- fmt.Sprint(ctx.Sender() == self, ctx.Parent() == self)
			return nil
		})
		child.Tell(ctx, 1)
		if kids := ctx.Children(); len(kids) != 1 || kids[0] != child.PID() {
			t.Errorf("children %v", kids)
		}
		return nil
	})
	ref.Tell(bg, 1)
	if s := <-got; s != "true true" {
		t.Errorf("sender and parent: %s", s)
	}
}

func TestShutdownDrainsAndReportsWhoWouldNotStop(t *testing.T) {
	sys := actor.NewSystem("test", actor.WithLogger(slog.New(slog.DiscardHandler)))
	good, stuck := actor.Spawn(sys, "good", newCounter), actor.Spawn(sys, "stuck", newCounter)
	h := newHold()
	stuck.Tell(bg, h)
	<-h.entered
	stuck.Tell(bg, add{1})
	stuck.Tell(bg, add{1})
	mustAsk(t, good, get{})
	ctx, cancel := context.WithCancel(bg)
	cancel()
	report, err := sys.Shutdown(ctx)
	if !errors.Is(err, context.Canceled) || len(report.Unfinished) != 1 || report.Unfinished[0].Path != "/stuck" {
		t.Errorf("got %+v, %v", report, err)
	}
	close(h.release)
	if _, err := sys.Shutdown(bg); err != nil {
		t.Errorf("once the handler has returned: %v", err)
	}
	if n := sys.Stats().DeadLettersByReason["killed"]; n != 2 {
		t.Errorf("%d dead letters by kill, want 2", n)
	}
}

func TestShutdownHandlesWhatIsQueued(t *testing.T) {
	sys := actor.NewSystem("test", actor.WithLogger(slog.New(slog.DiscardHandler)))
	var handled atomic.Int64
	for range 50 {
		ref := actor.SpawnFunc(sys, "", func(ctx *actor.Context[int], _ int) error {
			handled.Add(1)
			return nil
		})
		for i := range 100 {
			ref.Tell(bg, i)
		}
	}
	report, err := sys.Shutdown(bg)
	if err != nil || handled.Load() != 5000 || report.DeadLetters != 0 {
		t.Errorf("handled %d of 5000, %d dead letters, %v", handled.Load(), report.DeadLetters, err)
	}
	if _, err := actor.TrySpawn(sys, "", newCounter); !errors.Is(err, actor.ErrStopped) {
		t.Errorf("spawn after the shutdown: %v", err)
	}
}

func TestNothingIsLeftAfterShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // the bubble fails if a goroutine is left
		sys := actor.NewSystem("test", actor.WithLogger(slog.New(slog.DiscardHandler)))
		ref := actor.Spawn(sys, "f", func() *family { return &family{nil, 3} })
		actor.SpawnFunc(sys, "", func(ctx *actor.Context[int], _ int) error {
			ctx.Every("x", time.Second, 1)
			return nil
		}).Tell(bg, 1)
		time.Sleep(time.Minute)
		if _, err := sys.Shutdown(bg); err != nil {
			t.Error(err)
		}
		if s := sys.Stats(); s.Actors != 0 || s.Timers != 0 {
			t.Errorf("left: %+v", s)
		}
		ref.Tell(bg, 1)
	})
}

// Every message is handled, a dead letter or refused, exactly, whatever happens to
// its target meanwhile.
func TestNoMessageIsUnaccountedFor(t *testing.T) {
	for name, end := range map[string]func(actor.Ref[int]){
		"stop": actor.Ref[int].Stop, "drain": actor.Ref[int].Drain, "kill": actor.Ref[int].Kill,
	} {
		t.Run(name, func(t *testing.T) {
			sys := newSystem(t)
			const rounds, senders, each = 40, 4, 250
			for range rounds {
				var handled atomic.Uint64
				before := sys.Stats().DeadLetters
				ref := actor.SpawnFunc(sys, "", func(_ *actor.Context[int], n int) error {
					handled.Add(1)
					if n%100 == 99 {
						return errors.New("every hundredth")
					}
					return nil
				})
				down := ended(t, sys, ref)
				var wg sync.WaitGroup
				for range senders {
					wg.Go(func() {
						for i := range each {
							ref.Tell(bg, i)
						}
					})
				}
				wg.Go(func() { end(ref) })
				wg.Wait()
				down()
				if dead := sys.Stats().DeadLetters - before; handled.Load()+dead != senders*each {
					t.Fatalf("%d handled + %d dead, want %d", handled.Load(), dead, senders*each)
				}
			}
		})
	}
}

func TestInspectShowsTheTree(t *testing.T) {
	sys := newSystem(t)
	actor.Spawn(sys, "f", func() *family { return &family{nil, 1} })
	c := actor.Spawn(sys, "c", newCounter)
	h := newHold()
	c.Tell(bg, h)
	<-h.entered
	c.Tell(bg, add{1})
	root, err := sys.Inspect("/", 10)
	if err != nil || len(root.Children) != 2 || root.Info.Children != 2 || root.More {
		t.Fatalf("got %+v, %v", root, err)
	}
	f, i := root.Children[0], root.Children[1]
	if f.Path != "/f" || f.Type != "*actor_test.family" || f.State != "running" || f.Children != 2 {
		t.Errorf("family: %+v", f)
	}
	if i.Path != "/c" || i.PID != c.PID().String() || i.Mailbox < 1 {
		t.Errorf("counter: %+v", i)
	}
	if sub, err := sys.Inspect("/f", 1); err != nil || len(sub.Children) != 1 || !sub.More || sub.Children[0].Path != "/f/a" {
		t.Errorf("got %+v, %v", sub, err)
	}
	if _, err := sys.Inspect("/nobody", 1); !errors.Is(err, actor.ErrStopped) {
		t.Errorf("got %v", err)
	}
	close(h.release)
}

func TestTellOfAStructAllocatesNothing(t *testing.T) {
	sys := newSystem(t)
	type point struct{ x, y int }
	handled := 0
	ref := actor.SpawnFunc(sys, "", func(*actor.Context[point], point) error { handled++; return nil })
	stop, done := make(chan struct{}), make(chan float64, 1)
	actor.SpawnFunc(sys, "", func(ctx *actor.Context[int], _ int) error {
		done <- testing.AllocsPerRun(1000, func() { ref.Tell(ctx, point{1, 2}) })
		close(stop)
		return nil
	}).Tell(bg, 1)
	<-stop
	if n := <-done; n > 0.5 { // the buffer grows a few times on its way to a thousand
		t.Errorf("a tell allocates %.2f times", n)
	}
}

func TestZeroRefPanicsWithAText(t *testing.T) {
	defer func() {
		if r := recover(); r == nil || !strings.Contains(fmt.Sprint(r), "zero Ref[int]") {
			t.Errorf("got %v", r)
		}
	}()
	actor.Ref[int]{}.Tell(bg, 1)
}

// Whoever looks while an actor is being spawned sees nothing, or all of it.
func TestActorThatIsBeingSpawnedIsSeenCompleteOrNotAtAll(t *testing.T) {
	sys := newSystem(t)
	stop := make(chan struct{})
	var lookers sync.WaitGroup
	for range 2 {
		lookers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				tree, err := sys.Inspect("/", 1000)
				if err != nil {
					t.Error(err)
				}
				for _, c := range tree.Children {
					if _, err := actor.ParsePID(c.PID); err != nil {
						t.Error(err)
					}
					if ref, err := actor.LookupPath[counterMsg](sys, c.Path); err == nil && ref.PID().String() != c.PID && c.State != "stopped" {
						t.Errorf("%s has the address %s and %s", c.Path, c.PID, ref)
					}
				}
			}
		})
	}
	for i := range 300 {
		opts := []actor.SpawnOption{actor.Pinned(), actor.Inline(), actor.Weight(2)}[i%3]
		actor.Spawn(sys, fmt.Sprintf("n%d", i), newCounter, opts)
	}
	close(stop)
	lookers.Wait()
}
