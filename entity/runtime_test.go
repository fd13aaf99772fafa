package entity_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/value"
)

func TestReadingIsFoundInActorHistoryAndListOnceWritten(t *testing.T) {
	s := open(t, t.TempDir(), entity.Config{})
	before := time.Now().UnixMilli()
	s.write("room", entity.Reading{TS: 5000, Values: []entity.Sample{{Key: "t", Value: value.Float(21.5)}, {Key: "door", Value: value.String("open")}}})

	snap := s.entity("room")
	if snap.ID != "room" || snap.Created < before || snap.Updated != 5000 || len(snap.Latest) != 2 || !strings.Contains(snap.Actor, "/entities/room") {
		t.Errorf("snapshot %+v", snap)
	}
	if l := snap.Latest[0]; l.Key != "door" || l.Value.Text() != "open" || l.TS != 5000 || l.Seq != 1 {
		t.Errorf("latest %+v", l)
	}
	if points := s.history("room", "t"); len(points) != 1 || points[0].Value.Float() != 21.5 {
		t.Errorf("history %v", points)
	}
	list, next, err := s.Entities(t.Context(), entity.Page{})
	if err != nil || next != "" || len(list) != 1 || list[0].ID != "room" || list[0].Actor != snap.Actor || len(list[0].Latest) != 2 {
		t.Errorf("list %+v, %q, %v", list, next, err)
	}
	st := s.Stats()
	if st.Readings != 1 || st.Values != 2 || st.Batches != 1 || st.Live != 1 || st.Registered != 1 || st.WindowMax != entity.DefaultWindowBytes || st.CommitLatency.Count != 1 {
		t.Errorf("stats %+v", st)
	}
}

func TestEntityThatNeverHadAReadingIsNotFound(t *testing.T) {
	s := open(t, t.TempDir(), entity.Config{})
	_, err := s.Entity(t.Context(), "nobody")
	_, _, herr := s.History(t.Context(), entity.HistoryQuery{ID: "nobody", Key: "t"})
	_, aerr := s.CountNumbers(t.Context(), "nobody", "t", 0, 0)
	for _, err := range []error{err, herr, aerr} {
		if !errors.Is(err, entity.ErrNotFound) {
			t.Errorf("got %v, want ErrNotFound", err)
		}
	}
	s.untilGone("nobody") // its actor answers first
	if st := s.Stats(); st.Live != 0 || st.Registered != 0 {
		t.Errorf("asking made an entity: %+v", st)
	}
	s.write("somebody", at(1, "t", value.Int(1)))
	if points := s.history("somebody", "no such key"); len(points) != 0 {
		t.Errorf("history of an unknown key: %v", points)
	}
}

// The rule is checked against a model that is told everything at once.
func TestLatestIsTheNewestByTimeAndThenByArrivalHoweverShuffled(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, entity.Config{})
	rnd := rand.New(rand.NewPCG(7, 11))
	const entities, readings = 5, 400
	type newest struct {
		ts    int64
		order int
	}
	model := map[string]map[string]newest{}
	history := map[string]map[int64]int{} // entity and key → time → the last to arrive
	settled := newSettlements(t)
	for order := range entities * readings {
		id, key := fmt.Sprintf("e%d", rnd.IntN(entities)), fmt.Sprintf("k%d", rnd.IntN(3))
		ts := 1_451_649_600_000 + rnd.Int64N(200)*60_000 // with repetitions
		if model[id] == nil {
			model[id] = map[string]newest{}
		}
		if m, ok := model[id][key]; !ok || ts >= m.ts {
			model[id][key] = newest{ts, order}
		}
		series := id + "/" + key
		if history[series] == nil {
			history[series] = map[int64]int{}
		}
		history[series][ts] = order
		if err := settled.ingest(t.Context(), s, fmt.Sprint(order), id, at(ts, key, value.Int(int64(order)))); err != nil {
			t.Fatal(err)
		}
	}
	settled.wait()
	if n := settled.count(nil); n != entities*readings {
		t.Fatalf("%d of %d acknowledged", n, entities*readings)
	}
	for range 2 {
		for id, keys := range model {
			for key, want := range keys {
				if l := s.latest(id, key); l.TS != want.ts || l.Value.Int() != int64(want.order) {
					t.Errorf("%s %s: latest is %v of %d, want %d of %d", id, key, l.Value, l.TS, want.order, want.ts)
				}
				points := s.history(id, key)
				if len(points) != len(history[id+"/"+key]) {
					t.Errorf("%s %s: %d points, want %d", id, key, len(points), len(history[id+"/"+key]))
				}
				for _, p := range points {
					if want := history[id+"/"+key][p.TS]; p.Value.Int() != int64(want) {
						t.Errorf("%s %s at %d: %v, want %d", id, key, p.TS, p.Value, want)
					}
				}
			}
		}
		s = s.reopen(entity.Config{})
	}
}

