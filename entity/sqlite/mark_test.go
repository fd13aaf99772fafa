package sqlite

import (
	"encoding/binary"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
)

// What reads a store without being its server leaves it as it is, also when the server has crashed: who closes a
// database last has SQLite remove the WAL, whose absence would tell the next server that it is lost.
func TestReadersLeaveACrashedStoreAsItIs(t *testing.T) {
	dir, crash := closedAndCrashed(t)
	for name, read := range map[string]func(dir string) error{
		"usage": func(dir string) error {
			u, err := ReadUsage(t.Context(), dir)
			if err == nil && u.Log == 0 {
				return errors.New("it has no changes")
			}
			return err
		},
		"copy": func(dir string) error {
			copied := t.TempDir()
			if err := Copy(t.Context(), dir, filepath.Join(copied, databaseName)); err != nil {
				return err
			}
			return holdsAll(t, copied)
		},
	} {
		t.Run(name, func(t *testing.T) {
			if err := errors.Join(read(dir), holdsAll(t, dir)); err != nil {
				t.Errorf("of a closed store: %v", err)
			}
			crashed := t.TempDir()
			if err := os.CopyFS(crashed, os.DirFS(crash)); err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(read(crashed), read(crashed)); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(filepath.Join(crashed, databaseName+"-wal"), filepath.Join(crashed, "wal")); err != nil {
				t.Fatal(err)
			}
			_, opened := Open(t.Context(), crashed, Options{})
			if err := read(crashed); !errors.Is(err, ErrDamaged) || !errors.Is(opened, ErrDamaged) {
				t.Errorf("without its WAL: %v; and opened: %v", err, opened)
			}
			if err := os.Rename(filepath.Join(crashed, "wal"), filepath.Join(crashed, databaseName+"-wal")); err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(holdsAll(t, crashed), holdsAll(t, crashed)); err != nil {
				t.Error(err)
			}
		})
	}
}

// closedAndCrashed returns the directory of a store that has one change and is closed, and a copy from before it was.
func closedAndCrashed(t *testing.T) (closed, crashed string) {
	t.Helper()
	closed, crashed = t.TempDir(), t.TempDir()
	s := open(t, closed, Options{})
	if err := s.Commit(t.Context(), batch(1, 1, 1)); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(crashed, os.DirFS(closed)); err != nil {
		t.Fatal(err)
	}
	closeStore(t, s)
	return closed, crashed
}

// holdsAll opens and closes a store that has one change.
func holdsAll(t *testing.T, dir string) error {
	s, err := Open(t.Context(), dir, Options{})
	if err != nil {
		return err
	}
	if last := s.Info().LastChange; last != 1 {
		err = errors.New("the change is missing")
	}
	return errors.Join(err, s.Close())
}

// An opening that fails has SQLite remove the WAL as well.
func TestAStoreThatCouldNotBeOpenedIsNotTakenForDamaged(t *testing.T) {
	_, crash := closedAndCrashed(t)
	failed := &Store{path: filepath.Join(crash, databaseName), opts: Options{Logger: slog.New(slog.DiscardHandler)}}
	if err := errors.Join(failed.openDatabase(t.Context()), failed.closeDatabase()); err != nil { // as on a full disk
		t.Fatal(err)
	}
	if err := errors.Join(failed.release(), holdsAll(t, crash)); err != nil {
		t.Error(err)
	}
}

