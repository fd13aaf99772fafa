package actor_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-go/greenroom/actor"
)

// bubble runs f with two connected systems in virtual time.
func bubble(t *testing.T, f func(t *testing.T, a, b *loopback), opts ...actor.SystemOption) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		a, b := connect(t, opts...)
		f(t, a, b)
	})
}

// recorder keeps what its actor handles.
type recorder struct {
	mu  sync.Mutex
	got []any
}

func (r *recorder) add(m any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.got = append(r.got, m)
}

// expect says what is not as wanted, once all is quiet.
func (r *recorder) expect(t *testing.T, want ...any) {
	t.Helper()
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	if fmt.Sprintf("%v", r.got) != fmt.Sprintf("%v", want) {
		t.Errorf("handled %v, want %v", r.got, want)
	}
	r.got = nil
}

// record spawns an actor that keeps what it gets.
func record(sys *actor.System, name string, opts ...actor.SpawnOption) (actor.Ref[any], *recorder) {
	r := new(recorder)
	return actor.SpawnFunc(sys, name, func(_ *actor.Context[any], m any) error {
		r.add(m)
		return nil
	}, opts...), r
}

// watchOf has an actor of sys watch pid and keep the Downs.
func watchOf(sys *actor.System, pid actor.PID) (actor.Ref[any], *recorder) {
	r := new(recorder)
	ref := actor.SpawnFunc(sys, "", func(ctx *actor.Context[any], m any) error {
		switch m := m.(type) {
		case actor.PID:
			ctx.Watch(m, func(d actor.Down) any { return d })
		case string:
			ctx.Unwatch(pid)
		case actor.Down:
			r.add(m.Reason)
			if m.PID != pid {
				r.add(m.PID)
			}
		}
		return nil
	})
	ref.Tell(bg, pid)
	return ref, r
}

func deadLetters(sys *actor.System) (all []string) {
	for _, d := range slices.Backward(sys.DeadLetters()) {
		all = append(all, fmt.Sprintf("%s %s %v", d.To.Path(), d.Reason, d.Message))
	}
	return all
}

func expectDead(t *testing.T, sys *actor.System, want ...string) {
	t.Helper()
	synctest.Wait()
	if got := deadLetters(sys); !slices.Equal(got, want) {
		t.Errorf("dead letters %q, want %q", got, want)
	}
}

func TestATellReachesAnotherSystemWithItsSender(t *testing.T) {
	bubble(t, func(t *testing.T, a, b *loopback) {
		there := actor.SpawnFunc(b.sys(), "there", func(ctx *actor.Context[any], m any) error {
			back, err := actor.Lookup[any](ctx.System(), ctx.Sender())
			back.Tell(ctx, fmt.Sprint("got ", m))
			return err
		})
		far := remoteRef[any](t, a, there.PID())
		relay := actor.SpawnFunc(a.sys(), "relay", func(ctx *actor.Context[any], _ any) error { return actor.Forward(ctx, far) })
		var answer recorder
		var from actor.PID
		actor.SpawnFunc(a.sys(), "starter", func(ctx *actor.Context[any], m any) error {
			if m == 1 {
				relay.Tell(ctx, m)
				far.Tell(ctx, 2)
				return nil
			}
			answer.add(m)
			from = ctx.Sender()
			return nil
		}).Tell(bg, 1)
		synctest.Wait()
		if from != there.PID() {
			t.Errorf("the answer is from %s and not from %s", from, there)
		}
		if len(answer.got) != 2 {
			t.Errorf("the sender has been told %v", answer.got)
		}
	})
}

func TestReferencesToOneFarActorAreEqual(t *testing.T) {
	bubble(t, func(t *testing.T, a, b *loopback) {
		ref, _ := record(b.sys(), "x")
		first, second := remoteRef[any](t, a, ref.PID()), remoteRef[any](t, a, ref.PID())
		if first != second || first.PID() != ref.PID() {
			t.Errorf("%v and %v differ, or are not %v", first, second, ref)
		}
		other, _ := record(b.sys(), "y")
		if first == remoteRef[any](t, a, other.PID()) {
			t.Error("references to two actors are equal")
		}
	})
}

