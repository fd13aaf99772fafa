package actor_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/actortest"
)

// pigeonhole is a place whose messages wait until they are served.
type pigeonhole struct {
	mu    sync.Mutex
	ref   actor.Ref[any]
	held  []actor.Held[any]
	left  []actor.Held[any]
	err   error // of Hold
	bury  bool  // Left wants nothing
	ended int
}

func (s *pigeonhole) Serve(*actor.Virtual[any])      {}
func (s *pigeonhole) Find(string) actor.Ref[any]     { return s.Standing("") }
func (s *pigeonhole) Standing(string) actor.Ref[any] { s.mu.Lock(); defer s.mu.Unlock(); return s.ref }

func (s *pigeonhole) Hold(_ string, m actor.Held[any]) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return fmt.Errorf("hold: %w", s.err)
	}
	s.held = append(s.held, m)
	return nil
}

func (s *pigeonhole) Left(_ string, m actor.Held[any]) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bury {
		return false
	}
	s.left = append(s.left, m)
	return true
}

func (s *pigeonhole) Ended(string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ref, s.ended = actor.Ref[any]{}, s.ended+1
}

// take returns what was left and what was held.
func (s *pigeonhole) take() []actor.Held[any] {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	all := slices.Concat(s.left, s.held)
	s.left, s.held = nil, nil
	return all
}

// activate spawns an activation.
func (s *pigeonhole) activate(t *testing.T, v *actor.Virtual[any], key string, newActor func() *doer, opts ...actor.SpawnOption) actor.Ref[any] {
	t.Helper()
	ref, err := actor.TrySpawn(v.At(key, actor.Terms{}), "", newActor, opts...)
	if err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	s.ref = ref
	s.mu.Unlock()
	return ref
}

// doer is an actor with a state that handles as it is told.
type doer struct {
	handle func(ctx *actor.Context[any], m any) error
}

func (w *doer) Receive(ctx *actor.Context[any], m any) error { return w.handle(ctx, m) }

func newVirtual(t *testing.T, sys *actor.System) (*actor.Virtual[any], *pigeonhole) {
	t.Helper()
	s := new(pigeonhole)
	v, err := actor.NewVirtual(sys, "cart", s)
	if err != nil {
		t.Fatal(err)
	}
	return v, s
}

func TestPlaceSendsHeldMessagesOnAsTheyAre(t *testing.T) {
	bubble(t, func(t *testing.T, a, _ *loopback) {
		v, s := newVirtual(t, a.sys())
		to := v.Ref("a")
		sender := actor.SpawnFunc(a.sys(), "sender", func(ctx *actor.Context[any], m any) error {
			to.Tell(ctx, m)
			return nil
		})
		sender.Tell(bg, "first")
		synctest.Wait()
		f := actor.AskFuture(bg, to, get{})
		mail := s.take()
		if len(mail) != 2 || mail[0].Message() != "first" || mail[0].Sender() != sender.PID() {
			t.Fatalf("held are %v", mail)
		}
		var from actor.PID
		s.activate(t, v, "a", func() *doer {
			return &doer{func(ctx *actor.Context[any], m any) error {
				switch m := m.(type) {
				case string:
					from = ctx.Sender()
				case get:
					actor.Reply(ctx, m, 7)
				}
				return nil
			}}
		})
		for _, m := range mail {
			if !m.Send(s.Standing("")) {
				t.Error("a message is not taken")
			}
		}
		if n, err := f.Wait(bg); n != 7 || err != nil {
			t.Errorf("the answer is %d, %v", n, err)
		}
		if from != sender.PID() {
			t.Errorf("the sender is %s", from)
		}
		if n, err := actor.Ask(bg, to, get{}); n != 7 || err != nil {
			t.Errorf("the answer is %d, %v", n, err)
		}
	})
}

