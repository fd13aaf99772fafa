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
// Nothing is saved: an actor that must remember what it has done uses package persist, see
// [RegisterSpawned].
package cluster
