package sqlite

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/internal/disktest"
	"github.com/greenroom-go/greenroom/internal/pause"
	"github.com/greenroom-go/greenroom/persist"
)

// While the disk is full a commit fails; the journal can be opened again and again, and has what was
// committed; and with the first room commits go on.
func TestAJournalOnAFullDisk(t *testing.T) {
	disk := disktest.Small(t, 16<<20)
	if disk == "" {
		return
	}
	dir := filepath.Join(disk, "journal")
	j := open(t, dir)
	batch, committed := uint64(0), uint64(0)
	commit := func(data string) error {
		batch++
		b := &persist.Batch{Session: 1, Number: batch, Appends: []persist.Append{{
			ID: "a", After: committed, Events: []persist.Payload{{Type: "t", Data: []byte(data)}},
		}}}
		err := j.Commit(t.Context(), b)
		if err == nil && b.Appends[0].Err != nil {
			t.Fatal(b.Appends[0].Err)
		}
		if err == nil {
			committed++
		}
		return err
	}
	if err := commit("first"); err != nil {
		t.Fatal(err)
	}
	others := 0
	for restart := range 4 {
		disktest.TakeAll(t, filepath.Join(disk, fmt.Sprint("other", others)))
		others++
		for n := 0; ; n++ { // what is left of the WAL
			if err := commit(strings.Repeat("x", 100_000)); err != nil {
				break
			}
			if n > 1000 {
				t.Fatal("commits on a full disk do not fail")
			}
		}
		if err := j.Close(); err != nil {
			t.Log("close:", err)
		}
		if restart > 0 { // it is made anew, as it is where the journal was copied to
			if err := os.Remove(filepath.Join(dir, databaseName+"-shm")); err != nil && !errors.Is(err, os.ErrNotExist) {
				t.Fatal(err)
			}
		}
		disktest.TakeAll(t, filepath.Join(disk, fmt.Sprint("other", others)))
		others++
		j = open(t, dir)
		if list, err := j.Load(t.Context(), []string{"a"}); err != nil || list[0].Last != committed {
			t.Fatalf("restart %d finds %+v, %v, want %d events", restart, list, err, committed)
		}
	}
	for other := range others {
		if err := os.Remove(filepath.Join(disk, fmt.Sprint("other", other))); err != nil {
			t.Fatal(err)
		}
	}
	if err := commit("again"); err != nil {
		t.Fatalf("a commit with room again: %v", err)
	}
	for began := time.Now(); ; {
		if info, err := os.Stat(filepath.Join(dir, reserveName)); err == nil && info.Size() == 256<<10 {
			break
		}
		if time.Since(began) > time.Minute {
			t.Fatal("with room again the reserve is not made again")
		}
		if err := pause.For(t.Context(), 50*time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
}