func TestMessagesOfOneSenderKeepTheirOrderBetweenSystems(t *testing.T) {
	bubble(t, func(t *testing.T, a, b *loopback) {
		var got []int
		there := actor.SpawnFunc(b.sys(), "there", func(_ *actor.Context[int], n int) error {
			got = append(got, n)
			return nil
		})
		far := remoteRef[int](t, a, there.PID())
		a.hold(true, 0) // so that they are delivered as a run
		for n := range 1000 {
			far.Tell(bg, n)
		}
		a.hold(false, 0)
		synctest.Wait()
		if len(got) != 1000 || !slices.IsSorted(got) {
			t.Errorf("%d of 1000 have come, sorted: %v", len(got), slices.IsSorted(got))
		}
	})
}

func TestAnAskOfAnotherSystemIsAnsweredLikeOneAtHome(t *testing.T) {
	bubble(t, func(t *testing.T, a, b *loopback) {
		var kept *actor.Promised[int]
		there := actor.SpawnFunc(b.sys(), "there", func(ctx *actor.Context[any], m any) error {
			switch m := m.(type) {
			case get:
				actor.Reply(ctx, m, 7)
			case string:
				actor.ReplyFor(ctx, "re: "+m)
			case mute:
				kept = actor.Promise(ctx, m)
			case fail:
				return actor.Refuse(ctx, m.err)
			}
			return nil
		})
		far := remoteRef[any](t, a, there.PID())
		if n, err := actor.Ask(bg, far, get{}); n != 7 || err != nil {
			t.Errorf("Ask: %d, %v", n, err)
		}
		if s, err := actor.AskFor[string](bg, far, "hello"); s != "re: hello" || err != nil {
			t.Errorf("AskFor: %q, %v", s, err)
		}
		if _, err := actor.AskFor[int](bg, far, "hello"); !errors.Is(err, actor.ErrNotAccepted) {
			t.Errorf("an answer of another type: %v", err)
		}
		if _, err := actor.AskFor[int](bg, far, fail{errFar}); !errors.Is(err, errFar) {
			t.Errorf("an error of the handler: %v", err)
		}
		if _, err := actor.AskFor[int](bg, far, 1); !errors.Is(err, actor.ErrUnhandled) {
			t.Errorf("no answer: %v", err)
		}
		f := actor.AskFuture(bg, far, mute{})
		synctest.Wait()
		if !kept.Resolve(9) || kept.Resolve(10) {
			t.Error("the first answer of a promise counts, and no other")
		}
		if n, err := f.Wait(bg); n != 9 || err != nil {
			t.Errorf("Promise: %d, %v", n, err)
		}
		there.Stop()
		synctest.Wait()
		if _, err := actor.Ask(bg, far, get{}); !errors.Is(err, actor.ErrStopped) {
			t.Errorf("an ask of one that has ended: %v", err)
		}
		if b.sys().Stats().DeadLettersByReason["no_actor"] != 1 {
			t.Errorf("dead letters there: %v", b.sys().Stats().DeadLettersByReason)
		}
	})
}

func TestAnInlineActorHoldsUpNoMessageFromAnotherSystem(t *testing.T) {
	bubble(t, func(t *testing.T, a, b *loopback) {
		leave := make(chan struct{})
		entered := make(chan actor.Header, 2)
		slow := actor.SpawnFunc(b.sys(), "slow", func(ctx *actor.Context[any], _ any) error {
			entered <- actor.HeaderOf(ctx)
			<-leave
			return nil
		}, actor.Inline())
		other := actor.SpawnFunc(b.sys(), "other", func(ctx *actor.Context[any], m any) error {
			actor.Reply(ctx, m.(get), 1)
			return nil
		})
		far := remoteRef[any](t, a, slow.PID())
		far.Tell(bg, "wait")
		far.Tell(bg, "wait")
		if h := <-entered; len(h) != 0 {
			t.Errorf("the message has the header %v", h)
		}
		if n, err := actor.Ask(bg, remoteRef[any](t, a, other.PID()), get{}); n != 1 || err != nil {
			t.Errorf("beside it: %d, %v", n, err)
		}
		close(leave)
		<-entered
	})
}

