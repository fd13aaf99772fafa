package actortest_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/actortest"
)

// shop is the actor that most tests here work with: it asks a store and tells a log.
type (
	shopMsg interface{ shopMsg() }
	order   struct {
		actor.Returns[int]
		Item string
	}
	remind struct {
		After time.Duration
		Text  string
	}
	note struct{ Text string }
	fail struct{ Err error }
	quit struct{}
)

func (order) shopMsg()  {}
func (remind) shopMsg() {}
func (note) shopMsg()   {}
func (fail) shopMsg()   {}
func (quit) shopMsg()   {}

// price is what the shop asks the store.
type price struct {
	actor.Returns[int]
	Item string
}

type shop struct {
	store actor.Ref[price]
	log   actor.Ref[shopMsg]
}

func (s *shop) Receive(ctx *actor.Context[shopMsg], msg shopMsg) error {
	switch m := msg.(type) {
	case order:
		p, err := actor.Ask(ctx, s.store, price{Item: m.Item})
		if err != nil {
			actor.Promise(ctx, m).Reject(fmt.Errorf("price of %s: %w", m.Item, err))
			return nil
		}
		actor.Reply(ctx, m, 2*p)
	case remind:
		ctx.After(m.Text, m.After, note{m.Text})
	case note:
		s.log.Tell(ctx, m)
	case fail:
		return m.Err
	case quit:
		return actor.ErrStop
	}
	return nil
}

// open starts a shop between two probes.
func open(k *actortest.Kit) (actor.Ref[shopMsg], *actortest.Probe[price], *actortest.Probe[shopMsg]) {
	store, log := actortest.NewProbe[price](k), actortest.NewProbe[shopMsg](k)
	ref := actor.Spawn(k.System(), "shop", func() *shop { return &shop{store.Ref(), log.Ref()} },
		actor.Supervise(actor.OneForOne))
	return ref, store, log
}

func TestTimePassesOnlyWhenItIsAdvanced(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		ref, _, log := open(k)
		began := time.Now()
		ref.Tell(k.Context(), remind{time.Hour, "tea"})
		k.Settle()
		log.ExpectNone()
		if d := time.Since(began); d != 0 {
			k.T().Errorf("settling took %v", d)
		}
		k.Advance(time.Hour - time.Nanosecond)
		log.ExpectNone()
		k.Advance(time.Nanosecond)
		log.Expect(note{"tea"})
		log.ExpectNone()
		if got := log.Sender(); got != ref.PID() {
			k.T().Errorf("sender is %v, want %v", got, ref.PID())
		}
	})
}

func TestMessagesAreTakenInTheirOrder(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		p := actortest.NewProbe[any](k)
		for _, m := range []any{1, "two", note{"three"}, 4, 5} {
			p.Ref().Tell(k.Context(), m)
		}
		p.Expect(1)
		if s := actortest.ExpectMsg[string](p); s != "two" {
			k.T().Errorf("got %q", s)
		}
		if m := actortest.ExpectMsg[shopMsg](p); m != (note{"three"}) {
			k.T().Errorf("got %v", m)
		}
		if m := p.Next(); m != 4 {
			k.T().Errorf("got %v", m)
		}
		if all := p.All(); len(all) != 1 || all[0] != 5 {
			k.T().Errorf("got %v", all)
		}
		p.ExpectNone()
	})
}

func TestTheTestAnswersWhatTheActorAsks(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		ref, store, _ := open(k)
		call := actortest.Ask(k, ref, order{Item: "tea"})
		req := actortest.ExpectMsg[price](store)
		if !call.Pending() {
			k.T().Error("the order was answered before its price was known")
		}
		actortest.Reply(store, req, 21)
		if got := call.Answer(); got != 42 {
			k.T().Errorf("got %d, want 42", got)
		}
		if n := k.System().Stats().Failures; n != 0 {
			k.T().Errorf("%d failures", n)
		}
	})
}

