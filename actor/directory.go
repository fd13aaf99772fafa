package actor

import (
	"iter"
	"sync"
	"sync/atomic"
)

// directory finds an actor by its number. A number is a slot in a slab and the
// slot's generation, so that finding is three loads, an idle actor costs a slot and
// no map entry, and the number of an actor that has ended finds nobody.
type directory struct {
	chunks atomic.Pointer[[]*slotChunk] // replaced as a whole; a chunk never moves

	mu   sync.Mutex
	used uint32     // slots handed out at least once
	free []freeSlot // slots given back
}

const slotsPerChunk = 1024

type slotChunk [slotsPerChunk]slot

type slot struct{ actor atomic.Pointer[core] }

// freeSlot is a slot that was given back, and the generation of whom it will hold next.
type freeSlot struct{ index, generation uint32 }

// add gives c its number.
func (d *directory) add(c *core) {
	d.mu.Lock()
	defer d.mu.Unlock()
	at := freeSlot{generation: 1}
	if n := len(d.free); n > 0 {
		at, d.free = d.free[n-1], d.free[:n-1]
	} else {
		at.index = d.used
		d.used++
		if at.index%slotsPerChunk == 0 {
			d.grow()
		}
	}
	c.id = uint64(at.generation)<<32 | uint64(at.index)
	d.at(at.index).actor.Store(c)
}

// grow appends a chunk. REQUIRES: d.mu held.
func (d *directory) grow() {
	chunk := new(slotChunk)
	var next []*slotChunk
	if old := d.chunks.Load(); old != nil {
		next = append(next, *old...)
	}
	next = append(next, chunk)
	d.chunks.Store(&next)
}

func (d *directory) at(index uint32) *slot {
	chunks := d.chunks.Load()
	if chunks == nil || int(index/slotsPerChunk) >= len(*chunks) {
		return nil
	}
	return &(*chunks)[index/slotsPerChunk][index%slotsPerChunk]
}

// remove gives back the slot of an actor that has no siblings any more.
func (d *directory) remove(c *core) {
	index := c.slot()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.at(index).actor.Store(nil)
	d.free = append(d.free, freeSlot{index, uint32(c.id>>32) + 1})
}

// find returns the living actor with the number, or nil.
func (d *directory) find(id uint64) *core {
	s := d.at(uint32(id))
	if s == nil {
		return nil
	}
	if c := s.actor.Load(); c != nil && c.id == id && c.flags.Load()&ended == 0 {
		return c
	}
	return nil
}

// all returns the living actors.
func (d *directory) all() iter.Seq[*core] {
	return func(yield func(*core) bool) {
		chunks := d.chunks.Load()
		if chunks == nil {
			return
		}
		for _, chunk := range *chunks {
			for i := range chunk {
				if c := chunk[i].actor.Load(); c != nil && c.flags.Load()&ended == 0 && !yield(c) {
					return
				}
			}
		}
	}
}

// registry finds an actor by its path. Only actors with a name are in it.
type registry struct {
	shards [registryShards]registryShard
}

const registryShards = 64

type registryShard struct {
	mu     sync.RWMutex
	actors map[string]*core
}

func (r *registry) shard(path string) *registryShard {
	h := uint32(2166136261) // FNV-1a
	for i := range len(path) {
		h = (h ^ uint32(path[i])) * 16777619
	}
	return &r.shards[h%registryShards]
}

// reserve takes the path for an actor that cannot be found yet. It reports false, and
// changes nothing, when the path is taken.
func (r *registry) reserve(path string) bool {
	s := r.shard(path)
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, taken := s.actors[path]; taken {
		return false
	}
	if s.actors == nil {
		s.actors = make(map[string]*core)
	}
	s.actors[path] = nil
	return true
}

// publish lets the actor be found under the path that it has reserved.
func (r *registry) publish(path string, c *core) {
	s := r.shard(path)
	s.mu.Lock()
	s.actors[path] = c
	s.mu.Unlock()
}

func (r *registry) remove(path string) {
	s := r.shard(path)
	s.mu.Lock()
	delete(s.actors, path)
	s.mu.Unlock()
}

func (r *registry) find(path string) *core {
	s := r.shard(path)
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.actors[path]
}
