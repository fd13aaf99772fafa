package mapping

import (
	"errors"
	"fmt"
	"strings"

	"github.com/greenroom-go/greenroom/entity/value"
)

// collection holds the values of a source over many values: the latest values of the members of a
// group, or the readings in a window. Its result is a function of the set of readings alone,
// whatever their order.
type collection interface {
	// put adds a reading of a member. A reading of the same member and time replaces the earlier
	// one. The zero Value is a reading without a value.
	put(member int32, ts int64, v value.Value)
	// leave removes a member.
	leave(member int32)
	// clear removes all members, and releases the memory of their readings.
	clear()
	// value returns the result, the zero Value for none.
	value() (value.Value, error)
	// newest returns the time of the newest reading, and false if there is none.
	newest() (int64, bool)
	// readings returns how many readings are kept.
	readings() int
	// isShort reports whether there was no room for a reading that counts.
	isShort() bool
}

// roster numbers the members of a group. Numbers are reused.
type roster struct {
	ids   []string // by number, "" for none
	index map[string]int32
	free  []int32
	short bool // there was no room for a member
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

// later orders readings by time, and those of the same time by the id of their entity, so that the
// newest one is well defined.
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
	// arrival says that a later arrival is newer, whatever its time, as for attributes, whose time
	// is that of the machine's clock, which may go back.
	arrival bool
	room    *account
	lacking map[int32]bool // the members for whose text there was no room
}

func newLatestOf(src *Source, group *roster, room *account) *latestOf {
	return &latestOf{tally: tally{fn: src.Func}, group: group, last: -1, arrival: src.Section != 0, room: room}
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
	before := c.textOf(member)
	delete(c.lacking, member)
	if c.fn == Last && !c.room.take(textBytes(v)-before) {
		c.room.drop()
		c.room.take(-before)
		if c.lacking == nil {
			c.lacking = make(map[int32]bool)
		}
		c.lacking[member], v = true, value.Bool(true)
	}
	c.tally.put(member, v)
	if c.last < 0 || later(ts, c.group.ids[member], c.ts[c.last], c.group.ids[c.last]) {
		c.last = member
	}
}

// textOf returns the bytes of the text of a member.
func (c *latestOf) textOf(member int32) int {
	if int(member) >= len(c.values) {
		return 0
	}
	return textBytes(c.values[member])
}

