package alarm

import (
	"slices"
	"unsafe"
)

// recentAlarmBytes bounds the memory of the open alarms that are kept beside the store: some ten to
// twenty thousand.
const recentAlarmBytes = 16 << 20

// recent caches recently written open alarms: most alarms clear soon after they were raised, and
// reading one from the store costs more than writing its end. It is owned by the engine's
// goroutine, and is void after an error.
type recent struct{ halves[*Alarm] }

func newRecent(bytes int) recent { return recent{halves[*Alarm]{most: bytes / 2}} }

// find returns a copy of an alarm, nil for one that is not kept.
func (r *recent) find(id string) *Alarm {
	kept, _ := r.halves.find(id)
	if kept == nil {
		return nil
	}
	return kept.clone()
}

// add keeps a copy of an alarm.
func (r *recent) add(a *Alarm) {
	x := a.clone()
	r.halves.add(a.ID, x, x.bytes()+recentEntryBytes)
}

// clone returns an independent copy. The history is changed in place; everything else is replaced.
func (a *Alarm) clone() *Alarm {
	x := *a
	x.History = slices.Clone(a.History)
	return &x
}

// recentEntryBytes is about what a place in the map takes, and what the allocator rounds up.
const recentEntryBytes = 200

// bytes returns about what an alarm takes in memory. Strings count in full, although some are those
// of its rule.
func (a *Alarm) bytes() int {
	n := int(unsafe.Sizeof(*a)) + len(a.ID) + len(a.Rule) + len(a.Entity) + len(a.Message) + len(a.Cause)
	n += cap(a.Values) * int(unsafe.Sizeof(Value{}))
	for i := range a.Values {
		n += len(a.Values[i].Key) + len(a.Values[i].Value.Text())
	}
	n += cap(a.Webhooks) * int(unsafe.Sizeof(""))
	for _, name := range a.Webhooks {
		n += len(name)
	}
	n += cap(a.History) * int(unsafe.Sizeof(Transition{}))
	for i := range a.History {
		n += len(a.History[i].By) + len(a.History[i].Note)
	}
	if m := a.Acknowledged; m != nil {
		n += int(unsafe.Sizeof(*m)) + len(m.By) + len(m.Note)
	}
	if s := a.Shelved; s != nil {
		n += int(unsafe.Sizeof(*s)) + len(s.By) + len(s.Note)
	}
	return n
}
