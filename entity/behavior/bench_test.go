package behavior

import (
	"fmt"
	"slices"
	"sync"
	"syscall"
	"testing"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/value"
)

// BenchmarkManyBehaviors compares the processor time of a reading from its arrival until all behaviors have gone
// past it, with none, and with some that have each a feed of their own: of a key that no reading has, and of one that
// each has, with a handler that does nothing. By turns, in one run; the middle one of the rounds.
//
//	go test ./entity/behavior -run NONE -bench ManyBehaviors -benchtime 1x
func BenchmarkManyBehaviors(b *testing.B) {
	const entities, batch, rounds = 500, 20, 9
	cases := []struct {
		name, key string
		n         int
	}{{"none", "", 0}, {"8_of_another_key", "y", 8}, {"32_of_another_key", "y", 32}, {"8_called", "x", 8}}
	plants, took := make([]*plant, len(cases)), make([][]float64, len(cases))
	for i, c := range cases {
		plants[i] = build(b)
		for n := range c.n {
			err := plants[i].Register(b.Context(), Spec{Name: fmt.Sprint("b", n), Keys: []string{c.key}, Handle: func(*Entity, Event) error { return nil }})
			if err != nil {
				b.Fatal(err)
			}
		}
	}
	ts := int64(start)
	for range b.N {
		for round := range rounds {
			for i, p := range plants {
				began := processorTime(b)
				p.ingestAll(b, entities, batch, ts)
				for n := range cases[i].n {
					if err := p.Sync(b.Context(), fmt.Sprint("b", n)); err != nil {
						b.Fatal(err)
					}
				}
				if round > 0 { // what is known of the entities is read
					took[i] = append(took[i], (processorTime(b)-began)/(entities*batch))
				}
			}
			ts += batch
		}
	}
	for i, c := range cases {
		slices.Sort(took[i])
		b.ReportMetric(took[i][len(took[i])/2], "µs_"+c.name)
	}
}

// ingestAll writes so many readings of so many entities, and returns when they are durable.
func (p *plant) ingestAll(b *testing.B, entities, batch int, ts int64) {
	var wg sync.WaitGroup
	for e := range entities {
		readings := make([]entity.Reading, batch)
		for k := range readings {
			readings[k] = entity.Reading{TS: ts + int64(k), Values: []entity.Sample{{Key: "x", Value: value.Int(ts + int64(k))}}}
		}
		wg.Add(1)
		if err := p.rt.Ingest(b.Context(), fmt.Sprint("m", e), readings, 0, func(error) { wg.Done() }); err != nil {
			b.Fatal(err)
		}
	}
	wg.Wait()
}

// processorTime returns that of the process, in microseconds.
func processorTime(b *testing.B) float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1000
}
