package cluster_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"maps"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/cluster"
	"github.com/greenroom-go/greenroom/cluster/memory"
	"github.com/greenroom-go/greenroom/internal/pause"
	"github.com/greenroom-go/greenroom/remote"
)

// quiet is a system "b" that has the record of a member, renews nothing, and is sent nothing. It dials nobody, and is
// dialed at an address at which the test passes on what comes, so that it can be killed or frozen.
type quiet struct {
	t      *testing.T
	engine *memory.Engine
	ln     net.Listener
	inc    uint32

	mu     sync.Mutex
	frozen bool
	dials  int // since it was frozen
	conns  []net.Conn
}

// besideQuiet starts two members beside it, whose leases last for an hour.
func besideQuiet(t *testing.T, a, c cluster.Config) (*quiet, map[string]*connected) {
	t.Helper()
	sys := actor.NewSystem("b", actor.WithLogger(slog.New(slog.DiscardHandler)))
	t.Cleanup(func() {
		now, cancel := context.WithCancel(context.Background())
		cancel() // the others have declared it dead, or never will
		_, _ = sys.Shutdown(now)
	})
	node, err := remote.Listen(sys, remote.Config{Addr: "127.0.0.1:0", Secret: "only for these tests"})
	if err != nil {
		t.Fatal(err)
	}
	// Nobody else takes the port when it is closed: others listen on 127.0.0.1.
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.83.1.8:0")
	if err != nil {
		t.Fatal(err)
	}
	q := &quiet{t: t, engine: new(memory.Engine), ln: ln, inc: sys.Incarnation()}
	t.Cleanup(q.kill)
	go q.serve(node.Addr().String())
	value, err := json.Marshal(cluster.Record{Join: 1, System: q.inc, State: cluster.StateUp, Addr: ln.Addr().String()})
	if err == nil {
		_, err = q.engine.Put(t.Context(), "node/b", value, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	members, v := make(map[string]*connected), &vault{sums: make(map[string]int)}
	for name, cfg := range map[string]cluster.Config{"a": a, "c": c} {
		cfg.TTL = time.Hour
		members[name] = connectWith(t, q.engine, name, v, cfg)
	}
	return q, members
}

func (q *quiet) serve(addr string) {
	for {
		conn, err := q.ln.Accept()
		if err != nil {
			return
		}
		q.mu.Lock()
		q.conns = append(q.conns, conn)
		frozen := q.frozen
		if frozen {
			q.dials++
		}
		q.mu.Unlock()
		if frozen {
			continue
		}
		there, err := net.Dial("tcp", addr)
		if err != nil {
			_ = conn.Close()
			continue
		}
		go func() { _, _ = io.Copy(there, conn); _ = there.Close() }()
		go func() { _, _ = io.Copy(conn, there); _ = conn.Close() }()
	}
}

// kill does what the kernel does when a process ends.
func (q *quiet) kill() {
	_ = q.ln.Close()
	q.endConnections()
}

// freeze has connections end, as after a long silence, and nothing be answered.
func (q *quiet) freeze() {
	q.mu.Lock()
	q.frozen = true
	q.mu.Unlock()
	q.endConnections()
}

func (q *quiet) endConnections() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, conn := range q.conns {
		_ = conn.Close()
	}
	q.conns = nil
}

func (q *quiet) dialed() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.dials
}

func (q *quiet) isDead() bool {
	var r cluster.Record
	e, err := q.engine.Get(q.t.Context(), "node/b")
	if err == nil {
		err = json.Unmarshal(e.Value, &r)
	}
	if err != nil {
		q.t.Fatal(err)
	}
	return r.State == cluster.StateDead
}

// hasSession reports whether a member has a session with b in that state.
func hasSession(m *connected, state string) bool {
	for _, p := range m.Remote().Peers() {
		if p.Node == "b" && p.State == state {
			return true
		}
	}
	return false
}

