package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// skewRounds is how often each load is measured. They take turns, so that what else the
// machine does meanwhile hits all of them.
const skewRounds = 3

// skewRate and floodRate are messages a second: of the others together, and to the
// flooded entity.
const (
	skewRate  = 5000
	floodRate = 10_000
)

// skewLoad is one of the loads that take turns, with what all its rounds measured.
type skewLoad struct {
	measured
	flooded  *child          // where the flooded entity is, nil for none
	p99      []time.Duration // of the others, round by round
	flood    latencies
	floods   int64         // messages that the flooded entity took
	flooding time.Duration // in this time
}

// runSkew measures the others while one entity is flooded. As the load itself takes a
// part of the machine, it is put on another server as well, which shows what two servers
// that share nothing else take from one another.
func runSkew(ctx context.Context, s *suite) (err error) {
	entities := s.entities(100_000)
	register := s.publisher("skew-register", entities, meterMessage)
	register.goRound(1)
	if s.publish(ctx, fmt.Sprintf("register %d", entities), register); s.err != nil {
		return s.err
	}
	place, err := newScratch(cmp.Or(s.options.data, "."), "", "bench")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, place.remove()) }()
	elsewhere, err := startChild(ctx, place)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, elsewhere.kill()) }()
	loads := []*skewLoad{
		newSkewLoad(fmt.Sprintf("others alone, %d/s", skewRate), nil),
		newSkewLoad("others beside the flood", s.child),
		newSkewLoad("others, flood elsewhere", elsewhere),
	}
	for range skewRounds {
		for _, l := range loads {
			if err := s.skewRound(ctx, l, entities); err != nil {
				return err
			}
		}
	}
	for _, l := range loads {
		s.printSkew(l, loads[0])
	}
	return nil
}

// printSkew prints what a load did to the others, compared with none.
func (s *suite) printSkew(l, alone *skewLoad) {
	if l.flooded == nil {
		s.print(&l.measured, "")
		return
	}
	rounds := make([]string, len(l.p99))
	for i := range l.p99 {
		rounds[i] = fmt.Sprintf("%.1f", float64(l.p99[i])/float64(alone.p99[i]))
	}
	s.print(&l.measured, fmt.Sprintf("p99 %.1f times that alone (in the rounds %s)  the flooded entity %.0f messages/s, p99 %v",
		float64(l.latency.quantile(0.99))/float64(alone.latency.quantile(0.99)), strings.Join(rounds, ", "),
		float64(l.floods)/l.flooding.Seconds(), short(l.flood.quantile(0.99))))
}

// skewRound measures the others once.
func (s *suite) skewRound(ctx context.Context, l *skewLoad, entities int) error {
	flooding := make(chan error, 1)
	flood := s.publisher("flood", 1, func(l *loader) (topic, payload []byte) {
		_, payload = meterMessage(l)
		return []byte("e/flooded/telemetry"), payload
	})
	flood.rate = floodRate
	if l.flooded == nil {
		flooding <- nil
	} else {
		flood.mqtt = l.flooded.mqtt
		go func() { flooding <- flood.run(ctx) }()
	}
	others := s.others(entities)
	m, err := s.measure(ctx, l.what, &latencies{}, func() (int64, error) {
		err := others.run(ctx)
		return others.acked.Load(), err
	})
	if err = errors.Join(err, <-flooding); err != nil {
		return err
	}
	m.took = others.took
	l.add(&m, &others.latency)
	l.flood.merge(&flood.latency)
	l.floods += flood.acked.Load()
	l.flooding += flood.took
	if l.flooded == s.child {
		l.others += flood.acked.Load()
	}
	return nil
}

// others is a load that some of the entities have more of than others.
func (s *suite) others(entities int) *benchRun {
	zipf := make([]*rand.Zipf, s.options.connections)
	for i := range zipf {
		zipf[i] = rand.NewZipf(rand.New(rand.NewPCG(1, uint64(i))), 1.1, 1, uint64(entities-1))
	}
	r := s.publisher("others", entities, func(l *loader) (topic, payload []byte) {
		_, payload = meterMessage(l)
		return topicOf(int(zipf[l.index].Uint64())), payload
	})
	r.rate = skewRate
	return r
}

func newSkewLoad(what string, flooded *child) *skewLoad {
	return &skewLoad{measured: measured{what: what, latency: &latencies{}}, flooded: flooded}
}

// add adds a round.
func (l *skewLoad) add(m *measured, latency *latencies) {
	l.latency.merge(latency)
	l.p99 = append(l.p99, latency.quantile(0.99))
	l.took += m.took
	l.messages += m.messages
	l.values += m.values
	l.cpu += m.cpu
	l.disk += m.disk
	l.figures = m.figures
}
