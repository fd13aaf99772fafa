package server

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
)

func TestStreamsWithTheSameFilterAskOnceAChange(t *testing.T) {
	t.Parallel()
	var j judge
	var asked atomic.Int64
	var streams sync.WaitGroup
	arrived := make(chan struct{})
	for range 20 {
		streams.Go(func() {
			<-arrived
			for seq := range uint64(3) {
				matched, err := j.once(t.Context(), judged{"", "text icontains \"x\"", "a"}, seq, func() (bool, error) {
					asked.Add(1)
					return true, nil
				})
				if err != nil || !matched {
					t.Errorf("change %d: %v, %v", seq, matched, err)
				}
			}
		})
	}
	close(arrived)
	streams.Wait()
	if n := asked.Load(); n < 1 || n > 3 {
		t.Errorf("asked %d times, want once for each of 3 changes at most", n)
	}
}

func TestAJudgeThatFailsIsAskedAgain(t *testing.T) {
	t.Parallel()
	var j judge
	failed := errors.New("failed")
	for _, want := range []error{failed, nil} {
		_, err := j.once(t.Context(), judged{entity: "a"}, 1, func() (bool, error) { return true, want })
		if !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
	}
	for i := range 2 * maxJudgements {
		_, _ = j.once(context.Background(), judged{entity: fmt.Sprint(i)}, 1, func() (bool, error) { return true, nil })
	}
	if len(j.answers) > maxJudgements {
		t.Errorf("%d answers are remembered", len(j.answers))
	}
}