// SQLite takes the first damaged page of a WAL for its end, and what comes after for never written. So it is after
// a loss of power, but not of what is known to be on the disk.
func TestAWALThatLacksWhatWasCommittedIsRefused(t *testing.T) {
	crash := t.TempDir()
	s := open(t, t.TempDir(), Options{})
	dir := filepath.Dir(s.path)
	commit := func(first uint64) (wal int64, mark []byte) {
		t.Helper()
		err := s.Commit(t.Context(), batch(first, 1, 10))
		if err == nil {
			mark, err = os.ReadFile(filepath.Join(dir, markName))
		}
		if err != nil {
			t.Fatal(err)
		}
		return 32 + int64(binary.NativeEndian.Uint32(mark[16:]))*(24+int64(binary.NativeEndian.Uint16(mark[14:]))), mark
	}
	_, before := commit(1) // the WAL begins anew after it
	s.longWAL = 1
	if err := s.checkpoint(); err != nil {
		t.Fatal(err)
	}
	commit(2)
	second, known := commit(3)
	third, newest := commit(4)
	if err := os.CopyFS(crash, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	closeStore(t, s)
	flip := func(at int64) func(wal []byte) []byte {
		return func(wal []byte) []byte { wal[at] ^= 1; return wal }
	}
	cut := func(to int64) func(wal []byte) []byte { return func(wal []byte) []byte { return wal[:to] } }
	for name, tt := range map[string]struct {
		wal  func(wal []byte) []byte
		mark []byte
		last uint64 // change, 0 for a store that is refused
	}{
		"nothing":                      {cut(third), newest, 4},
		"followed by what was before":  {func(wal []byte) []byte { return wal }, newest, 4},
		"flipped at the beginning":     {flip(3), newest, 0},
		"flipped in the first page":    {flip(100), newest, 0},
		"flipped in the middle":        {flip(second - 100), newest, 0},
		"flipped in the last commit":   {flip(third - 100), newest, 0},
		"cut off":                      {cut(third - 1), newest, 0},
		"half":                         {cut(third / 2), newest, 0},
		"empty":                        {cut(0), newest, 0},
		"torn":                         {cut(third - 100), known, 3},
		"torn, and flipped before":     {flip(second - 100), known, 0},
		"with more that was torn":      {func(wal []byte) []byte { return append(wal[:third:third], wal[32:1000]...) }, newest, 4},
		"of a mark before it began":    {cut(third), before, 4},
		"torn, and before it began":    {cut(second), before, 3},
		"of a mark that is torn":       {flip(third - 100), append(newest[:40:40], make([]byte, 8)...), 3},
		"of a mark that knows nothing": {flip(third - 100), nil, 3},
	} {
		copied := t.TempDir()
		if err := os.CopyFS(copied, os.DirFS(crash)); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(copied, databaseName+"-wal")
		wal, err := os.ReadFile(path)
		if err == nil {
			err = errors.Join(os.WriteFile(path, tt.wal(wal), 0o600), os.WriteFile(filepath.Join(copied, markName), tt.mark, 0o600))
		}
		if err != nil {
			t.Fatal(err)
		}
		_, read := ReadUsage(t.Context(), copied)
		for what, err := range map[string]error{"read": read, "copied": Copy(t.Context(), copied, filepath.Join(t.TempDir(), databaseName))} {
			if tt.last != 0 && err != nil || tt.last == 0 && !errors.Is(err, ErrDamaged) {
				t.Errorf("%s: %s: %v", name, what, err)
			}
		}
		s, err := Open(t.Context(), copied, Options{})
		if err == nil {
			if last := s.Info().LastChange; last != tt.last {
				t.Errorf("%s: opened, and the last change is %d, want %d", name, last, tt.last)
			}
			closeStore(t, s)
		} else if tt.last != 0 || !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A WAL that has given its room back is empty, also when it was that of a store that had crashed before.
// Who reads a store beside its server finds no damage, however often the WAL begins anew.
func TestReadersFindNoDamageBesideAServer(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), Options{})
	defer closeStore(t, s)
	s.longWAL = 1
	stop, done := make(chan struct{}), make(chan error, 1)
	looks := 0
	go func() {
		for {
			select {
			case <-stop:
				done <- nil
				return
			default:
			}
			if err := checkUsed(s.path); err != nil {
				done <- err
				return
			}
			looks++
		}
	}()
	for n := range uint64(300) {
		if err := s.Commit(t.Context(), batch(n+1, int64(n)+1, 10)); err != nil {
			t.Fatal(err)
		}
		if n%10 == 0 {
			if err := s.checkpoint(); err != nil {
				t.Error(err)
			}
		}
	}
	close(stop)
	if err := <-done; err != nil {
		t.Error(err)
	}
	if looks < 20 {
		t.Errorf("the store was looked at %d times: the test shows nothing", looks)
	}
}

func TestAWALThatWasTruncatedAtRestIsNotMissed(t *testing.T) {
	_, dir := closedAndCrashed(t)
	for _, commits := range []bool{false, true} {
		s := open(t, dir, Options{})
		if commits {
			if err := s.Commit(t.Context(), batch(2, 2, 1)); err != nil {
				t.Fatal(err)
			}
		}
		if done, err := s.copies.Truncate(t.Context(), s.beginTruncate, s.writing.Unlock); err != nil || !done {
			t.Fatal(done, err)
		}
		crashed := t.TempDir()
		if err := os.CopyFS(crashed, os.DirFS(dir)); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(filepath.Join(crashed, databaseName+"-wal")); err != nil || info.Size() != 0 {
			t.Fatal("the WAL is not truncated:", err)
		}
		want := s.Info().LastChange
		closeStore(t, s)
		s = open(t, crashed, Options{})
		if last := s.Info().LastChange; last != want {
			t.Errorf("the last change is %d, want %d", last, want)
		}
		closeStore(t, s)
		_, dir = closedAndCrashed(t)
	}
}
