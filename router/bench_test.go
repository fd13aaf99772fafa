package router_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/router"
)

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
		sys := newSystem(b)
		var handled atomic.Int64
		ref := actor.SpawnFunc(sys, "", func(*actor.Context[int], int) error { handled.Add(1); return nil })
		tellAll(b, ref, &handled)
	})
	for _, s := range strategies {
		for _, n := range []int{4, 64} {
			b.Run(fmt.Sprintf("%s/%d", s.name, n), func(b *testing.B) {
				sys := newSystem(b)
				var handled atomic.Int64
				pool := router.SpawnPoolFunc(sys, "", s.strategy, n, func(*actor.Context[int], int) error { handled.Add(1); return nil })
				tellAll(b, pool.Ref, &handled)
			})
		}
	}
}

func tellAll(b *testing.B, to actor.Ref[int], handled *atomic.Int64) {
	b.Helper()
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		to.Tell(bg, n)
		n++
	}
	until(b, "all handled", func() bool { return handled.Load() == int64(n) })
}
