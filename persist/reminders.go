package persist

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/greenroom-go/greenroom/actor"
)

// remindersOfID bounds the reminders of an id that are under way. For all ids together the bound is
// MaxUndelivered, not counting one of each.
const remindersOfID = 64

// The messages of reminders, beside parts.
type (
	remindersRead struct {
		from  parts // what was to be read
		pages []duePage
		err   error
	}
	// duePage is what comes next in a partition.
	duePage struct {
		part int
		list []Reminder
	}
	// reminded says that a reminder has had its effect.
	reminded struct{ of reminder }
	// earliest is the earliest time of the reminders that a commit has set, by partition, 0 for none.
	earliest [Parts]int64
)

// due distinguishes a reminder from earlier and later ones with the same key: by its time and, if
// that is the same, by the checksum of the message.
type due struct {
	at  int64
	sum uint32
}

func dueOf(e *ReminderEdit) due { return due{e.At, e.Sum} }

// reminder identifies a reminder that is due.
type reminder struct {
	id, key string
	due
}

// reminders is the actor that delivers reminders when they are due. It reads those of a partition
// in the order of their times, page after page, up to the first that is not due: after a commit
// with an earlier one than its timer, and when the next one is due. Reminders beyond the limit of
// an id stay in the journal, and are read again when half of the others are delivered, so that
// reminders that cannot be delivered neither use up all room nor hide later ones.
type reminders struct {
	backlog
	going  parts                 // partitions of which a page has to be or is being read
	open   map[reminder]*ringing // those under way
	ofID   map[string]int        // how many, by id
	at     [Parts]Reminder       // where to continue reading
	place  [Parts]Reminder       // everything up to it is under way or was delivered
	behind parts                 // in which something was left after place
	next   [Parts]int64          // when the timer fires, 0 if unknown
}

// ringing is a reminder that is under way.
type ringing struct {
	delivery actor.Ref[any]
	again    bool // it was read once more
}

// Init implements actor.Initializer.
func (r *reminders) Init(ctx *actor.Context[any]) error {
	r.open, r.ofID = make(map[reminder]*ringing), make(map[string]int)
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
		r.took(ctx, m)
		r.endRead()
	case reminded:
		r.end(m.of)
	case forgetID:
		r.forget(m.id)
		close(m.done)
	case *earliest:
		for part, at := range m {
			if at > 0 && (r.next[part] == 0 || at < r.next[part]) {
				r.readFrom(part, at)
			}
		}
	}
	r.read(ctx)
	return nil
}

// readFrom schedules another read of a partition, from that time on.
func (r *reminders) readFrom(part int, at int64) {
	r.unread |= 1 << part
	if at <= r.place[part].At {
		r.place[part] = Reminder{ReminderEdit: ReminderEdit{At: at}}
	}
}

// end makes room for reminders that were left in the journal. A reminder that was read once more
// may have been set again, to the same time.
func (r *reminders) end(of reminder) {
	ends := r.open[of]
	if ends == nil {
		return
	}
	if ends.again {
		r.readFrom(PartOf(of.id), of.at)
	}
	delete(r.open, of)
	if r.ofID[of.id]--; r.ofID[of.id] == 0 {
		delete(r.ofID, of.id)
	}
	if r.ofID[of.id] <= remindersOfID/2 {
		r.unread |= r.behind & (1 << PartOf(of.id))
	}
	if len(r.open) == MaxUndelivered/2 {
		r.unread |= r.behind
	}
}

// forget drops the erased reminders of an id. Those set since then are read.
func (r *reminders) forget(id string) {
	if r.reading {
		r.erased[id] = true
	} else if r.ofID[id] == 0 {
		return
	}
	for of, m := range r.open {
		if of.id == id {
			r.p.cancel(id, m.delivery)
			delete(r.open, of)
		}
	}
	delete(r.ofID, id)
	r.readFrom(PartOf(id), 1)
}

// read reads the next page of each partition that has something new, from its place on, and of
// those where that is not the end.
func (r *reminders) read(ctx *actor.Context[any]) {
	if r.reading || r.unread|r.going == 0 {
		return
	}
	fresh := r.unread &^ r.going
	for part := range fresh.each() {
		r.at[part] = r.place[part]
		r.next[part] = 0 // what is committed meanwhile may not be found
	}
	r.unread &^= fresh
	r.behind &^= fresh
	r.going |= fresh
	r.reading = true
	from, at := r.going, r.at
	actor.Pipe(ctx, func(life context.Context) (remindersRead, error) {
		m, bytes := remindersRead{from: from}, 0
		for part := range from.each() {
			if bytes >= PageBytes {
				break
			}
			page, err := r.p.journal.Due(life, part, math.MaxInt64, at[part], PageRecords)
			if err != nil {
				return m, err
			}
			for i := range page {
				bytes += len(page[i].Data)
			}
			m.pages = append(m.pages, duePage{part, page})
		}
		return m, nil
	}, func(m remindersRead, err error) any {
		m.err = err
		return m
	})
}

// took begins to deliver what is due, and sets the timer for the next.
func (r *reminders) took(ctx *actor.Context[any], m remindersRead) {
	if m.err != nil {
		if r.failing.isNew(m.err) {
			ctx.Log().Error("reminders cannot be read, trying again", errorAttr(m.err))
		}
		r.going &^= m.from
		ctx.After(fmt.Sprint("again ", uint64(m.from)), r.p.cfg.RetryMax, m.from)
		return
	}
	r.failing.end()
	now := time.Now()
	for _, page := range m.pages {
		if r.isEnd(ctx, page, now) {
			r.going &^= 1 << page.part
		}
	}
}

// isEnd processes a page, and reports whether it is the last one that is due.
func (r *reminders) isEnd(ctx *actor.Context[any], page duePage, now time.Time) bool {
	part := parts(1) << page.part
	for i := range page.list {
		m := &page.list[i]
		if wait := time.UnixMilli(m.At).Sub(now); wait > 0 {
			r.next[page.part] = m.At
			ctx.After(fmt.Sprint("part ", page.part), wait, part)
			return true
		}
		r.at[page.part] = placeOf(m)
		if !r.start(ctx, m) {
			r.behind |= part
		}
		if (r.behind|r.unread)&part == 0 { // what has come meanwhile may be before
			r.place[page.part] = r.at[page.part]
		}
	}
	return len(page.list) == 0
}

func placeOf(r *Reminder) Reminder {
	return Reminder{ID: r.ID, ReminderEdit: ReminderEdit{Key: r.Key, At: r.At}}
}

// start starts the delivery of a reminder, unless there are too many. It reports whether the
// reminder is under way.
func (r *reminders) start(ctx *actor.Context[any], m *Reminder) bool {
	of := reminder{m.ID, m.Key, dueOf(&m.ReminderEdit)}
	if same := r.open[of]; same != nil {
		same.again = true
		return true
	}
	if r.erased[m.ID] {
		return true // of now it is read after this
	}
	if n := r.ofID[m.ID]; n >= remindersOfID || n > 0 && len(r.open) >= MaxUndelivered {
		return false
	}
	r.ofID[m.ID]++
	r.open[of] = &ringing{delivery: spawnDelivery(ctx, r.p, &attempt{from: m.ID, to: m.ID, reminder: m.ReminderEdit, payload: m.Payload}, reminded{of})}
	return true
}
