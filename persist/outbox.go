package persist

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/greenroom-go/greenroom/actor"
)

// MaxUndelivered is how many messages of the outbox are in memory at most, not counting the first
// one of each pair of a sender and a receiver. The others wait in the journal.
const MaxUndelivered = 1 << 16

const (
	// undeliveredBytes is MaxUndelivered in bytes.
	undeliveredBytes = 64 << 20
	// pairMost is how many messages of a pair are in memory at most.
	pairMost = 256
)

// The messages of the outbox, beside parts.
type (
	outboxRead struct {
		from   parts // what was to be read
		listed []Outgoing
		after  [Parts]uint64
		err    error
	}
	// outboxReadAgain is a page of the messages that a pair has left in the journal.
	outboxReadAgain struct {
		of   pair
		upTo uint64 // what had been read of the partition
		page []Outgoing
		err  error
	}
	// delivered says that the first message of a pair has been confirmed.
	delivered struct {
		of     pair
		number uint64
	}
)

// pair is a sender and a receiver, between which the order is kept.
type pair struct{ from, to string }

// pairQueue holds the messages of a pair that are in memory.
type pairQueue struct {
	list     []Outgoing // the first one is under way
	delivery actor.Ref[any]
	more     uint64 // the position from which on messages are only in the journal, 0 for none
}

// forgetID tells the outbox or the reminders to forget what an erased id has recorded.
type forgetID struct {
	id   string
	done chan struct{} // is closed then
}

// outbox is the actor that delivers messages of Send. It reads them from the journal after they are
// committed, so that none is forgotten and none is delivered that a crash undoes. For each pair one
// message is under way. Messages beyond the limit of a pair stay in the journal and are read when
// the rest is delivered, so that a pair that cannot be served delays no other.
type outbox struct {
	backlog
	after   [Parts]uint64
	drained []pair // of which more is to be read
	other   bool   // the next read is for these
	waiting map[pair]*pairQueue
	total   int
	bytes   int
	tries   int
}

// Init implements actor.Initializer.
func (o *outbox) Init(ctx *actor.Context[any]) error {
	o.waiting = make(map[pair]*pairQueue)
	if o.begin() {
		o.read(ctx)
	}
	return nil
}

// Receive implements actor.Actor.
func (o *outbox) Receive(ctx *actor.Context[any], m any) error {
	switch m := m.(type) {
	case parts:
		o.unread |= m
	case outboxRead:
		o.deliverAll(ctx, m)
		o.endRead()
	case pair:
		o.drained = append(o.drained, m)
	case outboxReadAgain:
		o.goOn(ctx, m)
		o.endRead()
	case delivered:
		o.delivered(ctx, m)
	case forgetID:
		o.forget(m.id)
		close(m.done)
	}
	o.read(ctx)
	return nil
}

// read alternates between reading new messages and those that were left in the journal.
func (o *outbox) read(ctx *actor.Context[any]) {
	if o.reading {
		return
	}
	if len(o.drained) > 0 && (o.other || o.unread == 0) {
		of := o.drained[0]
		o.drained, o.other = o.drained[1:], false
		o.readAgain(ctx, of)
		return
	}
	if o.other = true; o.unread == 0 {
		return
	}
	r := outboxRead{from: o.take(), after: o.after}
	actor.Pipe(ctx, func(life context.Context) (outboxRead, error) {
		for part := range r.from.each() {
			page, err := o.p.journal.Outbox(life, part, r.after[part], PageRecords)
			if err != nil {
				return r, err
			}
			if len(page) > 0 {
				r.after[part] = page[len(page)-1].Position
				r.listed = append(r.listed, page...)
			}
		}
		return r, nil
	}, func(r outboxRead, err error) any {
		r.err = err
		return r
	})
}

