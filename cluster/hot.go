package cluster

import "sync"

// hotLook bounds how many handles are examined to find an idle one.
const hotLook = 64

// hot keeps the number of activations within its limit. It is a clock: a hand goes round, spares
// activations that have had a message since it last passed, and picks the first that has not. An
// exact order by last use would take a lock for each message.
type hot[M any] struct {
	limit int // does not change

	mu   sync.Mutex
	ring []*handle[M]
	hand int
}

// add adds the handle of a new activation. If there are then too many, it removes and returns a
// handle whose activation has to end.
func (r *hot[M]) add(h *handle[M]) (victim *handle[M]) {
	r.mu.Lock()
	defer r.mu.Unlock()
	h.used.Store(true)
	h.at = len(r.ring)
	r.ring = append(r.ring, h)
	if len(r.ring) <= r.limit {
		return nil
	}
	for range hotLook {
		victim = r.turn()
		if victim != h && !victim.used.Swap(false) {
			break
		}
	}
	if victim == h {
		victim = r.turn()
	}
	r.drop(victim)
	return victim
}

// has reports whether a handle is in.
func (r *hot[M]) has(h *handle[M]) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return h.at >= 0
}

// turn advances the hand. REQUIRES: mu held, the ring not empty.
func (r *hot[M]) turn() *handle[M] {
	r.hand = (r.hand + 1) % len(r.ring)
	return r.ring[r.hand]
}

// remove removes a handle, if it is in.
func (r *hot[M]) remove(h *handle[M]) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if h.at >= 0 {
		r.drop(h)
	}
}

// drop is remove. REQUIRES: mu held, h is in.
func (r *hot[M]) drop(h *handle[M]) {
	last := r.ring[len(r.ring)-1]
	r.ring[h.at], last.at = last, h.at
	r.ring[len(r.ring)-1] = nil
	r.ring = r.ring[:len(r.ring)-1]
	h.at = -1
}
