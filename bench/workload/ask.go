package workload

import (
	"context"
	"fmt"
	"sync"
)

// increment is the server of the ask workloads. It counts in its own turn;
// whoever has got an answer sees the count of it.
func (s show[C, R, S, A]) increment(handled *int64, each func(n int64)) S {
	return s.a.Server(func(m Msg) Msg {
		*handled++
		each(*handled)
		return Msg{m.N + 1}
	})
}

// askMany asks ops times and checks each answer.
func (s show[C, R, S, A]) askMany(ctx C, server S, ops int) error {
	for i := range int64(ops) {
		answer, err := s.a.Ask(ctx, server, Msg{i})
		if err != nil {
			return fmt.Errorf("ask %d: %w", i, err)
		}
		if answer.N != i+1 {
			return fmt.Errorf("%w: the answer to request %d is %d, not %d", ErrWrongCount, i, answer.N, i+1)
		}
	}
	return nil
}

func checkAnswers(answered int64, asked int) error {
	if answered != int64(asked) {
		return fmt.Errorf("%w: %d requests were handled, %d were sent", ErrWrongCount, answered, asked)
	}
	return nil
}

func (s show[C, R, S, A]) ask(ctx context.Context, size Size) (Figures, error) {
	var outside C
	var handled int64
	server := s.increment(&handled, func(int64) {})
	return measure(size.Ops, func(ops int) error {
		handled = 0
		each := max(1, ops/size.Actors)
		errs := make(chan error, size.Actors)
		var askers sync.WaitGroup
		for range size.Actors - 1 {
			askers.Go(func() { errs <- s.askMany(outside, server, each) })
		}
		errs <- s.askMany(outside, server, each)
		askers.Wait()
		for range size.Actors {
			if err := <-errs; err != nil {
				return err
			}
		}
		if err := context.Cause(ctx); err != nil {
			return err
		}
		return checkAnswers(handled, each*size.Actors)
	})
}

// askInside awaits in a handler. Where the runtime can tell, the number of its
// workers is looked at while the asker waits.
func (s show[C, R, S, A]) askInside(ctx context.Context, size Size) (Figures, error) {
	var outside C
	var handled int64
	most := 0
	counter, counted := any(s.a).(WorkerCounter)
	server := s.increment(&handled, func(n int64) {
		if counted && n%1024 == 1 {
			most = max(most, counter.Workers())
		}
	})
	done := make(chan error, 1)
	asker := s.a.Role(func() Handler[C] {
		return func(ctx C, m Msg) { done <- s.askMany(ctx, server, int(m.N)) }
	})(outside)
	figures, err := measure(size.Ops, func(ops int) error {
		handled = 0
		s.a.Tell(outside, asker, Msg{int64(ops)})
		failed, err := await(ctx, done)
		if err != nil {
			return err
		}
		if failed != nil {
			return failed
		}
		return checkAnswers(handled, ops)
	})
	if err == nil && counted {
		figures[Workers] = float64(most)
	}
	return figures, err
}
