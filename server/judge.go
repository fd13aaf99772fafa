package server

import (
	"context"
	"errors"
	"sync"
	"time"
)

// maxJudgements bounds the results that a judge remembers.
const maxJudgements = 4096

// judgedFor is how long a result is shared.
const judgedFor = time.Second

// judge holds the results of filters for the changes of entities. Streams with the same filter
// share them: a filter is evaluated in the entity's turn, and 20 streams with a slow filter would
// block the entity 20 times for each of its changes.
//
// The zero value is ready to use. Methods may be called concurrently.
type judge struct {
	mu      sync.Mutex
	answers map[judged]*judgement // guarded by mu; the latest of each
}

// judged identifies the evaluation of a filter.
type judged struct{ typ, filter, entity string }

// judgement is the result at a change, or later. The fields after done are set before it is closed.
type judgement struct {
	seq     uint64
	asked   time.Time
	done    chan struct{}
	matched bool
	err     error
}

// errUnanswered is the error of a judgement that was not made.
var errUnanswered = errors.New("not answered")

// once returns the result for a change. For the first caller it calls ask. Others wait for its
// result, and call ask themselves if it has failed.
func (j *judge) once(ctx context.Context, about judged, seq uint64, ask func() (bool, error)) (bool, error) {
	a, first := j.answer(about, seq)
	if first {
		defer close(a.done) // also after a panic
		a.matched, a.err = ask()
		return a.matched, a.err
	}
	select {
	case <-a.done:
	case <-ctx.Done():
		return false, ctx.Err()
	}
	if a.err != nil {
		return ask()
	}
	return a.matched, nil
}

func (j *judge) answer(about judged, seq uint64) (a *judgement, first bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	// An entity is always evaluated in its present state, so a later result is valid for a stream
	// that is behind. An old one is not, because a filter may also refer to other entities and to
	// types.
	if a := j.answers[about]; a != nil && a.seq >= seq && time.Since(a.asked) < judgedFor {
		return a, false
	}
	if j.answers == nil || len(j.answers) >= maxJudgements {
		j.answers = make(map[judged]*judgement)
	}
	a = &judgement{seq: seq, asked: time.Now(), done: make(chan struct{}), err: errUnanswered}
	j.answers[about] = a
	return a, true
}
