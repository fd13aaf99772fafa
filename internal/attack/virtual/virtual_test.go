package virtual_test

import (
	"testing"

	"github.com/greenroom-go/greenroom/internal/attack/attacktest"
)

// shortRounds is how many rounds `make test` has.
const shortRounds = 8

// TestVirtualActors runs rounds: a few, those of -attack.time, or those of one seed.
func TestVirtualActors(t *testing.T) {
	var total tally
	total.rounds = attacktest.Play(t, "internal/attack/virtual", shortRounds, func(seed uint64) []string { return playRound(seed, &total) })
	t.Logf("soak: %s: %s", t.Name(), &total)
	if *attacktest.Seed == 0 {
		total.complete(t)
	}
}
