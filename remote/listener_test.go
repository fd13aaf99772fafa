package remote_test

import (
	"context"
	"net"
	"sync"
	"testing"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/remote"
)

// inProcess is a listener of connections that are made without a network.
type inProcess struct {
	conns chan net.Conn
	over  chan struct{}
	once  sync.Once
}

// Accept implements net.Listener.
func (l *inProcess) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.over:
		return nil, net.ErrClosed
	}
}

// Addr implements net.Listener. It is not an address of this machine.
func (*inProcess) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 1} }

// Close implements net.Listener.
func (l *inProcess) Close() error {
	l.once.Do(func() { close(l.over) })
	return nil
}

// dial connects to the listener.
func (l *inProcess) dial(ctx context.Context) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case l.conns <- there:
		return here, nil
	case <-l.over:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func TestNodesConnectByAListenerOfTheUser(t *testing.T) {
	t.Parallel()
	ln := &inProcess{conns: make(chan net.Conn), over: make(chan struct{})}
	a, na := start(t, "a", remote.Config{Listener: ln, Insecure: true})
	dialed := make(chan string, 10)
	_, nb := start(t, "b", remote.Config{Peers: map[string]string{"a": "a's place"}, Insecure: true, Dial: func(ctx context.Context, addr string) (net.Conn, error) {
		dialed <- addr
		return ln.dial(ctx)
	}})
	actor.Spawn(a, "counter", newCounter)
	if sum, err := actor.Ask(within(t), find(t, nb, "a", "/counter"), get{}); sum != 0 || err != nil {
		t.Errorf("the sum is %d; %v", sum, err)
	}
	if addr := <-dialed; addr != "a's place" || na.Addr().String() != "192.0.2.1:1" {
		t.Errorf("b has dialed %q, and a listens on %v", addr, na.Addr())
	}
	if _, err := remote.Listen(actor.NewSystem("c"), remote.Config{Listener: &inProcess{over: make(chan struct{})}}); err == nil {
		t.Error("a listener that others reach was taken without Secret, TLS or Insecure")
	}
}
