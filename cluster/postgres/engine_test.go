package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/greenroom-go/greenroom/cluster"
	"github.com/greenroom-go/greenroom/cluster/enginetest"
	"github.com/greenroom-go/greenroom/internal/pgtest"
)

// patience is how long tests wait for what must happen.
const patience = 20 * time.Second

func open(t testing.TB, url string, cfg Config) *Engine {
	t.Helper()
	e, err := Open(t.Context(), url, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e
}

func put(t testing.TB, e *Engine, key, value string, was cluster.Revision) cluster.Revision {
	t.Helper()
	rev, err := e.Put(t.Context(), key, []byte(value), was)
	if err != nil {
		t.Fatal(err)
	}
	return rev
}

// watch returns the entries that a watch of all keys sees.
func watchAll(t testing.TB, e *Engine) <-chan cluster.Entry {
	t.Helper()
	seen := make(chan cluster.Entry, 100)
	t.Cleanup(e.Watch("", func(at cluster.Entry) { seen <- at }))
	return seen
}

func expect(t testing.TB, seen <-chan cluster.Entry, key, value string) {
	t.Helper()
	for deadline := time.After(patience); ; {
		select {
		case at := <-seen:
			if at.Key == key && string(at.Value) == value {
				return
			}
		case <-deadline:
			t.Fatalf("no watch has seen %q with %q", key, value)
		}
	}
}

func TestConformance(t *testing.T) {
	t.Parallel()
	url := pgtest.Database(t)
	var number atomic.Int64
	enginetest.Run(t, func(t testing.TB) (a, b cluster.Engine) {
		cfg := Config{Schema: fmt.Sprint("test", number.Add(1))}
		return open(t, url, cfg), open(t, url, cfg)
	})
}

func TestMembersThatBeginAtOnceMakeOneSchema(t *testing.T) {
	t.Parallel()
	url := pgtest.Database(t) + "&search_path=nodes"
	failed := make(chan error, 4)
	for range cap(failed) {
		go func() {
			e, err := Open(t.Context(), url, Config{})
			if err == nil {
				_, err = e.Put(t.Context(), "k", nil, 0)
				e.Close()
			}
			failed <- err
		}()
	}
	won := 0
	for range cap(failed) {
		if err := <-failed; err == nil {
			won++
		} else if !errors.Is(err, cluster.ErrConflict) {
			t.Error(err)
		}
	}
	if won != 1 {
		t.Errorf("%d of %d members have put the key first", won, cap(failed))
	}
	if n := pgtest.Ask[int](t, pgtest.Connect(t, url), "SELECT count(*) FROM nodes.entry"); n != 1 {
		t.Errorf("the schema that search_path names has %d entries, want 1", n)
	}
}

func TestWhatCannotBeOpenedIsRefused(t *testing.T) {
	t.Parallel()
	url := pgtest.Database(t)
	pgtest.Exec(t, pgtest.Connect(t, url), "CREATE SCHEMA shop; CREATE TABLE shop.cart (id integer)")
	for _, tt := range []struct {
		url, schema, want string
	}{
		{url, "shop", "tables of another program"},
		{url, "pg_shop", "belongs to PostgreSQL"},
		{"postgres://u:s3cret@127.0.0.1:1/d", "", "connection refused"},
		{"mysql://u:s3cret@h/d", "", "not understood"},
	} {
		if e, err := Open(t.Context(), tt.url, Config{Schema: tt.schema}); err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("schema %q: %v, %v, want %q", tt.schema, e, err, tt.want)
		}
	}
	if _, err := Open(t.Context(), url, Config{Existing: true}); !errors.Is(err, ErrNoSchema) {
		t.Errorf("a database without the schema: %v", err)
	}
	e := open(t, url, Config{})
	put(t, open(t, url, Config{Existing: true}), "k/2", "b", 0)
	put(t, e, "k/1", "a", 0)
	put(t, e, "kk", "c", 0)
	if list, err := e.List(t.Context(), "k/"); err != nil || len(list) != 2 || list[0].Key != "k/2" || string(list[1].Value) != "a" {
		t.Errorf("the entries of k/: %v, %v", list, err)
	}
	if _, err := e.Put(t.Context(), "a\x00b", nil, 0); err == nil || !strings.Contains(err.Error(), "without a zero byte") {
		t.Errorf("a key with a zero byte: %v", err)
	}
	if _, err := e.Get(t.Context(), "\xff"); !errors.Is(err, cluster.ErrNotFound) {
		t.Errorf("a key that is not UTF-8: %v", err)
	}
	e.Close()
	if _, err := e.Put(t.Context(), "k", nil, 0); !errors.Is(err, ErrClosed) {
		t.Errorf("a put after Close: %v", err)
	}
}

