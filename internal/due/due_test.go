package due

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestTheFirstIsTheOneThatIsDueFirst(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	var q Queue[int]
	timers := make([]Timer[int], 50)
	for i := range timers {
		timers[i].Value = i
	}
	for range 5000 {
		i := rng.IntN(len(timers))
		at := rng.Int64N(60) - 20 // a third is in the past of the beginning, and some are never due
		q.Set(&timers[i], at)
		if got := timers[i].At(); got != at {
			t.Fatalf("set to %d, due at %d", at, got)
		}
		n, next := 0, int64(math.MaxInt64)
		for j := range timers {
			if at := timers[j].At(); at != 0 {
				n++
				next = min(next, at)
			}
		}
		if q.Len() != n || q.Next() != next {
			t.Fatalf("%d timers, the next one at %d, want %d and %d", q.Len(), q.Next(), n, next)
		}
		first := q.First()
		if (first == nil) != (n == 0) || first != nil && (first.At() != next || first != &timers[first.Value]) {
			t.Fatalf("the first is %+v, want one at %d", first, next)
		}
	}
	for q.First() != nil {
		q.Set(q.First(), 0)
	}
	if q.Len() != 0 || q.Next() != math.MaxInt64 {
		t.Errorf("%d timers are left, the next one at %d", q.Len(), q.Next())
	}
}
