package actor_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/pprof"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/actortest"
)

// fenceTime is more than a killed actor gets to finish its message.
const fenceTime = time.Second

// clings enters the callback that is named and does not leave it before it is released.
type clings struct {
	held
	to   string
	log  *journal
	init int
}

func newClings(to string) *clings { return &clings{held: newHeld(), to: to, log: new(journal)} }

func (c *clings) in(callback string) {
	c.log.add("%s", callback)
	if callback == c.to {
		close(c.entered)
		<-c.release
	}
}

func (c *clings) Init(*actor.Context[any]) error {
	c.init++
	c.in(fmt.Sprint("init ", c.init))
	return nil
}

func (c *clings) Receive(_ *actor.Context[any], m any) error {
	if err, ok := m.(error); ok {
		return err
	}
	if h, ok := m.(held); ok {
		close(h.entered)
		<-h.release
		return nil
	}
	c.in("receive")
	return nil
}

func (c *clings) Terminate(*actor.Context[any], error) { c.in("terminate") }

func (c *clings) Inspect() any {
	c.in("inspect")
	return 1
}

// endsWithoutDelay reports an actor whose watcher is told nothing long after it was killed.
func endsWithoutDelay(t *testing.T, down func() actor.Down) {
	t.Helper()
	began, gone := time.Now(), make(chan actor.Down, 1)
	go func() { gone <- down() }()
	select {
	case d := <-gone:
		if d.Reason != actor.Killed {
			t.Errorf("ended as %v", d.Reason)
		}
	case <-time.After(time.Hour):
		t.Fatal("a killed actor has not ended")
	}
	if took := time.Since(began); took > fenceTime {
		t.Errorf("it has ended after %v", took)
	}
}

func TestTerminateThatWasLeftBehindEndsTheActorOnlyOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := actortest.NewSystem(t)
		c := newClings("terminate")
		ref := actor.Spawn(sys, "x", func() *clings { return c })
		down := ended(t, sys, ref)
		ref.Stop()
		<-c.entered
		ref.Kill()
		endsWithoutDelay(t, down)
		synctest.Wait()
		namesake := actor.Spawn(sys, "x", newCounter)
		living := sys.Stats().Actors
		close(c.release)
		synctest.Wait()
		if n := sys.Stats().Actors; n != living {
			t.Errorf("%d actors after the late return, %d before", n, living)
		}
		if found, err := actor.LookupPath[counterMsg](sys, "/x"); err != nil || found.PID() != namesake.PID() {
			t.Errorf("the namesake is %v, %v", found.PID(), err)
		}
		if _, err := actor.Lookup[counterMsg](sys, namesake.PID()); err != nil {
			t.Errorf("the namesake by its PID: %v", err)
		}
		other := actor.Spawn(sys, "", newCounter) // gets no slot that is in use
		other.Tell(bg, add{1})
		if n := mustAsk(t, namesake, get{}); n != 0 {
			t.Errorf("got %d, the other's state", n)
		}
	})
}

func TestInitThatWasLeftBehindBringsNobodyBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := actortest.NewSystem(t)
		c := newClings("init 2")
		ref := actor.Spawn(sys, "x", func() *clings { return c })
		down := ended(t, sys, ref)
		ref.Tell(bg, errBroken)
		<-c.entered
		ref.Kill()
		endsWithoutDelay(t, down)
		close(c.release)
		synctest.Wait()
		if err := ref.TryTell(bg, 5); !errors.Is(err, actor.ErrStopped) {
			t.Errorf("an actor whose Down has come takes a message: %v", err)
		}
		synctest.Wait()
		c.log.expect(t, "init 1", "terminate", "init 2")
	})
}

func TestKillOrderedTogetherWithStopLeavesNoTerminateToWaitFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := actortest.NewSystem(t)
		c := newClings("terminate")
		ref := actor.Spawn(sys, "x", func() *clings { return c })
		down := ended(t, sys, ref)
		h := newHeld()
		ref.Tell(bg, h)
		<-h.entered
		ref.Stop()
		ref.Kill()
		close(h.release)
		endsWithoutDelay(t, down)
		close(c.release)
	})
}