func TestPlaceMayRefuseWhatItIsGiven(t *testing.T) {
	bubble(t, func(t *testing.T, a, _ *loopback) {
		v, s := newVirtual(t, a.sys())
		to := v.Ref("a")
		for _, c := range []struct{ err, want error }{
			{actor.ErrMailboxFull, actor.ErrMailboxFull},
			{actor.ErrUnreachable, actor.ErrUnreachable},
			{errors.New("other"), actor.ErrStopped},
		} {
			s.err = c.err
			if err := to.TryTell(bg, 1); !errors.Is(err, c.want) {
				t.Errorf("TryTell: %v, want %v", err, c.want)
			}
			to.Tell(bg, c.err.Error())
		}
		expectDead(t, a.sys(), "/cart/a overflowed mailbox full", "/cart/a no_connection node unreachable", "/cart/a no_actor other")
		s.err = nil
		for _, c := range []struct {
			why  actor.Reason
			want error
		}{{actor.Overflowed, actor.ErrMailboxFull}, {actor.NoConnection, actor.ErrUnreachable}, {actor.Passivated, actor.ErrStopped}} {
			f := actor.AskFuture(bg, to, get{})
			mail := s.take()
			mail[0].Refuse(c.why)
			if _, err := f.Wait(bg); !errors.Is(err, c.want) {
				t.Errorf("refused as %s: %v, want %v", c.why, err, c.want)
			}
		}
	})
}

func TestPlaceGetsWhatAnActivationHasLeft(t *testing.T) {
	bubble(t, func(t *testing.T, a, _ *loopback) {
		v, s := newVirtual(t, a.sys())
		to := v.Ref("a")
		begun, leave := make(chan struct{}), make(chan struct{})
		busy := func() *doer {
			return &doer{func(ctx *actor.Context[any], _ any) error {
				begun <- struct{}{}
				<-leave
				ctx.Stop()
				return nil
			}}
		}
		s.activate(t, v, "a", busy)
		to.Tell(bg, 0)
		<-begun
		to.Tell(bg, 1)
		f := actor.AskFuture(bg, to, get{})
		leave <- struct{}{}
		mail := s.take()
		if len(mail) != 2 || mail[0].Message() != 1 || mail[1].Message() != (get{}) || s.ended != 1 {
			t.Fatalf("left are %v, and %d have ended", mail, s.ended)
		}
		if mail[0].Send(v.Ref("b")); len(s.take()) != 1 {
			t.Error("what was left is not sent on")
		}
		mail[1].Refuse(actor.Passivated)
		if _, err := f.Wait(bg); !errors.Is(err, actor.ErrStopped) {
			t.Errorf("the request has ended with %v", err)
		}
		expectDead(t, a.sys(), "/cart/a passivated {{}}")
		s.bury = true
		old := s.activate(t, v, "a", busy)
		to.Tell(bg, 2)
		<-begun
		to.Tell(bg, 3)
		leave <- struct{}{}
		expectDead(t, a.sys(), "/cart/a passivated {{}}", "/cart/a passivated 3")
		to.Tell(bg, 4)
		mail = s.take()
		if len(mail) != 1 || mail[0].Send(old) {
			t.Error("an activation that has ended takes a message")
		}
	})
}

func TestPlaceOrdersConcernTheActivationOnly(t *testing.T) {
	bubble(t, func(t *testing.T, a, _ *loopback) {
		v, s := newVirtual(t, a.sys())
		to := v.Ref("a")
		to.Stop() // nobody
		to.Drain()
		to.Kill()
		s.activate(t, v, "a", func() *doer { return &doer{func(*actor.Context[any], any) error { return nil }} })
		to.Drain()
		synctest.Wait()
		if s.ended != 1 {
			t.Errorf("%d have ended", s.ended)
		}
		if _, err := actor.TrySpawn(v.At("a", actor.Terms{}), "", func() *doer { return &doer{} }); err != nil {
			t.Errorf("another one: %v", err)
		}
		if _, err := actor.TrySpawn(v.At("a", actor.Terms{}), "", func() *doer { return &doer{} }); !errors.Is(err, actor.ErrNameTaken) {
			t.Errorf("a second one: %v", err)
		}
		v.Stop()
		synctest.Wait()
		if _, err := actor.TrySpawn(v.At("b", actor.Terms{}), "", func() *doer { return &doer{} }); !errors.Is(err, actor.ErrStopped) {
			t.Errorf("one after the end: %v", err)
		}
	})
}

