package sqlite

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/internal/groupcommit"
	"github.com/greenroom-go/greenroom/internal/soaktest"
	"github.com/greenroom-go/greenroom/persist"
)

// childDir names the directory of a journal for this program to write to until it is killed.
const childDir = "GREENROOM_JOURNAL_CHILD"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		if err := child(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

const childActors = 40

// child has an asker for each actor record events, and prints what is durable.
func child(dir string) error {
	ctx := context.Background()
	j, err := Open(ctx, dir, Options{})
	if err != nil {
		return err
	}
	g := &group{j: j}
	began := time.Now()
	cfg := groupcommit.Config{Bytes: 1 << 20, Delay: time.Millisecond, RetryMin: time.Millisecond, RetryMax: time.Second}
	c := groupcommit.New(ctx, cfg, g, func(*asked) int64 { return 100 }, func() int64 { return int64(time.Since(began)) })
	go c.Run()
	go c.Acknowledge()
	go func() {
		for { // flushes are under way whenever it is killed
			_ = j.flush()
		}
	}()
	var out sync.Mutex
	for actor := range childActors {
		id := fmt.Sprint("actor-", actor)
		list, err := j.Load(ctx, []string{id})
		if err != nil {
			return err
		}
		go func() {
			item := &asked{durable: make(chan error, 1)}
			for last := list[0].Last; ; last++ {
				text := event(fmt.Sprint(id, " ", last+1))
				item.append = persist.Append{
					ID: id, After: last, Events: []persist.Payload{text},
					Send: []persist.Message{{Number: last + 1, To: "x", Payload: text}}, Seen: []persist.Seen{{From: "y", Number: last + 1}},
				}
				c.Accept(item)
				if err := <-item.durable; err != nil {
					panic(err)
				}
				out.Lock()
				fmt.Println(actor, last+1)
				out.Unlock()
			}
		}()
	}
	select {}
}

// Whatever a process was doing when it was killed: what it was told is durable is there, and
// each append is there wholly or not at all.
func TestKilledProcessLosesNothingThatWasDurable(t *testing.T) {
	t.Parallel() // it waits for another process
	dir := t.TempDir()
	var durable [childActors]uint64
	for round := range soaktest.Rounds(t, 2, 50) {
		killOne(t, dir, 200+rand.IntN(800), &durable)
		j := open(t, dir)
		checkKilled(t, j, round, &durable)
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// killOne starts a process and kills it after so many events.
func killOne(t *testing.T, dir string, events int, durable *[childActors]uint64) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childDir+"="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for n := 0; lines.Scan(); n++ {
		var actor int
		var number uint64
		if _, err := fmt.Sscan(lines.Text(), &actor, &number); err != nil {
			break // the last line may be half a one
		}
		durable[actor] = number
		if n == events {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := cmd.Wait(); err == nil || cmd.ProcessState.Exited() {
		t.Fatalf("the process was not killed: %v", err)
	}
}

func checkKilled(t *testing.T, j *Journal, round int, durable *[childActors]uint64) {
	t.Helper()
	for actor, least := range durable {
		id := fmt.Sprint("actor-", actor)
		list, err := j.Load(t.Context(), []string{id})
		if err != nil {
			t.Fatal(err)
		}
		l := list[0]
		if l.Last < least || l.Sent != l.Last || len(l.Seen) != 1 || l.Seen[0].Number != l.Last {
			t.Errorf("round %d: %s has number %d, sent %d, seen %v; %d are durable", round, id, l.Last, l.Sent, l.Seen, least)
		}
		read := uint64(0)
		for {
			page, err := j.Events(t.Context(), id, read, persist.PageRecords)
			if err != nil {
				t.Fatal(err)
			}
			if len(page) == 0 {
				break
			}
			for _, r := range page {
				if read++; r.Number != read || string(r.Data) != fmt.Sprint(id, " ", read) {
					t.Fatalf("round %d: %s: event %d is %q where %d is next", round, id, r.Number, r.Data, read)
				}
			}
		}
		if read != l.Last {
			t.Errorf("round %d: %s has %d events and number %d", round, id, read, l.Last)
		}
		durable[actor] = l.Last
	}
}
