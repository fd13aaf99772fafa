package alarm

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/value"
)

// BenchmarkIngestBesideRules compares how many readings a second become durable without
// rules with how many do with 10 and 100 of which each is evaluated for each reading, and
// with 100 of which each reading concerns one; in turns, in one run. An alarm is raised or
// clears about every ten thousand readings of a rule. After it, all has been gone through.
//
//	go test ./entity/alarm -run NONE -bench IngestBesideRules -benchtime 1x
func BenchmarkIngestBesideRules(b *testing.B) {
	const entities, batch, batches, rounds = 1000, 10, 60, 8
	const last = 10_006 // the greatest value; a prime less one
	cases := []struct {
		name   string
		rules  int
		spread bool
	}{{"none", 0, false}, {"10", 10, false}, {"100", 100, false}, {"spread100", 100, true}}
	plants := make([]*plant, len(cases))
	for i, c := range cases {
		plants[i] = build(b)
		for n := range c.rules {
			key := "t"
			if c.spread {
				key = fmt.Sprintf("t%d", n)
			}
			plants[i].put(Rule{Name: fmt.Sprint("rule", n), Raise: fmt.Sprintf("%s > %d", key, last-1), Clear: key + " < 1"})
		}
	}
	var clock int64 = start
	rates, lags := make([][]float64, len(cases)), make([][]float64, len(cases))
	for range b.N {
		for round := range rounds {
			clock += batch
			for i, c := range cases {
				p := plants[i]
				began := time.Now()
				var wg sync.WaitGroup
				for n := range batches {
					for e := range entities / 10 {
						key := "t"
						if c.spread {
							key = fmt.Sprintf("t%d", e)
						}
						readings := make([]entity.Reading, batch)
						for k := range readings {
							readings[k] = entity.Reading{TS: clock + int64(n*batch+k), Values: []entity.Sample{{Key: key, Value: value.Int((clock + int64(n*batch+k)*7 + int64(e)*13) % (last + 1))}}}
						}
						wg.Add(1)
						if err := p.rt.Ingest(b.Context(), fmt.Sprintf("m%d", e), readings, 0, func(error) { wg.Done() }); err != nil {
							b.Fatal(err)
						}
					}
				}
				wg.Wait()
				took := time.Since(began)
				p.sync()
				if round == 0 { // what is known of the entities is read
					continue
				}
				rates[i] = append(rates[i], float64(batches*entities/10*batch)/took.Seconds())
				lags[i] = append(lags[i], float64(time.Since(began)-took)/float64(time.Millisecond))
			}
			clock += batches * batch
		}
	}
	median := func(list []float64) float64 {
		slices.Sort(list)
		return list[len(list)/2]
	}
	none := median(rates[0])
	b.ReportMetric(none, "readings/s")
	for i, c := range cases[1:] {
		b.ReportMetric(median(rates[i+1])/none, "ratio_"+c.name)
		b.ReportMetric(median(lags[i+1]), "lag_ms_"+c.name)
	}
}
