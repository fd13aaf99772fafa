package entity_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/value"
	"github.com/greenroom-go/greenroom/internal/disktest"
	"github.com/greenroom-go/greenroom/internal/pause"
)

// take takes so many bytes of a disk.
func take(t *testing.T, disk, name string, bytes int) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(disk, name), make([]byte, bytes), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestFullDiskRefusesAndGoesOnWithTheFirstRoom(t *testing.T) {
	disk := disktest.Small(t, 20<<20)
	if disk == "" {
		return
	}
	const rounds, room = 3, 4 << 20
	for round := range rounds {
		take(t, disk, fmt.Sprint("other", round), room)
	}
	dir := filepath.Join(disk, "store")
	s := open(t, dir, entity.Config{RetryMax: time.Second})
	s.edit("a", entity.Edits{Patches: []entity.Patch{merge(entity.Attributes, `{"n":0}`)}})
	text := value.String(strings.Repeat("x", 50_000))
	acknowledged, tried := 0, 0
	// until returns when writes are refused, or kept, or after a while.
	until := func(full bool, patience time.Duration) {
		t.Helper()
		for began := time.Now(); time.Since(began) < patience; {
			tried++
			asked := time.Now()
			err := s.Write(t.Context(), "a", []entity.Reading{at(int64(tried), "t", text)}, 0)
			if took := time.Since(asked); took > 5*time.Second {
				t.Fatalf("a write was answered after %v: %v", took, err)
			}
			switch {
			case err == nil:
				if acknowledged++; !full {
					return
				}
			case !errors.Is(err, entity.ErrFull):
				t.Fatalf("a write on a full disk: %v, want ErrFull", err)
			case full:
				return
			default:
				if err := pause.For(t.Context(), 20*time.Millisecond); err != nil {
					t.Fatal(err)
				}
			}
		}
		t.Fatalf("writes are not what they should be after %v; full is to be %v", patience, full)
	}
	check := func() {
		t.Helper()
		if got := len(s.history("a", "t")); got < acknowledged || got > tried {
			t.Errorf("%d readings are found; %d were acknowledged and %d tried", got, acknowledged, tried)
		}
	}
	for round := range rounds {
		until(true, patience)
		check()
		before, err := s.Entity(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		for name, try := range map[string]func() error{
			"an edit": func() error {
				_, err := s.Edit(t.Context(), "a", entity.Edits{Patches: []entity.Patch{merge(entity.Attributes, fmt.Sprintf(`{"n":%d}`, round+1))}})
				return err
			},
			"an entity": func() error {
				return first(s.Edit(t.Context(), fmt.Sprint("new", round), entity.Edits{If: entity.IfNone}))
			},
			"an end": func() error { return s.Delete(t.Context(), "a", "") },
		} {
			if err := try(); !errors.Is(err, entity.ErrFull) {
				t.Errorf("%s on a full disk: %v, want ErrFull", name, err)
			}
		}
		if after, err := s.Entity(t.Context(), "a"); err != nil || after.ETag != before.ETag {
			t.Errorf("refused edits changed the ETag from %s to %s, %v", before.ETag, after.ETag, err)
		}
		if round == 1 { // a restart needs no room
			s.store.breaks.Store(true)
			ending, cancel := context.WithTimeout(t.Context(), time.Second)
			if err := s.Close(ending); err == nil {
				t.Error("the runtime was closed on a full disk with readings that are not committed, and said nothing")
			}
			cancel()
			s = open(t, dir, entity.Config{RetryMax: time.Second})
			check()
			if again, err := s.Entity(t.Context(), "a"); err != nil || again.ETag != before.ETag {
				t.Errorf("opened again, the ETag is %s, was %s, %v", again.ETag, before.ETag, err)
			}
		}
		if err := os.Remove(filepath.Join(disk, fmt.Sprint("other", round))); err != nil {
			t.Fatal(err)
		}
		until(false, patience)
		s.edit("a", entity.Edits{Patches: []entity.Patch{merge(entity.Reported, fmt.Sprintf(`{"round":%d}`, round))}})
		check()
	}
	s = s.reopen(entity.Config{})
	if len(s.history("a", "t")) != acknowledged {
		t.Logf("%d were acknowledged, %d more are kept of those whose outcome was unknown", acknowledged, len(s.history("a", "t"))-acknowledged)
	}
	check()
}

// To open a database SQLite needs room for the index of the WAL, which it makes anew.
func TestAStoreIsOpenedAgainAndAgainOnADiskThatHasNoRoomAtAll(t *testing.T) {
	disk := disktest.Small(t, 16<<20)
	if disk == "" {
		return
	}
	dir := filepath.Join(disk, "store")
	config := entity.Config{RetryMax: 100 * time.Millisecond}
	s := open(t, dir, config)
	s.write("a", at(0, "n", value.Int(0)))
	reserve := filepath.Join(dir, "greenroom.reserve")
	const whole = 256 << 10
	if info, err := os.Stat(reserve); err != nil || info.Size() != whole {
		t.Fatalf("the reserve is %v, %v", info, err)
	}
	others := 0
	for restart := range 20 {
		s.store.breaks.Store(true)
		ending, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		if err := s.Close(ending); err != nil && !errors.Is(err, context.DeadlineExceeded) { // it waits for the write to be committed
			t.Fatal(err)
		}
		cancel()
		disktest.TakeAll(t, filepath.Join(disk, fmt.Sprint("other", others)))
		others++
		s = open(t, dir, config)
		if n := len(s.history("a", "n")); n != 1 {
			t.Fatalf("restart %d finds %d readings, want 1", restart, n)
		}
		disktest.TakeAll(t, filepath.Join(disk, fmt.Sprint("other", others)))
		others++
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		err := s.Write(ctx, "a", []entity.Reading{at(1, "big", value.String(strings.Repeat("x", 60_000)))}, 0)
		cancel()
		if !errors.Is(err, entity.ErrFull) {
			t.Fatalf("a write on a full disk: %v, want ErrFull", err)
		}
	}
	for other := range others {
		if err := os.Remove(filepath.Join(disk, fmt.Sprint("other", other))); err != nil {
			t.Fatal(err)
		}
	}
	for began := time.Now(); ; {
		err := s.Write(t.Context(), "a", []entity.Reading{at(time.Since(began).Milliseconds()+10, "m", value.Int(1))}, 0)
		if err != nil && !errors.Is(err, entity.ErrFull) { // it is tried again within RetryMax
			t.Fatal(err)
		}
		if info, err := os.Stat(reserve); err == nil && info.Size() == whole {
			break
		}
		if time.Since(began) > patience {
			t.Fatalf("with room again the reserve is not made again")
		}
		if err := pause.For(t.Context(), 50*time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
}