// returnsIt returns the error that it is told.
func returnsIt(_ *actor.Context[any], m any) error {
	err, _ := m.(error)
	return err
}

// entangled clings, and has a child, and a link.
type entangled struct {
	*clings
	peer  actor.PID
	child *actor.Ref[any]
}

func (e entangled) Init(ctx *actor.Context[any]) error {
	*e.child = actor.SpawnFunc(ctx, "", returnsIt, actor.Temporary)
	ctx.Link(e.peer)
	return nil
}

// None of it would come to its end, since what it calls of the user's is not called any more.
func TestKillEndsAHandlerWhateverElseItsActorWasTold(t *testing.T) {
	for what, tell := range map[string]func(sys *actor.System, ref, peer, sibling, child actor.Ref[any]){
		"to restart":                   func(sys *actor.System, ref, _, _, _ actor.Ref[any]) { _ = sys.Restart(ref.PID()) },
		"of the end of a linked actor": func(_ *actor.System, _, peer, _, _ actor.Ref[any]) { peer.Kill() },
		"of the failure of a child":    func(_ *actor.System, _, _, _, child actor.Ref[any]) { child.Tell(bg, errors.New("child")) },
		"to restart with its siblings": func(_ *actor.System, _, _, sibling, _ actor.Ref[any]) { sibling.Tell(bg, errors.New("sibling")) },
		"to show itself":               func(sys *actor.System, ref, _, _, _ actor.Ref[any]) { _, _ = sys.Detail(bg, ref.PID()) },
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sys := actortest.NewSystem(t)
				c := newClings("receive")
				defer close(c.release)
				decide := actor.Decide(func(error) actor.Directive { return actor.Restart })
				peer := actor.SpawnFunc(sys, "", inert)
				var sibling, ref, child actor.Ref[any]
				actor.SpawnFunc(sys, "", func(ctx *actor.Context[any], _ any) error {
					sibling = actor.SpawnFunc(ctx, "", returnsIt)
					ref = actor.Spawn(ctx, "", func() entangled { return entangled{c, peer.PID(), &child} }, actor.Supervise(actor.OneForOne, decide))
					return nil
				}, actor.Supervise(actor.AllForOne)).Tell(bg, 1)
				synctest.Wait()
				down := ended(t, sys, ref)
				ref.Tell(bg, 1)
				<-c.entered
				tell(sys, ref, peer, sibling, child)
				synctest.Wait()
				ref.Kill()
				endsWithoutDelay(t, down)
			})
		})
	}
}

// An actor that was taken away from its handler shows nothing, and hears of its children's end.
func TestAKilledActorThatIsLookedAtEndsWithItsChildren(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := actortest.NewSystem(t)
		c, child := newClings("receive"), newHeld()
		defer close(c.release)
		ref := actor.Spawn(sys, "x", func() spawnsPinned { return spawnsPinned{c, child} })
		<-child.entered
		down := ended(t, sys, ref)
		ref.Tell(bg, 1)
		<-c.entered
		ref.Kill()
		time.Sleep(fenceTime)
		if d, err := sys.Detail(bg, ref.PID()); err != nil || d.State != "stopping" || d.Children != 1 || d.Busy || d.View != nil {
			t.Errorf("want an actor that waits for its child, got %+v, %v", d, err)
		}
		close(child.release)
		endsWithoutDelay(t, down)
	})
}

// spawnsPinned clings, and has a child that cannot be taken away from its handler.
type spawnsPinned struct {
	*clings
	child held
}

func (s spawnsPinned) Init(ctx *actor.Context[any]) error {
	actor.Spawn(ctx, "", newCounter, actor.Pinned()).Tell(ctx, s.child)
	return nil
}

