package transport

import (
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/remote/internal/session"
	"github.com/greenroom-go/greenroom/remote/internal/wire"
)

// counter is a Handler that counts.
type counter struct {
	messages atomic.Int64
	target   atomic.Int64
	reached  chan struct{} // the target
	answers  chan struct{}
}

func (c *counter) Messages(s *session.Session, _ *session.Known, run []session.Received) {
	if n := c.messages.Add(int64(len(run))); n == c.target.Load() {
		c.reached <- struct{}{}
	}
	for _, m := range run {
		if m.Ask != 0 {
			s.Answer(m.Ask, m.Payload)
		}
	}
}

func (c *counter) Answer(*session.Session, session.Asker, []byte)             { c.answers <- struct{}{} }
func (*counter) Fail(*session.Session, session.Asker, wire.Failure)           {}
func (*counter) Cancel(*session.Session, any)                                 {}
func (*counter) Signal(*session.Session, wire.Kind, session.ReceivedSignal)   {}
func (*counter) Request(*session.Session, wire.Kind, session.ReceivedRequest) {}
func (*counter) Missed(*session.Session, *session.Loss)                       {}
func (*counter) Opened(*session.Session)                                      {}
func (*counter) Lost(*session.Session, *session.Loss)                         {}

func connected(b *testing.B, c Config) (from *session.Session, to *counter) {
	b.Helper()
	c.Log = quiet
	to = &counter{answers: make(chan struct{}, 1), reached: make(chan struct{}, 1)}
	lc := c
	lc.Addr = "127.0.0.1:0"
	listener, err := Listen(lc, session.Config{Node: "a", Incarnation: 1}, to)
	if err != nil {
		b.Fatal(err)
	}
	listener.Start()
	c.Resolve = func(string) (string, bool) { return listener.Addr().String(), true }
	dialer, err := Listen(c, session.Config{Node: "b", Incarnation: 2}, to)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = dialer.Close(b.Context())
		_ = listener.Close(b.Context())
	})
	return dialer.Session("a"), to
}

// BenchmarkOneWay sends messages of 99 bytes from one node to another of the same process.
func BenchmarkOneWay(b *testing.B) {
	for name, c := range map[string]Config{"plain": {}, "tls": {Secret: secret}} {
		b.Run(name, func(b *testing.B) {
			s, to := connected(b, c)
			m := &session.Message{
				To: session.NewName("a~1/x#1"), From: session.Sender{ID: 7, Of: someone{"b"}}, Type: "bench.message",
				Payload: make([]byte, 99), Patient: true,
			}
			b.ReportAllocs()
			b.SetBytes(99)
			to.messages.Store(0)
			to.target.Store(int64(b.N))
			b.ResetTimer()
			for n := 0; n < b.N; {
				switch v := s.Tell(m); v {
				case session.Sent:
					n++
				case session.Wait:
					<-s.Room()
				default:
					b.Fatalf("verdict %d, %+v", v, s.Stats())
				}
			}
			<-to.reached
		})
	}
}

// BenchmarkAsk asks and waits for the answer, one ask at a time.
func BenchmarkAsk(b *testing.B) {
	s, to := connected(b, Config{})
	m := &session.Message{
		To: session.NewName("a~1/x#1"), From: session.Sender{ID: 7, Of: someone{"b"}}, Type: "bench.message", Payload: make([]byte, 99),
	}
	q := &asking{}
	b.ReportAllocs()
	for b.Loop() {
		if v := s.Ask(m, q, time.Second); v != session.Sent {
			b.Fatal(v)
		}
		<-to.answers
	}
}

// BenchmarkRawAsk sends 99 bytes over TCP and waits for them to come back: what an ask is
// measured against.
func BenchmarkRawAsk(b *testing.B) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = l.Close() })
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	accepted, err := l.Accept()
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _, _ = conn.Close(), accepted.Close() })
	go func() { _, _ = io.Copy(struct{ io.Writer }{accepted}, struct{ io.Reader }{accepted}) }()
	p := make([]byte, 99)
	for b.Loop() {
		if _, err := conn.Write(p); err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadFull(conn, p); err != nil {
			b.Fatal(err)
		}
	}
}
