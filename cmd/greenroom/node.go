package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/cluster"
	"github.com/greenroom-go/greenroom/cluster/embedded"
	clusternats "github.com/greenroom-go/greenroom/cluster/nats"
	"github.com/greenroom-go/greenroom/codec"
	"github.com/greenroom-go/greenroom/internal/keyed"
	"github.com/greenroom-go/greenroom/internal/pause"
	"github.com/greenroom-go/greenroom/remote"
	"github.com/greenroom-go/greenroom/server"
)

const (
	nodeTTL     = 4 * time.Second // of the lease: a node that is frozen is waited for so long
	nodeStream  = "GREENROOM_SERVE"
	ownerGroup  = "server" // of one shard, whose holder owns the store
	ownerKey    = "serve/owner"
	nodesPrefix = "serve/node/"

	leaveWithin = 15 * time.Second
	leadTick    = time.Second
	pulseTick   = time.Second
	rejoinAfter = time.Second
)

// pulse is what nodes send each other so that there is a connection between them: only its end proves at
// once that a process has crashed. Without one, the others wait for the end of its lease.
type pulse struct{}

// listener takes pulses.
type listener struct{}

// Receive implements actor.Actor.
func (*listener) Receive(*actor.Context[pulse], pulse) error { return nil }

var nodeTypes = codec.NewTypes(codec.Of[pulse]("greenroom.pulse"))

// nodeRecord is a node as the others know it.
type nodeRecord struct {
	HTTP    string `json:"http"`
	MQTT    string `json:"mqtt"`
	Link    string `json:"link"`
	Version string `json:"version"`
}

// ownerRecord is the owner of the store.
type ownerRecord struct {
	Node  string `json:"node"`
	Link  string `json:"link"`
	Epoch uint64 `json:"epoch"`
}

// node is a server that is a member of a cluster. It holds the one shard of a group, or another node does: who holds
// it owns the store. The owner says so to the others with a record in the engine.
type node struct {
	o      *joinOptions
	log    *slog.Logger
	say    func(format string, args ...any)
	front  *server.Front
	record nodeRecord
	engine cluster.Engine // set before it joins

	mu      sync.Mutex
	nats    *embedded.Server      // guarded by mu; nil before it is started, and if they are elsewhere
	member  *cluster.Node         // guarded by mu; nil before it has joined
	drained bool                  // guarded by mu; it has left, and passes on what clients send
	known   map[string]nodeRecord // guarded by mu
}

// run is a member of the cluster until ctx ends, and leaves.
func (n *node) run(ctx context.Context) (err error) {
	stop, err := n.connect(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return nil // it was stopped while it waited for the others
		}
		return err
	}
	defer stop()
	if err := n.put(ctx, nodesPrefix+n.o.node, n.record, func([]byte) error { return nil }); err != nil {
		return err
	}
	defer n.engine.Watch(ownerKey, n.sawOwner)()
	defer n.engine.Watch(nodesPrefix, n.sawNode)()
	defer n.stepDown()
	for {
		again, err := n.join(ctx)
		if !again {
			return err
		}
		n.log.Warn("joins the cluster anew", slog.Any("error", err))
		if pause.For(ctx, rejoinAfter) != nil {
			return nil
		}
	}
}

// connect starts the NATS server of this node, if it has one, and opens the engine. It waits for most of the others.
func (n *node) connect(ctx context.Context) (stop func(), err error) {
	var nc *nats.Conn
	end := func() {}
	if n.o.nats != "" {
		nc, err = nats.Connect(n.o.nats, nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond))
	} else {
		var own *embedded.Server
		if own, err = n.startNATS(); err != nil {
			return nil, err
		}
		n.mu.Lock()
		n.nats = own
		n.mu.Unlock()
		end = own.Close
		if len(n.o.names) > 1 {
			n.say("  waits      for most of the nodes %s\n", strings.Join(n.o.names, ", "))
		}
		nc, err = own.Connect(ctx)
	}
	if err != nil {
		end()
		return nil, fmt.Errorf("join the cluster: %w", err)
	}
	if n.engine, err = clusternats.Open(ctx, nc, clusternats.Config{Stream: nodeStream, Replicas: max(1, len(n.o.names)), Log: n.log}); err != nil {
		nc.Close()
		end()
		return nil, fmt.Errorf("join the cluster: %w", err)
	}
	return func() {
		nc.Close()
		end()
	}, nil
}

func (n *node) startNATS() (*embedded.Server, error) {
	cfg := embedded.Config{Name: n.o.node, Dir: n.o.nodeDir(), Secret: n.o.secret, Unsynced: true, Log: n.log}
	if len(n.o.names) > 1 {
		var err error
		cfg.RouteAddr, cfg.Routes = n.o.own, n.o.routes
		if cfg.RouteTLS, err = keyed.TLS(n.o.secret); err != nil {
			return nil, err
		}
	}
	return embedded.Start(cfg)
}

