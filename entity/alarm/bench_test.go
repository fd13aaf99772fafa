package alarm

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/value"
)

// BenchmarkIngestBesideRules compares how many readings a second become durable without
// rules with how many do with 10 and 100 that each reading concerns and that are not met; with
// 100 of which it concerns one; with 100 that compare it with another key, so that each is
// evaluated for each reading; and with 100 that raise and clear an alarm about every ten
// thousand readings each, all at once. In turns, in one run, and for so long that the log is
// moved into the history meanwhile. cpu is the processor time of a reading beside one without
// rules, with all that is done until it has been gone through.
//
//	go test ./entity/alarm -run NONE -bench IngestBesideRules -benchtime 1x
func BenchmarkIngestBesideRules(b *testing.B) {
	const entities, batch, batches, rounds = 1000, 10, 60, 41
	const last = 10_006 // the greatest value; a prime less one
	cases := []struct {
		name, key, raise, clear string
		rules                   int
	}{
		{"none", "t", "", "", 0},
		{"10", "t", "t > 10005 and exists(u)", "t < 1", 10},
		{"100", "t", "t > 10005 and exists(u)", "t < 1", 100},
		{"spread100", "t%d", "t%d > 10005 and exists(u)", "t%d < 1", 100},
		{"pairs100", "t", "t > u", "t < u", 100},
		{"alarms100", "t", "t > 10005", "t < 1", 100},
	}
	plants := make([]*plant, len(cases))
	for i, c := range cases {
		plants[i] = build(b)
		for n := range c.rules {
			of := func(text string) string { return strings.ReplaceAll(text, "%d", strconv.Itoa(n)) }
			plants[i].put(Rule{Name: fmt.Sprint("rule", n), Raise: of(c.raise), Clear: of(c.clear)})
		}
	}
	var clock int64 = start
	times, costs, lags := make([]time.Duration, len(cases)), make([]time.Duration, len(cases)), make([][]float64, len(cases))
	for range b.N {
		for round := range rounds {
			clock += batch
			for i, c := range cases {
				p := plants[i]
				began, cost := time.Now(), processorTime(b)
				var wg sync.WaitGroup
				for n := range batches {
					for e := range entities / 10 {
						key := strings.ReplaceAll(c.key, "%d", strconv.Itoa(e))
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
				times[i] += took
				costs[i] += processorTime(b) - cost
				lags[i] = append(lags[i], float64(time.Since(began)-took)/float64(time.Millisecond))
			}
			clock += batches * batch
		}
	}
	b.ReportMetric(float64(b.N*(rounds-1)*batches*entities/10*batch)/times[0].Seconds(), "readings/s")
	for i, c := range cases[1:] {
		slices.Sort(lags[i+1])
		b.ReportMetric(times[0].Seconds()/times[i+1].Seconds(), "ratio_"+c.name)
		b.ReportMetric(costs[i+1].Seconds()/costs[0].Seconds(), "cpu_"+c.name)
		b.ReportMetric(lags[i+1][len(lags[i+1])/2], "lag_ms_"+c.name)
	}
}

// processorTime is what the process has used.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var use syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &use); err != nil {
		b.Fatal(err)
	}
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}
