// Package router spreads messages over several actors of one kind: the routees. A
// router is used like any other actor, through an [actor.Ref].
//
//	pool := router.SpawnPool(sys, "resizers", router.RoundRobin, 4, NewResizer)
//	pool.Tell(ctx, Resize{"cat.png"})                     // to one of the four
//	size, err := actor.Ask(ctx, pool.Ref, Measure{"cat.png"}) // an ask as well
//	err = pool.Resize(ctx, 8)                             // four more
//	pool.Broadcast(ctx, Flush{})                          // to all, whatever the strategy
//	pool.Stop()                                           // and its routees with it
//
//	byCustomer := router.ConsistentHash(func(o Order) string { return o.Customer })
//	group := router.SpawnGroup(sys, "desks", byCustomer, alice, bob)
//	group.Tell(ctx, Order{Customer: "c-17"})
//	err = group.Add(ctx, carol)
//	for _, desk := range group.Routees() {
//		fmt.Println(desk)
//	}
//
// A [Pool] spawns its routees, supervises them, replaces those that end and can be
// resized. A [Group] is given existing actors, and drops those that end.
//
// The strategies are [RoundRobin], [Random], [LeastLoaded], [ConsistentHash] and
// [ConsistentHashNumber], which choose one routee, and [Broadcast] and
// [ScatterGather], which take all of them. You can write your own: see [Strategy].
//
// The choice is made on the sender's goroutine, from a table that is replaced as a whole
// when it changes: a message passes through no actor and no lock. Messages from one
// sender to one routee arrive in the order of sending. A message to a router without
// routees becomes a dead letter.
//
// # When not to use a router
//
// Stateless work needs no pool of actors: start goroutines, and bound their number with a
// semaphore. If each of thousands of keys needs an actor, spawn one for each key;
// consistent hashing is for few routees that share many keys, and takes time proportional
// to the number of routees. And a router is not a queue: messages in the mailbox of a
// slow routee stay there, even when another routee is idle.
package router
