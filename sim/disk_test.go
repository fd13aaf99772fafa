package sim_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/sim"
)

// write writes to the end of a file of a disk.
func write(w *sim.World, f *sim.File, text string) {
	if n, err := f.WriteAt([]byte(text), f.Size()); n != len(text) || err != nil {
		w.Fatalf("write %q: %d, %v", text, n, err)
	}
}

// read returns what is in a file, which must exist.
func read(w *sim.World, d *sim.Disk, name string) string {
	if !slices.Contains(d.Names(), name) {
		w.Fatalf("%s is not among %v", name, d.Names())
	}
	f := open(w, d, name)
	data, err := io.ReadAll(io.NewSectionReader(f, 0, f.Size()))
	if err != nil {
		w.Fatalf("read %s: %v", name, err)
	}
	return string(data)
}

func open(w *sim.World, d *sim.Disk, name string) *sim.File {
	f, err := d.Open(name)
	if err != nil {
		w.Fatalf("open %s: %v", name, err)
	}
	return f
}

func must(w *sim.World, err error) {
	if err != nil {
		w.Fatalf("%v", err)
	}
}

func TestACrashForgetsWhatWasNotSynced(t *testing.T) {
	t.Parallel()
	found := map[string]bool{}
	sim.Check(t, sim.Options{Runs: 400}, func(w *sim.World) {
		n := w.Node("n")
		d := n.Disk()
		f := open(w, d, "log")
		write(w, f, "synced ")
		must(w, f.Sync(w.Context()))
		must(w, d.Sync(w.Context()))
		write(w, f, "abc")
		write(w, f, "def")
		if got := read(w, d, "log"); got != "synced abcdef" {
			w.Fatalf("before the crash: %q", got)
		}
		n.Crash()
		if _, err := f.WriteAt([]byte("x"), 0); err == nil {
			w.Fatalf("a file of the process that is dead can be written")
		}
		d = w.Node("n").Disk()
		got := read(w, d, "log")
		rest, ok := strings.CutPrefix(got, "synced ")
		if !ok || len(rest) > 6 {
			w.Fatalf("after the crash: %q", got)
		}
		found[rest] = true
		w.Node("n").Crash()
		if again := read(w, w.Node("n").Disk(), "log"); again != got {
			w.Fatalf("after the next crash %q has become %q", got, again)
		}
	})
	for _, rest := range []string{"", "a", "ab", "abc", "abcd", "abcde", "abcdef", "\x00\x00\x00def", "\x00\x00\x00d", "a\x00\x00def"} {
		if !found[rest] {
			t.Errorf("a crash has never left %q", rest)
		}
	}
}

func TestNamesHaveASyncOfTheirOwn(t *testing.T) {
	t.Parallel()
	found := map[string]bool{}
	sim.Check(t, sim.Options{Runs: 200}, func(w *sim.World) {
		n := w.Node("n")
		d := n.Disk()
		write(w, open(w, d, "a"), "old")
		must(w, open(w, d, "a").Sync(w.Context()))
		must(w, d.Sync(w.Context()))
		next := open(w, d, "b")
		write(w, next, "new")
		must(w, next.Sync(w.Context()))
		must(w, d.Rename("b", "a"))
		write(w, open(w, d, "c"), "other")
		must(w, d.Remove("c"))
		if got := d.Names(); !slices.Equal(got, []string{"a"}) || read(w, d, "a") != "new" {
			w.Fatalf("before the crash: %v", got)
		}
		n.Crash()
		d = w.Node("n").Disk()
		names := fmt.Sprint(d.Names())
		if got := read(w, d, "a"); got != "old" && (got != "new" || slices.Contains(d.Names(), "b")) {
			w.Fatalf("after the crash a file that was synced is %q, beside %s", got, names)
		} else {
			found[got+names] = true
		}
	})
	for _, state := range []string{"old[a]", "old[a b]", "new[a]", "new[a c]"} {
		if !found[state] {
			t.Errorf("a crash has never left %s: %v", state, found)
		}
	}
}

func TestWhatASyncThatFailsWasForStaysUnsynced(t *testing.T) {
	t.Parallel()
	lost := false
	sim.Check(t, sim.Options{Runs: 50}, func(w *sim.World) {
		n := w.Node("n")
		d := n.Disk()
		f := open(w, d, "f")
		must(w, d.Sync(w.Context()))
		write(w, f, "abc")
		d.Faults(sim.DiskFaults{Fail: 1})
		if err := f.Sync(w.Context()); !errors.Is(err, sim.ErrDisk) {
			w.Fatalf("the sync: %v", err)
		}
		if _, err := f.WriteAt([]byte("x"), 0); !errors.Is(err, sim.ErrDisk) {
			w.Fatalf("the write: %v", err)
		}
		d.Faults(sim.DiskFaults{})
		must(w, f.Sync(w.Context()))
		if got := read(w, d, "f"); got != "abc" {
			w.Fatalf("before the crash: %q", got)
		}
		n.Crash()
		if read(w, w.Node("n").Disk(), "f") == "" {
			lost = true
		}
	})
	if !lost {
		t.Error("a sync after one that failed has always made the same writes durable")
	}
}

func TestANodeMayCrashWhileItSyncs(t *testing.T) {
	t.Parallel()
	lost, kept := 0, 0
	sim.Check(t, sim.Options{Runs: 100, Faults: sim.Faults{Disk: sim.DiskFaults{Delay: time.Second}}}, func(w *sim.World) {
		n := w.Node("n")
		must(w, n.Disk().Sync(w.Context()))
		open(w, n.Disk(), "f")
		must(w, n.Disk().Sync(w.Context()))
		done := false
		ref := actor.SpawnFunc(n.System(), "writer", func(ctx *actor.Context[string], m string) error {
			f, err := n.Disk().Open("f")
			if err != nil {
				return err
			}
			if _, err := f.WriteAt([]byte(m), 0); err != nil {
				return err
			}
			if err := f.Sync(ctx); err != nil {
				return err
			}
			done = true
			return nil
		})
		ref.Tell(w.Context(), "x")
		w.At(w.Sometime(time.Second), n.Crash)
		w.Advance(2 * time.Second)
		switch got := read(w, w.Node("n").Disk(), "f"); {
		case done && got != "x":
			w.Fatalf("synced, and lost: %q", got)
		case done:
			kept++
		default:
			lost++
		}
	})
	if lost == 0 || kept == 0 {
		t.Errorf("%d crashed before the end of the sync, %d after it", lost, kept)
	}
}

func TestBadUseOfADiskIsRefused(t *testing.T) {
	t.Parallel()
	sim.Check(t, sim.Options{Runs: 1}, func(w *sim.World) {
		d := w.Node("n").Disk()
		f := open(w, d, "f")
		for what, err := range map[string]error{
			"rename": d.Rename("x", "y"), "remove": d.Remove("x"),
		} {
			if !errors.Is(err, fs.ErrNotExist) {
				w.Fatalf("%s: %v", what, err)
			}
		}
		_, writing := f.WriteAt([]byte("x"), -1)
		_, reading := f.ReadAt(make([]byte, 1), -1)
		for what, err := range map[string]error{"write": writing, "read": reading, "truncate": f.Truncate(-1)} {
			if err == nil || !strings.Contains(err.Error(), "must not be negative: -1") {
				w.Fatalf("%s: %v", what, err)
			}
		}
		write(w, f, "abcdef")
		must(w, f.Truncate(3))
		must(w, f.Truncate(5))
		if got := read(w, d, "f"); got != "abc\x00\x00" {
			w.Fatalf("truncated: %q", got)
		}
	})
}
