// Package cluster provides virtual actors: one for each possible key, whether or not it has a state
// in memory at the moment.
//
//	node := cluster.Alone(sys) // or cluster.Join
//	carts, err := cluster.Register(node, "cart", newCart, cluster.IdleAfter(10*time.Minute))
//	cart := carts.Ref("user-42")
//	cart.Tell(ctx, Add{"apple", 3})
//	total, err := actor.Ask(ctx, cart, Total{})
//
// A reference to a virtual actor is a value: making one sends nothing and activates nothing, and
// references to the same actor are equal. The first message activates the actor: it gets a state,
// and its Init is called in its own turn. When the actor has had nothing to do for a while, when
// there are too many actors, or when it calls [actor.Context.Stop], it is passivated: its Terminate
// is called and the state is dropped. Messages that are then in its mailbox, and those that arrive
// meanwhile, go to the next activation, in order. There is never more than one activation of a key
// at a time.
//
// The address of a virtual actor, its [actor.PID], is the same for all activations. So
// [actor.Lookup] finds it, and a watcher gets a [actor.Down] with the reason [actor.Passivated]
// when it is passivated, or at once if it is not active.
//
// The sender of the first message to an inactive actor also forwards what others send to it
// meanwhile. If others send without a pause and faster than it can forward, its Tell may take as
// long as they continue.
//
// A bounded mailbox may exceed its bound for a while after an activation, since a message that was
// accepted is not refused later.
//
// The state of a passivated actor is not saved. An actor that must remember its state uses package
// persist, see [RegisterDurable].
//
// # Members
//
// Systems that [Join] a cluster share the actors of a kind: each key is on one of the nodes that have
// registered the kind, and a message to it goes there, from any of them. They agree by means of an
// [Engine], and are connected by package remote.
//
//	node, err := cluster.Join(sys, cluster.Config{Engine: engine, Remote: &remote.Config{Addr: addr, Secret: secret, Types: types}})
//	carts, err := cluster.Register(node, "cart", newCart)
//
// The keys are divided into shards, see [ShardCount]. A shard is held by one node at a time. When
// nodes come and leave, shards are moved: handlers end, activations are passivated, and the
// messages left in their mailboxes go to the new owner, as do those that arrive meanwhile. Messages
// of one sender to one key keep their order during a move, and none is lost. If a node ends without
// leaving, others take over its shards: at once if two of them see that its process has ended,
// because its connections are closed and its address refuses new ones; otherwise, for example if it
// is cut off or frozen, when its lease expires. Messages in its mailboxes are lost, its open asks
// end with [actor.ErrUnreachable], and messages wait for the new owner up to 20 seconds.
//
// A node has a lease. Before the others take over, its activations stop: each looks at the lease before it
// handles a message. That does not stop a process or a virtual machine that was paused and resumes without
// noticing. So writes to a store carry the epoch of the [Shard], and the store refuses an epoch lower than
// one it has seen, see [Claiming]; [RegisterDurable] does that for actors of package persist.
//
// Orders and watches apply only to an activation on the same node: a watch of an actor that is
// active elsewhere reports at once that it is passivated. Nobody waits for room on the way to
// another node: [actor.Ref.TryTell] and asks fail with [actor.ErrMailboxFull] when too much is in
// flight to it.
//
// Some actors are active without a message: [Singleton] makes one for all nodes, always active on one of
// them, [Spread] makes numbered ones, evenly spread, and [Everywhere] makes one on each node.
//
// Events are for whoever has subscribed: with a [Bridge], those of a bus on one node reach the subscriptions
// of its counterparts on the others.
//
//	bridge, err := cluster.Bridge(node, "sensors", bus, "sensors.>")
//
// To divide something else, implement [Holder] and call [Host]:
//
//	shards, err := cluster.Host(node, "orders", 64, holder)
package cluster
