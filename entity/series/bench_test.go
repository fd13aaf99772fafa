package series

import (
	"math"
	"testing"
)

// BenchmarkAggregate makes hours of a day of readings a second apart:
//
//	go test -run '^$' -bench Aggregate ./entity/series
func BenchmarkAggregate(b *testing.B) {
	points := make([]Point, 86_400)
	for i := range points {
		points[i] = Point{int64(i) * 1000, finite(math.Round(20+300*math.Sin(float64(i)/1000)) / 100)}
	}
	for _, bench := range []struct {
		name  string
		funcs []Func
		grid  string
	}{
		{"extremes", []Func{Min, Max, Count, First, Last}, "1h"},
		{"avg", []Func{Avg, Sum}, "1h"},
		{"rate", []Func{Rate}, "1h"},
		{"percentiles", []Func{"p50", "p95", "p99"}, "1h"},
		{"exact-percentiles", []Func{"p50", "p95", "p99"}, "15m"},
		{"all-calendar", []Func{Min, Max, Avg, Sum, Count, First, Last, Rate, "p50"}, "hour"},
	} {
		b.Run(bench.name, func(b *testing.B) {
			q := Query{Grid: mustGrid(b, bench.grid, "Europe/Brussels"), Funcs: bench.funcs}
			b.ReportAllocs()
			for b.Loop() {
				if len(collect(b, q.Aggregate(Each(points)))) < 24 {
					b.Fatal("hours are missing")
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(points)), "ns/point")
		})
	}
}

func BenchmarkDownsample(b *testing.B) {
	points := make([]Point, 100_000)
	for i := range points {
		points[i] = Point{int64(i) * 1000, finite(math.Sin(float64(i) / 1000))}
	}
	for b.Loop() {
		if len(Downsample(points, 1000)) != 1000 {
			b.Fatal("points are missing")
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(points)), "ns/point")
}

// BenchmarkRows makes a day of rows of a minute, as a dashboard asks for a year of
// rows of an hour.
func BenchmarkRows(b *testing.B) {
	points := make([]Point, 86_400)
	for i := range points {
		points[i] = Point{int64(i) * 1000, finite(20 + math.Sin(float64(i)/1000))}
	}
	var encoded [][]byte
	rows := rowsOf(b, points, minute, true)
	size := 0
	for _, row := range rows {
		data, err := row.Summary.MarshalBinary()
		if err != nil {
			b.Fatal(err)
		}
		encoded = append(encoded, data)
		size += len(data)
	}
	q := Query{Grid: mustGrid(b, "1h", "UTC"), Funcs: []Func{Avg, Max, "p95"}}
	for b.Loop() {
		a, err := NewAggregator(q, func(Bucket) error { return nil })
		if err != nil {
			b.Fatal(err)
		}
		for i, row := range rows {
			var s Summary
			if err := s.UnmarshalBinary(encoded[i]); err != nil {
				b.Fatal(err)
			}
			if err := a.AddRow(Row{row.Start, row.End, &s}); err != nil {
				b.Fatal(err)
			}
		}
		if err := a.Close(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(rows)), "ns/row")
	b.ReportMetric(float64(size)/float64(len(rows)), "B/row")
}
