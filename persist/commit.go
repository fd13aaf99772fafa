package persist

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/greenroom-go/greenroom/actor"
)

// unit is what one handler has recorded, on its way to the journal, with the outputs that leave
// once it is there. A unit without an append has only outputs.
type unit struct {
	of     *incarnation
	append Append
	bytes  int

	outputs []func(error)              // guarded by of.mu
	over    bool                       // it has left, or was dropped; guarded by of.mu
	waiters []*actor.Promised[settled] // guarded by of.mu
}

// settled is the answer to callers that wait for a unit.
type settled struct{}

// commits is the group commit: units of many actors become one batch. While one batch is committed
// the next one gathers, so the longer a commit takes, the larger the next batch. A batch that fails
// is retried until it succeeds; nothing leaves meanwhile.
type commits struct {
	p       *Persistence
	session uint64 // of the batches

	mu      sync.Mutex
	queue   []*unit        // guarded by mu
	pending map[string]int // unfinished units of each id, guarded by mu
	done    []Delivery     // messages that need no further delivery, guarded by mu
	cursors []Cursor       // the places that projections have reached, guarded by mu
	woken   bool           // the committer has been told that there is work, guarded by mu

	committing sync.Mutex // a commit of an earlier incarnation may not have ended

	// Owned by the committer's turn.
	number  uint64
	batch   *Batch
	units   []*unit
	delay   time.Duration
	failing cause
	loads   map[string][]*actor.Promised[settled]
}

func newCommits(p *Persistence) *commits {
	return &commits{p: p, session: rand.Uint64(), pending: make(map[string]int), loads: make(map[string][]*actor.Promised[settled])}
}

// submit queues a unit. It does not wait.
func (c *commits) submit(u *unit) {
	c.add(func() {
		c.queue = append(c.queue, u)
		c.pending[u.append.ID]++
	})
}

// delivered records that a message needs no further delivery.
func (c *commits) delivered(d Delivery) {
	if c.takes(d.check()) {
		c.add(func() { c.done = append(c.done, d) })
	}
}

// moved records the place that a projection has reached.
func (c *commits) moved(at Cursor) {
	if c.takes(at.check()) {
		c.add(func() { c.cursors = append(c.cursors, at) })
	}
}

// takes reports whether wrong is nil. A journal would refuse the whole batch with something invalid
// in it, even if that came from a broken journal.
func (c *commits) takes(wrong error) bool {
	if wrong != nil {
		c.p.sys.Log().LogAttrs(context.Background(), slog.LevelError, "left out of a commit, as no journal takes it", errorAttr(wrong))
	}
	return wrong == nil
}

// add adds something to the next batch, under the lock, and wakes the committer.
func (c *commits) add(something func()) {
	c.mu.Lock()
	something()
	wake := !c.woken
	c.woken = true
	c.mu.Unlock()
	if wake {
		c.p.committer.Tell(context.Background(), wakeUp{})
	}
}

// take returns the units of the next batch, and those to be dropped because the journal has refused
// an earlier unit of their incarnation: it might accept what comes after that.
func (c *commits) take() (units, dropped []*unit) {
	for _, u := range c.taken() {
		if u.of.refusal() != nil {
			dropped = append(dropped, u)
		} else {
			units = append(units, u)
		}
	}
	return units, dropped
}

// taken takes units for one batch from the queue. It reads nothing guarded by an incarnation's
// lock, because units are submitted under that lock.
func (c *commits) taken() []*unit {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.woken = false
	n, bytes := 0, 0
	for n < len(c.queue) && (n == 0 || bytes+c.queue[n].bytes <= c.p.cfg.BatchBytes) {
		bytes += c.queue[n].bytes
		n++
	}
	list := c.queue[:n:n]
	c.queue = append([]*unit(nil), c.queue[n:]...)
	return list
}

// through records that a unit has ended, and reports whether nothing of its id is in flight.
func (c *commits) through(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pending[id]--; c.pending[id] > 0 {
		return false
	}
	delete(c.pending, id)
	return true
}

func (c *commits) isPending(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pending[id] > 0
}

// The messages of the committer.
type (
	wakeUp    struct{}
	tryAgain  struct{}
	committed struct{ err error }
	// release lets the outputs of a unit leave that has nothing to write.
	release struct{ unit *unit }
	// waitFor is answered when a unit has ended.
	waitFor struct {
		actor.Returns[settled]
		unit *unit
	}
	// waitForID is answered when nothing of an id is in flight.
	waitForID struct {
		actor.Returns[settled]
		id string
	}
)

// committer is the actor that commits, and then lets held outputs leave.
type committer struct{ *commits }

// Init implements actor.Initializer.
func (c *committer) Init(ctx *actor.Context[any]) error {
	if c.batch != nil {
		c.commit(ctx) // an earlier incarnation has begun it
	} else {
		c.drop(c.next(ctx))
	}
	return nil
}

