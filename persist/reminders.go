package persist

import (
	"context"
	"fmt"
	"math"
	"math/bits"
	"time"

	"github.com/greenroom-go/greenroom/actor"
)

// The messages of reminders, beside parts.
type (
	remindersRead struct {
		from   parts // what was to be read
		listed []Reminder
		err    error
	}
	// reminded says that a reminder has had its effect.
	reminded struct{ of reminder }
)

// reminder names one that is due.
type reminder struct {
	id, key string
	at      int64
}

// reminders is the actor that delivers reminders when they are due. It reads those of a partition
// in the order of their times: after a commit that has some, when the next one is due, and when
// one has been delivered.
type reminders struct {
	p       *Persistence
	unread  parts
	reading bool
	open    map[reminder]bool // those under way
	failing string            // the error that was logged last
}

// Init implements actor.Initializer.
func (r *reminders) Init(ctx *actor.Context[any]) error {
	r.open = make(map[reminder]bool)
	r.unread = ^parts(0)
	r.read(ctx)
	return nil
}

// Receive implements actor.Actor.
func (r *reminders) Receive(ctx *actor.Context[any], m any) error {
	switch m := m.(type) {
	case parts:
		r.unread |= m
	case remindersRead:
		r.reading = false
		r.take(ctx, m)
	case reminded:
		delete(r.open, m.of)
		r.unread |= 1 << PartOf(m.of.id)
	}
	r.read(ctx)
	return nil
}

func (r *reminders) read(ctx *actor.Context[any]) {
	if r.reading || r.unread == 0 {
		return
	}
	from := r.unread
	r.unread, r.reading = 0, true
	actor.Pipe(ctx, func(life context.Context) ([]Reminder, error) {
		var listed []Reminder
		for left := from; left != 0; left &= left - 1 {
			page, err := r.p.journal.Due(life, bits.TrailingZeros64(uint64(left)), math.MaxInt64, PageRecords)
			if err != nil {
				return nil, err
			}
			listed = append(listed, page...)
		}
		return listed, nil
	}, func(listed []Reminder, err error) any { return remindersRead{from, listed, err} })
}

// take begins to deliver what is due, and wakes up for what will be next.
func (r *reminders) take(ctx *actor.Context[any], m remindersRead) {
	if m.err != nil {
		if text := m.err.Error(); text != r.failing {
			r.failing = text
			ctx.Log().Error("reminders cannot be read, trying again", "error", text)
		}
		ctx.After(fmt.Sprint("again ", uint64(m.from)), r.p.cfg.RetryMax, m.from)
		return
	}
	r.failing = ""
	now := time.Now()
	var next parts // those with a timer
	for _, due := range m.listed {
		part := parts(1) << PartOf(due.ID)
		of := reminder{due.ID, due.Key, due.At}
		switch wait := time.UnixMilli(due.At).Sub(now); {
		case wait > 0 && next&part == 0:
			next |= part
			ctx.After(fmt.Sprint("part ", PartOf(due.ID)), wait, part)
		case wait <= 0 && !r.open[of]:
			r.open[of] = true
			spawnDelivery(ctx, r.p, &attempt{from: due.ID, to: due.ID, reminder: due.ReminderEdit, payload: due.Payload}, reminded{of})
		}
	}
}