// holdsSoon waits until something holds.
func holdsSoon(t *testing.T, what string, holds func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for !holds() {
		if pause.For(ctx, 5*time.Millisecond) != nil {
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

func bothConnected(members map[string]*connected) func() bool {
	return func() bool { return hasSession(members["a"], "open") && hasSession(members["c"], "open") }
}

// TestAMemberThatNobodyTalksToIsNotWaitedFor has members at rest, of which one is killed: the others have had no
// reason to connect to it but that.
func TestAMemberThatNobodyTalksToIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	b, members := besideQuiet(t, cluster.Config{}, cluster.Config{})
	holdsSoon(t, "both are connected to b", bothConnected(members))
	b.kill()
	holdsSoon(t, "b is dead", b.isDead)
	holdsSoon(t, "b is not dialed any more", func() bool { return hasSession(members["a"], "lost") && hasSession(members["c"], "lost") })
}

// TestTheShardsOfAMemberAtRestAreTakenAtOnce is TestAProcessThatHasEndedIsNotWaitedFor for nodes that have sent each
// other nothing.
func TestTheShardsOfAMemberAtRestAreTakenAtOnce(t *testing.T) {
	t.Parallel()
	engine, v, members := new(memory.Engine), &vault{sums: make(map[string]int)}, make(map[string]*connected)
	b := connectWith(t, engine, "b", v, cluster.Config{TTL: time.Hour, Remote: &remote.Config{Addr: "127.83.1.9:0"}})
	holdsSoon(t, "b has a shard", func() bool { owner, _ := b.tallies.Owner("k"); return owner == "b" })
	for _, name := range []string{"a", "c"} {
		members[name] = connectWith(t, engine, name, v, cluster.Config{TTL: time.Hour})
	}
	holdsSoon(t, "both are connected to b", bothConnected(members))
	if _, err := b.System().Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	holdsSoon(t, "a and c have the shard", func() bool {
		here, _ := members["a"].tallies.Owner("k")
		there, _ := members["c"].tallies.Owner("k")
		return here == there && (here == "a" || here == "c")
	})
}

// TestAFrozenMemberIsWaitedFor has members that are at rest look for evidence again and again, and then find some.
func TestAFrozenMemberIsWaitedFor(t *testing.T) {
	t.Parallel()
	b, members := besideQuiet(t, cluster.Config{}, cluster.Config{})
	holdsSoon(t, "both are connected to b", bothConnected(members))
	b.freeze()
	holdsSoon(t, "b is dialed", func() bool { return b.dialed() >= 8 })
	if b.isDead() {
		t.Error("b is declared dead, and its address has accepted all connections")
	}
	b.kill()
	holdsSoon(t, "b is dead", b.isDead)
}

// TestAProcessThatBeginsAnewHidesNoCrash has another process of b's name be connected to both before b is killed.
func TestAProcessThatBeginsAnewHidesNoCrash(t *testing.T) {
	t.Parallel()
	b, members := besideQuiet(t, cluster.Config{}, cluster.Config{})
	holdsSoon(t, "both are connected to b", bothConnected(members))
	b.freeze()
	later := actor.NewSystem("b", actor.WithLogger(slog.New(slog.DiscardHandler)))
	t.Cleanup(func() { _, _ = later.Shutdown(context.Background()) })
	node, err := remote.Listen(later, remote.Config{Secret: "only for these tests"})
	if err != nil {
		t.Fatal(err)
	}
	for name, m := range members {
		node.Meet(name, m.Remote().Addr().String())
		node.Connect(name, m.System().Incarnation())
	}
	holdsSoon(t, "both are connected to the later one", func() bool {
		return !slices.ContainsFunc(slices.Collect(maps.Values(members)), func(m *connected) bool {
			return !slices.ContainsFunc(m.Remote().Peers(), func(p actor.Peer) bool {
				return p.Node == "b" && p.State == "open" && p.Incarnation == later.Incarnation()
			})
		})
	})
	if b.isDead() {
		t.Fatal("b is declared dead, and its address has accepted all connections")
	}
	b.kill()
	holdsSoon(t, "b is dead", b.isDead)
}

// TestOnlySilenceIsHeeded has a member that finds b's address to refuse connections, and one that is told to ignore
// that: there is no witness. Nor does that one connect to b for the sake of evidence.
func TestOnlySilenceIsHeeded(t *testing.T) {
	t.Parallel()
	b, members := besideQuiet(t, cluster.Config{}, cluster.Config{OnlySilence: true})
	holdsSoon(t, "a is connected to b and c", func() bool {
		return hasSession(members["a"], "open") && len(members["c"].Remote().Peers()) > 0
	})
	if hasSession(members["c"], "open") || hasSession(members["c"], "dialing") {
		t.Error("c has a session with b")
	}
	members["c"].Remote().Connect("b", b.inc)
	holdsSoon(t, "both are connected to b", bothConnected(members))
	b.kill()
	holdsSoon(t, "a has no connection", func() bool { return hasSession(members["a"], "broken") })
	if err := pause.For(t.Context(), 1500*time.Millisecond); err != nil { // six ticks of proofs
		t.Fatal(err)
	}
	if b.isDead() {
		t.Error("b is declared dead, with one member that trusts refused connections")
	}
}
