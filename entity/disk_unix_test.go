//go:build unix

package entity_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/value"
	"github.com/greenroom-go/greenroom/internal/soaktest"
)

// again runs the test that calls it in a process of its own, with an argument.
func again(t *testing.T, argument string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), "GREENROOM_TEST_ARGUMENT="+argument)
	cmd.Stderr = os.Stderr
	return cmd
}

// A real limit of the kernel on the size of files takes the place of a full disk:
// a write beyond it fails as one to a full disk does. It holds for the whole
// process, so that the test runs in one of its own.
func TestFullDiskSlowsAndReportsAndLosesNothingAcknowledged(t *testing.T) {
	dir := os.Getenv("GREENROOM_TEST_ARGUMENT")
	if dir == "" {
		out, err := again(t, t.TempDir()).Output()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	signal.Ignore(syscall.SIGXFSZ) // the write fails with EFBIG then
	s := open(t, dir, entity.Config{RetryMin: time.Millisecond, RetryMax: 5 * time.Millisecond, WindowBytes: 400_000})
	s.write("a", at(0, "t", value.String("before")))

	var old syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &old); err != nil {
		t.Fatal(err)
	}
	wal, err := os.Stat(filepath.Join(dir, "greenroom.db-wal"))
	if err != nil {
		t.Fatal(err)
	}
	full := old
	full.Cur = uint64(wal.Size()) + 500_000
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &full); err != nil {
		t.Fatal(err)
	}
	settled := newSettlements(t)
	text := strings.Repeat("x", 5000)
	n := int64(1)
	for ; ; n++ { // until the window is full, and the source slowed down
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		err := settled.ingest(ctx, s, fmt.Sprint(n), "a", at(n, "t", value.String(text)))
		cancel()
		if errors.Is(err, context.DeadlineExceeded) && s.Stats().StoreError != "" {
			break
		}
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		if n > 10_000 {
			t.Fatal("the disk is never full")
		}
	}
	st := s.Stats()
	if st.StoreErrors == 0 || st.StoreError == "" || st.WindowUsed > st.WindowMax {
		t.Errorf("stats %+v", st)
	}
	if lines := s.logs.count("commit failed, trying again; nothing is acknowledged meanwhile"); lines == 0 || lines > 3 {
		t.Errorf("%d lines in the log", lines)
	}
	acknowledged := settled.count(nil)
	if acknowledged == int(n)-1 {
		t.Error("all is acknowledged, and the disk full")
	}
	if got := len(s.history("a", "t")); got < acknowledged+1 {
		t.Errorf("%d are acknowledged and %d found", acknowledged+1, got)
	}

	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &old); err != nil { // somebody makes room
		t.Fatal(err)
	}
	settled.wait()
	if failed := settled.count(entity.ErrClosed); failed != 0 || settled.count(nil) == acknowledged {
		t.Errorf("with room again %d are acknowledged, were %d", settled.count(nil), acknowledged)
	}
	if st := s.Stats(); st.StoreError != "" {
		t.Errorf("stats %+v", st)
	}
	s = s.reopen(entity.Config{})
	if got, want := len(s.history("a", "t")), settled.count(nil)+1; got != want {
		t.Errorf("%d readings are found, %d were acknowledged", got, want)
	}
}

