package journaltest

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/internal/groupcommit"
	"github.com/greenroom-go/greenroom/persist"
)

// BenchmarkDurable measures events of 100 bytes for each of which somebody waits; the yardstick is
// one transaction for each event. open opens an empty journal, and closes it when b ends.
func BenchmarkDurable(b *testing.B, open func(b *testing.B) persist.Journal) {
	text := payload(fmt.Sprintf("%0100d", 0))
	b.Run("yardstick=transaction-an-event", func(b *testing.B) {
		j := open(b)
		b.ReportAllocs()
		for n := uint64(0); b.Loop(); n++ {
			batch := &persist.Batch{Number: n + 1, Appends: []persist.Append{{ID: fmt.Sprint("actor-", n%1000), After: n / 1000, Events: []persist.Payload{text}}}}
			if err := j.Commit(b.Context(), batch); err != nil || batch.Appends[0].Err != nil {
				b.Fatal(err, batch.Appends[0].Err)
			}
		}
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
	})
	for _, askers := range []int{64, 2000} {
		b.Run(fmt.Sprintf("askers=%d/actors=1000", askers), func(b *testing.B) { benchmarkAskers(b, open(b), askers, text) })
	}
}

func benchmarkAskers(b *testing.B, j persist.Journal, askers int, text persist.Payload) {
	g := &group{journal: j}
	cfg := groupcommit.Config{Bytes: 4 << 20, Delay: time.Millisecond, RetryMin: time.Millisecond, RetryMax: time.Second}
	began := time.Now()
	c := groupcommit.New(b.Context(), cfg, g, func(*asked) int64 { return 200 }, func() int64 { return int64(time.Since(began)) })
	go c.Run()
	acked := make(chan struct{})
	go func() { c.Acknowledge(); close(acked) }()
	var actors [1000]struct {
		sync.Mutex
		next uint64
	}
	var left atomic.Int64
	left.Store(int64(b.N))
	waits := make([][]time.Duration, askers)
	b.ReportAllocs()
	b.ResetTimer()
	var wg sync.WaitGroup
	for asker := range askers {
		wg.Go(func() {
			item := &asked{durable: make(chan error, 1)}
			for n := asker; left.Add(-1) >= 0; n += 7 {
				a := &actors[n%len(actors)]
				a.Lock()
				item.append = persist.Append{ID: fmt.Sprint("actor-", n%len(actors)), After: a.next, Events: []persist.Payload{text}}
				a.next++
				at := time.Now()
				c.Accept(item)
				a.Unlock()
				if err := <-item.durable; err != nil {
					b.Error(err)
				}
				waits[asker] = append(waits[asker], time.Since(at))
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	all := slices.Sorted(slices.Values(slices.Concat(waits...)))
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
	b.ReportMetric(float64(b.N)/float64(g.batches), "events/batch")
	b.ReportMetric(float64(all[len(all)/2])/1e6, "p50-ms")
	b.ReportMetric(float64(all[len(all)*99/100])/1e6, "p99-ms")
	c.Stop()
	<-acked
}
