//go:build unix

package embedded_test

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/cluster"
	"github.com/greenroom-go/greenroom/cluster/embedded"
	"github.com/greenroom-go/greenroom/cluster/nats"
	"github.com/greenroom-go/greenroom/internal/pause"
	"github.com/greenroom-go/greenroom/remote"
)

// BenchmarkAtRest has a server and three connected members with the default TTL in this process, to which nobody says
// anything. It reports how much of one processor they use, and before that how much the server alone does. It is
//
//	go test ./cluster/embedded -run NONE -bench AtRest -benchtime 1x
func BenchmarkAtRest(b *testing.B) {
	const rests = 20 * time.Second
	for b.Loop() {
		s, err := embedded.Start(embedded.Config{Dir: b.TempDir(), Log: quiet})
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(busy(b, rests/2), "%cpu_server")
		for i := range 3 {
			sys := actor.NewSystem(fmt.Sprint("n", i))
			nc, err := s.Connect(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			engine, err := nats.Open(b.Context(), nc, nats.Config{Log: quiet})
			if err != nil {
				b.Fatal(err)
			}
			if _, err := cluster.Join(sys, cluster.Config{Engine: engine, Remote: &remote.Config{Addr: "127.0.0.1:0"}}); err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() {
				_, _ = sys.Shutdown(context.Background())
				nc.Close()
			})
		}
		_ = pause.For(b.Context(), 2*time.Second) // they know each other
		b.ReportMetric(busy(b, rests), "%cpu_members")
		b.Cleanup(s.Close)
	}
}

// busy returns how much of a processor this process has used while it waits, in percent.
func busy(b *testing.B, d time.Duration) float64 {
	b.Helper()
	used := func() time.Duration {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	before, began := used(), time.Now()
	_ = pause.For(b.Context(), d)
	return 100 * float64(used()-before) / float64(time.Since(began))
}
