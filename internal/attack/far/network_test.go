package far_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"sync"
)

var errDown = errors.New("the network is down")

// network is TCP with trouble: it cuts connections, or is down for a while. The address of a node is its name, which
// is at the port where it has listened last.
type network struct {
	mu    sync.Mutex
	ports map[string]string
	open  map[*conn]bool // both ends of a connection
	down  bool
	cuts  uint64 // connections
}

func newNetwork() *network {
	return &network{ports: make(map[string]string), open: make(map[*conn]bool)}
}

// conn is one end of a connection.
type conn struct {
	net.Conn
	network *network
}

// Close implements [net.Conn].
func (c *conn) Close() error {
	c.network.mu.Lock()
	delete(c.network.open, c)
	c.network.mu.Unlock()
	return c.Conn.Close()
}

// join adds an end of a connection.
func (n *network) join(c net.Conn) net.Conn {
	n.mu.Lock()
	defer n.mu.Unlock()
	end := &conn{c, n}
	if n.down {
		_ = c.Close()
		return end
	}
	n.open[end] = true
	return end
}

// listener is that of a node.
type listener struct {
	net.Listener
	network *network
}

// Accept implements [net.Listener].
func (l listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return l.network.join(c), nil
}

// listen returns the listener of a node.
func (n *network) listen(node string) (net.Listener, error) {
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ports[node] = l.Addr().String()
	return listener{l, n}, nil
}

// dial connects to a node.
func (n *network) dial(ctx context.Context, node string) (net.Conn, error) {
	n.mu.Lock()
	port, down := n.ports[node], n.down
	n.mu.Unlock()
	if down {
		return nil, errDown
	}
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", port)
	if err != nil {
		return nil, err
	}
	return n.join(c), nil
}

// cut ends some connections, of which some lose what is on its way.
func (n *network) cut(r *rand.Rand) {
	for _, c := range n.ends() {
		if r.IntN(2) == 0 {
			continue
		}
		if tcp, ok := c.Conn.(*net.TCPConn); ok && r.IntN(2) == 0 {
			_ = tcp.SetLinger(0)
		}
		n.end(c)
	}
}

// setDown ends all connections and allows no more, or allows them again.
func (n *network) setDown(down bool) {
	n.mu.Lock()
	n.down = down
	n.mu.Unlock()
	for _, c := range n.ends() {
		if down {
			n.end(c)
		}
	}
}

func (n *network) ends() (all []*conn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for c := range n.open {
		all = append(all, c)
	}
	return all
}

func (n *network) end(c *conn) {
	n.mu.Lock()
	n.cuts++
	n.mu.Unlock()
	_ = c.Conn.Close()
}
