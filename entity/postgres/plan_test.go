package postgres

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/value"
	"github.com/greenroom-go/greenroom/internal/pgtest"
)

// The queries of a page are planned once for each connection, with indexes, although the tables were
// empty then.
func TestReadingASeriesPlansNothingAnew(t *testing.T) {
	t.Parallel()
	s := open(t, pgtest.Database(t), Options{SealAfter: -1, Readers: 1})
	defer closeStore(t, s)
	commit(t, s, atTimes(1, 1000))
	read := func(key string) {
		t.Helper()
		if err := s.Scan(t.Context(), "a", key, 0, entity.MaxTS, func(*entity.Chunk) error { return nil }); err != nil {
			t.Fatal(err)
		}
		if _, err := s.History(t.Context(), "a", key, entity.Place{}, entity.Place{TS: entity.MaxTS + 1}, 100, true); err != nil {
			t.Fatal(err)
		}
		if _, err := s.CountNumbers(t.Context(), "a", key, 0, entity.MaxTS); err != nil {
			t.Fatal(err)
		}
	}
	const times = 10
	for i := range times {
		read(fmt.Sprintf("key %d", i))
	}
	commitMany(t, s, 20_000)
	conn, err := s.pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	for _, sql := range []string{selectRows, selectBlocks, descendingRows, descendingBlocks} {
		var name string
		var generic, custom int
		if err := conn.QueryRow(t.Context(), "SELECT name, generic_plans, custom_plans FROM pg_prepared_statements WHERE statement = $1", sql).Scan(&name, &generic, &custom); err != nil {
			t.Fatalf("%v: %s", err, sql)
		}
		if custom != 0 || generic < times {
			t.Errorf("planned anew %d times of %d: %s", custom, custom+generic, sql)
		}
		var plan []string
		err := pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error {
			if _, err := tx.Exec(t.Context(), keepPlans); err != nil {
				return err
			}
			rows, err := tx.Query(t.Context(), "EXPLAIN EXECUTE "+name+"('a', 't', 0, 1000000, 0, 0, 100)", pgx.QueryExecModeSimpleProtocol)
			if err == nil {
				plan, err = pgx.CollectRows(rows, pgx.RowTo[string])
			}
			return err
		})
		if text := strings.Join(plan, "\n"); err != nil || !strings.Contains(text, "Index Scan") || strings.Contains(text, "Seq Scan on telemetry") || strings.Contains(text, "Seq Scan on block") {
			t.Errorf("%v: %s\n%s", err, sql, text)
		}
	}
}

// With many partitions a query is planned for those that it needs, and answers the same.
func TestReadingASeriesOfManyPartitions(t *testing.T) {
	t.Parallel()
	s := open(t, pgtest.Database(t), Options{SealAfter: -1, PartitionWidth: day, Readers: 1})
	defer closeStore(t, s)
	now := time.Now().UnixMilli()
	var want []int64
	next := uint64(1)
	for days := int64(-9); days <= 9; days++ {
		list := []int64{now + days*day.Milliseconds(), now + days*day.Milliseconds() + 1}
		want = append(want, list...)
		commit(t, s, atTimes(next, list...))
		next += uint64(len(list))
	}
	if n := len(s.spans.all()); n <= fewPartitions {
		t.Fatalf("%d partitions", n)
	}
	check := func(what string) {
		t.Helper()
		if got := times(t, s, "a", "t"); !slices.Equal(got, want) {
			t.Errorf("%s: the history has the times %d, want %d", what, got, want)
		}
		last, err := s.History(t.Context(), "a", "t", entity.Place{}, entity.Place{TS: entity.MaxTS + 1}, 1, true)
		if err != nil || len(last) != 1 || last[0].TS != want[len(want)-1] {
			t.Errorf("%s: the last point is %v, %v", what, last, err)
		}
		if n, err := s.CountNumbers(t.Context(), "a", "t", 0, entity.MaxTS); err != nil || n != len(want) {
			t.Errorf("%s: %d numbers, %v, want %d", what, n, err, len(want))
		}
	}
	check("in rows")
	compact(t, s)
	check("in blocks")
	// Rows over the blocks, and one in a partition that is new.
	b := atTimes(next, want[3]+1, 2000)
	b.Records[0].Reading.Values[0].Value = value.Int(5)
	commit(t, s, b)
	want = append([]int64{2000}, slices.Insert(want, 4, want[3]+1)...)
	check("in both")
}

// Trim takes time in proportion to the rows that it removes, also where the server has no statistics
// of the table yet. To write them is the measure.
func TestTrimTakesNoLongerThanToWrite(t *testing.T) {
	t.Parallel()
	s := open(t, pgtest.Database(t), Options{SealAfter: -1})
	defer closeStore(t, s)
	const n, limit = 8000, 5000
	all := make([]int64, n)
	for i := range all {
		all[i] = int64(i)
	}
	began := time.Now()
	commit(t, s, atTimes(1, all...))
	wrote := time.Since(began)
	began = time.Now()
	for _, want := range []int{limit, n - limit - 1, 0} {
		if got, err := s.Trim(t.Context(), "a", "t", n-1, limit); got != want || err != nil {
			t.Fatalf("%d trimmed, %v; want %d", got, err, want)
		}
	}
	trimmed := time.Since(began)
	t.Logf("wrote in %v, trimmed in %v", wrote, trimmed)
	if trimmed > 5*wrote {
		t.Errorf("wrote in %v, and trimmed in %v", wrote, trimmed)
	}
	if left := times(t, s, "a", "t"); !slices.Equal(left, all[n-1:]) {
		t.Errorf("%d times are left", len(left))
	}
}
