package virtual_test

import (
	"fmt"
	"testing"

	"github.com/greenroom-go/greenroom/internal/attack/attacktest"
)

// tally is what the rounds have been through.
type tally struct {
	rounds                                                      int
	handled, dead, answers, refused                             uint64
	activations, passivations, failures, kills, restarts, downs uint64
}

// add adds a round.
func (y *tally) add(w *world) {
	st := w.sys.Stats()
	for _, l := range w.book.All() {
		y.handled += uint64(l.entries.Load() - l.forwards.Load())
		y.dead += uint64(l.dead.Load())
	}
	y.answers += w.counts.answers.Load()
	y.refused += w.counts.refused.Load()
	y.downs += w.counts.downs.Load()
	y.activations += w.counts.started.Load()
	y.passivations += w.counts.passivated.Load()
	y.kills += w.counts.killed.Load()
	y.failures += st.Failures
	y.restarts += st.Restarts
}

func (y *tally) String() string {
	return fmt.Sprintf("%d rounds; %d letters handled, %d dead, %d refused; %d answers; %d activations, %d passivations, %d kills; %d failures, %d restarts, %d downs",
		y.rounds, y.handled, y.dead, y.refused, y.answers, y.activations, y.passivations, y.kills, y.failures, y.restarts, y.downs)
}

// complete checks that the rounds do what they are for.
func (y *tally) complete(t *testing.T) {
	t.Helper()
	attacktest.Complete(t, y, y.handled, y.dead, y.refused, y.answers, y.activations, y.passivations, y.kills, y.failures, y.restarts, y.downs)
}
