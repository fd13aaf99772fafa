package series

import (
	"bytes"
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/entity/value"
)

// occupancy returns the real recording, by key, and the sum of its file.
func occupancy(t testing.TB) (series map[string][]Point, sum string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "testdata", "occupancy", "occupancy-training.csv"))
	if err != nil {
		t.Fatal(err)
	}
	digest := sha256.Sum256(data)
	return readOccupancy(t, data), hex.EncodeToString(digest[:])
}

func readOccupancy(t testing.TB, data []byte) map[string][]Point {
	t.Helper()
	rows, err := csv.NewReader(bytes.NewReader(data)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	series := make(map[string][]Point)
	for _, row := range rows[1:] {
		ts, err := time.Parse(time.DateTime, row[0])
		if err != nil {
			t.Fatal(err)
		}
		for i, key := range rows[0][1:] {
			series[key] = append(series[key], Point{ts.UnixMilli(), parseNumber(t, row[i+1])})
		}
	}
	return series
}

// parseNumber reads a number as a payload is read.
func parseNumber(t testing.TB, text string) value.Value {
	t.Helper()
	if i, err := strconv.ParseInt(text, 10, 64); err == nil {
		return value.Int(i)
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		t.Fatal(err)
	}
	return finite(f)
}

// TestAnswersAboutTheRecordingAreThoseOfAnotherProgram compares with what
// testdata/occupancy.py has worked out by fractions.
func TestAnswersAboutTheRecordingAreThoseOfAnotherProgram(t *testing.T) {
	series, sum := occupancy(t)
	text, err := os.ReadFile(filepath.Join("testdata", "occupancy.json"))
	if err != nil {
		t.Fatal(err)
	}
	var golden struct {
		SHA256  string
		Answers []struct {
			Key, Grid, Zone string
			Buckets         [][]json.Number
		}
	}
	if err := json.Unmarshal(text, &golden); err != nil {
		t.Fatal(err)
	}
	if sum != golden.SHA256 {
		t.Fatalf("the recording, %s, is not the one that testdata/occupancy.json describes", sum)
	}
	funcs := []Func{Count, Min, Max, First, Last, Sum, Avg, "p50", "p95", Rate}
	for _, a := range golden.Answers {
		q := Query{Grid: mustGrid(t, a.Grid, a.Zone), Funcs: funcs}
		got := collect(t, q.Aggregate(Each(series[a.Key])))
		if len(got) != len(a.Buckets) || len(got) < 2 {
			t.Errorf("%s by %s: %d buckets, want %d", a.Key, a.Grid, len(got), len(a.Buckets))
			continue
		}
		for i, want := range a.Buckets {
			compareWithGolden(t, a.Key+" by "+a.Grid, funcs, got[i], want)
		}
	}
}

// compareWithGolden compares a bucket with its start and its numbers, exactly but
// for those that are divided or lie between two.
func compareWithGolden(t *testing.T, what string, funcs []Func, got Bucket, want []json.Number) {
	t.Helper()
	if start, err := want[0].Int64(); err != nil || start != got.Start {
		t.Errorf("%s: a bucket begins at %d, want %s", what, got.Start, want[0])
		return
	}
	for i, f := range funcs {
		n := got.Values[i]
		if want[i+1] == "" {
			if !n.IsZero() {
				t.Errorf("%s, %d: %s is %v, want none", what, got.Start, f, n)
			}
			continue
		}
		w := parseNumber(t, want[i+1].String())
		exact := n == w || n.Kind() != value.KindInt && w.Kind() == value.KindInt && value.CompareNumbers(n, w) == 0
		_, percentile := f.percentile()
		switch diff := abs(float(n) - float(w)); {
		case percentile && got.Count > ExactPercentiles:
			exact = diff <= PercentileError*abs(float(w))
		case percentile, f == Avg, f == Rate:
			exact = diff <= 1e-15*abs(float(w))
		}
		if !exact {
			t.Errorf("%s, %d: %s is %v, want %v", what, got.Start, f, n, w)
		}
	}
}

// TestRollupsOfTheRecordingAnswerTheSame has the rows go through a store.
func TestRollupsOfTheRecordingAnswerTheSame(t *testing.T) {
	series, _ := occupancy(t)
	for key, points := range series {
		q := Query{Grid: mustGrid(t, "day", "Europe/Brussels"), Funcs: everyFunc}
		want := collect(t, q.Aggregate(Each(points)))
		var got []Bucket
		a, err := NewAggregator(q, func(b Bucket) error { got = append(got, b); return nil })
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range rowsOf(t, points, hour, true) {
			data, err := row.Summary.MarshalBinary()
			var stored Summary
			if err != nil || stored.UnmarshalBinary(data) != nil {
				t.Fatal(err)
			}
			if err := a.AddRow(Row{row.Start, row.End, &stored}); err != nil {
				t.Fatal(err)
			}
		}
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		compareRollups(t, key, points, q, got, want)
	}
}

// compareRollups allows percentiles the error of a sketch only where a bucket has
// more numbers than are kept exactly: an hour has about 60, a day 1440.
func compareRollups(t *testing.T, key string, points []Point, q Query, got, want []Bucket) {
	t.Helper()
	for i := range want {
		for j, f := range q.Funcs {
			g, w := got[i].Values[j], want[i].Values[j]
			if same(f, g, w) {
				continue
			}
			exact := modelBucket(q, points, want[i].Start, want[i].End).Values[j]
			if _, percentile := f.percentile(); !percentile || got[i].Count <= ExactPercentiles || abs(float(g)-float(exact)) > PercentileError*abs(float(exact)) {
				t.Errorf("%s: %s of %d is %v from rows, %v from values", key, f, want[i].Start, g, w)
			}
		}
	}
}

func abs(f float64) float64 { return max(f, -f) }
