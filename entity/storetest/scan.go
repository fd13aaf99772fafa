package storetest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/block"
	"github.com/greenroom-go/greenroom/entity/value"
)

// scanned reads a series with Scan, and checks what the chunks say of themselves.
func (k *kit) scanned(id, key string, from, to int64) (points []entity.Point) {
	k.t.Helper()
	err := k.store.Scan(k.t.Context(), id, key, from, to, func(c *entity.Chunk) error {
		columns, err := c.Columns()
		if err != nil {
			return err
		}
		n, numbers := columns.Len(), 0
		if n == 0 || n > block.MaxRows {
			return fmt.Errorf("a chunk of %d points", n)
		}
		for i := range n {
			v := columns.Value(i)
			points = append(points, entity.Point{TS: columns.TS[i], Seq: columns.SeqAt(i), Value: v})
			if v.IsNumber() {
				numbers++
			}
		}
		if h := c.Header(); h != nil && (h.Count != n || h.Numbers != numbers || h.First != columns.TS[0] || h.Last != columns.TS[n-1]) {
			return fmt.Errorf("a chunk of %d points with the header %+v", n, h)
		}
		return nil
	})
	if err != nil {
		k.t.Fatalf("scan of %q %q: %v", id, key, err)
	}
	return points
}

// scanFindsWhatHistoryFinds compares the two, for values of all kinds, with and without a time of
// their own.
func scanFindsWhatHistoryFinds(t *testing.T, k *kit) {
	rnd := rand.New(rand.NewPCG(20, 5))
	const n, hour = 600, 3_600_000
	values := []value.Value{value.Int(7), value.Float(2.5), value.Bool(true), value.String("x"), entity.ParseJSON([]byte("[1]"))}
	var readings []given
	for i := range n {
		readings = append(readings, given{id: "a", seq: uint64(i + 1), ts: rnd.Int64N(40) * hour / 8, values: one("t", values[rnd.IntN(len(values))])})
	}
	for part := range slices.Chunk(readings, 50) {
		b := k.batch(part...)
		for i := range b.Records {
			b.Records[i].Arrived = rnd.IntN(2) == 0
		}
		k.commit(b)
	}
	for range 20 {
		from := rnd.Int64N(5 * hour)
		to := from + rnd.Int64N(5*hour)
		got, want := k.scanned("a", "t", from, to), k.history("a", "t", from, to, n, false)
		if !slices.Equal(got, want) {
			t.Fatalf("from %d to %d: %d points, of which the history has %d", from, to, len(got), len(want))
		}
	}
	if got := k.scanned("a", "t", 0, forever); len(got) != len(k.history("a", "t", 0, forever, n, false)) {
		t.Errorf("%d points of all", len(got))
	}
	for _, nobody := range [][2]string{{"a", "u"}, {"b", "t"}} {
		if got := k.scanned(nobody[0], nobody[1], 0, forever); len(got) > 0 {
			t.Errorf("%v has %d points", nobody, len(got))
		}
	}
	failed := fmt.Errorf("no more")
	calls := 0
	err := k.store.Scan(t.Context(), "a", "t", 0, forever, func(*entity.Chunk) error { calls++; return failed })
	if err == nil || calls != 1 {
		t.Errorf("an error of the function: %v after %d calls", err, calls)
	}
}

// compactChangesNoAnswer compacts a history to which late, corrected and new values are added in
// between, and asks the same before and after.
func compactChangesNoAnswer(t *testing.T, k *kit) {
	rnd := rand.New(rand.NewPCG(20, 8))
	const hour = 3_600_000
	last := make(map[entity.Place]entity.Point)
	seq := uint64(0)
	for range 4 {
		var readings []given
		for range 300 {
			seq++
			readings = append(readings, given{id: "a", seq: seq, ts: rnd.Int64N(900) * hour / 200, values: one("t", value.Int(rnd.Int64N(5)))})
		}
		b := k.batch(readings...)
		for i := range b.Records {
			b.Records[i].Arrived = rnd.IntN(4) == 0
			p := b.Records[i].Place()
			last[p] = entity.Point{TS: p.TS, Seq: p.Seq, Value: b.Records[i].Values[0].Value}
		}
		k.commit(b)
		want := slices.SortedFunc(maps.Values(last), func(a, b entity.Point) int { return a.Place().Compare(b.Place()) })
		for range 2 {
			if got := k.places(77, false); !slices.Equal(got, want) {
				t.Fatalf("%d points, which are not the %d that there must be", len(got), len(want))
			}
			got := k.places(77, true)
			if slices.Reverse(got); !slices.Equal(got, want) {
				t.Fatalf("descending, %d points, which are not the %d that there must be", len(got), len(want))
			}
			if got := k.scanned("a", "t", 0, forever); !slices.Equal(got, want) {
				t.Fatalf("a scan has %d points, which are not the %d that there must be", len(got), len(want))
			}
			if n, err := k.store.CountNumbers(t.Context(), "a", "t", hour, 3*hour); err != nil || n != countIn(want, hour, 3*hour) {
				t.Fatalf("%d numbers, %v", n, err)
			}
			k.compact()
			if sealed, open := k.values(); sealed != int64(len(want)) || open != 0 {
				t.Fatalf("%d values are sealed and %d are not, of %d", sealed, open, len(want))
			}
		}
		k.reopen()
	}
	gone, err := k.store.Trim(t.Context(), "a", "t", 2*hour, 100_000)
	left := 0
	for p := range last {
		if p.TS >= 2*hour {
			left++
		}
	}
	if got := k.places(1000, false); err != nil || gone != len(last)-left || len(got) != left || got[0].TS < 2*hour {
		t.Errorf("trimmed %d of %d, %v; %d are left", gone, len(last), err, len(got))
	}
}

func countIn(points []entity.Point, from, to int64) (n int) {
	for i := range points {
		if points[i].TS >= from && points[i].TS < to {
			n++
		}
	}
	return n
}
