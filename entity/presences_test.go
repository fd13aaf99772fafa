package entity

import (
	"fmt"
	"log/slog"
	"runtime"
	"sync/atomic"
	"testing"
	"time"
)

// aMillion are the devices of the benchmark.
const aMillion = 1_000_000

// millionOnline makes presences of a million devices that are online, without entities.
func millionOnline(tb testing.TB) (p *presences, ids []string) {
	tb.Helper()
	rt := &Runtime{cfg: Config{}.withDefaults(), began: time.Now()}
	rt.clock = newClock(slog.New(slog.DiscardHandler), time.Now, 0)
	rt.types.current.Store(&typeSet{})
	p = newPresences(rt)
	ids = make([]string, aMillion)
	for i := range ids {
		ids[i] = fmt.Sprintf("sensor-%07d", i)
	}
	return p, ids
}

// come has devices come online as their actors would find them.
func (p *presences) come(ids []string) {
	for _, id := range ids {
		p.seen(id)
		p.decide(id, Presence{}, p.ruleOf(""))
	}
	p.order = nil
}

// BenchmarkPresence measures a million devices: what each occupies, what a message costs,
// and what it costs to find one that has spoken since.
func BenchmarkPresence(b *testing.B) {
	b.Run("message", func(b *testing.B) {
		p, ids := millionOnline(b)
		before := liveHeap()
		p.come(ids)
		bytes := float64(liveHeap()-before) / aMillion
		if p.placed.Load() != aMillion || p.online.Load() != aMillion {
			b.Fatalf("%d are placed, %d online", p.placed.Load(), p.online.Load())
		}
		var next atomic.Int64
		b.ResetTimer()
		b.RunParallel(func(pb *testing.PB) {
			for at := next.Add(7919); pb.Next(); at += 7919 {
				p.seen(ids[at%aMillion])
			}
		})
		b.ReportMetric(bytes, "B/device")
	})
	b.Run("due", func(b *testing.B) {
		p, ids := millionOnline(b)
		p.come(ids)
		b.ResetTimer()
		for now, looked := p.now(), 0; looked < b.N; looked += aMillion {
			b.StopTimer()
			now += wheelTick * wheelSlots
			for i := range p.shards {
				for _, e := range p.shards[i].byID { // they have spoken since
					e.heard, e.saved = now, e.seen
				}
			}
			b.StartTimer()
			for i := range p.shards {
				p.advance(&p.shards[i], now)
			}
		}
		if p.online.Load() != aMillion || len(p.order) > 0 {
			b.Fatalf("%d are online, %d asked", p.online.Load(), len(p.order))
		}
	})
}

func liveHeap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func TestTheWheelLosesNobody(t *testing.T) {
	t.Parallel()
	var w wheel
	const count = 5000
	due := make(map[*present]int64)
	now := int64(0)
	place := func(e *present, at int64) {
		due[e] = at
		w.place(e, at, now)
	}
	for i := range count {
		place(&present{}, int64(i*i)%3_000_000) // also beyond what the ring reaches
	}
	moved := 0
	for e := range due { // to an earlier time, to the past, and out
		switch moved++; moved % 5 {
		case 0:
			place(e, due[e]/2)
		case 1:
			w.remove(e)
			w.remove(e)
			delete(due, e)
		case 2:
			place(e, -100)
		}
	}
	for steps := 0; len(due) > 0; steps++ {
		if steps > 1_000_000 {
			t.Fatalf("%d are never found", len(due))
		}
		now += []int64{1, 240, 250, 251, 30_000, 700_000}[steps%6]
		w.advance(now, func(e *present) {
			at, ok := due[e]
			if !ok {
				t.Fatal("one was found that is not in")
			}
			if at > now { // beyond the ring
				w.place(e, at, now)
				return
			}
			delete(due, e)
		})
		for e, at := range due {
			if at+2*wheelTick < now {
				t.Fatalf("one that was due at %d is not found at %d, in slot %d", at, now, e.slot)
			}
		}
	}
	if w.count != 0 {
		t.Errorf("%d are left", w.count)
	}
}