func TestRequestsAreAnsweredInAnyOrder(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		store := actortest.NewProbe[price](k)
		tea, milk := actortest.Ask(k, store.Ref(), price{Item: "tea"}), actortest.Ask(k, store.Ref(), price{Item: "milk"})
		k.Settle()
		actortest.Reply(store, price{Item: "milk"}, 1)
		if milk.Pending() || !tea.Pending() {
			k.T().Error("the wrong one was answered")
		}
		actortest.Reply(store, price{Item: "tea"}, 2)
		if tea.Answer() != 2 || milk.Answer() != 1 {
			k.T().Errorf("got %d and %d", tea.Answer(), milk.Answer())
		}
	})
}

func TestARejectedRequestIsNoFailureOfTheProbe(t *testing.T) {
	errSoldOut := errors.New("sold out")
	actortest.Run(t, func(k *actortest.Kit) {
		ref, store, _ := open(k)
		call := actortest.Ask(k, ref, order{Item: "tea"})
		actortest.Reject(store, actortest.ExpectMsg[price](store), errSoldOut)
		if err := call.Err(); !errors.Is(err, errSoldOut) {
			k.T().Errorf("got %v", err)
		}
	})
}

func TestARequestOfAskForIsAnswered(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		p := actortest.NewProbe[string](k)
		var answer int
		var err error
		done := make(chan struct{})
		go func() {
			defer close(done)
			answer, err = actor.AskFor[int](k.Context(), p.Ref(), "how many")
		}()
		p.Expect("how many")
		actortest.ReplyFor(p, "how many", 7)
		<-done
		if answer != 7 || err != nil {
			k.T().Errorf("got %d, %v", answer, err)
		}
	})
}

func TestAProbeHandlesAsToldTo(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		ref, store, _ := open(k)
		store.Handle(func(ctx *actor.Context[price], m price) error {
			actor.Reply(ctx, m, len(m.Item))
			return nil
		})
		n, err := actor.Ask(k.Context(), ref, order{Item: "tea"}) // needs no second goroutine
		if n != 6 || err != nil {
			k.T().Errorf("got %d, %v", n, err)
		}
		store.Expect(price{Item: "tea"})
		store.Handle(nil)
		call := actortest.Ask(k, ref, order{Item: "milk"})
		if !call.Pending() {
			k.T().Error("handled after Handle(nil)")
		}
		actortest.Reply(store, price{Item: "milk"}, 1)
	})
}

func TestAnAskEndsWithItsContext(t *testing.T) {
	errEnough := errors.New("enough")
	actortest.Run(t, func(k *actortest.Kit) {
		store := actortest.NewProbe[price](k)
		ctx, cancel := context.WithCancelCause(k.Context())
		call := actortest.AskContext(ctx, k, store.Ref(), price{Item: "tea"})
		if !call.Pending() {
			k.T().Error("ended")
		}
		cancel(errEnough)
		if err := call.Err(); !errors.Is(err, errEnough) {
			k.T().Errorf("got %v", err)
		}
	})
}

func TestTimePassesWhileAnAnswerIsAwaited(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		store := actortest.NewProbe[price](k)
		store.Handle(func(ctx *actor.Context[price], m price) error {
			err := ctx.Sleep(time.Hour)
			actor.Reply(ctx, m, 3)
			return err
		})
		call := actortest.Ask(k, store.Ref(), price{Item: "tea"})
		if !call.Pending() || k.Elapsed() != 0 {
			k.T().Errorf("pending %v after %v", call.Pending(), k.Elapsed())
		}
		if n := call.Await().Answer(); n != 3 || k.Elapsed() != time.Hour {
			k.T().Errorf("got %d after %v", n, k.Elapsed())
		}
		late := actortest.Ask(k, store.Ref(), price{Item: "milk"}).Await()
		if n := late.Answer(); n != 3 || k.Elapsed() != 2*time.Hour {
			k.T().Errorf("got %d after %v", n, k.Elapsed())
		}
	}, actor.WithAskTimeout(2*time.Hour))
}

