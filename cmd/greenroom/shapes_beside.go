package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/greenroom-go/greenroom/internal/pause"
)

// besideRounds returns how often each load is measured. The loads take turns, so that other activity
// on the machine affects them all. A duration under a second is too short to compare anything, and
// shows only that a shape runs: once is enough.
func (o *benchOptions) besideRounds() int {
	if o.duration < time.Second {
		return 1
	}
	return 3
}

// othersRate is how many messages per second the others send together.
const othersRate = 5000

// nuisance is a load beside which the others are measured.
type nuisance struct {
	name string
	unit string // of its count
	// run continues until ctx ends. It returns how many operations it has made, their latencies, or
	// nil if those mean nothing, and an error of the load itself.
	run func(ctx context.Context, at *child) (n int64, latency *latencies, err error)
}

// besideLoad is one of the loads that take turns, with the measurements of all its rounds.
type besideLoad struct {
	measured
	at        *child          // the server of the nuisance; nil for none
	p99       []time.Duration // of the others, for each round
	did       int64           // by the nuisance
	nuisances latencies
	beside    time.Duration // the duration of did
	peak      float64       // the most memory of the others' server, in bytes
}

// beside measures the others beside nuisances. Since a nuisance itself uses a part of the machine,
// it is also run on another server, which shows how two servers affect each other that share
// nothing else.
func (s *suite) beside(ctx context.Context, start func(context.Context, scratch) (*child, error), nuisances ...nuisance) (err error) {
	entities := s.entities(100_000)
	register := s.publisher("register", entities, meterMessage)
	register.goRound(1)
	if s.publish(ctx, fmt.Sprintf("register %d", entities), register); s.err != nil {
		return s.err
	}
	place, err := newScratch(cmp.Or(s.options.data, "."), "", "bench")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, place.remove()) }()
	elsewhere, err := start(ctx, place)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, elsewhere.kill()) }()
	for i := range nuisances {
		n := &nuisances[i]
		loads := []*besideLoad{
			newBesideLoad(fmt.Sprintf("others alone, %d/s", othersRate), nil),
			newBesideLoad("beside "+n.name, s.child),
			newBesideLoad(n.name+" elsewhere", elsewhere),
		}
		for range s.options.besideRounds() {
			for _, l := range loads {
				if err := s.besideRound(ctx, l, n, entities); err != nil {
					return err
				}
			}
		}
		for _, l := range loads {
			s.printBeside(l, loads[0], loads[2], n)
		}
	}
	return nil
}

// printBeside prints the effect of a nuisance on the others, compared with none and with one that
// only uses the same machine.
func (s *suite) printBeside(l, alone, elsewhere *besideLoad, n *nuisance) {
	if l.at == nil {
		s.print(&l.measured, "")
		return
	}
	rounds := make([]string, len(l.p99))
	for i := range l.p99 {
		rounds[i] = fmt.Sprintf("%.1f", float64(l.p99[i])/float64(alone.p99[i]))
	}
	p99 := func(l *besideLoad) float64 { return float64(l.latency.quantile(0.99)) }
	more := fmt.Sprintf("p99 %.1f times that alone (in the rounds %s)", p99(l)/p99(alone), strings.Join(rounds, ", "))
	if l != elsewhere {
		more += fmt.Sprintf(", %.1f times that with it elsewhere", p99(l)/p99(elsewhere))
	}
	more += fmt.Sprintf("  %.0f %s/s", float64(l.did)/l.beside.Seconds(), n.unit)
	if l.nuisances.n > 0 {
		more += fmt.Sprintf(", p99 %v", short(l.nuisances.quantile(0.99)))
	}
	if l.at == s.child {
		more += fmt.Sprintf("  memory at most %.0f MB", l.peak/1e6)
	}
	s.print(&l.measured, more)
}

// besideRound measures the others once.
func (s *suite) besideRound(ctx context.Context, l *besideLoad, n *nuisance, entities int) error {
	type done struct {
		n       int64
		latency *latencies
		err     error
	}
	running, stop := context.WithCancel(ctx)
	defer stop()
	ended, peaked := make(chan done, 1), make(chan float64, 1)
	if l.at == nil {
		ended <- done{}
	} else {
		go func() {
			var d done
			d.n, d.latency, d.err = n.run(running, l.at)
			ended <- d
		}()
	}
	go func() { peaked <- s.child.peak(running) }()
	others := s.others(entities)
	began := time.Now()
	m, err := s.measure(ctx, l.what, &latencies{}, func() (int64, error) {
		err := others.run(ctx)
		return others.acked.Load(), err
	})
	stop()
	d := <-ended
	l.beside += time.Since(began)
	l.peak = max(l.peak, <-peaked)
	if err = errors.Join(err, d.err); err != nil {
		return err
	}
	m.took = others.took
	l.add(&m, &others.latency)
	l.did += d.n
	if d.latency != nil {
		l.nuisances.merge(d.latency)
		if l.at == s.child {
			l.others += d.n
		}
	}
	return nil
}

// peakEvery is how often the memory is read.
const peakEvery = 250 * time.Millisecond

// peak returns the most memory that a server uses until ctx ends, in bytes.
func (c *child) peak(ctx context.Context) (most float64) {
	for pause.For(ctx, peakEvery) == nil {
		if f, err := c.figures(ctx); err == nil { // it may be too busy to answer
			most = max(most, f.rss)
		}
	}
	return most
}

// others returns a load that is distributed unevenly over the entities.
func (s *suite) others(entities int) *benchRun {
	zipf := make([]*rand.Zipf, s.options.connections)
	for i := range zipf {
		zipf[i] = rand.NewZipf(rand.New(rand.NewPCG(1, uint64(i))), 1.1, 1, uint64(entities-1))
	}
	r := s.publisher("others", entities, func(l *loader) (topic, payload []byte) {
		_, payload = meterMessage(l)
		return topicOf(int(zipf[l.index].Uint64())), payload
	})
	r.rate = othersRate
	return r
}

func newBesideLoad(what string, at *child) *besideLoad {
	return &besideLoad{measured: measured{what: what, latency: &latencies{}}, at: at}
}

// add adds the measurements of a round.
func (l *besideLoad) add(m *measured, latency *latencies) {
	l.p99 = append(l.p99, latency.quantile(0.99))
	l.measured.add(m, latency)
}

// floodRate is how many messages per second are sent to the flooded entity.
const floodRate = 10_000

// runSkew measures the others while one entity is flooded.
func runSkew(ctx context.Context, s *suite) error {
	plain := func(ctx context.Context, place scratch) (*child, error) { return startChild(ctx, place) }
	return s.beside(ctx, plain, nuisance{"a flooded entity", "messages", s.flood})
}

// flood sends messages to one entity.
func (s *suite) flood(ctx context.Context, at *child) (int64, *latencies, error) {
	r := s.publisher("flood", 1, func(l *loader) (topic, payload []byte) {
		_, payload = meterMessage(l)
		return []byte("e/flooded/telemetry"), payload
	})
	r.rate, r.link = floodRate, at.link
	err := r.run(ctx)
	return r.acked.Load(), &r.latency, err
}
