package storetest

import (
	"slices"
	"testing"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/value"
)

// arrivedAreKeptEach checks that readings without a time of their own are rows of their
// own, beside one of the same time that has it.
func arrivedAreKeptEach(t *testing.T, k *kit) {
	const n = 50
	var want []entity.Point
	k.commit(k.batch(given{id: "a", seq: 1, ts: 5000, values: one("t", value.Int(-1))}))
	want = append(want, entity.Point{TS: 5000, Value: value.Int(-1)})
	for part := range 2 { // in two commits, and twice in the same place of the second
		var readings []given
		for i := range n {
			seq := uint64(2 + part*n + i)
			readings = append(readings, given{id: "a", seq: seq, ts: 5000, values: one("t", value.Int(int64(seq)))})
			want = append(want, entity.Point{TS: 5000, Value: value.Int(int64(seq)), Seq: seq})
		}
		b := k.batch(readings...)
		for i := range b.Records {
			b.Records[i].Arrived = true
		}
		b.Records[0].Once, b.Records[0].Created, b.Records[1].Number = 1<<63+7, true, 12
		k.commit(b)
	}
	k.commit(k.batch(given{id: "a", seq: 200, ts: 5001, values: one("t", value.String("x"))}))
	want = append(want, entity.Point{TS: 5001, Value: value.String("x")})
	for range 2 {
		for _, limit := range []int{1, 7, 1000} {
			if got := k.places(limit, false); !slices.Equal(got, want) {
				t.Errorf("by %d: %v\nwant %v", limit, got, want)
			}
			got := k.places(limit, true)
			if slices.Reverse(got); !slices.Equal(got, want) {
				t.Errorf("by %d, descending: %v\nwant %v", limit, got, want)
			}
		}
		if got, err := k.store.CountNumbers(t.Context(), "a", "t", 0, forever); err != nil || got != len(want)-1 {
			t.Errorf("%d numbers, %v, want %d", got, err, len(want)-1)
		}
		changes, err := k.store.Changes(t.Context(), 0, 1000)
		if err != nil || len(changes) != len(want) || changes[0].Arrived || !changes[1].Arrived || changes[1].Once != 1<<63+7 || !changes[1].Created || changes[2].Created || changes[2].Number != 12 {
			t.Errorf("%d changes, %v: %+v", len(changes), err, changes[:3])
		}
		k.reopen()
	}
	gone, err := k.store.Trim(t.Context(), "a", "t", 5001, 30)
	for err == nil && gone > 0 {
		gone, err = k.store.Trim(t.Context(), "a", "t", 5001, 30)
	}
	if got := k.places(1000, false); err != nil || !slices.Equal(got, want[len(want)-1:]) {
		t.Errorf("trimmed: %v, %v", got, err)
	}
}

// places reads the history of t of a by pages.
func (k *kit) places(limit int, descending bool) (all []entity.Point) {
	k.t.Helper()
	from, to := entity.AllOf(0, forever)
	for {
		page, err := k.store.History(k.t.Context(), "a", "t", from, to, limit, descending)
		if err != nil {
			k.t.Fatal(err)
		}
		all = append(all, page...)
		if len(page) < limit {
			return all
		}
		if to = page[limit-1].Place(); !descending {
			from, to = to, entity.Place{TS: forever}
			from.Seq++
		}
	}
}
