package server

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/sqlite"
)

// Regressions that a review found.

// heldStore commits when it is let, and then with the given error.
type heldStore struct {
	entity.Store
	entered chan struct{}
	release chan error
}

func (s heldStore) Commit(ctx context.Context, b *entity.Batch) error {
	select {
	case s.entered <- struct{}{}:
	default:
	}
	select {
	case err := <-s.release:
		if err != nil {
			return err
		}
		return s.Store.Commit(ctx, b)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// startHeld runs a server over a store that holds its commits.
func startHeld(t *testing.T, dir string) (s *Server, store heldStore, stop func() error) {
	t.Helper()
	store = heldStore{entered: make(chan struct{}, 1), release: make(chan error)}
	cfg := Config{HTTP: "127.0.0.1:0", MQTT: "127.0.0.1:0", Logger: slog.New(slog.DiscardHandler)}
	cfg.setDefaults()
	s, err := open(t.Context(), cfg, func() (entity.Store, error) {
		st, err := sqlite.Open(t.Context(), dir, sqlite.Options{})
		store.Store = st
		return store, err
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	return s, store, func() error { cancel(); return <-done }
}

func TestHalfClosedPostIsNotAnsweredWithSuccessBeforeTheCommit(t *testing.T) {
	s, store, stop := startHeld(t, t.TempDir())
	nc, err := net.Dial("tcp", s.HTTPAddr())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	body := `{"a":1}`
	_, err = io.WriteString(nc, "POST /v1/entities/d/telemetry HTTP/1.1\r\nHost: "+s.HTTPAddr()+"\r\nContent-Length: 7\r\n\r\n"+body)
	if err != nil {
		t.Fatal(err)
	}
	<-store.entered
	if err := nc.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	answer, _ := io.ReadAll(nc) // a reset is an answer, too
	if strings.HasPrefix(string(answer), "HTTP/1.1 2") {
		t.Errorf("answered before the commit: %q", answer)
	}
	go func() { store.release <- nil }()
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// mqttConnect opens a session of MQTT 3.1.1 by hand, for what client libraries do not do.
func mqttConnect(t *testing.T, addr string, clean byte) net.Conn {
	t.Helper()
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := nc.Write([]byte{0x10, 15, 0, 4, 'M', 'Q', 'T', 'T', 4, clean << 1, 0, 60, 0, 3, 'd', 'e', 'v'}); err != nil {
		t.Fatal(err)
	}
	readPacket(t, nc, 0x20)
	return nc
}

// readPacket reads a short packet and checks its type.
func readPacket(t *testing.T, nc net.Conn, kind byte) []byte {
	t.Helper()
	head := make([]byte, 2)
	if _, err := io.ReadFull(nc, head); err != nil {
		t.Fatalf("read: %v, want a packet of type %#x", err, kind)
	}
	rest := make([]byte, head[1])
	if _, err := io.ReadFull(nc, rest); err != nil {
		t.Fatal(err)
	}
	if head[0] != kind {
		t.Fatalf("got a packet of type %#x (% x), want %#x", head[0], rest, kind)
	}
	return rest
}

func publish(t *testing.T, nc net.Conn, qos byte, payload string) {
	t.Helper()
	const topic = "e/d/telemetry"
	body := append([]byte{0, byte(len(topic))}, topic...)
	body = append(body, 0, 1) // always the packet id 1
	body = append(body, payload...)
	if _, err := nc.Write(append([]byte{0x30 | qos<<1, byte(len(body))}, body...)); err != nil {
		t.Fatal(err)
	}
}

func TestQoS2MessageIsAnsweredWhenTheServerStopsWhileItIsCommitted(t *testing.T) {
	s, store, stop := startHeld(t, t.TempDir())
	nc := mqttConnect(t, s.MQTTAddr(), 1)
	defer nc.Close()
	publish(t, nc, 2, `{"a":1}`)
	<-store.entered
	stopped := make(chan error, 1)
	go func() { stopped <- stop() }()
	<-s.serving.Done()
	store.release <- nil
	defer store.letGo()()
	readPacket(t, nc, 0x50) // PUBREC
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

// letGo lets each further commit through, such as that of the entity's presence, until the
// returned function is called.
func (s heldStore) letGo() (end func()) {
	ended := make(chan struct{})
	go func() {
		for {
			select {
			case s.release <- nil:
			case <-ended:
				return
			}
		}
	}()
	return sync.OnceFunc(func() { close(ended) })
}

func TestPacketIDOfAnUnfinishedQoS2ExchangeCanBeUsedAnew(t *testing.T) {
	s, store, stop := startHeld(t, t.TempDir())
	defer store.letGo()()
	nc := mqttConnect(t, s.MQTTAddr(), 0)
	publish(t, nc, 2, `{"a":1}`)
	readPacket(t, nc, 0x50)
	_ = nc.Close() // before PUBREL: the device has lost its power

	nc = mqttConnect(t, s.MQTTAddr(), 0)
	defer nc.Close()
	readPacket(t, nc, 0x50) // the session's unfinished business, which the device has forgotten
	publish(t, nc, 1, `{"b":2}`)
	readPacket(t, nc, 0x40) // PUBACK
	snapshot, err := s.runtime.Entity(t.Context(), "d")
	if err != nil || len(snapshot.Latest) != 2 {
		t.Errorf("the entity has %+v, %v; want a and b", snapshot.Latest, err)
	}
	if err := stop(); err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
