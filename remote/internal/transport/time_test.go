package transport

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-go/greenroom/remote/internal/session"
	"github.com/greenroom-go/greenroom/remote/internal/wire"
)

// parted returns two nodes that have no connection any more, after b has sent ten messages to a.
func parted(t *testing.T) (n *network, a, b *party) {
	t.Helper()
	n = piped()
	a, b = n.start(t, "a", 1), n.start(t, "b", 2, "a")
	b.send(t, "a", "a~1/x", 0, 10)
	a.inOrder(t, "a~1/x", 10)
	n.cut(true)
	return n, a, b
}

func TestANodeThatIsAwayTooLongIsLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n, a, b := parted(t)
		b.send(t, "a", "a~1/x", 10, 30)
		q := &asking{}
		b.Session("a").Ask(&session.Message{To: session.NewName("a~1/x"), Type: "t", Payload: []byte("00000030")}, q, 0)
		began := time.Now()
		l := b.lost(t)
		if waited := time.Since(began); waited < session.ResumeWithin-time.Second || waited > session.ResumeWithin+time.Second {
			t.Errorf("it is lost after %v", waited)
		}
		if !errors.Is(l.Err, session.ErrExpired) || l.Incarnation != 1 || l.Sent != 31 || len(l.Asks) != 1 || l.Asks[0] != q {
			t.Errorf("the loss: %v, incarnation %d, %d sent, %d asks", l.Err, l.Incarnation, l.Sent, len(l.Asks))
		}
		if lost := l.Dropped + l.Unknown; lost < 21 || lost > 31 {
			t.Errorf("%d dropped and %d unknown, of which 21 certainly", l.Dropped, l.Unknown)
		}
		a.lost(t)
		n.cut(false)
		synctest.Wait()
		b.Session("a") // dials again, in vain: what is lost is lost
		b.await(t, "a second loss", func() bool { return len(b.losses) > 1 })
		if got := b.Counts()["refused by peer: lost incarnation"]; got != 1 {
			t.Errorf("counted: %v", b.Counts())
		}
	})
}

func TestANodeThatIsAwayAShortWhileIsNotLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := piped()
		a, b := n.start(t, "a", 1, "b"), n.start(t, "b", 2, "a")
		b.send(t, "a", "a~1/x", 0, 10)
		a.inOrder(t, "a~1/x", 10)
		n.cut(true)
		b.send(t, "a", "a~1/x", 10, 20)
		time.Sleep(session.ResumeWithin - 3*time.Second)
		b.send(t, "a", "a~1/x", 20, 30)
		n.cut(false)
		a.inOrder(t, "a~1/x", 30)
	})
}

// raw is a peer that a test plays by hand.
type raw struct {
	net.Conn
	frames wire.Splitter
}

// next returns the next frame that comes.
func (r *raw) next(t *testing.T) wire.Frame {
	t.Helper()
	f, err := readFrame(r, &r.frames)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func rawHello() *wire.Hello {
	return &wire.Hello{Oldest: 1, Newest: 1, Cluster: "test", Node: "raw", Incarnation: 9, Session: 5, Frame: wire.DefaultFrame}
}

// meetByHand connects to a node and says hello.
func meetByHand(t *testing.T, n *network, node string) *raw {
	t.Helper()
	conn, err := n.dial(t.Context(), node)
	if err != nil {
		t.Fatal(err)
	}
	r := &raw{Conn: conn}
	if _, err := conn.Write(wire.AppendFrame(nil, wire.KindHello, wire.AppendHello(nil, rawHello()))); err != nil {
		t.Fatal(err)
	}
	if f := r.next(t); f.Kind != wire.KindHello {
		t.Fatalf("the answer is %s", f.Kind)
	}
	return r
}

func TestASilentPeerIsAskedAndThenBroken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := piped()
		a := n.start(t, "a", 1)
		r := meetByHand(t, n, "a")
		began := time.Now()
		if f := r.next(t); f.Kind != wire.KindPing || time.Since(began) != 2*time.Second {
			t.Errorf("%s after %v, want a ping after 2s", f.Kind, time.Since(began))
		}
		if _, err := r.Write(wire.AppendFrame(nil, wire.KindPong, nil)); err != nil {
			t.Fatal(err)
		}
		began = time.Now()
		if f := r.next(t); f.Kind != wire.KindPing || time.Since(began) != 2*time.Second {
			t.Errorf("%s %v after a pong, want a ping after 2s", f.Kind, time.Since(began))
		}
		if _, err := r.Read(make([]byte, 1)); !errors.Is(err, io.EOF) || time.Since(began) != 10*time.Second {
			t.Errorf("it ends after %v by %v, want 10s", time.Since(began), err)
		}
		if state, err := a.Session("raw").State(); state != session.Broken || !errors.Is(err, session.ErrSilent) {
			t.Errorf("the session is %v: %v", state, err)
		}
	})
}

func TestWhoSaysNoHelloIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := piped()
		a := n.start(t, "a", 1)
		conns := make([]net.Conn, MaxHandshakes)
		for i := range conns {
			var err error
			if conns[i], err = n.dial(t.Context(), "a"); err != nil {
				t.Fatal(err)
			}
		}
		began := time.Now()
		more, err := n.dial(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conns[0].Read(make([]byte, 1)); !errors.Is(err, io.EOF) || time.Since(began) != 0 {
			t.Errorf("the oldest ends after %v by %v, for one more", time.Since(began), err)
		}
		_ = meetByHand(t, n, "a").Close() // the silent ones shut nobody out
		if _, err := conns[1].Read(make([]byte, 1)); !errors.Is(err, io.EOF) || time.Since(began) != 0 {
			t.Errorf("the next ends after %v by %v, for one more", time.Since(began), err)
		}
		for _, c := range append(conns[2:], more) {
			if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) || time.Since(began) != HandshakeTimeout {
				t.Errorf("a silent one ends after %v by %v", time.Since(began), err)
			}
		}
		if got := a.Counts()["refused: busy"]; got != 2 {
			t.Errorf("counted: %v", a.Counts())
		}
		synctest.Wait()
		meetByHand(t, n, "a")
	})
}

func TestWhoBreaksTheProtocolIsToldAndCounted(t *testing.T) {
	t.Parallel()
	for cause, bytes := range map[string][]byte{
		"violation: kind":           wire.AppendFrame(nil, 0x7f, nil),
		"violation: frame length":   {0xff, 0xff, 0xff, 0x11},
		"violation: unknown number": wire.AppendFrame(nil, wire.KindTell, []byte{1, 0, 1, 0}),
	} {
		synctest.Test(t, func(t *testing.T) {
			n := piped()
			a := n.start(t, "a", 1)
			r := meetByHand(t, n, "a")
			if _, err := r.Write(bytes); err != nil {
				t.Fatal(err)
			}
			f := r.next(t)
			refusal, err := wire.ReadRefusal(f.Body)
			if f.Kind != wire.KindRefuse || err != nil || refusal.Code != wire.CodeProtocol {
				t.Errorf("%s: the answer is %s, %v, %v", cause, f.Kind, refusal, err)
			}
			l := a.lost(t)
			if a.Counts()[cause] != 1 || l.Incarnation != 9 {
				t.Errorf("%s: counted %v, lost incarnation %d", cause, a.Counts(), l.Incarnation)
			}
		})
	}
}

func TestAConnectionThatDoesNotBeginWithAHelloIsRefused(t *testing.T) {
	t.Parallel()
	for name, bytes := range map[string][]byte{
		"HTTP":        []byte("GET / HTTP/1.1\r\nHost: a\r\n\r\n"),
		"a tell":      wire.AppendFrame(nil, wire.KindTell, []byte{1, 0, 1, 0}),
		"no CBOR":     wire.AppendFrame(nil, wire.KindHello, []byte("hello")),
		"another map": wire.AppendFrame(nil, wire.KindHello, []byte{0xa0}),
	} {
		synctest.Test(t, func(t *testing.T) {
			n := piped()
			a := n.start(t, "a", 1)
			conn, err := n.dial(t.Context(), "a")
			if err != nil {
				t.Fatal(err)
			}
			go func() { _, _ = conn.Write(bytes) }()
			r := &raw{Conn: conn}
			f := r.next(t)
			refusal, err := wire.ReadRefusal(f.Body)
			if f.Kind != wire.KindRefuse || err != nil || refusal.Code != wire.CodeProtocol {
				t.Errorf("%s: the answer is %s, %v, %v", name, f.Kind, refusal, err)
			}
			if len(a.Host().Sessions()) > 0 {
				t.Errorf("%s: there is a session", name)
			}
		})
	}
}

func TestDialsBackOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := piped()
		n.cut(true)
		dials := 0
		a := newParty("a")
		start(t, a, 1, Config{
			Resolve: func(string) (string, bool) { return "b", true },
			Dial: func(context.Context, string) (net.Conn, error) {
				a.book(func() { dials++ })
				return nil, errors.New("nobody there")
			},
		}, session.Config{})
		a.send(t, "b", "b~2/x", 0, 3)
		l := a.lost(t)
		if dials < 8 || dials > 20 {
			t.Errorf("%d dials in %v", dials, session.ResumeWithin)
		}
		if !errors.Is(l.Err, session.ErrExpired) || l.Dropped != 3 || l.Unknown != 0 || l.Incarnation != 0 {
			t.Errorf("the loss: %v, %d dropped, %d unknown", l.Err, l.Dropped, l.Unknown)
		}
	})
}

func TestCloseDoesNotWaitLongerThanItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, _, b := parted(t)
		b.send(t, "a", "a~1/x", 10, 15)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		began := time.Now()
		if err := b.Close(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != 2*time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		if l := b.lost(t); !errors.Is(l.Err, session.ErrClosed) || l.Dropped+l.Unknown < 5 {
			t.Errorf("the loss: %v, %d dropped, %d unknown", l.Err, l.Dropped, l.Unknown)
		}
	})
}

func TestAPanicOfAHandlerEndsItsSessionOnly(t *testing.T) {
	t.Parallel()
	testEndOfHandler(t, func(p *party) { p.panics = true })
}

// A handler that ends its goroutine may have handled a part of what it was given.
func TestTheEndOfAHandlersGoroutineEndsItsSession(t *testing.T) {
	t.Parallel()
	testEndOfHandler(t, func(p *party) { p.exits = true })
}

func testEndOfHandler(t *testing.T, plan func(*party)) {
	synctest.Test(t, func(t *testing.T) {
		n := piped()
		a, b, d := n.start(t, "a", 1), n.start(t, "b", 2, "a", "d"), n.start(t, "d", 3)
		b.send(t, "d", "d~3/x", 0, 10)
		d.inOrder(t, "d~3/x", 10)
		plan(a)
		b.send(t, "a", "a~1/x", 0, 10)
		if l := a.lost(t); !errors.Is(l.Err, ErrPanic) {
			t.Errorf("the loss: %v", l.Err)
		}
		synctest.Wait()
		if got := len(a.Host().Sessions()); got != 0 {
			t.Errorf("%d sessions are left", got)
		}
		b.send(t, "d", "d~3/x", 10, 20)
		d.inOrder(t, "d~3/x", 20)
	})
}

// A peer that cannot be reached, or does not answer, holds up no other.
func TestAPeerThatDoesNotAnswerHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := piped()
		a := n.start(t, "a", 1)
		b := newParty("b")
		start(t, b, 2, Config{
			Resolve: func(peer string) (string, bool) { return peer, true },
			Dial: func(ctx context.Context, addr string) (net.Conn, error) {
				if addr == "silent" {
					mine, _ := net.Pipe() // nobody reads the hello
					return mine, nil
				}
				if addr == "unreachable" {
					<-ctx.Done()
					return nil, ctx.Err()
				}
				return n.dial(ctx, addr)
			},
		}, session.Config{})
		began := time.Now()
		b.send(t, "silent", "x", 0, 1)
		b.send(t, "unreachable", "x", 0, 1)
		b.send(t, "a", "a~1/x", 0, 1)
		a.inOrder(t, "a~1/x", 1)
		if waited := time.Since(began); waited > 0 {
			t.Errorf("a message arrives after %v", waited)
		}
		b.await(t, "two losses", func() bool { return len(b.losses) == 2 })
		for _, l := range b.losses {
			if !errors.Is(l.Err, session.ErrExpired) || l.Dropped != 1 {
				t.Errorf("lost: %v, %d dropped", l.Err, l.Dropped)
			}
		}
	})
}
