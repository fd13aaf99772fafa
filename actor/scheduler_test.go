package actor_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/actortest"
)

func blockHere(until chan struct{}) { <-until }

func TestAHandlerThatDoesNotReturnIsReportedWithItsStack(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		sys := k.System()
		stuck := actortest.Events[actor.Stuck](k)
		until := make(chan struct{})
		ref := actor.SpawnFunc(sys, "slow", func(*actor.Context[putItem], putItem) error {
			blockHere(until)
			return nil
		})
		sender := actor.SpawnFunc(sys, "sender", func(ctx *actor.Context[putItem], m putItem) error {
			ref.Tell(ctx, m)
			return nil
		})
		sender.Tell(k.Context(), putItem{"x"})
		k.Advance(10 * time.Second)

		events := stuck.All()
		if len(events) != 3 {
			k.T().Fatalf("%d events, want one at 100 ms, 1 s and 5 s: %+v", len(events), events)
		}
		for i, after := range []time.Duration{100 * time.Millisecond, time.Second, 5 * time.Second} {
			e := events[i]
			if e.PID != ref.PID() || e.MessageType != "actor_test.putItem" || e.Sender != sender.PID() {
				k.T().Errorf("event %d: %s handles %s from %s", i, e.PID, e.MessageType, e.Sender)
			}
			if e.For < after || e.For > after+after/2 {
				k.T().Errorf("event %d: for %v, want about %v", i, e.For, after)
			}
			if !strings.Contains(e.Stack, "blockHere") {
				k.T().Errorf("event %d: not the handler's stack:\n%s", i, e.Stack)
			}
		}
		close(until)
		k.Settle()
	})
}

func TestWaitingThroughTheRuntimeIsNotStuck(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		stuck := actortest.Events[actor.Stuck](k)
		ref := actor.SpawnFunc(k.System(), "sleeper", func(ctx *actor.Context[putItem], m putItem) error {
			if m.name == "sleep" {
				return ctx.Sleep(time.Minute)
			}
			return actor.Blocking(ctx, func() error { time.Sleep(time.Minute); return nil })
		})
		ref.Tell(k.Context(), putItem{"sleep"})
		ref.Tell(k.Context(), putItem{"block"})
		k.Advance(time.Hour)
		stuck.ExpectNone()
	})
}

func TestOverloadIsReportedAtEachDoublingAndWhenItIsOver(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		sys := k.System()
		overload := actortest.Events[actor.Overload](k)
		until := make(chan struct{})
		ref := actor.SpawnFunc(sys, "sink", func(*actor.Context[int], int) error {
			<-until
			return nil
		})
		flood := actor.SpawnFunc(sys, "flood", func(ctx *actor.Context[int], n int) error {
			for i := range n {
				ref.Tell(ctx, i)
			}
			return nil
		})
		flood.Tell(k.Context(), 4500)
		k.Advance(time.Second) // on one processor the runtime has to let another worker in
		events := overload.All()
		if len(events) != 3 {
			k.T().Fatalf("%d events, want those of 1024, 2048 and 4096: %+v", len(events), events)
		}
		for i, e := range events {
			if want := 1024 << i; e.Length < want || e.Length > want+2 || e.PID != ref.PID() {
				k.T().Errorf("event %d: %s has %d, want %d", i, e.PID, e.Length, want)
			}
			if len(e.Top) == 0 || e.Top[0].PID != flood.PID() {
				k.T().Errorf("event %d: top senders %+v", i, e.Top)
			}
		}
		close(until)
		if over := overload.All(); len(over) != 1 || over[0].Length != 0 {
			k.T().Errorf("recovery: %+v", over)
		}
	})
}

