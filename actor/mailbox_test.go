package actor_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-go/greenroom/actor"
)

// gated is an actor whose first message, "hold", waits in the handler until it is
// released, so that the mailbox fills up behind it.
type gated struct {
	ref     actor.Ref[string]
	entered chan struct{}
	release chan struct{}
	log     *journal
}

func spawnGated(sys *actor.System, opts ...actor.SpawnOption) gated {
	g := gated{entered: make(chan struct{}), release: make(chan struct{}), log: new(journal)}
	g.ref = actor.SpawnFunc(sys, "", func(_ *actor.Context[string], m string) error {
		if m == "hold" {
			close(g.entered)
			<-g.release
			return nil
		}
		g.log.add("%s", m)
		return nil
	}, opts...)
	g.ref.Tell(bg, "hold")
	<-g.entered
	return g
}

// finish releases the actor and returns what it handled.
func (g gated) finish(t *testing.T, sys *actor.System) []string {
	t.Helper()
	down := ended(t, sys, g.ref)
	g.ref.Drain()
	close(g.release)
	down()
	return g.log.all()
}

func TestBoundedMailboxes(t *testing.T) {
	for _, c := range []struct {
		overflow actor.Overflow
		handled  []string
		dead     []any
		err      error
	}{
		{actor.Reject, []string{"1", "2", "3"}, []any{"4"}, actor.ErrMailboxFull},
		{actor.DropNewest, []string{"1", "2", "3"}, []any{"5", "4"}, nil},
		{actor.DropOldest, []string{"3", "4", "5"}, []any{"2", "1"}, nil},
	} {
		t.Run(fmt.Sprint(c.overflow), func(t *testing.T) {
			sys := newSystem(t)
			g := spawnGated(sys, actor.Bounded(3, c.overflow))
			for _, m := range []string{"1", "2", "3", "4"} {
				g.ref.Tell(bg, m)
			}
			if err := g.ref.TryTell(bg, "5"); !errors.Is(err, c.err) {
				t.Errorf("TryTell returned %v, want %v", err, c.err)
			}
			expectLines(t, g.finish(t, sys), c.handled...)
			var dead []any
			for _, d := range sys.DeadLetters() {
				dead = append(dead, d.Message)
				if d.Reason != actor.Overflowed {
					t.Errorf("reason %v", d.Reason)
				}
			}
			if !slices.Equal(dead, c.dead) {
				t.Errorf("dead letters %v, want %v", dead, c.dead)
			}
		})
	}
}

func TestBlockingMailboxLetsTryTellAndAskWaitForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := newSystem(t)
		g := spawnGated(sys, actor.Bounded(1, actor.Block))
		g.ref.Tell(bg, "1")
		g.ref.Tell(bg, "lost")
		ctx, cancel := context.WithTimeout(bg, time.Second)
		defer cancel()
		if err := g.ref.TryTell(ctx, "never"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		told := make(chan error)
		go func() { told <- g.ref.TryTell(bg, "2") }()
		synctest.Wait() // it waits
		close(g.release)
		if err := <-told; err != nil {
			t.Errorf("got %v", err)
		}
		synctest.Wait()
		g.log.expect(t, "1", "2")
		if s := sys.Stats().DeadLettersByReason; s["overflowed"] != 1 || len(s) != 1 {
			t.Errorf("dead letters %v", s)
		}
	})
}

func TestSenderThatWaitsForRoomLearnsThatTheActorHasStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := newSystem(t)
		g := spawnGated(sys, actor.Bounded(1, actor.Block))
		g.ref.Tell(bg, "1")
		told := make(chan error)
		go func() { told <- g.ref.TryTell(bg, "2") }()
		synctest.Wait()
		g.ref.Stop()
		close(g.release)
		if err := <-told; !errors.Is(err, actor.ErrStopped) {
			t.Errorf("got %v", err)
		}
	})
}

func TestTimersAndDownsFindRoomInAFullMailbox(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := newSystem(t)
		log := new(journal)
		other := actor.Spawn(sys, "other", newCounter)
		ref := actor.SpawnFunc(sys, "", func(ctx *actor.Context[string], m string) error {
			log.add("%s", m)
			if m == "go" {
				ctx.Watch(other.PID(), func(d actor.Down) string { return "down " + d.Reason.String() })
				ctx.After("t", time.Second, "timer")
				return ctx.Sleep(5 * time.Second)
			}
			return nil
		}, actor.Bounded(1, actor.Reject))
		ref.Tell(bg, "go")
		synctest.Wait()
		ref.Tell(bg, "fills it")
		other.Stop()
		time.Sleep(time.Minute)
		log.expect(t, "go", "fills it", "down stopped", "timer")
	})
}

