package far_test

import (
	"testing"

	"github.com/greenroom-go/greenroom/internal/attack/attacktest"
)

// shortRounds is how many rounds `make test` has.
const shortRounds = 4

// TestFarActors runs rounds: a few, those of -attack.time, or those of one seed.
func TestFarActors(t *testing.T) {
	var total tally
	total.rounds = attacktest.Play(t, "internal/attack/far", shortRounds, func(seed uint64) []string { return playRound(seed, &total) })
	t.Logf("soak: %s: %s", t.Name(), &total)
	if *attacktest.Seed == 0 {
		total.complete(t)
	}
}