func TestPlaceActivationLinksWithAnActorOfAnotherSystem(t *testing.T) {
	bubble(t, func(t *testing.T, a, b *loopback) {
		v, s := newVirtual(t, a.sys())
		there := actor.SpawnFunc(b.sys(), "there", func(*actor.Context[any], any) error { return errFar }, actor.Temporary)
		s.activate(t, v, "a", func() *doer {
			return &doer{func(ctx *actor.Context[any], m any) error {
				ctx.Link(m.(actor.PID))
				return nil
			}}
		}, actor.Temporary)
		v.Ref("a").Tell(bg, there.PID())
		synctest.Wait()
		there.Tell(bg, "fail")
		synctest.Wait()
		if s.ended != 1 {
			t.Errorf("%d have ended with the one that they were linked with", s.ended)
		}
	})
}

func TestPlaceTellToAnActivationAllocatesNothing(t *testing.T) {
	sys := actor.NewSystem("place")
	t.Cleanup(func() { _, _ = sys.Shutdown(context.Background()) })
	s := new(pigeonhole)
	v, err := actor.NewVirtual(sys, "cart", s)
	if err != nil {
		t.Fatal(err)
	}
	s.activate(t, v, "a", func() *doer { return &doer{func(*actor.Context[any], any) error { return nil }} })
	to, msg := v.Ref("a"), any("hello")
	send := func() {
		to.Tell(context.Background(), msg)
	}
	for range 2000 {
		send()
	}
	if n := testing.AllocsPerRun(1000, send); n >= 1 {
		t.Errorf("a tell allocates %v times", n)
	}
}