// A process is killed while it edits, relates, reads in and deletes; what it has
// said to be acknowledged must be there, and nothing half done.
func TestNoAcknowledgedEditIsLostByKill(t *testing.T) {
	if dir := os.Getenv("GREENROOM_TEST_ARGUMENT"); dir != "" {
		editForever(t, dir)
		return
	}
	dir := t.TempDir()
	said := newDiary()
	rounds := soaktest.Rounds(t, 2, 100) // more kills meet more of what a commit is made of
	for round := range rounds {
		cmd := again(t, dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines, kill := 0, 50+rand.IntN(400)
		for in := bufio.NewScanner(out); in.Scan(); {
			if said.hear(in.Text()); strings.HasPrefix(in.Text(), "ack ") {
				lines++
			}
			if lines == kill { // the rest of the pipe is read to its end
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := cmd.Wait(); err == nil || lines < kill {
			t.Fatalf("round %d ended by itself after %d acknowledgements: %v", round, lines, err)
		}
		s := open(t, dir, entity.Config{})
		said.check(s)
		if err := s.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if said.acks < 50*rounds {
		t.Errorf("only %d were acknowledged in all", said.acks)
	}
}

// editForever makes edits by some clients at once and says what is tried and
// what acknowledged. The number of an entity's edit is in each of its parts.
func editForever(t *testing.T, dir string) {
	s := open(t, dir, entity.Config{HotBytes: 20_000, IdleAfter: time.Millisecond})
	var wg sync.WaitGroup
	for client := range 6 {
		wg.Go(func() {
			id := fmt.Sprint("e", client)
			hub := id + "-hub"
			s.edit(hub, entity.Edits{})
			n := int64(1)
			if snap, err := s.Entity(t.Context(), id); err == nil && len(snap.Latest) > 0 {
				n = snap.Latest[0].TS + 1
			}
			for ; ; n++ {
				fmt.Printf("try %s %d\n", id, n)
				s.edit(id, entity.Edits{
					Patches: []entity.Patch{merge(entity.Attributes, fmt.Sprintf(`{"n":%d,"o":{"n":%d}}`, n, n)), merge(entity.Desired, fmt.Sprintf(`{"n":%d}`, n))},
					Relate:  []entity.Relation{{Type: "in", To: hub, Properties: entity.ParseJSON(fmt.Appendf(nil, `{"n":%d}`, n))}},
				})
				fmt.Printf("ack edit %s %d\n", id, n)
				s.write(id, at(n, "n", value.Int(n)))
				fmt.Printf("ack reading %s %d\n", id, n)
				if n%7 == 0 {
					s.Sweep()
				}
			}
		})
	}
	wg.Wait()
}

// diary is what the killed processes have said.
type diary struct {
	tried, edited, read map[string]int64
	acks                int
}

func newDiary() *diary {
	return &diary{map[string]int64{}, map[string]int64{}, map[string]int64{}, 0}
}

func (d *diary) hear(line string) {
	w := strings.Fields(line)
	if len(w) < 3 {
		return
	}
	n, err := strconv.ParseInt(w[len(w)-1], 10, 64)
	if err != nil {
		return
	}
	switch {
	case w[0] == "try":
		d.tried[w[1]] = n
	case w[0] == "ack" && w[1] == "edit":
		d.edited[w[2]] = n
		d.acks++
	case w[0] == "ack" && w[1] == "reading":
		d.read[w[2]] = n
		d.acks++
	}
}

func (d *diary) check(s *stage) {
	s.t.Helper()
	for id, tried := range d.tried {
		snap, err := s.Entity(s.t.Context(), id)
		if err != nil {
			if d.edited[id] > 0 {
				s.t.Errorf("%s: %v", id, err)
			}
			continue
		}
		var numbers []int64
		for _, a := range snap.Attributes {
			numbers = append(numbers, a.Value.Int())
		}
		rels, err := s.Relations(s.t.Context(), id, entity.Out)
		if err != nil || len(rels) != 1 {
			s.t.Errorf("%s has the relations %v, %v", id, rels, err)
			continue
		}
		edge := rels[0].Properties.Text()
		if len(numbers) != 3 || numbers[0] != numbers[1] || numbers[1] != numbers[2] || edge != fmt.Sprintf(`{"n":%d}`, numbers[0]) {
			s.t.Errorf("%s is half edited: %v, %s", id, numbers, edge)
			continue
		}
		if n := numbers[0]; n < d.edited[id] || n > tried {
			s.t.Errorf("%s has the edit %d; %d was acknowledged and %d tried", id, n, d.edited[id], tried)
		}
		points := s.history(id, "n")
		if n := int64(len(points)); n < d.read[id] || n > tried || n > 0 && points[n-1].TS != n {
			s.t.Errorf("%s has %d readings; %d were acknowledged and %d tried", id, n, d.read[id], tried)
		}
	}
}
