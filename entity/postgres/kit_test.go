package postgres

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/value"
	"github.com/greenroom-go/greenroom/internal/pgtest"
)

// patience bounds waits that only a bug makes long.
const patience = time.Minute

// batch has one reading of n samples of the entity "a".
func batch(first uint64, ts int64, n int) *entity.Batch {
	b := &entity.Batch{First: first, Committed: 1, Entities: []entity.BatchEntity{{ID: "a", Created: 1}}}
	r := entity.Reading{TS: ts}
	for i := range n {
		s := entity.Sample{Key: fmt.Sprintf("key %d", i), Value: value.Int(ts)}
		r.Values = append(r.Values, s)
		b.Latest = append(b.Latest, entity.LatestRow{Latest: entity.Latest{Key: s.Key, TS: ts, Seq: first, Value: s.Value}})
	}
	b.Records = []entity.Record{{Seq: first, Reading: r}}
	return b
}

// at makes a batch of one value of "a" for each time.
func atTimes(first uint64, times ...int64) *entity.Batch {
	b := &entity.Batch{First: first, Committed: 1, Entities: []entity.BatchEntity{{ID: "a", Created: 1}}}
	for i, ts := range times {
		v := value.Int(ts)
		b.Records = append(b.Records, entity.Record{Seq: first + uint64(i), Reading: entity.Reading{TS: ts, Values: []entity.Sample{{Key: "t", Value: v}}}})
		if i == 0 {
			b.Latest = []entity.LatestRow{{Latest: entity.Latest{Key: "t", TS: ts, Seq: first, Value: v}}}
		}
	}
	return b
}

func commit(t testing.TB, s *Store, b *entity.Batch) {
	t.Helper()
	if err := s.Commit(t.Context(), b); err != nil {
		t.Fatal(err)
	}
}

// times returns the times of a series.
func times(t testing.TB, s *Store, id, key string) (list []int64) {
	t.Helper()
	points, err := s.History(t.Context(), id, key, entity.Place{}, entity.Place{TS: entity.MaxTS + 1}, 1_000_000, false)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range points {
		list = append(list, p.TS)
	}
	return list
}

// hangUp ends the connection that writes from the server's side.
func hangUp(t testing.TB, conn *pgx.Conn, s *Store) {
	t.Helper()
	if !pgtest.Ask[bool](t, conn, "SELECT pg_terminate_backend($1, 60000)", int32(s.w.Conn.PgConn().PID())) {
		t.Fatal("the connection is still there")
	}
}

// eventually waits until missing returns "", for what a server or a goroutine of the store does in its own
// time, and fails the test with what it returns after patience.
func eventually(t *testing.T, missing func() string) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for began := time.Now(); ; <-tick.C {
		text := missing()
		if text == "" {
			return
		}
		if time.Since(began) > patience {
			t.Fatal(text)
		}
	}
}