func TestKillFencesAHandlerThatNeverReturns(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		until, log := make(chan struct{}), actortest.NewJournal(k)
		other := actortest.NewProbe[string](k)
		receive := func(ctx *actor.Context[string], s string) error {
			if s == "hang" {
				blockHere(until)
				other.Ref().Tell(ctx, "from the dead")
			}
			log.Addf("%s", s)
			return nil
		}
		ref := actor.SpawnFunc(k.System(), "stuck", receive)
		k.Watch(ref)
		ref.Tell(k.Context(), "hang")
		k.Settle()
		ref.Tell(k.Context(), "queued")
		ref.Kill()
		k.Advance(time.Second) // the runtime gives it a moment to return
		if d := actortest.ExpectDown(k, ref); d.Reason != actor.Killed {
			k.T().Errorf("reason %v", d.Reason)
		}
		again := actor.SpawnFunc(k.System(), "stuck", receive) // the name is free
		again.Tell(k.Context(), "alive")
		log.Expect("alive")
		if n := k.System().Stats().DeadLettersByReason[actor.Killed.String()]; n != 1 {
			k.T().Errorf("%d dead letters of the killed actor, want the queued one", n)
		}
		close(until) // what the old handler does now has no effect on anybody's turn
		other.ExpectNone()
		again.Tell(k.Context(), "still alive")
		log.Expect("hang", "still alive")
	})
}

func TestAnAskThatClosesACycleNamesIt(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		type hop struct {
			actor.Returns[string]
			left int
		}
		refs := make([]actor.Ref[hop], 3)
		for i := range refs {
			refs[i] = actor.SpawnFunc(k.System(), fmt.Sprintf("n%d", i), func(ctx *actor.Context[hop], m hop) error {
				answer, err := actor.Ask(ctx, refs[(i+1)%len(refs)], hop{left: m.left - 1})
				if err != nil {
					answer = err.Error()
				}
				actor.Reply(ctx, m, answer)
				return nil
			})
		}
		ctx, cancel := context.WithTimeout(k.Context(), time.Minute)
		defer cancel()
		got, err := actor.Ask(ctx, refs[0], hop{left: 5})
		if err != nil || !strings.Contains(got, "/n2 -> /n0 -> /n1 -> /n2") {
			k.T().Errorf("got %q, %v", got, err)
		}
	})
}

func TestAsksInHandlersBlockNoWorker(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		sys := k.System()
		type question struct{ actor.Returns[int] }
		var promises []*actor.Promised[int]
		slow := actor.SpawnFunc(sys, "slow", func(ctx *actor.Context[question], q question) error {
			promises = append(promises, actor.Promise(ctx, q))
			return nil
		})
		const askers = 1000
		answers := 0
		sum := actor.SpawnFunc(sys, "sum", func(_ *actor.Context[int], n int) error { answers += n; return nil })
		for range askers {
			actor.SpawnFunc(sys, "", func(ctx *actor.Context[int], _ int) error {
				n, err := actor.Ask(ctx, slow, question{})
				sum.Tell(ctx, n)
				return err
			}).Tell(k.Context(), 0)
		}
		k.Settle()
		time.Sleep(time.Second) // who has stepped in for a worker that waited for a lock has gone home by then
		st := sys.Stats()
		if st.Waiting != askers {
			k.T().Errorf("%d handlers wait, want %d", st.Waiting, askers)
		}
		if st.Workers > 8 {
			k.T().Errorf("%d workers for handlers that all wait", st.Workers)
		}
		for _, p := range promises {
			p.Resolve(1)
		}
		k.Settle()
		if answers != askers {
			k.T().Errorf("%d answers", answers)
		}
	})
}

func TestStopEndsAnAskInAHandler(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		type question struct{ actor.Returns[int] }
		silent := actor.SpawnFunc(k.System(), "silent", func(ctx *actor.Context[question], q question) error {
			actor.Promise(ctx, q)
			return nil
		})
		var got error
		asker := actor.SpawnFunc(k.System(), "asker", func(ctx *actor.Context[int], _ int) error {
			_, got = actor.Ask(ctx, silent, question{})
			return nil
		})
		asker.Tell(k.Context(), 1)
		k.Settle()
		asker.Stop()
		k.Settle()
		if !errors.Is(got, context.Canceled) {
			k.T().Errorf("got %v", got)
		}
	})
}

