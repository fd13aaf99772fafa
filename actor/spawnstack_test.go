package actor

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
)

func TestASpawnStackGivesTheYoungestAndTheOldest(t *testing.T) {
	var b spawnStack
	all := make([]*core, 3*ringLeast)
	for i := range all {
		all[i] = new(core)
		b.push(all[i])
		if i == ringLeast/2 && b.oldest() != all[0] { // so that the ring is not straight when it grows
			t.Fatal("the first is not the oldest")
		}
	}
	for left := all[1:]; len(left) > 0; left = left[1 : len(left)-1] {
		if b.youngest() != left[len(left)-1] || len(left) > 1 && b.oldest() != left[0] {
			t.Fatalf("not in their order, with %d left", len(left))
		}
		if len(left) == 1 {
			break
		}
	}
	if b.oldest() != nil || b.youngest() != nil || b.n.Load() != 0 {
		t.Error("there is one too many")
	}
}

func TestALongSpawnStackIsGivenBack(t *testing.T) {
	var b spawnStack
	for range 2 {
		for range ringKeep + 1 {
			b.push(new(core))
		}
		for range ringKeep + 1 {
			b.youngest()
		}
		if b.ring != nil {
			t.Errorf("an empty spawnStack keeps room for %d", len(b.ring))
		}
	}
}

// spawnedYoung returns an actor that was spawned in its parent's first turn.
func spawnedYoung() *core {
	c := new(core)
	c.flags.Store(1 << depthShift)
	return c
}

func TestASpawnStackDoesNotOvertakeWhoWasThereForLong(t *testing.T) {
	s := newScheduler(bulkhead{weight: 1}, new(atomic.Int64))
	defer s.close()
	w := &worker{s: s}
	for range 10 {
		w.put(spawnedYoung())
	}
	prev := new(core)
	w.put(prev)
	for picks := 1; w.next() != prev; picks++ {
		w.put(spawnedYoung())
		w.put(spawnedYoung())
		if picks > 11 {
			t.Fatal("beside those who are new, who was there waits for more than a round")
		}
	}
}

func TestWhoSpawnsWithoutAnEndWaitsForWhatItHasSpawned(t *testing.T) {
	s := newScheduler(bulkhead{weight: 1}, new(atomic.Int64))
	defer s.close()
	w := &worker{s: s}
	old := new(core)
	parents := map[*core]bool{}
	w.put(old)
	for picks := range 10_000 {
		switch c := w.next(); {
		case c == old:
			parent := new(core)
			parents[parent] = true
			w.put(parent)
			w.put(old)
		case parents[c]:
			delete(parents, c)
			for range 4 {
				w.put(spawnedYoung())
			}
		}
		if n := s.spawned.n.Load(); n > 40*s.n {
			t.Fatalf("after %d picks %d wait", picks, n)
		}
	}
}

func TestTheOldestOfASpawnStackIsPickedAtLast(t *testing.T) {
	s := newScheduler(bulkhead{weight: 1}, new(atomic.Int64))
	defer s.close()
	w := &worker{s: s}
	oldest := spawnedYoung()
	w.put(oldest)
	for picks := 1; ; picks++ {
		w.put(spawnedYoung())
		s.global.push(new(core)) // as busy outside
		if w.next() == oldest {
			return
		}
		if picks > oldestEvery {
			t.Fatalf("not picked in %d picks", picks)
		}
	}
}

func TestABranchWithoutAnEndStarvesNobody(t *testing.T) {
	s := newScheduler(bulkhead{weight: 1}, new(atomic.Int64))
	defer s.close()
	w := &worker{s: s}
	siblings := map[*core]bool{}
	for range 100 {
		c := spawnedYoung()
		siblings[c] = true
		w.put(c)
	}
	parent := &core{parent: new(core)}
	link := func() {
		c := &core{parent: parent}
		parent.adopt(c)
		parent = c
		w.runnext.Store(c) // it is told
	}
	link()
	for picks := 0; len(siblings) > 0; picks++ {
		c := w.next()
		if c == parent {
			link()
		}
		delete(siblings, c)
		if picks > 10*depthMost+10*100 {
			t.Fatalf("beside actors that each start the next one, %d wait after %d picks", len(siblings), picks)
		}
	}
}

