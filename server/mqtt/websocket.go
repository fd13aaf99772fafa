package mqtt

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"

	"github.com/coder/websocket"
)

// subprotocols are the WebSocket subprotocols of MQTT: the one for all versions, and the one of
// clients of 3.1.
var subprotocols = []string{"mqtt", "mqttv3.1"}

// ServeHTTP serves MQTT over a WebSocket (MQTT 5.0, 6). It returns when the connection has ended. A
// web page must come from the host that it connects to.
func (b *Broker) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Upgrade") == "" {
		w.Header().Set("Upgrade", "websocket")
		http.Error(w, "this path speaks MQTT over WebSocket", http.StatusUpgradeRequired)
		return
	}
	ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: subprotocols})
	if err != nil {
		return // it has answered
	}
	if ws.Subprotocol() == "" {
		_ = ws.Close(websocket.StatusPolicyViolation, "the subprotocol must be mqtt") // it may have left
		return
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context()))
	defer cancel()
	nc := websocket.NetConn(ctx, ws, websocket.MessageBinary)
	from := nc.RemoteAddr()
	if at, err := netip.ParseAddrPort(r.RemoteAddr); err == nil {
		from = net.TCPAddrFromAddrPort(at)
	}
	loggedIn := func() {}
	if b.loggedIn != nil {
		loggedIn = func() { b.loggedIn(r) }
	}
	b.listener.serveSocket(&socket{Conn: nc, tls: r.TLS, from: from, loggedIn: loggedIn})
}

// socket is a WebSocket as a net.Conn.
type socket struct {
	net.Conn
	tls  *tls.ConnectionState // of the HTTP connection; nil if it is not encrypted
	from net.Addr             // the address of the client

	loggedIn func()
}

// RemoteAddr returns the address of the client, which a proxy may have forwarded.
func (s *socket) RemoteAddr() net.Addr { return s.from }

// Close does not wait for the client's closing handshake.
func (s *socket) Close() error {
	go s.Conn.Close() // the error says how the client has left
	return nil
}
