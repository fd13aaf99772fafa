package remote

import (
	"context"
	"fmt"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/remote/internal/wire"
)

// offer spawns an actor for another node.
type offer func(parent actor.Spawner, name string) (actor.PID, error)

// Offer lets other nodes spawn actors whose state newActor makes, see [Spawn]. They are spawned as
// by [actor.TrySpawn], with opts, below /remote/ and the name of the node that asked for them.
// Other nodes cannot spawn anything else. A second offer under the same name replaces the first.
func Offer[M any, A actor.Actor[M]](n *Node, name string, newActor func() A, opts ...actor.SpawnOption) {
	if newActor == nil {
		panic("remote: Offer: the function that makes the actor's state is nil")
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.offers[name] = func(parent actor.Spawner, name string) (actor.PID, error) {
		ref, err := actor.TrySpawn(parent, name, newActor, opts...)
		if err != nil {
			return actor.PID{}, err
		}
		return ref.PID(), nil
	}
}

// spawnRequest is the payload of a spawn. The answer is a found.
type spawnRequest struct{ Offer, Name string }

// SpawnOption refines [Spawn].
type SpawnOption struct{ linked bool }

// Linked links the new actor with the actor in whose handler [Spawn] is called: when one of them
// fails, or the node is lost, the other fails, too.
func Linked() SpawnOption { return SpawnOption{linked: true} }

// Spawn spawns an actor on another node, which has to offer it, see [Offer]. Its name must be
// unique among the actors that this node has spawned there; "" leaves it unnamed. Its supervisor is
// on that node, and restarts it there. Spawn fails with [ErrNotOffered], with the errors of
// [actor.TrySpawn] on that node, and with [actor.ErrUnreachable], after which it is unknown whether
// the actor was spawned.
//
// With [Linked], ctx must be a handler's own; otherwise Spawn panics. Spawn waits as [Find] does.
func Spawn[M any](ctx context.Context, n *Node, node, offer, name string, opts ...SpawnOption) (actor.Ref[M], error) {
	link := func(actor.PID) {}
	for _, o := range opts {
		if o.linked {
			handler, ok := ctx.(interface{ Link(actor.PID) })
			if !ok {
				panic("remote: Spawn: Linked needs the context of a handler")
			}
			link = handler.Link
		}
	}
	f, err := query[found](ctx, n, node, wire.KindSpawn, spawnRequest{offer, name})
	if err != nil {
		return actor.Ref[M]{}, fmt.Errorf("spawn %q as %q on node %s: %w", offer, name, node, err)
	}
	link(f.PID)
	return actor.Lookup[M](n.sys, f.PID)
}

// order is an actor that a node wants to have spawned.
type order struct {
	node  string
	name  string
	offer offer
	reply func(actor.PID, error)
}

// spawn spawns an actor for another node.
func (n *Node) spawn(node string, q spawnRequest, reply func(actor.PID, error)) {
	n.mu.Lock()
	o, ok := n.offers[q.Offer]
	if ok && n.spawner.IsZero() {
		n.spawner, _ = actor.TrySpawn(n.sys, spawnerName, newSpawner)
	}
	spawner := n.spawner
	n.mu.Unlock()
	switch {
	case !ok:
		reply(actor.PID{}, fmt.Errorf("%w: %q", ErrNotOffered, q.Offer))
	case spawner.IsZero():
		reply(actor.PID{}, fmt.Errorf("spawn /%s: %w", spawnerName, actor.ErrStopped))
	default:
		if err := spawner.TryTell(context.Background(), order{node, q.Name, o, reply}); err != nil {
			n.mu.Lock()
			if n.spawner == spawner { // somebody has stopped it: the next order makes another one
				n.spawner = actor.Ref[order]{}
			}
			n.mu.Unlock()
			reply(actor.PID{}, err)
		}
	}
}

// spawnerName is the name of the actor below which actors are that other nodes have spawned.
const spawnerName = "remote"

// spawner has a child for each node, whose children are the actors that it has spawned.
type spawner struct{ nodes map[string]actor.Ref[order] }

func newSpawner() *spawner { return &spawner{nodes: make(map[string]actor.Ref[order])} }

// Receive implements actor.Actor.
func (a *spawner) Receive(ctx *actor.Context[order], o order) error {
	if node, ok := a.nodes[o.node]; ok && node.TryTell(ctx, o) == nil {
		return nil
	}
	// The node has none yet, or somebody has stopped it.
	node, err := actor.TrySpawnFunc(ctx, o.node, spawnOrdered)
	if err == nil {
		a.nodes[o.node] = node
		err = node.TryTell(ctx, o)
	}
	if err != nil {
		o.reply(actor.PID{}, err)
	}
	return nil
}

func spawnOrdered(ctx *actor.Context[order], o order) error {
	o.reply(o.offer(ctx, o.name))
	return nil
}
