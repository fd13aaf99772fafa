package entity_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/sqlite"
	"github.com/greenroom-go/greenroom/entity/value"
)

func (s *stage) subscribe(q entity.ChangesQuery) *entity.Subscription {
	s.t.Helper()
	sub, err := s.Changes(s.t.Context(), q)
	if err != nil {
		s.t.Fatalf("subscribe: %v", err)
	}
	s.t.Cleanup(sub.Close)
	return sub
}

func next(t testing.TB, sub *entity.Subscription) entity.Change {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c, err := sub.Next(ctx)
	if err != nil {
		t.Fatalf("next: %v", err)
	}
	return c
}

// nothing checks that no change is waiting.
func nothing(t testing.TB, sub *entity.Subscription) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if c, err := sub.Next(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("there is %+v, %v", c, err)
	}
}

func TestSubscriptionGetsCommittedChangesInOrder(t *testing.T) {
	s := open(t, t.TempDir(), entity.Config{})
	s.write("a", at(1, "t", value.Int(1))) // before: not seen
	all, one := s.subscribe(entity.ChangesQuery{}), s.subscribe(entity.ChangesQuery{Entities: []string{"b", "c"}})
	nothing(t, all)
	s.write("a", at(20, "t", value.Int(2)), at(10, "t", value.Int(3))) // the second is late
	s.write("b", at(30, "t", value.Int(4)))
	for i, want := range []int64{20, 10, 30} {
		c := next(t, all)
		if c.TS != want || len(c.Values) != 1 || c.Values[0].Value.Int() != int64(i+2) || c.Committed == 0 || c.Cursor == "" {
			t.Errorf("change %d: %+v", i, c)
		}
	}
	if c := next(t, one); c.Entity != "b" || c.TS != 30 {
		t.Errorf("filtered: %+v", c)
	}
	nothing(t, all)
	nothing(t, one)
	if n := s.Stats().Subscriptions; n != 2 {
		t.Errorf("%d subscriptions", n)
	}
	one.Close()
	if _, err := one.Next(t.Context()); !errors.Is(err, entity.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	if n := s.Stats().Subscriptions; n != 1 {
		t.Errorf("%d subscriptions after one was closed", n)
	}
}

func TestChangeIsPublishedBeforeItIsAcknowledged(t *testing.T) {
	s := open(t, t.TempDir(), entity.Config{})
	sub := s.subscribe(entity.ChangesQuery{})
	for i := range int64(50) {
		s.write("a", at(i, "t", value.Int(i)))
		ctx, cancel := context.WithCancel(t.Context())
		cancel() // it must be there already
		if c, err := sub.Next(ctx); err != nil || c.TS != i {
			t.Fatalf("after the acknowledgement of %d: %+v, %v", i, c, err)
		}
	}
}

func TestStreamResumesByCursorAlsoAfterARestart(t *testing.T) {
	s := open(t, t.TempDir(), entity.Config{})
	sub := s.subscribe(entity.ChangesQuery{})
	for i := range int64(30) {
		s.write(fmt.Sprintf("e%d", i%3), at(i, "t", value.Int(i)))
	}
	var cursors []string
	for range 30 {
		cursors = append(cursors, next(t, sub).Cursor)
	}
	s = s.reopen(entity.Config{})
	s.write("e0", at(30, "t", value.Int(30)))
	for from, cursor := range cursors {
		sub := s.subscribe(entity.ChangesQuery{Cursor: cursor})
		for want := int64(from) + 1; want <= 30; want++ {
			if c := next(t, sub); c.TS != want {
				t.Fatalf("from %d: got %d, want %d", from, c.TS, want)
			}
		}
		nothing(t, sub)
		sub.Close()
	}
	filtered := s.subscribe(entity.ChangesQuery{Cursor: cursors[9], Entities: []string{"e2"}})
	for want := int64(11); want < 30; want += 3 {
		if c := next(t, filtered); c.TS != want || c.Entity != "e2" {
			t.Errorf("filtered: %+v, want %d", c, want)
		}
	}
	nothing(t, filtered)
	// Nothing of e2 has come, but the place moves on: a reader that keeps it
	// is not sent through all of that again.
	again := s.subscribe(entity.ChangesQuery{Cursor: filtered.Cursor()})
	nothing(t, again)
}

func TestResumedStreamHasNoGapAndNoDuplicateWhileReadingsCome(t *testing.T) {
	s := open(t, t.TempDir(), entity.Config{StreamBuffer: 600, BatchDelay: -1})
	from := s.subscribe(entity.ChangesQuery{}).Cursor()
	settled := newSettlements(t)
	const before, during = 3000, 6000
	ingest := func(i int) {
		if err := settled.ingest(t.Context(), s, fmt.Sprint(i), "a", at(int64(i), "t", value.Int(int64(i)))); err != nil {
			t.Error(err)
		}
	}
	for i := range before {
		ingest(i)
	}
	settled.wait()
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := range during {
			ingest(before + i)
		}
	})
	// Four readers, which all begin with the log and end live. One that is too
	// slow for the buffer goes on with its cursor.
	for range 4 {
		wg.Go(func() {
			sub, cursor := s.subscribe(entity.ChangesQuery{Cursor: from}), from
			for want := int64(0); want < before+during; {
				c, err := sub.Next(t.Context())
				if errors.Is(err, entity.ErrLagged) {
					sub.Close()
					sub = s.subscribe(entity.ChangesQuery{Cursor: cursor})
					continue
				}
				if err != nil || c.TS != want {
					t.Errorf("got %+v, %v, want %d", c, err, want)
					return
				}
				cursor = c.Cursor
				want++
			}
			nothing(t, sub)
		})
	}
	wg.Wait()
	settled.wait()
}