func TestKillEndsChildrenThatARestartWaitsFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := actortest.NewSystem(t)
		c := newClings("terminate")
		defer close(c.release)
		ref := actor.SpawnFunc(sys, "x", func(ctx *actor.Context[any], _ any) error {
			actor.Spawn(ctx, "", func() *clings { return c })
			return nil
		})
		down := ended(t, sys, ref)
		ref.Tell(bg, 1)
		synctest.Wait()
		if err := sys.Restart(ref.PID()); err != nil {
			t.Fatal(err)
		}
		<-c.entered
		ref.Kill()
		endsWithoutDelay(t, down)
	})
}

func TestHandlerLeftBehindSendsNothingWhileItsActorWaitsForItsChildren(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := actortest.NewSystem(t)
		received := 0
		sink := actor.SpawnFunc(sys, "sink", func(*actor.Context[int], int) error { received++; return nil })
		child, h := newHeld(), newHeld()
		ref := actor.SpawnFunc(sys, "x", func(ctx *actor.Context[int], _ int) error {
			actor.Spawn(ctx, "", newCounter, actor.Pinned()).Tell(ctx, child)
			<-child.entered
			close(h.entered)
			<-h.release
			sink.Tell(ctx, 1)
			return nil
		})
		down := ended(t, sys, ref)
		ref.Tell(bg, 1)
		<-h.entered
		ref.Kill()
		time.Sleep(fenceTime)
		if info, err := sys.Inspect("/x", 1); err != nil || info.Info.State != "stopping" || info.Info.Children != 1 {
			t.Fatalf("want an actor that waits for its child, got %+v, %v", info.Info, err)
		}
		close(h.release)
		synctest.Wait()
		if received != 0 {
			t.Error("what a fenced handler sent was handled")
		}
		close(child.release)
		endsWithoutDelay(t, down)
	})
}

// The handlers end at the very moments at which they are fenced, and the many goroutines
// make the look at a stack take long.
func TestHandlersThatReturnWhileTheyAreFencedEndOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		idle := make(chan struct{})
		defer close(idle)
		for range 500 {
			go func() { <-idle }()
		}
		for range 4 {
			sys := actortest.NewSystem(t)
			const n = 50
			entered := make(chan struct{}, n)
			downs := make([]func() actor.Down, n)
			refs := make([]actor.Ref[time.Duration], n)
			for i := range refs {
				refs[i] = actor.SpawnFunc(sys, "", func(_ *actor.Context[time.Duration], d time.Duration) error {
					entered <- struct{}{}
					time.Sleep(d)
					return nil
				})
				downs[i] = ended(t, sys, refs[i])
			}
			for i, ref := range refs {
				ref.Tell(bg, 99*time.Millisecond+time.Duration(i)*100*time.Microsecond)
			}
			for range n {
				<-entered
			}
			for _, ref := range refs {
				ref.Kill()
			}
			for _, down := range downs {
				endsWithoutDelay(t, down)
			}
			synctest.Wait()
			if living := sys.Stats().Actors; living != 0 {
				t.Fatalf("%d actors live on", living)
			}
			if _, err := sys.Shutdown(bg); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestKillEndsAHandlerWhereverItIs(t *testing.T) {
	for where, cling := range map[string]func(ctx *actor.Context[int], h held) error{
		"in Blocking": func(ctx *actor.Context[int], h held) error {
			return actor.Blocking(ctx, func() error { close(h.entered); <-h.release; return nil })
		},
		"under other profiler labels": func(ctx *actor.Context[int], h held) error {
			pprof.Do(ctx, pprof.Labels("a", "b"), func(context.Context) { close(h.entered); <-h.release })
			return nil
		},
		"after it has waited": func(ctx *actor.Context[int], h held) error {
			_ = ctx.Sleep(time.Millisecond)
			close(h.entered)
			<-h.release
			return nil
		},
		"for long": func(_ *actor.Context[int], h held) error {
			time.Sleep(time.Minute)
			close(h.entered)
			<-h.release
			return nil
		},
	} {
		t.Run(where, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sys := actortest.NewSystem(t)
				h := newHeld()
				ref := actor.SpawnFunc(sys, "x", func(ctx *actor.Context[int], _ int) error { return cling(ctx, h) })
				down := ended(t, sys, ref)
				ref.Tell(bg, 1)
				<-h.entered
				ref.Kill()
				endsWithoutDelay(t, down)
				close(h.release)
			})
		})
	}
}

