package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/greenroom-go/greenroom/internal/keyed"
	"github.com/greenroom-go/greenroom/internal/pause"
)

// The protocols between nodes (ALPN).
const (
	linkHTTP = "greenroom-http"
	linkMQTT = "greenroom-mqtt" // the address of the client, the answer, and then its bytes
)

// taken and refused are the answers to a forwarded MQTT connection.
const (
	refused = 0
	taken   = 1
)

// dialError says that there is no connection to another node.
type dialError struct{ error }

func (e *dialError) Unwrap() error { return e.error }

// DialLink connects to the link of a node, for its Control. It fails with an error that wraps [keyed.ErrOtherSecret] if
// that has another secret, and blocks for some seconds at most.
func DialLink(ctx context.Context, link, secret string) (net.Conn, error) {
	config, err := keyed.TLS(secret, linkHTTP)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNodes, err)
	}
	return dialLink(ctx, link, config)
}

func dialLink(ctx context.Context, link string, config *tls.Config) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, linkWithin)
	defer cancel()
	conn, err := (&tls.Dialer{Config: config}).DialContext(ctx, "tcp", link)
	if err != nil {
		return nil, &dialError{fmt.Errorf("connect to the node at %s: %w", link, err)}
	}
	return conn, nil
}

// dial connects to another node, to speak one of the protocols.
func (f *Front) dial(ctx context.Context, link, protocol string) (net.Conn, error) {
	config := f.keyed.Clone()
	config.NextProtos = []string{protocol}
	conn, err := dialLink(ctx, link, config)
	if errors.Is(err, keyed.ErrOtherSecret) {
		f.log.LogAttrs(ctx, slog.LevelError, "another node has another secret", slog.String("link", link))
	}
	return conn, err
}

// acceptLink accepts connections of other nodes.
func (f *Front) acceptLink() {
	f.accept(f.guests.listener(f.linkLn), func(nc net.Conn) {
		conn := tls.Server(nc, f.keyed)
		ctx, cancel := context.WithTimeout(f.running, linkWithin)
		err := conn.HandshakeContext(ctx)
		cancel()
		pass(nc)
		switch {
		case err != nil:
			f.warn(nc, err)
		case conn.ConnectionState().NegotiatedProtocol == linkMQTT:
			f.takeMQTT(conn)
			return
		case conn.ConnectionState().NegotiatedProtocol == linkActors:
			f.takeSession(conn)
			return
		case f.linkHTTP.hand(conn):
			return
		}
		_ = nc.Close()
	})
}

// warnEvery is how often a stranger at the link is logged: there may be many.
const warnEvery = 10 * time.Second

// warn logs a connection to the link that was refused.
func (f *Front) warn(nc net.Conn, err error) {
	f.metrics.refused.Inc()
	now, last := time.Now().UnixNano(), f.warned.Load()
	level := slog.LevelDebug
	if now-last >= int64(warnEvery) && f.warned.CompareAndSwap(last, now) {
		level = slog.LevelWarn
	}
	f.log.LogAttrs(f.running, level, "refused a connection to the link of this node", slog.String("from", nc.RemoteAddr().String()), slog.Any("error", err))
}

// accept accepts connections until the listener is closed.
func (f *Front) accept(ln net.Listener, serve func(net.Conn)) {
	for {
		nc, err := ln.Accept()
		switch {
		case err == nil:
			f.work.Go(func() { serve(nc) })
		case errors.Is(err, net.ErrClosed) || pause.For(f.running, 50*time.Millisecond) != nil:
			return
		}
	}
}

// takeMQTT accepts a connection that another node forwards.
func (f *Front) takeMQTT(conn net.Conn) {
	_ = conn.SetDeadline(time.Now().Add(linkWithin))
	from, err := readAddress(conn)
	f.mu.Lock()
	a := f.now
	f.mu.Unlock()
	if err != nil || a == nil || a.local == nil || !a.held() {
		_, _ = conn.Write([]byte{refused}) // it may have left
		_ = conn.Close()
		return
	}
	if _, err = conn.Write([]byte{taken}); err == nil {
		err = conn.SetDeadline(time.Time{})
	}
	if err != nil || !a.in.hand(&fromConn{conn, net.TCPAddrFromAddrPort(from)}) {
		_ = conn.Close()
	}
}

// readAddress reads what passMQTT writes first: a length and an address.
func readAddress(r io.Reader) (at netip.AddrPort, err error) {
	var length [1]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return at, err
	}
	text := make([]byte, length[0])
	if _, err := io.ReadFull(r, text); err != nil {
		return at, err
	}
	return netip.ParseAddrPort(string(text))
}

// acceptMQTT accepts connections of clients.
func (f *Front) acceptMQTT() {
	f.accept(f.mqtts.listener(f.mqttLn), func(nc net.Conn) {
		ctx, cancel := context.WithTimeout(f.running, ownerWithin)
		defer cancel()
		for began, first := time.Now(), true; ; first = false {
			a, err := f.answers(ctx, nil)
			if first {
				f.metrics.waited.Observe(time.Since(began).Seconds())
			}
			if err != nil {
				f.metrics.mqtt.noOwner.Inc()
				_ = nc.Close()
				return
			}
			if a.local == nil {
				if f.passMQTT(ctx, a, nc) {
					return
				}
			} else if a.in.hand(below(nc)) {
				pass(nc)
				return
			}
			f.pause(ctx, a)
		}
	})
}