func TestAHandlerAsksAnotherSystemWithoutHoldingUpItsWorker(t *testing.T) {
	bubble(t, func(t *testing.T, a, b *loopback) {
		there := actor.SpawnFunc(b.sys(), "there", func(ctx *actor.Context[any], m any) error {
			actor.Reply(ctx, m.(get), 1)
			return nil
		})
		far := remoteRef[any](t, a, there.PID())
		sum := actor.SpawnFunc(a.sys(), "sum", func(ctx *actor.Context[any], m any) error {
			n := 0
			for _, answer := range actor.Gather(ctx, []actor.Ref[any]{far, far}, get{}) {
				n += answer.Value
			}
			more, err := actor.Ask(ctx, far, get{})
			actor.Reply(ctx, m.(get), n+more)
			return err
		})
		if n, err := actor.Ask(bg, sum, get{}); n != 3 || err != nil {
			t.Errorf("got %d, %v", n, err)
		}
	})
}

func TestACanceledAskEndsTheContextOfTheFarHandler(t *testing.T) {
	bubble(t, func(t *testing.T, a, b *loopback) {
		var left time.Duration
		ended := make(chan error, 2)
		there := actor.SpawnFunc(b.sys(), "there", func(ctx *actor.Context[any], m any) error {
			actor.Promise(ctx, m.(get)) // its return is no answer
			deadline, _ := ctx.Deadline()
			left = time.Until(deadline)
			<-ctx.Done()
			ended <- ctx.Err()
			return nil
		})
		far := remoteRef[any](t, a, there.PID())
		ctx, cancel := context.WithCancel(bg)
		time.AfterFunc(time.Second, cancel)
		if _, err := actor.Ask(ctx, far, get{}, actor.Within(time.Minute)); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		if err := <-ended; !errors.Is(err, context.Canceled) || left != time.Minute {
			t.Errorf("the handler had %v and was ended by %v", left, err)
		}
		if _, err := actor.Ask(bg, far, get{}, actor.Within(time.Second)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		if err := <-ended; !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the handler was ended by %v", err)
		}
	})
}

func TestAForwardedRequestIsAnsweredAcrossSystems(t *testing.T) {
	bubble(t, func(t *testing.T, a, b *loopback) {
		home := actor.SpawnFunc(a.sys(), "home", func(ctx *actor.Context[any], m any) error {
			actor.Reply(ctx, m.(get), len(ctx.Sender().Path()))
			return nil
		})
		back := remoteRef[any](t, b, home.PID())
		there := actor.SpawnFunc(b.sys(), "there", func(ctx *actor.Context[any], _ any) error { return actor.Forward(ctx, back) })
		far := remoteRef[any](t, a, there.PID())
		asker := actor.SpawnFunc(a.sys(), "asker", func(ctx *actor.Context[any], m any) error {
			n, err := actor.Ask(ctx, far, get{})
			actor.Reply(ctx, m.(get), n)
			return err
		})
		if n, err := actor.Ask(bg, asker, get{}); n != len("/asker") || err != nil {
			t.Errorf("got %d, %v", n, err)
		}
	})
}

func TestAHeaderTravelsBetweenSystems(t *testing.T) {
	tenant := actor.BeforeSend(func(_ context.Context, s *actor.Sending) error {
		s.Header = actor.Header{"tenant": s.To.Node()}
		return nil
	})
	bubble(t, func(t *testing.T, a, b *loopback) {
		there := actor.SpawnFunc(b.sys(), "there", func(ctx *actor.Context[any], _ any) error {
			actor.ReplyFor(ctx, actor.HeaderOf(ctx)["tenant"])
			return nil
		})
		if s, err := actor.AskFor[string](bg, remoteRef[any](t, a, there.PID()), get{}); s != "b" || err != nil {
			t.Errorf("got %q, %v", s, err)
		}
	}, tenant)
}