func TestRestartGoesOnWithTheSequence(t *testing.T) {
	s := open(t, t.TempDir(), entity.Config{})
	s.write("a", at(10, "t", value.Int(1)), at(20, "t", value.Int(2)))
	created := s.entity("a").Created
	s = s.reopen(entity.Config{})
	if st := s.Stats(); st.Registered != 1 || st.Live != 0 {
		t.Errorf("after the restart: %+v", st)
	}
	s.write("a", at(20, "t", value.Int(3))) // the same time: the later sequence wins
	if l := s.latest("a", "t"); l.Value.Int() != 3 || l.Seq != 3 {
		t.Errorf("latest %+v", l)
	}
	if snap := s.entity("a"); snap.Created != created {
		t.Errorf("created %d, was %d", snap.Created, created)
	}
}

func TestRedeliveryChangesNothing(t *testing.T) {
	s := open(t, t.TempDir(), entity.Config{})
	for range 3 {
		s.write("a", at(10, "t", value.Int(1)), at(20, "t", value.Int(2)), at(15, "t", value.Int(3)))
	}
	points := s.history("a", "t")
	if len(points) != 3 || s.latest("a", "t").Value.Int() != 2 {
		t.Errorf("history %v, latest %v", points, s.latest("a", "t"))
	}
}

func TestBadInputIsRefusedWithoutATrace(t *testing.T) {
	s := open(t, t.TempDir(), entity.Config{})
	never := func(error) { t.Error("done was called although Ingest returned an error") }
	good := []entity.Reading{at(1, "t", value.Int(1))}
	if err := s.Ingest(t.Context(), "a/b", good, 1, never); !errors.Is(err, entity.ErrInvalid) {
		t.Errorf("bad id: %v", err)
	}
	if err := s.Ingest(t.Context(), "a", []entity.Reading{good[0], at(-1, "t", value.Int(1))}, 1, never); !errors.Is(err, entity.ErrInvalid) {
		t.Errorf("bad time: %v", err)
	}
	if st := s.Stats(); st.Rejected != 3 || st.Live != 0 || st.WindowUsed != 0 {
		t.Errorf("stats %+v", st)
	}
	for name, err := range map[string]error{
		"negative limit": second(s.Entities(t.Context(), entity.Page{Limit: -1})),
		"page limit":     second(s.Entities(t.Context(), entity.Page{Limit: entity.MaxPageLimit + 1})),
		"long search":    second(s.Entities(t.Context(), entity.Page{Search: strings.Repeat("x", entity.MaxSearchBytes+1)})),
		"history limit":  second(s.History(t.Context(), entity.HistoryQuery{ID: "a", Key: "t", Limit: entity.MaxHistoryLimit + 1})),
		"history range":  second(s.History(t.Context(), entity.HistoryQuery{ID: "a", Key: "t", From: 2, To: 1})),
		"history key":    second(s.History(t.Context(), entity.HistoryQuery{ID: "a"})),
		"history id":     second(s.History(t.Context(), entity.HistoryQuery{Key: "t"})),
		"count range":    first(s.CountNumbers(t.Context(), "a", "t", 2, 1)),
		"count key":      first(s.CountNumbers(t.Context(), "a", "", 0, 0)),
		"entity id":      first(s.Entity(t.Context(), "")),
		"stream id":      first(s.Changes(t.Context(), entity.ChangesQuery{Entities: []string{"#"}})),
	} {
		if !errors.Is(err, entity.ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", name, err)
		}
	}
	for name, err := range map[string]error{
		"page":    second(s.Entities(t.Context(), entity.Page{After: "!"})),
		"history": second(s.History(t.Context(), entity.HistoryQuery{ID: "a", Key: "t", Cursor: "!"})),
		"stream":  first(s.Changes(t.Context(), entity.ChangesQuery{Cursor: "12"})),
	} {
		if !errors.Is(err, entity.ErrCursorInvalid) {
			t.Errorf("%s cursor: %v, want ErrCursorInvalid", name, err)
		}
	}
}

