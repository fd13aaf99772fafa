package mqtt

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"

	"github.com/coder/websocket"
)

// subprotocols are the names of MQTT in a WebSocket: of all versions, and what clients of 3.1 say.
var subprotocols = []string{"mqtt", "mqttv3.1"}

// ServeHTTP has a client speak MQTT over a WebSocket (MQTT 5.0, 6). It returns when the
// connection has ended. A web page must be of the host that it connects to.
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

// socket is a WebSocket as a connection.
type socket struct {
	net.Conn
	tls  *tls.ConnectionState // of the HTTP connection; nil: it is not encrypted
	from net.Addr             // where the request came from

	loggedIn func()
}

// RemoteAddr is where the client is, which a proxy may have said.
func (s *socket) RemoteAddr() net.Addr { return s.from }

// Close does not wait until the client has answered that it closes, too.
func (s *socket) Close() error {
	go s.Conn.Close() // what it returns says how the client has left
	return nil
}
