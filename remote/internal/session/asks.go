package session

import "github.com/greenroom-go/greenroom/remote/internal/wire"

// Asker waits for an answer.
type Asker interface {
	// Over reports whether nobody waits for the answer any more. It is called with a lock
	// held: it neither blocks nor calls the session.
	Over() bool
}

// asks are the open asks of this node. The number of an ask is the index of its slot and
// how often that was used, so that a late answer never reaches the next ask of its slot.
// The zero asks is ready.
type asks struct {
	slots []askSlot
	free  []uint32
	open  int
}

type askSlot struct {
	ask  Asker // nil: free
	uses uint64
}

const slotBits = 20

func (a *asks) add(ask Asker) (number uint64) {
	var i uint32
	if last := len(a.free) - 1; last >= 0 {
		i = a.free[last]
		a.free = a.free[:last]
	} else {
		i = uint32(len(a.slots))
		a.slots = append(a.slots, askSlot{})
	}
	slot := &a.slots[i]
	slot.ask = ask
	slot.uses++
	a.open++
	return slot.uses<<slotBits | uint64(i)
}

func (a *asks) full() bool { return a.open >= wire.MaxAsks }

// find returns the open ask with the number, or nil.
func (a *asks) find(number uint64) Asker {
	i := number & (1<<slotBits - 1)
	if i < uint64(len(a.slots)) && a.slots[i].uses == number>>slotBits {
		return a.slots[i].ask
	}
	return nil
}

// take ends an ask and returns it, nil if it is not open.
func (a *asks) take(number uint64) Asker {
	ask := a.find(number)
	if ask != nil {
		i := uint32(number & (1<<slotBits - 1))
		a.slots[i].ask = nil
		a.free = append(a.free, i)
		a.open--
	}
	return ask
}

// over appends the numbers of the asks in the slots from one to before another for whose
// answers nobody waits.
func (a *asks) over(dst []uint64, from, to int) []uint64 {
	for i := from; i < min(to, len(a.slots)); i++ {
		if slot := &a.slots[i]; slot.ask != nil && slot.ask.Over() {
			dst = append(dst, slot.uses<<slotBits|uint64(i))
		}
	}
	return dst
}

// all returns the open asks.
func (a *asks) all() []Asker {
	open := make([]Asker, 0, a.open)
	for i := range a.slots {
		if ask := a.slots[i].ask; ask != nil {
			open = append(open, ask)
		}
	}
	return open
}