// deliverAll begins to deliver the messages that were read.
func (o *outbox) deliverAll(ctx *actor.Context[any], r outboxRead) {
	if o.failed(ctx, r.err, r.from) {
		return
	}
	for i := range r.listed {
		m := &r.listed[i]
		part := PartOf(m.From)
		if m.Position <= o.after[part] {
			continue
		}
		o.after[part] = m.Position
		o.unread |= 1 << part // there may be more
		of := pair{m.From, m.To}
		p := o.waiting[of]
		if p == nil {
			p = &pairQueue{}
			o.waiting[of] = p
			if o.erased[m.From] {
				o.leave(of, m.Position)
			}
		}
		if p.more != 0 {
			continue
		}
		if !o.add(p, m) {
			p.more = m.Position
		} else if len(p.list) == 1 {
			o.deliver(ctx, of)
		}
	}
}

// leave leaves the messages of a pair from that position on in the journal, to be read from there.
func (o *outbox) leave(of pair, from uint64) {
	o.waiting[of].more = from
	o.drained = append(o.drained, of)
}

// forget removes from memory what an erased id has sent, including messages under way that were not
// handled. Messages sent since then are read again.
func (o *outbox) forget(id string) {
	if o.reading {
		o.erased[id] = true
	}
	for of, p := range o.waiting {
		if of.from != id || len(p.list) == 0 {
			continue
		}
		o.p.cancel(of.to, p.delivery)
		for i := range p.list {
			o.total--
			o.bytes -= len(p.list[i].Data)
		}
		first := p.list[0].Position
		p.list = nil
		o.leave(of, first)
	}
}

// Undelivered is what [actor.System.Detail] and the dashboard show as the view of the outbox: what
// it has in memory.
type Undelivered struct {
	Pairs    int `json:"pairs"` // of a sender and a receiver
	Messages int `json:"messages"`
	Bytes    int `json:"bytes"`
}

// Inspect implements actor.Inspector.
func (o *outbox) Inspect() any { return Undelivered{len(o.waiting), o.total, o.bytes} }

// failed logs an error of the journal, and schedules another read after a while.
func (o *outbox) failed(ctx *actor.Context[any], err error, again any) bool {
	if err == nil {
		o.failing.end()
		return false
	}
	if o.failing.isNew(err) {
		ctx.Log().Error("outbox cannot be read, trying again", errorAttr(err))
	}
	o.tries++
	ctx.After(fmt.Sprint("again ", o.tries), o.p.cfg.RetryMax, again)
	return true
}

// add keeps a message in memory, and reports false if that is too much.
func (o *outbox) add(p *pairQueue, m *Outgoing) bool {
	if n := len(p.list); n >= pairMost || n > 0 && (o.total >= MaxUndelivered || o.bytes >= undeliveredBytes) {
		return false
	}
	p.list = append(p.list, *m)
	o.total++
	o.bytes += len(m.Data)
	return true
}

// readAgain reads what a pair has left in the journal.
func (o *outbox) readAgain(ctx *actor.Context[any], of pair) {
	part, after := PartOf(of.from), o.waiting[of].more-1
	r := outboxReadAgain{of: of, upTo: o.after[part]}
	o.reading = true
	actor.Pipe(ctx, func(life context.Context) (outboxReadAgain, error) {
		page, err := o.p.journal.Outbox(life, part, after, PageRecords)
		r.page = page
		return r, err
	}, func(_ outboxReadAgain, err error) any {
		r.err = err
		return r
	})
}

// goOn continues a pair that has left messages in the journal. Messages after o.after come with the
// others of the partition.
func (o *outbox) goOn(ctx *actor.Context[any], r outboxReadAgain) {
	if o.failed(ctx, r.err, r.of) {
		return
	}
	if o.erased[r.of.from] {
		o.drained = append(o.drained, r.of)
		return
	}
	p, after, seen := o.waiting[r.of], o.after[PartOf(r.of.from)], r.upTo
	if n := len(r.page); n > 0 {
		seen = r.page[n-1].Position
	}
	p.more = 0
	for i := range r.page {
		m := &r.page[i]
		if m.Position > after {
			break
		}
		if m.From == r.of.from && m.To == r.of.to && !o.add(p, m) {
			p.more = m.Position
			break
		}
	}
	if p.more == 0 && seen < after {
		p.more = seen + 1
	}
	o.next(ctx, r.of, p)
}

// next continues a pair: with its first message, or with those left in the journal. It drops a pair
// that has neither.
func (o *outbox) next(ctx *actor.Context[any], of pair, p *pairQueue) {
	switch {
	case len(p.list) > 0:
		o.deliver(ctx, of)
	case p.more != 0:
		o.drained = append(o.drained, of)
	default:
		delete(o.waiting, of)
	}
}