// passMQTT forwards a connection to another node, and returns when it has ended. It reports false
// if that node has not accepted it.
func (f *Front) passMQTT(ctx context.Context, a *answerer, nc net.Conn) bool {
	from := nc.RemoteAddr().String()
	ctx, cancel := context.WithCancel(ctx)
	defer context.AfterFunc(a.ctx, cancel)()
	defer cancel()
	conn, err := f.dial(ctx, a.addr, linkMQTT)
	if err != nil {
		f.metrics.mqtt.failed.Inc()
		return false
	}
	defer conn.Close()
	stop := context.AfterFunc(a.ctx, func() { hangUp(conn) })
	defer stop()
	_ = conn.SetDeadline(time.Now().Add(linkWithin))
	var answer [1]byte
	if _, err = conn.Write(append([]byte{byte(len(from))}, from...)); err == nil {
		_, err = io.ReadFull(conn, answer[:])
	}
	if err != nil || answer[0] != taken || conn.SetDeadline(time.Time{}) != nil {
		f.metrics.mqtt.failed.Inc()
		return false
	}
	f.metrics.mqtt.passed.Inc()
	defer nc.Close()
	defer context.AfterFunc(a.ctx, func() { _ = nc.Close() })()
	defer recognizedLater(nc)()
	var back sync.WaitGroup
	back.Go(func() {
		_, _ = io.Copy(nc, conn) // its end is that of the connection
		_ = nc.Close()
	})
	_, _ = io.Copy(conn, nc)
	hangUp(conn)
	back.Wait()
	return true
}

// fronted is what a server behind a Front gets from it.
type fronted struct {
	http, mqtt net.Listener
	finish     func(ctx context.Context) // called before it ends
	metrics    prometheus.Collector
	particular string // in the names of cookies: the same on all nodes of a cluster
	node       string
	epoch      uint64
	since      time.Time // when it began to own the store
	nodes      func(ctx context.Context) ([]NodeInfo, error)
}

// fromConn is a connection of a client of another node.
type fromConn struct {
	net.Conn
	from net.Addr
}

// RemoteAddr returns the address of the client.
func (c *fromConn) RemoteAddr() net.Addr { return c.from }

// NetConn returns the connection of the other node.
func (c *fromConn) NetConn() net.Conn { return c.Conn }

// handed is a listener of connections that were accepted elsewhere.
type handed struct {
	at    net.Addr
	queue chan net.Conn

	mu     sync.Mutex
	open   map[*handedConn]struct{} // guarded by mu
	closed chan struct{}            // closed under mu, when no more are accepted
}

func newHanded(at net.Addr) *handed {
	return &handed{at: at, queue: make(chan net.Conn), open: make(map[*handedConn]struct{}), closed: make(chan struct{})}
}

// handedConn is a connection until it is closed.
type handedConn struct {
	net.Conn
	of *handed
}

// NetConn returns the connection that was handed over.
func (c *handedConn) NetConn() net.Conn { return c.Conn }

// Close closes the connection.
func (c *handedConn) Close() error {
	c.of.mu.Lock()
	delete(c.of.open, c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}

// hand passes a connection to Accept. It reports false if the listener is closed.
func (h *handed) hand(nc net.Conn) bool {
	c := &handedConn{nc, h}
	h.mu.Lock()
	h.open[c] = struct{}{}
	h.mu.Unlock()
	select {
	case h.queue <- c:
		return true
	case <-h.closed:
		h.mu.Lock()
		delete(h.open, c)
		h.mu.Unlock()
		return false
	}
}

// Accept implements net.Listener.
func (h *handed) Accept() (net.Conn, error) {
	select {
	case c := <-h.queue:
		return c, nil
	case <-h.closed:
		return nil, net.ErrClosed
	}
}

// count returns the number of connections that are open.
func (h *handed) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.open)
}

// Addr implements net.Listener. It returns the address at which the connections were accepted.
func (h *handed) Addr() net.Addr { return h.at }

// Close implements net.Listener.
func (h *handed) Close() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	select {
	case <-h.closed:
	default:
		close(h.closed)
	}
	return nil
}

// hangUp closes the listener, and the connections that it has accepted.
func (h *handed) hangUp() {
	_ = h.Close() // it returns nil
	h.mu.Lock()
	defer h.mu.Unlock()
	for c := range h.open {
		_ = raw(c).Close() // its owner finds it closed
	}
}

// raw returns the connection below TLS and others: closing it does not block.
func raw(conn net.Conn) net.Conn {
	for {
		c, ok := conn.(interface{ NetConn() net.Conn })
		if !ok {
			return conn
		}
		conn = c.NetConn()
	}
}
