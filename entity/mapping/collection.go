package mapping

import (
	"fmt"
	"strings"

	"github.com/greenroom-go/greenroom/entity/value"
)

// collection is what a source over many values keeps: the latest values of the
// members of a group, or the readings in a window. Its result is a function of
// the set of readings alone, in whatever order they came.
type collection interface {
	// put takes a reading of a member in. A reading of the same member and time
	// replaces the one before. The zero Value is a reading without a value.
	put(member int32, ts int64, v value.Value)
	// leave takes a member out.
	leave(member int32)
	// value returns the result, the zero Value for none.
	value() (value.Value, error)
	// newest is the time of the newest reading; false when there is none.
	newest() (int64, bool)
	// readings is how many are kept.
	readings() int
}

// roster numbers the members of a group. Numbers are used again.
type roster struct {
	ids   []string // by number, "" for none
	index map[string]int32
	free  []int32
}

// add returns the number of an entity.
func (r *roster) add(id string) int32 {
	if n, ok := r.index[id]; ok {
		return n
	}
	if r.index == nil {
		r.index = make(map[string]int32)
	}
	var n int32
	if last := len(r.free) - 1; last >= 0 {
		n, r.free = r.free[last], r.free[:last]
		r.ids[n] = id
	} else {
		n = int32(len(r.ids))
		r.ids = append(r.ids, id)
	}
	r.index[id] = n
	return n
}

func (r *roster) remove(id string) {
	n := r.index[id]
	delete(r.index, id)
	r.ids[n] = ""
	r.free = append(r.free, n)
}

// later orders readings by time, and those of one moment by the id of their
// entity, which makes the newest one certain.
func later(aTS int64, a string, bTS int64, b string) bool {
	return aTS > bTS || aTS == bTS && strings.Compare(a, b) > 0
}

// latestOf is the collection of the latest values of a group.
type latestOf struct {
	tally
	group *roster
	ts    []int64 // by member
	known []bool  // by member: it has had a reading
	last  int32   // the member with the newest reading, -1 for none
	// arrival says that what comes later is newer, whatever its time: so it is with
	// attributes, whose time is that of the machine's clock, which may go back.
	arrival bool
}

func newLatestOf(src *Source, group *roster) *latestOf {
	return &latestOf{tally: tally{fn: src.Func}, group: group, last: -1, arrival: src.Section != 0}
}

func (c *latestOf) put(member int32, ts int64, v value.Value) {
	for int(member) >= len(c.ts) {
		c.ts, c.known = append(c.ts, 0), append(c.known, false)
	}
	if c.known[member] && ts < c.ts[member] {
		if !c.arrival {
			return // late: it is in the history only
		}
		ts = c.ts[member]
	}
	c.known[member], c.ts[member] = true, ts
	c.tally.put(member, v)
	if c.last < 0 || later(ts, c.group.ids[member], c.ts[c.last], c.group.ids[c.last]) {
		c.last = member
	}
}

func (c *latestOf) leave(member int32) {
	if int(member) >= len(c.ts) || !c.known[member] {
		return
	}
	c.tally.drop(member)
	c.known[member] = false
	if c.last != member {
		return
	}
	c.last = -1
	for i := range c.ts {
		if c.known[i] && (c.last < 0 || later(c.ts[i], c.group.ids[i], c.ts[c.last], c.group.ids[c.last])) {
			c.last = int32(i)
		}
	}
}

func (c *latestOf) value() (value.Value, error) {
	if c.fn == Last {
		if c.last < 0 {
			return value.Value{}, nil
		}
		return c.values[c.last], nil
	}
	return c.tally.value()
}

func (c *latestOf) newest() (int64, bool) {
	if c.last < 0 {
		return 0, false
	}
	return c.ts[c.last], true
}

func (c *latestOf) readings() int { return c.count }

