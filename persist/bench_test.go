package persist_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/codec"
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

func openSQLite(b *testing.B) persist.Journal {
	b.Helper()
	j, err := sqlite.Open(b.Context(), b.TempDir(), sqlite.Options{})
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
