package postgres

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/sqlite"
	"github.com/greenroom-go/greenroom/entity/value"
	"github.com/greenroom-go/greenroom/internal/pgtest"
)

// BenchmarkCommit measures commits of readings of three keys, of a thousand
// entities in turn, with SQLite as the control. B/value is what the store has
// grown by on the disk, indexes and latest values included and logs left out,
// divided by the values.
func BenchmarkCommit(b *testing.B) {
	stores := map[string]func(b *testing.B) (s entity.Store, size func() int64){
		"postgres": func(b *testing.B) (entity.Store, func() int64) {
			url := pgtest.Database(b)
			return open(b, url, Options{}), func() int64 { return tableBytes(b, url) }
		},
		"sqlite": func(b *testing.B) (entity.Store, func() int64) {
			dir := b.TempDir()
			s, err := sqlite.Open(b.Context(), dir, sqlite.Options{ChangeLogBytes: 1})
			if err != nil {
				b.Fatal(err)
			}
			return s, func() int64 { return dirBytes(b, dir) }
		},
	}
	for _, n := range []int{1, 100, 3000} {
		for _, name := range []string{"postgres", "sqlite"} {
			b.Run(fmt.Sprintf("readings=%d/keys=3/store=%s", n, name), func(b *testing.B) {
				s, size := stores[name](b)
				defer s.Close()
				g := generator{next: 1, ts: 1_780_000_000_000}
				for range 3 { // the entities, keys and partitions are there
					commitNext(b, s, &g, 1000)
				}
				before, first := size(), g.next
				b.ReportAllocs()
				for b.Loop() {
					commitNext(b, s, &g, n)
				}
				readings := float64(g.next - first)
				b.ReportMetric(readings/b.Elapsed().Seconds(), "readings/s")
				b.ReportMetric(float64(size()-before)/(3*readings), "B/value")
			})
		}
	}
}

// generator makes batches as the runtime does.
type generator struct {
	next uint64
	ts   int64
	nums [1000]int64
}

var benchValues = []entity.Sample{
	{Key: "temperature", Value: value.Float(21.5)}, {Key: "humidity", Value: value.Float(40)}, {Key: "on", Value: value.Bool(true)},
}

func commitNext(b *testing.B, s entity.Store, g *generator, n int) {
	b.Helper()
	batch := &entity.Batch{First: g.next, Committed: g.ts}
	places := map[int]int{}
	for i := range n {
		g.ts += 11
		e, seq := int(g.next+uint64(i))%len(g.nums), g.next+uint64(i)
		place, ok := places[e]
		if !ok {
			place = len(batch.Entities)
			places[e] = place
			batch.Entities = append(batch.Entities, entity.BatchEntity{Num: g.nums[e], ID: fmt.Sprintf("sensor-%d", e), Created: 1})
			for _, v := range benchValues {
				batch.Latest = append(batch.Latest, entity.LatestRow{Entity: place})
				_ = v
			}
		}
		for j, v := range benchValues {
			batch.Latest[len(benchValues)*place+j].Latest = entity.Latest{Key: v.Key, TS: g.ts, Seq: seq, Value: v.Value}
		}
		batch.Records = append(batch.Records, entity.Record{Entity: place, Seq: seq, Reading: entity.Reading{TS: g.ts, Values: benchValues}})
	}
	if err := s.Commit(b.Context(), batch); err != nil {
		b.Fatal(err)
	}
	for e, place := range places {
		g.nums[e] = batch.Entities[place].Num
	}
	g.next += uint64(n)
}

func tableBytes(b *testing.B, url string) (bytes int64) {
	b.Helper()
	conn, err := pgx.Connect(b.Context(), url)
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close(b.Context())
	err = conn.QueryRow(b.Context(), `SELECT sum(pg_total_relation_size(c.oid)) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE n.nspname = 'greenroom' AND c.relkind = 'r' AND c.relname <> 'change'`).Scan(&bytes)
	if err != nil {
		b.Fatal(err)
	}
	return bytes
}

func dirBytes(b *testing.B, dir string) (bytes int64) {
	b.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) == ".db-wal" {
			return err
		}
		info, err := os.Stat(path)
		bytes += info.Size()
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	return bytes
}

// BenchmarkScan reads histories that are sealed, with SQLite as the control: all of a long one, and
// short ones, one series after the other as a question about many entities does. A short one has a
// block of 100 values. us/series is what one of them takes.
func BenchmarkScan(b *testing.B) {
	stores := map[string]func(b *testing.B) entity.Store{
		"postgres": func(b *testing.B) entity.Store { return open(b, pgtest.Database(b), Options{SealAfter: -1}) },
		"sqlite": func(b *testing.B) entity.Store {
			s, err := sqlite.Open(b.Context(), b.TempDir(), sqlite.Options{SealAfter: -1})
			if err != nil {
				b.Fatal(err)
			}
			return s
		},
	}
	for _, shape := range []struct{ series, values int }{{1, 125_000}, {1000, 100}} {
		for _, name := range []string{"postgres", "sqlite"} {
			b.Run(fmt.Sprintf("series=%d/values=%d/store=%s", shape.series, shape.values, name), func(b *testing.B) {
				s := stores[name](b)
				defer s.Close()
				for first := 0; first < shape.values; first += 100 {
					commitSeries(b, s, shape.series, first, 100)
				}
				if err := s.Compact(b.Context()); err != nil {
					b.Fatal(err)
				}
				next := 0
				for b.Loop() {
					id, n := fmt.Sprintf("sensor-%d", next%shape.series), 0
					err := s.Scan(b.Context(), id, "t", 0, entity.MaxTS, func(c *entity.Chunk) error {
						columns, err := c.Columns()
						n += columns.Len()
						return err
					})
					if err != nil || n != shape.values {
						b.Fatalf("%d values of %s, %v", n, id, err)
					}
					next++
				}
				b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N), "us/series")
			})
		}
	}
}

// commitSeries commits values of "t" of the entities sensor-0, sensor-1 and so on.
func commitSeries(b *testing.B, s entity.Store, series, first, values int) {
	b.Helper()
	batch := &entity.Batch{First: uint64(first)*uint64(series) + 1, Committed: 1}
	for i := range series {
		batch.Entities = append(batch.Entities, entity.BatchEntity{ID: fmt.Sprintf("sensor-%d", i), Created: 1})
		for n := first; n < first+values; n++ {
			seq := batch.First + uint64(len(batch.Records))
			sample := entity.Sample{Key: "t", Value: value.Float(20 + float64(n%97)/8)}
			batch.Records = append(batch.Records, entity.Record{Entity: i, Seq: seq, Reading: entity.Reading{TS: 1_780_000_000_000 + int64(n)*1000, Values: []entity.Sample{sample}}})
			if n == first+values-1 {
				batch.Latest = append(batch.Latest, entity.LatestRow{Entity: i, Latest: entity.Latest{Key: "t", TS: batch.Records[len(batch.Records)-1].Reading.TS, Seq: seq, Value: sample.Value}})
			}
		}
	}
	if err := s.Commit(b.Context(), batch); err != nil {
		b.Fatal(err)
	}
}
