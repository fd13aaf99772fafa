package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/value"
	"github.com/greenroom-go/greenroom/internal/pgtest"
)

func TestSecondServerIsToldWhoHasTheSchema(t *testing.T) {
	url := pgtest.Database(t)
	s := open(t, url, Options{})
	_, err := Open(t.Context(), url, Options{LockWait: 50 * time.Millisecond})
	if !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), "greenroom ") || !strings.Contains(err.Error(), "this machine") ||
		!strings.Contains(err.Error(), fmt.Sprint(s.w.Conn.PgConn().PID())) {
		t.Errorf("a second server: %v", err)
	}
	closeStore(t, open(t, url, Options{Schema: "another"}))
	closeStore(t, s)
	closeStore(t, open(t, url, Options{}))
}

func TestServerWaitsForTheLockOfOneThatIsAboutToGo(t *testing.T) {
	url := pgtest.Database(t)
	first := open(t, url, Options{})
	opened := make(chan error, 1)
	go func() {
		second, err := Open(context.Background(), url, Options{LockWait: patience})
		if err == nil {
			err = second.Close()
		}
		opened <- err
	}()
	conn := pgtest.Connect(t, url)
	for waits := 0; waits == 0; { // it is in the queue
		waits = pgtest.Ask[int](t, conn, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted")
	}
	closeStore(t, first)
	if err := <-opened; err != nil {
		t.Errorf("the second one: %v", err)
	}
}

func TestStoreThatWasTakenOverWritesNoMore(t *testing.T) {
	url := pgtest.Database(t)
	s := open(t, url, Options{})
	defer closeStore(t, s)
	commit(t, s, atTimes(1, 1))
	hangUp(t, pgtest.Connect(t, url), s)
	other := open(t, url, Options{})
	commit(t, other, atTimes(2, 2))
	closeStore(t, other)
	for range 2 {
		s.w.Used = time.Time{} // long enough ago that it asks before it writes
		if err := s.Commit(t.Context(), atTimes(2, 3)); !errors.Is(err, ErrTakenOver) {
			t.Errorf("commit: %v, want %v", err, ErrTakenOver)
		}
		if _, err := s.PutDoc(t.Context(), entity.Doc{Kind: "k", ID: "i"}, ""); !errors.Is(err, ErrTakenOver) {
			t.Errorf("put a document: %v, want %v", err, ErrTakenOver)
		}
	}
	if got := times(t, s, "a", "t"); !slices.Equal(got, []int64{1, 2}) {
		t.Errorf("the times are %v", got)
	}
}

// The count of the commits is the last guard: here somebody has written without
// the lock.
func TestStoreThatSomebodyElseWroteToWritesNoMore(t *testing.T) {
	url := pgtest.Database(t)
	s := open(t, url, Options{})
	defer closeStore(t, s)
	commit(t, s, atTimes(1, 1))
	pgtest.Exec(t, pgtest.Connect(t, url), "UPDATE greenroom.greenroom SET commits = commits + 1")
	for n := range 2 { // merged, and copied
		var list []int64
		for i := range 1 + n*2*copyFrom {
			list = append(list, int64(10+i))
		}
		if err := s.Commit(t.Context(), atTimes(2, list...)); !errors.Is(err, ErrTakenOver) {
			t.Errorf("commit: %v, want %v", err, ErrTakenOver)
		}
	}
	if got := times(t, s, "a", "t"); !slices.Equal(got, []int64{1}) {
		t.Errorf("the times are %v", got)
	}
}

func TestBrokenConnectionsAreReplacedUnnoticed(t *testing.T) {
	url := pgtest.Database(t)
	s := open(t, url, Options{})
	defer closeStore(t, s)
	commit(t, s, atTimes(1, 1))
	conn := pgtest.Connect(t, url)
	for i := range int64(3) {
		if _, err := s.Load(t.Context(), "a"); err != nil { // a reader's connection is there
			t.Fatal(err)
		}
		s.w.Used = time.Time{} // it is idle for long
		pgtest.Exec(t, conn, "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE application_name LIKE 'greenroom %'")
		if e, err := s.Load(t.Context(), "a"); err != nil || e.Seq != uint64(i+1) {
			t.Errorf("load: %+v, %v", e, err)
		}
		commit(t, s, atTimes(uint64(i+2), i+2))
	}
	if got := times(t, s, "a", "t"); !slices.Equal(got, []int64{1, 2, 3, 4}) {
		t.Errorf("the times are %v", got)
	}
}

// cutBatch is one commit of TestCommitThatIsCutAnywhereHappensOnce: a new
// entity with new keys, an edit, an edge, and enough rows to be copied.
func cutBatch(first uint64, n, rows int) *entity.Batch {
	id, ts := fmt.Sprintf("e%d", n), int64(1000*n)
	b := &entity.Batch{First: first, Committed: 1, Entities: []entity.BatchEntity{{ID: id, Created: 1, Edited: true, Type: "t", Revision: 1}, {ID: "a", Created: 1}}}
	for i := range rows {
		v := value.Int(int64(i))
		b.Records = append(b.Records, entity.Record{Entity: i % 2, Seq: first + uint64(i), Reading: entity.Reading{TS: ts + int64(i), Values: []entity.Sample{{Key: fmt.Sprintf("k%d", n), Value: v}}}})
		if i < 2 {
			b.Latest = append(b.Latest, entity.LatestRow{Entity: i, Latest: entity.Latest{Key: fmt.Sprintf("k%d", n), TS: ts + int64(i), Seq: first + uint64(i), Value: v}})
		}
	}
	b.Records = append(b.Records, entity.Record{Reading: entity.Reading{TS: ts}, Edit: &entity.Edit{
		Revision: 1, Created: true, Typed: true, Type: "t",
		Attributes: []entity.AttributeEdit{{Section: entity.Desired, Attribute: entity.Attribute{Path: "/x", TS: ts, Value: value.Int(ts)}}},
		Relations:  []entity.RelationEdit{{Relation: entity.Relation{From: id, Type: "in", To: "a"}}},
	}})
	return b
}

// The connection is cut after each number of bytes of a commit, on its way to the
// server and back, and the commit is tried again as the runtime does. Wherever the
// cut was, what the batch has is there once.
func TestCommitThatIsCutAnywhereHappensOnce(t *testing.T) {
	t.Parallel()
	for _, rows := range []int{4, 3 * copyFrom} {
		t.Run(fmt.Sprint(rows, " rows"), func(t *testing.T) {
			t.Parallel()
			cutAnywhere(t, rows)
		})
	}
}

func cutAnywhere(t *testing.T, rows int) {
	direct := pgtest.Database(t)
	p := pgtest.NewProxy(t, direct)
	s := open(t, p.URL(t, direct), Options{})
	next, commits, retried, settled := uint64(1), 0, 0, 0
	run := func() {
		b := cutBatch(next, commits, rows)
		for tries := 0; ; tries++ {
			before := s.w.unsure
			err := s.Commit(t.Context(), b)
			if err == nil {
				if before != nil && s.w.unsure == nil && tries > 0 && s.w.state.commits == before.commits {
					settled++
				}
				break
			}
			if p.Heal(); tries > 20 {
				t.Fatal(err)
			}
			retried++
		}
		if b.Entities[0].Num == 0 || b.Entities[1].Num == 0 {
			t.Fatalf("numbers %+v", b.Entities)
		}
		next += uint64(len(b.Records))
		commits++
	}
	run() // the statements are prepared
	run()
	for _, allowance := range []*atomic.Int64{&p.ToServer, &p.FromServer} {
		for at := int64(0); ; at += 1 + at/8 {
			allowance.Store(at)
			run()
			over := allowance.Load() > 0 // all of it was less
			p.Heal()
			if over {
				break
			}
		}
	}
	t.Logf("%d rows: %d commits, %d tries failed, %d had happened all the same", rows, commits, retried, settled)
	if retried < 15 || settled == 0 {
		t.Errorf("%d tries failed, %d had happened: this tests nothing", retried, settled)
	}
	checkCut(t, s, next, commits, rows)
	closeStore(t, s)
	s = open(t, direct, Options{})
	checkCut(t, s, next, commits, rows)
	closeStore(t, s)
}

// checkCut checks that the store has the commits of cutBatch, each once.
func checkCut(t *testing.T, s *Store, next uint64, commits, rows int) {
	t.Helper()
	if info := s.Info(); info.LastChange != next-1 || info.Entities != int64(commits)+1 {
		t.Errorf("info %+v, want %d changes of %d entities", info, next-1, commits+1)
	}
	for n := range commits {
		id, key := fmt.Sprintf("e%d", n), fmt.Sprintf("k%d", n)
		e, err := s.Load(t.Context(), id)
		if err != nil || len(e.Latest) != 1 || len(e.Attributes) != 1 || e.Type != "t" {
			t.Fatalf("%s: %+v, %v", id, e, err)
		}
		if own, shared := times(t, s, id, key), times(t, s, "a", key); len(own) != rows/2 || len(shared) != rows/2 {
			t.Fatalf("%s has %d points, a has %d, want %d", key, len(own), len(shared), rows/2)
		}
	}
	edges, err := s.Relations(t.Context(), entity.Relation{}, 10_000)
	if err != nil || len(edges) != commits {
		t.Errorf("%d edges, %v, want %d", len(edges), err, commits)
	}
	seen := uint64(0)
	for seen < next-1 {
		page, err := s.Changes(t.Context(), seen, 1000)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range page {
			if seen++; c.Seq != seen {
				t.Fatalf("change %d where %d is next", c.Seq, seen)
			}
		}
	}
}

// TestNoAcknowledgedReadingIsLostOrDoubledWhenTheServerIsKilled kills PostgreSQL
// with all its processes while readings are committed, and starts it again, a few
// times. The runtime goes on by itself.
func TestNoAcknowledgedReadingIsLostOrDoubledWhenTheServerIsKilled(t *testing.T) {
	t.Parallel()
	const rounds = 5
	server := pgtest.Start(t)
	url := server.Database(t)
	s := open(t, url, Options{})
	sys := actor.NewSystem("test", actor.WithLogger(s.opts.Logger))
	rt, err := entity.Open(t.Context(), sys, s, entity.Config{RetryMax: 100 * time.Millisecond, Logger: s.opts.Logger})
	if err != nil {
		t.Fatal(err)
	}
	f := flood{t: t, rt: rt}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	for i := range f.sent {
		f.sending.Go(func() { f.send(ctx, i) })
	}
	for round := range int64(rounds) {
		f.progress(500 + 300*round)
		if err := server.Crash(); err != nil {
			t.Fatal(err)
		}
		if err := server.Restart(); err != nil {
			t.Fatal(err)
		}
		f.progress(1)
	}
	stop()
	f.sending.Wait()
	f.settling.Wait()
	if err := rt.Close(t.Context()); err != nil { // which closes the store
		t.Error(err)
	}
	if _, err := sys.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	t.Logf("%d crashes, %d readings acknowledged", rounds, f.acked.Load())
	s = open(t, url, Options{})
	defer closeStore(t, s)
	f.check(s)
}

// flood sends readings as fast as they are taken, of one entity from each of its
// senders, with the times 1, 2, 3 and so on.
type flood struct {
	t             *testing.T
	rt            *entity.Runtime
	sent          [4]int64 // by each sender
	acked, failed atomic.Int64

	sending, settling sync.WaitGroup
}

func (f *flood) send(ctx context.Context, i int) {
	for ctx.Err() == nil {
		ts := f.sent[i] + 1
		f.settling.Add(1)
		err := f.rt.Ingest(ctx, fmt.Sprintf("sensor-%d", i), []entity.Reading{{TS: ts, Values: []entity.Sample{
			{Key: "n", Value: value.Int(ts)}, {Key: "s", Value: value.String(fmt.Sprint(ts))},
		}}}, 50, func(err error) {
			defer f.settling.Done()
			if err != nil {
				f.failed.Add(1)
				return
			}
			f.acked.Add(1)
		})
		if err != nil {
			f.settling.Done()
			return // its time is up
		}
		f.sent[i] = ts
	}
}

// progress returns when so many more readings have been acknowledged.
func (f *flood) progress(n int64) {
	f.t.Helper()
	goal := f.acked.Load() + n
	eventually(f.t, func() string {
		if acked := f.acked.Load(); acked < goal {
			return fmt.Sprintf("%d readings were acknowledged, want %d; the store says %q", acked, goal, f.rt.Stats().StoreError)
		}
		return ""
	})
}

// check checks that the store has what was sent, once.
func (f *flood) check(s *Store) {
	f.t.Helper()
	var total int64
	for i, n := range f.sent {
		total += n
		id := fmt.Sprintf("sensor-%d", i)
		for _, key := range []string{"n", "s"} {
			if got := times(f.t, s, id, key); int64(len(got)) != n || n > 0 && (got[0] != 1 || got[n-1] != n) {
				f.t.Errorf("%s %s: %d points, want %d", id, key, len(got), n)
			}
		}
		if e, err := s.Load(f.t.Context(), id); err != nil || e.Updated != n || e.Latest[0].Value.Int() != n {
			f.t.Errorf("%s: %+v, %v", id, e, err)
		}
	}
	if f.failed.Load() != 0 || f.acked.Load() != total {
		f.t.Errorf("of %d readings %d were acknowledged and %d refused", total, f.acked.Load(), f.failed.Load())
	}
	if info := s.Info(); info.LastChange != uint64(total) {
		f.t.Errorf("%d changes, want %d", info.LastChange, total)
	}
}

func TestCommitThatIsHeldUpEndsWithItsContextAndCanBeRepeated(t *testing.T) {
	url := pgtest.Database(t)
	s := open(t, url, Options{})
	defer closeStore(t, s)
	commit(t, s, atTimes(1, 1))
	conn := pgtest.Connect(t, url)
	pgtest.Exec(t, conn, "BEGIN")
	pgtest.Exec(t, conn, "LOCK TABLE greenroom.telemetry IN SHARE MODE")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	b := atTimes(2, 2)
	go func() { done <- s.Commit(ctx, b) }()
	other := pgtest.Connect(t, url)
	for waits := 0; waits == 0; {
		waits = pgtest.Ask[int](t, other, "SELECT count(*) FROM pg_locks WHERE locktype = 'relation' AND NOT granted")
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("commit: %v, want it to end with its context", err)
	}
	pgtest.Exec(t, conn, "COMMIT")
	commit(t, s, b)
	if got := times(t, s, "a", "t"); !slices.Equal(got, []int64{1, 2}) {
		t.Errorf("the times are %v", got)
	}
}

// Questions about histories wait for each other and not in the way of an entity
// that comes to life.
func TestLongQueriesLeaveReadersForLoads(t *testing.T) {
	s := open(t, pgtest.Database(t), Options{Readers: 4})
	defer closeStore(t, s)
	if n := cap(s.long); n != 2 {
		t.Fatalf("%d places for long queries of 4 readers", n)
	}
	for range cap(s.long) {
		end, err := s.beginLong(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer end()
	}
	if _, err := s.Load(t.Context(), "nobody"); !errors.Is(err, entity.ErrNotFound) {
		t.Errorf("load: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for what, query := range map[string]func() error{
		"count": func() error { _, err := s.CountNumbers(ctx, "a", "k", 0, 1); return err },
		"history": func() error {
			_, err := s.History(ctx, "a", "k", entity.Place{}, entity.Place{TS: 1}, 1, false)
			return err
		},
		"origins": func() error { _, err := s.Origins(ctx, "a", "k", 0, 1, 1); return err },
		"trim":    func() error { _, err := s.Trim(ctx, "a", "k", 1, 1); return err },
	} {
		if err := query(); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v, want it to wait until its context ends", what, err)
		}
	}
}