func TestSleepEndsWhenTheActorIsToldToStop(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		var slept error
		ref := actor.SpawnFunc(k.System(), "sleeper", func(ctx *actor.Context[int], _ int) error {
			slept = ctx.Sleep(time.Hour)
			return nil
		})
		ref.Tell(k.Context(), 1)
		k.Settle()
		ref.Stop()
		if d := actortest.ExpectDown(k, ref); d.Reason != actor.NoActor && d.Reason != actor.Stopped {
			k.T().Errorf("got %v", d.Reason)
		}
		if !errors.Is(slept, context.Canceled) || k.Elapsed() != 0 {
			k.T().Errorf("slept %v, %v", k.Elapsed(), slept)
		}
	})
}

// What a killed handler does when it goes on reaches nobody, and it is told so; the ask
// that it was answering has an end.
func TestAHandlerThatWasLeftBehindReachesNobody(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		until := make(chan struct{})
		other := actortest.NewProbe[any](k)
		var told, asked error
		ref := actor.SpawnFunc(k.System(), "stuck", func(ctx *actor.Context[get], m get) error {
			blockHere(until)
			told = other.Ref().TryTell(ctx, "from the dead")
			_, asked = actor.Ask(ctx, other.Ref(), get{})
			actor.Reply(ctx, m, 1)
			return nil
		})
		call := actortest.Ask(k, ref, get{})
		k.Settle()
		ref.Kill()
		if err := call.Await().Err(); !errors.Is(err, actor.ErrStopped) || k.Elapsed() >= 5*time.Second {
			k.T().Errorf("the ask ended with %v after %v", err, k.Elapsed())
		}
		close(until)
		k.Settle()
		if !errors.Is(told, actor.ErrStopped) || !errors.Is(asked, context.Canceled) {
			k.T().Errorf("TryTell said %v, Ask said %v", told, asked)
		}
		other.ExpectNone()
	})
}

func TestShutdownNamesAHandlerThatWasLeftBehind(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		until := make(chan struct{})
		ref := actor.SpawnFunc(k.System(), "stuck", func(*actor.Context[int], int) error { blockHere(until); return nil })
		k.Watch(ref)
		ref.Tell(k.Context(), 1)
		k.Settle()
		ref.Kill()
		k.Advance(time.Second)
		actortest.ExpectDown(k, ref)
		ctx, cancel := context.WithTimeout(k.Context(), time.Second)
		defer cancel()
		report, err := k.System().Shutdown(ctx)
		if !errors.Is(err, context.DeadlineExceeded) || len(report.Unfinished) != 1 || report.Unfinished[0].Path != "/stuck" {
			k.T().Errorf("got %+v, %v", report, err)
		}
		close(until)
		if _, err := k.System().Shutdown(k.Context()); err != nil {
			k.T().Errorf("once the handler has returned: %v", err)
		}
	})
}

// The deadline of another call kills what is left: each call names the handler that still runs.
func TestEachOfSeveralShutdownsNamesAHandlerThatStillRuns(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		until := make(chan struct{})
		actor.SpawnFunc(k.System(), "stuck", func(*actor.Context[int], int) error { blockHere(until); return nil }).Tell(k.Context(), 1)
		k.Settle()
		var calls sync.WaitGroup
		for i := range 2 {
			calls.Go(func() {
				ctx, cancel := context.WithTimeout(k.Context(), time.Duration(i+1)*time.Second)
				defer cancel()
				report, err := k.System().Shutdown(ctx)
				if !errors.Is(err, context.DeadlineExceeded) || len(report.Unfinished) != 1 || report.Unfinished[0].Path != "/stuck" {
					k.T().Errorf("call %d: got %+v, %v", i, report, err)
				}
			})
		}
		calls.Wait()
		close(until)
	})
}

