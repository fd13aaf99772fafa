package workload

import (
	"context"
	"sync"
)

// last ends a stream of messages, whose numbers are not negative.
const last = -1

// burst is how many messages the sender of floodinside tells in one turn: large
// enough that the turns cost little, small enough to stay in a cache.
const burst = 128

// counter spawns an actor that adds up what it receives, and reports when that
// many senders have ended their stream.
func (s show[C, R, S, A]) counter(senders int, done chan<- tally) R {
	var outside C
	return s.a.Role(func() Handler[C] {
		var received tally
		ended := 0
		return func(_ C, m Msg) {
			if m.N != last {
				received.add(m)
				return
			}
			if ended++; ended == senders {
				done <- received
				received, ended = tally{}, 0
			}
		}
	})(outside)
}

func (s show[C, R, S, A]) flood(ctx context.Context, size Size) (Figures, error) {
	var outside C
	done := make(chan tally, 1)
	to := s.counter(1, done)
	return measure(size.Ops, func(ops int) error {
		for i := range int64(ops) {
			s.a.Tell(outside, to, Msg{i})
		}
		s.a.Tell(outside, to, Msg{last})
		received, err := await(ctx, done)
		if err != nil {
			return err
		}
		return received.check(upTo(ops))
	})
}

func (s show[C, R, S, A]) fanIn(ctx context.Context, size Size) (Figures, error) {
	var outside C
	done := make(chan tally, 1)
	to := s.counter(size.Actors, done)
	return measure(size.Ops, func(ops int) error {
		each := max(1, ops/size.Actors)
		var sent tally
		var producers sync.WaitGroup
		for range size.Actors {
			sent = sent.plus(upTo(each))
			producers.Go(func() {
				for i := range int64(each) {
					s.a.Tell(outside, to, Msg{i})
				}
				s.a.Tell(outside, to, Msg{last})
			})
		}
		defer producers.Wait()
		received, err := await(ctx, done)
		if err != nil {
			return err
		}
		return received.check(sent)
	})
}

// floodInside has the sender tell a burst and then itself to go on, as an actor
// does that has others beside it.
func (s show[C, R, S, A]) floodInside(ctx context.Context, size Size) (Figures, error) {
	var outside C
	done := make(chan tally, 1)
	to := s.counter(1, done)
	sender := s.a.Role(func() Handler[C] {
		var next, end int64
		return func(ctx C, m Msg) {
			if m.N != last { // the order to begin, with how many
				next, end = 0, m.N
			}
			for stop := min(next+burst, end); next < stop; next++ {
				s.a.Tell(ctx, to, Msg{next})
			}
			if next == end {
				s.a.Tell(ctx, to, Msg{last})
				return
			}
			s.a.Tell(ctx, s.a.Self(ctx), Msg{last})
		}
	})(outside)
	return measure(size.Ops, func(ops int) error {
		s.a.Tell(outside, sender, Msg{int64(ops)})
		received, err := await(ctx, done)
		if err != nil {
			return err
		}
		return received.check(upTo(ops))
	})
}