func first[T any](_ T, err error) error          { return err }
func second[T, U any](_ T, _ U, err error) error { return err }

func TestEntityWithTooManyKeysRefusesAllOfTheDelivery(t *testing.T) {
	s := open(t, t.TempDir(), entity.Config{})
	reading := func(from, n int) entity.Reading {
		r := entity.Reading{TS: 1}
		for i := range n {
			r.Values = append(r.Values, entity.Sample{Key: fmt.Sprintf("k%d", from+i), Value: value.Int(1)})
		}
		return r
	}
	var full []entity.Reading
	for i := 0; i < entity.MaxEntityKeysForTest-1; i += entity.MaxReadingKeys {
		full = append(full, reading(i, min(entity.MaxReadingKeys, entity.MaxEntityKeysForTest-1-i)))
	}
	s.write("a", full...)
	err := s.Write(t.Context(), "a", []entity.Reading{at(2, "k0", value.Int(2)), reading(10_000, 2)}, 1)
	if !errors.Is(err, entity.ErrTooManyKeys) || !strings.Contains(err.Error(), fmt.Sprint(entity.MaxEntityKeysForTest)) {
		t.Fatalf("one key too many: %v", err)
	}
	if l := s.latest("a", "k0"); l.TS != 1 {
		t.Errorf("a part of the refused delivery was kept: %+v", l)
	}
	s.write("a", reading(10_000, 1), at(3, "k0", value.Int(3))) // exactly full
	if n := len(s.entity("a").Latest); n != entity.MaxEntityKeysForTest {
		t.Errorf("%d keys, want %d", n, entity.MaxEntityKeysForTest)
	}
}

func TestIDsThatActorNamesDoNotAllowAreEntitiesOfTheirOwn(t *testing.T) {
	s := open(t, t.TempDir(), entity.Config{})
	ids := []string{"a*b", "a%2Ab", "a**b", "$a", "%24a", "*", "é ü", "...", "a b"}
	for i, id := range ids {
		s.write(id, at(1, "t", value.Int(int64(i))))
	}
	seen := map[string]string{}
	for i, id := range ids {
		snap := s.entity(id)
		if snap.ID != id || snap.Latest[0].Value.Int() != int64(i) || seen[snap.Actor] != "" {
			t.Errorf("%q: %+v, actor also of %q", id, snap, seen[snap.Actor])
		}
		seen[snap.Actor] = id
	}
}

