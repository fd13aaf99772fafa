package sqlite

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestTheWALGivesItsRoomBack has it not wait for a reader, and then truncate the file.
func TestTheWALGivesItsRoomBack(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Options{})
	defer closeStore(t, s)
	s.halt() // nobody else makes checkpoints
	truncate := func() bool {
		t.Helper()
		done, err := s.copies.Truncate(t.Context(), s.begin, s.writing.Unlock)
		if err != nil {
			t.Fatal(err)
		}
		return done
	}
	commit := func(n uint64) {
		t.Helper()
		if err := s.Commit(t.Context(), batch(n, int64(n), 10)); err != nil {
			t.Fatal(err)
		}
	}
	size := func() int64 {
		t.Helper()
		info, err := os.Stat(filepath.Join(dir, databaseName+"-wal"))
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	commit(1)
	reader, err := s.readDB.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{"BEGIN", "SELECT count(*) FROM change"} { // it reads the WAL
		if _, err := reader.ExecContext(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	commit(2)
	if truncate() || size() == 0 {
		t.Error("a WAL that is being read was truncated")
	}
	if _, err := reader.ExecContext(t.Context(), "COMMIT"); err != nil {
		t.Fatal(err)
	}
	if err := reader.Close(); err != nil {
		t.Fatal(err)
	}
	free := s.copies.Free
	s.copies.Free = func(string) (int64, error) { return 8 << 20, nil }
	if truncate() || size() == 0 {
		t.Error("a WAL whose room commits may need was truncated")
	}
	s.copies.Free = free
	if !truncate() || size() != 0 {
		t.Errorf("the WAL has %d bytes", size())
	}
	commit(3)
	if got, err := s.Changes(t.Context(), 0, 10); err != nil || len(got) != 3 {
		t.Errorf("%d changes, %v", len(got), err)
	}
}

// Who commits on a full disk has the lock, and makes a checkpoint for room.
func TestTruncatingKeepsNobodyFromRoom(t *testing.T) {
	s := open(t, t.TempDir(), Options{})
	defer closeStore(t, s)
	s.halt() // nobody else makes checkpoints
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := s.Commit(ctx, batch(1, 1, 1)); err != nil {
		t.Fatal(err)
	}
	_, err := s.copies.Truncate(ctx, func() {
		s.writing.Lock()
		if _, err := s.copies.Copy(ctx); err != nil {
			t.Error(err)
		}
	}, s.writing.Unlock)
	if err != nil {
		t.Error(err)
	}
}
