package attack_test

import (
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/internal/attack/attacktest"
)

var flagMode = flag.String("attack.mode", "", "the only mode, all of them if empty")

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
	began, played := time.Now(), make(map[string]int)
	var total tally
	play := func(m mode, seed uint64) {
		played[m.name]++
		procs, restore := attacktest.SetProcs(seed)
		defer restore()
		if problems := playRound(m, seed, c, &total); len(problems) > 0 {
			t.Fatalf("FOUND: mode %s, seed %#x, GOMAXPROCS %d, round %d\nagain: go test ./internal/attack -attack.mode %s -attack.seed %#x\n%s",
				m.name, seed, procs, played[m.name], m.name, seed, strings.Join(problems, "\n"))
		}
	}
	switch {
	case *attacktest.Seed != 0:
		for range attacktest.Repeats {
			play(chosen[0], *attacktest.Seed)
		}
	case *attacktest.Time > 0:
		seed := uint64(time.Now().UnixNano())
		for i := uint64(0); time.Since(began) < *attacktest.Time; i++ {
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
		said = append(said, fmt.Sprintf("%s %d", m.name, played[m.name]))
	}
	t.Logf("soak: %s: rounds: %s; %s", t.Name(), strings.Join(said, ", "), total.String())
	total.complete(t, *flagMode == "" && *attacktest.Seed == 0)
}

// shortRounds is how many rounds of each mode `make test` has.
const shortRounds = 4
