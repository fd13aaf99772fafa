package actor

import "sync/atomic"

// spawnStack holds actors that were spawned in the first turn of their parents and have had no
// turn themselves. The youngest comes first, so that a tree of actors grows branch by
// branch, as the calls of a recursive function do: one that ends branch by branch, too, is
// never in memory as a whole.
//
// It is one for all workers. What it holds is about to spawn others, or to end, which takes
// much longer than its lock; a spawnStack for each worker would have to be stolen from and handed
// over whenever a worker comes or goes.
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

// at returns the place of the i-th, counted from the oldest. REQUIRES: b.mu held.
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

// remove empties the i-th place, the first or the last. REQUIRES: b.mu held.
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