func (c *latestOf) leave(member int32) {
	if int(member) >= len(c.ts) || !c.known[member] {
		return
	}
	c.room.take(-c.textOf(member))
	delete(c.lacking, member)
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

func (c *latestOf) clear() {
	for _, v := range c.values {
		c.room.take(-textBytes(v))
	}
	c.tally, c.lacking, c.last = tally{fn: c.fn}, nil, -1
	clear(c.known)
}

func (c *latestOf) value() (value.Value, error) {
	if c.group.short || c.last >= 0 && c.lacking[c.last] {
		return value.Value{}, c.room.noRoom("the values of a group")
	}
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

func (c *latestOf) isShort() bool { return len(c.lacking) > 0 || c.group.short }

// windowOf is the collection of the readings in a window: the newest n of one entity, or those
// within the duration over up to the newest reading. The newest reading is the clock: time advances
// with the readings, not with the wall clock.
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
	// lost is the time of the newest reading for which there was no room. As long as it is in the
	// window the result would be wrong, so there is none.
	lost     int64
	overflow overflow

	texts int      // bytes in the readings
	room  *account // what has taken slotSize for each slot, and paid for the texts
	paid  int
}

// overflow says which limit a window has exceeded.
type overflow uint8

const (
	tooMany  overflow = iota + 1 // MaxWindowReadings
	tooLarge                     // MaxWindowBytes
	noRoom                       // the budget of all mappings
)

type windowSlot struct {
	memberTime
	used bool
}

type memberTime struct {
	member int32
	ts     int64
}

func newWindowOf(src *Source, group *roster, room *account) *windowOf {
	w := &windowOf{tally: tally{fn: src.Func}, group: group, lastN: src.LastN, over: src.Over.Milliseconds(), at: make(map[memberTime]int32), room: room}
	w.byTime = newIndexHeap(w.before)
	return w
}

// before is the order of the heap.
func (w *windowOf) before(a, b int32) bool {
	return later(w.slots[b].ts, w.id(w.slots[b].member), w.slots[a].ts, w.id(w.slots[a].member))
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
	if !w.any || later(ts, w.id(member), w.latest.ts, w.id(w.latest.member)) {
		w.latest, w.any = key, true
	}
	slot, ok := w.at[key]
	if !ok {
		if slot, ok = w.take(key); !ok {
			return
		}
		w.byTime.push(slot)
		w.at[key] = slot
	} else {
		w.texts -= textBytes(w.values[slot])
	}
	w.tally.put(slot, v)
	w.texts += textBytes(w.values[slot])
	w.evict()
	w.shrink()
}

// take returns a free slot, evicting the oldest reading if need be. It reports false if there is no
// room and no older reading.
func (w *windowOf) take(key memberTime) (slot int32, ok bool) {
	if len(w.free) == 0 {
		if w.room.take(slotSize) {
			w.free = append(w.free, int32(len(w.slots)))
			w.slots = append(w.slots, windowSlot{})
		} else {
			w.room.drop()
			if w.byTime.len() == 0 || w.slots[w.byTime.first()].ts >= key.ts {
				w.lose(key.ts, noRoom)
				return 0, false
			}
			oldest := w.byTime.first()
			w.lose(w.slots[oldest].ts, noRoom)
			w.release(oldest)
		}
	}
	last := len(w.free) - 1
	slot, w.free = w.free[last], w.free[:last]
	w.slots[slot] = windowSlot{memberTime: key, used: true}
	return slot, true
}

// lose records a reading that is not kept.
func (w *windowOf) lose(ts int64, why overflow) {
	if w.overflow == 0 || ts > w.lost {
		w.lost, w.overflow = ts, why
	}
}

// pay takes the room for the texts.
func (w *windowOf) pay() bool {
	if !w.room.take(w.texts - w.paid) {
		return false
	}
	w.paid = w.texts
	return true
}

// leastSlots is the number of slots up to which a window keeps them.
const leastSlots = 64

// shrink gives slots back if few are used.
func (w *windowOf) shrink() {
	if len(w.slots) > leastSlots && len(w.slots) >= 4*w.byTime.len() {
		w.compact()
	}
}

// compact gives all free slots back.
func (w *windowOf) compact() {
	old := *w
	w.tally, w.slots, w.free = tally{fn: old.fn}, make([]windowSlot, 0, old.byTime.len()), nil
	w.at, w.byTime = make(map[memberTime]int32), newIndexHeap(w.before)
	for _, from := range old.byTime.order {
		slot := int32(len(w.slots))
		w.slots = append(w.slots, old.slots[from])
		w.at[w.slots[slot].memberTime] = slot
		w.byTime.push(slot)
		w.tally.put(slot, old.values[from])
	}
	w.room.take(slotSize * (len(w.slots) - len(old.slots)))
}

// evict removes readings that are no longer in the window.
func (w *windowOf) evict() {
	for w.byTime.len() > 0 {
		oldest := w.byTime.first()
		ts := w.slots[oldest].ts
		switch {
		case w.over > 0 && ts <= w.latest.ts-w.over, w.lastN > 0 && w.byTime.len() > w.lastN:
		case w.byTime.len() > MaxWindowReadings:
			w.lose(ts, tooMany)
		case w.texts > MaxWindowBytes:
			w.lose(ts, tooLarge)
		case !w.pay():
			w.room.drop()
			w.lose(ts, noRoom)
		default:
			return
		}
		w.release(oldest)
	}
	w.pay() // there are no texts
}

func (w *windowOf) release(slot int32) {
	w.texts -= textBytes(w.values[slot])
	w.tally.drop(slot)
	w.byTime.remove(slot)
	delete(w.at, w.slots[slot].memberTime)
	w.slots[slot] = windowSlot{}
	w.free = append(w.free, slot)
}

// leave removes a member. Readings that its readings had evicted do not come back by themselves.
func (w *windowOf) leave(member int32) {
	for i := range w.slots {
		if w.slots[i].used && w.slots[i].member == member {
			w.release(int32(i))
		}
	}
	w.pay()
	w.shrink()
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

func (w *windowOf) clear() {
	for w.byTime.len() > 0 {
		w.release(w.byTime.first())
	}
	w.pay()
	w.compact()
	w.any = false
}

// trim removes the oldest readings until the account has released n bytes, or there are no more.
func (w *windowOf) trim(n int) {
	for freed := 0; freed < n && w.byTime.len() > 0; freed += slotSize {
		oldest := w.byTime.first()
		freed += textBytes(w.values[oldest])
		w.lose(w.slots[oldest].ts, noRoom)
		w.release(oldest)
	}
	w.pay()
	w.compact()
}

func (w *windowOf) value() (value.Value, error) {
	if err := w.incomplete(); err != nil {
		return value.Value{}, err
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

// incomplete returns an error if a reading that is not kept belongs to the window.
func (w *windowOf) incomplete() error {
	belongs := w.lost > w.latest.ts-w.over
	if w.lastN > 0 {
		belongs = w.byTime.len() < w.lastN || w.slots[w.byTime.first()].ts < w.lost
	}
	switch {
	case w.group != nil && w.group.short:
		return w.room.noRoom("the members of a group")
	case w.overflow == 0 || !belongs:
		return nil
	case w.overflow == tooMany:
		return fmt.Errorf("more than %d readings in the window of %s", MaxWindowReadings, w.fn)
	case w.overflow == tooLarge:
		return fmt.Errorf("more than %d bytes of texts in the window of %s", MaxWindowBytes, w.fn)
	default:
		return w.room.noRoom("the readings in the window of " + string(w.fn))
	}
}

func (w *windowOf) isShort() bool {
	_, short := errors.AsType[*noRoomError](w.incomplete())
	return short
}

func (w *windowOf) newest() (int64, bool) { return w.latest.ts, w.any }

func (w *windowOf) readings() int { return w.byTime.len() }
