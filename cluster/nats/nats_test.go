package nats_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/cluster"
	"github.com/greenroom-go/greenroom/cluster/enginetest"
	"github.com/greenroom-go/greenroom/cluster/nats"
	"github.com/greenroom-go/greenroom/internal/pause"
)

// serve starts a server and returns what connects to it.
func serve(t testing.TB) (connect func() *natsgo.Conn) {
	t.Helper()
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), NoLog: true, NoSigs: true})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(30 * time.Second) {
		t.Fatal("the server is not ready")
	}
	return func() *natsgo.Conn {
		nc, err := natsgo.Connect(s.ClientURL())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		return nc
	}
}

func open(t testing.TB, nc *natsgo.Conn) *nats.Engine {
	t.Helper()
	e, err := nats.Open(t.Context(), nc, nats.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestConformance(t *testing.T) {
	t.Parallel()
	enginetest.Run(t, func(t testing.TB) (a, b cluster.Engine) {
		connect := serve(t)
		return open(t, connect()), open(t, connect())
	})
}

func TestAStreamThatKeepsMoreIsRefused(t *testing.T) {
	t.Parallel()
	connect := serve(t)
	js, err := jetstream.New(connect())
	if err != nil {
		t.Fatal(err)
	}
	for want, cfg := range map[string]jetstream.StreamConfig{
		"must keep 1":              {Name: "A", Subjects: []string{"A.*"}},
		"allow_direct must be off": {Name: "B", Subjects: []string{"B.*"}, MaxMsgsPerSubject: 1, AllowDirect: true},
		"must be C.*":              {Name: "C", Subjects: []string{"other"}, MaxMsgsPerSubject: 1},
	} {
		if _, err := js.CreateStream(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
		if _, err := nats.Open(t.Context(), connect(), nats.Config{Stream: cfg.Name}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", cfg.Name, err, want)
		}
	}
}

func TestWatchesThatEndLeaveNoConsumers(t *testing.T) {
	t.Parallel()
	connect := serve(t)
	nc := connect()
	e := open(t, nc)
	if _, err := e.Put(t.Context(), "k", nil, 0); err != nil {
		t.Fatal(err)
	}
	const watches = 10
	for range watches {
		seen := make(chan struct{}, 1)
		stop := e.Watch("k", func(cluster.Entry) { seen <- struct{}{} })
		<-seen
		stop()
	}
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second) // their deletion is not waited for
	defer cancel()
	for {
		stream, err := js.Stream(t.Context(), "GREENROOM_CLUSTER")
		if err != nil {
			t.Fatal(err)
		}
		n := stream.CachedInfo().State.Consumers
		if n == 0 {
			return
		}
		if pause.For(ctx, time.Millisecond) != nil {
			t.Fatalf("the stream has %d consumers after %d watches, want none", n, watches)
		}
	}
}

// takes is a holder that says what it has taken.
type takes chan cluster.Shard

func (c takes) Take(ctx context.Context, s cluster.Shard) error {
	select {
	case c <- s:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (takes) Give(context.Context, cluster.Shard) error { return nil }
func (takes) Drop(cluster.Shard)                        {}

func TestMembersGiveTheirShardsToEachOther(t *testing.T) {
	t.Parallel()
	const n = 4
	connect := serve(t)
	join := func(name string) (*cluster.Node, takes) {
		sys := actor.NewSystem(name)
		t.Cleanup(func() { _, _ = sys.Shutdown(context.Background()) })
		m, err := cluster.Join(sys, cluster.Config{Engine: open(t, connect()), TTL: 3 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		holder := make(takes, 10*n)
		if _, err := cluster.Host(m, "things", n, holder); err != nil {
			t.Fatal(err)
		}
		return m, holder
	}
	take := func(from takes) (epoch uint64) {
		t.Helper()
		for range n {
			select {
			case s := <-from:
				epoch = max(epoch, s.Epoch)
			case <-time.After(30 * time.Second):
				t.Fatal("not all shards are taken")
			}
		}
		return epoch
	}
	a, ofA := join("a")
	first := take(ofA)
	_, ofB := join("b")
	if err := a.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	if second := take(ofB); second <= first {
		t.Errorf("the epoch is %d after %d", second, first)
	}
}

// hole passes on what clients and a server send each other until it is to swallow it, as a network does with what goes
// to a host without power: no connection ends.
type hole struct {
	addr     string
	swallows atomic.Bool
}

func dig(t *testing.T, server string) *hole {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	h := &hole{addr: listener.Addr().String()}
	go func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", server)
			if err != nil {
				_ = near.Close()
				return
			}
			t.Cleanup(func() { _ = near.Close(); _ = far.Close() })
			go h.pass(near, far)
			go h.pass(far, near)
		}
	}()
	return h
}

func (h *hole) pass(from io.Reader, to io.Writer) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		if !h.swallows.Load() {
			_, _ = to.Write(buf[:n])
		}
	}
}

// TestAServerWithoutPowerIsLeftForAnother has a server end without closing its connections. NATS's client would notice
// after four minutes.
func TestAServerWithoutPowerIsLeftForAnother(t *testing.T) {
	t.Parallel()
	connect := serve(t)
	direct := connect().ConnectedUrl()
	h := dig(t, strings.TrimPrefix(direct, "nats://"))
	nc, err := natsgo.Connect("nats://"+h.addr+","+direct, natsgo.DontRandomize(), natsgo.MaxReconnects(-1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	e := open(t, nc)
	seen := make(chan cluster.Entry, 10)
	t.Cleanup(e.Watch("k", func(e cluster.Entry) { seen <- e }))
	rev, err := e.Put(t.Context(), "k", []byte("1"), 0)
	if err != nil {
		t.Fatal(err)
	}
	<-seen
	h.swallows.Store(true)
	all, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		ctx, cancel := context.WithTimeout(all, time.Second)
		_, err := e.Put(ctx, "k", []byte("2"), rev)
		cancel()
		if err == nil || errors.Is(err, cluster.ErrConflict) { // with what had waited for the connection
			break
		}
		if all.Err() != nil {
			t.Fatalf("nothing was put in a minute: %v", err)
		}
	}
	select {
	case got := <-seen:
		if string(got.Value) != "2" {
			t.Errorf("the watch has seen %q", got.Value)
		}
	case <-all.Done():
		t.Error("the watch sees nothing any more")
	}
}
