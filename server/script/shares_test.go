package script

import (
	"math"
	"runtime"
	"testing"
	"time"
)

// runFor has scripts of owners make calls of so many steps, one after the other with their rests, and returns how much of
// the time each script was running.
func runFor(s *shares, total time.Duration, steps int64, scripts map[Owner]int) map[Owner]float64 {
	type runner struct {
		owner Owner
		next  time.Time
	}
	began := time.Unix(1000, 0)
	var list []*runner
	for o, n := range scripts {
		for range n {
			list = append(list, &runner{o, began})
		}
	}
	used := map[Owner]float64{}
	for {
		first := list[0]
		for _, r := range list {
			if r.next.Before(first.next) {
				first = r
			}
		}
		if first.next.Sub(began) > total {
			return used
		}
		took := time.Duration(steps) * stepTime
		ends := first.next.Add(took)
		first.next = ends.Add(s.spend(first.owner, steps, ends))
		used[first.owner] += took.Seconds() / total.Seconds()
	}
}

func TestLightScriptsRestTogether(t *testing.T) {
	half := float64(runtime.GOMAXPROCS(0)) / 2
	ann, ben := Owner{Name: "ann"}, Owner{Name: "ben"}
	for _, c := range []struct {
		scripts map[Owner]int
		ann     float64 // about
	}{
		{map[Owner]int{ann: 8 * runtime.GOMAXPROCS(0)}, half},
		{map[Owner]int{ann: 8 * runtime.GOMAXPROCS(0), ben: runtime.GOMAXPROCS(0)}, half / 2},
	} {
		s := &shares{owners: map[Owner]*share{}}
		used := runFor(s, 10*time.Second, RestSteps-1, c.scripts)
		if math.Abs(used[ann]-c.ann) > 0.04*c.ann { // what they may be ahead at first, and the last calls
			t.Errorf("%v: ann's scripts use %.3f processors, want %.2f", c.scripts, used[ann], c.ann)
		}
		if n, ok := c.scripts[ben]; ok && n > 0 && used[ben] < c.ann*0.9 {
			t.Errorf("%v: ben's scripts use %.3f processors beside them, want %.1f", c.scripts, used[ben], c.ann)
		}
	}
	s := &shares{owners: map[Owner]*share{}}
	if used := runFor(s, 10*time.Second, 100, map[Owner]int{ann: 1}); runtime.GOMAXPROCS(0) > 1 && used[ann] < 0.99 {
		t.Errorf("one runner of light calls uses %.3f of a processor, and never has to rest", used[ann])
	}
}
