package entity

// wheel holds entities by the time at which they have to be checked: a ring of lists, one for each
// tick, so that placing and removing an entity cost the same however many there are. An entity due
// beyond the reach of the ring is placed at its end, and placed again when that time comes.
//
// With a heap, each message of a device would change its order, which takes twenty comparisons
// among a million entities. Here a message changes nothing: an entity whose device has sent
// something since is placed again when its time comes.
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

// place puts an entity where it is checked once at has come.
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

// remove removes an entity if it is in the wheel.
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

// advance removes all entities whose tick has begun and calls f with each, which may place it
// again.
func (w *wheel) advance(now int64, f func(*present)) {
	end := now / wheelTick
	if w.count == 0 {
		w.tick = end
		return
	}
	w.tick = max(w.tick, end-wheelSlots+1) // one revolution visits every slot
	for w.tick <= end {
		var list *present
		slot := w.tick % wheelSlots
		for e := w.slots[slot]; e != nil; e = w.slots[slot] {
			w.remove(e)
			e.next, list = list, e
		}
		w.tick++ // before f, which may place an entity at a time in the past
		for list != nil {
			e := list
			list, e.next = e.next, nil
			f(e)
		}
	}
}
