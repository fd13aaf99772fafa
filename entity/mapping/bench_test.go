package mapping

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/value"
)

const (
	benchMeters = 10_000
	benchFloors = 100
)

// buildingMappings are the mappings of meters to floors to a building.
func buildingMappings() (list []string) {
	for f := range benchFloors {
		list = append(list, fmt.Sprintf(`floor-%d: insert into "floor-%d" select sum(m.power) as power, avg(m.power) as mean, max(m.power) as top from like 'meter-%d-%%' as m`, f, f, f))
	}
	return append(list, `building: insert into building select sum(f.power) as power, avg(f.mean) as mean, max(f.top) as top from like 'floor-%' as f`)
}

func meterID(i int) string { return fmt.Sprintf("meter-%d-%d", i%benchFloors, i) }

// benchChanges are readings of the meters, in the order of time.
func benchChanges() []entity.Change {
	r := rand.New(rand.NewPCG(1, 10))
	changes := make([]entity.Change, 1<<16)
	for i := range changes {
		changes[i] = entity.Change{
			Seq: uint64(i + 1), Entity: meterID(r.IntN(benchMeters)), TS: int64(i + 1),
			Values: []entity.Sample{sample("power", r.Float64()*1000)},
		}
	}
	return changes
}

// BenchmarkFanInEngine is the state machine alone: one change of one of 10 000
// meters, and the reading that comes of it of its floor of 100, or of a building
// of all of them. The controls, "summed anew", do what systems do that keep
// nothing: they go through the members for each change.
func BenchmarkFanInEngine(b *testing.B) {
	changes := benchChanges()
	whole := []string{"building: insert into building select sum(m.power) as power, avg(m.power) as mean, max(m.power) as top from like 'meter-%' as m"}
	for name, mappings := range map[string][]string{"100 floors of 100": buildingMappings(), "a building of 10000": whole} {
		b.Run(name, func(b *testing.B) {
			m := newModel(b)
			e := NewEngine()
			var names []string
			list := parseAll(b, mappings)
			for i := range list {
				names = append(names, list[i].Name)
			}
			if _, err := e.Install(b.Context(), m, 0, list...); err != nil {
				b.Fatal(err)
			}
			e.Live(names...)
			e.Apply(changes)
			n := 0
			b.ReportAllocs()
			for b.Loop() {
				e.Apply(changes[n : n+1])
				n = (n + 1) % len(changes)
			}
		})
	}
	for _, size := range []int{100, benchMeters} {
		b.Run(fmt.Sprintf("control %d summed anew", size), func(b *testing.B) {
			latest := map[string]float64{}
			for i := range size {
				latest[changes[i].Entity] = float64(i)
			}
			n := 0
			for b.Loop() {
				latest[changes[n].Entity] = changes[n].Values[0].Value.Float()
				sum, top := 0.0, 0.0
				for _, v := range latest {
					sum += v
					top = max(top, v)
				}
				n = (n + 1) % size
			}
		})
	}
}

// BenchmarkFanInService is the whole way: meters' readings into the runtime and
// its store, floors and building computed, and all of it durable. The control is
// the same readings without mappings.
func BenchmarkFanInService(b *testing.B) {
	for _, mapped := range []bool{false, true} {
		name := "control without mappings"
		if mapped {
			name = "10 000 meters to 100 floors to 1 building"
		}
		b.Run(name, func(b *testing.B) {
			h := build(b, b.TempDir(), houseOptions{})
			for i := range benchMeters {
				h.send(meterID(i), 1, sample("power", 0.0))
			}
			h.sync(1)
			if mapped {
				for _, m := range parseAll(b, buildingMappings()) {
					h.put(m.Name, m.Statement.String())
				}
			}
			h.sync(3)
			changes := benchChanges()
			before := h.Stats()
			n := 0
			for b.Loop() {
				c := &changes[n]
				h.send(c.Entity, c.TS+int64(b.N), c.Values...)
				n = (n + 1) % len(changes)
			}
			h.sync(3)
			elapsed := b.Elapsed()
			after := h.Stats()
			b.ReportMetric(float64(b.N)/elapsed.Seconds(), "meters'readings/s")
			b.ReportMetric(float64(after.Outputs-before.Outputs)/float64(b.N), "computed/reading")
		})
	}
}

// BenchmarkEvaluate is one expression, compiled, and the same written in Go as the control.
func BenchmarkEvaluate(b *testing.B) {
	s := mustParse(b, "insert into e select a.x * 9 / 5 + 32 as p")
	fr := newFrame(&s.Select[0], nil, nil)
	fr.put(0, 1, value.Float(20))
	b.Run("expression", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := fr.evaluate(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("control in Go", func(b *testing.B) {
		v := value.Float(20)
		for b.Loop() {
			x, _ := v.Number()
			v = value.Float(x*9/5 + 32 - x*9/5 - 12)
		}
	})
}

// BenchmarkDerive is a value computed again from the history.
func BenchmarkDerive(b *testing.B) {
	h := build(b, b.TempDir(), houseOptions{})
	h.put("m", "insert into e select a.x * 2 as y")
	for i := range 10_000 {
		h.send("a", int64(i+1), sample("x", i))
	}
	h.sync(1)
	began := time.Now()
	n := 0
	for b.Loop() {
		if _, err := h.Recompute(b.Context(), "m", 0, end); err != nil {
			b.Fatal(err)
		}
		n += 10_000
	}
	b.ReportMetric(float64(n)/time.Since(began).Seconds(), "values/s")
}

// BenchmarkLiveBesideLoad is the longest that a live value of one mapping takes to be there while another one, of 64
// full windows, is put in force, replaced, and loaded anew because an entity is gone. The control is the same
// without the other one.
func BenchmarkLiveBesideLoad(b *testing.B) {
	const windows = 64
	h := build(b, b.TempDir(), houseOptions{})
	h.put("live", "insert into f select live.x as y")
	fields := make([]string, windows)
	for i := range fields {
		h.fill(fmt.Sprintf("a%d", i), MaxWindowReadings)
		fields[i] = fmt.Sprintf("sum(a%d.x) over last %d as y%d", i, MaxWindowReadings, i)
	}
	h.sync(1)
	ts := int64(0)
	longest := func(load func()) float64 {
		ended := make(chan struct{})
		go func() { load(); close(ended) }()
		var most time.Duration
		for n := 0; ; n++ {
			select {
			case <-ended:
				if n >= 100 {
					return float64(most) / float64(time.Millisecond)
				}
			default:
			}
			ts++
			began := time.Now()
			h.write("live", ts, sample("x", int(ts)))
			for l, _ := h.latest("f", "y"); l.TS < ts && b.Context().Err() == nil; l, _ = h.latest("f", "y") {
				runtime.Gosched()
			}
			most = max(most, time.Since(began))
		}
	}
	all := "insert into e select " + strings.Join(fields, ", ")
	for b.Loop() {
		b.ReportMetric(longest(func() {}), "ms-quiet")
		b.ReportMetric(longest(func() { h.put("m", all) }), "ms-put")
		b.ReportMetric(longest(func() { h.put("m", strings.Replace(all, " as y0", " as z0", 1)) }), "ms-replaced")
		b.ReportMetric(longest(func() {
			if err := h.rt.Delete(b.Context(), "a0", ""); err != nil {
				b.Error(err)
			}
			if err := h.Sync(b.Context()); err != nil {
				b.Error(err)
			}
		}), "ms-anew")
		h.fill("a0", MaxWindowReadings)
		if err := h.Delete(b.Context(), "m", ""); err != nil {
			b.Fatal(err)
		}
	}
}
