package workload

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"
)

// handlerTime is how long the flooded actor of the workload fair works for each
// message.
const handlerTime = time.Microsecond

// backlogMax bounds the memory: a producer that is that many messages ahead
// waits. Whether one did is a figure.
const backlogMax = 8_000_000

// flooded is an actor that two producers flood. The handler stops working for
// its messages when the time is over, so that the backlog is gone soon.
type flooded[R any] struct {
	to      R
	over    atomic.Bool
	handled atomic.Int64
	capped  atomic.Bool
	done    chan tally
}

func (s show[C, R, S, A]) floodedActor(producers int) *flooded[R] {
	var outside C
	rounds := roundsFor(handlerTime)
	f := &flooded[R]{done: make(chan tally, 1)}
	f.to = s.a.Role(func() Handler[C] {
		var received tally
		ended := 0
		return func(_ C, m Msg) {
			if m.N == last {
				if ended++; ended == producers {
					f.done <- received
				}
				return
			}
			if !f.over.Load() {
				m.N += spin(rounds) // zero
			}
			received.add(m)
			f.handled.Store(received.count)
		}
	})(outside)
	return f
}

// produce floods until the time is over, and returns what it sent.
func (s show[C, R, S, A]) produce(f *flooded[R], share int64) tally {
	const atOnce = 256
	var outside C
	var sent tally
	for !f.over.Load() {
		for range atOnce {
			m := Msg{sent.count}
			s.a.Tell(outside, f.to, m)
			sent.add(m)
		}
		for sent.count*share-f.handled.Load() > backlogMax && !f.over.Load() {
			f.capped.Store(true)
			time.Sleep(time.Millisecond) //nolint:forbidigo // nothing tells that a mailbox has become shorter
		}
	}
	s.a.Tell(outside, f.to, Msg{last})
	return sent
}

func (s show[C, R, S, A]) fair(ctx context.Context, size Size) (Figures, error) {
	const producers = 2
	f, q := s.floodedActor(producers), s.quietActor(size.Window)
	sent := make([]tally, producers)
	var producing sync.WaitGroup
	for i := range sent {
		producing.Go(func() { sent[i] = s.produce(f, producers) })
	}
	err := s.tell(ctx, q, size.Window)
	took := time.Since(q.began)
	handled := f.handled.Load()
	f.over.Store(true)
	producing.Wait()
	if err != nil {
		return nil, err
	}
	received, err := await(ctx, f.done)
	if err != nil {
		return nil, fmt.Errorf("flooded actor: %w", err)
	}
	all := sent[0].plus(sent[1])
	if err := received.check(all); err != nil {
		return nil, err
	}
	figures, err := q.figures()
	if err != nil {
		return nil, err
	}
	maps.Copy(figures, Figures{FloodPerS: float64(handled) / took.Seconds(), Backlog: float64(all.count - handled)})
	if f.capped.Load() {
		figures[Capped] = 1
	}
	return figures, nil
}

// spin keeps the processor busy and returns zero, which nobody but the reader
// of this line knows.
func spin(rounds int) int64 {
	x := uint64(1)
	for range rounds {
		x = x * 48271 % 2147483647 // never zero: the modulus is prime
	}
	if x == 0 {
		return 1
	}
	return 0
}

// roundsFor returns how many rounds take that long here: the best of some
// tries, since a disturbance only ever makes one longer.
func roundsFor(d time.Duration) int {
	const tries, rounds = 32, 4096
	best := time.Duration(1 << 62)
	for range tries {
		began := time.Now()
		if spin(rounds) != 0 {
			return 0
		}
		best = min(best, max(time.Since(began), 1))
	}
	return max(1, int(rounds*d/best))
}
