package planted

import (
	"testing"

	"github.com/greenroom-go/greenroom/sim"
)

func TestEachPlantedMistakeIsFoundAndReplayedByItsSeed(t *testing.T) {
	for _, c := range cases() {
		t.Run(c.Name, func(t *testing.T) {
			opts := c.Options
			opts.Runs = c.Within
			first, found := sim.Find(t, opts, func(w *sim.World) { c.Play(w, false) })
			if !found {
				t.Fatalf("not found in %d runs: %s", c.Within, c.Mistake)
			}
			opts.Runs, opts.Seeds = -1, []uint64{first.Seed}
			again, found := sim.Find(t, opts, func(w *sim.World) { c.Play(w, false) })
			if !found || again.Text != first.Text || again.Step != first.Step {
				t.Errorf("seed 0x%x made step %d: %s, and again step %d: %s", first.Seed, first.Step, first.Text, again.Step, again.Text)
			}
			t.Logf("run %d, step %d, shrunk to %d choices: %s", first.Run, first.Step, first.Choices, first.Text)
		})
	}
}

func TestTheSameSystemsMendedPass(t *testing.T) {
	for _, c := range cases() {
		t.Run(c.Name, func(t *testing.T) {
			opts := c.Options
			opts.Runs = 2 * c.Within
			sim.Check(t, opts, func(w *sim.World) { c.Play(w, true) })
		})
	}
}
