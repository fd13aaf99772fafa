package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/internal/soaktest"
	"github.com/greenroom-go/greenroom/sim"
)

// cluster is a world with members on nodes of their own, and what must hold of them.
type cluster struct {
	w       *sim.World
	cfg     Config // what all members have in common
	nodes   []*sim.Node
	refs    []actor.Ref[Msg]
	leaders map[uint64]int  // by term
	agreed  map[int]Entry   // by index
	acked   map[string]bool // commands whose proposers got an answer
	starts  int
}

// newCluster starts the members.
func newCluster(w *sim.World, members int, cfg Config) *cluster {
	cfg.Members = members
	c := &cluster{w: w, cfg: cfg, nodes: make([]*sim.Node, members), refs: make([]actor.Ref[Msg], members), leaders: map[uint64]int{}, agreed: map[int]Entry{}, acked: map[string]bool{}}
	for id := range members {
		c.start(id)
	}
	return c
}

// start starts a member, for the first time or after a crash, and connects it.
func (c *cluster) start(id int) {
	c.nodes[id] = c.w.Node(fmt.Sprintf("n%d", id))
	c.starts++
	cfg, life := c.cfg, uint64(c.starts)
	cfg.ID, cfg.Observer = id, c
	if cfg.Folder == nil {
		cfg.Folder = disk{c.nodes[id].Disk()}
	} else {
		cfg.Folder = forgetful{disk{c.nodes[id].Disk()}}
	}
	cfg.Send = func(_ context.Context, to int, m Msg) { c.w.Link(c.nodes[id], c.nodes[to]).Send(m) }
	c.refs[id] = actor.Spawn[Msg](c.nodes[id].System(), "member", func() *Member {
		cfg.Rand = rand.New(rand.NewPCG(c.w.Seed(), life))
		return NewMember(cfg)
	})
	for other := range c.nodes {
		if other != id && c.nodes[other] != nil {
			c.connect(id, other)
			c.connect(other, id)
		}
	}
}

// connect brings what one member sends to another.
func (c *cluster) connect(from, to int) {
	ref := c.refs[to]
	c.w.Link(c.nodes[from], c.nodes[to]).Receive(func(frame any) { ref.Tell(c.w.Context(), frame.(Msg)) })
}

// Leads implements Observer: a term has one leader.
func (c *cluster) Leads(id int, term uint64) {
	if other, ok := c.leaders[term]; ok && other != id {
		c.w.Fatalf("term %d has two leaders, %d and %d", term, other, id)
	}
	c.leaders[term] = id
}

// Committed implements Observer: at an index all commit the same.
func (c *cluster) Committed(id, index int, e Entry) {
	if had, ok := c.agreed[index]; ok && had != e {
		c.w.Fatalf("member %d commits %+v at %d, where another has committed %+v", id, e, index, had)
	}
	c.agreed[index] = e
}

// client proposes a command to one member after the other until one has committed it, or
// until it is fed up.
func (c *cluster) client(command string) {
	c.w.Go("client-"+command, func(ctx *actor.Context[sim.Begin]) {
		for try := range 20 {
			short, cancel := context.WithTimeout(ctx, 300*time.Millisecond) // a member that has crashed says nothing
			_, err := actor.Ask(short, c.refs[try%len(c.refs)], Propose{Command: command})
			cancel()
			if err == nil {
				c.acked[command] = true
				return
			}
			if ctx.Sleep(100*time.Millisecond) != nil {
				return
			}
		}
	})
}

