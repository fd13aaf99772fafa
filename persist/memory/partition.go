package memory

import (
	"cmp"
	"slices"

	"github.com/greenroom-go/greenroom/persist"
)

// outbox is what a partition has to send, by position. A removed message stays, with number 0, until
// the removed ones outnumber the others.
type outbox struct {
	list []persist.Outgoing
	at   map[persist.Delivery]uint64 // the position of each message
}

func (o *outbox) add(m persist.Outgoing) {
	if o.at == nil {
		o.at = make(map[persist.Delivery]uint64)
	}
	o.list = append(o.list, m)
	o.at[persist.Delivery{From: m.From, Number: m.Number}] = m.Position
}

// after returns the messages with greater positions.
func (o *outbox) after(position uint64) []persist.Outgoing {
	i, _ := slices.BinarySearchFunc(o.list, position+1, func(m persist.Outgoing, p uint64) int { return cmp.Compare(m.Position, p) })
	return o.list[i:]
}

func (o *outbox) remove(d persist.Delivery) {
	position, ok := o.at[d]
	if !ok {
		return
	}
	delete(o.at, d)
	o.after(position - 1)[0] = persist.Outgoing{Position: position}
	o.compact()
}

// removeOf removes what an id has sent.
func (o *outbox) removeOf(id string) {
	for i := range o.list {
		if m := &o.list[i]; m.From == id {
			delete(o.at, persist.Delivery{From: id, Number: m.Number})
			*m = persist.Outgoing{Position: m.Position}
		}
	}
	o.compact()
}

func (o *outbox) compact() {
	if len(o.at) < len(o.list)/2 {
		o.list = slices.DeleteFunc(o.list, func(m persist.Outgoing) bool { return m.Number == 0 })
	}
}

func (o *outbox) page(after uint64, limit int) (list []persist.Outgoing) {
	bytes := 0
	for _, m := range o.after(after) {
		if m.Number == 0 {
			continue
		}
		if bytes += len(m.Data); len(list) >= min(limit, persist.PageRecords) || bytes > persist.PageBytes && len(list) > 0 {
			break
		}
		m.Payload = own(m.Payload)
		list = append(list, m)
	}
	return list
}

// place is where a reminder is among those of its partition.
type place struct {
	at      int64
	id, key string
}

func placeOf(id string, e persist.ReminderEdit) place { return place{e.At, id, e.Key} }

func (a place) compare(b place) int {
	return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.id, b.id), cmp.Compare(a.key, b.key))
}

// remind inserts the place of a reminder in order of time, and forget removes it.
func (p *partition) remind(id string, e persist.ReminderEdit) {
	r := placeOf(id, e)
	i, _ := slices.BinarySearchFunc(p.due, r, place.compare)
	p.due = slices.Insert(p.due, i, r)
}

func (p *partition) forget(id string, e persist.ReminderEdit) {
	i, _ := slices.BinarySearchFunc(p.due, placeOf(id, e), place.compare)
	p.due = slices.Delete(p.due, i, i+1)
}
