package streamread

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/greenroom-go/greenroom/internal/pause"
)

// begin starts a server with a stream that has n messages, numbered from 1.
func begin(t *testing.T, n byte) (jetstream.JetStream, jetstream.Stream) {
	t.Helper()
	s, err := server.NewServer(&server.Options{JetStream: true, StoreDir: t.TempDir(), DontListen: true, NoLog: true, NoSigs: true})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(30 * time.Second) {
		t.Fatal("the server is not ready")
	}
	nc, err := nats.Connect("", nats.InProcessServer(s))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s"}, Storage: jetstream.MemoryStorage})
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if _, err := js.Publish(t.Context(), "s", []byte{i + 1}); err != nil {
			t.Fatal(err)
		}
	}
	return js, stream
}

var options = Options{Begin: 30 * time.Second, Beat: 5 * time.Second, Next: 30 * time.Second, Idle: time.Minute}

// expectNone waits until the stream has no consumer: their deletion is not waited for.
func expectNone(t *testing.T, stream jetstream.Stream) {
	t.Helper()
	expectConsumers(t, stream, 0)
}

// expectConsumers waits until the stream has so many consumers.
func expectConsumers(t *testing.T, stream jetstream.Stream, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), options.Idle/2)
	defer cancel()
	for {
		info, err := stream.Info(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if info.State.Consumers == n {
			return
		}
		if pause.For(ctx, time.Millisecond) != nil {
			t.Fatalf("the stream has %d consumers, want %d", info.State.Consumers, n)
		}
	}
}

func TestAStreamIsReadInOrderAndKeepsNoConsumer(t *testing.T) {
	t.Parallel()
	const n = 20
	js, stream := begin(t, n)
	for first := uint64(1); first <= n; first++ {
		o, want := options, first
		o.First, o.HeadersOnly = first, first%2 == 0
		if err := Each(t.Context(), js, stream, o, func(sequence uint64, m jetstream.Msg) bool {
			if data := m.Data(); sequence != want || o.HeadersOnly != (len(data) == 0) || len(data) > 0 && data[0] != byte(want) {
				t.Errorf("from %d on: message %d is %v, want %d", first, sequence, data, want)
			}
			want++
			return want <= n
		}); err != nil || want != n+1 {
			t.Errorf("from %d on: it ends before message %d: %v", first, want, err)
		}
	}
	expectNone(t, stream)
}

func TestWhoEndsToReadEarlyLeavesNoConsumer(t *testing.T) {
	t.Parallel()
	js, stream := begin(t, 1)
	ctx, cancel := context.WithCancel(t.Context())
	o := options
	o.First = 1
	if err := Each(ctx, js, stream, o, func(uint64, jetstream.Msg) bool { cancel(); return true }); !errors.Is(err, context.Canceled) {
		t.Errorf("when its context ends: %v", err)
	}
	o.First, o.Next = 2, time.Millisecond
	if err := Each(t.Context(), js, stream, o, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("when no message comes in time: %v", err)
	}
	o.Begin = time.Nanosecond
	if err := Each(t.Context(), js, stream, o, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("when the server does not begin in time: %v", err)
	}
	expectNone(t, stream)
	if err := js.DeleteStream(t.Context(), "S"); err != nil {
		t.Fatal(err)
	}
	if err := Each(t.Context(), js, stream, options, nil); !errors.Is(err, jetstream.ErrStreamNotFound) {
		t.Errorf("without the stream: %v", err)
	}
}

// TestAReadEndsWhenTheConnectionIsMadeAnew has reads wait for a message, of which the server has written none: without
// an end they would wait for as long as Next says, and the first of them would not end although it has read something.
func TestAReadEndsWhenTheConnectionIsMadeAnew(t *testing.T) {
	t.Parallel()
	js, stream := begin(t, 1)
	read := make(chan struct{})
	var once sync.Once
	ends := make(chan error, 2)
	for first := uint64(1); first <= 2; first++ {
		o := options
		o.First = first
		go func() {
			ends <- Each(t.Context(), js, stream, o, func(uint64, jetstream.Msg) bool {
				once.Do(func() { close(read) })
				return true
			})
		}()
	}
	<-read
	expectConsumers(t, stream, 2)
	if err := js.Conn().ForceReconnect(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := <-ends; !errors.Is(err, ErrReconnected) {
			t.Errorf("it ends with: %v, want %v", err, ErrReconnected)
		}
	}
	o := options // and the next one is not mistaken for one under way
	o.First = 1
	if err := Each(t.Context(), js, stream, o, func(uint64, jetstream.Msg) bool { return false }); err != nil {
		t.Errorf("over the new connection: %v", err)
	}
	expectNone(t, stream)
}