func TestPlaceSendsToThatOfAnotherSystem(t *testing.T) {
	bubble(t, func(t *testing.T, a, b *loopback) {
		here, s := newVirtual(t, a.sys())
		_, there := newVirtual(t, b.sys())
		to := here.Ref("a/b")
		to.Tell(bg, 1)
		to.Tell(bg, 2)
		f := actor.AskFuture(bg, to, get{})
		ref, err := here.There("b", b.sys().Incarnation(), 7, "a/b")
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range s.take() {
			if err := m.Forward(ref); err != nil || m.Stamp() != 0 {
				t.Fatal(m.Stamp(), err)
			}
		}
		mail := there.take()
		if len(mail) != 3 || mail[0].Message() != 1 || mail[1].Key() != "a/b" || mail[2].Stamp() != 7 {
			t.Fatalf("there are %v", mail)
		}
		mail[2].Refuse(actor.NoConnection)
		if _, err := f.Wait(bg); !errors.Is(err, actor.ErrUnreachable) {
			t.Errorf("the ask: %v", err)
		}
		there.err = actor.ErrMailboxFull
		to.Tell(bg, 3)
		g := actor.AskFuture(bg, to, get{})
		for _, m := range s.take() {
			if err := m.Forward(ref); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := g.Wait(bg); !errors.Is(err, actor.ErrMailboxFull) {
			t.Errorf("an ask that there is no room for: %v", err)
		}
		dead := b.sys().DeadLetters()
		for _, d := range dead {
			if d.To != to.PID() {
				t.Errorf("a dead letter to %s, which is nobody's address, want %s", d.To, to.PID())
			}
		}
		if len(dead) != 3 {
			t.Errorf("%d dead letters", len(dead))
		}
		if _, err := here.There("b", b.sys().Incarnation()+1, 7, "a"); !errors.Is(err, actor.ErrUnreachable) {
			t.Errorf("another incarnation: %v", err)
		}
		to.Tell(bg, func() {})
		if err := s.take()[0].Forward(ref); !errors.Is(err, actor.ErrNotAccepted) {
			t.Errorf("what cannot be sent: %v", err)
		}
	})
}

func TestPlaceActivationBeginsAndEndsByItsTerms(t *testing.T) {
	bubble(t, func(t *testing.T, a, _ *loopback) {
		v, s := newVirtual(t, a.sys())
		states, handled, valid := 0, []any{}, true
		newDoer := func() *doer {
			states++
			return &doer{func(_ *actor.Context[any], m any) error { handled = append(handled, m); return nil }}
		}
		spawn := func(key string, terms actor.Terms) actor.Ref[any] {
			ref, err := actor.TrySpawn(v.At(key, terms), "", newDoer)
			if err != nil {
				t.Fatal(err)
			}
			return ref
		}
		s.ref = spawn("a", actor.Terms{AtOnce: true, Valid: func() bool { return valid }})
		if synctest.Wait(); states != 1 {
			t.Errorf("there are %d states of one that begins at once", states)
		}
		v.Ref("a").Tell(bg, 1)
		synctest.Wait()
		valid = false
		v.Ref("a").Tell(bg, 2)
		v.Ref("a").Tell(bg, 3)
		if mail := s.take(); len(mail) != 2 || mail[0].Message() != 2 || len(handled) != 1 || s.ended != 1 {
			t.Errorf("one that lapses has handled %v and left %v; %d have ended", handled, mail, s.ended)
		}
		s.ref = spawn("b", actor.Terms{Valid: func() bool { return false }})
		v.Ref("b").Tell(bg, 4)
		if mail := s.take(); len(mail) != 1 || states != 1 || s.ended != 2 {
			t.Errorf("one that has never been valid has a state, or left %v", mail)
		}
	})
}

func TestPlaceActivationThatYieldsEndsItsHandlerFirst(t *testing.T) {
	bubble(t, func(t *testing.T, a, _ *loopback) {
		v, s := newVirtual(t, a.sys())
		var slept []error
		ref := s.activate(t, v, "a", func() *doer {
			return &doer{func(ctx *actor.Context[any], _ any) error { slept = append(slept, ctx.Sleep(1e9)); return nil }}
		})
		v.Ref("a").Tell(bg, 1)
		v.Ref("a").Tell(bg, 2)
		synctest.Wait()
		v.Yield(ref)
		if mail := s.take(); len(mail) > 0 {
			t.Errorf("it has left %v before its handler has ended", mail)
		}
		if d, err := ref.Wait(bg); err != nil || d.Reason != actor.Passivated {
			t.Errorf("it has ended as %v: %v", d, err)
		}
		if mail := s.take(); len(slept) != 1 || slept[0] != nil || len(mail) != 1 || mail[0].Message() != 2 {
			t.Errorf("the handler has ended with %v, and left is %v", slept, mail)
		}
	})
}

// sendsAtOnce is a place that sends what it is given to the next activation before it returns.
type sendsAtOnce struct {
	*pigeonhole
	next chan actor.Ref[any]
}

func (p *sendsAtOnce) Hold(_ string, m actor.Held[any]) error {
	m.Send(<-p.next)
	<-time.After(time.Second) // meanwhile it is handled
	return nil
}

// The request of an asker that has waited for room goes to the next activation, which asks the asker before the
// asker's goroutine goes on.
func TestAnAskHandedToTheNextActivationIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := actortest.NewSystem(t)
		place := &sendsAtOnce{new(pigeonhole), make(chan actor.Ref[any])}
		v, err := actor.NewVirtual(sys, "cart", place)
		if err != nil {
			t.Fatal(err)
		}
		h, errs := newHeld(), make(chan error, 2)
		to := v.Ref("a")
		asker := actor.SpawnFunc(sys, "asker", func(ctx *actor.Context[any], m any) error {
			if m, ok := m.(get); ok {
				actor.Reply(ctx, m, 1)
				return nil
			}
			_, err := actor.Ask(ctx, to, get{}, actor.Within(time.Hour))
			errs <- err
			return nil
		})
		full := place.activate(t, v, "a", func() *doer {
			return &doer{func(ctx *actor.Context[any], m any) error {
				if m == "first" {
					close(h.entered)
					_ = actor.Blocking(ctx, func() error { <-h.release; return nil })
				}
				return nil
			}}
		}, actor.Bounded(1, actor.Block))
		h.fill(full)
		asker.Tell(bg, "go")
		synctest.Wait() // it waits for room
		full.Stop()
		close(h.release)
		synctest.Wait() // it is in Hold
		began := time.Now()
		place.next <- place.activate(t, v, "a", func() *doer {
			return &doer{func(ctx *actor.Context[any], m any) error {
				if m, ok := m.(get); ok {
					_, err := actor.Ask(ctx, asker, get{}, actor.Within(2*time.Hour))
					errs <- err
					actor.Reply(ctx, m, 1)
				}
				return nil
			}}
		})
		if err := errors.Join(<-errs, <-errs); !errors.Is(err, actor.ErrDeadlock) || time.Since(began) > time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
	})
}