func TestAGatedActorHoldsWhatItAnswersToAnotherSystem(t *testing.T) {
	bubble(t, func(t *testing.T, a, b *loopback) {
		g := new(holdingGate)
		there := actor.SpawnFunc(b.sys(), "there", func(ctx *actor.Context[any], m any) error {
			actor.Reply(ctx, m.(get), 7)
			return nil
		}, actor.Gated(g))
		f := actor.AskFuture(bg, remoteRef[any](t, a, there.PID()), get{})
		synctest.Wait()
		select {
		case <-f.Done():
			t.Error("the answer has left the gate")
		default:
		}
		g.release()
		if n, err := f.Wait(bg); n != 7 || err != nil {
			t.Errorf("got %d, %v", n, err)
		}
	})
}

func TestAWatchTellsOfTheEndOfAFarActorOnce(t *testing.T) {
	bubble(t, func(t *testing.T, a, b *loopback) {
		there, handled := record(b.sys(), "there")
		pid := there.PID()
		_, first := watchOf(a.sys(), pid)
		second, other := watchOf(a.sys(), pid)
		synctest.Wait()
		second.Tell(bg, "unwatch")
		synctest.Wait()
		if d, err := b.sys().Detail(bg, pid); d.Watchers != 1 || err != nil {
			t.Errorf("%d watches there, want one of the system for all of its actors; %v", d.Watchers, err)
		}
		far := remoteRef[any](t, a, pid)
		far.Tell(bg, "last")
		far.Drain()
		first.expect(t, actor.Stopped)
		other.expect(t)
		handled.expect(t, "last")
		_, late := watchOf(a.sys(), pid)
		late.expect(t, actor.NoActor)
		if d, err := far.Wait(bg); d.Reason != actor.NoActor || err != nil {
			t.Errorf("Wait: %+v, %v", d, err)
		}
	})
}

func TestAFarActorThatNobodyWatchesAnyMoreIsNotWatchedThere(t *testing.T) {
	bubble(t, func(t *testing.T, a, b *loopback) {
		there, _ := record(b.sys(), "there")
		ref, downs := watchOf(a.sys(), there.PID())
		synctest.Wait()
		ref.Stop()
		synctest.Wait()
		if d, err := b.sys().Detail(bg, there.PID()); d.Watchers != 0 || err != nil {
			t.Errorf("%d watches are left; %v", d.Watchers, err)
		}
		there.Stop()
		downs.expect(t)
	})
}

func TestWaitLastsUntilAFarActorEnds(t *testing.T) {
	bubble(t, func(t *testing.T, a, b *loopback) {
		there, _ := record(b.sys(), "there")
		later := make(chan actor.Down, 1)
		a.sys().AfterEnd(there.PID(), func(d actor.Down) { later <- d })
		time.AfterFunc(time.Second, there.Kill)
		if d, err := a.sys().Wait(bg, there.PID()); d.Reason != actor.Killed || d.PID != there.PID() || err != nil {
			t.Errorf("got %+v, %v", d, err)
		}
		if d := <-later; d.Reason != actor.Killed {
			t.Errorf("AfterEnd: %+v", d)
		}
	})
}

// A wait that gives up before it has begun leaves the far actor to others.
func TestAWaitForAFarActorThatEndsBeforeItBegins(t *testing.T) {
	bubble(t, func(t *testing.T, a, b *loopback) {
		there, _ := record(b.sys(), "there")
		ref := remoteRef[any](t, a, there.PID())
		ended, cancel := context.WithCancel(bg)
		cancel()
		for range 2 {
			if _, err := ref.Wait(ended); !errors.Is(err, context.Canceled) {
				t.Errorf("with a context that has ended: %v", err)
			}
			if _, err := ref.Wait(bg, actor.Within(-1)); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("with a limit that has passed: %v", err)
			}
		}
		time.AfterFunc(time.Second, ref.Stop)
		if d, err := ref.Wait(bg); d.Reason != actor.Stopped || err != nil {
			t.Errorf("afterwards: %+v, %v", d, err)
		}
	})
}