func TestEventsAreThoseOfTheTypeFromNowOn(t *testing.T) {
	errBroken := errors.New("broken")
	actortest.Run(t, func(k *actortest.Kit) {
		ref, _, _ := open(k)
		ref.Tell(k.Context(), fail{errBroken})
		k.ExpectFailures(1)
		failures, all := actortest.Events[actor.ActorFailed](k), actortest.Events[actor.Event](k)
		ref.Tell(k.Context(), fail{errBroken})
		k.ExpectFailures(1)
		if e := failures.Next(); e.PID != ref.PID() || !errors.Is(e.Err, errBroken) {
			k.T().Errorf("got %+v", e)
		}
		failures.ExpectNone()
		actortest.ExpectMsg[actor.ActorFailed](all)
		actortest.ExpectMsg[actor.ActorRestarted](all)
		all.ExpectNone()
	})
}

func TestAnAskThatNobodyAnswersTimesOutInVirtualTime(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		store := actortest.NewProbe[price](k)
		call := actortest.Ask(k, store.Ref(), price{Item: "tea"})
		k.Advance(time.Minute - time.Nanosecond)
		if !call.Pending() {
			k.T().Error("ended early")
		}
		k.Advance(time.Nanosecond)
		if err := call.Err(); !errors.Is(err, context.DeadlineExceeded) {
			k.T().Errorf("got %v", err)
		}
	}, actor.WithAskTimeout(time.Minute))
}

func TestDownSaysHowAnActorEnded(t *testing.T) {
	errBroken := errors.New("broken")
	actortest.Run(t, func(k *actortest.Kit) {
		once := actor.Supervise(actor.OneForOne, actor.Decide(func(error) actor.Directive { return actor.Stop }))
		boss := actor.SpawnFunc(k.System(), "boss", func(ctx *actor.Context[actor.Ref[actor.Ref[shopMsg]]], to actor.Ref[actor.Ref[shopMsg]]) error {
			to.Tell(ctx, actor.Spawn(ctx, "", func() *shop { return &shop{} }))
			return nil
		}, once)
		workers := actortest.NewProbe[actor.Ref[shopMsg]](k)
		for range 4 {
			boss.Tell(k.Context(), workers.Ref())
		}
		stopped, failed, killed, late := workers.Next(), workers.Next(), workers.Next(), workers.Next()
		for _, ref := range []actor.Ref[shopMsg]{stopped, failed, killed} {
			k.Watch(ref)
			k.Watch(ref) // twice is once
		}
		stopped.Tell(k.Context(), quit{})
		failed.Tell(k.Context(), fail{errBroken})
		killed.Kill()
		late.Stop()
		if d := actortest.ExpectDown(k, stopped); d.Reason != actor.Stopped || d.PID != stopped.PID() {
			k.T().Errorf("stopped: %+v", d)
		}
		if d := actortest.ExpectDown(k, failed); d.Reason != actor.Failed || !errors.Is(d.Err, errBroken) {
			k.T().Errorf("failed: %+v", d)
		}
		if d := actortest.ExpectDown(k, killed); d.Reason != actor.Killed {
			k.T().Errorf("killed: %+v", d)
		}
		if d := actortest.ExpectDown(k, late); d.Reason != actor.NoActor {
			k.T().Errorf("not watched in time: %+v", d)
		}
		if d := actortest.ExpectDown(k, stopped); d.Reason != actor.Stopped {
			k.T().Errorf("asked again: %+v", d)
		}
		k.ExpectFailures(1)
	})
}

func TestDeadLettersAreTakenInTheirOrder(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		ref, _, _ := open(k)
		k.ExpectNoDeadLetter()
		ref.Stop()
		k.Settle()
		ref.Tell(k.Context(), note{"a"})
		ref.Tell(k.Context(), remind{Text: "b"})
		d := actortest.ExpectDeadLetter[note](k)
		if d.Message != (note{"a"}) || d.To != ref.PID() || d.Reason != actor.NoActor {
			k.T().Errorf("got %+v", d)
		}
		actortest.ExpectDeadLetter[remind](k)
		k.ExpectNoDeadLetter()
		for range 300 { // more than the system keeps
			ref.Tell(k.Context(), note{"many"})
			actortest.ExpectDeadLetter[note](k)
		}
		k.ExpectNoDeadLetter()
	})
}