// windowOf is the collection of the readings in a window: the newest n of one
// entity, or those of the time over before and up to the newest one, which is
// the clock: time goes on with the readings and not with the wall.
type windowOf struct {
	tally
	group *roster // nil for one entity
	lastN int
	over  int64 // milliseconds

	slots  []windowSlot
	free   []int32
	byTime *indexHeap // the oldest first
	at     map[memberTime]int32
	latest memberTime // of the newest reading that ever came, if there was one
	any    bool
	// lost is the time of the newest reading that there was no room for. As long
	// as it is in the window the result would be wrong, and there is none.
	lost     int64
	overflow bool
}

type windowSlot struct {
	memberTime
	used bool
}

type memberTime struct {
	member int32
	ts     int64
}

func newWindowOf(src *Source, group *roster) *windowOf {
	w := &windowOf{tally: tally{fn: src.Func}, group: group, lastN: src.LastN, over: src.Over.Milliseconds(), at: make(map[memberTime]int32)}
	w.byTime = newIndexHeap(func(a, b int32) bool {
		return later(w.slots[b].ts, w.id(w.slots[b].member), w.slots[a].ts, w.id(w.slots[a].member))
	})
	return w
}

func (w *windowOf) id(member int32) string {
	if w.group == nil {
		return ""
	}
	return w.group.ids[member]
}

func (w *windowOf) put(member int32, ts int64, v value.Value) {
	if w.over > 0 && w.any && ts <= w.latest.ts-w.over {
		return
	}
	key := memberTime{member, ts}
	if slot, ok := w.at[key]; ok {
		w.tally.put(slot, v)
		return
	}
	slot := w.take(key)
	w.byTime.push(slot)
	w.at[key] = slot
	w.tally.put(slot, v)
	if !w.any || later(ts, w.id(member), w.latest.ts, w.id(w.latest.member)) {
		w.latest, w.any = key, true
	}
	w.evict()
}

// take returns a free slot.
func (w *windowOf) take(key memberTime) (slot int32) {
	if last := len(w.free) - 1; last >= 0 {
		slot, w.free = w.free[last], w.free[:last]
	} else {
		slot = int32(len(w.slots))
		w.slots = append(w.slots, windowSlot{})
	}
	w.slots[slot] = windowSlot{memberTime: key, used: true}
	return slot
}

// evict lets go what is not in the window any more.
func (w *windowOf) evict() {
	for w.byTime.len() > 0 {
		oldest := w.byTime.first()
		ts := w.slots[oldest].ts
		switch {
		case w.over > 0 && ts <= w.latest.ts-w.over, w.lastN > 0 && w.byTime.len() > w.lastN:
		case w.byTime.len() > MaxWindowReadings:
			if !w.overflow || ts > w.lost {
				w.lost, w.overflow = ts, true
			}
		default:
			return
		}
		w.release(oldest)
	}
}

func (w *windowOf) release(slot int32) {
	w.tally.drop(slot)
	w.byTime.remove(slot)
	delete(w.at, w.slots[slot].memberTime)
	w.slots[slot] = windowSlot{}
	w.free = append(w.free, slot)
}

// leave takes a member out. What its readings had pushed out does not come back
// by itself.
func (w *windowOf) leave(member int32) {
	for i := range w.slots {
		if w.slots[i].used && w.slots[i].member == member {
			w.release(int32(i))
		}
	}
	if w.latest.member != member {
		return
	}
	w.any = false
	for i := range w.slots {
		s := &w.slots[i]
		if s.used && (!w.any || later(s.ts, w.id(s.member), w.latest.ts, w.id(w.latest.member))) {
			w.latest, w.any = s.memberTime, true
		}
	}
}

func (w *windowOf) value() (value.Value, error) {
	if w.overflow && w.lost > w.latest.ts-w.over {
		return value.Value{}, fmt.Errorf("more than %d readings in the window of %s", MaxWindowReadings, w.fn)
	}
	switch {
	case w.byTime.len() == 0 || w.fn != Last && w.fn != First:
		if w.fn == Last || w.fn == First {
			return value.Value{}, nil
		}
		return w.tally.value()
	case w.fn == First:
		return w.values[w.byTime.first()], nil
	default:
		return w.values[w.at[w.latest]], nil
	}
}

func (w *windowOf) newest() (int64, bool) { return w.latest.ts, w.any }

func (w *windowOf) readings() int { return w.byTime.len() }
