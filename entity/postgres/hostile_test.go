package postgres

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/value"
	"github.com/greenroom-go/greenroom/internal/pause"
	"github.com/greenroom-go/greenroom/internal/pgtest"
)

// PostgreSQL has no text with a zero character and none that is not UTF-8, and refuses
// a whole statement over one. Nothing has such a name, and that is the answer.
func TestNamesThatNothingCanHaveFindNothing(t *testing.T) {
	t.Parallel()
	s := open(t, pgtest.Database(t), Options{})
	commit(t, s, batch(1, 1000, 1))
	if _, err := s.PutDoc(t.Context(), entity.Doc{Kind: "k", ID: "d"}, ""); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"\x00", "a\x00", "\xff", "a\xc3", "\xed\xa0\x80"} {
		if _, err := s.Load(t.Context(), name); !errors.Is(err, entity.ErrNotFound) {
			t.Errorf("load %q: %v", name, err)
		}
		if _, err := s.Doc(t.Context(), "k", name); !errors.Is(err, entity.ErrNotFound) {
			t.Errorf("document %q: %v", name, err)
		}
		if err := s.DeleteDoc(t.Context(), "k", name, ""); !errors.Is(err, entity.ErrNotFound) {
			t.Errorf("delete document %q: %v", name, err)
		}
		for _, tt := range []struct {
			q    entity.ListQuery
			want int
		}{
			{entity.ListQuery{IDs: []string{name}}, 0},
			{entity.ListQuery{IDs: []string{name, "a"}}, 1},
			{entity.ListQuery{Types: []string{name}}, 0},
			{entity.ListQuery{Search: name}, 0},
		} {
			tt.q.Limit = 10
			if list, err := s.Entities(t.Context(), tt.q); err != nil || len(list) != tt.want {
				t.Errorf("%+v: %d entities, %v, want %d", tt.q, len(list), err, tt.want)
			}
		}
	}
	for after, want := range map[string]int{"\x00": 1, "\xff": 1, "A\xff": 1, "a\x00": 0, "a\xff": 0, "b\x00": 0} {
		if list, err := s.Entities(t.Context(), entity.ListQuery{After: after, Limit: 10}); err != nil || len(list) != want {
			t.Errorf("after %q: %d entities, %v, want %d", after, len(list), err, want)
		}
	}
}

// What an administrator has set for the database, or for all of the server, does not
// change what the store does.
func TestDefaultsOfTheDatabaseDoNotMatter(t *testing.T) {
	t.Parallel()
	address := pgtest.Database(t)
	other := pgtest.Connect(t, address)
	for _, setting := range []string{
		"default_transaction_isolation = 'serializable'", "default_transaction_deferrable = on", "statement_timeout = '1ms'", "TimeZone = 'Asia/Kolkata'",
		"DateStyle = 'SQL, DMY'", "bytea_output = 'escape'", "extra_float_digits = -15", "search_path = 'pg_catalog'", "synchronous_commit = off",
	} {
		if _, err := other.Exec(t.Context(), "DO $$BEGIN EXECUTE 'ALTER DATABASE ' || quote_ident(current_database()) || $q$ SET "+setting+"$q$; END$$"); err != nil {
			t.Fatalf("%s: %v", setting, err)
		}
	}
	s := open(t, address, Options{})
	const n = 40
	var wg sync.WaitGroup
	wg.Go(func() { // under serializable, one of the two would be told to try again
		for range n {
			if _, err := s.Trim(t.Context(), "a", "t", 2, 1000); err != nil {
				t.Errorf("trim: %v", err)
			}
		}
	})
	for i := range uint64(n) {
		commit(t, s, atTimes(1+2*i, 1, int64(i)+2))
	}
	wg.Wait()
	b := batch(2*n+1, 5000, 1)
	b.Records[0].Values[0].Value, b.Latest[0].Value = value.Float(math.Pi), value.Float(math.Pi)
	commit(t, s, b)
	points, err := s.History(t.Context(), "a", "key 0", entity.Place{}, entity.Place{TS: 10_000}, 10, false)
	if err != nil || len(points) != 1 || points[0].Value != value.Float(math.Pi) {
		t.Errorf("history %v, %v", points, err)
	}
	for _, show := range []string{"default_transaction_isolation", "synchronous_commit"} {
		var value string
		err := s.w.Conn.QueryRow(t.Context(), "SHOW "+show).Scan(&value)
		if err != nil || value == "serializable" || value == "off" {
			t.Errorf("%s is %s, %v", show, value, err)
		}
	}
}

// Somebody who cancels statements of a store at random makes it slower, and no commit
// lost or doubled.
func TestCommitThatIsCanceledByTheServerHappensOnce(t *testing.T) {
	t.Parallel()
	address := pgtest.Database(t)
	s := open(t, address, Options{})
	other := pgtest.Connect(t, address)
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	canceled := int64(0)
	var inVain atomic.Int64 // of this commit; who cancels makes pauses of up to so many milliseconds, or a slow machine would never be through
	wg.Go(func() {
		for ctx.Err() == nil {
			var n int64
			err := other.QueryRow(t.Context(), `SELECT count(*) FILTER (WHERE pg_cancel_backend(pid)) FROM pg_stat_activity
				WHERE datname = current_database() AND pid <> pg_backend_pid() AND state <> 'idle'`).Scan(&n)
			if err != nil {
				t.Errorf("cancel: %v", err)
				return
			}
			canceled += n
			_ = pause.For(ctx, time.Duration(rand.Int64N(1+inVain.Load()*int64(time.Millisecond))))
		}
	})
	const commits, size = 60, 100 // enough for COPY
	var ts []int64
	failed := 0
	for i := range uint64(commits) {
		var some []int64
		for j := range uint64(size) {
			some = append(some, int64(1000+i*size+j))
		}
		ts = append(ts, some...)
		for began := time.Now(); ; {
			err := s.Commit(t.Context(), atTimes(1+i*size, some...))
			if err == nil {
				inVain.Store(0)
				break
			}
			inVain.Add(1)
			if failed++; time.Since(began) > patience {
				t.Fatalf("commit %d: %v", i, err)
			}
		}
	}
	stop()
	wg.Wait()
	t.Logf("%d statements canceled, %d commits tried again", canceled, failed)
	if got := times(t, s, "a", "t"); len(got) != len(ts) {
		t.Errorf("%d readings, want %d", len(got), len(ts))
	}
	if info := s.Info(); info.LastChange != commits*size {
		t.Errorf("the last change is %d, want %d", info.LastChange, commits*size)
	}
	for after := uint64(0); after < commits*size; { // pages end by their bytes
		changes, err := s.Changes(t.Context(), after, commits*size)
		if err != nil || len(changes) == 0 || changes[0].Seq != after+1 {
			t.Fatalf("%d changes after %d, %v", len(changes), after, err)
		}
		after += uint64(len(changes))
	}
}

func TestVeryLargeBatchIsOneCommit(t *testing.T) {
	t.Parallel()
	s := open(t, pgtest.Database(t), Options{})
	const n = 30_000
	ts := make([]int64, n)
	for i := range ts {
		ts[i] = int64(i) * 3_600_000 // over three years, of a partition each
	}
	commit(t, s, atTimes(1, ts...))
	commit(t, s, atTimes(n+1, ts...)) // merged
	if got := times(t, s, "a", "t"); len(got) != n {
		t.Errorf("%d readings, want %d", len(got), n)
	}
}
