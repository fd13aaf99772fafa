package sqlite

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/greenroom-go/greenroom/persist"
	"github.com/greenroom-go/greenroom/persist/journaltest"
)

func BenchmarkDurable(b *testing.B) {
	journaltest.BenchmarkDurable(b, func(b *testing.B) persist.Journal { return open(b, b.TempDir()) })
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
