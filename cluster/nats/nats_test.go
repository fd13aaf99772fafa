package nats_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/cluster"
	"github.com/greenroom-go/greenroom/cluster/enginetest"
	"github.com/greenroom-go/greenroom/cluster/nats"
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
