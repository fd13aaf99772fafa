package actor_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/actortest"
)

// holding returns an actor that has begun with a message and goes on when the test ends.
func holding[M any](t testing.TB, first M, opts ...actor.SpawnOption) (*actor.System, actor.Ref[M]) {
	entered, release := make(chan struct{}), make(chan struct{})
	sys := actortest.NewSystem(t)
	t.Cleanup(func() { close(release) })
	once := false
	ref := actor.SpawnFunc(sys, "", func(*actor.Context[M], M) error {
		if !once {
			once = true
			close(entered)
			<-release
		}
		return nil
	}, opts...)
	ref.Tell(bg, first)
	<-entered
	return sys, ref
}

var droppingMailboxes = map[string][]actor.SpawnOption{
	"plain":      nil,
	"priority":   {actor.Priority(func(n int) int { return n * 7919 % 1009 })},
	"conflating": {actor.Conflate(func(n int) int { return n })},
}

// full fills a mailbox of that bound, and tells how long n more messages take.
func full(t testing.TB, bound int, opts []actor.SpawnOption) func(n int) time.Duration {
	_, ref := holding(t, 0, append(slices.Clip(opts), actor.Bounded(bound, actor.DropOldest))...)
	next := 0
	tell := func(n int) time.Duration {
		began := time.Now()
		for range n {
			next++
			ref.Tell(bg, next)
		}
		return time.Since(began)
	}
	tell(bound)
	return tell
}

func TestADropCostsTheSameInAMailboxOfAnyBound(t *testing.T) {
	for name, opts := range droppingMailboxes {
		t.Run(name, func(t *testing.T) {
			small, large := full(t, 100, opts), full(t, 20_000, opts)
			var few, many time.Duration
			for range 20 { // beside others a run may take any time
				few = fastest(5, func() time.Duration { return small(100) })
				if many = fastest(5, func() time.Duration { return large(100) }); many <= 10*few {
					return
				}
			}
			t.Errorf("100 drops take %v with a bound of 20000, %v with one of 100", many, few)
		})
	}
}

// BenchmarkDropOldest tells b.N messages to a mailbox that is full.
func BenchmarkDropOldest(b *testing.B) {
	for name, opts := range droppingMailboxes {
		for _, bound := range []int{100, 100_000} {
			b.Run(fmt.Sprintf("mailbox=%s/bound=%d", name, bound), func(b *testing.B) {
				tell := full(b, bound, opts)
				b.ReportAllocs()
				b.ResetTimer()
				tell(b.N)
			})
		}
	}
}

// What the actor itself has ordered is not dropped and keeps its place.
func TestWhatAnActorHasOrderedItselfIsNotDropped(t *testing.T) {
	for name, opt := range map[string][]actor.SpawnOption{
		"plain":      nil,
		"conflating": {actor.Conflate(func(m any) string { return fmt.Sprint(m) })},
	} {
		t.Run(name, func(t *testing.T) {
			actortest.Run(t, func(k *actortest.Kit) {
				gate := actortest.NewGate(k)
				p := actortest.NewProbe[any](k, append(opt, actor.Bounded(3, actor.DropOldest), gate.Around())...)
				actortest.Do(p, func(ctx *actor.Context[any]) error {
					ctx.After("first", time.Second, "first")
					ctx.After("second", 2*time.Second, "second")
					return nil
				})
				gate.Close()
				p.Ref().Tell(k.Context(), "held")
				k.Settle()
				p.Ref().Tell(k.Context(), -1)
				k.Advance(time.Second)
				for n := range 10 {
					p.Ref().Tell(k.Context(), n)
				}
				k.Advance(time.Second)
				p.Ref().Tell(k.Context(), 10)
				gate.Open()
				p.ExpectAll("held", "first", 8, 9, "second", 10)
				if n := k.System().Stats().DeadLettersByReason["overflowed"]; n != 9 {
					k.T().Errorf("%d dead letters, want 9", n)
				}
			})
		})
	}
}

