package actor_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/greenroom-go/greenroom/actor"
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
	ref, err := actor.TrySpawn(v.At(key), "", newActor, opts...)
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
		if _, err := actor.TrySpawn(v.At("a"), "", func() *doer { return &doer{} }); err != nil {
			t.Errorf("another one: %v", err)
		}
		if _, err := actor.TrySpawn(v.At("a"), "", func() *doer { return &doer{} }); !errors.Is(err, actor.ErrNameTaken) {
			t.Errorf("a second one: %v", err)
		}
		v.Stop()
		synctest.Wait()
		if _, err := actor.TrySpawn(v.At("b"), "", func() *doer { return &doer{} }); !errors.Is(err, actor.ErrStopped) {
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