// Receive implements actor.Actor.
func (c *committer) Receive(ctx *actor.Context[any], m any) error {
	switch m := m.(type) {
	case wakeUp:
		if c.batch == nil {
			c.drop(c.next(ctx))
		}
	case tryAgain:
		c.commit(ctx)
	case committed:
		c.committed(ctx, m.err)
	case waitFor:
		if w := actor.Promise(ctx, m); !m.unit.notify(w) {
			w.Resolve(settled{})
		}
	case release:
		m.unit.of.leave(m.unit, nil, nil)
	case waitForID:
		if !c.isPending(m.id) {
			actor.Reply(ctx, m, settled{})
		} else {
			c.loads[m.id] = append(c.loads[m.id], actor.Promise(ctx, m))
		}
	}
	return nil
}

// next starts the next batch, if there is something for it. It returns the units to be dropped:
// their end is reported after that of the units before them.
func (c *committer) next(ctx *actor.Context[any]) (dropped []*unit) {
	for c.batch == nil {
		units, gone := c.take()
		dropped = append(dropped, gone...)
		c.mu.Lock()
		done, cursors := c.done, c.cursors
		c.done, c.cursors = nil, nil
		c.mu.Unlock()
		if len(units) == 0 && len(done) == 0 && len(cursors) == 0 {
			if len(gone) > 0 {
				continue // there may be more behind those
			}
			return dropped
		}
		c.number++
		c.units = units
		c.batch = &Batch{Session: c.session, Number: c.number, Time: time.Now().UnixMilli(), Appends: make([]Append, len(units)), Delivered: done, Cursors: cursors}
		for i, u := range units {
			c.batch.Appends[i] = u.append
		}
		c.commit(ctx)
	}
	return dropped
}

// drop ends units whose incarnation may not continue.
func (c *committer) drop(units []*unit) {
	for _, u := range units {
		c.end(u, u.of.refusal())
	}
}

// commit commits the batch.
func (c *committer) commit(ctx *actor.Context[any]) {
	batch := c.batch
	actor.Pipe(ctx, func(life context.Context) (struct{}, error) {
		c.committing.Lock()
		defer c.committing.Unlock()
		return struct{}{}, c.p.journal.Commit(life, batch)
	}, func(_ struct{}, err error) any { return committed{err} })
}

// committed continues after a commit. Incarnations learn of refusals before the next batch is made,
// and that batch is in flight before this one's outputs leave.
func (c *committer) committed(ctx *actor.Context[any], err error) {
	if err != nil {
		c.complain(err)
		c.delay = min(max(2*c.delay, c.p.cfg.RetryMin), c.p.cfg.RetryMax)
		ctx.After("retry", c.delay, tryAgain{})
		return
	}
	c.recovered()
	units, batch := c.units, c.batch
	c.units, c.batch, c.delay = nil, nil, 0
	for i, u := range units {
		if err := batch.Appends[i].Err; err != nil {
			u.of.refuse(err)
		}
	}
	dropped := c.next(ctx)
	c.announce(batch)
	for i, u := range units {
		c.end(u, batch.Appends[i].Err)
	}
	c.drop(dropped)
}

// announce tells the actors that deliver what there is for them.
func (c *commits) announce(b *Batch) {
	var sent, fed parts
	var set *earliest
	projected := c.p.projected.Load() > 0
	for i := range b.Appends {
		a := &b.Appends[i]
		if a.Err != nil || len(a.Send) == 0 && len(a.Reminders) == 0 && !projected {
			continue
		}
		part := parts(1) << PartOf(a.ID)
		if len(a.Send) > 0 {
			sent |= part
		}
		for _, r := range a.Reminders {
			if r.At == 0 {
				continue
			}
			if set == nil {
				set = new(earliest)
			}
			if at := &set[PartOf(a.ID)]; *at == 0 || r.At < *at {
				*at = r.At
			}
		}
		if len(a.Events) > 0 || a.Erase {
			fed |= part
		}
	}
	if sent != 0 {
		c.p.outbox.Tell(context.Background(), sent)
	}
	if set != nil {
		c.p.reminders.Tell(context.Background(), set)
	}
	if fed != 0 && projected {
		c.p.tellFollowers(fed)
	}
}

// end lets the outputs of a unit leave, or drops them.
func (c *committer) end(u *unit, err error) {
	u.of.leave(u, nil, err)
	if id := u.append.ID; c.through(id) {
		for _, w := range c.loads[id] {
			w.Resolve(settled{})
		}
		delete(c.loads, id)
	}
}

// complain logs that the journal fails, once for each cause.
func (c *committer) complain(err error) {
	if c.failing.isNew(err) {
		c.p.sys.Log().LogAttrs(context.Background(), slog.LevelError, "commit failed, trying again; nothing leaves meanwhile",
			errorAttr(err), slog.Int("appends", len(c.units)))
	}
}

func (c *committer) recovered() {
	if c.failing.end() {
		c.p.sys.Log().LogAttrs(context.Background(), slog.LevelInfo, "commit succeeded again")
	}
}
