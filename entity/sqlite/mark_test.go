package sqlite

import (
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
