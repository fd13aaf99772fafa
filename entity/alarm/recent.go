package alarm

import (
	"slices"
	"unsafe"
)

// recentAlarmBytes bounds the memory of the open alarms that are kept beside the store: some ten to
// twenty thousand.
const recentAlarmBytes = 16 << 20

// recent keeps open alarms that were written lately: most alarms clear soon after they were raised, and
// to read one from the store costs more than to write its end. It has two halves, as cache has. It is
// owned by the engine's goroutine, and worth nothing after an error.
type recent struct {
	young, old map[string]*recentAlarm
	bytes      int // of young
	most       int // of both
}

type recentAlarm struct {
	alarm Alarm
	bytes int
}

// find returns a copy of an alarm, nil for one that is not kept.
func (r *recent) find(id string) *Alarm {
	x := r.young[id]
	if x == nil {
		if x = r.old[id]; x == nil {
			return nil
		}
	}
	a := x.alarm
	a.History = slices.Clone(a.History) // it is changed in place; all else is replaced
	return &a
}

// add keeps a copy of an alarm.
func (r *recent) add(a *Alarm) {
	r.forget(a.ID)
	x := &recentAlarm{alarm: *a}
	x.alarm.History = slices.Clone(a.History)
	x.bytes = x.alarm.bytes() + recentEntryBytes
	if r.bytes+x.bytes > r.most/2 {
		r.old, r.young, r.bytes = r.young, nil, 0
	}
	if r.young == nil {
		r.young = make(map[string]*recentAlarm)
	}
	r.young[a.ID] = x
	r.bytes += x.bytes
}

// forget removes an alarm.
func (r *recent) forget(id string) {
	if x := r.young[id]; x != nil {
		r.bytes -= x.bytes
		delete(r.young, id)
	}
	delete(r.old, id)
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
