//go:build unix

package chaos_test

import (
	"bytes"
	"net"
	"sync"
	"testing"
)

// lines are the ways between processes. Each process is reached at an address of its own, where a proxy passes
// on what comes, unless the way is blocked. What a blocked way has taken waits there, as in a network that loses
// packets and has them sent again.
type lines struct {
	names []string // of all that dial

	mu      sync.Mutex
	changed chan struct{}      // closed at each change
	blocked map[[2]string]bool // from, to
	open    map[*line]bool
}

// line is a connection.
type line struct {
	from, to string
	ends     [2]net.Conn
}

func newLines(names ...string) *lines {
	return &lines{names: names, changed: make(chan struct{}), blocked: make(map[[2]string]bool), open: make(map[*line]bool)}
}

// block stops what goes from one process to another, or lets it pass again. With reset their connections end.
func (l *lines) block(from, to string, is, reset bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.blocked[[2]string{from, to}] = is
	close(l.changed)
	l.changed = make(chan struct{})
	for c := range l.open {
		if reset && (c.from == from && c.to == to || c.from == to && c.to == from) {
			c.end()
		}
	}
}

// cut is block both ways.
func (l *lines) cut(a, b string, is, reset bool) {
	l.block(a, b, is, reset)
	l.block(b, a, is, reset)
}

// pass waits until a way is open.
func (l *lines) pass(from, to string) {
	for {
		l.mu.Lock()
		is, changed := l.blocked[[2]string{from, to}], l.changed
		l.mu.Unlock()
		if !is {
			return
		}
		<-changed
	}
}

func (c *line) end() {
	for _, conn := range c.ends {
		_ = conn.(*net.TCPConn).SetLinger(0)
		_ = conn.Close()
	}
}

// listen has a process be reached at the address that it returns. The address of the process comes later, and
// once. stop has the address refuse connections, as that of a process that has ended.
func (l *lines) listen(t *testing.T, from, to string) (addr string, target chan string, stop func()) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	target = make(chan string, 1)
	stopped := make(chan struct{})
	go func() {
		var at string
		select {
		case at = <-target:
		case <-stopped:
			return
		}
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go l.serve(conn, from, to, at)
		}
	}()
	return listener.Addr().String(), target, sync.OnceFunc(func() {
		close(stopped)
		_ = listener.Close()
		l.mu.Lock()
		defer l.mu.Unlock()
		for c := range l.open {
			if c.to == to && (from == "" || c.from == from) {
				c.end()
			}
		}
	})
}

// serve passes on a connection. If from is empty, the first bytes say who dials.
func (l *lines) serve(conn net.Conn, from, to, at string) {
	first := make([]byte, 4096)
	n := 0
	for from == "" {
		k, err := conn.Read(first[n:])
		if n += k; err != nil || n == len(first) { // somebody has looked whether it is there
			_ = conn.Close()
			return
		}
		for _, name := range l.names {
			if bytes.Contains(first[:n], []byte(name)) {
				from = name
			}
		}
	}
	l.pass(from, to)
	other, err := net.Dial("tcp", at)
	if err != nil {
		_ = conn.Close()
		return
	}
	c := &line{from, to, [2]net.Conn{conn, other}}
	l.mu.Lock()
	l.open[c] = true
	l.mu.Unlock()
	var all sync.WaitGroup
	all.Go(func() { l.relay(conn, other, first[:n], from, to) })
	all.Go(func() { l.relay(other, conn, nil, to, from) })
	all.Wait()
	l.mu.Lock()
	delete(l.open, c)
	l.mu.Unlock()
}

// relay passes on what comes, until one of the two ends.
func (l *lines) relay(src, dst net.Conn, first []byte, from, to string) {
	defer func() {
		_ = src.Close()
		_ = dst.Close()
	}()
	buf := make([]byte, 32<<10)
	for n := copy(buf, first); ; {
		l.pass(from, to)
		if _, err := dst.Write(buf[:n]); err != nil {
			return
		}
		var err error
		if n, err = src.Read(buf); err != nil {
			return
		}
	}
}
