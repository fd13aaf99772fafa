package actor_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-go/greenroom/actor"
)

// collect subscribes to the events of one kind and returns what has come so far.
func collect[E actor.Event](sys *actor.System) func() []E {
	var mu sync.Mutex
	var events []E
	actor.Subscribe(sys, actor.SpawnFunc(sys, "", func(_ *actor.Context[E], e E) error {
		mu.Lock()
		defer mu.Unlock()
		events = append(events, e)
		return nil
	}))
	return func() []E {
		mu.Lock()
		defer mu.Unlock()
		return append([]E(nil), events...)
	}
}

func blockHere(until chan struct{}) { <-until }

func TestAHandlerThatDoesNotReturnIsReportedWithItsStack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := newSystem(t)
		stuck := collect[actor.Stuck](sys)
		until := make(chan struct{})
		ref := actor.SpawnFunc(sys, "slow", func(*actor.Context[putItem], putItem) error {
			blockHere(until)
			return nil
		})
		sender := actor.SpawnFunc(sys, "sender", func(ctx *actor.Context[putItem], m putItem) error {
			ref.Tell(ctx, m)
			return nil
		})
		sender.Tell(bg, putItem{"x"})
		time.Sleep(10 * time.Second)

		events := stuck()
		if len(events) != 3 {
			t.Fatalf("%d events, want one at 100 ms, 1 s and 5 s: %+v", len(events), events)
		}
		for i, after := range []time.Duration{100 * time.Millisecond, time.Second, 5 * time.Second} {
			e := events[i]
			if e.PID != ref.PID() || e.MessageType != "actor_test.putItem" || e.Sender != sender.PID() {
				t.Errorf("event %d: %s handles %s from %s", i, e.PID, e.MessageType, e.Sender)
			}
			if e.For < after || e.For > after+after/2 {
				t.Errorf("event %d: for %v, want about %v", i, e.For, after)
			}
			if !strings.Contains(e.Stack, "blockHere") {
				t.Errorf("event %d: not the handler's stack:\n%s", i, e.Stack)
			}
		}
		close(until)
		synctest.Wait()
	})
}

func TestWaitingThroughTheRuntimeIsNotStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := newSystem(t)
		stuck := collect[actor.Stuck](sys)
		ref := actor.SpawnFunc(sys, "sleeper", func(ctx *actor.Context[putItem], m putItem) error {
			if m.name == "sleep" {
				return ctx.Sleep(time.Minute)
			}
			return actor.Blocking(ctx, func() error { time.Sleep(time.Minute); return nil })
		})
		ref.Tell(bg, putItem{"sleep"})
		ref.Tell(bg, putItem{"block"})
		time.Sleep(time.Hour)
		if events := stuck(); len(events) != 0 {
			t.Errorf("%+v", events)
		}
	})
}

func TestOverloadIsReportedAtEachDoublingAndWhenItIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := newSystem(t)
		overload := collect[actor.Overload](sys)
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
		flood.Tell(bg, 4500)
		synctest.Wait()
		events := overload()
		if len(events) != 3 {
			t.Fatalf("%d events, want those of 1024, 2048 and 4096: %+v", len(events), events)
		}
		for i, e := range events {
			if want := 1024 << i; e.Length < want || e.Length > want+2 || e.PID != ref.PID() {
				t.Errorf("event %d: %s has %d, want %d", i, e.PID, e.Length, want)
			}
			if len(e.Top) == 0 || e.Top[0].PID != flood.PID() {
				t.Errorf("event %d: top senders %+v", i, e.Top)
			}
		}
		close(until)
		synctest.Wait()
		if events = overload(); len(events) != 4 || events[3].Length != 0 {
			t.Errorf("recovery: %+v", events[3:])
		}
	})
}

func TestKillFencesAHandlerThatNeverReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := newSystem(t)
		until, gone := make(chan struct{}), make(chan actor.Down, 1)
		effects := make(chan string, 10)
		other := actor.SpawnFunc(sys, "other", func(_ *actor.Context[string], s string) error { effects <- s; return nil })
		receive := func(ctx *actor.Context[string], s string) error {
			if s == "hang" {
				blockHere(until)
				other.Tell(ctx, "from the dead")
			}
			effects <- s
			return nil
		}
		ref := actor.SpawnFunc(sys, "stuck", receive)
		watcher := actor.SpawnFunc(sys, "watcher", func(ctx *actor.Context[actor.Down], d actor.Down) error {
			if d.PID == (actor.PID{}) {
				ctx.Watch(ref.PID(), func(d actor.Down) actor.Down { return d })
				return nil
			}
			gone <- d
			return nil
		})
		watcher.Tell(bg, actor.Down{})
		synctest.Wait()
		ref.Tell(bg, "hang")
		synctest.Wait()
		ref.Tell(bg, "queued")
		ref.Kill()
		d := <-gone
		if d.Reason != actor.Killed {
			t.Errorf("reason %v", d.Reason)
		}
		again := actor.SpawnFunc(sys, "stuck", receive) // the name is free
		again.Tell(bg, "alive")
		if got := <-effects; got != "alive" {
			t.Errorf("got %q", got)
		}
		if n := sys.Stats().DeadLettersByReason[actor.Killed.String()]; n != 1 {
			t.Errorf("%d dead letters of the killed actor, want the queued one", n)
		}
		close(until) // what the old handler does now has no effect on anybody's turn
		synctest.Wait()
		again.Tell(bg, "still alive")
		for got := range effects {
			if got == "still alive" {
				break
			}
			if got == "from the dead" {
				t.Error("a fenced handler has sent a message")
			}
		}
	})
}

func TestAnAskThatClosesACycleNamesIt(t *testing.T) {
	type hop struct {
		actor.Returns[string]
		left int
	}
	sys := newSystem(t)
	refs := make([]actor.Ref[hop], 3)
	for i := range refs {
		refs[i] = actor.SpawnFunc(sys, fmt.Sprintf("n%d", i), func(ctx *actor.Context[hop], m hop) error {
			answer, err := actor.Ask(ctx, refs[(i+1)%len(refs)], hop{left: m.left - 1})
			if err != nil {
				answer = err.Error()
			}
			actor.Reply(ctx, m, answer)
			return nil
		})
	}
	ctx, cancel := context.WithTimeout(bg, time.Minute)
	defer cancel()
	got, err := actor.Ask(ctx, refs[0], hop{left: 5})
	if err != nil || !strings.Contains(got, "/n2 -> /n0 -> /n1 -> /n2") {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestManyHandlersThatBlockDoNotStallTheOthers(t *testing.T) {
	sys := newSystem(t)
	until := make(chan struct{})
	var refs []actor.Ref[int]
	for range 200 {
		refs = append(refs, actor.SpawnFunc(sys, "", func(*actor.Context[int], int) error { <-until; return nil }))
	}
	for _, r := range refs {
		r.Tell(bg, 1)
	}
	echo := actor.Spawn(sys, "", newCounter)
	if _, err := actor.Ask(bg, echo, get{}); err != nil { // within the ask timeout
		t.Error(err)
	}
	close(until)
}

func TestAsksInHandlersBlockNoWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := newSystem(t)
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
			}).Tell(bg, 0)
		}
		synctest.Wait()
		st := sys.Stats()
		if st.Waiting != askers {
			t.Errorf("%d handlers wait off stage, want %d", st.Waiting, askers)
		}
		if st.Workers > 8 {
			t.Errorf("%d workers for handlers that all wait", st.Workers)
		}
		for _, p := range promises {
			p.Resolve(1)
		}
		synctest.Wait()
		if answers != askers {
			t.Errorf("%d answers", answers)
		}
	})
}

func TestStopEndsAnAskInAHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := newSystem(t)
		type question struct{ actor.Returns[int] }
		silent := actor.SpawnFunc(sys, "silent", func(ctx *actor.Context[question], q question) error {
			actor.Promise(ctx, q)
			return nil
		})
		var got error
		asker := actor.SpawnFunc(sys, "asker", func(ctx *actor.Context[int], _ int) error {
			_, got = actor.Ask(ctx, silent, question{})
			return nil
		})
		asker.Tell(bg, 1)
		synctest.Wait()
		asker.Stop()
		synctest.Wait()
		if !errors.Is(got, context.Canceled) {
			t.Errorf("got %v", got)
		}
	})
}
