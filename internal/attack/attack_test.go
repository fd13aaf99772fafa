package attack_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

var (
	flagTime = flag.Duration("attack.time", 0, "how long to run rounds with new seeds; 0 for the short form")
	flagSeed = flag.Uint64("attack.seed", 0, "the seed of a find: its round is repeated")
	flagMode = flag.String("attack.mode", "", "the only mode, all of them if empty")
)

// repeats is how often the round of a seed is run that was given.
const repeats = 100

// TestAttack runs rounds: a few of each mode, those of -attack.time, or those of one seed.
func TestAttack(t *testing.T) {
	var chosen []mode
	for _, m := range modes {
		if *flagMode == "" || *flagMode == m.name {
			chosen = append(chosen, m)
		}
	}
	if len(chosen) == 0 {
		t.Fatalf("there is no mode %q", *flagMode)
	}
	c := startControl()
	defer c.stop()
	began, rounds := time.Now(), make(map[string]int)
	var total tally
	play := func(m mode, seed uint64) {
		rounds[m.name]++
		procs := runtime.GOMAXPROCS(0)
		if os.Getenv("GOMAXPROCS") == "" {
			procs = 1 + rand.New(rand.NewPCG(seed, 0)).IntN(2)
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
		}
		if problems := playRound(m, seed, c, &total); len(problems) > 0 {
			t.Fatalf("FOUND: mode %s, seed %#x, GOMAXPROCS %d, round %d\nagain: go test ./internal/attack -attack.mode %s -attack.seed %#x\n%s",
				m.name, seed, procs, rounds[m.name], m.name, seed, strings.Join(problems, "\n"))
		}
	}
	switch {
	case *flagSeed != 0:
		for range repeats {
			play(chosen[0], *flagSeed)
		}
	case *flagTime > 0:
		seed := uint64(time.Now().UnixNano())
		for i := uint64(0); time.Since(began) < *flagTime; i++ {
			play(chosen[i%uint64(len(chosen))], seed+i)
		}
	default:
		for i := range uint64(shortRounds) {
			for _, m := range chosen {
				if m.clings == 0 || i%2 == 0 { // what clings takes long
					play(m, i+1)
				}
			}
		}
	}
	var said []string
	for _, m := range chosen {
		said = append(said, fmt.Sprintf("%s %d", m.name, rounds[m.name]))
	}
	t.Logf("soak: %s: rounds: %s; %s", t.Name(), strings.Join(said, ", "), total.String())
	total.complete(t, *flagMode == "" && *flagSeed == 0)
}

// shortRounds is how many rounds of each mode `make test` has.
const shortRounds = 4