func TestShutdownSaysThatWorkOfAPipeStillRuns(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		until := make(chan struct{})
		actortest.Do(actortest.NewProbe[any](k), func(ctx *actor.Context[any]) error {
			actor.Pipe(ctx, func(context.Context) (int, error) { blockHere(until); return 0, nil }, func(int, error) any { return nil })
			return nil
		})
		ctx, cancel := context.WithTimeout(k.Context(), time.Second)
		defer cancel()
		if _, err := k.System().Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(fmt.Sprint(err), "work of a Pipe") {
			k.T().Errorf("got %v", err)
		}
		close(until)
	})
}

func TestTheErrorOfALongCycleNamesItsBeginningAndItsLength(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		refs := make([]actor.Ref[get], 20)
		for i := range refs {
			refs[i] = actor.SpawnFunc(k.System(), fmt.Sprintf("n%d", i), func(ctx *actor.Context[get], m get) error {
				_, err := actor.Ask(ctx, refs[(i+1)%len(refs)], m)
				return err
			})
		}
		err := actortest.Ask(k, refs[0], get{}).Err()
		if !errors.Is(err, actor.ErrDeadlock) || !strings.HasSuffix(err.Error(), ": /n19 -> /n0 -> /n1 -> /n2 -> /n3 -> /n4 -> /n5 -> /n6 -> /n7 -> /n8 -> /n9 -> (9 more)") {
			k.T().Errorf("got %v", err)
		}
		k.AllowFailures() // each handler returns what its ask returned
	})
}

func TestAMailboxOfSeveralBuffersKnowsItsOldestMessage(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		overload := actortest.Events[actor.Overload](k)
		until := make(chan struct{})
		var got []int
		ref := actor.SpawnFunc(k.System(), "sink", func(_ *actor.Context[int], n int) error {
			if n == 0 {
				<-until
			}
			got = append(got, n)
			return nil
		})
		ref.Tell(k.Context(), 0)
		k.Settle()
		const most = 5000
		for n := range most {
			if n == 1000 {
				k.Advance(10 * time.Second)
			}
			ref.Tell(k.Context(), n+1)
		}
		d, err := k.System().Detail(k.Context(), ref.PID())
		if err != nil || d.Mailbox != most || d.Oldest < 9*time.Second {
			k.T().Errorf("%d messages, the oldest for %v, %v; want %d and 10 s", d.Mailbox, d.Oldest, err, most)
		}
		close(until)
		k.Settle()
		if len(got) != most+1 || !slices.IsSorted(got) {
			k.T().Errorf("%d messages, in their order: %t", len(got), slices.IsSorted(got))
		}
		for _, e := range overload.All() {
			if e.Length > 0 && e.Oldest < 9*time.Second {
				k.T().Errorf("at %d messages the oldest is %v old", e.Length, e.Oldest)
			}
		}
	})
}

func TestABoundedMailboxThatIsNeverEmptyKnowsItsOldestMessage(t *testing.T) {
	for _, overflow := range []actor.Overflow{actor.Reject, actor.DropNewest, actor.DropOldest} {
		t.Run(overflow.String(), func(t *testing.T) {
			actortest.Run(t, func(k *actortest.Kit) {
				ref := actor.SpawnFunc(k.System(), "sink", func(*actor.Context[int], int) error {
					time.Sleep(time.Second)
					return nil
				}, actor.Bounded(8, overflow))
				for n := range 60 { // two a second: it is full from the fifth second on
					ref.Tell(k.Context(), n)
					k.Advance(time.Second / 2)
				}
				d, err := k.System().Detail(k.Context(), ref.PID())
				if err != nil {
					k.T().Fatal(err)
				}
				// It waits for the seven before it, and the one that is handled; DropOldest lets none wait for so long.
				if least := 3 * time.Second; d.Mailbox < 7 || d.Oldest < least || d.Oldest > 9*time.Second {
					k.T().Errorf("%d messages, the oldest for %v; want %v to 9 s", d.Mailbox, d.Oldest, least)
				}
			})
		})
	}
}

