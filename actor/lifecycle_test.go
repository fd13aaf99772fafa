package actor_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/actortest"
)

// escalated spawns two children that fail at the same time.
type escalated struct{ incarnations *int }

func (e escalated) Init(ctx *actor.Context[any]) error {
	*e.incarnations++
	for range 2 {
		actor.SpawnFunc(ctx, "", func(*actor.Context[any], any) error { return errBroken }).Tell(ctx, 1)
	}
	return nil
}

func (escalated) Receive(*actor.Context[any], any) error { return nil }

func TestEscalationsThatComeTogetherAreOneFailure(t *testing.T) {
	sys := actortest.NewSystem(t, actor.Supervise(actor.OneForOne, actor.MaxRestarts(3, time.Minute), actor.Exhausted(actor.Stop)))
	incarnations := 0
	ref := actor.Spawn(sys, "e", func() escalated { return escalated{&incarnations} },
		actor.Supervise(actor.OneForOne, actor.Decide(func(error) actor.Directive { return actor.Escalate })))
	ended(t, sys, ref)()
	if incarnations != 4 {
		t.Errorf("%d incarnations, want the first and 3 restarts", incarnations)
	}
}

// heir tries to spawn a child when it ends.
type heir struct{ refused *atomic.Int32 }

func (heir) Receive(*actor.Context[int], int) error { return errBroken }

func (h heir) Terminate(ctx *actor.Context[int], _ error) {
	if _, err := actor.TrySpawnFunc(ctx, "late", inert); err != nil {
		h.refused.Add(1)
	}
}

func TestTerminateOfAnIncarnationThatIsReplacedLeavesNoChild(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := actortest.NewSystem(t)
		var refused atomic.Int32
		ref := actor.Spawn(sys, "x", func() heir { return heir{&refused} })
		for range 2 {
			ref.Tell(bg, 1)
		}
		synctest.Wait()
		info, err := sys.Inspect("/x", 5)
		if err != nil || info.Info.Restarts != 2 || info.Info.Children != 0 || refused.Load() != 2 {
			t.Errorf("%d spawns were refused, %+v, %v", refused.Load(), info.Info, err)
		}
	})
}

// exitsIn ends its goroutine, or panics, at the place that is named.
type exitsIn struct {
	place string
	inits *atomic.Int32
	echo  actor.Ref[counterMsg]
}

func (e *exitsIn) Init(*actor.Context[any]) error {
	if e.inits.Add(1)%2 == 0 && e.place == "Init" {
		runtime.Goexit()
	}
	return nil
}

func (e *exitsIn) Terminate(*actor.Context[any], error) {
	if e.place == "Terminate" {
		runtime.Goexit()
	}
}

func (e *exitsIn) Receive(ctx *actor.Context[any], m any) error {
	if g, ok := m.(get); ok {
		actor.Reply(ctx, g, 1)
		return nil
	}
	switch e.place {
	case "Receive":
		runtime.Goexit()
	case "Init", "Terminate":
		return errBroken
	case "Blocking":
		return actor.Blocking(ctx, func() error { runtime.Goexit(); return nil })
	case "Receive after an Ask":
		_, _ = actor.Ask(ctx, e.echo, get{})
		runtime.Goexit()
	case "Receive after a Sleep":
		_ = ctx.Sleep(time.Millisecond)
		runtime.Goexit()
	case "the answer of AskThen":
		if m == "go" {
			actor.AskThen(ctx, e.echo, get{}, func(int, error) any { runtime.Goexit(); return 1 })
		}
	case "Blocking after waits":
		return actor.Blocking(ctx, func() error {
			_, _ = actor.Ask(ctx, e.echo, get{})
			_ = ctx.Sleep(time.Millisecond)
			for range actor.Gather(ctx, []actor.Ref[counterMsg]{e.echo}, get{}) {
			}
			panic("broken")
		})
	}
	return nil
}

var errEndedWithAnother = errors.New("the asker's goroutine has ended in a handler")

