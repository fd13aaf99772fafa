package postgres

import (
	"bytes"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/storetest"
	"github.com/greenroom-go/greenroom/entity/value"
	"github.com/greenroom-go/greenroom/internal/pgtest"
)

func TestConformance(t *testing.T) {
	url := pgtest.Database(t)
	var mu sync.Mutex
	schemas := map[string]string{} // of the directories that the suite names
	opened := func(t *testing.T, dir string) entity.Store {
		mu.Lock()
		defer mu.Unlock()
		if schemas[dir] == "" {
			schemas[dir] = fmt.Sprintf("store%d", len(schemas))
		}
		return open(t, url, Options{Schema: schemas[dir]})
	}
	storetest.Run(t, opened)
	t.Run("Sealed", func(t *testing.T) { storetest.RunSealed(t, opened) })
}

func open(t testing.TB, url string, opts Options) *Store {
	t.Helper()
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	s, err := Open(t.Context(), url, opts)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func closeStore(t testing.TB, s *Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestChangeLogIsBoundedAndKeepsTheNewest(t *testing.T) {
	const limit = 20_000
	url := pgtest.Database(t)
	s := open(t, url, Options{ChangeLogBytes: limit})
	conn := pgtest.Connect(t, url)
	logged := func() int64 {
		return pgtest.Ask[int64](t, conn, "SELECT coalesce(sum(length(data)), 0) FROM greenroom.change")
	}
	const commits = 500
	for i := uint64(1); i <= commits; i++ {
		commit(t, s, batch(i, int64(i), 10))
		if i%10 == 0 {
			if n := logged(); n > limit {
				t.Fatalf("after %d commits the log has %d bytes, more than %d", i, n, limit)
			}
		}
	}
	if n := logged(); n < limit/2 || n != s.w.state.logBytes {
		t.Errorf("the log has %d bytes, and is thought to have %d", n, s.w.state.logBytes)
	}
	for range 2 {
		info := storetest.CheckShortened(t, s, commits)
		closeStore(t, s)
		s = open(t, url, Options{ChangeLogBytes: limit})
		again := s.Info()
		if again.Generations = info.Generations; !reflect.DeepEqual(again, info) {
			t.Errorf("reopened: %+v, was %+v", again, info)
		}
	}
	closeStore(t, s)

	s = open(t, url, Options{ChangeLogBytes: 1}) // less than any batch
	commit(t, s, batch(commits+1, 1, 10))
	if info := s.Info(); info.FirstChange != commits+1 || info.LastChange != commits+1 {
		t.Errorf("with a tiny limit: %+v", info)
	}
	closeStore(t, s)
}

func TestOldChangesAreDroppedFromTheLog(t *testing.T) {
	url := pgtest.Database(t)
	s := open(t, url, Options{})
	const old, commits = 30, 40
	now := time.Now()
	for i := uint64(1); i <= commits; i++ {
		b := batch(i, int64(i), 10)
		if b.Committed = now.UnixMilli(); i <= old {
			b.Committed = now.Add(-2 * DefaultChangeLogAge).UnixMilli()
		}
		commit(t, s, b)
	}
	shorten := func(now time.Time, first uint64, when string) {
		t.Helper()
		if err := s.shorten(t.Context(), now); err != nil {
			t.Fatal(err)
		}
		if info := s.Info(); info.FirstChange != first || info.LastChange != commits {
			t.Errorf("%s: %+v, want changes from %d on", when, info, first)
		}
	}
	shorten(now, 1, "just opened")
	s.opened = now.Add(-DefaultChangeLogAge)
	shorten(now, old+1, "an hour later")
	storetest.CheckShortened(t, s, commits)
	if n := pgtest.Ask[int64](t, pgtest.Connect(t, url), "SELECT sum(length(data))::bigint FROM greenroom.change"); n != s.w.state.logBytes {
		t.Errorf("the log has %d bytes, and is thought to have %d", n, s.w.state.logBytes)
	}
	shorten(now.Add(2*DefaultChangeLogAge), commits, "at rest")
	info := storetest.CheckShortened(t, s, commits)
	closeStore(t, s)
	s = open(t, url, Options{ChangeLogAge: time.Millisecond})
	again := s.Info()
	if again.Generations = info.Generations; !reflect.DeepEqual(again, info) {
		t.Errorf("reopened: %+v, was %+v", again, info)
	}
	for i := uint64(commits + 1); i <= commits+10; i++ {
		commit(t, s, batch(i, int64(i), 10))
	}
	eventually(t, func() string { // by itself
		if info := s.Info(); info.FirstChange < commits+10 {
			return fmt.Sprintf("old changes are in the log: %+v", info)
		}
		return ""
	})
	closeStore(t, s)
}

// Readings that are there already make COPY fail, and nothing else.
func TestReadingsThatComeAgainAreMerged(t *testing.T) {
	url := pgtest.Database(t)
	s := open(t, url, Options{})
	defer closeStore(t, s)
	const n = 4 * copyFrom
	next := uint64(1)
	send := func(from, to int64, v value.Value, origin entity.Origin) {
		t.Helper()
		b := atTimes(next)
		for ts := from; ts < to; ts++ {
			b.Records = append(b.Records, entity.Record{Seq: next, Reading: entity.Reading{TS: ts, Values: []entity.Sample{{Key: "t", Value: v}}}, Origin: origin})
			next++
		}
		commit(t, s, b)
	}
	send(0, n, value.Int(1), entity.Origin{Source: "sum", Seq: 1})
	if s.w.merging != 0 {
		t.Errorf("new readings are merged")
	}
	send(n-1, 2*n, value.String("again"), entity.Origin{}) // the first is there
	if s.w.merging != mergeAfter-1 {
		t.Errorf("merging %d more times, want %d", s.w.merging, mergeAfter-1)
	}
	for i := range int64(mergeAfter) {
		send(1000*n+i, 1000*n+i+1, value.Bool(true), entity.Origin{})
	}
	if s.w.merging != 0 {
		t.Errorf("merging %d more times after all that", s.w.merging)
	}
	send(2*n, 3*n, value.Float(3), entity.Origin{})
	points, err := s.History(t.Context(), "a", "t", entity.Place{}, entity.Place{TS: 3 * n}, 10*n, false)
	if err != nil || len(points) != 3*n {
		t.Fatalf("%d points, %v", len(points), err)
	}
	for i, p := range points {
		want := value.Int(1)
		if i >= 2*n {
			want = value.Float(3)
		} else if i >= n-1 {
			want = value.String("again")
		}
		if p.TS != int64(i) || p.Value != want {
			t.Fatalf("point %d is %+v, want %v", i, p, want)
		}
	}
	origins, err := s.Origins(t.Context(), "a", "t", 0, entity.MaxTS, 10*n)
	if err != nil || len(origins) != n-1 {
		t.Errorf("%d origins, %v: the one that was replaced has none any more", len(origins), err)
	}
}

func TestTelemetryOfDeletedEntitiesIsRemoved(t *testing.T) {
	url := pgtest.Database(t)
	s := open(t, url, Options{PartitionWidth: day})
	defer closeStore(t, s)
	now := time.Now().UnixMilli()
	var list []int64
	for i := range int64(3 * purgeRows / 2) {
		list = append(list, now-i*60_000)
	}
	commit(t, s, atTimes(1, list...))
	end := &entity.Batch{
		First: s.Info().LastChange + 1, Committed: 2, Entities: []entity.BatchEntity{{ID: "a", Edited: true, Revision: 1, Deleted: true}},
		Records: []entity.Record{{Reading: entity.Reading{TS: 1}, Edit: &entity.Edit{Revision: 1, Deleted: true}}},
	}
	commit(t, s, end)
	commit(t, s, atTimes(end.First+1, 7)) // another one of the same name
	if got := times(t, s, "a", "t"); !slices.Equal(got, []int64{7}) {
		t.Errorf("the new one has the times %d…", len(got))
	}
	conn := pgtest.Connect(t, url)
	eventually(t, func() string { // in the background
		left := pgtest.Ask[int](t, conn, "SELECT count(*) FROM greenroom.telemetry") + pgtest.Ask[int](t, conn, "SELECT count(*) FROM greenroom.doomed")
		if left == 1 {
			return ""
		}
		return fmt.Sprintf("%d rows are left", left)
	})
}

func TestViewShowsReadingsByName(t *testing.T) {
	url := pgtest.Database(t)
	s := open(t, url, Options{})
	defer closeStore(t, s)
	commit(t, s, atTimes(1, 1_700_000_000_000))
	got := pgtest.Ask[string](t, pgtest.Connect(t, url), "SELECT format('%s %s %s %s', entity, key, number, time AT TIME ZONE 'UTC') FROM greenroom.reading")
	if want := "a t 1700000000000 2023-11-14 22:13:20"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestDumpOfARunningStoreIsAStoreAgain(t *testing.T) {
	server := pgtest.Start(t)
	url := server.Database(t)
	s := open(t, url, Options{})
	defer closeStore(t, s)
	var list []int64
	for i := range int64(3 * copyFrom) {
		list = append(list, i*day.Milliseconds()*30)
	}
	commit(t, s, atTimes(1, list...))
	if _, err := s.PutDoc(t.Context(), entity.Doc{Kind: "k", ID: "i", Body: []byte("body")}, ""); err != nil {
		t.Fatal(err)
	}
	again := open(t, server.DumpAndRestore(t, url), Options{})
	defer closeStore(t, again)
	info := again.Info()
	if info.Generations = s.Info().Generations; !reflect.DeepEqual(info, s.Info()) || !slices.Equal(again.spans.all(), s.spans.all()) {
		t.Errorf("restored: %+v with %d partitions, was %+v with %d", again.Info(), len(again.spans.all()), s.Info(), len(s.spans.all()))
	}
	if got := times(t, again, "a", "t"); !slices.Equal(got, list) {
		t.Errorf("%d times of %d", len(got), len(list))
	}
	if doc, err := again.Doc(t.Context(), "k", "i"); err != nil || string(doc.Body) != "body" {
		t.Errorf("document %+v, %v", doc, err)
	}
	commit(t, again, atTimes(uint64(len(list))+1, 7))
}

func FuzzColumns(f *testing.F) {
	f.Add("plain", []byte("[1]"))
	f.Add("nul\x00 \"quoted\" \u2028", []byte(`{"a":"\u0000"}`))
	f.Add("true", []byte(`"s"`))
	f.Fuzz(func(t *testing.T, text string, data []byte) {
		if utf8.ValidString(text) {
			c := columnsOf(value.String(text))
			if v, err := c.value(); err != nil || v != value.String(text) || strings.ContainsRune(c.text.String+c.json.String, 0) {
				t.Errorf("%q became %+v, %v, %v", text, c, v, err)
			}
		}
		c := columns{json: pgtype.Text{String: string(data), Valid: true}} // whatever is in the database
		if v, err := c.value(); err == nil && v.Kind() == 0 {
			t.Errorf("%q is no value and no error", data)
		}
		o, err := unpackOrigin(data)
		if err == nil && data != nil && !bytes.Equal(packOrigin(o), data) {
			t.Errorf("origin %q became %+v", data, o)
		}
	})
}
