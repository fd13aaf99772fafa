package actor_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/actortest"
)

// A slot that becomes free wakes one of those who wait for it: the key of a message is asked for
// when its sender tries, and again when it begins to wait.
func TestASlotThatBecomesFreeWakesOneOfManySenders(t *testing.T) {
	const senders = 300
	actortest.Run(t, func(k *actortest.Kit) {
		var tries atomic.Int64
		ref := actor.SpawnFunc(k.System(), "", func(ctx *actor.Context[int], _ int) error {
			return ctx.Sleep(time.Second) // until all who were woken wait again
		}, actor.Bounded(1, actor.Block), actor.Conflate(func(n int) int { tries.Add(1); return n }))
		var all sync.WaitGroup
		for i := range senders {
			all.Go(func() {
				if err := ref.TryTell(k.Context(), i); err != nil {
					k.T().Error(err)
				}
			})
		}
		all.Wait()
		if n := tries.Load(); n > 2*senders {
			k.T().Errorf("%d senders have tried %d times, want twice at most", senders, n)
		}
	})
}

// BenchmarkSendersThatWaitForRoom is b.N messages of 8000 senders through room for one.
func BenchmarkSendersThatWaitForRoom(b *testing.B) {
	const senders = 8000
	run := func(b *testing.B, send func(beat)) {
		b.ReportAllocs()
		b.ResetTimer()
		var all sync.WaitGroup
		for i := range senders {
			all.Go(func() {
				for range b.N/senders + min(1, max(0, b.N%senders-i)) {
					send(beat{1})
				}
			})
		}
		all.Wait()
	}
	b.Run("runtime=greenroom", func(b *testing.B) {
		ref := actor.SpawnFunc(actortest.NewSystem(b), "", func(*actor.Context[beat], beat) error { return nil }, actor.Bounded(1, actor.Block))
		run(b, func(m beat) {
			if err := ref.TryTell(bg, m); err != nil {
				b.Error(err)
			}
		})
	})
	b.Run("runtime=channel", func(b *testing.B) {
		ch, ended := make(chan beat, 1), make(chan struct{})
		go func() {
			for range ch {
			}
			close(ended)
		}()
		run(b, func(m beat) { ch <- m })
		close(ch)
		<-ended
	})
}

func TestSendersThatWaitForRoomGetItInTheirOrder(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		gate, p := gated(k, actor.Bounded(1, actor.Block))
		p.Ref().Tell(k.Context(), "0")
		want := []string{"held", "0"}
		var giveUp []context.CancelFunc
		var waiting sync.WaitGroup
		for i := range 9 {
			ctx, cancel := context.WithCancel(k.Context())
			defer cancel()
			gives := i%3 == 0 // also the one who is first
			waiting.Go(func() {
				err := p.Ref().TryTell(ctx, fmt.Sprint(i+1))
				if gives != errors.Is(err, context.Canceled) || !gives && err != nil {
					k.T().Errorf("sender %d: %v", i+1, err)
				}
			})
			k.Settle()
			if gives {
				giveUp = append(giveUp, cancel)
			} else {
				want = append(want, fmt.Sprint(i+1))
			}
		}
		for _, cancel := range giveUp {
			cancel()
		}
		k.Settle()
		gate.Open()
		waiting.Wait()
		k.Settle()
		p.ExpectAll(want...)
		k.ExpectNoDeadLetter()
	})
}

func TestAllSendersThatWaitForRoomLearnThatTheActorHasStopped(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		gate, p := gated(k, actor.Bounded(1, actor.Block))
		p.Ref().Tell(k.Context(), "0")
		var waiting sync.WaitGroup
		for range 20 {
			waiting.Go(func() {
				if err := p.Ref().TryTell(k.Context(), "late"); !errors.Is(err, actor.ErrStopped) {
					k.T().Errorf("got %v", err)
				}
			})
		}
		k.Settle()
		p.Ref().Stop()
		gate.Open()
		waiting.Wait()
	})
}