func TestPriorityMailboxHandlesTheMostUrgentFirstAndEqualsInOrder(t *testing.T) {
	sys := newSystem(t)
	g := spawnGated(sys, actor.Priority(func(m string) int { return int(m[0] - '0') }))
	for _, m := range []string{"1a", "5a", "3a", "5b", "1b", "3b"} {
		g.ref.Tell(bg, m)
	}
	expectLines(t, g.finish(t, sys), "5a", "5b", "3a", "3b", "1a", "1b")
}

func TestBoundedPriorityMailboxDropsTheLeastUrgent(t *testing.T) {
	sys := newSystem(t)
	g := spawnGated(sys, actor.Priority(func(m string) int { return int(m[0] - '0') }), actor.Bounded(2, actor.DropOldest))
	for _, m := range []string{"1a", "5a", "1b", "3a"} {
		g.ref.Tell(bg, m)
	}
	expectLines(t, g.finish(t, sys), "5a", "3a")
}

func TestConflatingMailboxKeepsTheNewestOfEachKeyInTheOldestsPlace(t *testing.T) {
	sys := newSystem(t)
	g := spawnGated(sys, actor.Conflate(func(m string) byte { return m[0] }))
	for _, m := range []string{"a1", "b1", "a2", "c1", "a3", "b2"} {
		g.ref.Tell(bg, m)
	}
	expectLines(t, g.finish(t, sys), "a3", "b2", "c1")
	if s := sys.Stats().DeadLettersByReason; s["conflated"] != 3 {
		t.Errorf("dead letters %v", s)
	}
}

// A model of the bounded conflating mailbox: whatever is told, what is handled and what
// is dead add up, and no key is handled out of order.
func TestConflatingBoundedMailboxAddsUp(t *testing.T) {
	sys := newSystem(t)
	r := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		before := sys.Stats().DeadLetters
		g := spawnGated(sys, actor.Conflate(func(m string) byte { return m[0] }), actor.Bounded(3, actor.DropOldest))
		const n = 40
		for i := range n {
			g.ref.Tell(bg, fmt.Sprintf("%c%02d", 'a'+r.IntN(6), i))
		}
		handled := g.finish(t, sys)
		if dead := sys.Stats().DeadLetters - before; int(dead)+len(handled) != n {
			t.Fatalf("%d dead + %d handled, want %d", dead, len(handled), n)
		}
		seen := map[byte]bool{}
		for _, m := range handled {
			if seen[m[0]] {
				t.Fatalf("key %c twice in %v", m[0], handled)
			}
			seen[m[0]] = true
		}
	}
}

func TestMailboxOptionForAnotherMessageTypeIsRefused(t *testing.T) {
	sys := newSystem(t)
	_, err := actor.TrySpawn(sys, "", newCounter, actor.Priority(func(int) int { return 0 }))
	if !errors.Is(err, actor.ErrNotAccepted) {
		t.Errorf("got %v", err)
	}
}

func TestPinnedActorKeepsItsThreadAndSurvivesPanicAndGoexit(t *testing.T) {
	sys := newSystem(t)
	ref := actor.SpawnFunc(sys, "pin", func(ctx *actor.Context[any], m any) error {
		switch m := m.(type) {
		case string:
			if m == "exit" {
				runtime.Goexit()
			}
			panic(m)
		case get:
			actor.Reply(ctx, m, 1)
		}
		return nil
	}, actor.Pinned())
	mustAsk(t, ref, get{})
	ref.Tell(bg, "panic")
	ref.Tell(bg, "exit")
	mustAsk(t, ref, get{})
	if n := sys.Stats().Restarts; n != 2 {
		t.Errorf("%d restarts, want 2", n)
	}
	_, err := actor.TrySpawn(sys, "", func() *initFails { return &initFails{err: errBroken, fail: true} }, actor.Pinned())
	if !errors.Is(err, errBroken) {
		t.Errorf("got %v", err)
	}
}

func TestInlineActorHandlesOnTheSendersGoroutine(t *testing.T) {
	sys := newSystem(t)
	n := 0
	ref := actor.SpawnFunc(sys, "", func(ctx *actor.Context[int], m int) error {
		n += m
		if m == 1 {
			ctx.Self().Tell(ctx, 10) // handled after this message, not within it
			if n != 1 {
				t.Error("reentered")
			}
		}
		return nil
	}, actor.Inline())
	ref.Tell(bg, 1)
	if n != 11 {
		t.Errorf("after Tell n is %d, want 11", n)
	}
}

func TestInlineActorHasOneHandlerAtATime(t *testing.T) {
	sys := newSystem(t)
	var inside, wrong atomic.Int64
	handled := 0
	ref := actor.SpawnFunc(sys, "", func(ctx *actor.Context[any], m any) error {
		if inside.Add(1) > 1 {
			wrong.Add(1)
		}
		handled++
		inside.Add(-1)
		if r, ok := m.(get); ok {
			actor.Reply(ctx, r, handled)
		}
		return nil
	}, actor.Inline())
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 1000 {
				ref.Tell(bg, 1)
			}
		})
	}
	wg.Wait()
	if n := mustAsk(t, ref, get{}); n != 4001 || wrong.Load() > 0 {
		t.Errorf("handled %d, overlaps %d", n, wrong.Load())
	}
}