func TestActorSurvivesTheEndOfItsGoroutineAnywhere(t *testing.T) {
	places := []string{"Receive", "Init", "Terminate", "Blocking", "Receive after an Ask", "Receive after a Sleep", "the answer of AskThen", "Blocking after waits"}
	for home, opts := range map[string][]actor.SpawnOption{"pool": nil, "pinned": {actor.Pinned()}, "inline": {actor.Inline()}} {
		for _, place := range places {
			t.Run(home+" "+place, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					sys := actortest.NewSystem(t, actor.Supervise(actor.OneForOne, actor.MaxRestarts(1000, time.Second)))
					echo, inits := actor.Spawn(sys, "", newCounter), new(atomic.Int32)
					ref := actor.Spawn(sys, "x", func() *exitsIn { return &exitsIn{place, inits, echo} }, opts...)
					for range 5 {
						told := make(chan struct{})
						go func() { // an inline actor ends its teller's
							defer close(told)
							ref.Tell(bg, "go")
						}()
						<-told
					}
					answered := make(chan error, 1)
					ask := func() {
						err := errEndedWithAnother
						defer func() { answered <- err }()
						_, err = actor.Ask(bg, ref, get{})
					}
					go ask()
					err := <-answered
					for home == "inline" && errors.Is(err, errEndedWithAnother) { // it had other mail to handle
						go ask()
						err = <-answered
					}
					if err != nil {
						t.Error(err)
					}
				})
			})
		}
	}
}

func TestReusedNameIsFreeAtTheDownAndGetsANewPID(t *testing.T) {
	sys := actortest.NewSystem(t)
	known := map[actor.PID]bool{}
	for i := range 300 {
		ref := actor.Spawn(sys, "x", newCounter)
		if known[ref.PID()] {
			t.Fatalf("%v a second time", ref.PID())
		}
		known[ref.PID()] = true
		down := ended(t, sys, ref)
		[]func(){ref.Stop, ref.Kill, ref.Drain}[i%3]()
		down()
	}
}

func TestOddNamesComeBackFromTheirText(t *testing.T) {
	sys := actortest.NewSystem(t)
	for _, name := range []string{" ", "\n", "é", "\x00", "\xff\xfe", ".", "..", "-", "%2f", "a$", "*", "a*b", "?", "\\", "#", strings.Repeat("x", 100_000)} {
		ref, err := actor.TrySpawnFunc(sys, name, inert)
		if err != nil {
			t.Logf("%.20q is no name: %v", name, err)
			continue
		}
		pid, err := actor.ParsePID(ref.PID().String())
		if err != nil || pid != ref.PID() {
			t.Errorf("%.20q: parsed as %v, %v", name, pid, err)
		}
		if _, err := actor.Lookup[any](sys, pid); err != nil {
			t.Errorf("%.20q: %v", name, err)
		}
	}
	if n := sys.Stats().Actors; n < 10 {
		t.Errorf("only %d names were taken", n)
	}
}

func TestSendersThatWaitForRoomGoOnHoweverTheActorEnds(t *testing.T) {
	for _, end := range []string{"Kill", "Stop", "Drain", "panic"} {
		t.Run(end, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sys := actortest.NewSystem(t)
				h := newHeld()
				ref := actor.SpawnFunc(sys, "x", func(_ *actor.Context[int], n int) error {
					if n == 0 {
						close(h.entered)
						<-h.release
						if end == "panic" {
							panic(end)
						}
					}
					return nil
				}, actor.Bounded(2, actor.Block))
				ref.Tell(bg, 0)
				<-h.entered
				const goroutines, handlers = 20, 5
				sent := make(chan error, goroutines+handlers)
				for range goroutines {
					go func() { sent <- ref.TryTell(bg, 1) }()
				}
				for range handlers {
					actor.SpawnFunc(sys, "", func(ctx *actor.Context[int], n int) error {
						sent <- ref.TryTell(ctx, n)
						return nil
					}).Tell(bg, 1)
				}
				synctest.Wait()
				map[string]func(){"Kill": ref.Kill, "Stop": ref.Stop, "Drain": ref.Drain, "panic": func() {}}[end]()
				if end == "Kill" {
					time.Sleep(fenceTime)
				} else {
					close(h.release)
				}
				synctest.Wait()
				if n := len(sent); n != goroutines+handlers {
					t.Fatalf("%d of %d senders wait", goroutines+handlers-n, goroutines+handlers)
				}
				for range goroutines + handlers {
					if err := <-sent; err != nil && (end == "panic" || !errors.Is(err, actor.ErrStopped)) {
						t.Error(err)
					}
				}
				if end == "Kill" {
					close(h.release)
				}
			})
		})
	}
}

