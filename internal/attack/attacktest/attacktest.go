// Package attacktest has what the attacks have in common: their flags, the loop over seeds, the list of what is
// wrong in a round, and the wait for what has yet to come. Only tests import it.
package attacktest

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// The flags of an attack.
var (
	Time = flag.Duration("attack.time", 0, "how long to run rounds with new seeds; 0 for the short form")
	Seed = flag.Uint64("attack.seed", 0, "the seed of a find: its round is repeated")
)

// Repeats is how often the round of a seed is run that was given.
const Repeats = 100

// Play plays the rounds of the attack in a package, by its path: the short form, those of -attack.time, or those of
// one seed. round plays one and returns what is wrong, which ends the test. Play returns how many it has played.
func Play(t *testing.T, path string, short int, round func(seed uint64) (problems []string)) (played int) {
	t.Helper()
	play := func(seed uint64) {
		t.Helper()
		procs, restore := SetProcs(seed)
		defer restore()
		played++
		if problems := round(seed); len(problems) > 0 {
			t.Fatalf("FOUND: seed %#x, GOMAXPROCS %d, round %d\nagain: go test ./%s -attack.seed %#x\n%s",
				seed, procs, played, path, seed, strings.Join(problems, "\n"))
		}
	}
	switch {
	case *Seed != 0:
		for range Repeats {
			play(*Seed)
		}
	case *Time > 0:
		seed := uint64(time.Now().UnixNano())
		for began := time.Now(); time.Since(began) < *Time; seed++ {
			play(seed)
		}
	default:
		for seed := range uint64(short) {
			play(seed + 1)
		}
	}
	return played
}

// SetProcs has a round run on one or two processors, as its seed says, unless the environment does. It returns on how
// many, and what undoes it.
func SetProcs(seed uint64) (procs int, restore func()) {
	if os.Getenv("GOMAXPROCS") != "" {
		return runtime.GOMAXPROCS(0), func() {}
	}
	procs = 1 + rand.New(rand.NewPCG(seed, 0)).IntN(2)
	before := runtime.GOMAXPROCS(procs)
	return procs, func() { runtime.GOMAXPROCS(before) }
}

// Complete checks that none of the counts is 0: the rounds do what they are for.
func Complete(t *testing.T, total fmt.Stringer, counts ...uint64) {
	t.Helper()
	if slices.Contains(counts, 0) {
		t.Errorf("the rounds do not reach all: %s", total)
	}
}
