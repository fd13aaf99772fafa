package persist

import (
	"context"
	"fmt"
	"log/slog"
	"math/bits"
	"slices"
	"time"

	"github.com/greenroom-go/greenroom/actor"
)

// Event is an event as a projection sees it.
type Event struct {
	ID     string
	Number uint64 // of the id
	// Part and Position are the event's place; later commits in a partition have greater positions.
	Part     int
	Position uint64
	Time     time.Time // of the commit
	// Value is the event, nil if Erased. A record that codec.Split reads as several events comes as
	// several events with one number.
	Value any
	// Erased says that everything the id had up to here is gone.
	Erased bool
}

// ProjectOption is an option of [Persistence.Project].
type ProjectOption func(*projection)

// CursorsFrom says that the handler stores the cursors with its own writes: for each of the [Parts]
// partitions, the position of the last event that it was given. read returns them, 0 for a
// partition without one. Then each event takes effect once. Without this option the journal stores
// the cursors after the handler has returned, so after a crash some events come again.
func CursorsFrom(read func(ctx context.Context) ([]uint64, error)) ProjectOption {
	return func(p *projection) { p.cursors = read }
}

// Project calls handle with the events of all ids, from the beginning of the journal or from where
// the projection of that name has stopped: a page at a time, of one partition, in the order of
// commits. Events of an id come in order; there is no order across partitions. When handle returns
// an error, or an event cannot be read, the page comes again after a while, and other partitions
// continue. handle is called by one goroutine at a time, and its context ends with the projection.
//
// Events that another process commits to the same journal come with the next events of their
// partition that this process commits, or when the projection is started again. There must be only
// one projection of a name in all processes.
//
// It ends with the system, or when stop is called, which does not wait. It fails with
// [actor.ErrNameTaken] if a projection of that name exists.
func (p *Persistence) Project(name string, handle func(ctx context.Context, events []Event) error, opts ...ProjectOption) (stop func(), err error) {
	if err := checkText("name", name, 1); err != nil {
		return nil, fmt.Errorf("project: %w", err)
	}
	ref, err := actor.TrySpawn(p.sys, "projection-"+name, func() *projection {
		a := &projection{p: p, name: name, handle: handle, last: Parts - 1}
		a.cursors = func(ctx context.Context) ([]uint64, error) { return p.journal.Cursors(ctx, name) }
		a.keeps = true
		for _, opt := range opts {
			a.keeps = false
			opt(a)
		}
		return a
	})
	if err != nil {
		return nil, fmt.Errorf("project: %w", err)
	}
	p.mu.Lock()
	p.projections = append(p.projections, ref)
	p.mu.Unlock()
	p.projected.Add(1)
	ref.Tell(context.Background(), allParts) // for what was committed before it was registered
	return func() { p.endProjection(ref) }, nil
}

func (p *Persistence) endProjection(ref actor.Ref[any]) {
	p.mu.Lock()
	i := slices.Index(p.projections, ref)
	if i >= 0 {
		p.projections = slices.Delete(slices.Clone(p.projections), i, i+1)
		p.projected.Add(-1)
	}
	p.mu.Unlock()
	ref.Stop()
}

