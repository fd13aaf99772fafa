package server

import (
	"context"
	"errors"
	"sync"
	"time"
)

// maxJudgements bounds the answers that a judge remembers.
const maxJudgements = 4096

// judgedFor is how long an answer is shared.
const judgedFor = time.Second

// judge has the answers of filters to the changes of entities. Streams that have the same
// filter share them: an entity is looked at in its own turn, where 20 streams with a
// filter that takes long would hold it up 20 times for each of its changes.
//
// Its zero value is ready to use, and its methods may be called concurrently.
type judge struct {
	mu      sync.Mutex
	answers map[judged]*judgement // guarded by mu; the latest of each
}

// judged is what a filter is asked about.
type judged struct{ typ, filter, entity string }

// judgement is the answer at a change, or later. What follows seq is set before done is closed.
type judgement struct {
	seq     uint64
	asked   time.Time
	done    chan struct{}
	matched bool
	err     error
}

// errUnanswered is the error of a judgement that was not made.
var errUnanswered = errors.New("not answered")

// once returns the answer to a change, which ask finds out for the first who wants it.
// The others wait for that, and ask themselves where it has failed.
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
	// An entity is always judged as it is now, so a later answer is good for a stream that
	// is behind. An old one is not: a filter may look at other entities and at types, too.
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
