package cluster_test

import (
	"context"
	"fmt"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/cluster"
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