// clingingGate does not leave Handle before it is released, before or after it has called next.
type clingingGate struct {
	openGate
	held
	after bool
}

func (g clingingGate) Handle(_ context.Context, next func() error) error {
	if g.after {
		_ = next()
	}
	close(g.entered)
	<-g.release
	if g.after {
		return nil
	}
	return next()
}

func TestKillEndsAGateThatDoesNotReturn(t *testing.T) {
	for _, after := range []bool{false, true} {
		t.Run(fmt.Sprintf("after the handler: %t", after), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sys := actortest.NewSystem(t)
				g, handled := clingingGate{held: newHeld(), after: after}, 0
				ref := actor.SpawnFunc(sys, "x", func(*actor.Context[int], int) error { handled++; return nil }, actor.Gated(g))
				down := ended(t, sys, ref)
				ref.Tell(bg, 1)
				<-g.entered
				before := handled
				ref.Kill()
				endsWithoutDelay(t, down)
				close(g.release)
				synctest.Wait()
				if handled != before {
					t.Error("the gate that was left behind has called the handler")
				}
			})
		})
	}
}

func TestKillEndsAHandlerThatAPinnedActorWaitsFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := actortest.NewSystem(t, actor.WithAskTimeout(time.Hour))
		h := newHeld()
		ref := actor.SpawnFunc(sys, "x", func(*actor.Context[get], get) error {
			close(h.entered)
			<-h.release
			return nil
		})
		failed := make(chan error, 1)
		actor.SpawnFunc(sys, "asker", func(ctx *actor.Context[int], _ int) error {
			_, err := actor.Ask(ctx, ref, get{})
			failed <- err
			return nil
		}, actor.Pinned()).Tell(bg, 1)
		down := ended(t, sys, ref)
		<-h.entered
		time.Sleep(time.Minute) // for whoever looks after the handlers to fall asleep, which it must not
		ref.Kill()
		endsWithoutDelay(t, down)
		if err := <-failed; !errors.Is(err, actor.ErrStopped) {
			t.Errorf("the ask ended with %v", err)
		}
		close(h.release)
	})
}

func TestKillEndsAChainOfHandlersThatWaitForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := actortest.NewSystem(t, actor.WithAskTimeout(time.Hour))
		h := newHeld()
		last := actor.SpawnFunc(sys, "last", func(*actor.Context[get], get) error {
			close(h.entered)
			<-h.release
			return nil
		})
		first := last
		for range 50 {
			next := first
			first = actor.SpawnFunc(sys, "", func(ctx *actor.Context[get], m get) error {
				_, err := actor.Ask(ctx, next, m)
				return err
			})
		}
		failed := make(chan error, 1)
		go func() {
			_, err := actor.Ask(bg, first, get{})
			failed <- err
		}()
		<-h.entered
		began := time.Now()
		last.Kill()
		if err := <-failed; !errors.Is(err, actor.ErrStopped) {
			t.Errorf("the first ask ended with %v", err)
		}
		if took := time.Since(began); took > fenceTime {
			t.Errorf("the chain has ended after %v", took)
		}
		close(h.release)
	})
}