func TestOrdersReachAFarActor(t *testing.T) {
	for name, order := range map[string]func(actor.Ref[any]){"stop": actor.Ref[any].Stop, "drain": actor.Ref[any].Drain, "kill": actor.Ref[any].Kill} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, a, b *loopback) {
				there, _ := record(b.sys(), "there")
				order(remoteRef[any](t, a, there.PID()))
				want := actor.Stopped
				if name == "kill" {
					want = actor.Killed
				}
				if d, err := there.Wait(bg); err != nil || d.Reason != want && d.Reason != actor.NoActor {
					t.Errorf("got %+v, %v", d, err)
				}
			})
		})
	}
	bubble(t, func(t *testing.T, a, b *loopback) {
		there, _ := record(b.sys(), "there")
		if err := a.sys().Stop(there.PID()); err != nil {
			t.Error(err)
		}
		root := b.far.Node()
		if ref, err := actor.Lookup[any](a.sys(), root); err == nil {
			ref.Kill() // the root takes no orders from elsewhere
		}
		synctest.Wait()
		if n := b.sys().Stats().Actors; n != 0 {
			t.Errorf("%d actors are left", n)
		}
	})
}

// linker spawns an actor that links itself with whom it is sent, and fails when that one fails.
func linker(sys *actor.System, name string) actor.Ref[any] {
	return actor.SpawnFunc(sys, name, func(ctx *actor.Context[any], m any) error {
		switch m := m.(type) {
		case actor.PID:
			ctx.Link(m)
		case string:
			pid, err := actor.ParsePID(m)
			ctx.Unlink(pid)
			return err
		case error:
			return m
		}
		return nil
	}, actor.Temporary)
}

func TestALinkBetweenSystemsEndsEitherActor(t *testing.T) {
	cases := map[string]func(here, there actor.Ref[any]){
		"the other fails": func(_, there actor.Ref[any]) { there.Tell(bg, errFar) },
		"its own failure": func(here, _ actor.Ref[any]) { here.Tell(bg, errFar) },
		"killed":          func(here, _ actor.Ref[any]) { here.Kill() },
	}
	for name, end := range cases {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, a, b *loopback) {
				here, there := linker(a.sys(), "here"), linker(b.sys(), "there")
				here.Tell(bg, there.PID())
				synctest.Wait()
				end(here, there)
				synctest.Wait()
				if n, m := a.sys().Stats().Actors, b.sys().Stats().Actors; n != 0 || m != 0 {
					t.Errorf("%d and %d actors are left", n, m)
				}
			})
		})
	}
}

func TestAFarActorThatEndsNormallyLeavesTheOneThatItWasLinkedWith(t *testing.T) {
	bubble(t, func(t *testing.T, a, b *loopback) {
		here, there, third := linker(a.sys(), "here"), linker(b.sys(), "there"), linker(b.sys(), "third")
		here.Tell(bg, there.PID())
		here.Tell(bg, third.PID())
		synctest.Wait()
		there.Stop()
		here.Tell(bg, third.PID().String()) // unlinks
		synctest.Wait()
		third.Tell(bg, errFar)
		synctest.Wait()
		if d, err := a.sys().Detail(bg, here.PID()); len(d.Links) != 0 || err != nil {
			t.Errorf("links are left: %v; %v", d.Links, err)
		}
	})
}

func linksOf(t *testing.T, sys *actor.System, pid actor.PID) int {
	t.Helper()
	d, err := sys.Detail(bg, pid)
	if err != nil {
		t.Fatal(err)
	}
	return len(d.Links)
}