// A message that waits for room and finds one of its key when its turn comes replaces that.
func TestAMessageThatWaitedForRoomReplacesTheOneOfItsKey(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		gate, p := gated(k, actor.Bounded(2, actor.Block), actor.Conflate(func(s string) byte { return s[0] }))
		p.Ref().Tell(k.Context(), "a1")
		p.Ref().Tell(k.Context(), "d1")
		var waiting sync.WaitGroup
		for _, msg := range []string{"b1", "b2", "c1"} {
			waiting.Go(func() {
				if err := p.Ref().TryTell(k.Context(), msg); err != nil {
					k.T().Error(err)
				}
			})
			k.Settle()
		}
		gate.Open()
		waiting.Wait()
		k.Settle()
		p.ExpectAll("held", "a1", "d1", "b2", "c1")
		if n := k.System().Stats().DeadLettersByReason["conflated"]; n != 1 {
			k.T().Errorf("%d conflated, want 1", n)
		}
	})
}

// stepped is an actor that handles a message with each step.
func stepped(k *actortest.Kit, opts ...actor.SpawnOption) (ref actor.Ref[string], step func(), handled func() []string) {
	next, got := make(chan struct{}), []string(nil)
	ref = actor.SpawnFunc(k.System(), "", func(_ *actor.Context[string], s string) error {
		<-next
		got = append(got, s)
		return nil
	}, opts...)
	step = func() {
		next <- struct{}{}
		k.Settle()
	}
	return ref, step, func() []string { return got }
}

// sendWaiting sends the messages one after the other, each on a goroutine that waits for room, and
// returns how many have returned.
func sendWaiting(k *actortest.Kit, ref actor.Ref[string], messages ...string) (returned func() int32) {
	var n atomic.Int32
	for _, msg := range messages {
		go func() {
			if err := ref.TryTell(k.Context(), msg); err != nil {
				k.T().Error(err)
			}
			n.Add(1)
		}()
		k.Settle()
	}
	return n.Load
}

func conflateBlocking() []actor.SpawnOption {
	return []actor.SpawnOption{actor.Bounded(2, actor.Block), actor.Conflate(func(s string) byte { return s[0] })}
}

// A message that has waited for room does not replace a newer one of its key, which a Tell has
// put in meanwhile.
func TestAMessageThatWaitedForRoomReplacesNoNewerOneOfItsKey(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		ref, step, handled := stepped(k, conflateBlocking()...)
		for _, msg := range []string{"held", "a1", "d1"} {
			ref.Tell(k.Context(), msg)
			k.Settle()
		}
		returned := sendWaiting(k, ref, "b1", "c1", "b2")
		step() // b1 is let in
		ref.Tell(k.Context(), "b3")
		for range 4 {
			step()
		}
		if got, n := handled(), returned(); !slices.Equal(got, []string{"held", "a1", "d1", "b3", "c1"}) || n != 3 {
			k.T().Errorf("handled %v, %d senders have returned", got, n)
		}
		if n := k.System().Stats().DeadLettersByReason["conflated"]; n != 2 {
			k.T().Errorf("%d conflated, want 2", n)
		}
	})
}

// A message that replaces another needs no room: as soon as it is the first that waits, it is in.
func TestAMessageThatReplacesOneIsLetInWithoutRoom(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		ref, step, handled := stepped(k, conflateBlocking()...)
		for _, msg := range []string{"held", "a1", "d1"} {
			ref.Tell(k.Context(), msg)
			k.Settle()
		}
		returned := sendWaiting(k, ref, "b1", "b2")
		step() // b1 is let in
		if n := returned(); n != 2 {
			k.T().Errorf("%d were let in, want both", n)
		}
		for range 3 {
			step()
		}
		if got := handled(); !slices.Equal(got, []string{"held", "a1", "d1", "b2"}) {
			k.T().Errorf("handled %v", got)
		}
	})
}

// often runs f in bubbles until it fails, at most 50 times: the moment that it is about does not come each time.
func often(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	for range 50 {
		if synctest.Test(t, f); t.Failed() {
			return
		}
	}
}

// fill has the actor hold its "first" message, and its mailbox, which has room for one, full.
func (h held) fill(full actor.Ref[any]) {
	full.Tell(bg, "first")
	<-h.entered
	full.Tell(bg, "second")
}