// haunts is what a handler that was left behind may try with its context.
var haunts = map[string]func(ctx *actor.Context[any], m any, sink actor.Ref[any]) error{
	"nothing": func(*actor.Context[any], any, actor.Ref[any]) error { return nil },
	"Tell":    func(ctx *actor.Context[any], _ any, sink actor.Ref[any]) error { sink.Tell(ctx, 1); return nil },
	"TryTell": func(ctx *actor.Context[any], _ any, sink actor.Ref[any]) error { return sink.TryTell(ctx, 1) },
	"Forward": func(ctx *actor.Context[any], _ any, sink actor.Ref[any]) error { return actor.Forward(ctx, sink) },
	"Self":    func(ctx *actor.Context[any], _ any, _ actor.Ref[any]) error { ctx.Self().Tell(ctx, 1); return nil },
	"Stop":    func(ctx *actor.Context[any], _ any, _ actor.Ref[any]) error { ctx.Stop(); return nil },
	"Stash":   func(ctx *actor.Context[any], _ any, _ actor.Ref[any]) error { return ctx.Stash() },
	"Unstash": func(ctx *actor.Context[any], _ any, _ actor.Ref[any]) error {
		_ = ctx.Stash()
		ctx.Unstash()
		return nil
	},
	"Become":   func(ctx *actor.Context[any], _ any, _ actor.Ref[any]) error { ctx.Become(inert); return nil },
	"After":    func(ctx *actor.Context[any], _ any, _ actor.Ref[any]) error { ctx.After("a", time.Hour, 1); return nil },
	"Every":    func(ctx *actor.Context[any], _ any, _ actor.Ref[any]) error { ctx.Every("a", time.Hour, 1); return nil },
	"Link":     func(ctx *actor.Context[any], _ any, sink actor.Ref[any]) error { ctx.Link(sink.PID()); return nil },
	"Sleep":    func(ctx *actor.Context[any], _ any, _ actor.Ref[any]) error { return ctx.Sleep(time.Millisecond) },
	"Sender":   func(ctx *actor.Context[any], _ any, _ actor.Ref[any]) error { _ = ctx.Sender(); return nil },
	"Children": func(ctx *actor.Context[any], _ any, _ actor.Ref[any]) error { _ = ctx.Children(); return nil },
	"Log":      func(ctx *actor.Context[any], _ any, _ actor.Ref[any]) error { ctx.Log().Info("x"); return nil },
	"panic":    func(*actor.Context[any], any, actor.Ref[any]) error { panic("boo") },
	"Goexit":   func(*actor.Context[any], any, actor.Ref[any]) error { runtime.Goexit(); return nil },
	"error":    func(*actor.Context[any], any, actor.Ref[any]) error { return errBroken },
	"Ask": func(ctx *actor.Context[any], _ any, sink actor.Ref[any]) error {
		_, err := actor.Ask(ctx, sink, get{})
		return err
	},
	"AskThen": func(ctx *actor.Context[any], _ any, sink actor.Ref[any]) error {
		actor.AskThen(ctx, sink, get{}, func(int, error) any { return 1 })
		return nil
	},
	"Gather": func(ctx *actor.Context[any], _ any, sink actor.Ref[any]) error {
		for _, a := range actor.Gather(ctx, []actor.Ref[any]{sink}, get{}) {
			return a.Err
		}
		return nil
	},
	"Pipe": func(ctx *actor.Context[any], _ any, _ actor.Ref[any]) error {
		actor.Pipe(ctx, func(context.Context) (int, error) { return 1, nil }, func(int, error) any { return 1 })
		return nil
	},
	"SetReceiveTimeout": func(ctx *actor.Context[any], _ any, _ actor.Ref[any]) error {
		ctx.SetReceiveTimeout(time.Hour, 1)
		return nil
	},
	"Watch": func(ctx *actor.Context[any], _ any, sink actor.Ref[any]) error {
		ctx.Watch(sink.PID(), func(actor.Down) any { return 1 })
		return nil
	},
	"Blocking": func(ctx *actor.Context[any], _ any, _ actor.Ref[any]) error {
		return actor.Blocking(ctx, func() error { return nil })
	},
	"Spawn": func(ctx *actor.Context[any], _ any, _ actor.Ref[any]) error {
		actor.SpawnFunc(ctx, "", inert)
		return nil
	},
	"TrySpawn": func(ctx *actor.Context[any], _ any, _ actor.Ref[any]) error {
		_, err := actor.TrySpawnFunc(ctx, "", inert)
		return err
	},
	"Promise": func(ctx *actor.Context[any], m any, _ actor.Ref[any]) error {
		if g, ok := m.(get); ok {
			actor.Promise(ctx, g).Resolve(1)
		}
		return nil
	},
	"Reply": func(ctx *actor.Context[any], m any, _ actor.Ref[any]) error {
		if g, ok := m.(get); ok {
			actor.Reply(ctx, g, 1)
		}
		return nil
	},
}