// join joins the cluster, and leaves when ctx ends. It reports true if the node is to begin anew.
func (n *node) join(ctx context.Context) (again bool, err error) {
	addr, err := n.o.at(2)
	if err != nil {
		return false, err
	}
	sys := actor.NewSystem(n.o.node, actor.WithLogger(n.log))
	defer func() {
		late, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_, _ = sys.Shutdown(late) // others may be gone without a word
	}()
	member, err := cluster.Join(sys, cluster.Config{Engine: n.engine, TTL: nodeTTL, Remote: &remote.Config{Addr: addr, Secret: n.o.secret, Types: nodeTypes}})
	if err != nil {
		return false, err
	}
	n.setMember(member)
	defer n.setMember(nil)
	if _, err := cluster.Host(member, ownerGroup, 1, &holder{n, member}); err != nil {
		return false, err
	}
	pulses, err := cluster.Everywhere[pulse](member, "pulse", func() *listener { return &listener{} })
	if err != nil {
		return false, err
	}
	ticks, beats := time.NewTicker(leadTick), time.NewTicker(pulseTick)
	defer ticks.Stop()
	defer beats.Stop()
	for {
		select {
		case <-ctx.Done():
			return false, n.leave(context.WithoutCancel(ctx))
		case <-beats.C:
			pulses.All().Tell(ctx, pulse{})
		case <-ticks.C:
			n.leadElsewhere(ctx)
		case <-member.Done():
			n.front.Abandon()
			if n.isDrained() {
				<-ctx.Done()
				return false, nil
			}
			return true, member.Err()
		}
	}
}

func (n *node) setMember(member *cluster.Node) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.member = member
}

// current returns the membership, nil before it has joined.
func (n *node) current() *cluster.Node {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.member
}

var errNotJoined = errors.New("the node has not joined yet")

// leave gives the store to another node, and ends the membership.
func (n *node) leave(ctx context.Context) error {
	member := n.current()
	if member == nil {
		return errNotJoined
	}
	ctx, cancel := context.WithTimeout(ctx, leaveWithin)
	defer cancel()
	return member.Leave(ctx)
}

// drain has this node own the store no more, and pass on what clients send.
func (n *node) drain(ctx context.Context) error {
	n.setDrained(true) // before it leaves: run is not to join anew
	if err := n.leave(ctx); err != nil {
		n.setDrained(false)
		return err
	}
	n.stepDown()
	return nil
}

func (n *node) setDrained(drained bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.drained = drained
}

func (n *node) isDrained() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.drained
}

// leadElsewhere has another node lead the stream if this one owns the store: a leader that is killed costs an election of some
// seconds, in which nobody can take the store.
func (n *node) leadElsewhere(ctx context.Context) {
	own := n.server()
	if owner, _ := n.front.Owner(); owner == n.o.node && len(n.o.names) > 1 && own != nil && own.Leads(nodeStream) {
		ctx, cancel := context.WithTimeout(ctx, leadTick)
		defer cancel()
		if err := own.StepDown(ctx, nodeStream, ""); err != nil {
			n.log.Info("no other node leads the stream yet", slog.Any("error", err))
		}
	}
}

// server returns the NATS server of this node, nil if it has none.
func (n *node) server() *embedded.Server {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.nats
}

// stepDown has another node lead the stream, before this one ends.
func (n *node) stepDown() {
	own := n.server()
	if own == nil || len(n.o.names) == 1 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), leadTick)
	defer cancel()
	_ = own.StepDown(ctx, nodeStream, "") // otherwise the others elect one
}

// put sets a key of the engine to a value, unless allows refuses to replace what is there.
func (n *node) put(ctx context.Context, key string, value any, allows func(before []byte) error) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	for {
		at, err := n.engine.Get(ctx, key)
		if err == nil {
			if refused := allows(at.Value); refused != nil {
				return refused
			}
		}
		if err == nil || errors.Is(err, cluster.ErrNotFound) {
			once, cancel := context.WithTimeout(ctx, time.Second)
			_, err = n.engine.Put(once, key, text, at.Revision)
			cancel()
		}
		if err == nil {
			return nil
		}
		if pause.For(ctx, 10*time.Millisecond) != nil {
			return fmt.Errorf("say it to the other nodes: %w", err)
		}
	}
}

func (n *node) sawOwner(e cluster.Entry) {
	var r ownerRecord
	if err := json.Unmarshal(e.Value, &r); err == nil && e.Key == ownerKey {
		n.front.Follow(r.Node, r.Link, r.Epoch)
	}
}

func (n *node) sawNode(e cluster.Entry) {
	var r nodeRecord
	if err := json.Unmarshal(e.Value, &r); err == nil {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.known[strings.TrimPrefix(e.Key, nodesPrefix)] = r
	}
}

func (n *node) nodes() map[string]nodeRecord {
	n.mu.Lock()
	defer n.mu.Unlock()
	return maps.Clone(n.known)
}

// holder implements cluster.Holder: the shard is the store.
type holder struct {
	n      *node
	member *cluster.Node
}

// Take implements cluster.Holder.
func (h *holder) Take(ctx context.Context, s cluster.Shard) error {
	n := h.n
	srv, err := n.front.Own(ctx, s.Epoch, h.member.Valid)
	if err != nil {
		return err
	}
	if token := srv.FirstToken(); token != "" {
		n.say("  admin      %s  (this token is shown only now)\n", token)
	}
	n.log.Info("owns the store", slog.Uint64("epoch", s.Epoch))
	return n.put(ctx, ownerKey, ownerRecord{n.o.node, n.front.LinkAddr(), s.Epoch}, func(before []byte) error {
		var r ownerRecord
		if err := json.Unmarshal(before, &r); err == nil && r.Epoch > s.Epoch {
			return fmt.Errorf("%s owns the store with the later epoch %d", r.Node, r.Epoch)
		}
		return nil
	})
}

// Give implements cluster.Holder.
func (h *holder) Give(ctx context.Context, _ cluster.Shard) error { return h.n.front.Release(ctx) }

// Drop implements cluster.Holder.
func (h *holder) Drop(cluster.Shard) { h.n.front.Abandon() }