func TestWhatWaitsInItsFirstTurnBelongsToNoSpawnStack(t *testing.T) {
	for name, change := range map[string]func(c *core){
		"it waits":           func(c *core) { c.parked = true },
		"the turn is over":   func(c *core) { c.endFirstTurn() },
		"too deep in a tree": func(c *core) { c.flags.Store(depthMost << depthShift) },
		"spawned by an old":  func(c *core) { c.flags.Store(0) },
	} {
		c := spawnedYoung()
		if !c.goesFirst() {
			t.Fatal("a new one is not goesFirst")
		}
		if change(c); c.goesFirst() {
			t.Errorf("%s: goesFirst", name)
		}
	}
}

// branch is a node of a tree of actors that spawns its children in its first turn and ends
// when they have.
type branch struct {
	leaves, missing int
	parent          Ref[int]
	living, most    *atomic.Int64
}

func (b *branch) Receive(ctx *Context[int], _ int) error {
	if b.leaves > 1 && b.missing == 0 {
		for range 10 {
			b.missing++
			b.most.Store(max(b.most.Load(), b.living.Add(1)))
			child := &branch{leaves: b.leaves / 10, parent: ctx.Self(), living: b.living, most: b.most}
			Spawn(ctx, "", func() *branch { return child }).Tell(ctx, 0)
		}
		return nil
	}
	if b.missing--; b.missing > 0 {
		return nil
	}
	b.living.Add(-1)
	b.parent.Tell(ctx, 0)
	return ErrStop
}

func TestATreeOfActorsIsNeverThereAsAWhole(t *testing.T) {
	sys := NewSystem("tree")
	defer func() { _, _ = sys.Shutdown(context.Background()) }()
	done := make(chan struct{})
	top := SpawnFunc(sys, "", func(*Context[int], int) error { close(done); return nil })
	var living, most atomic.Int64
	living.Store(1)
	root := &branch{leaves: 10_000, parent: top, living: &living, most: &most}
	Spawn(sys, "", func() *branch { return root }).Tell(context.Background(), 0)
	<-done
	if living.Load() != 0 {
		t.Errorf("%d have not ended", living.Load())
	}
	if n := most.Load(); n > 5000 { // in the order of a queue: nearly all of 11 111
		t.Errorf("%d of 11 111 actors were there at once", n)
	}
}

func TestChildrenOfAFirstTurnThatDoesNotReturnAreHandled(t *testing.T) {
	sys := NewSystem("depth")
	defer func() { _, _ = sys.Shutdown(context.Background()) }()
	const children = 100
	handled, done := make(chan struct{}, children), make(chan struct{})
	parent := SpawnFunc(sys, "", func(ctx *Context[int], _ int) error {
		for range children {
			child := SpawnFunc(ctx, "", func(*Context[int], int) error { handled <- struct{}{}; return nil })
			child.Tell(ctx, 0)
		}
		for range children {
			<-handled
		}
		close(done)
		return nil
	})
	parent.Tell(context.Background(), 0)
	<-done
}

func TestChildrenOfALaterTurnBelongToNoSpawnStack(t *testing.T) {
	for name, opts := range map[string][]SpawnOption{"pool": nil, "pinned": {Pinned()}, "inline": {Inline()}} {
		sys := NewSystem("olds")
		nests := make(chan uint32, 2)
		parent := SpawnFunc(sys, "", func(ctx *Context[int], _ int) error {
			child := SpawnFunc(ctx, "", func(*Context[int], int) error { return nil })
			nests <- child.recipient().base().depth()
			return nil
		}, opts...)
		for turn, want := range []uint32{1, 0} {
			parent.Tell(context.Background(), 0)
			if got := <-nests; got != want {
				t.Errorf("%s: turn %d: a child's depth is %d, want %d", name, turn, got, want)
			}
			for c := parent.recipient().base(); !hasHandled(c); { // until the turn is over
				runtime.Gosched()
			}
		}
		_, _ = sys.Shutdown(context.Background())
	}
}

// hasHandled reports whether a turn is over in which c has handled a message.
func hasHandled(c *core) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.handled > 0
}