func TestLinkedActorFailsWithTheOther(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(actor.Ref[counterMsg])
		want bool
	}{
		{"killed", actor.Ref[counterMsg].Kill, true},
		{"stopped", actor.Ref[counterMsg].Stop, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sys := newSystem(t)
				events := actor.Spawn(sys, "events", newRecorder)
				actor.Subscribe(sys, events)
				target := actor.Spawn(sys, "target", newCounter)
				linked := actor.SpawnFunc(sys, "linked", func(ctx *actor.Context[string], m string) error {
					if m == "link" {
						ctx.Link(target.PID())
					} else {
						ctx.Unlink(target.PID())
					}
					return nil
				})
				linked.Tell(bg, "link")
				linked.Tell(bg, "unlink")
				linked.Tell(bg, "link")
				synctest.Wait()
				c.end(target)
				synctest.Wait()
				failed := slices.ContainsFunc(mustAsk(t, events, seen{}), func(e actor.Event) bool {
					f, ok := e.(actor.ActorFailed)
					return ok && f.PID == linked.PID() && errors.Is(f.Err, actor.ErrLinked)
				})
				if failed != c.want {
					t.Errorf("failed: %v, want %v", failed, c.want)
				}
			})
		})
	}
}

func TestLinkWithNobodyIsAFailureAtOnce(t *testing.T) {
	sys := newSystem(t, actor.Supervise(actor.OneForOne, actor.MaxRestarts(0, time.Minute)))
	target := actor.Spawn(sys, "", newCounter)
	down := ended(t, sys, target)
	target.Stop()
	down()
	ref := actor.SpawnFunc(sys, "", func(ctx *actor.Context[int], _ int) error { ctx.Link(target.PID()); return nil })
	down = ended(t, sys, ref)
	ref.Tell(bg, 1)
	if d := down(); !errors.Is(d.Err, actor.ErrLinked) {
		t.Errorf("got %+v", d)
	}
}

// recorder remembers events.
type recorder struct{ events []actor.Event }

func newRecorder() *recorder { return &recorder{} }

type seen struct{ actor.Returns[[]actor.Event] }

func (r *recorder) Receive(ctx *actor.Context[any], m any) error {
	switch m := m.(type) {
	case actor.Event:
		r.events = append(r.events, m)
	case seen:
		actor.Reply(ctx, m, slices.Clone(r.events))
	}
	return nil
}

func TestSubscriberSeesWhatHappens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := newSystem(t)
		events := actor.Spawn(sys, "events", newRecorder)
		actor.Subscribe(sys, events)
		actor.Subscribe(sys, events) // once is enough
		letters := 0
		actor.Subscribe(sys, actor.SpawnFunc(sys, "letters", func(*actor.Context[actor.DeadLetter], actor.DeadLetter) error { letters++; return nil }))
		c := actor.Spawn(sys, "c", newCounter)
		c.Tell(bg, boom{"ouch"})
		synctest.Wait()
		c.Stop()
		synctest.Wait()
		c.Tell(bg, add{1})
		synctest.Wait()
		var got []string
		for _, e := range mustAsk(t, events, seen{}) {
			switch e := e.(type) {
			case actor.ActorStarted:
				got = append(got, "started "+e.PID.Path())
			case actor.ActorFailed:
				got = append(got, fmt.Sprintf("failed %s: %v at %s", e.PID.Path(), e.Err, e.MessageType))
			case actor.ActorRestarted:
				got = append(got, fmt.Sprintf("restarted %s %d", e.PID.Path(), e.Restarts))
			case actor.ActorStopped:
				got = append(got, fmt.Sprintf("stopped %s %v", e.PID.Path(), e.Reason))
			case actor.DeadLetter:
				got = append(got, fmt.Sprintf("dead letter %v", e.Message))
			}
		}
		expectLines(t, got, "started /letters", "started /c", "failed /c: panic: ouch at actor_test.boom", "restarted /c 1", "stopped /c stopped", "dead letter {1}")
		if letters != 1 {
			t.Errorf("%d dead letters", letters)
		}
	})
}

func TestSubscriberThatHasStoppedCausesNoDeadLetters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := newSystem(t)
		ref := actor.SpawnFunc(sys, "", func(ctx *actor.Context[actor.DeadLetter], _ actor.DeadLetter) error { return ctx.Sleep(time.Hour) })
		actor.Subscribe(sys, ref)
		c := actor.Spawn(sys, "c", newCounter)
		c.Stop()
		synctest.Wait()
		for range 10 {
			c.Tell(bg, add{1})
		}
		ref.Stop()
		synctest.Wait()
		c.Tell(bg, add{1})
		synctest.Wait()
		if n := sys.Stats().DeadLetters; n != 11 {
			t.Errorf("%d dead letters, want the 11 that were sent", n)
		}
	})
}