func TestLinksAndUnlinksThatCrossLeaveBothOrNeitherLinked(t *testing.T) {
	for seed := range uint64(300) {
		bubble(t, func(t *testing.T, a, b *loopback) {
			a.hold(true, 0)
			b.hold(true, 0)
			here, there := linker(a.sys(), "here"), linker(b.sys(), "there")
			random, did := rand.New(rand.NewPCG(seed, 0)), ""
			for range 30 {
				action := random.IntN(6)
				did += string("LUluab"[action])
				switch action {
				case 0:
					here.Tell(bg, there.PID())
				case 1:
					here.Tell(bg, there.PID().String())
				case 2:
					there.Tell(bg, here.PID())
				case 3:
					there.Tell(bg, here.PID().String())
				case 4:
					a.pass()
				case 5:
					b.pass()
				}
				synctest.Wait()
			}
			for a.pass() || b.pass() {
				synctest.Wait()
			}
			if m, n := linksOf(t, a.sys(), here.PID()), linksOf(t, b.sys(), there.PID()); m != n {
				t.Errorf("seed %d: %s: %d links on one side and %d on the other", seed, did, m, n)
			}
			a.hold(false, 0)
			b.hold(false, 0)
		})
	}
}

func TestALinkWithAFarActorThatIsGoneIsAFailure(t *testing.T) {
	bubble(t, func(t *testing.T, a, b *loopback) {
		here, there := linker(a.sys(), "here"), linker(b.sys(), "there")
		there.Stop()
		synctest.Wait()
		here.Tell(bg, there.PID())
		if d, err := here.Wait(bg); d.Reason != actor.Failed && d.Reason != actor.NoActor || err != nil {
			t.Errorf("got %+v, %v", d, err)
		}
	})
}

func TestALostNodeEndsWatchesLinksAndAsksAndThenIsDown(t *testing.T) {
	bubble(t, func(t *testing.T, a, b *loopback) {
		var order recorder
		listener := actor.SpawnFunc(a.sys(), "listener", func(_ *actor.Context[actor.Event], e actor.Event) error {
			if down, ok := e.(actor.NodeDown); ok {
				order.add(fmt.Sprint("node ", down.Node, " dropped ", down.Dropped))
			}
			return nil
		})
		actor.Subscribe(a.sys(), listener)
		there := actor.SpawnFunc(b.sys(), "there", func(ctx *actor.Context[any], m any) error {
			if _, ok := m.(mute); ok {
				actor.Promise(ctx, mute{})
			}
			return nil
		})
		pid := there.PID()
		_, downs := watchOf(a.sys(), pid)
		here, far := linker(a.sys(), "here"), remoteRef[any](t, a, pid)
		here.Tell(bg, pid)
		f := actor.AskFuture(bg, far, mute{})
		synctest.Wait()
		a.hold(true, 0)
		far.Tell(bg, "unsent")
		a.lose()
		downs.expect(t, actor.NoConnection)
		order.expect(t, "node b dropped 1")
		if _, err := f.Wait(bg); !errors.Is(err, actor.ErrUnreachable) {
			t.Errorf("the ask: %v", err)
		}
		if d, err := here.Wait(bg); d.Reason != actor.NoActor || err != nil {
			t.Errorf("the linked actor lives: %+v, %v", d, err)
		}
		if d, err := b.sys().Detail(bg, pid); d.Watchers != 0 || len(d.Links) != 0 || err != nil && !errors.Is(err, actor.ErrStopped) {
			t.Errorf("there %d watches and the links %v are left; %v", d.Watchers, d.Links, err)
		}

		far.Tell(bg, "too late")
		if err := far.TryTell(bg, "too late"); !errors.Is(err, actor.ErrUnreachable) {
			t.Errorf("TryTell: %v", err)
		}
		if _, err := actor.Ask(bg, far, get{}); !errors.Is(err, actor.ErrUnreachable) {
			t.Errorf("Ask: %v", err)
		}
		other, _ := record(b.sys(), "other")
		if _, err := actor.Lookup[any](a.sys(), other.PID()); !errors.Is(err, actor.ErrUnreachable) {
			t.Errorf("Lookup: %v", err)
		}
		for _, pid := range []actor.PID{pid, other.PID()} {
			_, late := watchOf(a.sys(), pid)
			late.expect(t, actor.NoConnection)
			late2 := linker(a.sys(), "")
			late2.Tell(bg, pid)
			if d, err := late2.Wait(bg); d.Reason != actor.Failed && d.Reason != actor.NoActor || err != nil {
				t.Errorf("a link with %s: %+v, %v", pid, d, err)
			}
		}
		expectDead(t, a.sys(), "/there no_connection unsent", "/there no_connection too late", "/there no_connection {{}}")
	})
}

