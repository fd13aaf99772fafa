package server

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/internal/keyed"
	"github.com/greenroom-go/greenroom/internal/pgtest"
)

// guarded creates the first principal on the owner, and returns its token.
func (n *testNode) guarded() string {
	n.t.Helper()
	return n.principal("", `{"name":"root","grants":[{"role":"admin"}]}`)
}

// principal creates a principal, and returns its token.
func (n *testNode) principal(token, spec string) string {
	n.t.Helper()
	status, answer := n.do("POST", "/v1/principals", spec, "Authorization", "Bearer "+token, "Content-Type", "application/json")
	var made struct{ Token string }
	if err := json.Unmarshal([]byte(answer), &made); status != http.StatusCreated || err != nil || made.Token == "" {
		n.t.Fatalf("%d %s", status, answer)
	}
	return made.Token
}

// raw connects to an address, and sends something.
func (n *testNode) raw(to, send string) net.Conn {
	n.t.Helper()
	conn, err := (&net.Dialer{}).DialContext(n.t.Context(), "tcp", to)
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := io.WriteString(conn, send); err != nil {
		n.t.Fatal(err)
	}
	return conn
}

// TestStrangersKeepNobodyOutOfANode that passes on what clients send: it hears from the owner who has logged in.
func TestStrangersKeepNobodyOutOfANode(t *testing.T) {
	t.Parallel()
	store := pgtest.Database(t)
	a, b := startNode(t, store, "a"), startNode(t, store, "b", func(f *Front) { f.conns.limit = 2 })
	a.own(1, b)
	token := a.guarded()
	known := b.raw(b.HTTPAddr(), "GET /v1/stream HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer "+token+"\r\n\r\n")
	stream := bufio.NewReader(known)
	if resp, err := http.ReadResponse(stream, nil); err != nil || resp.StatusCode != http.StatusOK || resp.Header.Get(knownHeader) != "" {
		t.Fatalf("%+v %v", resp, err)
	}
	const part = "POST /v1/entities/room/telemetry HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 5\r\n\r\n" // the body does not come
	stranger := b.raw(b.HTTPAddr(), part)
	eventually(t, "the stranger", func() bool {
		b.conns.mu.Lock()
		defer b.conns.mu.Unlock()
		return b.conns.open == 2 && b.conns.oldest.Len() == 0 && b.conns.unknown.Len() == 1
	})
	isHealthy(t, b.raw(b.HTTPAddr(), "")) // by a third connection
	isClosed(t, stranger)
	status, answer := a.do("POST", "/v1/entities/room/telemetry", `{"v":1}`, "Authorization", "Bearer "+token)
	if status != http.StatusNoContent {
		t.Fatalf("%d %s", status, answer)
	}
	for {
		line, err := stream.ReadString('\n')
		if err != nil {
			t.Fatalf("the stream of who has logged in has ended: %v", err)
		}
		if strings.HasPrefix(line, "data:") && strings.Contains(line, `"room"`) {
			break
		}
	}
}

// TestStrangersKeepNoDeviceOutOfANode: who is still connected when the owner must have ended the connections of all who
// have not logged in is displaced by nobody.
func TestStrangersKeepNoDeviceOutOfANode(t *testing.T) {
	t.Parallel()
	f, _ := followFake(t, func(http.ResponseWriter, *http.Request) {}, func(f *Front) { f.mqtts.limit, f.mqtts.knownWithin = 2, time.Nanosecond })
	link, err := keyed.TLS(nodeSecret, linkMQTT)
	if err != nil {
		t.Fatal(err)
	}
	owner, err := tls.Listen("tcp", "127.0.0.1:0", link)
	if err != nil {
		t.Fatal(err)
	}
	defer owner.Close()
	accepted := make(chan net.Conn, 10)
	go func() {
		for {
			nc, err := owner.Accept()
			if err != nil {
				return
			}
			if _, err := readAddress(nc); err == nil {
				accepted <- nc
			}
		}
	}()
	f.Follow("a", owner.Addr().String(), 2)
	n := &testNode{Front: f, t: t}
	unknown := func(want int) {
		t.Helper()
		eventually(t, "the strangers", func() bool {
			f.mqtts.mu.Lock()
			defer f.mqtts.mu.Unlock()
			return f.mqtts.open <= 2 && f.mqtts.unknown.Len() == want
		})
	}
	device := n.raw(n.MQTTAddr(), "")
	passed := receive(t, accepted, "the connection of the device")
	_, _ = passed.Write([]byte{taken})
	unknown(0)
	stranger := n.raw(n.MQTTAddr(), "")
	_ = receive(t, accepted, "the connection of the stranger")
	unknown(1)
	_ = n.raw(n.MQTTAddr(), "")
	isClosed(t, stranger)
	if _, err := passed.Write([]byte("!")); err != nil {
		t.Error(err)
	}
	if got, err := bufio.NewReader(device).ReadByte(); got != '!' || err != nil {
		t.Errorf("the device reads %q, %v", got, err)
	}
}

// TestStrangersKeepNoNodeOut at the link: they are few, and the oldest of them makes room.
func TestStrangersKeepNoNodeOut(t *testing.T) {
	t.Parallel()
	a := startNode(t, "postgres://h/d", "a")
	var strangers []net.Conn
	for range maxGuests {
		strangers = append(strangers, a.raw(a.LinkAddr(), "\x16\x03\x01"))
	}
	eventually(t, "all places to be taken", func() bool {
		a.guests.mu.Lock()
		defer a.guests.mu.Unlock()
		return a.guests.unknown.Len() == a.guests.limit && a.guests.open == maxGuests
	})
	for range 3 { // a node that has shown the secret takes nobody's place any more
		ctx, cancel := context.WithTimeout(t.Context(), linkWithin)
		conn, err := DialLink(ctx, a.LinkAddr(), nodeSecret)
		cancel()
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	isClosed(t, strangers[0])
	eventually(t, "the nodes to count no more", func() bool {
		a.guests.mu.Lock()
		defer a.guests.mu.Unlock()
		return a.guests.open == a.guests.unknown.Len() && a.guests.open < maxGuests
	})
}
