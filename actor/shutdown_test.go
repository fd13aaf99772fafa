package actor_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/actortest"
)

func TestShutdownThatKillsSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := actortest.NewSystem(t)
		ref := actor.SpawnFunc(sys, "slow", func(ctx *actor.Context[int], _ int) error { return ctx.Sleep(time.Second) })
		const n = 1000
		for range n {
			ref.Tell(bg, 1)
		}
		late := errors.New("late")
		ctx, cancel := context.WithTimeoutCause(bg, 5500*time.Millisecond, late)
		defer cancel()
		report, err := sys.Shutdown(ctx)
		if !errors.Is(err, late) || !strings.Contains(err.Error(), "994 messages became dead letters") {
			t.Errorf("the error is %v", err)
		}
		if report.DeadLetters != n-6 || len(report.Unfinished) != 0 {
			t.Errorf("the report is %+v", report)
		}
	})
}

func TestTheReportOfShutdownIsExactWithManyMessagesAtItsDeadline(t *testing.T) {
	sys := actor.NewSystem("test", quiet)
	ref := actor.SpawnFunc(sys, "slow", func(ctx *actor.Context[int], _ int) error {
		<-ctx.Done()
		return nil
	})
	const n = 3_000_000
	for range n {
		ref.Tell(bg, 1)
	}
	ctx, cancel := context.WithTimeout(bg, time.Millisecond)
	defer cancel()
	report, err := sys.Shutdown(ctx)
	handled := sys.Stats().Handled
	if !errors.Is(err, context.DeadlineExceeded) || handled+report.DeadLetters != n || len(report.Unfinished) != 0 {
		t.Errorf("%d handled, report %+v, %v", handled, report, err)
	}
}

// slowObserver takes a millisecond for each message that is posted to a listener.
type slowObserver struct{}

func (slowObserver) Posted(actor.PID, int) { <-time.After(time.Millisecond) }
func (slowObserver) Received(actor.PID)    {}
func (slowObserver) Emptied(actor.PID)     {}

// The report waits for what is dropped as long as it gets on.
func TestTheReportOfShutdownIsExactWhereDeadLettersTakeLong(t *testing.T) {
	others := actortest.NewSystem(t)
	listener := actor.SpawnFunc(others, "", func(*actor.Context[actor.DeadLetter], actor.DeadLetter) error { return nil }, actor.ObserveMailbox(slowObserver{}))
	sys := actor.NewSystem("test", quiet)
	actor.Subscribe(sys, listener)
	ref := actor.SpawnFunc(sys, "slow", func(ctx *actor.Context[int], _ int) error {
		<-ctx.Done()
		return nil
	})
	const n = 500
	for range n {
		ref.Tell(bg, 1)
	}
	over, cancel := context.WithCancel(bg)
	cancel()
	report, err := sys.Shutdown(over)
	handled := sys.Stats().Handled
	if !errors.Is(err, context.Canceled) || handled+report.DeadLetters != n || len(report.Unfinished) != 0 {
		t.Errorf("%d handled, report %+v, %v", handled, report, err)
	}
}

func TestShutdownInAHandlerFailsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := actortest.NewSystem(t)
		errs := make(chan error, 2)
		ref := actor.SpawnFunc(sys, "a", func(ctx *actor.Context[int], _ int) error {
			_, err := sys.Shutdown(ctx)
			errs <- err
			derived, cancel := context.WithTimeout(ctx, time.Hour)
			defer cancel()
			_, err = sys.Shutdown(derived)
			errs <- err
			return nil
		})
		ref.Tell(bg, 1)
		failsAtOnce(t, errs)
		failsAtOnce(t, errs)
	})
}

// asksAtTheEnd asks in Terminate.
type asksAtTheEnd struct {
	whom actor.Ref[counterMsg]
	errs chan error
}

func (asksAtTheEnd) Receive(ctx *actor.Context[any], m any) error {
	if err, ok := m.(error); ok {
		return err
	}
	if m == "wait" {
		<-ctx.Done()
	}
	return nil
}

func (a asksAtTheEnd) Terminate(ctx *actor.Context[any], _ error) {
	_, err := actor.Ask(ctx, a.whom, get{})
	a.errs <- err
}

