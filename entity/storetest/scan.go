package storetest

import (
	"fmt"
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