func TestEventsRespectTheBoundOfAMailbox(t *testing.T) {
	for overflow, want := range map[actor.Overflow][2]int{actor.Reject: {0, 10}, actor.DropNewest: {0, 10}, actor.DropOldest: {90, 10}, actor.Block: {0, 10}} {
		t.Run(fmt.Sprint(overflow), func(t *testing.T) {
			actortest.Run(t, func(k *actortest.Kit) {
				gate := actortest.NewGate(k)
				gate.Close()
				p := actortest.NewProbe[any](k, actor.Bounded(10, overflow), gate.Around())
				p.Ref().Tell(k.Context(), "held")
				k.Settle()
				gone := actor.Spawn(k.System(), "gone", newCounter)
				gone.Stop()
				k.Settle()
				actor.Subscribe(k.System(), p.Ref())
				for n := range 100 {
					gone.Tell(k.Context(), add{n})
				}
				if n, _ := p.Ref().Backlog(); n != 11 {
					k.T().Errorf("%d messages wait, want 10 and the one in hand", n)
				}
				st := k.System().Stats()
				if st.DeadLetters != 100 || st.EventsLost != 90 {
					k.T().Errorf("%d dead letters, %d events lost", st.DeadLetters, st.EventsLost)
				}
				gate.Open()
				k.Settle()
				got := p.All()[1:]
				if len(got) != want[1] || got[0].(actor.DeadLetter).Message != (add{want[0]}) {
					k.T().Errorf("%d events, the first is %+v", len(got), got[0])
				}
			})
		})
	}
}

// A dead letter that a subscriber's own mailbox causes must not cause the next.
func TestAnEventTakesNoMessagesPlace(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		gate := actortest.NewGate(k)
		gate.Close()
		p := actortest.NewProbe[any](k, actor.Bounded(5, actor.DropOldest), gate.Around())
		p.Ref().Tell(k.Context(), "held")
		k.Settle()
		actor.Subscribe(k.System(), p.Ref())
		for n := range 20 {
			p.Ref().Tell(k.Context(), n)
		}
		if st := k.System().Stats(); st.DeadLetters != 15 || st.EventsLost != 16 { // the Overload, too
			k.T().Errorf("%d dead letters, %d events lost, want 15 and 16", st.DeadLetters, st.EventsLost)
		}
		gate.Open()
		k.Settle()
		p.ExpectAll("held", 15, 16, 17, 18, 19, actor.Overload{PID: p.Ref().PID()})
	})
}

func TestDetailOfALongMailboxIsAnEstimateAndQuick(t *testing.T) {
	const n = 200_000
	sys, ref := holding[any](t, 0)
	impatient, cancel := context.WithCancel(bg)
	cancel() // the actor is busy
	for i := range n {
		if i%4 == 0 {
			ref.Tell(bg, "x")
		} else {
			ref.Tell(bg, i)
		}
	}
	var d actor.Detail
	took := fastest(5, func() time.Duration {
		began := time.Now()
		var err error
		if d, err = sys.Detail(impatient, ref.PID()); err != nil || !d.Busy {
			t.Fatal(d, err)
		}
		return time.Since(began)
	})
	if took > 10*time.Millisecond { // it takes 0.1
		t.Errorf("it takes %v", took)
	}
	if len(d.Mail) != 2 || d.Mail[0].Type != "int" || d.Mail[0].Count+d.Mail[1].Count != n || d.Mailbox != n {
		t.Errorf("mail %v of %d", d.Mail, d.Mailbox)
	}
}

type bulky struct{ _ [16 << 10]byte }

func TestAnActorGivesBackWhatABurstOfLargeMessagesTook(t *testing.T) {
	sys := actortest.NewSystem(t)
	entered, release := make(chan struct{}), make(chan struct{})
	heap := func() uint64 {
		var m runtime.MemStats
		for range 3 { // what a pool has is gone after two
			runtime.GC()
		}
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	for name, opts := range map[string][]actor.SpawnOption{
		"plain":    nil,
		"bounded":  {actor.Bounded(1000, actor.DropOldest)},
		"priority": {actor.Priority(func(bulky) int { return 0 })},
	} {
		handled := 0
		ref := actor.SpawnFunc(sys, name, func(*actor.Context[bulky], bulky) error {
			switch handled++; handled {
			case 1:
				entered <- struct{}{}
				<-release
			case 1001:
				entered <- struct{}{}
			}
			return nil
		}, opts...)
		ref.Tell(bg, bulky{})
		<-entered
		for range 1000 {
			ref.Tell(bg, bulky{})
		}
		release <- struct{}{}
		<-entered
		for sys.Stats().Queued > 0 {
			runtime.Gosched()
		}
		if after := heap(); after > before+2<<20 {
			t.Errorf("%s: an idle actor keeps %d KB", name, (after-before)>>10)
		}
		runtime.KeepAlive(ref)
	}
}