func TestSlowReaderIsToldAndGoesOnWithItsCursor(t *testing.T) {
	const buffer = 16
	s := open(t, t.TempDir(), entity.Config{StreamBuffer: buffer})
	slow, quick := s.subscribe(entity.ChangesQuery{}), s.subscribe(entity.ChangesQuery{})
	for i := range int64(100) {
		s.write("a", at(i, "t", value.Int(i)))
		if c := next(t, quick); c.TS != i {
			t.Fatalf("the quick reader got %d, want %d", c.TS, i)
		}
	}
	var cursor string
	for i := range int64(buffer) {
		c := next(t, slow)
		if c.TS != i {
			t.Fatalf("the slow reader got %d, want %d", c.TS, i)
		}
		cursor = c.Cursor
	}
	for range 2 {
		if _, err := slow.Next(t.Context()); !errors.Is(err, entity.ErrLagged) {
			t.Fatalf("the slow reader got %v, want ErrLagged", err)
		}
	}
	if n := s.Stats().Lagged; n != 1 {
		t.Errorf("%d have lagged", n)
	}
	again := s.subscribe(entity.ChangesQuery{Cursor: cursor})
	for i := int64(buffer); i < 100; i++ {
		if c := next(t, again); c.TS != i {
			t.Fatalf("resumed: got %d, want %d", c.TS, i)
		}
	}
}

func TestCursorThatIsTooOldOrOfAnotherStoreHasExpired(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, entity.Config{})
	old := s.subscribe(entity.ChangesQuery{}).Cursor()
	s.write("a", at(1, "t", value.Int(1)))
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	// Shorten the log as far as it goes.
	store, err := sqlite.Open(t.Context(), dir, sqlite.Options{ChangeLogBytes: 1})
	if err != nil {
		t.Fatal(err)
	}
	b := &entity.Batch{First: store.Info().LastChange + 1, Entities: []entity.BatchEntity{{ID: "a"}}, Records: []entity.Record{{Seq: 2, Reading: at(2, "t", value.Int(2))}}}
	if err := store.Commit(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir, entity.Config{})
	other := open(t, t.TempDir(), entity.Config{})
	for name, err := range map[string]error{
		"too old":          first(s.Changes(t.Context(), entity.ChangesQuery{Cursor: old})),
		"of another store": first(other.Changes(t.Context(), entity.ChangesQuery{Cursor: old})),
		"yet to come":      first(s.Changes(t.Context(), entity.ChangesQuery{Cursor: old + "zz"})),
	} {
		if !errors.Is(err, entity.ErrCursorExpired) {
			t.Errorf("%s: %v, want ErrCursorExpired", name, err)
		}
	}
	if n := s.Stats().Subscriptions; n != 0 {
		t.Errorf("%d subscriptions are left", n)
	}
}

