package actor_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/actortest"
)

// guest counts messages, and says when it comes and goes.
type guest struct {
	log      *guestbook
	number   int
	messages int
	init     func(ctx *actor.Context[any]) error
}

type guestbook struct {
	mu     sync.Mutex
	lines  []string
	guests int
}

func (b *guestbook) write(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lines = append(b.lines, fmt.Sprintf(format, args...))
}

// read returns what was written since the last call.
func (b *guestbook) read() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	lines := b.lines
	b.lines = nil
	return lines
}

func (g *guest) Init(ctx *actor.Context[any]) error {
	g.log.write("init %d", g.number)
	if g.init != nil {
		return g.init(ctx)
	}
	return nil
}

func (g *guest) Receive(ctx *actor.Context[any], msg any) error {
	g.messages++
	if do, ok := msg.(func(*actor.Context[any]) error); ok {
		return do(ctx)
	}
	g.log.write("%v, the %d. of %d", msg, g.messages, g.number)
	return nil
}

func (g *guest) Terminate(_ *actor.Context[any], why error) {
	g.log.write("terminate %d: %v", g.number, why)
}

// inn spawns a guest that is passivated after a second.
func inn(sys *actor.System, opts ...actor.SpawnOption) (actor.Ref[any], *guestbook) {
	log := new(guestbook)
	ref := actor.Spawn[any](sys, "guest", func() *guest {
		log.guests++
		return &guest{log: log, number: log.guests}
	}, append(opts, actor.Passivate(time.Second))...)
	return ref, log
}

func expectLines(t *testing.T, log *guestbook, want ...string) {
	t.Helper()
	if got := log.read(); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func stateOf(t *testing.T, sys *actor.System, path string) string {
	t.Helper()
	tree, err := sys.Inspect(path, 0)
	if err != nil {
		t.Fatal(err)
	}
	return tree.State
}

func TestIdleActorIsPassivatedAndComesBack(t *testing.T) {
	for name, opts := range map[string][]actor.SpawnOption{
		"plain": nil, "pinned": {actor.Pinned()}, "inline": {actor.Inline()}, "reentrant": {actor.Reentrant()},
		"bounded": {actor.Bounded(3, actor.Block)}, "permanent": {actor.Permanent}, "in a bulkhead": {actor.OnBulkhead("x")},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sys := actortest.NewSystem(t, actor.WithBulkhead("x", 1, 1))
				events := collect[actor.Event](sys)
				ref, log := inn(sys, opts...)
				ref.Tell(bg, "hello")
				time.Sleep(900 * time.Millisecond)
				ref.Tell(bg, "hello")
				time.Sleep(900 * time.Millisecond)
				expectLines(t, log, "init 1", "hello, the 1. of 1", "hello, the 2. of 1")
				time.Sleep(1200 * time.Millisecond)
				expectLines(t, log, "terminate 1: <nil>")
				if state := stateOf(t, sys, "/guest"); state != "passive" {
					t.Errorf("it is %s", state)
				}
				time.Sleep(time.Hour)
				expectLines(t, log)
				// Tools, and an actor that looks after it, do not wake it.
				if d, err := sys.Detail(bg, ref.PID()); err != nil || d.Busy || d.View != nil || d.Handled != 2 {
					t.Errorf("%+v, %v", d, err)
				}
				expectLines(t, log)
				for n := range 3 {
					ref.Tell(bg, n)
				}
				synctest.Wait()
				expectLines(t, log, "init 2", "0, the 1. of 2", "1, the 2. of 2", "2, the 3. of 2")
				time.Sleep(3 * time.Second)
				expectLines(t, log, "terminate 2: <nil>")
				var told []string
				for _, e := range events() {
					told = append(told, strings.TrimPrefix(fmt.Sprintf("%T", e), "actor."))
				}
				if want := []string{"ActorStarted", "ActorPassivated", "ActorActivated", "ActorPassivated"}; !slices.Equal(told[len(told)-4:], want) {
					t.Errorf("events: %v", told)
				}
				if st := sys.Stats(); st.Restarts != 0 || st.Failures != 0 {
					t.Errorf("%d restarts, %d failures", st.Restarts, st.Failures)
				}
			})
		})
	}
}