func TestFailuresThatAreAllowedPass(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		ref, _, log := open(k)
		ref.Tell(k.Context(), fail{errors.New("broken")})
		k.ExpectFailures(1)
		k.ExpectFailures(0)
		ref.Tell(k.Context(), note{"alive"})
		log.Expect(note{"alive"})
		k.AllowFailures()
		ref.Tell(k.Context(), fail{errors.New("broken again")})
		k.Settle()
		if !strings.Contains(k.Log(), "broken again") {
			k.T().Errorf("not in the log: %s", k.Log())
		}
	})
}

func TestAnUnansweredRequestDoesNotHoldUpTheEnd(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		ref, store, _ := open(k)
		actortest.Ask(k, ref, order{Item: "tea"})
		store.Next()
	}, actor.WithAskTimeout(24*time.Hour))
}

func TestACleanupOfTheTestStillHasTheSystem(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		_, _, log := open(k)
		k.T().Cleanup(func() {
			log.Ref().Tell(k.Context(), note{"late"})
			log.Expect(note{"late"})
		})
	})
}

// TestADeadlockFailsOneTestAndNamesWhoWaits runs this binary again for a test that
// must fail.
func TestADeadlockFailsOneTestAndNamesWhoWaits(t *testing.T) {
	for _, name := range []string{"TestHelperMainWaits", "TestHelperGoroutineWaits", "TestHelperHandlerWaits"} {
		cmd := exec.Command(os.Args[0], "-test.run=^("+name+"|TestHelperAfterwards)$", "-test.v")
		cmd.Env = append(os.Environ(), helperEnv+"=1")
		out, err := cmd.CombinedOutput()
		if err == nil {
			t.Errorf("%s passed:\n%s", name, out)
		}
		for _, want := range []string{"--- FAIL: " + name, "--- PASS: TestHelperAfterwards", "waitForEver"} {
			if !strings.Contains(string(out), want) {
				t.Errorf("%s: %q is not in\n%s", name, want, out)
			}
		}
		if strings.Contains(string(out), "panic:") {
			t.Errorf("%s ended the process:\n%s", name, out)
		}
	}
}

const helperEnv = "ACTORTEST_HELPER"

// inHelper reports whether this is the process that
// TestADeadlockFailsOneTestAndNamesWhoWaits has started. Elsewhere the helpers do nothing.
func inHelper() bool { return os.Getenv(helperEnv) != "" }

func waitForEver() { <-make(chan struct{}) }

func TestHelperMainWaits(t *testing.T) {
	if inHelper() {
		actortest.Run(t, func(*actortest.Kit) { waitForEver() })
	}
}

func TestHelperGoroutineWaits(t *testing.T) {
	if inHelper() {
		actortest.Run(t, func(*actortest.Kit) { go waitForEver() })
	}
}

func TestHelperHandlerWaits(t *testing.T) {
	if inHelper() {
		actortest.Run(t, func(k *actortest.Kit) {
			actor.SpawnFunc(k.System(), "stubborn", func(*actor.Context[int], int) error {
				waitForEver()
				return nil
			}).Tell(k.Context(), 1)
		})
	}
}

func TestHelperAfterwards(*testing.T) {}

func TestDoIsForProbesOfAnyType(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		p := actortest.NewProbe[string](k, actor.Bounded(1, actor.Reject))
		worker := actor.SpawnFunc(k.System(), "worker", func(*actor.Context[int], int) error { return nil })
		runs := 0
		actortest.Do(p, func(ctx *actor.Context[string]) error {
			runs++
			ctx.Watch(worker.PID(), func(d actor.Down) string { return d.Reason.String() })
			return nil
		})
		p.Ref().Tell(k.Context(), "") // what a prompt is, from somebody else
		p.Expect("")
		worker.Stop()
		p.Expect("stopped")
		p.ExpectNone()
		p.Ref().Stop()
		k.Settle()
		actortest.Do(p, func(*actor.Context[string]) error { runs++; return nil })
		if runs != 1 {
			t.Errorf("f ran %d times, want once and not after the probe's end", runs)
		}
	})
}
