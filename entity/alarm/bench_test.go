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
	"github.com/greenroom-go/greenroom/internal/pause"
)

// BenchmarkIngestBesideRules compares how many readings a second become durable without
// rules with how many do with 10 and 100 that each reading concerns and that are not met; with
// 100 of which it concerns one; with 100 that compare it with another key, so that each is
// evaluated for each reading; and with 100 that raise and clear an alarm about every ten
// thousand readings each, all at once. In turns, in one run, and for so long that the log is
// moved into the history meanwhile. Before each turn what the one before has left to the
// background is waited for. ratio is the middle one of the quotients of the rounds, and so is cpu: the
// processor time of a reading beside one without rules, with all that is done until it has been gone
// through. Most of what moves readings into the history is left out, because it is done in some of the
// rounds only: a reading without rules takes less than a microsecond here, and two or three more later.
// Readings come in process, in batches, as fast as nothing else can send them; for what rules cost
// readings of devices see greenroom bench --shape alarms. replays says how often the history was gone
// through, in all.
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
		plants[i] = buildUsual(b)
		for n := range c.rules {
			of := func(text string) string { return strings.ReplaceAll(text, "%d", strconv.Itoa(n)) }
			plants[i].put(Rule{Name: fmt.Sprint("rule", n), Raise: of(c.raise), Clear: of(c.clear)})
		}
	}
	var clock int64 = start
	times, costs, lags := make([][]float64, len(cases)), make([][]float64, len(cases)), make([][]float64, len(cases))
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
				lag := time.Since(began) - took
				settle(b)
				if round == 0 { // what is known of the entities is read
					continue
				}
				times[i] = append(times[i], took.Seconds())
				costs[i] = append(costs[i], (processorTime(b) - cost).Seconds())
				lags[i] = append(lags[i], float64(lag)/float64(time.Millisecond))
			}
			clock += batches * batch
		}
	}
	b.ReportMetric(batches*entities/10*batch/middle(times[0]), "readings/s")
	for i, c := range cases[1:] {
		b.ReportMetric(middle(quotients(times[0], times[i+1])), "ratio_"+c.name)
		b.ReportMetric(middle(quotients(costs[i+1], costs[0])), "cpu_"+c.name)
		b.ReportMetric(middle(lags[i+1]), "lag_ms_"+c.name)
		if n := plants[i+1].Stats().Replays; n > 0 {
			b.ReportMetric(float64(n), "replays_"+c.name)
		}
	}
}

// quotients returns those of the same rounds.
func quotients(of, by []float64) []float64 {
	list := make([]float64, len(of))
	for i := range list {
		list[i] = of[i] / by[i]
	}
	return list
}

// middle returns the median.
func middle(list []float64) float64 {
	list = slices.Sorted(slices.Values(list))
	return list[len(list)/2]
}

// settle waits until the process does nothing any more.
func settle(b *testing.B) {
	b.Helper()
	for quiet := 0; quiet < 3; {
		before := processorTime(b)
		if err := pause.For(b.Context(), 20*time.Millisecond); err != nil {
			b.Fatal(err)
		}
		if quiet++; processorTime(b)-before > 2*time.Millisecond {
			quiet = 0
		}
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
