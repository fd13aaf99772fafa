package entity

import (
	"context"
	"maps"
	"slices"
	"time"
)

// Hot, detached, cold.
//
// An entity that has an actor is hot while a worker runs it and detached while it has nothing to
// do. An entity that is idle for long, or for longer than others when memory is short, goes cold:
// its actor stops, and its state is in the store only.
//
// The manager chooses an entity, and its actor decides. It stops only if everything it has accepted
// is committed, so that the next load finds it, and if no delivery is listed with its handle. The
// handle is closed under its lock: a delivery is either listed before that, and the actor stays, or
// finds the handle closed, and makes the next one. So no delivery is lost in between.

// retire asks an entity to go cold, unless it has been used since.
type retire struct{ unused int64 }

func (retire) message() {}

// actorBytes is roughly what an actor occupies without its state: its cell, path and mailbox, its
// entries in the tables of names and handles, and the handle.
const actorBytes = 1000

// used records that the entity was used, and how much memory it occupies now.
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

// sweep asks entities to go cold: those that have been idle for too long and, if the others do not
// fit in memory, those that have been idle longest.
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

// retire asks an entity to go cold if it has not been used since limit, and removes a handle whose
// actor has ended in another way and left nothing open.
func (m *manager) retire(ctx context.Context, h *handle, limit int64) {
	ref, over := h.standing()
	switch {
	case over:
		m.rt.count.hotBytes.Add(-h.bytes.Swap(0)) // its actor was killed
		if m.rt.committer.Committed(h.ticket.Load()) {
			m.rt.handles.remove(h)
		}
	case !ref.IsZero() && h.used.Load() <= limit:
		_ = ref.TryTell(ctx, retire{limit}) // the audit finds an actor that has ended
	}
}

// ageStep is the precision with which makeRoom compares the ages of entities.
const ageStep = int64(100 * time.Millisecond)

// makeRoom asks the least recently used entities to go cold, until they occupy that many bytes
// together.
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
		if stay -= byAge[age]; stay < 0 { // entities at least this old go
			unused := (age+1)*ageStep - 1
			r.handles.each(func(h *handle) { m.retire(ctx, h, unused) })
			return
		}
	}
}
