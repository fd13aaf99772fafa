package sqlite

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/value"
)

// The first and the last rows of a tail are those of all of them, also where several have the same
// place.
func TestSomeRowsOfTheTailAreThoseOfAll(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	key, other := &name{1, "t"}, &name{2, "u"}
	for range 50 {
		tail := newTail()
		for i := range 1 + rng.IntN(3000) {
			k := key
			if rng.IntN(4) == 0 {
				k = other
			}
			tail.add("a", 1, tailRow{key: k, ts: 1 + rng.Int64N(500), seq: uint64(rng.IntN(3)), arrived: rng.IntN(2) == 0, change: uint64(i), value: value.Int(int64(i))})
		}
		from, to := entity.Place{TS: rng.Int64N(300)}, entity.Place{TS: 200 + rng.Int64N(300), Seq: uint64(rng.IntN(3))}
		all := tail.points("a", "t", from, to, noLimit, false)
		for _, limit := range []int{0, 1, 2, 63, 64, 65, 1000} {
			n := min(limit, len(all))
			if got := tail.points("a", "t", from, to, limit, false); !slices.Equal(got, all[:n]) {
				t.Fatalf("the first %d of %d are %v", limit, len(all), got)
			}
			if got := tail.points("a", "t", from, to, limit, true); !slices.Equal(got, all[len(all)-n:]) {
				t.Fatalf("the last %d of %d are %v", limit, len(all), got)
			}
		}
	}
}

// A page of a series does not copy and sort all that its entity has in the tail.
func TestAPageOfALongTailHoldsLittleMoreThanItReturns(t *testing.T) {
	const rows, limit = 100_000, 16
	tail, key := newTail(), &name{1, "t"}
	rng := rand.New(rand.NewPCG(7, 8))
	for i := range rows {
		tail.add("a", 1, tailRow{key: key, ts: rng.Int64N(rows), change: uint64(i), value: value.Int(int64(i))})
	}
	for _, descending := range []bool{false, true} {
		list := tail.series("a", "t", entity.Place{}, entity.Place{TS: rows}, limit, descending)
		if len(list) != limit || cap(list) > 512 {
			t.Errorf("descending %v: %d rows in a list of %d", descending, len(list), cap(list))
		}
	}
}
