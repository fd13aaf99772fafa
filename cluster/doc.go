// Package cluster has virtual actors: one for each possible key, whether it has a state in memory
// at the moment or not.
//
//	node := cluster.Alone(sys)
//	carts, err := cluster.Register(node, "cart", newCart, cluster.IdleAfter(10*time.Minute))
//	cart := carts.Ref("user-42")
//	cart.Tell(ctx, Add{"apple", 3})
//	total, err := actor.Ask(ctx, cart, Total{})
//
// A reference to a virtual actor is a value: making one sends nothing and activates nothing, and
// references to the same actor are equal. The first message activates the actor: it gets a state,
// and its Init is called in its own turn. When it has had nothing to do for long, when there are
// too many actors, or when it calls [actor.Context.Stop], it is passivated: its Terminate is called
// and the state is dropped. Messages that are then in its mailbox, and those that arrive meanwhile,
// go to the next activation, in order. There is never more than one activation of a key at a time.
//
// The address of a virtual actor, its [actor.PID], is the same for all activations. So
// [actor.Lookup] finds it, and a watcher gets a [actor.Down] with the reason [actor.Passivated]
// when it is passivated, or at once if it is not active.
//
// The sender of the first message to an inactive actor also forwards what others send to it
// meanwhile. If several do so without a pause and faster than one can forward, its Tell may take as
// long as they continue.
//
// A bounded mailbox may exceed its bound for a while after an activation, since a message that was
// accepted is not refused later.
//
// Nothing of a passivated actor is saved: one that must remember what it has done uses package
// persist, see [RegisterSpawned].
//
// # Members
//
// Systems that [Join] a cluster share the shards of a group, which are parts of a set of keys. Each
// shard is held by one member at a time, and is taken over when that member leaves, ends or is
// silent. An [Engine] is the means by which members agree. To divide something, implement [Holder]
// and call [Host]:
//
//	member, err := cluster.Join(sys, cluster.Config{Engine: engine})
//	shards, err := cluster.Host(member, "orders", 64, holder)
//
// A member has a lease. When the lease ends, and before others take over, the holder is told to
// drop its shards. That works only for a process that is running: one that was stopped, or a
// virtual machine that was paused, wakes up without having noticed. So writes to a store carry the
// epoch of the [Shard], and the store refuses an epoch lower than one it has seen. A holder claims
// a shard with its epoch before it reads.
//
// Messages are not routed between members yet: virtual actors live on one node.
package cluster