// A sender that waited for room and was let in waits for nobody any more, also before its goroutine has
// run: the actor that has let it in may ask it.
func TestAnAskOfWhoWasLetInIsNoDeadlock(t *testing.T) {
	often(t, func(t *testing.T) {
		sys := actortest.NewSystem(t)
		h, asked := newHeld(), make(chan error, 1)
		var full actor.Ref[any]
		sender := actor.SpawnFunc(sys, "sender", func(ctx *actor.Context[any], m any) error {
			if g, ok := m.(get); ok {
				actor.Reply(ctx, g, 1)
				return nil
			}
			return full.TryTell(ctx, "third")
		})
		full = actor.SpawnFunc(sys, "full", func(ctx *actor.Context[any], m any) error {
			switch m {
			case "first":
				close(h.entered)
				<-h.release
			case "second":
				_, err := actor.Ask(ctx, sender, get{})
				asked <- err
			}
			return nil
		}, actor.Bounded(1, actor.Block))
		h.fill(full)
		sender.Tell(bg, "go")
		synctest.Wait() // the sender waits for room
		close(h.release)
		if err := <-asked; err != nil {
			t.Error(err)
		}
	})
}

// The same where there will be no room any more: the mailbox is closed, and the sender is about to hear of it.
func TestAnAskOfWhoIsRefusedByADrainIsNoDeadlock(t *testing.T) {
	for name, send := range map[string]func(ctx *actor.Context[any], to actor.Ref[any]) error{
		"tells": func(ctx *actor.Context[any], to actor.Ref[any]) error { return to.TryTell(ctx, "third") },
		"asks": func(ctx *actor.Context[any], to actor.Ref[any]) error {
			_, err := actor.Ask(ctx, to, get{})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			often(t, func(t *testing.T) {
				sys := actortest.NewSystem(t)
				h, asked := newHeld(), make(chan error, 1)
				var full actor.Ref[any]
				sender := actor.SpawnFunc(sys, "sender", func(ctx *actor.Context[any], m any) error {
					if g, ok := m.(get); ok {
						actor.Reply(ctx, g, 1)
						return nil
					}
					_ = send(ctx, full)
					return nil
				})
				full = actor.SpawnFunc(sys, "full", func(ctx *actor.Context[any], m any) error {
					if m == "first" {
						close(h.entered)
						<-h.release
						ctx.Self().Drain()
						_, err := actor.Ask(ctx, sender, get{})
						asked <- err
					}
					return nil
				}, actor.Bounded(1, actor.Block))
				h.fill(full)
				sender.Tell(bg, "go")
				synctest.Wait()
				close(h.release)
				if err := <-asked; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// The request is let in, and forwarded to its asker before the asker knows that it is in.
func TestAForwardToAnAskerThatWasJustLetInFailsAtOnce(t *testing.T) {
	often(t, func(t *testing.T) {
		sys := actortest.NewSystem(t)
		h, errs := newHeld(), make(chan error, 1)
		var full actor.Ref[any]
		asker := actor.SpawnFunc(sys, "asker", func(ctx *actor.Context[any], m any) error {
			if m == "go" {
				_, err := actor.Ask(ctx, full, get{})
				errs <- err
			}
			return nil
		})
		full = actor.SpawnFunc(sys, "full", func(ctx *actor.Context[any], m any) error {
			switch m.(type) {
			case chan struct{}:
				close(h.entered)
				<-h.release
			case get:
				return actor.Forward(ctx, asker)
			}
			return nil
		}, actor.Bounded(1, actor.Block))
		full.Tell(bg, h.release)
		<-h.entered
		full.Tell(bg, "second")
		asker.Tell(bg, "go")
		synctest.Wait() // the asker waits for room
		close(h.release)
		failsAtOnce(t, errs)
	})
}

// A reentrant asker that waited for room and was let in handles other messages meanwhile: who has let it in
// may ask it.
func TestAReentrantAskerThatWasLetInIsNoDeadlock(t *testing.T) {
	often(t, func(t *testing.T) {
		sys := actortest.NewSystem(t)
		h, asked, answered := newHeld(), make(chan error, 1), make(chan error, 1)
		var full actor.Ref[any]
		asker := actor.SpawnFunc(sys, "asker", func(ctx *actor.Context[any], m any) error {
			if g, ok := m.(get); ok {
				actor.Reply(ctx, g, 1)
				return nil
			}
			_, err := actor.Ask(ctx, full, get{})
			asked <- err
			return nil
		}, actor.Reentrant())
		full = actor.SpawnFunc(sys, "full", func(ctx *actor.Context[any], m any) error {
			switch m := m.(type) {
			case get:
				actor.Reply(ctx, m, 1)
			case string:
				if m == "first" {
					close(h.entered)
					_ = actor.Blocking(ctx, func() error { <-h.release; return nil })
					return nil
				}
				_, err := actor.Ask(ctx, asker, get{})
				answered <- err
			}
			return nil
		}, actor.Bounded(1, actor.Block))
		h.fill(full)
		asker.Tell(bg, "go")
		synctest.Wait() // the asker waits for room
		close(h.release)
		if err := <-answered; err != nil {
			t.Errorf("the ask of the reentrant actor: %v", err)
		}
		if err := <-asked; err != nil {
			t.Errorf("the ask by the reentrant actor: %v", err)
		}
	})
}

// The order to stop comes when the asker was let in, and its goroutine has not run since.
func TestStopEndsAnAskThatWasJustLetIn(t *testing.T) {
	often(t, func(t *testing.T) {
		sys := actortest.NewSystem(t)
		h, outcome := newHeld(), make(chan error, 1)
		var asker actor.Ref[any]
		full := actor.SpawnFunc(sys, "full", func(ctx *actor.Context[any], m any) error {
			switch m := m.(type) {
			case get:
				actor.Promise(ctx, m)
			case string:
				if m == "first" {
					close(h.entered)
					_ = actor.Blocking(ctx, func() error { <-h.release; return nil })
				} else {
					asker.Stop()
				}
			}
			return nil
		}, actor.Bounded(1, actor.Block))
		asker = actor.SpawnFunc(sys, "asker", func(ctx *actor.Context[any], _ any) error {
			_, err := actor.Ask(ctx, full, get{}, actor.Within(time.Hour))
			outcome <- err
			return nil
		})
		h.fill(full)
		asker.Tell(bg, "go")
		synctest.Wait() // the asker waits for room
		began := time.Now()
		close(h.release)
		if err := <-outcome; !errors.Is(err, context.Canceled) || time.Since(began) > 0 {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
	})
}

// letIn runs a system in which the asker asks full, waits for room there, and is let in; full then does that with its
// request, in the same turn, before the goroutine of the asker has run. Meanwhile another waits for the asker.
func letIn(t *testing.T, within time.Duration, want error, request func(ctx *actor.Context[any], m get, asker, another actor.Ref[any]) error) {
	often(t, func(t *testing.T) {
		sys := actortest.NewSystem(t)
		h, errs := newHeld(), make(chan error, 2)
		var asker, another, full actor.Ref[any]
		asks := func(to *actor.Ref[any]) func(ctx *actor.Context[any], m any) error {
			return func(ctx *actor.Context[any], m any) error {
				if m, ok := m.(get); ok {
					actor.Reply(ctx, m, 1)
					return nil
				}
				_, err := actor.Ask(ctx, *to, get{})
				errs <- err
				return nil
			}
		}
		asker, another = actor.SpawnFunc(sys, "asker", asks(&full)), actor.SpawnFunc(sys, "another", asks(&asker))
		full = actor.SpawnFunc(sys, "full", func(ctx *actor.Context[any], m any) error {
			if m, ok := m.(get); ok {
				return request(ctx, m, asker, another)
			}
			if m == "first" {
				close(h.entered)
				return actor.Blocking(ctx, func() error { <-h.release; return nil })
			}
			return nil
		}, actor.Bounded(1, actor.Block))
		h.fill(full)
		asker.Tell(bg, "go")
		synctest.Wait() // it waits for room
		another.Tell(bg, "go")
		synctest.Wait() // it waits for the asker
		began := time.Now()
		close(h.release)
		if err := errors.Join(<-errs, <-errs); !errors.Is(err, want) || time.Since(began) > within {
			t.Errorf("after %v: %v, want %v", time.Since(began), err, want)
		}
	})
}

func TestAForwardOfARequestThatWasJustLetInClosesACycle(t *testing.T) {
	letIn(t, 0, actor.ErrDeadlock, func(ctx *actor.Context[any], _ get, _, another actor.Ref[any]) error {
		return actor.Forward(ctx, another)
	})
}

// Others keep the promise: the asker gets its answer, and then it answers.
func TestAPromiseOfARequestThatWasJustLetInIsNoWait(t *testing.T) {
	letIn(t, time.Second, nil, func(ctx *actor.Context[any], m get, asker, _ actor.Ref[any]) error {
		p := actor.Promise(ctx, m)
		time.AfterFunc(time.Second, func() { p.Resolve(1) })
		if _, err := actor.Ask(ctx, asker, get{}); err != nil {
			t.Errorf("the ask of the asker: %v", err)
		}
		return nil
	})
}

// The order to stop comes after the ask is known and before the wait for room is: the context does not end with the handler's.
func TestAStopBeforeTheWaitForRoomEndsTheAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asker, full actor.Ref[any]
		sys := actortest.NewSystem(t, actor.BeforeSend(func(_ context.Context, s *actor.Sending) error {
			if _, ok := s.Message.(get); ok {
				asker.Stop()
			}
			return nil
		}))
		h, outcome := newHeld(), make(chan error, 1)
		full = actor.SpawnFunc(sys, "full", func(ctx *actor.Context[any], m any) error {
			if m == "first" {
				close(h.entered)
				_ = actor.Blocking(ctx, func() error { <-h.release; return nil })
			}
			return nil
		}, actor.Bounded(1, actor.Block))
		asker = actor.SpawnFunc(sys, "asker", func(ctx *actor.Context[any], _ any) error {
			_, err := actor.Ask(context.WithoutCancel(ctx), full, get{}, actor.Within(time.Hour))
			outcome <- err
			return nil
		})
		h.fill(full)
		began := time.Now()
		asker.Tell(bg, "go")
		err := <-outcome
		close(h.release)
		if time.Since(began) > 0 {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
	})
}

// redirectedToFull asks meant, and the request is sent elsewhere, to an actor that has no room for it before h is released.
// who asks the asker back: /full then, or /meant when it is told something.
func redirectedToFull(t *testing.T, h held, who string) (meant actor.Ref[any], outcome, back chan error) {
	var asker, full actor.Ref[any]
	outcome, back = make(chan error, 1), make(chan error, 1)
	askAsker := func(ctx *actor.Context[any]) {
		if ctx.Self().PID().Path() == who {
			_, err := actor.Ask(ctx, asker, askBack{})
			back <- err
		}
	}
	sys := actortest.NewSystem(t, actor.BeforeSend(func(_ context.Context, s *actor.Sending) error {
		if _, ok := s.Message.(get); ok {
			s.To = full.PID()
		}
		return nil
	}))
	full = actor.SpawnFunc(sys, "full", func(ctx *actor.Context[any], m any) error {
		switch m := m.(type) {
		case get:
			actor.Reply(ctx, m, 1)
		case string:
			if m == "first" {
				close(h.entered)
				_ = actor.Blocking(ctx, func() error { <-h.release; return nil })
				askAsker(ctx)
			}
		}
		return nil
	}, actor.Bounded(1, actor.Block))
	meant = actor.SpawnFunc(sys, "meant", func(ctx *actor.Context[any], _ any) error {
		askAsker(ctx)
		return nil
	})
	asker = actor.SpawnFunc(sys, "asker", func(ctx *actor.Context[any], m any) error {
		if m, ok := m.(askBack); ok {
			actor.Reply(ctx, m, 1)
			return nil
		}
		_, err := actor.Ask(ctx, meant, get{})
		outcome <- err
		return nil
	})
	h.fill(full)
	asker.Tell(bg, "go")
	synctest.Wait() // it waits for room
	return meant, outcome, back
}

func TestAnAskOfWhoWaitsForRoomElsewhereIsNoDeadlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHeld()
		meant, outcome, back := redirectedToFull(t, h, "/meant")
		meant.Tell(bg, "go")
		synctest.Wait()
		close(h.release)
		if err := <-back; err != nil {
			t.Errorf("who was to be asked first: %v", err)
		}
		if err := <-outcome; err != nil {
			t.Errorf("who waited for room: %v", err)
		}
	})
}

func TestACycleThroughAWaitForRoomElsewhereIsFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHeld()
		_, _, back := redirectedToFull(t, h, "/full")
		close(h.release)
		failsAtOnce(t, back)
	})
}
