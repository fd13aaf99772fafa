package mqtt

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime/debug"
	"sync"
	"time"

	"github.com/mochi-mqtt/server/v2/listeners"
	"github.com/mochi-mqtt/server/v2/packets"

	"github.com/greenroom-go/greenroom/internal/share"
	"github.com/greenroom-go/greenroom/server/access"
	"github.com/greenroom-go/greenroom/server/refusal"
)

const listenerID = "tcp"

// listener accepts MQTT connections for mochi. mochi's own listener ends for good at the first
// error of Accept, such as too many open files, and a panic in a connection would end the process.
type listener struct {
	ln     net.Listener
	broker *Broker
	greets int // limit of connections that have not logged in

	accepting sync.WaitGroup // the accept loop, from broker.serve on
	serving   sync.WaitGroup // connections

	mu       sync.Mutex
	conns    map[*conn]struct{}
	greeting share.Pool[*conn]     // connections that have not logged in, by address
	begin    listeners.EstablishFn // set by Serve
	told     time.Time             // when a panic was last logged with its stack
	stopped  chan struct{}         // closed when no more are accepted
}

var _ listeners.Listener = (*listener)(nil)

func newListener(ln net.Listener, b *Broker) *listener {
	return &listener{ln: ln, broker: b, greets: maxGreeting, conns: map[*conn]struct{}{}, stopped: make(chan struct{})}
}

// Init is called by mochi when the listener is added.
func (l *listener) Init(*slog.Logger) error { return nil }

// Serve accepts connections until the listener is closed.
func (l *listener) Serve(establish listeners.EstablishFn) {
	defer l.accepting.Done()
	l.mu.Lock()
	l.begin = establish
	l.mu.Unlock()
	const pauseMin, pauseMax = 5 * time.Millisecond, time.Second
	pause := pauseMin
	for {
		nc, err := l.ln.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			l.broker.log.LogAttrs(context.Background(), slog.LevelError, "cannot accept an MQTT connection", slog.Any("error", err))
			select {
			case <-l.stopped:
				return
			case <-time.After(pause):
			}
			pause = min(2*pause, pauseMax)
			continue
		}
		pause = pauseMin
		c := newConn(nc, l.broker)
		l.mu.Lock()
		oldest := l.add(c)
		l.mu.Unlock()
		if oldest != nil {
			_ = oldest.Close()
		}
		l.serving.Go(func() { l.serve(c, establish) })
	}
}

// maxGreeting bounds the connections that have not logged in. Beyond it, the oldest connection of
// the address with most of them is closed.
const maxGreeting = 4096

// add adds a connection. It returns one that must be closed in exchange, or nil. The caller holds
// l.mu.
func (l *listener) add(c *conn) (oldest *conn) {
	l.conns[c] = struct{}{}
	c.greeting = l.greeting.Add(access.AddressKey(addressOf(c.RemoteAddr())), c)
	if l.greeting.Len() > l.greets {
		oldest = l.greeting.Surplus().Value
		l.known(oldest)
	}
	return oldest
}

// known records that a connection has logged in or ended. The caller holds l.mu.
func (l *listener) known(c *conn) {
	if c.greeting != nil {
		l.greeting.Remove(c.greeting)
		c.greeting = nil
	}
}

// loggedIn records that a connection has logged in.
func (l *listener) loggedIn(c *conn) {
	if s, ok := c.Conn.(*socket); ok {
		s.loggedIn()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.known(c)
}

// serveSocket serves a connection that was accepted elsewhere, and returns when it has ended. If
// the listener has stopped accepting, it closes the connection.
func (l *listener) serveSocket(nc net.Conn) {
	c := newConn(nc, l.broker)
	l.mu.Lock()
	establish := l.begin
	select {
	case <-l.stopped:
		establish = nil
	default:
	}
	if establish == nil {
		l.mu.Unlock()
		_ = c.Close() // the error does not matter
		return
	}
	oldest := l.add(c)
	ended := make(chan struct{})
	l.serving.Go(func() {
		defer close(ended)
		l.serve(c, establish)
	})
	l.mu.Unlock()
	if oldest != nil {
		_ = oldest.Close()
	}
	<-ended
}

func (l *listener) serve(c *conn, establish listeners.EstablishFn) {
	defer func() {
		if p := recover(); p != nil {
			l.panicked(c, p)
		}
		_ = c.Close() // it may be closed already
		c.receipt.end()
		l.broker.abandoned(c)
		l.broker.leaveLayouts(c)
		if c.leave != nil {
			c.leave()
		}
		l.mu.Lock()
		delete(l.conns, c)
		l.known(c)
		l.mu.Unlock()
	}()
	// The error says how the connection ended, which is up to the client.
	_ = establish(listenerID, c)
}

// panicked logs a panic, with its stack at most once a minute: mochi panics on some truncated
// packets, and a client that sends them would fill the log.
func (l *listener) panicked(c *conn, p any) {
	id := ""
	if c.client != nil {
		id = c.client.ID
	}
	l.broker.refusals.Add(refusal.MQTT, refusal.CauseFailed, "", id, fmt.Sprintf("a packet that the server cannot handle: %v", p))
	l.mu.Lock()
	say := l.told.IsZero() || time.Since(l.told) >= time.Minute
	if say {
		l.told = time.Now()
	}
	l.mu.Unlock()
	if say {
		l.broker.log.LogAttrs(context.Background(), slog.LevelError, "panic in an MQTT connection, which is closed",
			slog.Any("panic", p), slog.String("stack", string(debug.Stack())))
	}
}

// stopAccepting closes the listening socket. Connections stay open.
func (l *listener) stopAccepting() {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.stopped:
	default:
		close(l.stopped)
		_ = l.ln.Close()
	}
}

// cutOff closes all connections without sending anything.
func (l *listener) cutOff() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.conns {
		_ = c.Close() // it may be closed already
	}
}

// Close ends all connections, for MQTT 5 clients with a reason, and waits until they have ended.
//
// It does not use mochi's own way to close its clients, which takes a read lock twice
// (Clients.GetByListener, mochi 2.7.9): a client that disconnects in between blocks both forever.
func (l *listener) Close(listeners.CloseFn) {
	l.stopAccepting()
	l.accepting.Wait()
	for _, cl := range l.broker.server.Clients.GetAll() {
		if cl.Net.Listener == listenerID && !cl.Closed() {
			l.broker.hangUp(cl, packets.ErrServerShuttingDown)
		}
	}
	l.cutOff()
	l.serving.Wait()
}

// ID returns the name of the listener.
func (l *listener) ID() string { return listenerID }

// Address returns the address that the listener listens on.
func (l *listener) Address() string { return l.ln.Addr().String() }

// Protocol returns the network of the address.
func (l *listener) Protocol() string { return l.ln.Addr().Network() }