// alone waits until no handler of a projection of that name runs: that of a stopped one may not
// have returned when the next one begins. release must be called afterwards.
func (p *Persistence) alone(ctx context.Context, name string) (release func(), err error) {
	p.mu.Lock()
	door := p.projecting[name]
	if door == nil {
		door = make(chan struct{}, 1)
		p.projecting[name] = door
	}
	p.mu.Unlock()
	select {
	case door <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if ctx.Err() != nil {
		<-door
		return nil, context.Cause(ctx)
	}
	return func() { <-door }, nil
}

// tellFollowers tells the followers in which partitions there are new events.
func (p *Persistence) tellFollowers(fed parts) {
	p.mu.Lock()
	list, followers := p.projections, p.followers
	p.mu.Unlock()
	for _, ref := range list {
		ref.Tell(context.Background(), fed)
	}
	for _, f := range followers {
		f.tell(fed)
	}
}

// projection is the actor that reads the feeds for a handler, one partition after the other.
type projection struct {
	p       *Persistence
	name    string
	handle  func(ctx context.Context, events []Event) error
	cursors func(ctx context.Context) ([]uint64, error)
	keeps   bool // the journal keeps the cursors

	after   []uint64 // nil until they are read
	unread  parts
	resting parts // those that have failed, until they are tried again
	last    int   // the partition that was served last
	busy    bool
	failing [Parts]cause
	delay   [Parts]time.Duration // before the next try
}

// The messages of a projection, beside parts.
type (
	cursorsRead struct {
		after []uint64
		err   error
	}
	projectedPage struct {
		part int
		upTo uint64 // 0 for nothing new
		err  error
	}
	// rested says that a partition that has failed may be tried again.
	rested struct{ part int }
)

// Init implements actor.Initializer.
func (a *projection) Init(ctx *actor.Context[any]) error {
	a.readCursors(ctx)
	return nil
}

func (a *projection) readCursors(ctx *actor.Context[any]) {
	a.busy = true
	actor.Pipe(ctx, func(life context.Context) ([]uint64, error) {
		release, err := a.p.alone(life, a.name)
		if err != nil {
			return nil, err
		}
		defer release()
		after, err := a.cursors(life)
		if err == nil && len(after) != Parts {
			err = fmt.Errorf("there must be %d cursors, not %d", Parts, len(after))
		}
		return after, err
	}, func(after []uint64, err error) any { return cursorsRead{after, err} })
}

// Receive implements actor.Actor.
func (a *projection) Receive(ctx *actor.Context[any], m any) error {
	switch m := m.(type) {
	case parts:
		a.unread |= m
	case cursorsRead:
		a.busy = false
		if m.err != nil {
			a.failed(ctx, 0, fmt.Errorf("read its cursors: %w", m.err))
			a.busy = true // until then
			return nil    //nolint:nilerr // it tries again
		}
		a.after, a.unread = m.after, allParts
	case tryAgain:
		a.readCursors(ctx)
	case projectedPage:
		a.busy = false
		a.passed(ctx, m)
	case rested:
		a.resting &^= 1 << m.part
	}
	a.work(ctx)
	return nil
}

// work handles the next page, of the partition after the one served last, so that a busy partition
// does not starve the others.
func (a *projection) work(ctx *actor.Context[any]) {
	ready := uint64(a.unread &^ a.resting)
	if a.busy || ready == 0 || a.after == nil {
		return
	}
	part := (a.last + 1 + bits.TrailingZeros64(bits.RotateLeft64(ready, -(a.last+1)))) % Parts
	a.last = part
	a.unread &^= 1 << part
	a.busy = true
	after := a.after[part]
	actor.Pipe(ctx, func(life context.Context) (uint64, error) {
		release, err := a.p.alone(life, a.name)
		if err != nil {
			return 0, err
		}
		defer release()
		return a.pass(life, part, after)
	}, func(upTo uint64, err error) any { return projectedPage{part, upTo, err} })
}

// pass reads a page and has it handled.
func (a *projection) pass(ctx context.Context, part int, after uint64) (upTo uint64, err error) {
	page, err := a.p.journal.Feed(ctx, part, after, PageRecords)
	if err != nil || len(page) == 0 {
		return 0, err
	}
	events := make([]Event, 0, len(page))
	var values []any
	for i := range page {
		upTo = page[i].Position
		if events, err = a.p.appendEvents(events, &page[i], part, &values); err != nil {
			return 0, err
		}
	}
	if len(events) == 0 {
		return upTo, nil
	}
	return upTo, a.handle(ctx, events)
}

// passed continues after a page.
func (a *projection) passed(ctx *actor.Context[any], m projectedPage) {
	switch {
	case m.err != nil:
		a.failed(ctx, m.part, m.err)
	case m.upTo > 0:
		a.failing[m.part].end()
		a.delay[m.part] = 0
		a.after[m.part] = m.upTo
		a.unread |= 1 << m.part // there may be more
		if a.keeps {
			a.p.commits.moved(Cursor{Projection: a.name, Part: m.part, Position: m.upTo})
		}
	}
}

// failed tries again after a while.
func (a *projection) failed(ctx *actor.Context[any], part int, err error) {
	if a.failing[part].isNew(err) {
		ctx.Log().Error("projection fails, trying again", slog.String("projection", a.name), slog.Int("part", part), slog.String("error", string(a.failing[part])))
	}
	a.delay[part] = min(max(2*a.delay[part], a.p.cfg.RetryMin), a.p.cfg.RetryMax)
	if a.after == nil {
		ctx.After("cursors", a.delay[part], tryAgain{})
		return
	}
	a.unread |= 1 << part
	a.resting |= 1 << part
	ctx.After(fmt.Sprint("part ", part), a.delay[part], rested{part})
}