func TestWhatAFarActorDoesNotTakeIsADeadLetterThere(t *testing.T) {
	bubble(t, func(t *testing.T, a, b *loopback) {
		there := actor.SpawnFunc(b.sys(), "there", func(_ *actor.Context[string], _ string) error { return nil })
		entered, release := make(chan struct{}), make(chan struct{})
		small := actor.SpawnFunc(b.sys(), "small", func(_ *actor.Context[any], m any) error {
			if m == "block" {
				close(entered)
				<-release
			}
			return nil
		}, actor.Bounded(1, actor.Block))
		gone, _ := record(b.sys(), "gone")
		gone.Stop()
		synctest.Wait()
		wrong, full, nobody := remoteRef[any](t, a, there.PID()), remoteRef[any](t, a, small.PID()), remoteRef[any](t, a, gone.PID())
		wrong.Tell(bg, get{})
		if _, err := actor.Ask(bg, wrong, get{}); !errors.Is(err, actor.ErrNotAccepted) {
			t.Errorf("a request that is not accepted: %v", err)
		}
		nobody.Tell(bg, 1)
		full.Tell(bg, "block")
		<-entered
		a.hold(true, 0)
		for _, m := range []any{"first", "second", "third"} {
			full.Tell(bg, m)
		}
		nobody.Tell(bg, 2) // another run
		nobody.Tell(bg, 3)
		wrong.Tell(bg, "accepted")
		wrong.Tell(bg, 4)
		a.hold(false, 0)
		if _, err := actor.Ask(bg, full, get{}); !errors.Is(err, actor.ErrMailboxFull) {
			t.Errorf("a request without room: %v", err)
		}
		close(release)
		expectDead(t, b.sys(), "/there not_accepted {{}}", "/there not_accepted {{}}", "/gone no_actor 1",
			"/small overflowed second", "/small overflowed third", "/gone no_actor 2", "/gone no_actor 3", "/there not_accepted 4", "/small overflowed {{}}")
	})
}

func TestWhatHasNoBytesIsNotSent(t *testing.T) {
	bubble(t, func(t *testing.T, a, b *loopback) {
		there, handled := record(b.sys(), "there")
		far := remoteRef[any](t, a, there.PID())
		far.Tell(bg, func() {})
		if err := far.TryTell(bg, func() {}); !errors.Is(err, actor.ErrNotAccepted) {
			t.Errorf("got %v", err)
		}
		handled.expect(t)
		if n := a.sys().Stats().DeadLettersByReason["not_accepted"]; n != 1 {
			t.Errorf("%d dead letters, want one, of the Tell", n)
		}
	})
}