func TestActorInheritsNoAlarmFromOneThatStoppedWhileOverloaded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := actortest.NewSystem(t)
		overload := collect[actor.Overload](sys)
		for round := range 4 {
			h := newHeld()
			first := true
			ref := actor.SpawnFunc(sys, fmt.Sprint("x", round), func(*actor.Context[int], int) error {
				if first {
					first = false
					close(h.entered)
					<-h.release
				}
				return nil
			})
			ref.Tell(bg, 0)
			<-h.entered
			for n := range 4500 {
				ref.Tell(bg, n)
			}
			synctest.Wait()
			ref.Stop()
			close(h.release)
			synctest.Wait()
			for range 300 { // use up what it has given back
				actor.Spawn(sys, "", newCounter).Tell(bg, add{1})
			}
			synctest.Wait()
			events := overload()
			if len(events) != 3*(round+1) {
				t.Fatalf("round %d: %d events, want 3 a round", round, len(events))
			}
			for _, e := range events[3*round:] {
				if e.PID != ref.PID() || e.Length == 0 {
					t.Errorf("round %d: %+v", round, e)
				}
			}
		}
	})
}

func TestKeyThatChangesItsMindLaterHoldsUpNobody(t *testing.T) {
	type msg struct{ bad *atomic.Bool }
	sys := actortest.NewSystem(t)
	var bad atomic.Bool
	h, handled := newHeld(), 0
	ref := actor.SpawnFunc(sys, "x", func(*actor.Context[msg], msg) error {
		if handled++; handled == 1 {
			close(h.entered)
			<-h.release
		}
		return nil
	}, actor.Conflate(func(m msg) int {
		if m.bad.Load() {
			panic("no key any more")
		}
		return 1
	}))
	down := ended(t, sys, ref)
	ref.Tell(bg, msg{&bad})
	<-h.entered
	ref.Tell(bg, msg{&bad})
	bad.Store(true) // what is queued has no key now
	ref.Drain()
	close(h.release)
	if d := down(); d.Reason != actor.Stopped || handled != 2 {
		t.Errorf("%v after %d messages", d.Reason, handled)
	}
}

func TestHeaderOfADerivedContextMayBeReadWhileTheActorGoesOn(t *testing.T) {
	sys := actortest.NewSystem(t, actor.BeforeSend(func(_ context.Context, s *actor.Sending) error { s.Header = actor.Header{"a": "b"}; return nil }))
	sink := actor.SpawnFunc(sys, "sink", func(*actor.Context[int], int) error { return nil })
	const n = 500
	told, handled := make(chan struct{}), make(chan struct{})
	ref := actor.SpawnFunc(sys, "x", func(ctx *actor.Context[int], i int) error {
		switch i {
		case 0:
			derived, cancel := context.WithCancel(ctx)
			go func() {
				defer close(told)
				defer cancel()
				for range n {
					sink.Tell(derived, 1) // -race sees what is read without a lock
				}
			}()
		case n - 1:
			close(handled)
		}
		return nil
	})
	for i := range n {
		ref.Tell(bg, i)
	}
	<-told
	<-handled
	if _, err := sys.Shutdown(bg); err != nil || sys.Stats().Handled != 2*n {
		t.Errorf("%d handled, %v", sys.Stats().Handled, err)
	}
}

func TestGoroutinesOfAHandlerThatWaitDisturbNoCountOfWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := actortest.NewSystem(t, actor.WithAskTimeout(time.Hour))
		promises := make(chan *actor.Promised[int], 100)
		slow := actor.SpawnFunc(sys, "slow", func(ctx *actor.Context[get], m get) error {
			promises <- actor.Promise(ctx, m)
			return nil
		})
		h, answers := newHeld(), make(chan error, 100)
		actor.SpawnFunc(sys, "x", func(ctx *actor.Context[int], _ int) error {
			for range cap(answers) {
				derived, cancel := context.WithCancel(ctx)
				go func() {
					defer cancel()
					_, err := actor.Ask(derived, slow, get{})
					answers <- err
				}()
			}
			close(h.entered)
			<-h.release
			return nil
		}).Tell(bg, 1)
		<-h.entered
		synctest.Wait()
		if n := sys.Stats().Workers; n < 1 || n > runtime.GOMAXPROCS(0)+1 {
			t.Errorf("%d workers while one handler blocks", n)
		}
		for range cap(answers) {
			(<-promises).Resolve(1)
		}
		for range cap(answers) {
			if err := <-answers; err != nil {
				t.Error(err)
			}
		}
		close(h.release)
	})
}
