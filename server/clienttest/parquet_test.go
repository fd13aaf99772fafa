package clienttest

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/greenroom-go/greenroom/server"
)

// TestParquetIsReadByHyparquet has another implementation of Parquet read a history of all kinds of
// values, in blocks and in rows, of which a filter and a range are exported.
func TestParquetIsReadByHyparquet(t *testing.T) {
	t.Parallel()
	s := start(t, server.Config{})
	var want []string
	fill := func(from, to int) {
		for _, id := range []string{"a", "b", "not meant"} {
			var lines strings.Builder
			for i := from; i < to; i++ {
				for _, c := range cells(i) {
					fmt.Fprintf(&lines, "{\"entity\":%q,\"ts\":%d,\"values\":{%q:%s}}\n", id, i*1000, c.key, c.json)
					if id != "not meant" && i >= 20 && i < 180 {
						want = append(want, c.row(id, i*1000))
					}
				}
			}
			s.do("POST", "/v1/import?what=history", lines.String(), "Content-Type", "application/x-ndjson")
		}
	}
	fill(0, 100)
	s.do("POST", "/v1/compact", "")
	fill(100, 200)
	path := filepath.Join(t.TempDir(), "history.parquet")
	body := s.do("GET", "/v1/export?what=history&format=parquet&from=20000&to=180000&q=id+!%3D+%22not+meant%22", "")
	if err := os.WriteFile(path, []byte(body), 0o600); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(client(t, "parquet.mjs", map[string]any{"path": path})), "\n")
	const columns = "entity UTF8 REQUIRED, key UTF8 REQUIRED, ts TIMESTAMP_MILLIS REQUIRED, number DOUBLE OPTIONAL, " +
		"integer INT_64 OPTIONAL, boolean BOOLEAN OPTIONAL, text UTF8 OPTIONAL, json JSON OPTIONAL"
	if lines[0] != columns {
		t.Errorf("the columns are %s, want %s", lines[0], columns)
	}
	got := lines[1:]
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%d rows are read of %d, which begin with %q; want %q", len(got), len(want), got[:min(3, len(got))], want[:min(3, len(want))])
	}
}

// cell is a value, as JSON and as what hyparquet is to find.
type cell struct {
	key, json                            string
	number, integer, boolean, text, tree any
}

func (c *cell) row(id string, ts int) string {
	text, err := json.Marshal([]any{id, c.key, ts, c.number, c.integer, c.boolean, c.text, c.tree})
	if err != nil {
		panic(err)
	}
	return string(text)
}

// cells are the values of one time, of which one is of changing kind.
func cells(i int) []cell {
	bits := func(f float64) string { return fmt.Sprintf("%x", math.Float64bits(f)) }
	f := float64(i) / 7
	float := cell{key: "float", json: fmt.Sprint(f), number: bits(f)}
	if i%7 == 0 { // it has no fraction in JSON
		float.integer = fmt.Sprint(i / 7)
	}
	large := int64(math.MaxInt64 - i)
	list := []cell{
		float,
		{key: "int", json: fmt.Sprint(large), number: bits(float64(large)), integer: fmt.Sprint(large)},
		{key: "bool", json: fmt.Sprint(i%3 == 0), boolean: i%3 == 0},
		{key: "text", json: fmt.Sprintf("%q", strings.Repeat("ä", i%50)), text: strings.Repeat("ä", i%50)},
		{key: "json", json: fmt.Sprintf(`{"n":%d}`, i), tree: map[string]int{"n": i}},
	}
	mixed := list[i%len(list)]
	mixed.key = "mixed"
	return append(list, mixed)
}
