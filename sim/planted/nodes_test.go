package planted

import (
	"fmt"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/sim"
)

// The election: three nodes propose themselves to each other; who has heard of nobody better
// leads. Mended, it takes the votes of a majority, and a vote is given once.

type electionMsg interface{ election() }

type propose struct{ node int }

type vote struct{ whom, by int }

type count struct{}

func (propose) election() {}
func (vote) election()    {}
func (count) election()   {}

type elector struct {
	node   int
	peers  []actor.Ref[electionMsg]
	mended bool
	leads  func()
	best   int
	voted  bool
	votes  map[int]bool
}

// Receive implements actor.Actor.
func (e *elector) Receive(ctx *actor.Context[electionMsg], m electionMsg) error {
	switch m := m.(type) {
	case propose:
		e.best = max(e.best, m.node)
		if !e.voted && e.mended {
			e.voted = true
			e.peers[m.node].Tell(ctx, vote{whom: m.node, by: e.node})
		}
	case vote:
		if e.votes[m.by] = true; len(e.votes) == 2 {
			e.leads()
		}
	case count:
		if !e.mended && e.best <= e.node {
			e.leads()
		}
	}
	return nil
}

func election(w *sim.World, mended bool) {
	leaders := 0
	var nodes []*sim.Node
	var electors []*elector
	var refs []actor.Ref[electionMsg]
	for i := range 3 {
		nodes = append(nodes, w.Node(fmt.Sprintf("n%d", i)))
		e := &elector{node: i, mended: mended, votes: make(map[int]bool), leads: func() { leaders++ }}
		electors = append(electors, e)
		refs = append(refs, actor.Spawn[electionMsg](nodes[i].System(), "elector", func() *elector { return e }))
	}
	for i, e := range electors {
		for j, to := range refs {
			if i != j {
				to = sim.Proxy(w.Link(nodes[i], nodes[j]), fmt.Sprintf("to-%d", j), to)
			}
			e.peers = append(e.peers, to)
		}
	}
	w.Always("one leads at most", func() error {
		if leaders > 1 {
			return fmt.Errorf("%d do", leaders)
		}
		return nil
	})
	for i, e := range electors {
		for j := range refs {
			e.peers[j].Tell(w.Context(), propose{i})
		}
	}
	w.Advance(time.Second)
	for _, to := range refs {
		to.Tell(w.Context(), count{})
	}
	w.Settle()
}

// The replica: writes come over two links, from two front ends.

type put struct{ version int }

func replica(w *sim.World, mended bool) {
	version, highest := 0, 0
	store := w.Node("store")
	kept := actor.SpawnFunc(store.System(), "replica", func(_ *actor.Context[put], m put) error {
		highest = max(highest, m.version)
		if !mended || m.version > version {
			version = m.version
		}
		return nil
	})
	for i := range 2 {
		front := w.Node(fmt.Sprintf("front-%d", i))
		to := sim.Proxy(w.Link(front, store), "to-store", kept)
		w.At(time.Duration(i)*2*time.Second/3, func() { to.Tell(w.Context(), put{i + 1}) })
	}
	w.Advance(10 * time.Second)
	if version != highest {
		w.Fatalf("version %d has overwritten version %d", version, highest)
	}
}
