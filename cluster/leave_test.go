package cluster_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/cluster/memory"
	"github.com/greenroom-go/greenroom/internal/pause"
)

// BenchmarkLeave has a node leave that has 10 000 idle actors in 256 shards, to two others, while one of those asks
// one actor after the other. It fails if that takes more than two seconds, or if an ask takes more than half of one.
// It is
//
//	go test ./cluster -run NONE -bench Leave -benchtime 3x
func BenchmarkLeave(b *testing.B) {
	const (
		keys      = 10_000
		leavesFor = 2 * time.Second
		asksFor   = 500 * time.Millisecond
	)
	var leaves, slowest time.Duration
	for b.Loop() {
		b.StopTimer()
		engine, v := new(memory.Engine), &vault{sums: make(map[string]int)}
		from := connect(b, engine, "a", v)
		for i := range keys {
			from.tallies.Ref(strconv.Itoa(i)).Tell(b.Context(), add{N: 1})
		}
		to, other := connect(b, engine, "b", v), connect(b, engine, "c", v)
		for _, node := range []*connected{from, to, other} { // they know each other, and all are active
			for i := range keys {
				if i%100 > 0 && node != from {
					continue
				}
				if _, err := node.ask(b.Context(), strconv.Itoa(i)); err != nil {
					b.Fatal(err)
				}
			}
		}
		if has := from.tallies.Active(); has != keys {
			b.Fatalf("%d actors are active where %d are to be", has, keys)
		}
		over, asked := make(chan struct{}), make(chan time.Duration)
		go func() {
			var most time.Duration
			for i := 0; ; i++ {
				select {
				case <-over:
					asked <- most
					return
				default:
				}
				began := time.Now()
				if _, err := to.ask(b.Context(), strconv.Itoa(i*37%keys)); err != nil {
					b.Error(err)
				}
				most = max(most, time.Since(began))
				_ = pause.For(b.Context(), time.Millisecond)
			}
		}()
		b.StartTimer()
		began := time.Now()
		if err := from.Leave(b.Context()); err != nil {
			b.Fatal(err)
		}
		took := time.Since(began)
		b.StopTimer()
		close(over)
		leaves, slowest = max(leaves, took), max(slowest, <-asked)
		if has := from.tallies.Active(); has != 0 {
			b.Errorf("%d actors are active on a node that has left", has)
		}
		for _, node := range []*connected{from, to, other} {
			_, _ = node.System().Shutdown(b.Context())
		}
		b.StartTimer()
	}
	b.ReportMetric(leaves.Seconds(), "longest_leave_s")
	b.ReportMetric(float64(slowest.Milliseconds()), "slowest_ask_ms")
	if leaves > leavesFor || slowest > asksFor {
		b.Errorf("the longest leave took %v, and the slowest ask %v: want %v and %v at most", leaves, slowest, leavesFor, asksFor)
	}
}
