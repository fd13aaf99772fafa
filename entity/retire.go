package entity

import (
	"context"
	"maps"
	"slices"
	"time"
)

// Hot, detached, cold.
//
// An entity that has an actor is hot while a worker runs it and detached while it
// has nothing to do. One that is idle for long, or longer than others when there
// is no room, goes cold: its actor stops, and what it was is in the store only.
//
// The manager chooses; the actor goes, or not. It goes only if all it has taken
// in is committed, so that whoever loads it next finds all of it, and if nothing
// is listed with its handle. The handle is closed under its lock: a delivery is
// either listed before, and the actor stays, or finds the handle closed, and makes
// the next one. So none is lost in between.

// retire asks an entity to go cold, unless it has been needed since.
type retire struct{ unused int64 }

func (retire) message() {}

// actorBytes is about what an actor occupies without its state: its cell, path
// and mailbox, the entries in the tables of names and handles, and the handle.
const actorBytes = 1000

// used notes that the entity was needed, and what it occupies now.
func (e *entityActor) used() {
	e.h.used.Store(e.rt.nanos())
	if n := actorBytes + e.state.size(); n != e.h.bytes.Load() {
		e.rt.count.hotBytes.Add(n - e.h.bytes.Swap(n))
	}
}

// retire closes the handle, if the entity may go.
func (e *entityActor) retire(m retire) bool {
	if e.h.used.Load() > m.unused || !e.rt.committer.Committed(e.h.ticket.Load()) || !e.h.retire() {
		return false
	}
	e.rt.handles.remove(e.h)
	e.rt.count.live.Add(-1)
	if e.state.created != 0 {
		e.rt.count.evicted.Add(1)
	}
	return true
}

// sweep asks those to go cold who were idle for too long and, when the others
// have no room, those who were idle for longest.
func (m *manager) sweep(ctx context.Context) {
	r := m.rt
	hot := r.count.hotBytes.Load()
	if hot > r.cfg.HotBytes {
		m.makeRoom(ctx, hot-r.cfg.HotBytes+r.cfg.HotBytes/8)
		return
	}
	first := m.part * len(r.handles.shards) / sweepParts
	next := (m.part + 1) * len(r.handles.shards) / sweepParts
	m.part = (m.part + 1) % sweepParts
	limit := int64(-1)
	if r.cfg.IdleAfter > 0 {
		limit = r.nanos() - int64(r.cfg.IdleAfter)
	}
	r.handles.some(first, next-first, func(h *handle) { m.retire(ctx, h, limit) })
}

// retire asks an entity to go cold if it was not needed after the limit, and
// forgets a handle whose actor has ended otherwise and left nothing open.
func (m *manager) retire(ctx context.Context, h *handle, limit int64) {
	ref, over := h.standing()
	switch {
	case over:
		m.rt.count.hotBytes.Add(-h.bytes.Swap(0)) // of one that was killed
		if m.rt.committer.Committed(h.ticket.Load()) {
			m.rt.handles.remove(h)
		}
	case !ref.IsZero() && h.used.Load() <= limit:
		_ = ref.TryTell(ctx, retire{limit}) // one that has ended is found by the audit
	}
}

// ageStep is how exactly makeRoom tells the ages of entities.
const ageStep = int64(100 * time.Millisecond)

// makeRoom asks the entities that were not needed for longest to go cold, until
// they have that many bytes together.
func (m *manager) makeRoom(ctx context.Context, bytes int64) {
	r := m.rt
	hot := r.count.hotBytes.Load()
	byAge := make(map[int64]int64)
	r.handles.each(func(h *handle) {
		if ref, _ := h.standing(); !ref.IsZero() {
			byAge[h.used.Load()/ageStep] += h.bytes.Load()
		}
	})
	stay := hot - bytes
	for _, age := range slices.Backward(slices.Sorted(maps.Keys(byAge))) {
		if stay -= byAge[age]; stay < 0 { // those of this age and before go
			unused := (age+1)*ageStep - 1
			r.handles.each(func(h *handle) { m.retire(ctx, h, unused) })
			return
		}
	}
}
