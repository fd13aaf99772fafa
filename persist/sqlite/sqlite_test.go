package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/greenroom-go/greenroom/internal/sqlitedb"
	"github.com/greenroom-go/greenroom/persist"
	"github.com/greenroom-go/greenroom/persist/internal/plan"
	"github.com/greenroom-go/greenroom/persist/journaltest"
)

func open(t testing.TB, dir string) *Journal {
	t.Helper()
	j, err := Open(t.Context(), dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := j.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return j
}

// files are those of a database.
var files = []string{databaseName, databaseName + "-wal"}

// left copies what a process that is killed now would leave in dir.
func left(t testing.TB, dir, to string) {
	t.Helper()
	for _, name := range files {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(to, name), data, 0o600)
		}
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	}
}

func TestConformance(t *testing.T) {
	journaltest.Run(t, journaltest.Store{
		Open: func(t *testing.T, dir string) persist.Journal { return open(t, dir) },
		Crash: func(t *testing.T, j persist.Journal, dir string) {
			kept := t.TempDir()
			left(t, dir, kept)
			if err := j.Close(); err != nil {
				t.Fatal(err)
			}
			left(t, kept, dir)
		},
	})
}

// flusher flushes after some commits, or begins to.
type flusher struct {
	*Journal
	t    *testing.T
	rand *rand.Rand
}

func (f *flusher) Commit(ctx context.Context, b *persist.Batch) error {
	if err := f.Journal.Commit(ctx, b); err != nil {
		return err
	}
	var err error
	switch f.rand.IntN(5) {
	case 0:
		err = f.flush()
	case 1:
		err = f.flushPlaces(f.w.position)
	case 2:
		err = f.flushFeeds(f.w.position)
	case 3:
		err = f.sweep()
	}
	if err != nil {
		f.t.Errorf("flush: %v", err)
	}
	return nil
}

func TestConformanceBesideFlushes(t *testing.T) {
	journaltest.Run(t, journaltest.Store{
		Open: func(t *testing.T, dir string) persist.Journal {
			return &flusher{open(t, dir), t, rand.New(rand.NewPCG(16, 2))}
		},
		Crash: func(t *testing.T, j persist.Journal, dir string) {
			kept := t.TempDir()
			left(t, dir, kept)
			if err := j.Close(); err != nil {
				t.Fatal(err)
			}
			left(t, kept, dir)
		},
	})
}

func event(text string) persist.Payload { return persist.Payload{Type: "e", Data: []byte(text)} }

// number returns the number of an id.
func number(t testing.TB, j *Journal, id string) uint64 {
	t.Helper()
	list, err := j.Load(t.Context(), []string{id})
	if err != nil {
		t.Fatal(err)
	}
	return list[0].Last
}

