package sqlite

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/internal/groupcommit"
	"github.com/greenroom-go/greenroom/persist"
	"github.com/greenroom-go/greenroom/persist/journaltest"
)

// BenchmarkDurable measures events of 100 bytes that somebody waits for, each: the yardstick
// is one transaction an event.
func BenchmarkDurable(b *testing.B) {
	text := event(fmt.Sprintf("%0100d", 0))
	b.Run("yardstick=transaction-an-event", func(b *testing.B) {
		j := open(b, b.TempDir())
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
		b.Run(fmt.Sprintf("askers=%d/actors=1000", askers), func(b *testing.B) { benchmarkAskers(b, askers, text) })
	}
}

func benchmarkAskers(b *testing.B, askers int, text persist.Payload) {
	j := open(b, b.TempDir())
	g := &journaltest.Group{Journal: j}
	cfg := groupcommit.Config{Bytes: 4 << 20, Delay: time.Millisecond, RetryMin: time.Millisecond, RetryMax: time.Second}
	began := time.Now()
	c := groupcommit.New(b.Context(), cfg, g, func(*journaltest.Asked) int64 { return 200 }, func() int64 { return int64(time.Since(began)) })
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
			item := &journaltest.Asked{Durable: make(chan error, 1)}
			for n := asker; left.Add(-1) >= 0; n += 7 {
				a := &actors[n%len(actors)]
				a.Lock()
				item.Append = persist.Append{ID: fmt.Sprint("actor-", n%len(actors)), After: a.next, Events: []persist.Payload{text}}
				a.next++
				at := time.Now()
				c.Accept(item)
				a.Unlock()
				if err := <-item.Durable; err != nil {
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
	b.ReportMetric(float64(b.N)/float64(g.Batches), "events/batch")
	b.ReportMetric(float64(all[len(all)/2])/1e6, "p50-ms")
	b.ReportMetric(float64(all[len(all)*99/100])/1e6, "p99-ms")
	c.Stop()
	<-acked
}

// BenchmarkRecover reads events of 100 bytes back: b.N of one actor, or of actors with 10
// each, which are loaded 64 at a time by two goroutines.
func BenchmarkRecover(b *testing.B) {
	text := event(fmt.Sprintf("%0100d", 0))
	fill := func(b *testing.B, appends func(first, n int) []persist.Append) *Journal {
		j := open(b, b.TempDir())
		for first, number := 0, uint64(1); first < b.N; first, number = first+1000, number+1 {
			batch := &persist.Batch{Number: number, Appends: appends(first, min(1000, b.N-first))}
			if err := j.Commit(b.Context(), batch); err != nil {
				b.Fatal(err)
			}
		}
		if err := j.flush(); err != nil {
			b.Fatal(err)
		}
		b.ResetTimer()
		return j
	}
	b.Run("events-of-one-actor", func(b *testing.B) {
		j := fill(b, func(first, n int) []persist.Append {
			return []persist.Append{{ID: "a", After: uint64(first), Events: slices.Repeat([]persist.Payload{text}, n)}}
		})
		read := 0
		for {
			page, err := j.Events(b.Context(), "a", uint64(read), persist.PageRecords)
			if err != nil {
				b.Fatal(err)
			}
			if read += len(page); len(page) == 0 {
				break
			}
		}
		if read != b.N {
			b.Fatal(read)
		}
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
	})
	b.Run("actors-with-10-events", func(b *testing.B) {
		j := fill(b, func(first, n int) (list []persist.Append) {
			for i := range n {
				list = append(list, persist.Append{ID: fmt.Sprint("actor-", first+i), Events: slices.Repeat([]persist.Payload{text}, 10)})
			}
			return list
		})
		var next atomic.Int64
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				for {
					first := int(next.Add(64)) - 64
					if first >= b.N {
						return
					}
					var ids []string
					for i := first; i < min(first+64, b.N); i++ {
						ids = append(ids, fmt.Sprint("actor-", i*7919%b.N))
					}
					list, err := j.Load(b.Context(), ids)
					if err != nil || len(list[0].Events) == 0 {
						b.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "actors/s")
	})
}
