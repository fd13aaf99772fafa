// Package cluster has virtual actors: one for each key that there could be, whether it has a state in
// memory at the moment or not.
//
//	node := cluster.Alone(sys)
//	carts, err := cluster.Register(node, "cart", newCart, cluster.IdleAfter(10*time.Minute))
//	cart := carts.Ref("user-42")
//	cart.Tell(ctx, Add{"apple", 3})
//	total, err := actor.Ask(ctx, cart, Total{})
//
// A reference to one is a value: making it sends nothing and activates nothing, and references to the
// same actor are equal. The first message activates the actor: it gets a state, and its Init is called
// in its own turn. When it has had nothing to do for long, when there are too many, or when it says so
// with [actor.Context.Stop], it is passivated: its Terminate is called and the state is dropped. What
// is still in its mailbox then, and what comes meanwhile, goes to the next activation, in order. There
// is never more than one activation of a key at a time.
//
// The address of a virtual actor, its [actor.PID], is the same for all activations; so [actor.Lookup]
// finds it, and who watches it gets a [actor.Down] with the reason [actor.Passivated], at once if it is
// not active.
//
// Whoever sends the first message to an actor that is not active also sends on what others send to it
// meanwhile. If several do so without a pause and faster than one can send on, it may be at that for as
// long as they are, and Tell lasts for as long.
//
// A bounded mailbox may hold more than its bound for a while after an activation: what was taken once
// is not refused.
//
// Nothing is saved of an actor that is passivated: one that must remember what it has done uses package
// persist, see [RegisterSpawned].
//
// # Members
//
// Systems that [Join] a cluster share the shards of a group, which are parts of somebody's keys: each is held
// by one of them at a time, and is taken over when that one leaves, ends or is silent. What they agree by is an
// [Engine]. Whoever has something to divide implements [Holder], and calls [Host]:
//
//	member, err := cluster.Join(sys, cluster.Config{Engine: engine})
//	shards, err := cluster.Host(member, "orders", 64, holder)
//
// A member has a lease. When it ends, and before others take over, the holder is told to drop its shards. That binds only who runs: a
// process that was stopped, or a virtual machine that was paused, wakes up and has not noticed. So what is
// written to a store goes with the epoch of the [Shard], and the store refuses one that is lower than it has
// seen. A holder claims a shard with its epoch before it reads.
//
// Messages do not go from member to member yet: virtual actors are those of one node.
package cluster