// deliver starts the delivery of the first message of a pair.
func (o *outbox) deliver(ctx *actor.Context[any], of pair) {
	p := o.waiting[of]
	m := &p.list[0]
	done := delivered{of, m.Number}
	p.delivery = spawnDelivery(ctx, o.p, &attempt{from: m.From, number: m.Number, to: m.To, payload: m.Payload}, done)
}

func (o *outbox) delivered(ctx *actor.Context[any], m delivered) {
	p := o.waiting[m.of]
	if p == nil || len(p.list) == 0 || p.list[0].Number != m.number {
		return
	}
	o.total--
	o.bytes -= len(p.list[0].Data)
	o.p.commits.delivered(Delivery{From: m.of.from, Number: m.number})
	p.list[0] = Outgoing{} // what the list keeps of it is not for long
	p.list = p.list[1:]
	o.next(ctx, m.of, p)
}

// attempt is something to be delivered to an id: a message of another id, or a reminder.
type attempt struct {
	from     string // the sender's id; of a reminder the id itself
	number   uint64 // the sender's; 0 for a reminder
	to       string
	reminder ReminderEdit
	payload  Payload

	delivery actor.Ref[any]
	confirm  func(err error) // reports the result to the delivery
}

// delivery is the actor that delivers one attempt, until it is confirmed. It is an actor of its own
// so that the receiver can identify the attempt by the sender of the message.
type delivery struct {
	*attempt
	p      *Persistence
	done   any // for the parent, when it is confirmed
	parent actor.Ref[any]
	tries  int
	failed bool      // a try has failed, and that was logged
	at     actor.PID // the durable actor whose end it watches, none if there is none
}

// failedMin is how long an attempt that failed waits before its first retry; then the wait doubles,
// up to patience.
const failedMin = 100 * time.Millisecond

// The messages of a delivery, beside tryAgain and yourTurn.
type (
	confirmed struct {
		err    error
		queued bool // yourTurn will come
	}
	arrived struct{}            // there is a receiver now
	ended   struct{ lost bool } // the actor at has ended, with the message if lost
	woke    struct{ err error } // Wake has returned
	unwoken struct{}            // Wake has returned, or nobody calls it any more, and there is no receiver
)

func spawnDelivery(ctx *actor.Context[any], p *Persistence, a *attempt, done any) actor.Ref[any] {
	parent := ctx.Self()
	return actor.Spawn(ctx, deliveryName(a.to)+"*", func() *delivery { return &delivery{attempt: a, p: p, done: done, parent: parent} })
}

// cancel ends a delivery: what it has sent is no longer handled, unless a handler is already
// running.
func (p *Persistence) cancel(to string, d actor.Ref[any]) {
	p.receivers.forget(to, d)
	d.Stop()
}

// Init implements actor.Initializer.
func (d *delivery) Init(ctx *actor.Context[any]) error {
	self, rs := ctx.Self(), d.p.receivers
	d.delivery = self
	d.confirm = func(err error) { // at once: the next message of the receiver may be a delivery
		if err == nil {
			rs.leave(d.to, self)
		} else {
			rs.refused(d.to, self)
		}
		self.Tell(context.Background(), confirmed{err, err != nil})
	}
	rs.expect(self.PID(), d.attempt)
	d.try(ctx, true)
	return nil
}

// Terminate implements actor.Terminator.
func (d *delivery) Terminate(ctx *actor.Context[any], _ error) {
	d.p.receivers.forget(d.to, ctx.Self())
}