// What was put must be on disk when it is acknowledged, whatever the database's default is.
func TestCommitsAreSynchronous(t *testing.T) {
	t.Parallel()
	url := pgtest.Database(t)
	conn := pgtest.Connect(t, url)
	for _, usual := range []string{"off", "local", "remote_write"} {
		pgtest.Exec(t, conn, "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET synchronous_commit = "+usual+"', current_database()); END $$")
		e, is := open(t, url, Config{}), ""
		if _, err := e.call(t.Context(), func(ctx context.Context, conn *pgx.Conn) error {
			return conn.QueryRow(ctx, "SHOW synchronous_commit").Scan(&is)
		}); err != nil || is != "on" {
			t.Errorf("where the database has %s, synchronous_commit is %q, %v", usual, is, err)
		}
	}
}

// A watch asks for what is newer than the last that it has seen: nothing may be committed later with a lower revision.
func TestRevisionsAreInTheOrderOfCommits(t *testing.T) {
	t.Parallel()
	url := pgtest.Database(t)
	e, conn := open(t, url, Config{}), pgtest.Connect(t, url)
	seen := watchAll(t, e)
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	pgtest.Exec(t, conn, "SET search_path = "+DefaultSchema)
	pgtest.Exec(t, conn, "SELECT put('slow', '', 0, 0)")
	done := make(chan error, 1)
	go func() {
		_, err := e.Put(context.Background(), "fast", nil, 0)
		done <- err
	}()
	for waits := 0; waits == 0; {
		waits = pgtest.Ask[int](t, conn, "SELECT count(*) FROM pg_locks WHERE NOT granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) OR NOT granted AND locktype = 'transactionid'")
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	first, second := <-seen, <-seen
	if first.Key != "slow" || second.Key != "fast" || first.Revision >= second.Revision {
		t.Errorf("the watch has seen %v and %v", first, second)
	}
}

func TestALostNotificationCostsASecond(t *testing.T) {
	t.Parallel()
	url := pgtest.Database(t)
	seen := watchAll(t, open(t, url, Config{}))
	pgtest.Exec(t, pgtest.Connect(t, url), "SET search_path = "+DefaultSchema+"; UPDATE engine SET last = 7; INSERT INTO entry VALUES ('k', 'quiet', 7)")
	expect(t, seen, "k", "quiet")
}

func TestBrokenConnectionsAreReplaced(t *testing.T) {
	t.Parallel()
	url := pgtest.Database(t)
	e := open(t, url, Config{})
	seen := watchAll(t, e)
	rev := put(t, e, "k", "0", 0)
	conn := pgtest.Connect(t, url)
	for i := range 3 {
		pgtest.Exec(t, conn, "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()")
		value := fmt.Sprint(i + 1)
		for deadline := time.Now().Add(patience); ; {
			now, err := e.Put(t.Context(), "k", []byte(value), rev)
			if err == nil {
				rev = now
				break
			}
			if errors.Is(err, cluster.ErrConflict) || time.Now().After(deadline) {
				t.Fatalf("after a broken connection: %v", err)
			}
		}
		expect(t, seen, "k", value)
	}
}

func TestALostAnswerLeavesUnsure(t *testing.T) {
	t.Parallel()
	url := pgtest.Database(t)
	proxy := pgtest.NewProxy(t, url)
	e := open(t, proxy.URL(t, url), Config{})
	rev := put(t, e, "k", "before", 0)
	proxy.FromServer.Store(0)
	_, err := e.Put(t.Context(), "k", []byte("lost"), rev)
	proxy.Heal()
	if !errors.Is(err, cluster.ErrUnsure) {
		t.Errorf("a put without an answer: %v, want %v", err, cluster.ErrUnsure)
	}
	at, err := e.Get(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	put(t, e, "k", "after", at.Revision)
	if _, err := e.Put(t.Context(), "k", nil, at.Revision); !errors.Is(err, cluster.ErrConflict) {
		t.Errorf("a put at an old revision: %v", err)
	}
}

// A host without power answers nothing, and closes nothing.
func TestASilentServerIsAnErrorInTime(t *testing.T) {
	t.Parallel()
	url := pgtest.Database(t)
	proxy := pgtest.NewProxy(t, url)
	const timeout = 300 * time.Millisecond
	e := open(t, proxy.URL(t, url), Config{Timeout: timeout})
	seen := watchAll(t, e)
	rev := put(t, e, "k", "before", 0)
	expect(t, seen, "k", "before")
	proxy.Silent.Store(true)
	proxy.ToServer.Store(0)
	proxy.FromServer.Store(0)
	for range 3 { // on the connection that there was, and on new ones
		began := time.Now()
		if _, err := e.Put(t.Context(), "k", []byte("silent"), rev); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, cluster.ErrConflict) {
			t.Errorf("a put: %v", err)
		}
		if _, err := e.Get(t.Context(), "k"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a get: %v", err)
		}
		if took := time.Since(began); took > patience/2 {
			t.Errorf("a put and a get took %v, and each may take %v", took, timeout)
		}
	}
	proxy.Heal()
	at, err := e.Get(t.Context(), "k")
	if err != nil || at.Revision != rev {
		t.Fatalf("the server is back: %v, %v", at, err)
	}
	put(t, open(t, url, Config{}), "k", "after", rev)
	expect(t, seen, "k", "after")
}

// A member that is stopped or cut off in the middle of a put has no lock that the others would wait for.
func TestAHalfPutHasNoLock(t *testing.T) {
	t.Parallel()
	url := pgtest.Database(t)
	proxy := pgtest.NewProxy(t, url)
	other := open(t, url, Config{})
	var rev cluster.Revision
	for _, passed := range []int64{20, 1000, 2040} {
		e := open(t, proxy.URL(t, url), Config{Timeout: 300 * time.Millisecond})
		if _, err := e.Get(t.Context(), "k"); err != nil && !errors.Is(err, cluster.ErrNotFound) && !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		proxy.Silent.Store(true)
		proxy.ToServer.Store(passed)
		_, err := e.Put(t.Context(), "half", make([]byte, 1000), 0)
		proxy.Heal()
		if err == nil {
			t.Fatalf("a put of which %d bytes have passed has succeeded", passed)
		}
		rev = put(t, other, "k", "other", rev)
		e.Close()
	}
}

func TestADatabaseThatHasGoneBackIsNotFollowed(t *testing.T) {
	t.Parallel()
	url := pgtest.Database(t)
	conn := pgtest.Connect(t, url)
	pgtest.Exec(t, conn, "SET search_path = "+DefaultSchema)
	for name, call := range map[string]func(e *Engine, rev cluster.Revision) error{
		"put":   func(e *Engine, rev cluster.Revision) error { _, err := e.Put(t.Context(), "k", nil, rev-1); return err },
		"get":   func(e *Engine, _ cluster.Revision) error { _, err := e.Get(t.Context(), "k"); return err },
		"watch": func(e *Engine, _ cluster.Revision) error { watchAll(t, e); <-e.WentBack(); return ErrWentBack },
	} {
		e := open(t, url, Config{})
		at, err := e.Get(t.Context(), "k")
		if err != nil && !errors.Is(err, cluster.ErrNotFound) {
			t.Fatal(err)
		}
		rev := put(t, e, "k", "a", put(t, e, "k", "b", at.Revision))
		pgtest.Exec(t, conn, "BEGIN; UPDATE engine SET last = last - 1; UPDATE entry SET revision = revision - 1; COMMIT")
		if err := call(e, rev); !errors.Is(err, ErrWentBack) {
			t.Errorf("%s of a database that has gone back: %v", name, err)
		}
		select {
		case <-e.WentBack():
		case <-time.After(patience):
			t.Errorf("%s: nobody is told", name)
		}
		if _, err := e.Put(t.Context(), "k", nil, rev-1); !errors.Is(err, ErrWentBack) || errors.Is(err, cluster.ErrUnsure) {
			t.Errorf("a put after that: %v", err)
		}
		if at, err := open(t, url, Config{}).Get(t.Context(), "k"); err != nil || at.Revision != rev-1 {
			t.Errorf("another member: %v, %v", at, err)
		}
	}
}