func TestWhatAHandlerLeftBehindDoesHasNoEffect(t *testing.T) {
	for name, haunt := range haunts {
		for _, asked := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s asked=%t", name, asked), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { hauntOnce(t, asked, haunt) })
			})
		}
	}
}

func hauntOnce(t *testing.T, asked bool, haunt func(*actor.Context[any], any, actor.Ref[any]) error) {
	sys := actortest.NewSystem(t)
	var received atomic.Int32
	sink := actor.SpawnFunc(sys, "sink", func(ctx *actor.Context[any], m any) error {
		received.Add(1)
		if g, ok := m.(get); ok {
			actor.Reply(ctx, g, 5)
		}
		return nil
	})
	h, over := newHeld(), make(chan struct{})
	ref := actor.SpawnFunc(sys, "x", func(ctx *actor.Context[any], m any) error {
		close(h.entered)
		<-h.release
		defer close(over)
		return haunt(ctx, m, sink)
	})
	down, answered := ended(t, sys, ref), make(chan error, 1)
	if asked {
		go func() {
			_, err := actor.Ask(bg, ref, get{})
			answered <- err
		}()
	} else {
		ref.Tell(bg, "go")
	}
	<-h.entered
	ref.Kill()
	endsWithoutDelay(t, down)
	if asked {
		if err := <-answered; !errors.Is(err, actor.ErrStopped) {
			t.Errorf("the ask ended with %v", err)
		}
	}
	var others sync.WaitGroup // get what the actor has given back
	for range 50 {
		others.Add(1)
		actor.SpawnFunc(sys, "", func(*actor.Context[any], any) error { others.Done(); return nil }).Tell(bg, 1)
	}
	others.Wait()
	synctest.Wait()
	before := sys.Stats()
	close(h.release)
	<-over
	synctest.Wait()
	after := sys.Stats()
	if received.Load() != 0 {
		t.Error("what it sent was handled")
	}
	if after.Actors != before.Actors || after.Timers > before.Timers || after.Restarts != 0 {
		t.Errorf("%d actors, %d timers, then %d, %d and %d restarts", before.Actors, before.Timers, after.Actors, after.Timers, after.Restarts)
	}
}

// compareError is an error that a comparison takes long with.
type compareError struct{ h held }

func (compareError) Error() string { return "compareError" }

func (e compareError) Is(error) bool {
	close(e.h.entered)
	<-e.h.release
	return false
}

func TestAnErrorThatClingsIsNoHandlerThatClings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := actortest.NewSystem(t)
		h := newHeld()
		ref := actor.SpawnFunc(sys, "", func(*actor.Context[int], int) error { return compareError{h} })
		down := ended(t, sys, ref)
		ref.Tell(bg, 1)
		<-h.entered
		ref.Kill()
		time.Sleep(fenceTime)
		if _, err := actor.Lookup[int](sys, ref.PID()); err != nil {
			t.Error("the actor was taken away from the runtime")
		}
		close(h.release)
		down()
	})
}

// textPanicsError is an error whose text nobody can have.
type textPanicsError struct{}

func (textPanicsError) Error() string { panic("no text") }

func TestAnErrorWhoseTextPanicsIsAFailureLikeOthers(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		n := 0
		ref := actor.SpawnFunc(k.System(), "", func(*actor.Context[int], int) error {
			n++
			return textPanicsError{}
		})
		ref.Tell(k.Context(), 1)
		ref.Tell(k.Context(), 2)
		k.Settle()
		if st := k.System().Stats(); n != 2 || st.Restarts != 2 || st.Failures != 2 {
			k.T().Errorf("%d handled, %d failures and %d restarts, want 2 of each", n, st.Failures, st.Restarts)
		}
		k.ExpectFailures(2)
	})
}