// Two stores that are copies of one have the same changes up to the copy, and the same
// numbers for others after it.
func TestCursorOfAChangeAfterACopyIsOfOneOfTheCopiesOnly(t *testing.T) {
	here, there := t.TempDir(), filepath.Join(t.TempDir(), "copy")
	s := open(t, here, entity.Config{})
	s.write("a", at(1, "t", value.Int(1)))
	shared := s.subscribe(entity.ChangesQuery{}).Cursor()
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(there, os.DirFS(here)); err != nil {
		t.Fatal(err)
	}
	s, other := open(t, here, entity.Config{}), open(t, there, entity.Config{})
	for ts := range int64(5) {
		s.write("a", at(10+ts, "t", value.Int(ts)))
		other.write("a", at(10+ts, "t", value.Int(-ts)))
		other.write("b", at(10+ts, "t", value.Int(-ts)))
	}
	for name, r := range map[string]*stage{"the first": s, "the copy": other} {
		sub, err := r.Changes(t.Context(), entity.ChangesQuery{Cursor: shared})
		if err != nil {
			t.Errorf("%s, from a change that both have: %v", name, err)
			continue
		}
		if c, err := sub.Next(t.Context()); err != nil || c.TS != 10 {
			t.Errorf("%s goes on with %+v, %v", name, c, err)
		}
		sub.Close()
	}
	later := s.subscribe(entity.ChangesQuery{}).Cursor()
	_, err := other.Changes(t.Context(), entity.ChangesQuery{Cursor: later})
	if !errors.Is(err, entity.ErrCursorForeign) || !errors.Is(err, entity.ErrCursorExpired) {
		t.Errorf("the copy, from a change that only the first has: %v, want ErrCursorForeign", err)
	}
	for range 2 { // the numbers of the runs that committed are kept
		if err := s.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		s = open(t, here, entity.Config{})
		for _, cursor := range []string{shared, later} {
			if _, err := s.Changes(t.Context(), entity.ChangesQuery{Cursor: cursor}); err != nil {
				t.Errorf("the first, opened again, from %s: %v", cursor, err)
			}
		}
		s.write("a", at(20, "t", value.Int(1)))
	}
}

func TestCloseOfTheRuntimeEndsSubscriptionsAfterTheirChanges(t *testing.T) {
	s := open(t, t.TempDir(), entity.Config{})
	sub := s.subscribe(entity.ChangesQuery{})
	settled := newSettlements(t)
	for i := range int64(10) {
		if err := settled.ingest(t.Context(), s, fmt.Sprint(i), "a", at(i, "t", value.Int(i))); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i := range int64(10) {
		if c := next(t, sub); c.TS != i {
			t.Errorf("got %d, want %d", c.TS, i)
		}
	}
	if _, err := sub.Next(t.Context()); !errors.Is(err, entity.ErrClosed) {
		t.Errorf("at the end: %v, want ErrClosed", err)
	}
	if _, err := s.Changes(t.Context(), entity.ChangesQuery{}); !errors.Is(err, entity.ErrClosed) {
		t.Errorf("subscribe after Close: %v", err)
	}
}

// Who follows edits is not disturbed by readings, however many: they take no room in
// its buffer.
func TestSubscriptionToEditsOnlyHasNoReadings(t *testing.T) {
	const buffer = 4
	s := open(t, t.TempDir(), entity.Config{StreamBuffer: buffer})
	from := s.subscribe(entity.ChangesQuery{}).Cursor()
	live := s.subscribe(entity.ChangesQuery{EditsOnly: true})
	one := s.subscribe(entity.ChangesQuery{EditsOnly: true, Entities: []string{"b"}})
	for i := range int64(5 * buffer) {
		s.write("a", at(i, "t", value.Int(i)))
	}
	s.patch("a", entity.Reported, `{"x":1}`)
	s.patch("b", entity.Reported, `{"y":1}`)
	check := func(name string, sub *entity.Subscription, want ...string) {
		t.Helper()
		for _, id := range want {
			if c := next(t, sub); c.Entity != id || c.Edit == nil || len(c.Values) > 0 {
				t.Errorf("%s: %+v, want the edit of %s", name, c, id)
			}
		}
		nothing(t, sub)
	}
	check("live", live, "a", "b")
	check("of one", one, "b")
	check("resumed", s.subscribe(entity.ChangesQuery{Cursor: from, EditsOnly: true}), "a", "b")
	s.write("b", at(1, "t", value.Int(1)))
	if c := live.Cursor(); c == from || c != s.subscribe(entity.ChangesQuery{}).Cursor() {
		t.Errorf("the cursor of a follower of edits stays at %s", c)
	}
}
