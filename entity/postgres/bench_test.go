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