func TestTerminateMayAskHoweverTheActorEnds(t *testing.T) {
	for name, end := range map[string]func(ref actor.Ref[any], parent actor.Ref[any]){
		"Stop":               func(ref, _ actor.Ref[any]) { ref.Stop() },
		"Stop of the parent": func(_, parent actor.Ref[any]) { parent.Stop() },
		"Stop in a handler":  func(ref, _ actor.Ref[any]) { ref.Tell(bg, "wait"); synctest.Wait(); ref.Stop() },
		"Stop, twice":        func(ref, parent actor.Ref[any]) { ref.Stop(); parent.Stop() },
		"Drain":              func(ref, _ actor.Ref[any]) { ref.Drain() },
		"a failure":          func(ref, _ actor.Ref[any]) { ref.Tell(bg, errBroken) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sys := actortest.NewSystem(t)
				whom, errs := actor.Spawn(sys, "whom", newCounter), make(chan error, 1)
				children := make(chan actor.Ref[any], 1)
				parent := actor.SpawnFunc(sys, "parent", func(ctx *actor.Context[any], _ any) error {
					children <- actor.Spawn(ctx, "child", func() asksAtTheEnd { return asksAtTheEnd{whom, errs} })
					return nil
				})
				parent.Tell(bg, "spawn")
				end(<-children, parent)
				if err := <-errs; err != nil {
					t.Errorf("Terminate got %v", err)
				}
			})
		})
	}
}

func TestAnAskWhoseContextHasEndedIsNotSent(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		p := actortest.NewProbe[get](k)
		gone := errors.New("gone")
		ctx, cancel := context.WithCancelCause(k.Context())
		cancel(gone)
		if _, err := actor.Ask(ctx, p.Ref(), get{}); !errors.Is(err, gone) {
			k.T().Errorf("the ask ended with %v", err)
		}
		if _, err := actor.AskFuture(ctx, p.Ref(), get{}).Wait(k.Context()); !errors.Is(err, gone) {
			k.T().Errorf("the future ended with %v", err)
		}
		p.ExpectNone()
	})
}

// The message of a PipeTo that comes when its receiver has been shut down is not handled because of the shutdown, which
// waits for it and leaves it out of its report.
func TestTheReportOfShutdownCountsWhatAPipeSends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := actor.NewSystem("test", quiet)
		h := newHeld()
		to := actor.SpawnFunc(sys, "to", func(*actor.Context[int], int) error { return nil })
		asked := actor.SpawnFunc(sys, "asked", func(ctx *actor.Context[get], m get) error {
			actor.Reply(ctx, m, 1)
			return nil
		})
		actor.PipeTo(actor.AskFuture(bg, asked, get{}), to, func(n int, _ error) int {
			close(h.entered)
			<-h.release
			return n
		})
		<-h.entered
		reports := make(chan actor.Report, 1)
		go func() {
			report, err := sys.Shutdown(bg)
			if err != nil {
				t.Error(err)
			}
			reports <- report
		}()
		synctest.Wait() // until it waits for nothing else
		close(h.release)
		if report, n := <-reports, sys.Stats().DeadLetters; report.DeadLetters != n || n != 1 {
			t.Errorf("the report has %d dead letters, of %d", report.DeadLetters, n)
		}
	})
}

// A newer message has taken the place of each: that is no loss, and the shutdown has nothing to do with it.
func TestTheReportOfShutdownCountsNoReplacedMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := actortest.NewSystem(t)
		slow := actor.SpawnFunc(sys, "slow", func(ctx *actor.Context[int], _ int) error { return ctx.Sleep(time.Second) },
			actor.Conflate(func(int) int { return 0 }))
		actor.SpawnFunc(sys, "sender", func(ctx *actor.Context[int], _ int) error {
			if err := ctx.Sleep(time.Second); err != nil { // until the shutdown has begun
				return err
			}
			for i := range 100 {
				slow.Tell(ctx, i)
			}
			return nil
		}).Tell(bg, 1)
		report, err := sys.Shutdown(bg)
		if n := sys.Stats().DeadLettersByReason["conflated"]; err != nil || report.DeadLetters != 0 || n == 0 {
			t.Errorf("the report has %d dead letters, and %d were replaced: %v", report.DeadLetters, n, err)
		}
	})
}
