package persist

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/greenroom-go/greenroom/actor"
)

// The messages of reminders, beside parts.
type (
	remindersRead struct {
		from   parts // what was to be read
		left   parts // what was not read
		full   parts // of which there is more
		listed []Reminder
		err    error
	}
	// reminded says that a reminder has had its effect.
	reminded struct{ of reminder }
	// earliest is the earliest time of the reminders that a commit has set, by partition, 0 for none.
	earliest [Parts]int64
)

// reminder names one that is due.
type reminder struct {
	id, key string
	at      int64
}

// reminders is the actor that delivers reminders when they are due. It reads those of a partition
// in the order of their times: after a commit that has an earlier one than it has a timer for, when
// the next one is due, and, where there are more than a page, when one has been delivered and after
// a while: those that cannot be delivered must not hide the later ones.
type reminders struct {
	backlog
	open   map[reminder]bool // those under way
	opened [Parts]int        // how many, by partition
	full   parts             // there are more than were read
	next   [Parts]int64      // when the timer comes, 0 if that is not known
}

// Init implements actor.Initializer.
func (r *reminders) Init(ctx *actor.Context[any]) error {
	r.open = make(map[reminder]bool)
	if r.begin() {
		r.read(ctx)
	}
	return nil
}

// Receive implements actor.Actor.
func (r *reminders) Receive(ctx *actor.Context[any], m any) error {
	switch m := m.(type) {
	case parts:
		r.unread |= m
	case remindersRead:
		r.reading = false
		r.deliverAll(ctx, m)
	case reminded:
		part := PartOf(m.of.id)
		delete(r.open, m.of)
		r.opened[part]--
		r.unread |= r.full & (1 << part)
	case *earliest:
		for part, at := range m {
			if at > 0 && (r.next[part] == 0 || at < r.next[part]) {
				r.unread |= 1 << part
			}
		}
	}
	r.read(ctx)
	return nil
}

func (r *reminders) read(ctx *actor.Context[any]) {
	if r.reading || r.unread == 0 {
		return
	}
	from, opened := r.take(), r.opened
	for part := range from.each() {
		r.next[part] = 0 // what is committed meanwhile may not be found
	}
	actor.Pipe(ctx, func(life context.Context) (remindersRead, error) {
		m, bytes := remindersRead{from: from, left: from}, 0
		for part := range from.each() {
			if bytes >= PageBytes {
				break
			}
			limit := PageRecords + opened[part]
			page, err := r.p.journal.Due(life, part, math.MaxInt64, limit)
			if err != nil {
				return m, err
			}
			if len(page) == limit {
				m.full |= 1 << part
			}
			for i := range page {
				bytes += len(page[i].Data)
			}
			m.listed = append(m.listed, page...)
			m.left &^= 1 << part
		}
		return m, nil
	}, func(m remindersRead, err error) any {
		m.err = err
		return m
	})
}

// deliverAll begins to deliver what is due, and wakes up for what will be next.
func (r *reminders) deliverAll(ctx *actor.Context[any], m remindersRead) {
	if m.err != nil {
		if r.failing.isNew(m.err) {
			ctx.Log().Error("reminders cannot be read, trying again", "error", m.err.Error())
		}
		ctx.After(fmt.Sprint("again ", uint64(m.from)), r.p.cfg.RetryMax, m.from)
		return
	}
	r.failing.end()
	r.unread |= m.left
	r.full = r.full&^(m.from&^m.left) | m.full
	now := time.Now()
	var next parts // those with a timer
	for _, due := range m.listed {
		part := parts(1) << PartOf(due.ID)
		of := reminder{due.ID, due.Key, due.At}
		switch wait := time.UnixMilli(due.At).Sub(now); {
		case wait > 0 && next&part == 0:
			next |= part
			r.next[PartOf(due.ID)] = due.At
			ctx.After(fmt.Sprint("part ", PartOf(due.ID)), wait, part)
		case wait <= 0 && !r.open[of]:
			r.open[of] = true
			r.opened[PartOf(due.ID)]++
			spawnDelivery(ctx, r.p, &attempt{from: due.ID, to: due.ID, reminder: due.ReminderEdit, payload: due.Payload}, reminded{of})
		}
	}
	for part := range (m.full &^ next).each() {
		ctx.After(fmt.Sprint("part ", part), r.p.cfg.RetryMax, parts(1)<<part)
	}
}
