package far_test

import (
	"flag"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

var (
	flagTime = flag.Duration("attack.time", 0, "how long to run rounds with new seeds; 0 for the short form")
	flagSeed = flag.Uint64("attack.seed", 0, "the seed of a find: its round is repeated")
)

const (
	repeats     = 100 // of the round of a seed that was given
	shortRounds = 4
)

// TestFarActors runs rounds: a few, those of -attack.time, or those of one seed.
func TestFarActors(t *testing.T) {
	var total tally
	play := func(seed uint64) {
		procs := runtime.GOMAXPROCS(0)
		if os.Getenv("GOMAXPROCS") == "" {
			procs = 1 + int(seed%2)
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
		}
		total.rounds++
		if problems := playRound(seed, &total); len(problems) > 0 {
			t.Fatalf("FOUND: seed %#x, GOMAXPROCS %d, round %d\nagain: go test ./internal/attack/far -attack.seed %#x\n%s",
				seed, procs, total.rounds, seed, strings.Join(problems, "\n"))
		}
	}
	switch {
	case *flagSeed != 0:
		for range repeats {
			play(*flagSeed)
		}
	case *flagTime > 0:
		seed := uint64(time.Now().UnixNano())
		for began := time.Now(); time.Since(began) < *flagTime; seed++ {
			play(seed)
		}
	default:
		for seed := range uint64(shortRounds) {
			play(seed + 1)
		}
	}
	t.Logf("soak: %s: %s", t.Name(), &total)
	if *flagSeed == 0 {
		total.complete(t)
	}
}