func TestWhileACommitRunsTheNextBatchGathersAndIsCoalesced(t *testing.T) {
	s := open(t, t.TempDir(), entity.Config{BatchDelay: -1})
	g := newGate()
	batches := make(chan [3]int, 10)
	s.store.onCommit(func(ctx context.Context, b *entity.Batch) error {
		batches <- [3]int{len(b.Entities), len(b.Records), len(b.Latest)}
		return g.pass(ctx)
	})
	settled := newSettlements(t)
	ingest := func(name, id string, ts int64) {
		t.Helper()
		if err := settled.ingest(t.Context(), s, name, id, at(ts, "t", value.Int(ts))); err != nil {
			t.Fatal(err)
		}
	}
	ingest("first", "a", 1)
	wait(t, g.came, "the first commit")
	for i := range int64(10) {
		ingest(fmt.Sprint("a", i), "a", 10+i)
		ingest(fmt.Sprint("b", i), "b", 20-i) // late but for the first
	}
	for _, id := range []string{"a", "b"} {
		s.taken(id) // behind the readings in the mailbox: they are accepted now
	}
	if n := settled.count(nil); n != 0 {
		t.Errorf("%d deliveries were acknowledged before their commit", n)
	}
	g.open()
	settled.wait()
	close(batches)
	var got [][3]int
	for b := range batches {
		got = append(got, b)
	}
	if want := [][3]int{{1, 1, 1}, {2, 20, 2}}; !slices.Equal(got, want) {
		t.Errorf("batches of entities, readings and latest values: %v, want %v", got, want)
	}
	if l := s.latest("b", "t"); l.TS != 20 {
		t.Errorf("latest of b is of %d, want 20", l.TS)
	}
}

func TestBatchIsBoundedInBytes(t *testing.T) {
	s := open(t, t.TempDir(), entity.Config{BatchDelay: -1, BatchBytes: 4096})
	g := newGate()
	most := make(chan int, 1000)
	s.store.onCommit(func(ctx context.Context, b *entity.Batch) error {
		most <- len(b.Records)
		return g.pass(ctx)
	})
	settled := newSettlements(t)
	const n = 200
	for i := range n {
		if err := settled.ingest(t.Context(), s, fmt.Sprint(i), "a", at(int64(i), "t", value.Int(1))); err != nil {
			t.Fatal(err)
		}
	}
	s.taken("a")
	g.open()
	settled.wait()
	close(most)
	total := 0
	for size := range most {
		total += size
		if size > 4096/200 {
			t.Errorf("a batch of %d readings is beyond 4096 bytes", size)
		}
	}
	if total != n {
		t.Errorf("%d readings committed, want %d", total, n)
	}
}

func TestFailingStoreDelaysAcknowledgementsAndLosesNothing(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, entity.Config{RetryMin: time.Millisecond, RetryMax: 2 * time.Millisecond})
	full, late := errors.New("disk full"), errors.New("disk on fire")
	var tries int
	failing, repaired := newGate(), newGate()
	s.store.onCommit(func(context.Context, *entity.Batch) error {
		tries++ // by one goroutine at a time
		switch {
		case tries <= 5:
			return full
		case tries <= 8:
			return late
		case tries == 9:
			_ = failing.pass(t.Context()) // until the test has looked
			return late
		}
		select {
		case <-repaired.opened:
			return nil
		default:
			return late
		}
	})
	settled := newSettlements(t)
	const n = 50
	for i := range n {
		if err := settled.ingest(t.Context(), s, fmt.Sprint(i), fmt.Sprintf("e%d", i%7), at(int64(i), "t", value.Int(int64(i)))); err != nil {
			t.Fatal(err)
		}
	}
	wait(t, failing.came, "the ninth try")
	st := s.Stats()
	if settled.count(nil) != 0 || st.StoreErrors < 8 || !strings.Contains(st.StoreError, "on fire") || st.WindowUsed == 0 || st.Readings != 0 {
		t.Errorf("while the store fails: %d acknowledged, stats %+v", settled.count(nil), st)
	}
	repaired.open()
	failing.open()
	settled.wait()
	if got := settled.count(nil); got != n {
		t.Errorf("%d of %d acknowledged", got, n)
	}
	s.untilIdle()
	if st := s.Stats(); st.StoreError != "" || st.Readings != n {
		t.Errorf("after the repair: %+v", st)
	}
	if lines := s.logs.count("commit failed, trying again; nothing is acknowledged meanwhile"); lines != 2 {
		t.Errorf("%d log lines for two causes", lines)
	}
	s = s.reopen(entity.Config{})
	found := 0
	for e := range 7 {
		found += len(s.history(fmt.Sprintf("e%d", e), "t"))
	}
	if found != n {
		t.Errorf("%d readings found, want %d", found, n)
	}
}

