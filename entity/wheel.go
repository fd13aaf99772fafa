package entity

// wheel has entities by the time at which they are to be looked at: a ring of lists, one for
// each tick, so that to place an entity and to take it out cost the same with a million
// others. What lies further ahead than the ring reaches is placed at its end, and placed
// again when that comes.
//
// A heap that keeps its order at each change compares twenty times for a million, and each
// message of a device would change it. Here a message changes nothing: who is found to have
// spoken since is placed again.
type wheel struct {
	slots [wheelSlots]*present
	tick  int64 // the next one to be taken
	count int
}

const (
	// wheelTick is the length of a tick in milliseconds: how late a change may be found.
	wheelTick = 250
	// wheelSlots is how many ticks the ring reaches ahead: eight and a half minutes.
	wheelSlots = 2048
)

// place puts an entity where it is looked at once a time has come.
func (w *wheel) place(e *present, at, now int64) {
	w.remove(e)
	if w.count == 0 {
		w.tick = now / wheelTick
	}
	tick := min(max(at/wheelTick+1, w.tick), w.tick+wheelSlots-1) // the first one that begins after at
	slot := tick % wheelSlots
	e.slot, e.prev, e.next = int32(slot+1), nil, w.slots[slot] //nolint:gosec // below wheelSlots
	if e.next != nil {
		e.next.prev = e
	}
	w.slots[slot] = e
	w.count++
}

// remove takes an entity out, if it is in.
func (w *wheel) remove(e *present) {
	if e.slot == 0 {
		return
	}
	if e.next != nil {
		e.next.prev = e.prev
	}
	if e.prev != nil {
		e.prev.next = e.next
	} else {
		w.slots[e.slot-1] = e.next
	}
	e.prev, e.next, e.slot = nil, nil, 0
	w.count--
}

// advance takes out all whose tick has begun and calls f with each, which may place it
// again.
func (w *wheel) advance(now int64, f func(*present)) {
	end := now / wheelTick
	if w.count == 0 {
		w.tick = end
		return
	}
	w.tick = max(w.tick, end-wheelSlots+1) // once round has all
	for w.tick <= end {
		var list *present
		slot := w.tick % wheelSlots
		for e := w.slots[slot]; e != nil; e = w.slots[slot] {
			w.remove(e)
			e.next, list = list, e
		}
		w.tick++ // before f, which may place one at a time that is past
		for list != nil {
			e := list
			list, e.next = e.next, nil
			f(e)
		}
	}
}
