package cluster

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/greenroom-go/greenroom/actor"
)

// Copies is the set of actors of one name that [Everywhere] spawns, one on each node. It is safe
// for concurrent use.
type Copies[M any] struct {
	sys  *actor.System
	here actor.Ref[M]
	all  actor.Ref[M]
	away atomic.Pointer[[]actor.PID] // those of the other nodes
}

// Everywhere spawns an actor on this node and makes it known to its copies, the actors that other
// nodes spawn with the same name. It is an ordinary actor at the root and stays on this node: opts
// are those of [actor.Spawn], and it ends with the system. On a node that is alone there are no
// others.
//
// It fails as [actor.TrySpawn] does, if the node has copies of that name already, and when it has ended.
func Everywhere[M any, A actor.Actor[M]](node *Node, name string, newActor func() A, opts ...actor.SpawnOption) (*Copies[M], error) {
	required(node != nil, "Everywhere: the node is nil")
	required(newActor != nil, "Everywhere: the function that makes the actor's state is nil")
	here, err := actor.TrySpawn(node.sys, name, newActor, opts...)
	if err != nil {
		return nil, fmt.Errorf("copies %q: %w", name, err)
	}
	c := &Copies[M]{sys: node.sys, here: here}
	c.away.Store(new([]actor.PID))
	if c.all, err = actor.Routed(node.sys, here.PID(), c.route); err != nil {
		return nil, fmt.Errorf("copies %q: %w", name, err)
	}
	if !node.alone {
		node.keeper.Tell(context.Background(), func(ctx *actor.Context[step], k *keeper) {
			k.copies(ctx, name, here.PID(), func(away []actor.PID) { c.away.Store(&away) })
		})
	}
	return c, nil
}

// Here returns the actor on this node.
func (c *Copies[M]) Here() actor.Ref[M] { return c.here }

// All returns a reference that tells each message to all copies: those on nodes that this node
// knows, and can reach, at that moment. They get the same value, so none of them may change what it
// points to. An ask ends with the first answer; actor.Gather asks all of [Copies.Refs]. The
// reference has the address of the one on this node, to which Stop, Drain, Kill and Watch apply.
func (c *Copies[M]) All() actor.Ref[M] { return c.all }

// Refs returns the references of all copies that this node knows and can reach: its own, and then
// those of the other nodes, by name. The slice belongs to the caller.
func (c *Copies[M]) Refs() []actor.Ref[M] {
	var refs []actor.Ref[M]
	var none M
	c.route(none, func(ref actor.Ref[M]) { refs = append(refs, ref) })
	return refs
}

// route is the [actor.Route] of All. It skips nodes that cannot be reached.
func (c *Copies[M]) route(_ M, to func(actor.Ref[M])) {
	to(c.here)
	for _, pid := range *c.away.Load() {
		if ref, err := actor.Lookup[M](c.sys, pid); err == nil {
			to(ref)
		}
	}
}

// copies makes an actor of this node known to the others, and calls known with theirs.
func (k *keeper) copies(ctx *actor.Context[step], name string, here actor.PID, known func(away []actor.PID)) {
	k.knowCopies[name] = known
	if k.m.links != nil {
		k.own.Copies = append(slices.Clone(k.own.Copies), copyOf{name, here.String()})
		k.renew(ctx)
	}
	k.tellCopies()
}

// dropCopies withdraws an actor of this node that is one of several copies.
func (k *keeper) dropCopies(ctx *actor.Context[step], name string) {
	delete(k.knowCopies, name)
	k.own.Copies = slices.DeleteFunc(slices.Clone(k.own.Copies), func(c copyOf) bool { return c.Name == name })
	k.renew(ctx)
}

// tellCopies reports the copies on other nodes.
func (k *keeper) tellCopies() {
	away := make(map[string][]actor.PID)
	for _, name := range k.others() {
		for _, c := range k.sightings[name].Copies {
			if pid, err := actor.ParsePID(c.PID); err == nil {
				away[c.Name] = append(away[c.Name], pid)
			}
		}
	}
	for name, known := range k.knowCopies {
		known(away[name])
	}
}

// others returns the names of the other members that are not dead, in order.
func (k *keeper) others() (names []string) {
	for name, s := range k.sightings {
		if name != k.m.sys.Name() && s.State != stateDead {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
