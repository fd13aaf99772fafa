package actor_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/actortest"
)

// These tests run on the machine's own clock. In a bubble no time passes while anybody
// runs: no turn ever comes to the end of its time, and the monitor looks only when all is
// at rest. Here threads, turns and the monitor meet as they do in a program.

func TestMessagesOfOneSenderKeepTheirOrder(t *testing.T) {
	sys := actortest.NewSystem(t)
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

func TestHandlersThatBlockDoNotStarveOthers(t *testing.T) {
	sys := actortest.NewSystem(t)
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
	if n, err := actor.Ask(bg, actor.Spawn(sys, "", newCounter), get{}); n != 0 || err != nil {
		t.Errorf("got %d, %v", n, err)
	}
}

func TestActorWokenByAHandlerThatThenBlocksIsServed(t *testing.T) {
	sys := actortest.NewSystem(t)
	got := make(chan struct{})
	woken := actor.SpawnFunc(sys, "", func(*actor.Context[int], int) error { close(got); return nil })
	actor.SpawnFunc(sys, "", func(ctx *actor.Context[int], _ int) error {
		woken.Tell(ctx, 1)
		<-got
		return nil
	}).Tell(bg, 1)
	<-got
}

func TestNamedSpawnIsReachableAsSoonAsItsNameIs(t *testing.T) {
	sys := actortest.NewSystem(t)
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

// Every message is handled, a dead letter or refused, exactly, whatever happens to
// its target meanwhile.
func TestNoMessageIsUnaccountedFor(t *testing.T) {
	for name, end := range map[string]func(actor.Ref[int]){
		"stop": actor.Ref[int].Stop, "drain": actor.Ref[int].Drain, "kill": actor.Ref[int].Kill,
	} {
		t.Run(name, func(t *testing.T) {
			const rounds, senders, each = 40, 4, 250
			for range rounds {
				sys := actortest.NewSystem(t)
				var handled atomic.Uint64
				ref := actor.SpawnFunc(sys, "", func(_ *actor.Context[int], n int) error {
					handled.Add(1)
					if n%100 == 99 {
						return errBroken
					}
					return nil
				})
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
				if _, err := sys.Shutdown(bg); err != nil {
					t.Fatal(err)
				}
				if dead := sys.Stats().DeadLetters; handled.Load()+dead != senders*each {
					t.Fatalf("%d handled + %d dead, want %d", handled.Load(), dead, senders*each)
				}
			}
		})
	}
}

// Whoever looks while an actor is being spawned sees nothing, or all of it.
func TestActorThatIsBeingSpawnedIsSeenCompleteOrNotAtAll(t *testing.T) {
	sys := actortest.NewSystem(t)
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

// Answers arrive late, early and never, askers give up: each answer that an ask returns
// is to its own request.
func TestConformanceAnswersBelongToTheirRequests(t *testing.T) {
	sys := actortest.NewSystem(t)
	ref := actor.SpawnFunc(sys, "", func(ctx *actor.Context[echo], m echo) error {
		switch m.n % 3 {
		case 0:
			actor.Reply(ctx, m, m.n)
		case 1:
			p := actor.Promise(ctx, m)
			go p.Resolve(m.n)
		case 2:
			p := actor.Promise(ctx, m)
			go func() { runtime.Gosched(); p.Resolve(m.n) }()
		}
		return nil
	})
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := range 2000 {
				n := w*1_000_000 + i
				ctx, cancel := context.WithCancel(bg)
				if i%4 == 0 {
					go cancel()
				}
				got, err := actor.Ask(ctx, ref, echo{n: n})
				cancel()
				if err == nil && got != n {
					t.Errorf("asked %d, got the answer to %d", n, got)
				}
			}
		})
	}
	wg.Wait()
}

// A shutdown with a deadline that is over at once, while others go on sending: each
// message is handled or a dead letter.
func TestConformanceShutdownAccountsForEveryMessage(t *testing.T) {
	for round := range 30 {
		sys := actor.NewSystem("test", quiet)
		var handled atomic.Uint64
		var refs []actor.Ref[int]
		for range 20 {
			refs = append(refs, actor.SpawnFunc(sys, "", func(_ *actor.Context[int], n int) error {
				handled.Add(1)
				if n%50 == 49 {
					return errBroken
				}
				return nil
			}))
		}
		const senders, each = 4, 500
		var wg sync.WaitGroup
		started := make(chan struct{}, senders)
		for s := range senders {
			wg.Go(func() {
				started <- struct{}{}
				for i := range each {
					refs[(s+i)%len(refs)].Tell(bg, i)
				}
			})
		}
		<-started
		ctx, cancel := context.WithCancel(bg)
		if round%2 == 0 {
			cancel() // no time to drain: what is left is killed
		}
		_, err := sys.Shutdown(ctx)
		cancel()
		if err != nil && round%2 == 0 { // on a busy machine some need more than the moment they get
			_, err = sys.Shutdown(bg)
		}
		if err != nil {
			t.Fatal(err)
		}
		wg.Wait()
		if dead := sys.Stats().DeadLetters; handled.Load()+dead != senders*each {
			t.Fatalf("round %d: %d handled + %d dead, want %d", round, handled.Load(), dead, senders*each)
		}
	}
}

// A handler's context on another goroutine is a mistake, but no message may hang on it.
func TestTellWithAHandlersContextFromElsewhereStrandsNobody(t *testing.T) {
	sys := actortest.NewSystem(t)
	for range 2000 {
		got := make(chan struct{})
		target := actor.SpawnFunc(sys, "", func(*actor.Context[int], int) error { close(got); return actor.ErrStop })
		actor.SpawnFunc(sys, "", func(ctx *actor.Context[int], _ int) error {
			go target.Tell(ctx, 1)
			return actor.ErrStop
		}).Tell(bg, 1)
		<-got
	}
}

func TestManyHandlersThatBlockDoNotStallTheOthers(t *testing.T) {
	sys := actortest.NewSystem(t)
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

func TestInlineActorHasOneHandlerAtATime(t *testing.T) {
	sys := actortest.NewSystem(t)
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
	if n, err := actor.Ask(bg, ref, get{}); n != 4001 || wrong.Load() > 0 || err != nil {
		t.Errorf("handled %d, overlaps %d, %v", n, wrong.Load(), err)
	}
}
