package cluster_test

import (
	"context"
	"fmt"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/cluster"
	"github.com/greenroom-go/greenroom/eventbus"
	"github.com/greenroom-go/greenroom/router"
)

// ExampleRegister has a cart for each user. Nobody makes one, and nobody has to end it.
func ExampleRegister() {
	sys := actor.NewSystem("shop")
	node := cluster.Alone(sys)
	carts, err := cluster.Register(node, "cart", func(user string) *counter { return newLogbook().newCounter(user) },
		cluster.IdleAfter(10*time.Minute), cluster.Hot(100_000), cluster.Park(1000),
		cluster.Spawning(actor.Bounded(100, actor.Reject)),
		cluster.Supervised(actor.Supervise(actor.OneForOne, actor.Exhausted(actor.Stop))))
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	cart := carts.Ref("user-42")
	cart.Tell(ctx, msg{})
	handled, err := actor.Ask(ctx, cart, msg{})
	fmt.Println(cart, handled, err, carts.Name(), carts.Active(), cart == carts.Ref("user-42"))
	_, err = node.System().Shutdown(ctx)
	fmt.Println(err)
	// Output:
	// */cart/user-42#0 2 <nil> cart 1 true
	// <nil>
}

// ExampleSingleton has an actor that is there once in a cluster, some that are spread over it, and one on
// each of its nodes.
func ExampleSingleton() {
	sys := actor.NewSystem("shop")
	node := cluster.Alone(sys)
	newCounter := func() *counter { return newLogbook().newCounter("") }
	billing, err := cluster.Singleton(node, "billing", newCounter)
	if err != nil {
		fmt.Println(err)
		return
	}
	workers, err := cluster.Spread(node, "worker", 3, func(int) *counter { return newCounter() })
	if err != nil {
		fmt.Println(err)
		return
	}
	caches, err := cluster.Everywhere(node, "cache", newCounter)
	if err != nil {
		fmt.Println(err)
		return
	}
	some, err := workers.Routed(router.RoundRobin)
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	for _, ref := range []actor.Ref[msg]{billing, workers.Ref("2"), some, caches.All(), caches.Here()} {
		handled, err := actor.Ask(ctx, ref, msg{})
		fmt.Println(ref.PID().Path(), handled, err)
	}
	_, err = sys.Shutdown(ctx)
	fmt.Println(err)
	// Output:
	// /billing/0 1 <nil>
	// /worker/2 1 <nil>
	// /worker 1 <nil>
	// /cache 1 <nil>
	// /cache 2 <nil>
	// <nil>
}

// ExampleBridge has a bus whose topics cross nodes, on the only one that there is.
func ExampleBridge() {
	sys := actor.NewSystem("shop")
	bus := eventbus.New(sys)
	bridge, err := cluster.Bridge(cluster.Alone(sys), "orders", bus, "orders.>")
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = eventbus.SubscribeFunc(bus, "orders.*", func(_ context.Context, topic string, amount int) {
		fmt.Println(topic, amount)
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	fmt.Println(eventbus.Publish(ctx, bus, "orders.new", 3), bridge.Wanting("orders.new"), bridge.Stats().Sent)
	bridge.Close()
	_, err = sys.Shutdown(ctx)
	fmt.Println(err)
	// Output:
	// orders.new 3
	// <nil> [] 0
	// <nil>
}
