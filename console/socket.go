package console

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// The limits of a socket.
const (
	maxConnections = 16
	maxSilence     = 5 * time.Minute
	maxWrite       = 10 * time.Second
	maxPath        = 100 // bytes; the address of a socket has room for 104 to 108
)

// The last lines of an answer.
const (
	endedWell  = "<CMD OK>"
	endedBadly = "<CMD Error>"
)

// Listen opens a socket at a path, to which only the user of the process may connect. A socket left
// behind by a process that is gone is replaced. Listen fails if another process answers there, or
// if something else is at the path. Closing the listener removes the socket.
func Listen(path string) (net.Listener, error) {
	if len(path) > maxPath {
		return nil, fmt.Errorf("listen for the console: the path of a socket must have at most %d bytes, not %d: %s", maxPath, len(path), path)
	}
	if err := clearSocket(path); err != nil {
		return nil, fmt.Errorf("listen for the console: %w", err)
	}
	// In a directory of its own nobody can connect before the permissions are set.
	dir, err := os.MkdirTemp(filepath.Dir(path), ".c")
	if err != nil {
		return nil, fmt.Errorf("listen for the console: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	made := filepath.Join(dir, "s")
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: made, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("listen for the console: %w", err)
	}
	ln.SetUnlinkOnClose(false) // it will be elsewhere
	if err = os.Chmod(made, 0o600); err == nil {
		err = os.Rename(made, path)
	}
	if err != nil {
		_ = ln.Close()
		return nil, fmt.Errorf("listen for the console: %w", err)
	}
	return &listener{ln, sync.OnceValue(func() error {
		defer func() { _ = os.Remove(path) }() // somebody may have done so
		return ln.Close()
	})}, nil
}

// clearSocket removes what a process that is gone has left.
func clearSocket(path string) error {
	at, err := os.Lstat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return err
	case at.Mode()&os.ModeSocket == 0:
		return fmt.Errorf("%s is there already, and is no socket", path)
	}
	d := net.Dialer{Timeout: time.Second}
	if conn, err := d.DialContext(context.Background(), "unix", path); err == nil {
		_ = conn.Close()
		return fmt.Errorf("%s: another process listens there", path)
	}
	return os.Remove(path)
}

// listener removes its socket when it is closed. Each Close returns when that is done.
type listener struct {
	net.Listener
	close func() error
}

func (l *listener) Close() error { return l.close() }

// Serve answers connections until ctx ends or the listener fails. It closes the listener and
// returns when the last connection has ended; nil if ctx has ended.
func (c *Console) Serve(ctx context.Context, ln net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	var conns sync.WaitGroup
	defer conns.Wait()
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = ln.Close() })
	defer stop()
	defer func() { _ = ln.Close() }()
	free := make(chan struct{}, maxConnections)
	for {
		conn, err := ln.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("serve the console: %w", err)
		}
		select {
		case free <- struct{}{}:
			conns.Go(func() {
				defer func() { <-free }()
				c.serve(ctx, conn)
			})
		default:
			_ = conn.SetWriteDeadline(time.Now().Add(maxWrite))
			_, _ = fmt.Fprintf(conn, "there are %d connections to the console already\n%s\n", maxConnections, endedBadly)
			_ = conn.Close()
		}
	}
}

// serve answers the lines of a connection.
func (c *Console) serve(ctx context.Context, conn net.Conn) {
	defer func() { _ = conn.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	lines := bufio.NewScanner(conn)
	lines.Buffer(make([]byte, 0, 4096), MaxLine)
	for conn.SetReadDeadline(time.Now().Add(maxSilence)) == nil && lines.Scan() {
		out, changes, err := c.run(ctx, lines.Text())
		if changes && c.cfg.Record != nil {
			c.cfg.Record(ctx, lines.Text(), err)
		}
		if conn.SetWriteDeadline(time.Now().Add(maxWrite)) != nil || !send(conn, out, err) {
			return
		}
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		_ = conn.SetWriteDeadline(time.Now().Add(maxWrite))
		send(conn, "", fmt.Errorf("a line must have at most %d bytes", MaxLine))
	}
}

// send writes an answer and reports whether it could.
func send(conn net.Conn, out string, failed error) bool {
	end := endedWell
	if failed != nil {
		out, end = printable(failed.Error())+"\n", endedBadly
	}
	if out != "" && !strings.HasSuffix(out, "\n") { // it was cut
		out += "\n"
	}
	var b strings.Builder
	for line := range strings.Lines(out) {
		if strings.HasPrefix(line, "<CMD ") { // only the last line begins so
			b.WriteByte(' ')
		}
		b.WriteString(line)
	}
	_, err := conn.Write([]byte(b.String() + end + "\n"))
	return err == nil
}

// Call sends one line to the console at a socket and returns its output. If the command fails, the
// error is an [*Error]. It waits until the answer arrives or ctx ends.
func Call(ctx context.Context, path, line string) (string, error) {
	if strings.ContainsAny(line, "\r\n") {
		return "", errors.New("a line must have no line break; a quoted text may have \\n")
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", path)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	if _, err := conn.Write([]byte(line + "\n")); err != nil {
		return "", err
	}
	var out strings.Builder
	for in := bufio.NewReader(conn); ; {
		line, err := in.ReadString('\n')
		switch {
		case err != nil:
			return "", fmt.Errorf("the console has not answered to the end: %w", err)
		case line == endedWell+"\n":
			return out.String(), nil
		case line == endedBadly+"\n":
			return "", &Error{strings.TrimSpace(out.String())}
		}
		if out.Len() > 2*MaxAnswer {
			return "", fmt.Errorf("an answer must have at most %d bytes", 2*MaxAnswer)
		}
		out.WriteString(line)
	}
}

// Error is the answer of a console to a command that has failed.
type Error struct {
	Text string // its lines
}

// Error returns the text.
func (e *Error) Error() string { return e.Text }