func TestEndOfAPassivatedActor(t *testing.T) {
	for name, end := range map[string]func(actor.Ref[any]){
		"Stop": actor.Ref[any].Stop, "Kill": actor.Ref[any].Kill, "Drain": actor.Ref[any].Drain,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sys := actortest.NewSystem(t)
				ref, log := inn(sys)
				down := ended(t, sys, ref)
				time.Sleep(3 * time.Second)
				expectLines(t, log, "init 1", "terminate 1: <nil>")
				end(ref)
				if d := down(); d.Err != nil {
					t.Errorf("%+v", d)
				}
				expectLines(t, log) // nothing is made for it
			})
		})
	}
}

func TestWhatIsToldBeforeTheOrderToDrainIsHandled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := actortest.NewSystem(t)
		ref, log := inn(sys)
		time.Sleep(3 * time.Second)
		ref.Tell(bg, "last")
		if _, err := sys.Shutdown(bg); err != nil {
			t.Error(err)
		}
		expectLines(t, log, "init 1", "terminate 1: <nil>", "init 2", "last, the 1. of 2", "terminate 2: <nil>")
	})
}

func TestActorThatHoldsSomethingIsNotPassivated(t *testing.T) {
	never := make(chan struct{})
	defer close(never)
	for name, hold := range map[string]func(ctx *actor.Context[any]) (letGo func(ctx *actor.Context[any])){
		"a child": func(ctx *actor.Context[any]) func(*actor.Context[any]) {
			child := actor.SpawnFunc(ctx, "", func(*actor.Context[int], int) error { return nil })
			return func(*actor.Context[any]) { child.Stop() }
		},
		"a timer": func(ctx *actor.Context[any]) func(*actor.Context[any]) {
			ctx.After("x", time.Hour, 1)
			return func(ctx *actor.Context[any]) { ctx.Cancel("x") }
		},
		"a receive timeout": func(ctx *actor.Context[any]) func(*actor.Context[any]) {
			ctx.SetReceiveTimeout(time.Hour, 1)
			return func(ctx *actor.Context[any]) { ctx.SetReceiveTimeout(0, 1) }
		},
		"a watch": func(ctx *actor.Context[any]) func(*actor.Context[any]) {
			other := actor.SpawnFunc(ctx.System(), "other", func(*actor.Context[int], int) error { return nil })
			ctx.Watch(other.PID(), func(d actor.Down) any { return d })
			return func(ctx *actor.Context[any]) { ctx.Unwatch(other.PID()) }
		},
		"a behavior": func(ctx *actor.Context[any]) func(*actor.Context[any]) {
			ctx.Become(func(ctx *actor.Context[any], msg any) error {
				return msg.(func(*actor.Context[any]) error)(ctx)
			})
			return func(ctx *actor.Context[any]) { ctx.Unbecome() }
		},
		"a Pipe": func(ctx *actor.Context[any]) func(*actor.Context[any]) {
			come := make(chan struct{})
			actor.Pipe(ctx, func(context.Context) (int, error) { <-come; return 1, nil }, func(n int, _ error) any { return n })
			return func(*actor.Context[any]) { close(come) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sys := actortest.NewSystem(t)
				ref, log := inn(sys)
				var letGo func(*actor.Context[any])
				ref.Tell(bg, func(ctx *actor.Context[any]) error { letGo = hold(ctx); return nil })
				time.Sleep(time.Minute)
				expectLines(t, log, "init 1")
				ref.Tell(bg, func(ctx *actor.Context[any]) error { letGo(ctx); return nil })
				time.Sleep(3 * time.Second)
				if got := log.read(); len(got) == 0 || got[len(got)-1] != "terminate 1: <nil>" {
					t.Errorf("%q", got)
				}
			})
		})
	}
}

func TestInitThatFailsAtAnActivationIsAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := new(guestbook)
		sys := actortest.NewSystem(t)
		failures := collect[actor.ActorFailed](sys)
		ref := actor.Spawn[any](sys, "guest", func() *guest {
			log.guests++
			number := log.guests
			return &guest{log: log, number: number, init: func(*actor.Context[any]) error {
				if number == 2 {
					return errors.New("no key")
				}
				return nil
			}}
		}, actor.Passivate(time.Second))
		time.Sleep(3 * time.Second)
		ref.Tell(bg, "hello")
		synctest.Wait()
		expectLines(t, log, "init 1", "terminate 1: <nil>", "init 2", "init 3", "hello, the 1. of 3")
		if f := failures(); len(f) != 1 || !strings.Contains(f[0].Err.Error(), "no key") {
			t.Errorf("%v", f)
		}
		time.Sleep(3 * time.Second)
		expectLines(t, log, "terminate 3: <nil>")
	})
}

// What comes while the incarnation ends, or waits in Terminate, gets the next one.
func TestMessageThatComesDuringAPassivation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := new(guestbook)
		sys := actortest.NewSystem(t)
		var leave chan struct{}
		ref := actor.Spawn[any](sys, "slow", func() *slowLeaver {
			leave = make(chan struct{})
			return &slowLeaver{log, leave}
		}, actor.Passivate(time.Second), actor.Reentrant())
		ref.Tell(bg, "first")
		time.Sleep(3 * time.Second)
		ref.Tell(bg, "second")
		synctest.Wait()
		expectLines(t, log, "first")
		close(leave)
		synctest.Wait()
		expectLines(t, log, "left", "second")
		close(leave)
	})
}

type slowLeaver struct {
	log   *guestbook
	leave chan struct{}
}

func (s *slowLeaver) Receive(_ *actor.Context[any], msg any) error {
	s.log.write("%v", msg)
	return nil
}

func (s *slowLeaver) Terminate(*actor.Context[any], error) {
	<-s.leave
	s.log.write("left")
}

// A wait that is longer than the time after which the actor would be passivated goes on.
func TestHandlerThatWaitsIsNotCutShortByAPassivation(t *testing.T) {
	for name, opts := range map[string][]actor.SpawnOption{"plain": nil, "reentrant": {actor.Reentrant()}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sys := actortest.NewSystem(t)
				ref, log := inn(sys, opts...)
				errs := make(chan error, 1)
				for range 3 {
					ref.Tell(bg, func(ctx *actor.Context[any]) error {
						errs <- ctx.Sleep(10 * time.Second)
						return ctx.Err()
					})
					if err := <-errs; err != nil {
						t.Error(err)
					}
				}
				time.Sleep(3 * time.Second)
				expectLines(t, log, "init 1", "terminate 1: <nil>")
			})
		})
	}
}

func TestResumedActorIsPassivated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := actortest.NewSystem(t, actor.Supervise(actor.OneForOne, actor.Decide(func(error) actor.Directive { return actor.Resume })))
		ref, log := inn(sys)
		ref.Tell(bg, func(ctx *actor.Context[any]) error {
			time.Sleep(10 * time.Second)
			return errors.New("failed")
		})
		time.Sleep(13 * time.Second)
		expectLines(t, log, "init 1", "terminate 1: <nil>")
	})
}

func TestActorIsPassivatedAfterTheEndOfItsLastChild(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := actortest.NewSystem(t)
		ref, log := inn(sys)
		ref.Tell(bg, func(ctx *actor.Context[any]) error {
			actor.SpawnFunc(ctx, "", func(*actor.Context[int], int) error {
				time.Sleep(10 * time.Second)
				return actor.ErrStop
			}).Tell(bg, 1)
			return nil
		})
		time.Sleep(13 * time.Second)
		expectLines(t, log, "init 1", "terminate 1: <nil>")
	})
}

func TestActorThatStopsItselfAtAPassivationEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := actortest.NewSystem(t)
		ref := actor.Spawn(sys, "x", func() *quitter { return new(quitter) }, actor.Passivate(time.Second))
		if d, err := ref.Wait(bg); err != nil || d.Reason != actor.Stopped {
			t.Errorf("%+v, %v", d, err)
		}
	})
}

// quitter stops when it is passivated.
type quitter struct{}

func (*quitter) Receive(*actor.Context[int], int) error     { return nil }
func (*quitter) Terminate(ctx *actor.Context[int], _ error) { ctx.Stop() }

func TestNilStateIsAFailureOfTheHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := actortest.NewSystem(t, actor.Supervise(actor.OneForOne, actor.MaxRestarts(1, time.Minute), actor.Exhausted(actor.Stop)))
		ref := actor.Spawn(sys, "x", func() actor.Actor[int] { return nil })
		ref.Tell(bg, 1)
		ref.Tell(bg, 2)
		if d, err := ref.Wait(bg); err != nil || d.Reason != actor.Failed {
			t.Errorf("%+v, %v", d, err)
		}
	})
}

func TestFunctionCannotBePassivated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := actortest.NewSystem(t)
		if _, err := actor.TrySpawn(sys, "x", func() *quitter { return new(quitter) }, actor.Passivate(time.Second), actor.Gated(openGate{})); err == nil ||
			!strings.Contains(err.Error(), "a Gated actor cannot be passivated") {
			t.Errorf("%v", err)
		}
		_, err := actor.TrySpawnFunc(sys, "x", func(*actor.Context[int], int) error { return nil }, actor.Passivate(time.Second))
		if err == nil || !strings.Contains(err.Error(), "it has no state") {
			t.Errorf("%v", err)
		}
		defer func() {
			if recover() == nil {
				t.Error("a duration of 0 is accepted")
			}
		}()
		actor.Passivate(0)
	})
}

// Many senders and many passivations: each message is handled once, in order, by a state whose Init
// has returned.
func TestPassivationLosesNothing(t *testing.T) {
	sys := actortest.NewSystem(t)
	const messages = 300
	next, lives := make([]int, 4), 0
	var mu sync.Mutex
	ref := actor.Spawn(sys, "x", func() *orderly {
		return &orderly{next: next, born: func() { mu.Lock(); lives++; mu.Unlock() }}
	}, actor.Passivate(time.Millisecond))
	var wg sync.WaitGroup
	for sender := range next {
		wg.Go(func() {
			for n := range messages {
				ref.Tell(bg, [2]int{sender, n})
				if n%10 == 9 {
					<-time.After(3 * time.Millisecond)
				}
			}
		})
	}
	wg.Wait()
	if _, err := sys.Shutdown(bg); err != nil {
		t.Fatal(err)
	}
	for sender, n := range next {
		if n != messages {
			t.Errorf("%d of %d messages of sender %d", n, messages, sender)
		}
	}
	if lives < 2 {
		t.Errorf("%d incarnations: nothing was passivated", lives)
	}
}

type orderly struct {
	next []int
	born func()
	on   bool
}

func (o *orderly) Init(*actor.Context[[2]int]) error {
	o.born()
	o.on = true
	return nil
}

func (o *orderly) Receive(_ *actor.Context[[2]int], m [2]int) error {
	if !o.on || o.next[m[0]] != m[1] {
		return fmt.Errorf("message %v, expected %d, on: %t", m, o.next[m[0]], o.on)
	}
	o.next[m[0]]++
	return nil
}

func (o *orderly) Terminate(*actor.Context[[2]int], error) { o.on = false }
