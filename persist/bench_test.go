package persist_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/codec"
	"github.com/greenroom-go/greenroom/internal/pause"
	"github.com/greenroom-go/greenroom/persist"
	"github.com/greenroom-go/greenroom/persist/memory"
	"github.com/greenroom-go/greenroom/persist/sqlite"
)

// note is an event of about 100 bytes.
type note struct{ Text []byte }

var noteTypes = codec.NewTypes(codec.Of[note]("bench.note"))

// notes records what it is told, if that is more than 0, and answers how much it has.
type notes struct {
	persist.Events[note]
	n int
}

var text = make([]byte, 90)

func (a *notes) Apply(note) { a.n++ }

func (a *notes) Receive(ctx *actor.Context[msg], m msg) error {
	for range m.add {
		a.Record(note{text})
	}
	actor.ReplyFor(ctx, a.n)
	return nil
}

// openBench opens a system with a journal.
func openBench(b *testing.B, j persist.Journal) (*actor.System, *persist.Persistence) {
	b.Helper()
	sys := actor.NewSystem("bench", actor.WithLogger(slog.New(slog.DiscardHandler)))
	p, err := persist.Open(b.Context(), sys, j, persist.Config{Types: noteTypes})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_, _ = sys.Shutdown(context.Background())
		_ = j.Close()
	})
	return sys, p
}

func openSQLite(b *testing.B) persist.Journal { return openDir(b, b.TempDir()) }

func openDir(b *testing.B, dir string) persist.Journal {
	b.Helper()
	j, err := sqlite.Open(b.Context(), dir, sqlite.Options{})
	if err != nil {
		b.Fatal(err)
	}
	return j
}

