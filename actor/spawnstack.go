package actor

import "sync/atomic"

// spawnStack holds runnable actors that were spawned in the first turn of their parent and
// have had no turn themselves. The youngest comes first, so that a tree of actors grows branch
// by branch, as the calls of a recursive function do: a tree that also ends branch by branch is
// never in memory as a whole. For skynet, 1.1 million actors, that halves the time.
//
// A stack is unfair. Three rules bound that: workers serve it in turns with the queues
// (take), the oldest actor comes at each oldestEvery-th pick, and actors deeper than depthMost
// go to the queue, since they may belong to a chain without an end.
//
// There is one stack for all workers. What it holds is about to spawn others, or to end, which
// takes much longer than its lock; with one for each worker, others would have to steal from it
// and take it over whenever a worker ends.
type spawnStack struct {
	mu    spin
	ring  []*core // guarded by mu; its length is 0 or a power of two
	first int     // where the oldest is, guarded by mu
	n     atomic.Int32
}

const (
	ringLeast = 64
	ringKeep  = 1024 // a longer ring is given back when it is empty
)

// at returns the slot of the i-th actor, counted from the oldest. REQUIRES: b.mu held.
func (b *spawnStack) at(i int) **core { return &b.ring[(b.first+i)&(len(b.ring)-1)] }

// push appends c as the youngest.
func (b *spawnStack) push(c *core) {
	b.mu.Lock()
	b.reserve()
	*b.at(int(b.n.Load())) = c
	b.n.Add(1)
	b.mu.Unlock()
}

// reserve sees to it that there is room for one more. REQUIRES: b.mu held.
func (b *spawnStack) reserve() {
	n := int(b.n.Load())
	if n < len(b.ring) {
		return
	}
	ring := make([]*core, max(ringLeast, 2*n))
	for i := range n {
		ring[i] = *b.at(i)
	}
	b.ring, b.first = ring, 0
}

// youngest takes the youngest out; nil when there is none.
func (b *spawnStack) youngest() *core {
	if b.n.Load() == 0 {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.remove(int(b.n.Load()) - 1)
}

// oldest takes the oldest out; nil when there is none.
func (b *spawnStack) oldest() *core {
	if b.n.Load() == 0 {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.remove(0)
	if c != nil {
		b.first++
	}
	return c
}

// remove empties the i-th slot, the first or the last. REQUIRES: b.mu held.
func (b *spawnStack) remove(i int) *core {
	n := b.n.Load()
	if n == 0 {
		return nil
	}
	at := b.at(i)
	c := *at
	*at = nil
	if b.n.Store(n - 1); n == 1 && len(b.ring) > ringKeep {
		b.ring = nil
	}
	return c
}

// depthMost bounds the depth of actors in the stack.
const depthMost = 32

// depth returns 0 after the actor's first turn. Until then it is one more than the parent's was,
// if the actor was spawned in the parent's first turn, and 0 if not.
func (c *core) depth() uint32 { return c.flags.Load() >> depthShift }

// goesFirst reports whether the actor belongs on the spawn stack.
// REQUIRES: the caller is about to queue c.
func (c *core) goesFirst() bool {
	n := c.depth()
	return n > 0 && n < depthMost && !c.parked
}

// endFirstTurn records that the actor has had its first turn.
func (c *core) endFirstTurn() {
	if c.depth() > 0 {
		c.flags.And(1<<depthShift - 1)
	}
}

// put queues an actor that w's turns have made runnable.
func (w *worker) put(c *core) {
	if c.goesFirst() {
		w.s.spawned.push(c)
	} else {
		w.queue.push(c)
	}
}

// handOver moves w's queue to the global queue.
func (w *worker) handOver() {
	for c := w.queue.pop(); c != nil; c = w.queue.pop() {
		w.s.global.push(c)
	}
}
