package entity_test

import (
	"errors"
	"fmt"
	"math"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/sqlite"
	"github.com/greenroom-go/greenroom/entity/value"
)

// register fills the store in dir with n entities of three keys, each with an
// edge to one of the first hundred.
func register(b *testing.B, dir string, n int) {
	b.Helper()
	store, err := sqlite.Open(b.Context(), dir, sqlite.Options{})
	if err != nil {
		b.Fatal(err)
	}
	const page = 20_000
	for first := 0; first < n; first += page {
		batch := &entity.Batch{First: store.Info().LastChange + 1, Committed: 1}
		for i := first; i < min(n, first+page); i++ {
			place := len(batch.Entities)
			batch.Entities = append(batch.Entities, entity.BatchEntity{ID: fmt.Sprintf("sensor-%07d", i), Created: 1, Edited: true, Revision: 1})
			r := threeKeys(int64(i % 1000))[0]
			batch.Records = append(batch.Records, entity.Record{Entity: place, Seq: 1, Reading: r}, entity.Record{Entity: place, Edit: &entity.Edit{
				Revision: 1, Relations: []entity.RelationEdit{{Relation: entity.Relation{Type: "isIn", To: fmt.Sprintf("sensor-%07d", i%100)}}},
			}})
			for _, s := range r.Values {
				batch.Latest = append(batch.Latest, entity.LatestRow{Entity: place, Latest: entity.Latest{Key: s.Key, TS: r.TS, Seq: 1, Value: s.Value}})
			}
		}
		if err := store.Commit(b.Context(), batch); err != nil {
			b.Fatal(err)
		}
	}
	if err := store.Close(); err != nil {
		b.Fatal(err)
	}
}

// resident is the memory of the process, in bytes.
func resident(b *testing.B) float64 {
	b.Helper()
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		b.Skip("resident memory is read from /proc")
	}
	for line := range strings.Lines(string(text)) {
		if kb, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			n, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(kb), "kB")), 64)
			if err != nil {
				b.Fatal(err)
			}
			return n * 1024
		}
	}
	return math.NaN()
}

// BenchmarkRegistered opens a runtime on a million entities, each with a relation,
// and touches a part of them: how long until the first one answers and until the
// graph is there, and what is resident. The control is a runtime on nothing.
// It takes half a minute: go test -run NONE -bench Registered -benchtime 1x.
func BenchmarkRegistered(b *testing.B) {
	for _, n := range []int{1, 1_000_000} {
		name := fmt.Sprintf("entities=%d", n)
		if n == 1 {
			name = "control=one"
		}
		b.Run(name, func(b *testing.B) {
			dir := b.TempDir()
			register(b, dir, n)
			debug.FreeOSMemory()
			for b.Loop() {
				began := time.Now()
				store, err := sqlite.Open(b.Context(), dir, sqlite.Options{})
				if err != nil {
					b.Fatal(err)
				}
				sys := actor.NewSystem("bench")
				r, err := entity.Open(b.Context(), sys, store, entity.Config{HotBytes: 256 << 20})
				if err != nil {
					b.Fatal(err)
				}
				if _, err := r.Entity(b.Context(), fmt.Sprintf("sensor-%07d", n-1)); err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(time.Since(began).Milliseconds()), "ms-to-first-answer")
				if _, err := r.Relations(b.Context(), "sensor-0000000", entity.In); err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(time.Since(began).Milliseconds()), "ms-to-graph")
				b.ReportMetric(resident(b)/(1<<20), "MB-resident-cold")
				touched := time.Now()
				const touch = 100_000
				for i := range min(n, touch) {
					if _, err := r.Entity(b.Context(), fmt.Sprintf("sensor-%07d", i)); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(time.Since(touched).Microseconds())/float64(min(n, touch)), "µs/touch")
				b.ReportMetric(resident(b)/(1<<20), "MB-resident-touched")
				if err := errors.Join(r.Close(b.Context()), shutdown(sys)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkTraverse walks 3 000 entities: a house of floors, of rooms, of
// sensors. The control makes the same walk in a map of slices of strings.
func BenchmarkTraverse(b *testing.B) {
	s := open(b, b.TempDir(), entity.Config{})
	children := map[string][]string{}
	ids := []string{"house"}
	for i := 1; i < 3000; i++ {
		id := fmt.Sprintf("node-%04d", i)
		parent := ids[(i-1)/14]
		children[parent] = append(children[parent], id)
		ids = append(ids, id)
	}
	settled := newSettlements(b)
	for _, id := range ids {
		if err := settled.ingest(b.Context(), s, id, id, at(1, "t", value.Int(1))); err != nil {
			b.Fatal(err)
		}
	}
	settled.wait()
	for parent, list := range children {
		s.relate(parent, "has", list...)
	}
	b.Run("control=map", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			seen := map[string]bool{"house": true}
			for frontier := []string{"house"}; len(frontier) > 0; {
				var next []string
				for _, id := range frontier {
					for _, child := range children[id] {
						if !seen[child] {
							seen[child] = true
							next = append(next, child)
						}
					}
				}
				frontier = next
			}
			if len(seen) != 3000 {
				b.Fatal(len(seen))
			}
		}
	})
	for name, q := range map[string]entity.Traversal{
		"filter=none":   {From: "house"},
		"filter=type":   {From: "house", Types: []string{"has"}, Depth: 20},
		"filter=entity": {From: "house", Match: func(v entity.View) bool { l, ok := v.Latest("t"); return ok && l.Value.Int() == 1 }},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				reached, more, err := s.Traverse(b.Context(), q)
				if err != nil || more || len(reached) != 3000 {
					b.Fatal(len(reached), more, err)
				}
			}
		})
	}
}

// BenchmarkEdit is conditional patches of one leaf by many clients at once, each
// of an entity of its own, durable. The control is a reading in its place.
func BenchmarkEdit(b *testing.B) {
	for _, name := range []string{"control=reading", "patch", "patch-if-match"} {
		b.Run(name, func(b *testing.B) {
			s := open(b, b.TempDir(), entity.Config{})
			b.SetParallelism(64)
			var clients atomic.Int64
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				id, etag := fmt.Sprint("e", clients.Add(1)), ""
				for i := int64(0); pb.Next(); i++ {
					var err error
					if name == "control=reading" {
						err = s.Write(b.Context(), id, []entity.Reading{at(i, "n", value.Int(i))}, 50)
					} else {
						var done entity.Edited
						done, err = s.Edit(b.Context(), id, entity.Edits{If: etag, Patches: []entity.Patch{merge(entity.Desired, `{"n":`+strconv.FormatInt(i, 10)+`}`)}})
						if name == "patch-if-match" {
							etag = done.ETag
						}
					}
					if err != nil {
						b.Error(err)
						return
					}
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "edits/s")
		})
	}
}
