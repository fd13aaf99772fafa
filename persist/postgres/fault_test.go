package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/internal/pgtest"
	"github.com/greenroom-go/greenroom/internal/soaktest"
	"github.com/greenroom-go/greenroom/persist"
)

// patience bounds waits that only a bug makes long.
const patience = time.Minute

func event(text string) persist.Payload { return persist.Payload{Type: "e", Data: []byte(text)} }

// events returns the texts of the events of an id.
func events(t testing.TB, j *Journal, id string) (texts []string) {
	t.Helper()
	for {
		page, err := j.Events(t.Context(), id, uint64(len(texts)), persist.PageRecords)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			return texts
		}
		for _, r := range page {
			if texts = append(texts, string(r.Data)); r.Number != uint64(len(texts)) {
				t.Fatalf("%s: event %d where %d is next", id, r.Number, len(texts))
			}
		}
	}
}

// The connection is cut after some numbers of bytes of a commit, on its way to the server
// and back, and the commit is tried again as package persist does. Wherever the cut was,
// what the batch has is there once, and the same appends are refused.
func TestCommitThatIsCutAnywhereHappensOnce(t *testing.T) {
	t.Parallel()
	for _, each := range []int{1, copyFrom} { // inserted, and copied
		t.Run(fmt.Sprint(each, " events"), func(t *testing.T) {
			t.Parallel()
			cutAnywhere(t, each)
		})
	}
}

func cutAnywhere(t *testing.T, each int) {
	direct := pgtest.Database(t)
	conn := pgtest.Connect(t, direct)
	p := pgtest.NewProxy(t, direct)
	j := open(t, p.URL(t, direct), Options{Readers: 1})
	commits, retried, settled := uint64(0), 0, 0
	run := func() {
		text := event(fmt.Sprint(commits))
		b := &persist.Batch{Number: commits + 1, Appends: []persist.Append{
			{ID: "a", After: commits * uint64(each), Events: slices.Repeat([]persist.Payload{text}, each), Send: []persist.Message{{Number: commits + 1, To: "x", Payload: text}}},
			{ID: "wrong", After: 7, Events: []persist.Payload{text}},
			{ID: fmt.Sprint("new-", commits), Events: []persist.Payload{text}, State: &text, Seen: []persist.Seen{{From: "a", Number: 1}}},
		}}
		for tries := 0; ; tries++ {
			err := j.Commit(t.Context(), b)
			if err == nil {
				break
			}
			if p.Heal(); tries > 20 {
				t.Fatal(err)
			}
			retried++
			if pgtest.Ask[uint64](t, conn, "SELECT coalesce(max(last), 0) FROM greenroom_journal.actor WHERE id = 'a'") > commits*uint64(each) {
				settled++
			}
		}
		if b.Appends[0].Err != nil || !errors.Is(b.Appends[1].Err, persist.ErrConflict) || b.Appends[2].Err != nil {
			t.Fatalf("commit %d: %v, %v, %v", commits, b.Appends[0].Err, b.Appends[1].Err, b.Appends[2].Err)
		}
		commits++
	}
	run() // the statements are prepared
	run()
	cuts, answer := soaktest.Rounds(t, 6, 100), int64(0)
	for _, allowance := range []*atomic.Int64{&p.ToServer, &p.FromServer} {
		const plenty = 1 << 40
		allowance.Store(plenty)
		run()
		total := plenty - allowance.Load()
		answer = total // of the last direction, in the end
		for i := range cuts {
			allowance.Store(total * int64(i) / int64(cuts))
			run()
			p.Heal()
		}
	}
	for range 5 { // in the answer to COMMIT, which is shorter when two of the ids share a partition
		p.FromServer.Store(answer - 1)
		run()
		p.Heal()
		if settled > 0 {
			break
		}
	}
	t.Logf("%d events: %d commits, %d tries failed, %d had happened all the same", each, commits, retried, settled)
	if retried < cuts || settled == 0 {
		t.Errorf("%d tries failed, %d had happened: this tests nothing", retried, settled)
	}
	for n, text := range events(t, j, "a") {
		if want := fmt.Sprint(n / each); text != want {
			t.Fatalf("event %d is of commit %s, want %s", n+1, text, want)
		}
	}
	list, err := j.Load(t.Context(), []string{"a", "wrong"})
	if err != nil || list[0].Last != commits*uint64(each) || list[0].Sent != commits || list[1].Last != 0 {
		t.Errorf("%+v, %v, want %d commits", list, err, commits)
	}
	ids, err := j.IDs(t.Context(), "new", 10_000)
	if err != nil || uint64(len(ids)) != commits {
		t.Errorf("%d ids, %v, want %d", len(ids), err, commits)
	}
}

// PostgreSQL is killed with all its processes while batches are committed, and started
// again.
func TestNothingDurableIsLostWhenTheServerIsKilled(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	j := open(t, server.Database(t), Options{})
	var durable atomic.Uint64
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		for n := uint64(0); ; {
			b := &persist.Batch{Number: n + 1, Appends: []persist.Append{{ID: "a", After: n, Events: []persist.Payload{event(fmt.Sprint(n + 1))}}}}
			switch err := j.Commit(ctx, b); {
			case ctx.Err() != nil:
				ended <- nil
				return
			case err == nil && b.Appends[0].Err != nil:
				ended <- b.Appends[0].Err
				return
			case err == nil:
				n++
				durable.Store(n)
			}
		}
	}()
	progress := func(n uint64) {
		t.Helper()
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for began, goal := time.Now(), durable.Load()+n; durable.Load() < goal; <-tick.C {
			if time.Since(began) > patience {
				t.Fatalf("%d batches are durable, want %d", durable.Load(), goal)
			}
		}
	}
	for range soaktest.Rounds(t, 1, 10) {
		progress(30)
		if err := errors.Join(server.Crash(), server.Restart()); err != nil {
			t.Fatal(err)
		}
		progress(1)
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("an append was refused: %v", err)
	}
	list := events(t, j, "a")
	if n := uint64(len(list)); n < durable.Load() || n > durable.Load()+1 || list[n-1] != fmt.Sprint(n) {
		t.Errorf("%d events, of which %d were said to be durable", n, durable.Load())
	}
}

