package router_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/actortest"
	"github.com/greenroom-go/greenroom/router"
)

var bg = context.Background()

// BenchmarkTell is what the choice of each strategy adds to a tell from one sender,
// with routees that do nothing but count.
func BenchmarkTell(b *testing.B) {
	strategies := []struct {
		name     string
		strategy router.Strategy[int]
	}{
		{"RoundRobin", router.RoundRobin[int]},
		{"Random", router.Random[int]},
		{"ConsistentHash", router.ConsistentHashNumber(func(n int) int { return n })},
		{"BoundedLoad", router.ConsistentHashNumber(func(n int) int { return n }, router.BoundedLoad(1.25))},
		{"LeastLoaded", router.LeastLoaded[int]},
	}
	b.Run("NoRouter", func(b *testing.B) {
		sys := actortest.NewSystem(b)
		var handled atomic.Int64
		ref := actor.SpawnFunc(sys, "", func(*actor.Context[int], int) error { handled.Add(1); return nil })
		tellAll(b, sys, ref, &handled)
	})
	for _, s := range strategies {
		for _, n := range []int{4, 64} {
			b.Run(fmt.Sprintf("%s/%d", s.name, n), func(b *testing.B) {
				sys := actortest.NewSystem(b)
				var handled atomic.Int64
				pool := router.SpawnPoolFunc(sys, "", s.strategy, n, func(*actor.Context[int], int) error { handled.Add(1); return nil })
				tellAll(b, sys, pool.Ref, &handled)
			})
		}
	}
}

func tellAll(b *testing.B, sys *actor.System, to actor.Ref[int], handled *atomic.Int64) {
	b.Helper()
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		to.Tell(bg, n)
		n++
	}
	if _, err := sys.Shutdown(bg); err != nil || handled.Load() != int64(n) {
		b.Errorf("handled %d of %d, %v", handled.Load(), n, err)
	}
}