// asksWho tells its Init's sender, which there is none of.
type asksWho struct{ sender *actor.PID }

func (a asksWho) Init(ctx *actor.Context[int]) error {
	*a.sender = ctx.Sender()
	return nil
}

func (asksWho) Receive(*actor.Context[int], int) error { return nil }

func TestWhatAFencedActorHadIsNobodyElses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := actortest.NewSystem(t)
		for range 10 {
			h := newHeld()
			ref := actor.SpawnFunc(sys, "", func(*actor.Context[int], int) error {
				close(h.entered)
				<-h.release
				return nil
			})
			actor.SpawnFunc(sys, "", func(ctx *actor.Context[any], _ any) error { ref.Tell(ctx, 1); return nil }).Tell(bg, nil)
			<-h.entered
			ref.Kill()
			time.Sleep(fenceTime)
			for range 10 {
				var sender actor.PID
				if actor.Spawn(sys, "", func() asksWho { return asksWho{&sender} }); !sender.IsZero() {
					t.Errorf("the sender of an Init is %s", sender)
				}
			}
			close(h.release)
		}
	})
}

// A handler that shuts another system down, which takes for ever, can be killed as in any other wait.
func TestKillEndsAHandlerThatShutsAnotherSystemDown(t *testing.T) {
	for name, with := range map[string]func(*actor.Context[any]) context.Context{
		"with its context": func(ctx *actor.Context[any]) context.Context { return ctx },
		"without":          func(*actor.Context[any]) context.Context { return bg },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sys, other, stuck := actortest.NewSystem(t), actor.NewSystem("other", quiet), newHeld()
				actor.SpawnFunc(other, "", func(*actor.Context[any], any) error {
					close(stuck.entered)
					<-stuck.release
					return nil
				}).Tell(bg, nil)
				<-stuck.entered
				ref := actor.SpawnFunc(sys, "", func(ctx *actor.Context[any], _ any) error {
					_, err := other.Shutdown(with(ctx))
					return err
				})
				down := ended(t, sys, ref)
				ref.Tell(bg, nil)
				synctest.Wait()
				ref.Kill()
				endsWithoutDelay(t, down)
				close(stuck.release)
			})
		})
	}
}

// Who has forwarded a request, or made a promise of it, does not answer it any more: that a Kill then
// leaves the handler behind does not end the ask.
func TestAKilledHandlerDoesNotEndAnAskThatItHasGivenAway(t *testing.T) {
	for name, giveAway := range map[string]func(ctx *actor.Context[any], g get, to actor.Ref[any]) error{
		"forwarded": func(ctx *actor.Context[any], _ get, to actor.Ref[any]) error { return actor.Forward(ctx, to) },
		"promised": func(ctx *actor.Context[any], g get, to actor.Ref[any]) error {
			to.Tell(ctx, actor.Promise(ctx, g))
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sys := actortest.NewSystem(t)
				h, later := newHeld(), make(chan struct{})
				answers := actor.SpawnFunc(sys, "answers", func(ctx *actor.Context[any], m any) error {
					<-later
					switch m := m.(type) {
					case get:
						actor.Reply(ctx, m, 7)
					case *actor.Promised[int]:
						m.Resolve(7)
					}
					return nil
				})
				clings := actor.SpawnFunc(sys, "clings", func(ctx *actor.Context[any], m any) error {
					err := giveAway(ctx, m.(get), answers)
					close(h.entered)
					<-h.release
					return err
				})
				answer := actor.AskFuture(bg, clings, get{})
				<-h.entered
				clings.Kill()
				if _, err := clings.Wait(bg); err != nil {
					t.Fatal(err)
				}
				close(later)
				if n, err := answer.Wait(bg); n != 7 || err != nil {
					t.Errorf("the answer is %d, %v, want 7", n, err)
				}
				close(h.release)
			})
		})
	}
}

