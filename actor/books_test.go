package actor_test

import (
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
	"github.com/greenroom-go/greenroom/actortest"
)

func TestStashedMessageCountsAsHandledOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := actortest.NewSystem(t)
		ref := actor.SpawnFunc(sys, "x", func(ctx *actor.Context[int], n int) error {
			if n > 0 {
				return ctx.Stash()
			}
			ctx.Become(func(*actor.Context[int], int) error { return nil })
			ctx.Unstash()
			return nil
		})
		for n := range 11 {
			ref.Tell(bg, 10-n)
		}
		synctest.Wait()
		if n := sys.Stats().Handled; n != 11 {
			t.Errorf("11 messages, %d handled", n)
		}
	})
}

func TestWhatAWorkerHandledBeforeItWasFencedIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // one worker handles all
		sys := actortest.NewSystem(t)
		first, last := newHeld(), newHeld()
		holds := func(_ *actor.Context[held], h held) error {
			close(h.entered)
			<-h.release
			return nil
		}
		actor.SpawnFunc(sys, "first", holds).Tell(bg, first)
		<-first.entered
		idle := actor.SpawnFunc(sys, "x", func(*actor.Context[int], int) error { return nil })
		for range 10 {
			idle.Tell(bg, 1)
		}
		ref := actor.SpawnFunc(sys, "last", holds)
		ref.Tell(bg, last)
		close(first.release)
		<-last.entered
		ref.Kill()
		time.Sleep(fenceTime)
		if n := sys.Stats().Handled; n != 12 {
			t.Errorf("%d handled, want 12", n)
		}
		close(last.release)
	})
}

// Each message is handled or a dead letter, and each that is handled was given to a handler:
// with all kinds of mailboxes and homes, while actors fail, wait, stop and are killed.
func TestBooksAddUpForAllMailboxesAndEnds(t *testing.T) {
	for _, fences := range []bool{false, true} {
		for _, procs := range []int{1, 4} {
			t.Run(fmt.Sprintf("fences=%t procs=%d", fences, procs), func(t *testing.T) {
				defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
				for range 2 {
					synctest.Test(t, func(t *testing.T) { keepBooks(t, fences) })
				}
			})
		}
	}
}

// ledger is a set of actors that send each other messages, and the count of those.
type ledger struct {
	refs        []actor.Ref[int]
	sent, begun atomic.Int64
	cling       chan struct{} // what a handler that clings waits for; nil if none does
}

func (l *ledger) tellSomebody(s func(actor.Ref[int])) {
	l.sent.Add(1)
	s(l.refs[rand.IntN(len(l.refs))])
}

func (l *ledger) receive(ctx *actor.Context[int], n int) error {
	l.begun.Add(1)
	switch rand.IntN(60) {
	case 0:
		panic("broken")
	case 1:
		runtime.Goexit()
	case 2:
		return errBroken
	case 3:
		return ctx.Sleep(50 * time.Microsecond)
	case 4:
		return actor.Blocking(ctx, func() error { time.Sleep(50 * time.Microsecond); return nil })
	case 5:
		time.Sleep(100 * time.Microsecond)
	case 6, 7, 8:
		l.tellSomebody(func(ref actor.Ref[int]) { ref.Tell(ctx, n+1) })
	case 9:
		if rand.IntN(30) == 0 {
			return actor.ErrStop
		}
	case 10:
		if l.cling != nil && rand.IntN(5) == 0 {
			ctx.Self().Kill()
			<-l.cling
		}
	}
	return nil
}

func keepBooks(t *testing.T, fences bool) {
	sys := actortest.NewSystem(t, actor.Supervise(actor.OneForOne, actor.MaxRestarts(1e6, time.Second)))
	kinds := [][]actor.SpawnOption{
		nil,
		{actor.Bounded(8, actor.DropOldest)},
		{actor.Bounded(8, actor.DropNewest)},
		{actor.Bounded(8, actor.Reject)},
		{actor.Priority(func(n int) int { return n % 7 })},
		{actor.Conflate(func(n int) int { return n % 5 })},
	}
	reentrant := slices.Clone(kinds)
	l := new(ledger)
	if fences { // pinned and inline actors are not fenced
		l.cling = make(chan struct{})
	} else {
		kinds = append(kinds, []actor.SpawnOption{actor.Pinned()}, []actor.SpawnOption{actor.Inline()})
	}
	for _, opts := range reentrant {
		kinds = append(kinds, append(slices.Clone(opts), actor.Reentrant()))
	}
	l.refs = make([]actor.Ref[int], 5*len(kinds))
	for i := range l.refs {
		l.refs[i] = actor.SpawnFunc(sys, "", l.receive, kinds[i%len(kinds)]...)
	}
	var senders sync.WaitGroup
	for range 3 {
		senders.Go(func() {
			for n := range 1000 {
				l.tellSomebody(func(ref actor.Ref[int]) { ref.Tell(bg, n) })
				switch ref := l.refs[rand.IntN(len(l.refs))]; rand.IntN(1000) {
				case 0:
					ref.Stop()
				case 1:
					ref.Kill()
				case 2:
					ref.Drain()
				}
			}
		})
	}
	senders.Wait()
	time.Sleep(time.Minute) // those that cling are fenced
	if fences {
		close(l.cling)
	}
	if _, err := sys.Shutdown(bg); err != nil {
		t.Error(err)
	}
	st := sys.Stats()
	if sent := uint64(l.sent.Load()); st.Handled+st.DeadLetters != sent {
		t.Errorf("%d sent, %d handled, %d dead letters %v", sent, st.Handled, st.DeadLetters, st.DeadLettersByReason)
	}
	if begun := uint64(l.begun.Load()); begun != st.Handled {
		t.Errorf("%d handlers, %d counted", begun, st.Handled)
	}
}

// What nobody gets, because it is not wanted any more, is not counted as handled.
func TestWhatIsNotWantedAnyMoreIsNotHandled(t *testing.T) {
	for name, order := range map[string]func(ctx *actor.Context[any]){
		"canceled timer":                   func(ctx *actor.Context[any]) { ctx.After("x", time.Millisecond, "tick") },
		"receive timeout that begins anew": func(ctx *actor.Context[any]) { ctx.SetReceiveTimeout(time.Minute, "tick") },
		"Down after Unwatch": func(ctx *actor.Context[any]) {
			ctx.Watch(actor.PID{}, func(actor.Down) any { return "down" })
			ctx.Unwatch(actor.PID{})
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sys, h, ran := actortest.NewSystem(t), newHeld(), uint64(0)
				ref := actor.SpawnFunc(sys, "a", func(ctx *actor.Context[any], _ any) error {
					if ran++; ran > 1 {
						return nil
					}
					order(ctx)
					close(h.entered)
					<-h.release
					ctx.Cancel("x")
					return nil
				})
				ref.Tell(bg, "go")
				<-h.entered
				time.Sleep(61 * time.Second) // what was ordered waits in the mailbox
				close(h.release)
				synctest.Wait()
				if n := sys.Stats().Handled; n != ran {
					t.Errorf("%d handlers, and %d messages counted as handled", ran, n)
				}
			})
		})
	}
}
