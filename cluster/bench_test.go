package cluster_test

import (
	"fmt"
	"testing"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/actortest"
	"github.com/greenroom-go/greenroom/cluster"
)

// BenchmarkTell compares a tell to a virtual actor with one to an ordinary actor, from outside.
func BenchmarkTell(b *testing.B) {
	for _, name := range []string{"ordinary", "virtual"} {
		b.Run(name, func(b *testing.B) {
			sys := actortest.NewSystem(b)
			carts := register(b, sys, newLogbook())
			to := actor.Spawn(sys, "ordinary", func() *counter { return newLogbook().newCounter("a") })
			if name == "virtual" {
				to = carts.Ref("a")
			}
			b.ReportAllocs()
			for b.Loop() {
				to.Tell(b.Context(), msg{})
			}
			count(b.Context(), b, to)
		})
	}
}

// BenchmarkActivation tells a new actor each time, without a state to speak of, and waits for the last.
func BenchmarkActivation(b *testing.B) {
	kind, err := cluster.Register(cluster.Alone(actortest.NewSystem(b)), "tiny", func(string) tiny { return tiny{} })
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		kind.Ref(fmt.Sprint(n)).Tell(b.Context(), msg{})
		n++
	}
	count(b.Context(), b, kind.Ref("last"))
}

type tiny struct{}

func (tiny) Receive(ctx *actor.Context[msg], _ msg) error {
	actor.ReplyFor(ctx, 1)
	return nil
}
