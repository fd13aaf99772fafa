package script

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/behavior"
	"github.com/greenroom-go/greenroom/entity/value"
	"github.com/greenroom-go/greenroom/internal/pause"
	"github.com/greenroom-go/greenroom/lua"
)

// beside are the scripts that the benchmarks run beside none: one whose condition is looked at for each
// reading and not met; one that keeps something of each reading; one that writes a reading for each
// hundredth; and one that loops until its steps are used up, but not often enough in a row to be switched off.
var beside = []struct{ name, source string }{
	{"none", ""},
	{"condition", `function on_reading(e, r) if r.x > 1e15 and (e.latest.flow or 0) < 2 then e:set { alarm = "dry run" } end end`},
	{"state", `function on_reading(e, r) self.n = (self.n or 0) + 1 end`},
	{"effect", `function on_reading(e, r) if r.x % 100 == 0 then e:set { n = r.x } end end`},
}

const loop = `function on_reading(e, r) if r.x % 50 ~= 0 then while true do end end end`

// BenchmarkIngestBesideScripts compares how many readings of 1000 entities a second become durable without
// scripts with how many do beside one that is called for each, in turns, in one run. ratio is the
// middle one of the quotients of the rounds; handled is how many readings a second were both made durable and
// gone through by the script, with all that came of them.
//
//	go test ./server/script -run NONE -bench IngestBesideScripts -benchtime 1x
func BenchmarkIngestBesideScripts(b *testing.B) {
	const entities, batch, batches, rounds = 1000, 10, 3, 15
	plants := make([]*plant, len(beside))
	for i, c := range beside {
		plants[i] = build(b, b.TempDir())
		if c.source != "" {
			plants[i].put("rule", c.source)
		}
	}
	durable, handled := make([][]float64, len(beside)), make([][]float64, len(beside))
	ts := int64(1_700_000_000_000)
	for range b.N {
		for round := range rounds {
			for i, p := range plants {
				began := time.Now()
				var wg sync.WaitGroup
				for n := range batches {
					for e := range entities {
						readings := make([]entity.Reading, batch)
						for k := range readings {
							at := ts + int64(n*batch+k)
							readings[k] = entity.Reading{TS: at, Values: []entity.Sample{x(at + int64(e)), {Key: "pressure", Value: value.Float(1.5)}}}
						}
						wg.Add(1)
						if err := p.rt.Ingest(b.Context(), fmt.Sprintf("m%d", e), readings, 0, func(error) { wg.Done() }); err != nil {
							b.Fatal(err)
						}
					}
				}
				wg.Wait()
				took := time.Since(began)
				if i > 0 {
					p.sync("rule")
				}
				if round > 0 { // what is known of the entities is read
					durable[i] = append(durable[i], took.Seconds())
					handled[i] = append(handled[i], time.Since(began).Seconds())
				}
			}
			ts += batches * batch
		}
	}
	const readings = entities * batch * batches
	b.ReportMetric(readings/middle(durable[0]), "readings/s")
	for i, c := range beside[1:] {
		quotients := make([]float64, len(durable[0]))
		for r := range quotients {
			quotients[r] = durable[0][r] / durable[i+1][r]
		}
		b.ReportMetric(middle(quotients), "ratio_"+c.name)
		b.ReportMetric(readings/middle(handled[i+1]), "handled_"+c.name+"/s")
		if st := plants[i+1].Status("rule"); st.Failures > 0 || st.Missed > 0 {
			b.Errorf("%s: %+v", c.name, st)
		}
	}
}

// BenchmarkWriteBesideALoop compares how long a write waits for its commit, without scripts, beside one that loops
// for each reading until its steps are used up, and beside a behavior in Go that computes as long and rests as long, in
// turns, in one run: a write every 2 ms. p99 is that of all writes. Where the script's is not above that of Go, it
// takes the processor and nothing else.
//
//	go test ./server/script -run NONE -bench WriteBesideALoop -benchtime 1x
func BenchmarkWriteBesideALoop(b *testing.B) {
	const writes, rounds, every = 250, 8, 2 * time.Millisecond
	alone, beside, computing := build(b, b.TempDir()), build(b, b.TempDir()), build(b, b.TempDir())
	beside.put("loop", loop)
	took := loopTime(b)
	err := computing.behaviors.Register(b.Context(), behavior.Spec{Name: "compute", Keys: []string{"x"}, Handle: func(e *behavior.Entity, ev behavior.Event) error {
		if v, _ := ev.Value("x"); v.Int()%50 == 0 {
			return nil
		}
		for began := time.Now(); time.Since(began) < took; {
			for n := range 1000 {
				sink.Store(int64(n))
			}
		}
		return pause.For(e.Context(), 10*took)
	}})
	if err != nil {
		b.Fatal(err)
	}
	waits := make([][]float64, 3)
	ts := int64(1_700_000_000_000)
	for range b.N {
		for round := range rounds {
			for i, p := range []*plant{alone, beside, computing} {
				tick := time.NewTicker(every)
				var wg sync.WaitGroup
				var mu sync.Mutex
				for range writes {
					<-tick.C
					ts++
					began := time.Now()
					wg.Add(1)
					r := []entity.Reading{{TS: ts, Values: []entity.Sample{x(ts)}}}
					err := p.rt.Ingest(b.Context(), fmt.Sprintf("m%d", ts%100), r, 0, func(error) {
						took := time.Since(began)
						mu.Lock()
						defer mu.Unlock()
						if round > 0 {
							waits[i] = append(waits[i], took.Seconds()*1000)
						}
						wg.Done()
					})
					if err != nil {
						b.Fatal(err)
					}
				}
				wg.Wait()
				tick.Stop()
				switch i {
				case 1:
					p.sync("loop")
				case 2:
					if err := p.behaviors.Sync(b.Context(), "compute"); err != nil {
						b.Fatal(err)
					}
				}
			}
		}
	}
	for i, name := range []string{"alone", "beside", "beside_go"} {
		slices.Sort(waits[i])
		b.ReportMetric(waits[i][len(waits[i])/2], "p50_"+name+"_ms")
		b.ReportMetric(waits[i][len(waits[i])*99/100], "p99_"+name+"_ms")
	}
	st := beside.Status("loop")
	if st.Off != "" || st.Failures < writes*rounds/2 || !strings.Contains(st.Failed[0].Text, "loop.lua:1") {
		b.Errorf("%+v", st)
	}
	b.ReportMetric(float64(st.Failures), "loops")
}

var sink atomic.Int64 // so that what a loop computes is computed

// loopTime is how long the loop runs until its steps are used up, the shortest of five.
func loopTime(b *testing.B) time.Duration {
	b.Helper()
	box, err := lua.NewSandbox("loop.lua", "function run() while true do end end", lua.SandboxConfig{Steps: Steps})
	if err != nil {
		b.Fatal(err)
	}
	took := time.Hour
	for range 5 {
		began := time.Now()
		if _, err := box.Call("run", nil); !errors.Is(err, lua.ErrSteps) {
			b.Fatal(err)
		}
		took = min(took, time.Since(began))
	}
	return took
}

func middle(list []float64) float64 {
	list = slices.Sorted(slices.Values(list))
	return list[len(list)/2]
}