// The lock says that the server has done with the last connection: until then nobody knows
// what became of its commit.
func TestNextConnectionWaitsForTheEndOfTheLast(t *testing.T) {
	t.Parallel()
	url := pgtest.Database(t)
	j := open(t, url, Options{LockWait: 50 * time.Millisecond})
	b := &persist.Batch{Number: 1, Appends: []persist.Append{{ID: "a", Events: []persist.Payload{event("x")}}}}
	if err := j.Commit(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	holder := pgtest.Connect(t, url) // in the place of the last connection
	conn := pgtest.Connect(t, url)
	pid := int32(j.w.Conn.PgConn().PID())
	if !pgtest.Ask[bool](t, conn, "SELECT pg_terminate_backend($1, 60000)", pid) {
		t.Fatal("the connection is still there")
	}
	pgtest.Exec(t, holder, "SELECT pg_advisory_lock($1, $2)", j.w.class(), j.w.num)
	j.w.Used = time.Time{} // long enough ago that it asks before it writes
	next := &persist.Batch{Number: 2, Appends: []persist.Append{{ID: "a", After: 1, Events: []persist.Payload{event("y")}}}}
	if err := j.Commit(t.Context(), next); err == nil {
		t.Error("committed beside a connection of which the end is not known")
	}
	pgtest.Exec(t, holder, "SELECT pg_advisory_unlock($1, $2)", j.w.class(), j.w.num)
	if err := j.Commit(t.Context(), next); err != nil || next.Appends[0].Err != nil {
		t.Errorf("after its end: %v, %v", err, next.Appends[0].Err)
	}
}

func TestCommitThatIsHeldUpEndsWithItsContextAndCanBeRepeated(t *testing.T) {
	t.Parallel()
	url := pgtest.Database(t)
	j := open(t, url, Options{})
	conn, other := pgtest.Connect(t, url), pgtest.Connect(t, url)
	pgtest.Exec(t, conn, "BEGIN")
	pgtest.Exec(t, conn, "SELECT FROM greenroom_journal.part FOR UPDATE") // as another process that commits
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	b := &persist.Batch{Number: 1, Appends: []persist.Append{{ID: "a", Events: []persist.Payload{event("x")}}}}
	go func() { done <- j.Commit(ctx, b) }()
	for waits := 0; waits == 0; {
		waits = pgtest.Ask[int](t, other, "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'")
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("commit: %v, want it to end with its context", err)
	}
	pgtest.Exec(t, conn, "COMMIT")
	if err := j.Commit(t.Context(), b); err != nil || b.Appends[0].Err != nil {
		t.Errorf("again: %v, %v", err, b.Appends[0].Err)
	}
	if got := events(t, j, "a"); len(got) != 1 {
		t.Errorf("events: %v", got)
	}
}

// Processes that are gone are forgotten after a while; one that comes back after that
// does not know what became of its last batch, and says so.
func TestProcessThatWasForgottenWritesNoMore(t *testing.T) {
	t.Parallel()
	url := pgtest.Database(t)
	j := open(t, url, Options{})
	b := &persist.Batch{Number: 1, Appends: []persist.Append{{ID: "a", Events: []persist.Payload{event("x")}}}}
	if err := j.Commit(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	conn := pgtest.Connect(t, url)
	pgtest.Exec(t, conn, "UPDATE greenroom_journal.process SET used = now() - interval '8 days'")
	open(t, url, Options{})
	if n := pgtest.Ask[int](t, conn, "SELECT count(*) FROM greenroom_journal.process"); n != 2 {
		t.Errorf("%d processes: one that holds its lock was forgotten", n)
	}
	pgtest.Exec(t, conn, "UPDATE greenroom_journal.process SET used = now() - interval '8 days'")
	if !pgtest.Ask[bool](t, conn, "SELECT pg_terminate_backend($1, 60000)", int32(j.w.Conn.PgConn().PID())) {
		t.Fatal("the connection is still there")
	}
	open(t, url, Options{})
	if n := pgtest.Ask[int](t, conn, "SELECT count(*) FROM greenroom_journal.process"); n != 2 {
		t.Errorf("%d processes, want that of the two that are connected", n)
	}
	for range 2 {
		j.w.Used = time.Time{}
		next := &persist.Batch{Number: 2, Appends: []persist.Append{{ID: "a", After: 1, Events: []persist.Payload{event("y")}}}}
		if err := j.Commit(t.Context(), next); !errors.Is(err, ErrForgotten) {
			t.Errorf("commit: %v, want %v", err, ErrForgotten)
		}
	}
	pgtest.Exec(t, conn, "DELETE FROM greenroom_journal.process") // under its feet
	other := open(t, url, Options{})
	pgtest.Exec(t, conn, "DELETE FROM greenroom_journal.process")
	if err := other.Commit(t.Context(), &persist.Batch{Number: 1, Appends: []persist.Append{{ID: "b", Events: []persist.Payload{event("y")}}}}); !errors.Is(err, ErrForgotten) {
		t.Errorf("commit: %v, want %v", err, ErrForgotten)
	}
	if got := events(t, other, "b"); len(got) > 0 {
		t.Errorf("events: %v", got)
	}
}
