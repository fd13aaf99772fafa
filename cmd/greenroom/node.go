package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/cluster"
	clusterpg "github.com/greenroom-go/greenroom/cluster/postgres"
	"github.com/greenroom-go/greenroom/internal/pause"
	"github.com/greenroom-go/greenroom/remote"
	"github.com/greenroom-go/greenroom/server"
)

const (
	nodeTTL    = 4 * time.Second // of the lease: a node that is frozen is waited for so long
	ownerGroup = "server"        // of one shard, whose holder owns the store

	leaveWithin  = 15 * time.Second
	answerWithin = 3 * time.Second // for a node to say who it is
	leftWithin   = time.Second     // to tell the others that this one has left
	rejoinAfter  = time.Second
)

// node is a server that is a member of a cluster. It holds the one shard of a group, or another node does: who holds
// it owns the store. The owner says so to the others in the directory.
type node struct {
	o      *joinOptions
	dir    *directory
	log    *slog.Logger
	say    func(format string, args ...any)
	front  *server.Front
	record nodeRecord
	failed chan uint64 // claims of servers that have ended by themselves; only the last one counts

	mu      sync.Mutex
	member  *cluster.Node // guarded by mu; nil before it has joined
	drained bool          // guarded by mu; it has left, and passes on what clients send
	claim   uint64        // guarded by mu; with which it last owned the store
}

// run is a member of the cluster until ctx ends, and leaves.
func (n *node) run(ctx context.Context) error {
	defer n.dir.engine.Watch(ownerKey, n.sawOwner)()
	defer n.deregister(context.WithoutCancel(ctx))
	for {
		if err := n.register(ctx); err != nil {
			if ctx.Err() != nil {
				return nil // it was stopped before it had joined
			}
			return err
		}
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

// register tells the others who this node is. It fails if another node of that name runs.
func (n *node) register(ctx context.Context) error {
	return n.dir.put(ctx, nodesPrefix+n.o.node, n.record, func(before []byte) error {
		var r nodeRecord
		if err := json.Unmarshal(before, &r); err != nil || r.Left || r.Instance == n.record.Instance {
			return nil
		}
		asking, cancel := context.WithTimeout(ctx, answerWithin)
		defer cancel()
		var s nodeStatus
		if err := n.dir.ask(asking, r.Link, http.MethodGet, "/status", &s); err != nil || s.Instance != r.Instance {
			return nil // it has ended; if it is frozen, it finds this one when it wakes
		}
		return fmt.Errorf("--node must be a name that no other running node has: %s is that of the one at %s", n.o.node, r.Link)
	})
}

// deregister tells the others that this node has left.
func (n *node) deregister(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, leftWithin)
	defer cancel()
	left := n.record
	left.Left = true
	errOther := errors.New("another one")
	err := n.dir.put(ctx, nodesPrefix+n.o.node, left, func(before []byte) error {
		var r nodeRecord
		if err := json.Unmarshal(before, &r); err == nil && r.Instance != n.record.Instance {
			return errOther
		}
		return nil
	})
	if err != nil && !errors.Is(err, errOther) {
		n.log.Warn("the others are not told that this node has left", slog.Any("error", err))
	}
}

// join joins the cluster, and leaves when ctx ends. It reports whether the node must join again.
func (n *node) join(ctx context.Context) (again bool, err error) {
	sys := actor.NewSystem(n.o.node, actor.WithLogger(n.log))
	defer func() {
		late, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_, _ = sys.Shutdown(late) // others may be gone without a word
	}()
	sessions, dial := n.front.Sessions()
	// The links are encrypted.
	member, err := cluster.Join(sys, cluster.Config{
		Engine: n.dir.engine, TTL: nodeTTL, Advertise: n.o.join,
		Remote: &remote.Config{Listener: sessions, Dial: dial, Insecure: true},
	})
	if err != nil {
		_ = sessions.Close() // it returns nil
		return false, err
	}
	n.setMember(member)
	defer n.setMember(nil)
	if err := n.host(ctx, member); err != nil {
		return false, err
	}
	for {
		select {
		case <-ctx.Done():
			return false, n.leave(context.WithoutCancel(ctx))
		case <-n.dir.engine.WentBack():
			n.front.Abandon()
			return false, fmt.Errorf("%w: start this node again", clusterpg.ErrWentBack)
		case claim := <-n.failed:
			if claim == n.lastClaim() {
				return true, errors.Join(errServerEnded, n.leave(context.WithoutCancel(ctx)))
			}
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

// host lets the node own the store when it is its turn. If it fails, the node has left.
func (n *node) host(ctx context.Context, member *cluster.Node) error {
	if _, err := cluster.Host(member, ownerGroup, 1, &holder{n, member}); err != nil {
		return errors.Join(err, n.leave(context.WithoutCancel(ctx)))
	}
	return nil
}

// errServerEnded says why a node gives up the store.
var errServerEnded = errors.New("the server on this node has ended")

// serverEnded makes the node give up the store if it owns it with that claim, because its server has ended by itself.
func (n *node) serverEnded(claim uint64, _ error) {
	for {
		select {
		case n.failed <- claim:
			return
		case <-n.failed: // an earlier one
		}
	}
}

func (n *node) lastClaim() uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.claim
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

// drain makes this node give up the store for good, and pass on what clients send.
func (n *node) drain(ctx context.Context) error {
	n.setDrained(true) // before it leaves: run is not to join anew
	if err := n.leave(ctx); err != nil {
		n.setDrained(false)
		return err
	}
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

func (n *node) sawOwner(e cluster.Entry) {
	var r ownerRecord
	if err := json.Unmarshal(e.Value, &r); err == nil && e.Key == ownerKey {
		n.front.Follow(r.Node, r.Link, r.Epoch)
	}
}

// holder implements cluster.Holder: the shard is the store.
type holder struct {
	n      *node
	member *cluster.Node
}

// Take implements cluster.Holder.
func (h *holder) Take(ctx context.Context, s cluster.Shard) error {
	n := h.n
	n.mu.Lock()
	n.claim = s.Epoch
	n.mu.Unlock()
	srv, err := n.front.Own(ctx, s.Epoch, h.member.Valid)
	if err != nil {
		return err
	}
	if token := srv.FirstToken(); token != "" {
		n.say("  admin      %s  (this token is shown only now)\n", token)
	}
	n.log.Info("owns the store", slog.Uint64("epoch", s.Epoch))
	return n.dir.put(ctx, ownerKey, ownerRecord{n.o.node, n.o.join, s.Epoch}, func(before []byte) error {
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
