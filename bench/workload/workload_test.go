package workload

import (
	"errors"
	"testing"
)

func TestPercentileIsAValueThatWasSeen(t *testing.T) {
	hundred := make([]float64, 100)
	for i := range hundred {
		hundred[i] = float64(i + 1)
	}
	for _, c := range []struct {
		sorted  []float64
		p, want float64
	}{
		{hundred, 50, 50},
		{hundred, 99, 99},
		{hundred, 100, 100},
		{hundred, 0, 1},
		{[]float64{7}, 50, 7},
		{[]float64{7}, 99, 7},
		{[]float64{1, 2, 3}, 50, 2},
		{[]float64{1, 2, 3, 4}, 50, 2},
	} {
		if got := percentile(c.sorted, c.p); got != c.want {
			t.Errorf("percentile %v of %d values is %v, want %v", c.p, len(c.sorted), got, c.want)
		}
	}
}

func TestTallySeesALossThatADoubleMakesUpFor(t *testing.T) {
	var t1 tally
	for _, n := range []int64{0, 1, 1, 3} {
		t1.add(Msg{n})
	}
	if err := t1.check(upTo(4)); !errors.Is(err, ErrWrongCount) {
		t.Errorf("0, 1, 1, 3 passed for 0, 1, 2, 3: %v", err)
	}
	if err := (tally{4, 6}).check(upTo(4)); err != nil {
		t.Error(err)
	}
}

func TestCheckHopsGivesTheRestToTheFirst(t *testing.T) {
	if err := checkHops([]int64{4, 4, 3}, 11); err != nil {
		t.Error(err)
	}
	for _, hops := range [][]int64{{4, 3, 4}, {4, 4, 4}, {4, 4, 2}, {0, 0, 0}} {
		if err := checkHops(hops, 11); !errors.Is(err, ErrWrongCount) {
			t.Errorf("%v passed for 11 hops: %v", hops, err)
		}
	}
}

func TestCheckPingsWantsEachPingAndEachPong(t *testing.T) {
	if err := checkPings([]*pinger{{pings: 3}, {pings: 1}}, 2); err != nil {
		t.Error(err)
	}
	for _, p := range [][]*pinger{{{pings: 2}, {pings: 1}}, {{pings: 2}, {pings: 2, left: 1}}} {
		if err := checkPings(p, 2); !errors.Is(err, ErrWrongCount) {
			t.Errorf("%+v passed: %v", p, err)
		}
	}
}

func TestAPingerPicksEachOtherAndNeverItself(t *testing.T) {
	for self := range 5 {
		p := &pinger{self: self, others: 4, random: uint64(self) + 1}
		var picked [5]int
		for range 1000 {
			picked[p.other()]++
		}
		for i, n := range picked {
			if (n == 0) != (i == self) {
				t.Errorf("actor %d picked actor %d %d times", self, i, n)
			}
		}
	}
}

func TestSpinIsZeroAndTakesRounds(t *testing.T) {
	if spin(0) != 0 || spin(10_000) != 0 {
		t.Error("spin is not zero")
	}
	if n := roundsFor(handlerTime); n < 1 {
		t.Errorf("a handler's time takes %d rounds", n)
	}
}

func TestEveryWorkloadHasItsSizesAndItsText(t *testing.T) {
	seen := make(map[string]bool)
	for _, w := range All() {
		if w.Name == "" || seen[w.Name] || w.About == "" {
			t.Errorf("the name %q is empty or taken, or nothing is said about it", w.Name)
		}
		seen[w.Name] = true
		if w.Full == (Size{}) || w.Quick == (Size{}) {
			t.Errorf("%s has no size", w.Name)
		}
		if w.Quick.Ops > w.Full.Ops || w.Quick.Actors > w.Full.Actors || w.Quick.Window > w.Full.Window {
			t.Errorf("%s is larger in a smoke test: %+v, %+v", w.Name, w.Quick, w.Full)
		}
		if got, err := Named(w.Name); err != nil || got.Name != w.Name {
			t.Errorf("Named(%q) = %v, %v", w.Name, got.Name, err)
		}
	}
	if _, err := Named("floods"); !errors.Is(err, ErrNoWorkload) {
		t.Errorf("the error is %v", err)
	}
}