// A WAL of which the end is missing or garbled: what was synced is there, and of no batch
// only a part.
func TestATornFileLosesTheLastBatchesWholly(t *testing.T) {
	dir := t.TempDir()
	j := open(t, dir)
	const batches, each = 12, 20
	var sizes [batches + 1]int64
	size := func() int64 {
		info, err := os.Stat(filepath.Join(dir, files[1]))
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	sizes[0] = size()
	for n := range uint64(batches) {
		b := &persist.Batch{Number: n + 1}
		for i := range each {
			b.Appends = append(b.Appends, persist.Append{ID: fmt.Sprint("id", i), After: n, Events: []persist.Payload{event("event")}})
		}
		if err := j.Commit(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		sizes[n+1] = size()
	}
	whole := t.TempDir()
	left(t, dir, whole)
	rnd := rand.New(rand.NewPCG(16, 1))
	for round := range 8 {
		torn := t.TempDir()
		left(t, whole, torn)
		synced := rnd.IntN(batches)
		cut := sizes[synced] + rnd.Int64N(sizes[synced+1]-sizes[synced])
		wal := filepath.Join(torn, files[1])
		data, err := os.ReadFile(wal)
		if err != nil {
			t.Fatal(err)
		}
		if round%2 == 0 {
			data = data[:cut]
		} else { // written in part, and garbage after it
			for i := cut; i < sizes[synced+1]; i++ {
				data[i] = byte(rnd.Int())
			}
		}
		if err := os.WriteFile(wal, data, 0o600); err != nil {
			t.Fatal(err)
		}
		j := open(t, torn)
		got := number(t, j, "id0")
		if got != uint64(synced) {
			t.Errorf("round %d: %d batches of %d that were synced", round, got, synced)
		}
		total := 0
		for part := range persist.Parts {
			feed, err := j.Feed(t.Context(), part, 0, persist.PageRecords)
			if err != nil {
				t.Fatal(err)
			}
			total += len(feed)
		}
		if total != synced*each {
			t.Errorf("round %d: %d events in the feeds, want %d", round, total, synced*each)
		}
		b := &persist.Batch{Number: 1, Appends: []persist.Append{{ID: "id3", After: got, Events: []persist.Payload{event("goes on")}}}}
		if err := j.Commit(t.Context(), b); err != nil || b.Appends[0].Err != nil {
			t.Errorf("round %d: to go on: %v, %v", round, err, b.Appends[0].Err)
		}
	}
}

func TestSecondProcessAndOtherSchemasAreRefused(t *testing.T) {
	dir := t.TempDir()
	j := open(t, dir)
	if _, err := Open(t.Context(), dir, Options{}); !errors.Is(err, ErrInUse) {
		t.Errorf("a second one: %v", err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	for pragma, text := range map[string]string{"PRAGMA user_version = 3": "has version 3", "PRAGMA application_id = 7": "not a journal"} {
		db, err := sql.Open("sqlite", sqlitedb.DSN(filepath.Join(dir, databaseName), "deferred"))
		if err == nil {
			_, err = db.Exec(pragma)
		}
		if err := errors.Join(err, db.Close()); err != nil {
			t.Fatal(err)
		}
		for _, readOnly := range []bool{false, true} {
			if _, err := Open(t.Context(), dir, Options{ReadOnly: readOnly}); !errors.Is(err, ErrSchema) {
				t.Errorf("%s (%s): %v", pragma, text, err)
			}
		}
	}
}

// A journal of version 1 has no table of what is being erased. It is made one of this version when
// it is opened for writing.
func TestOlderSchemaIsBroughtUpToDate(t *testing.T) {
	dir := t.TempDir()
	if err := open(t, dir).Close(); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", sqlitedb.DSN(filepath.Join(dir, databaseName), "deferred"))
	if err == nil {
		_, err = db.Exec("DROP TABLE erasing; PRAGMA user_version = 1")
	}
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), dir, Options{ReadOnly: true}); !errors.Is(err, ErrSchema) || !strings.Contains(err.Error(), "open it for writing once") {
		t.Errorf("for reading: %v", err)
	}
	for _, readOnly := range []bool{false, true} {
		j, err := Open(t.Context(), dir, Options{ReadOnly: readOnly})
		if err != nil {
			t.Fatal(err)
		}
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestAReaderSeesWhatAWriterCommits(t *testing.T) {
	dir := t.TempDir()
	if _, err := Open(t.Context(), dir, Options{ReadOnly: true}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("of nothing: %v", err)
	}
	j := open(t, dir)
	r, err := Open(t.Context(), dir, Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	b := &persist.Batch{Number: 1, Appends: []persist.Append{{ID: "a", Events: []persist.Payload{event("x")}}}}
	if err := r.Commit(t.Context(), b); !errors.Is(err, errReadOnly) {
		t.Errorf("commit of a reader: %v", err)
	}
	if err := r.Claim(t.Context(), "s", 1); !errors.Is(err, errReadOnly) {
		t.Errorf("claim of a reader: %v", err)
	}
	if err := j.Commit(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if n := number(t, r, "a"); n != 1 || r.Info() != j.Info() {
		t.Errorf("the reader finds number %d of %+v", n, r.Info())
	}
}

// A commit that fails, for want of room for example, changes nothing, also not in what the
// writer knows.
func TestAFailedCommitIsWrittenOnceWhenItIsTriedAgain(t *testing.T) {
	j := open(t, t.TempDir())
	pragma := func(text string) {
		if _, err := j.w.Conn.ExecContext(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
	b := &persist.Batch{Number: 1}
	for i := range 200 {
		b.Appends = append(b.Appends, persist.Append{ID: fmt.Sprint(i), Events: []persist.Payload{event(string(make([]byte, 1000)))}})
	}
	b.Appends = append(b.Appends, persist.Append{ID: "0", After: 7, Events: []persist.Payload{event("wrong")}})
	pragma("PRAGMA max_page_count = 60")
	for range 2 {
		if err := j.Commit(t.Context(), b); err == nil {
			t.Fatal("there is room")
		}
	}
	if n := number(t, j, "0"); n != 0 {
		t.Errorf("number %d after a commit that failed", n)
	}
	pragma("PRAGMA max_page_count = 1000000")
	for range 2 {
		if err := j.Commit(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		if !errors.Is(b.Appends[200].Err, persist.ErrConflict) || b.Appends[0].Err != nil {
			t.Errorf("refused: %v and %v", b.Appends[200].Err, b.Appends[0].Err)
		}
	}
	if n := number(t, j, "199"); n != 1 {
		t.Errorf("number %d", n)
	}
}

// The end of a COMMIT that has returned an error is found out.
func TestACommitThatWasWrittenThoughItFailedIsNotWrittenAgain(t *testing.T) {
	j := open(t, t.TempDir())
	b := &persist.Batch{Number: 1, Appends: []persist.Append{{ID: "a", Events: []persist.Payload{event("x")}}, {ID: "b", After: 1, Events: []persist.Payload{event("wrong")}}}}
	if err := j.Commit(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	j.w.done, j.w.stale = plan.Outcome{}, true // as if it had not heard of it
	b.Appends[1].Err = nil
	if err := j.Commit(t.Context(), b); err != nil || b.Appends[0].Err != nil || !errors.Is(b.Appends[1].Err, persist.ErrConflict) {
		t.Errorf("again: %v, %v, %v", err, b.Appends[0].Err, b.Appends[1].Err)
	}
	if n := number(t, j, "a"); n != 1 {
		t.Errorf("number %d", n)
	}
}

func TestADamagedDatabaseIsAnError(t *testing.T) {
	dir := t.TempDir()
	j := open(t, dir)
	b := &persist.Batch{Number: 1}
	for i := range 300 {
		b.Appends = append(b.Appends, persist.Append{ID: fmt.Sprint(i), Events: []persist.Payload{event("some text for the event")}})
	}
	if err := errors.Join(j.Commit(t.Context(), b), j.Close()); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, databaseName)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := 4096; i < len(data); i++ {
		data[i] = 0xa5
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	damaged, err := Open(t.Context(), dir, Options{})
	if err != nil {
		return
	}
	defer damaged.Close()
	if _, err := damaged.Load(context.Background(), []string{"7"}); err == nil {
		t.Error("it is loaded")
	}
}

func TestAJournalOfWhichAPartIsMissingIsRefused(t *testing.T) {
	dir := t.TempDir()
	j := open(t, dir)
	commit := func(number uint64) {
		b := &persist.Batch{Number: number}
		for i := range 300 {
			b.Appends = append(b.Appends, persist.Append{ID: fmt.Sprint(i), After: number - 1, Events: []persist.Payload{event("some text for the event")}})
		}
		if err := j.Commit(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	commit(1)
	if _, err := j.copies.Copy(t.Context()); err != nil {
		t.Fatal(err)
	}
	commit(2)
	crash := t.TempDir()
	left(t, dir, crash)
	for name, damage := range map[string]func(db string) error{
		"missing":   os.Remove,
		"empty":     func(db string) error { return os.Truncate(db, 0) },
		"one page":  func(db string) error { return os.Truncate(db, 4096) },
		"as it was": func(string) error { return nil },
	} {
		copied := t.TempDir()
		left(t, crash, copied)
		if err := damage(filepath.Join(copied, databaseName)); err != nil {
			t.Fatal(err)
		}
		switch j, err := Open(t.Context(), copied, Options{}); {
		case name != "as it was":
			if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "put ") {
				t.Errorf("the database is %s: %v", name, err)
			}
		case err != nil:
			t.Error(err)
		default:
			if n := number(t, j, "299"); n != 2 {
				t.Errorf("number %d", n)
			}
			if err := j.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}