func TestFullWindowMakesTheSourceWait(t *testing.T) {
	const window = 10_000
	s := open(t, t.TempDir(), entity.Config{WindowBytes: window, BatchDelay: -1})
	g := newGate()
	s.store.onCommit(func(ctx context.Context, _ *entity.Batch) error { return g.pass(ctx) })
	settled := newSettlements(t)
	waiting, cancel := context.WithCancelCause(t.Context())
	stuck := make(chan error)
	go func() {
		for i := 0; ; i++ {
			if err := settled.ingest(waiting, s, fmt.Sprint(i), "a", at(int64(i), "t", value.Int(1))); err != nil {
				stuck <- err
				return
			}
		}
	}()
	wait(t, g.came, "a commit")
	// The source is stuck when the window has no room for one more.
	for s.Stats().WindowUsed < window-400 {
		select {
		case err := <-stuck:
			t.Fatalf("the source ended before the window was full: %v", err)
		default:
		}
	}
	impatient := errors.New("the source has no time")
	cancel(impatient)
	if err := wait(t, stuck, "the stuck source"); !errors.Is(err, impatient) {
		t.Errorf("the source that waited got %v", err)
	}
	st := s.Stats()
	if st.WindowUsed > window || settled.count(nil) != 0 {
		t.Errorf("with a full window: %+v", st)
	}
	g.open()
	settled.wait()
	s.untilIdle()
	if st := s.Stats(); int(st.Readings) != settled.count(nil) {
		t.Errorf("afterwards: %+v, %d acknowledged", st, settled.count(nil))
	}
	s.write("a", at(1, "t", value.String(strings.Repeat("x", 2*window)))) // larger than the window, alone
}

func TestCloseCommitsAndAcknowledgesEverythingAccepted(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, entity.Config{BatchDelay: 20 * time.Millisecond})
	settled := newSettlements(t)
	const n = 2000
	for i := range n {
		if err := settled.ingest(t.Context(), s, fmt.Sprint(i), fmt.Sprintf("e%d", i%100), at(int64(i), "t", value.Int(int64(i)))); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := settled.count(nil); got != n {
		t.Errorf("when Close returned %d of %d were acknowledged", got, n)
	}
	settled.wait()
	if err := s.Ingest(t.Context(), "e1", []entity.Reading{at(1, "t", value.Int(1))}, 1, nil); !errors.Is(err, entity.ErrClosed) {
		t.Errorf("ingest after Close: %v", err)
	}
	_, err := s.Entity(t.Context(), "e1")
	_, _, herr := s.History(t.Context(), entity.HistoryQuery{ID: "e1", Key: "t"})
	if !errors.Is(err, entity.ErrClosed) || !errors.Is(herr, entity.ErrClosed) {
		t.Errorf("queries after Close: %v, %v", err, herr)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Errorf("second Close: %v", err)
	}
	s = open(t, dir, entity.Config{})
	for e := range 100 {
		if got := len(s.history(fmt.Sprintf("e%d", e), "t")); got != n/100 {
			t.Errorf("e%d has %d readings, want %d", e, got, n/100)
		}
	}
}

