package far_test

import (
	"fmt"
	"testing"

	"github.com/greenroom-go/greenroom/internal/attack/attacktest"
)

// tally is what the rounds have been through.
type tally struct {
	rounds                                     int
	handled, near, far, answers, unreachable   uint64
	cuts, reconnects, resent, losses, renewals uint64
	downs, partings, exits                     uint64
}

// add adds a round.
func (y *tally) add(w *world) {
	for _, l := range w.book.All() {
		y.handled += uint64(l.handled.Load())
		y.near += uint64(l.near.Load())
		y.far += uint64(l.far.Load())
	}
	peer := w.peer()
	y.reconnects += peer.Reconnects
	y.resent += peer.Resent
	y.cuts += w.network.cuts
	y.renewals += uint64(len(w.fars) - 1)
	y.losses += w.counts.losses.Load()
	y.answers += w.counts.answers.Load()
	y.unreachable += w.counts.unreachable.Load()
	y.downs += w.counts.downs.Load()
	y.partings += w.counts.partings.Load()
	y.exits += w.counts.exits.Load()
}

func (y *tally) String() string {
	return fmt.Sprintf("%d rounds; %d letters handled, %d dead here, %d there; %d answers, %d unreachable; %d ends of connections cut, %d reconnects, %d frames resent, %d losses, %d nodes started again; %d downs, %d partings, %d exits",
		y.rounds, y.handled, y.near, y.far, y.answers, y.unreachable, y.cuts, y.reconnects, y.resent, y.losses, y.renewals, y.downs, y.partings, y.exits)
}

// complete checks that the rounds do what they are for.
func (y *tally) complete(t *testing.T) {
	t.Helper()
	attacktest.Complete(t, y, y.handled, y.near, y.far, y.answers, y.unreachable, y.cuts, y.reconnects, y.losses, y.renewals, y.downs, y.partings, y.exits)
	if *attacktest.Time > 0 { // whether the few rounds of the short form resend a frame is a matter of time
		attacktest.Complete(t, y, y.resent)
	}
}