// A handler that has put back what was stashed loses its actor to a Kill as others do, and its asker hears of it.
func TestAKillEndsTheAskOfAHandlerThatHasUnstashed(t *testing.T) {
	for name, before := range map[string]bool{"another message": true, "its own": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sys := actortest.NewSystem(t)
				h := newHeld()
				clings := actor.SpawnFunc(sys, "clings", func(ctx *actor.Context[any], m any) error {
					if _, ask := m.(get); !ask {
						return ctx.Stash()
					}
					if !before {
						_ = ctx.Stash()
					}
					ctx.Unstash()
					close(h.entered)
					<-h.release
					return nil
				})
				down := ended(t, sys, clings)
				if before {
					clings.Tell(bg, 1)
				}
				answer := actor.AskFuture(bg, clings, get{}, actor.Within(2*time.Hour))
				<-h.entered
				clings.Kill()
				endsWithoutDelay(t, down)
				if _, err := answer.Wait(bg); !errors.Is(err, actor.ErrStopped) {
					t.Errorf("it gets %v, want ErrStopped", err)
				}
				close(h.release)
			})
		})
	}
}

// A handler that was left behind links and unlinks nobody, also while its actor waits for a child to end.
func TestAHandlerLeftBehindChangesNoLink(t *testing.T) {
	for name, change := range map[string]func(ctx *actor.Context[any], peer actor.PID){
		"links":   func(ctx *actor.Context[any], peer actor.PID) { ctx.Link(peer) },
		"unlinks": func(ctx *actor.Context[any], peer actor.PID) { ctx.Unlink(peer) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sys := actortest.NewSystem(t, actor.Supervise(actor.OneForOne, actor.Decide(func(error) actor.Directive { return actor.Stop })))
				peer := actor.SpawnFunc(sys, "peer", inert)
				child, parent, changed := newHeld(), newHeld(), make(chan struct{})
				ref := actor.SpawnFunc(sys, "parent", func(ctx *actor.Context[any], _ any) error {
					actor.SpawnFunc(ctx, "child", func(*actor.Context[any], any) error {
						close(child.entered)
						<-child.release
						return nil
					}, actor.Pinned()).Tell(ctx, "go")
					if name == "unlinks" {
						ctx.Link(peer.PID())
					}
					close(parent.entered)
					<-parent.release
					change(ctx, peer.PID())
					close(changed)
					return nil
				})
				ref.Tell(bg, "go")
				<-child.entered
				<-parent.entered
				ref.Kill()
				time.Sleep(fenceTime) // it is taken away from its handler, and waits for the child
				close(parent.release)
				<-changed
				close(child.release)
				if _, err := ref.Wait(bg); err != nil {
					t.Fatal(err)
				}
				_, err := peer.Wait(bg, actor.Within(time.Minute))
				if ended := err == nil; ended != (name == "unlinks") {
					t.Errorf("the peer has ended: %t", ended)
				}
			})
		})
	}
}

// The handler finds another worker in its actor's turn, and is not told that it is on the wrong goroutine.
func TestAHandlerLeftBehindIsToldThatItsActorHasStopped(t *testing.T) {
	others := actortest.NewSystem(t)
	burying, once := make(chan struct{}), new(sync.Once)
	listener := actor.SpawnFunc(others, "", func(*actor.Context[actor.DeadLetter], actor.DeadLetter) error {
		once.Do(func() { close(burying) })
		return nil
	}, actor.ObserveMailbox(slowObserver{}))
	sys := actortest.NewSystem(t)
	actor.Subscribe(sys, listener)
	quiet := actor.Spawn(sys, "", newCounter)
	entered, release, got := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	ref := actor.SpawnFunc(sys, "", func(ctx *actor.Context[int], _ int) error {
		close(entered)
		<-release
		for _, a := range actor.Gather(ctx, []actor.Ref[counterMsg]{quiet}, get{}) {
			got <- a.Err
		}
		return nil
	})
	ref.Tell(bg, 0)
	<-entered
	for range 500 { // a millisecond each
		ref.Tell(bg, 1)
	}
	ref.Kill()
	<-burying
	close(release)
	if err := <-got; !errors.Is(err, actor.ErrStopped) {
		t.Errorf("got %v", err)
	}
}