// Receive implements actor.Actor.
func (d *delivery) Receive(ctx *actor.Context[any], m any) error {
	switch m := m.(type) {
	case confirmed:
		switch {
		case m.err == nil:
			d.parent.Tell(ctx, d.done)
			return actor.ErrStop
		case m.queued:
			d.unwatch(ctx) // it comes again by its turn, also if the receiver ends
			d.complain(ctx, m.err)
		default:
			d.later(ctx, m.err)
		}
	case yourTurn:
		if m.delay > 0 {
			ctx.After("again", m.delay, tryAgain{})
		} else {
			d.try(ctx, true)
		}
	case woke:
		if m.err != nil {
			ctx.Log().LogAttrs(ctx, slog.LevelError, "Config.Wake failed", slog.String("id", d.to), errorAttr(m.err))
		}
	case unwoken:
		if d.at == (actor.PID{}) {
			d.again(ctx)
		}
	case ended:
		d.at = actor.PID{}
		if m.lost || d.tries > 0 {
			d.again(ctx) // not at once: the next one may end as soon
			break
		}
		d.tries++
		d.try(ctx, true)
	case arrived:
		d.try(ctx, false)
	case tryAgain:
		d.try(ctx, true)
	}
	return nil
}

// try sends the attempt, or tries again later. It may be sent more than once, which the receiver
// recognizes. Without a receiver it calls Wake, or, if there has just been one, does so after a while.
func (d *delivery) try(ctx *actor.Context[any], wake bool) {
	v, err := d.decode() // for each try: a handler may have changed the value
	if err != nil {
		d.later(ctx, err)
		return
	}
	if !d.p.receivers.admit(d.to, ctx.Self()) {
		return
	}
	rs, self := d.p.receivers, ctx.Self()
	for gone := (actor.PID{}); ; {
		r, first := rs.of(d.to, self)
		if r == nil {
			ctx.After("again", patience, tryAgain{})
			switch {
			case gone != (actor.PID{}): // until it has ended, another one would not get its name
				d.watch(ctx, gone, false)
			case first && wake:
				d.wake(ctx)
			case first:
				d.again(ctx)
			}
			return
		}
		err = r.receive(ctx, d.attempt, v)
		switch {
		case errors.Is(err, actor.ErrStopped):
			rs.remove(d.to, r)
			gone = r.pid
			continue
		case err != nil:
			d.later(ctx, err)
		case r.in != nil:
			d.watch(ctx, r.pid, true)
		}
		return
	}
}

func (d *delivery) decode() (any, error) {
	if !d.payload.Intact(d.from, d.number) {
		return nil, fmt.Errorf("%w: its checksum is wrong", ErrUnreadable)
	}
	v, err := d.p.cfg.Types.Decode(d.payload.Type, d.payload.Data)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	return v, nil
}

// wake asks the program for the receiver, unless it is being asked.
func (d *delivery) wake(ctx *actor.Context[any]) {
	wake, rs, id := d.p.cfg.Wake, d.p.receivers, d.to
	if wake == nil {
		return
	}
	actor.Pipe(ctx, func(life context.Context) (struct{}, error) {
		if !rs.beginWake(id) {
			return struct{}{}, nil
		}
		defer rs.endWake(id) // also if the delivery ends meanwhile
		return struct{}{}, wake(life, d.p, id)
	}, func(_ struct{}, err error) any { return woke{err} })
}

// later retries after a while, and lets others try meanwhile.
func (d *delivery) later(ctx *actor.Context[any], err error) {
	d.p.receivers.leave(d.to, ctx.Self())
	d.complain(ctx, err)
	d.again(ctx)
}

// again retries after a while, which is longer each time.
func (d *delivery) again(ctx *actor.Context[any]) {
	ctx.After("again", min(failedMin<<min(d.tries, 20), patience), tryAgain{})
	d.tries++
}

// complain logs the first failed try.
func (d *delivery) complain(ctx *actor.Context[any], err error) {
	if d.failed {
		return
	}
	d.failed = true
	ctx.Log().LogAttrs(ctx, slog.LevelWarn, "not delivered, trying again",
		slog.String("from", d.from), slog.Uint64("number", d.number), slog.String("to", d.to), errorAttr(err))
}

// watch has the delivery learn of the end of a durable actor: of one that has the message, which may
// be lost then, or of one that takes nothing any more.
func (d *delivery) watch(ctx *actor.Context[any], to actor.PID, has bool) {
	d.unwatch(ctx)
	d.at = to
	ctx.Watch(to, func(actor.Down) any { return ended{has} })
}

func (d *delivery) unwatch(ctx *actor.Context[any]) {
	ctx.Unwatch(d.at)
	d.at = actor.PID{}
}
