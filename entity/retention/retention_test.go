package retention

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/entity/internal/entitytest"
	"github.com/greenroom-go/greenroom/entity/series"
	"github.com/greenroom-go/greenroom/entity/value"
	"github.com/greenroom-go/greenroom/internal/pgtest"
)

// A series whose record is damaged does not keep the rules from the others.
func TestRetentionGoesOnBeyondADamagedSeries(t *testing.T) {
	t.Parallel()
	rt := entitytest.Open(t)
	later := time.UnixMilli(0).AddDate(1, 0, 0)
	for _, id := range []string{"a", "b", "c"} {
		entitytest.Post(t, rt, id, `{"ts":1000,"values":{"t":1}}`)
		entitytest.Post(t, rt, id, fmt.Sprintf(`{"ts":%d,"values":{"t":2}}`, later.UnixMilli()))
	}
	if _, err := rt.PutDoc(t.Context(), kindSeries, string(newSeriesName("b", "t")), []byte("damaged"), ""); err != nil {
		t.Fatal(err)
	}
	r := New(rt, slog.New(slog.DiscardHandler))
	r.now = func() time.Time { return later }
	t.Cleanup(r.Close)
	if _, err := r.PutRule(t.Context(), "r", &series.Rule{Key: "t", Raw: 7 * 24 * 3_600_000}, ""); err != nil {
		t.Fatal(err)
	}
	r.round()
	status := r.Status()
	if status.Removed != 2 {
		t.Errorf("the status is %+v; want two values removed", status)
	}
	if !strings.Contains(status.Error, `"b"`) {
		t.Errorf("the error is %s", status.Error)
	}
}

func TestRetentionOnPostgres(t *testing.T) {
	t.Parallel()
	pgtest.Again(t, "TestRetentionGoesOnBeyondADamagedSeries")
}

func FuzzDecodeChunk(f *testing.F) {
	sum := series.NewSummary(true)
	for i := range 3 {
		if err := sum.Add(series.Point{TS: 3_600_000 + int64(i), Value: value.Int(int64(i))}); err != nil {
			f.Fatal(err)
		}
	}
	const hour series.Span = 3_600_000
	body, err := encodeChunk([]series.Row{{Start: int64(hour), End: 2 * int64(hour), Summary: sum}}, hour, 0)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(body)
	f.Fuzz(func(t *testing.T, body []byte) {
		rows, err := decodeChunk(body, hour, 0)
		if err != nil {
			return
		}
		again, err := encodeChunk(rows, hour, 0)
		if err != nil {
			t.Fatal(err)
		}
		if back, err := decodeChunk(again, hour, 0); err != nil || len(back) != len(rows) {
			t.Errorf("%d rows became %d: %v", len(rows), len(back), err)
		}
	})
}