func TestTryTellAndAskWaitForRoomOnTheWayAndTellDoesNot(t *testing.T) {
	bubble(t, func(t *testing.T, a, b *loopback) {
		there := actor.SpawnFunc(b.sys(), "there", func(ctx *actor.Context[any], m any) error {
			if m, ok := m.(get); ok {
				actor.Reply(ctx, m, 7)
			}
			return nil
		})
		far := remoteRef[any](t, a, there.PID())
		a.hold(true, 2)
		for n := range 5 {
			far.Tell(bg, n)
		}
		ctx, cancel := context.WithTimeout(bg, time.Second)
		defer cancel()
		if err := far.TryTell(ctx, "late"); !errors.Is(err, actor.ErrMailboxFull) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("TryTell: %v", err)
		}
		told := make(chan error, 1)
		go func() { told <- far.TryTell(bg, "in time") }()
		f := make(chan error, 1)
		actor.SpawnFunc(a.sys(), "asker", func(ctx *actor.Context[any], _ any) error {
			_, err := actor.Ask(ctx, far, get{})
			f <- err
			return nil
		}).Tell(bg, 1)
		synctest.Wait()
		select {
		case err := <-told:
			t.Errorf("TryTell did not wait: %v", err)
		case err := <-f:
			t.Errorf("Ask did not wait: %v", err)
		default:
		}
		a.hold(false, 2)
		if err := <-told; err != nil {
			t.Errorf("TryTell: %v", err)
		}
		if err := <-f; err != nil {
			t.Errorf("Ask: %v", err)
		}
		expectDead(t, a.sys(), "/there overflowed 4")
	})
}

func TestAPIDOfAnEarlierProcessFindsNobody(t *testing.T) {
	bubble(t, func(t *testing.T, a, _ *loopback) {
		ref, _ := record(a.sys(), "x")
		text := ref.PID().String()
		node, rest, _ := strings.Cut(text, "~")
		_, rest, _ = strings.Cut(rest, "/")
		for _, old := range []string{node + "/" + rest, node + "~1/" + rest} {
			pid, err := actor.ParsePID(old)
			if err != nil || pid.String() != old {
				t.Fatalf("ParsePID(%q) = %v, %v", old, pid, err)
			}
			if _, err := actor.Lookup[any](a.sys(), pid); !errors.Is(err, actor.ErrStopped) {
				t.Errorf("%s finds somebody: %v", pid, err)
			}
		}
		for _, bad := range []string{"a~/x#1", "a~0/x#1", "~1/x#1", "a~zzzzzzzz/x#1", "a~1~1/x#1"} {
			if _, err := actor.ParsePID(bad); !errors.Is(err, actor.ErrBadPID) {
				t.Errorf("ParsePID(%q) = %v", bad, err)
			}
		}
	})
}

func TestASystemHasOneCarrier(t *testing.T) {
	a, _ := connect(t)
	defer func() {
		if recover() == nil {
			t.Error("a second carrier is no programmer's error")
		}
	}()
	actor.Carry(a.sys(), new(loopback))
}

// Of all that is told, each message is handled or a dead letter, in one system or the other.
func TestTheBooksOfTwoSystemsAddUp(t *testing.T) {
	bubble(t, func(t *testing.T, a, b *loopback) {
		small := actor.SpawnFunc(b.sys(), "small", func(*actor.Context[int], int) error { return nil }, actor.Bounded(3, actor.Reject))
		plain := actor.SpawnFunc(b.sys(), "plain", func(ctx *actor.Context[int], n int) error {
			if n == 50 {
				return actor.ErrStop
			}
			return nil
		})
		var wg sync.WaitGroup
		for _, pid := range []actor.PID{small.PID(), plain.PID()} {
			far := remoteRef[int](t, a, pid)
			for range 4 {
				wg.Go(func() {
					for n := range 100 {
						far.Tell(bg, n)
					}
				})
			}
		}
		wg.Wait()
		synctest.Wait()
		a.lose()
		for _, pid := range []actor.PID{small.PID(), plain.PID()} {
			if far, err := actor.Lookup[int](a.sys(), pid); err == nil {
				far.Tell(bg, 1)
			}
		}
		synctest.Wait()
		at, bt := a.sys().Stats(), b.sys().Stats()
		if sum := bt.Handled + bt.DeadLetters + at.DeadLetters; sum < 800 || sum > 802 {
			t.Errorf("800 messages, and %d handled and %d and %d dead letters", bt.Handled, at.DeadLetters, bt.DeadLetters)
		}
	})
}
