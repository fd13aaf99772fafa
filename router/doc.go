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
// A [Pool] starts its routees itself, supervises them, replaces those that end and
// can be resized. A [Group] is given actors that exist already, and drops those
// that end.
//
// The strategies are [RoundRobin], [Random], [LeastLoaded], [ConsistentHash] and
// [ConsistentHashNumber], which choose one routee, and [Broadcast] and
// [ScatterGather], which take all of them. Any function of the type [Strategy] is one
// too.
//
// The choice is made by whoever sends, on its own goroutine, from a table that is
// replaced as a whole when it changes: no actor stands in the way of a message, and
// no lock. What one sender sends to one routee arrives in the order of sending. A
// router without routees makes a dead letter of what it gets.
//
// # When not to use a router
//
// Work that has no state needs no pool of actors: start a goroutine, and bound the
// number of them with a semaphore. To get one actor for each of thousands of keys,
// spawn one for each key; a consistent hash is for a few routees that share many keys,
// and its choice takes time in proportion to their number. And a router is no queue:
// what waits in the mailbox of a slow routee waits there, even when another is free.
package router
