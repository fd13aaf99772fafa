package server

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"github.com/greenroom-go/greenroom/internal/pause"
)

// slowLine is the connection of a client that takes 56 kB a second. It never says anything.
type slowLine struct {
	net.Conn // of a pipe, for what is not overridden
	header   http.Header
	until    time.Time
	taken    int
}

const slowRate = 56_000 // bytes a second

func (l *slowLine) Write(p []byte) (int, error) {
	takes := time.Duration(len(p)) * time.Second / slowRate
	if left := time.Until(l.until); !l.until.IsZero() && left < takes {
		_ = pause.For(context.Background(), left) // of a synctest bubble
		return 0, os.ErrDeadlineExceeded
	}
	_ = pause.For(context.Background(), takes)
	l.taken += len(p)
	return len(p), nil
}

func (l *slowLine) Header() http.Header { return l.header }
func (l *slowLine) WriteHeader(int)     {}
func (l *slowLine) FlushError() error   { return nil }

func (l *slowLine) SetWriteDeadline(t time.Time) error {
	l.until = t
	return nil
}

func (l *slowLine) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return l, bufio.NewReadWriter(bufio.NewReader(l.Conn), bufio.NewWriter(l)), nil
}

// A reader with a slow connection was disconnected in the middle of a large event, for which it needs
// longer than it may take nothing at all.
func TestAReaderWithASlowConnectionGetsLargeEventsWhole(t *testing.T) {
	t.Parallel()
	data := []byte(strings.Repeat("x", 1_000_000))
	for name, send := range map[string]func(context.Context, *slowLine) error{
		"server-sent events": func(ctx context.Context, l *slowLine) error {
			e := &eventWriter{ctx: ctx, w: l, rc: http.NewResponseController(l)}
			e.event("change", "a", data)
			return e.flush()
		},
		"WebSocket": func(ctx context.Context, l *slowLine) error {
			r := httptest.NewRequest(http.MethodGet, "/v1/ws", http.NoBody)
			for key, value := range map[string]string{"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="} {
				r.Header.Set(key, value)
			}
			c, err := websocket.Accept(l, r, nil)
			if err != nil {
				return err
			}
			defer func() { _ = c.CloseNow() }()
			o := &socketWriter{conn: c, ctx: context.WithoutCancel(ctx), stream: ctx}
			o.event("change", "a", data)
			return o.flush()
		},
		"export": func(ctx context.Context, l *slowLine) error {
			_, err := (&patientWriter{ctx, l, http.NewResponseController(l)}).Write(data)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				server, client := net.Pipe()
				defer client.Close()
				l := &slowLine{Conn: server, header: http.Header{}}
				if err := send(t.Context(), l); err != nil || l.taken < len(data) {
					t.Errorf("%d of %d bytes are taken: %v", l.taken, len(data), err)
				}
				// The end of the stream does not wait for the rest.
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(time.Second, cancel)
				l, began := &slowLine{Conn: server, header: http.Header{}}, time.Now()
				if err := send(ctx, l); err == nil || time.Since(began) > 2*time.Second {
					t.Errorf("a large event ended %v after the end of the stream: %v", time.Since(began)-time.Second, err)
				}
			})
		})
	}
}
