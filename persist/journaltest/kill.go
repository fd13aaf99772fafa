package journaltest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/internal/groupcommit"
	"github.com/greenroom-go/greenroom/internal/killtest"
	"github.com/greenroom-go/greenroom/persist"
)

// childAddress has the address of the journal that this process is to write to until it
// is killed.
const childAddress = "GREENROOM_JOURNAL_CHILD"

const childActors = 40

// Child is for TestMain: in a process started by Kill it opens the journal, writes to it and does
// not return. Elsewhere it does nothing.
func Child(open func(ctx context.Context, address string) (persist.Journal, error)) {
	address := os.Getenv(childAddress)
	if address == "" {
		return
	}
	fmt.Fprintln(os.Stderr, child(address, open))
	os.Exit(1)
}

// child has an asker for each actor record events, and prints what is durable. It returns
// only with an error.
func child(address string, open func(ctx context.Context, address string) (persist.Journal, error)) error {
	ctx := context.Background()
	j, err := open(ctx, address)
	if err != nil {
		return err
	}
	began := time.Now()
	cfg := groupcommit.Config{Bytes: 1 << 20, Delay: time.Millisecond, RetryMin: time.Millisecond, RetryMax: time.Second}
	c := groupcommit.New(ctx, cfg, &group{journal: j}, func(*asked) int64 { return 100 }, func() int64 { return int64(time.Since(began)) })
	go c.Run()
	go c.Acknowledge()
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
				text := payload(fmt.Sprint(id, " ", last+1))
				item.append = persist.Append{
					ID: id, After: last, Events: []persist.Payload{text},
					Send: []persist.Message{{Number: last + 1, To: "x", Payload: text}}, Seen: []persist.Seen{{From: "y", Number: last + 1}},
				}
				c.Accept(item)
				if err := <-item.durable; err != nil {
					panic(err)
				}
				out.Lock()
				fmt.Fprintln(os.Stdout, actor, last+1)
				out.Unlock()
			}
		}()
	}
	select {}
}

// Kill kills processes that write to the journal at the address, one after the other: whatever a
// process was doing, everything that was reported to it as durable must be there, and each append
// must be there wholly or not at all. The TestMain of the test binary calls Child. open opens the
// journal when the process is dead.
func Kill(t *testing.T, address string, rounds int, open func(t *testing.T) persist.Journal) {
	t.Helper()
	var durable [childActors]uint64
	for round := range rounds {
		killOne(t, address, 200+rand.IntN(800), &durable)
		j := open(t)
		checkKilled(&kit{T: t, j: j}, round, &durable)
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// killOne starts a process and kills it after so many events.
func killOne(t *testing.T, address string, events int, durable *[childActors]uint64) {
	t.Helper()
	n := 0
	killtest.Run(t, childAddress+"="+address, func(line string) bool {
		var actor int
		var number uint64
		if _, err := fmt.Sscan(line, &actor, &number); err != nil {
			t.Errorf("the process has printed %q: %v", line, err)
			return true
		}
		durable[actor] = number
		n++
		return n > events
	})
}

func checkKilled(k *kit, round int, durable *[childActors]uint64) {
	k.Helper()
	for actor, least := range durable {
		id := fmt.Sprint("actor-", actor)
		l := k.load(id)
		if l.Last == 0 && least == 0 {
			continue // it was killed before that one had begun
		}
		if l.Last < least || l.Sent != l.Last || len(l.Seen) != 1 || l.Seen[0].Number != l.Last {
			k.Errorf("round %d: %s has number %d, sent %d, seen %v; %d are durable", round, id, l.Last, l.Sent, l.Seen, least)
		}
		list := k.events(id, 0)
		for n, r := range list {
			if r.Number != uint64(n+1) || string(r.Data) != fmt.Sprint(id, " ", n+1) {
				k.Fatalf("round %d: %s: event %d is %q where %d is next", round, id, r.Number, r.Data, n+1)
			}
		}
		if uint64(len(list)) != l.Last {
			k.Errorf("round %d: %s has %d events and number %d", round, id, len(list), l.Last)
		}
		durable[actor] = l.Last
	}
}