func TestCloseByForceRefusesWhatIsNotCommitted(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, entity.Config{WindowBytes: 20_000, RetryMin: time.Millisecond})
	s.write("a", at(1, "t", value.Int(1)))
	s.store.breaks.Store(true)
	broken := errors.New("disk on fire")
	came := newGate()
	s.store.onCommit(func(context.Context, *entity.Batch) error {
		came.once.Do(func() { close(came.came) })
		return broken
	})
	settled := newSettlements(t)
	source := make(chan error)
	go func() { // until the window is full, and then it waits in there
		for i := 0; ; i++ {
			if err := settled.ingest(t.Context(), s, fmt.Sprint(i), fmt.Sprintf("e%d", i%3), at(2, "t", value.Int(2))); err != nil {
				source <- err
				return
			}
		}
	}()
	wait(t, came.came, "a failing commit")
	ctx, cancel := context.WithCancelCause(t.Context())
	late := errors.New("the operator has no time")
	cancel(late)
	if err := s.Close(ctx); !errors.Is(err, late) {
		t.Errorf("close: %v", err)
	}
	if err := wait(t, source, "the source"); !errors.Is(err, entity.ErrClosed) {
		t.Errorf("the source got %v, want ErrClosed", err)
	}
	settled.wait()
	if acked, refused := settled.count(nil), settled.count(entity.ErrClosed); acked != 0 || refused == 0 {
		t.Errorf("%d acknowledged, %d refused", acked, refused)
	}
	s = open(t, dir, entity.Config{})
	if _, err := s.Entity(t.Context(), "e0"); !errors.Is(err, entity.ErrNotFound) {
		t.Errorf("a refused reading was kept: %v", err)
	}
	if l := s.latest("a", "t"); l.Value.Int() != 1 {
		t.Errorf("an acknowledged reading is gone: %+v", l)
	}
}

func TestSystemShutDownBeforeTheRuntimeSettlesEverything(t *testing.T) {
	s := open(t, t.TempDir(), entity.Config{})
	settled := newSettlements(t)
	source := make(chan int)
	go func() {
		for i := 0; ; i++ {
			if err := settled.ingest(t.Context(), s, fmt.Sprint(i), fmt.Sprintf("e%d", i%50), at(int64(i), "t", value.Int(1))); err != nil {
				if !errors.Is(err, entity.ErrClosed) && !errors.Is(err, entity.ErrStopped) {
					t.Errorf("ingest: %v", err)
				}
				source <- i
				return
			}
		}
	}()
	for s.Stats().Readings < 100 {
		s.write("pacer", at(1, "t", value.Int(1)))
	}
	if _, err := s.sys.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	n := wait(t, source, "the source")
	settled.wait()
	if acked, stopped, closed := settled.count(nil), settled.count(entity.ErrStopped), settled.count(entity.ErrClosed); acked < 50 || acked+stopped+closed != n {
		t.Errorf("of %d: %d acknowledged, %d stopped, %d closed", n, acked, stopped, closed)
	}
	if _, err := s.Entity(t.Context(), "e1"); !errors.Is(err, entity.ErrClosed) {
		t.Errorf("entity: %v, want ErrClosed", err)
	}
}

func TestSecondRuntimeInOneSystemIsRefused(t *testing.T) {
	s := open(t, t.TempDir(), entity.Config{})
	if _, err := entity.Open(t.Context(), s.sys, s.store, entity.Config{}); !errors.Is(err, actor.ErrNameTaken) {
		t.Errorf("got %v, want ErrNameTaken", err)
	}
}