// BenchmarkDurable has so many askers record an event each, time and again, with as many actors
// as said, on a disk. With one of each, each event is a commit.
func BenchmarkDurable(b *testing.B) {
	for _, c := range []struct{ actors, askers int }{{1, 1}, {1, 1000}, {1000, 64}, {1000, 2000}} {
		b.Run(fmt.Sprintf("actors=%d/askers=%d", c.actors, c.askers), func(b *testing.B) {
			sys, p := openBench(b, openSQLite(b))
			refs := make([]actor.Ref[msg], c.actors)
			for i := range refs {
				refs[i] = persist.Spawn(p, sys, fmt.Sprint("a", i), func() *notes { return &notes{} })
			}
			var left atomic.Int64
			left.Store(int64(b.N))
			b.ResetTimer()
			var all sync.WaitGroup
			for i := range c.askers {
				all.Go(func() {
					for left.Add(-1) >= 0 {
						if _, err := actor.Ask(b.Context(), refs[i%c.actors], msg{add: 1}); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			all.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
		})
	}
}

// BenchmarkHalfLoad has 2000 askers record an event each, at half the rate at which they can, with
// 1000 actors on a disk: how long an answer takes, beside the time of a commit of one event.
func BenchmarkHalfLoad(b *testing.B) {
	const actors, askers = 1000, 2000
	sys, p := openBench(b, openSQLite(b))
	refs := make([]actor.Ref[msg], actors)
	for i := range refs {
		refs[i] = persist.Spawn(p, sys, fmt.Sprint("a", i), func() *notes { return &notes{} })
	}
	record := func(i int) time.Duration {
		at := time.Now()
		if _, err := actor.Ask(b.Context(), refs[i%actors], msg{add: 1}); err != nil {
			b.Error(err)
		}
		return time.Since(at)
	}
	// load has n events recorded, by askers that begin one in so long each, if they can.
	load := func(n int, every time.Duration) (waits []time.Duration) {
		var all sync.WaitGroup
		each := make([][]time.Duration, askers)
		for i := range askers {
			all.Go(func() {
				next := time.Now().Add(every * time.Duration(i) / askers)
				for range max(n/askers, 1) {
					if err := pause.For(b.Context(), time.Until(next)); err != nil {
						return
					}
					next = next.Add(every)
					each[i] = append(each[i], record(i))
				}
			})
		}
		all.Wait()
		return slices.Sorted(slices.Values(slices.Concat(each...)))
	}
	load(10*askers, 0)
	var commits []time.Duration
	for range 200 {
		commits = append(commits, record(0))
	}
	slices.Sort(commits)
	began := time.Now()
	load(50*askers, 0)
	rate := 50 * askers / time.Since(began).Seconds()
	b.ResetTimer()
	waits := load(b.N, time.Duration(2*askers/rate*float64(time.Second)))
	b.ReportMetric(rate, "most-events/s")
	b.ReportMetric(float64(len(waits))/b.Elapsed().Seconds(), "events/s")
	b.ReportMetric(commits[len(commits)/2].Seconds()*1e3, "commit-ms")
	b.ReportMetric(waits[len(waits)/2].Seconds()*1e3, "p50-ms")
	b.ReportMetric(waits[len(waits)*99/100].Seconds()*1e3, "p99-ms")
}

// BenchmarkQuery asks an actor that records nothing, durable and not.
func BenchmarkQuery(b *testing.B) {
	sys, p := openBench(b, memory.New())
	plain := actor.SpawnFunc(sys, "plain", func(ctx *actor.Context[msg], _ msg) error {
		actor.ReplyFor(ctx, 1)
		return nil
	})
	for name, ref := range map[string]actor.Ref[msg]{"plain": plain, "durable": persist.Spawn(p, sys, "durable", func() *notes { return &notes{} })} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := actor.Ask(b.Context(), ref, msg{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkRecover recovers an actor from its events.
func BenchmarkRecover(b *testing.B) {
	const events = 100_000
	sys, p := openBench(b, openSQLite(b))
	full := persist.Spawn(p, sys, "full", func() *notes { return &notes{} })
	for range events / 1000 {
		if _, err := actor.Ask(b.Context(), full, msg{add: 1000}); err != nil {
			b.Fatal(err)
		}
	}
	n := 0
	for b.Loop() {
		full.Stop()
		if _, err := full.Wait(b.Context()); err != nil {
			b.Fatal(err)
		}
		full = persist.Spawn(p, sys, "full", func() *notes { return &notes{} })
		if got, err := actor.Ask(b.Context(), full, msg{}, actor.Within(time.Minute)); err != nil || got != events {
			b.Fatalf("%d, %v", got, err)
		}
		n++
	}
	b.ReportMetric(float64(n*events)/b.Elapsed().Seconds(), "events/s")
}

// BenchmarkRecoverMany recovers 100 000 actors of 10 events each.
func BenchmarkRecoverMany(b *testing.B) {
	const actors, events, batch = 100_000, 10, 1000
	dir := b.TempDir()
	j := openDir(b, dir)
	writeMany(b, j, actors, events, batch)
	if err := j.Close(); err != nil {
		b.Fatal(err)
	}
	sys, p := openBench(b, openDir(b, dir))
	refs := make([]actor.Ref[msg], actors)
	n := 0
	for b.Loop() {
		for i := range refs {
			refs[i] = persist.Spawn(p, sys, fmt.Sprint("a", i), func() *notes { return &notes{} }, persist.Eager())
		}
		for _, ref := range refs {
			if got, err := actor.Ask(b.Context(), ref, msg{}, actor.Within(time.Minute)); err != nil || got != events {
				b.Fatalf("%d, %v", got, err)
			}
		}
		n++
		b.StopTimer()
		for _, ref := range refs {
			ref.Stop()
		}
		for _, ref := range refs {
			if _, err := ref.Wait(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
		b.StartTimer()
	}
	b.ReportMetric(float64(n*actors)/b.Elapsed().Seconds(), "actors/s")
}

// writeMany writes events of actors a0, a1 and so on, one of so many actors in a batch.
func writeMany(b *testing.B, j persist.Journal, actors, events, batch int) {
	b.Helper()
	name, data, err := noteTypes.Append(nil, note{text})
	if err != nil {
		b.Fatal(err)
	}
	number := uint64(0)
	for e := range uint64(events) {
		for first := 0; first < actors; first += batch {
			number++
			c := &persist.Batch{Session: 1, Number: number}
			for i := range batch {
				id, event := fmt.Sprint("/a", first+i), persist.Payload{Type: name, Data: data}
				event.Seal(id, e+1)
				c.Appends = append(c.Appends, persist.Append{ID: id, After: e, Events: []persist.Payload{event}})
			}
			if err := j.Commit(b.Context(), c); err != nil {
				b.Fatal(err)
			}
		}
	}
}