func TestABoundedMailboxIsOverloadedWhenItHasNoRoom(t *testing.T) {
	key := func(n int) int { return n }
	for name, opts := range map[string][]actor.SpawnOption{
		"Reject": {actor.Bounded(8, actor.Reject)}, "DropNewest": {actor.Bounded(8, actor.DropNewest)},
		"DropOldest": {actor.Bounded(8, actor.DropOldest)}, "Block": {actor.Bounded(8, actor.Block)},
		"with an order": {actor.Bounded(8, actor.Reject), actor.Priority(key)}, "one a key": {actor.Bounded(8, actor.DropOldest), actor.Conflate(key)},
	} {
		t.Run(name, func(t *testing.T) {
			actortest.Run(t, func(k *actortest.Kit) {
				overload := actortest.Events[actor.Overload](k)
				until := make(chan struct{})
				ref := actor.SpawnFunc(k.System(), "sink", func(*actor.Context[int], int) error { <-until; return nil }, opts...)
				flood := actor.SpawnFunc(k.System(), "flood", func(ctx *actor.Context[int], n int) error {
					for i := range n {
						ref.Tell(ctx, i)
					}
					return nil
				})
				for round := range 2 {
					ref.Tell(k.Context(), -1)
					k.Settle()
					flood.Tell(k.Context(), 8)
					k.Settle()
					overload.ExpectNone() // it is full, and nobody has found that so
					flood.Tell(k.Context(), 100)
					k.Advance(time.Second)
					events := overload.All()
					if len(events) != 1 || events[0].Length < 8 || events[0].Length > 9 || events[0].PID != ref.PID() {
						k.T().Fatalf("round %d: %+v", round, events)
					}
					if top := events[0].Top; len(top) != 1 || top[0].PID != flood.PID() || top[0].Messages != 8 {
						k.T().Errorf("round %d: senders %+v", round, top)
					}
					close(until)
					k.Settle()
					if over := overload.All(); len(over) != 1 || over[0].Length != 0 {
						k.T().Errorf("round %d: recovery: %+v", round, over)
					}
					until = make(chan struct{})
				}
				close(until)
			})
		})
	}
}

func TestAnUnboundedOrderIsOverloadedAsAPlainMailboxIs(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		overload := actortest.Events[actor.Overload](k)
		until := make(chan struct{})
		ref := actor.SpawnFunc(k.System(), "sink", func(*actor.Context[int], int) error { <-until; return nil }, actor.Priority(func(n int) int { return n }))
		for i := range 2100 {
			ref.Tell(k.Context(), i)
		}
		k.Settle()
		if events := overload.All(); len(events) != 2 || events[0].Length != 1024 || events[1].Length != 2048 {
			k.T().Errorf("%+v", events)
		}
		close(until)
		k.Settle()
		if over := overload.All(); len(over) != 1 || over[0].Length != 0 {
			k.T().Errorf("recovery: %+v", over)
		}
	})
}

func TestAHandlerThatBlocksAfterBlockingHoldsUpNobody(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // one worker handles all
	actortest.Run(t, func(k *actortest.Kit) {
		until := make(chan struct{})
		ref := actor.SpawnFunc(k.System(), "", func(ctx *actor.Context[int], _ int) error {
			err := actor.Blocking(ctx, func() error { time.Sleep(time.Hour); return nil }) // nobody looks any more
			<-until
			return err
		})
		opens := actor.SpawnFunc(k.System(), "", func(*actor.Context[int], int) error {
			close(until)
			return nil
		})
		ref.Tell(k.Context(), 1)
		k.Advance(time.Hour)
		opens.Tell(k.Context(), 1)
		k.Advance(time.Second)
		<-until
	})
}