func TestHistoryPagesGoOnWhereTheyEnded(t *testing.T) {
	s := open(t, t.TempDir(), entity.Config{})
	var readings []entity.Reading
	for i := range int64(100) {
		readings = append(readings, at(i*1_000_000, "t", value.Int(i)))
	}
	s.write("a", readings...)
	for _, descending := range []bool{false, true} {
		q := entity.HistoryQuery{ID: "a", Key: "t", From: 10_000_000, To: 91_000_000, Limit: 7, Descending: descending}
		var got []int64
		pages := 0
		for {
			points, next, err := s.History(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			pages++
			for _, p := range points {
				got = append(got, p.Value.Int())
			}
			if q.Cursor = next; next == "" {
				break
			}
		}
		if descending {
			slices.Reverse(got)
		}
		if len(got) != 81 || got[0] != 10 || got[80] != 90 || !slices.IsSorted(got) || pages != 12 {
			t.Errorf("descending %v: %d pages with %v", descending, pages, got)
		}
	}
}

func TestEntityPagesCoverAllOnce(t *testing.T) {
	s := open(t, t.TempDir(), entity.Config{})
	settled := newSettlements(t)
	for i := range 130 {
		if err := settled.ingest(t.Context(), s, fmt.Sprint(i), fmt.Sprintf("Sensor %03d", i), at(1, "t", value.Int(1))); err != nil {
			t.Fatal(err)
		}
	}
	settled.wait()
	for search, want := range map[string]int{"": 130, "sensor 0": 100, "SENSOR 12": 10, "nothing": 0} {
		q := entity.Page{Search: search, Limit: 30}
		var ids []string
		for {
			page, next, err := s.Entities(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range page {
				ids = append(ids, e.ID)
			}
			if q.After = next; next == "" {
				break
			}
		}
		if len(slices.Compact(slices.Clone(ids))) != want || len(ids) != want || !slices.IsSorted(ids) {
			t.Errorf("search %q: %d entities %v, want %d", search, len(ids), ids, want)
		}
	}
}

func TestCountIsOfTheNumbersInARange(t *testing.T) {
	s := open(t, t.TempDir(), entity.Config{})
	s.write("a", at(3_600_000, "t", value.Int(1)), at(3_600_001, "t", value.Float(2.5)), at(3_600_002, "t", value.Bool(true)), at(9_000_000, "t", value.Int(-4)))
	for r, want := range map[[2]int64]int{{0, 0}: 3, {3_600_001, 0}: 2, {0, 9_000_000}: 2, {3_600_002, 9_000_000}: 0} {
		if n, err := s.CountNumbers(t.Context(), "a", "t", r[0], r[1]); err != nil || n != want {
			t.Errorf("range %v: %d, %v; want %d", r, n, err, want)
		}
	}
}

// TestAFloodDelaysOthersByItsShareOnly has one source send as much as it can, to many
// entities, while no commit ends. What others send then waits behind its share, and not
// behind all of it.
func TestAFloodDelaysOthersByItsShareOnly(t *testing.T) {
	const share, message = 256 << 10, 16 << 10
	s := open(t, t.TempDir(), entity.Config{ShareBytes: share})
	g := newGate()
	s.store.onCommit(func(ctx context.Context, _ *entity.Batch) error { return g.pass(ctx) })
	var flood, before atomic.Int64 // messages of the flood that are committed, and when the other's was
	text := value.String(strings.Repeat("x", message))
	var senders sync.WaitGroup
	for i := range 8 {
		senders.Go(func() {
			for j := range 16 {
				once := entity.Once{By: "flood"}
				err := s.IngestOnce(t.Context(), fmt.Sprintf("flooded-%d", i), once, []entity.Reading{at(int64(j), "t", text)}, message, func(err error) {
					if err != nil {
						t.Errorf("the flood: %v", err)
					}
					flood.Add(1)
				})
				if err != nil {
					t.Errorf("the flood: %v", err)
					return
				}
			}
		})
	}
	wait(t, g.came, "a commit")
	for began := time.Now(); s.Stats().WindowUsed < share-2*message; runtime.Gosched() {
		if time.Since(began) > patience {
			t.Fatalf("the flood has only %d bytes in the window", s.Stats().WindowUsed)
		}
	}
	done := make(chan error, 1)
	err := s.IngestOnce(t.Context(), "other", entity.Once{By: "other"}, []entity.Reading{at(1, "t", value.Int(1))}, 50, func(err error) {
		before.Store(flood.Load())
		done <- err
	})
	if err != nil {
		t.Fatal(err)
	}
	if used := s.Stats().WindowUsed; used > share+message { // the runtime itself asks who is online
		t.Errorf("%d bytes are in the window, and the share is %d", used, share)
	}
	s.taken("other") // what comes now comes after it
	g.open()
	if err := wait(t, done, "the other's commit"); err != nil {
		t.Error(err)
	}
	if n := before.Load(); n > share/message {
		t.Errorf("%d messages of the flood were committed before the other's", n)
	}
	senders.Wait()
	s.untilIdle()
}
