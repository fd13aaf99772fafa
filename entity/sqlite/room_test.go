package sqlite

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/value"
	"github.com/greenroom-go/greenroom/internal/sqlitedb"
)

// A part of a checkpoint, or of the tables, would take the last room of the disk, and
// commits would not come back with the first that is freed.
func TestTheLastRoomIsForCommits(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Options{})
	defer closeStore(t, s)
	s.halt() // nobody else makes checkpoints
	next := uint64(1)
	add := func() {
		t.Helper()
		b := batch(next, int64(next), 1)
		b.Records[0].Values = []entity.Sample{{Key: "key 0", Value: value.String(strings.Repeat("x", 500_000))}}
		next += uint64(len(b.Records))
		if err := s.Commit(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	size := func() int64 {
		info, err := os.Stat(filepath.Join(dir, databaseName))
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	add()
	before := size()
	s.copies.Free = func(string) (int64, error) { return 400_000, nil }
	if err := s.checkpoint(); err != nil || size() != before {
		t.Errorf("a checkpoint that the disk has no room for made the database %d bytes of %d, %v", size(), before, err)
	}
	if err := s.flush(nil); !errors.Is(err, entity.ErrFull) {
		t.Errorf("the tail was moved on a disk that is almost full: %v, want ErrFull", err)
	}
	add()

	s.copies.Free = func(string) (int64, error) { return sqlitedb.SpareRoom + 2_000_000, nil }
	if err := s.checkpoint(); err != nil || size() < before+1_000_000 {
		t.Errorf("a checkpoint with room for it made the database %d bytes of %d, %v", size(), before, err)
	}
	if err := s.flush(nil); err != nil {
		t.Errorf("move the tail: %v", err)
	}
}