// trouble crashes members and cuts the network, now and then, for a while.
func (c *cluster) trouble(d time.Duration) {
	r := c.w.Rand()
	for at := time.Duration(0); at < d; at += time.Duration(r.Int64N(int64(400 * time.Millisecond))) {
		id := r.IntN(len(c.nodes))
		switch r.IntN(3) {
		case 0:
			down := time.Duration(r.Int64N(int64(500 * time.Millisecond)))
			c.w.At(at, func() { c.nodes[id].Crash() })
			c.w.At(at+down, func() {
				c.nodes[id].Crash() // it may have been started again meanwhile
				c.start(id)
			})
		case 1:
			c.w.At(at, func() {
				others := slices.Delete(slices.Clone(c.nodes), id, id+1)
				c.w.Partition([]*sim.Node{c.nodes[id]}, others)
			})
		default:
			c.w.At(at, func() {
				for _, a := range c.nodes {
					for _, b := range c.nodes {
						if a != b {
							c.w.Link(a, b).Mend()
						}
					}
				}
			})
		}
	}
}

// play is a run: clients, trouble, and in the end peace, in which everything that was
// answered is committed by everybody.
func play(w *sim.World, cfg Config) {
	c := newCluster(w, 3, cfg)
	for i := range 20 {
		w.At(w.Sometime(2*time.Second), func() { c.client(fmt.Sprintf("c%d", i)) })
	}
	c.trouble(3 * time.Second)
	w.Advance(4 * time.Second)
	w.Heal()
	for id := range c.nodes {
		c.nodes[id].Crash()
		c.start(id)
	}
	c.client("last")
	w.Eventually(time.Minute, "all have committed what was answered", func() error {
		if !c.acked["last"] {
			return fmt.Errorf("the last command is not committed")
		}
		for command := range c.acked {
			found := false
			for _, e := range c.agreed {
				found = found || e.Command == command
			}
			if !found {
				return fmt.Errorf("%s was answered, and is not committed", command)
			}
		}
		return nil
	})
}

var options = sim.Options{
	Steps: 100_000,
	Faults: sim.Faults{
		Lag:  0.02,
		Link: sim.LinkFaults{Drop: 0.05, Duplicate: 0.05, Delay: 40 * time.Millisecond},
		Disk: sim.DiskFaults{Delay: 5 * time.Millisecond, Fail: 0.002},
	},
}

func TestTheMembersAgreeWhateverHappens(t *testing.T) {
	t.Parallel()
	opts := options
	opts.Runs = soaktest.Rounds(t, 30, 5000)
	sim.Check(t, opts, func(w *sim.World) { play(w, Config{}) })
}

// The last one needs three changes of the leader at the right moments: one run in a
// thousand or two has them, and so it is searched for by make soak only.
func TestPlantedMistakesAreFound(t *testing.T) {
	t.Parallel()
	mistakes := []struct {
		name   string
		cfg    Config
		within int
	}{
		{"a vote for any log", Config{Rules: Rules{UpToDate: func(uint64, int, uint64, int) bool { return true }}}, 300},
		{"entries are never replaced", Config{Rules: Rules{Conflicts: func(Entry, Entry) bool { return false }}}, 300},
		{"nothing is synced", Config{Folder: forgetful{}}, 300},
		{"entries of other terms count", Config{Rules: Rules{Counts: func(uint64, uint64) bool { return true }}}, 20_000},
	}
	for _, c := range mistakes[:soaktest.Rounds(t, 3, 4)] {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			opts := options
			opts.Runs = c.within
			failure, found := sim.Find(t, opts, func(w *sim.World) { play(w, c.cfg) })
			if !found {
				t.Fatalf("not found in %d runs", c.within)
			}
			t.Logf("run %d, step %d: %s", failure.Run, failure.Step, failure.Text)
		})
	}
}

// disk is the disk of a node as a Folder.
type disk struct{ *sim.Disk }

func (d disk) Open(name string) (File, error) { return d.Disk.Open(name) }

// forgetful is a disk whose files forget to sync.
type forgetful struct{ disk }

func (f forgetful) Open(name string) (File, error) {
	file, err := f.disk.Disk.Open(name)
	return lazy{file}, err
}

type lazy struct{ *sim.File }

func (lazy) Sync(context.Context) error { return nil }
