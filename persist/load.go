package persist

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/greenroom-go/greenroom/actor"
)

const (
	loadTogether = 64 // ids that are loaded with one question
	readers      = 2  // questions that may be under way
)

// The messages of the loader.
type (
	loadID struct {
		actor.Returns[Loaded]
		*patient
		id string
	}
	readEvents struct {
		actor.Returns[[]Record]
		*patient
		id    string
		after uint64
	}
	readSnapshot struct {
		actor.Returns[Snapshot]
		*patient
		id    string
		below uint64
	}
	readDone struct {
		list    []*reading
		answers []func() // one for each, unless there is an error
		err     error
	}
)

// patient is a caller that waits for a reading, until gone is set.
type patient struct{ gone atomic.Bool }

// read asks the loader until there is an answer, or ctx ends.
func read[R any](ctx context.Context, p *Persistence, request func(by *patient) actor.Request[R]) (answer R, err error) {
	return askUntilAnswered(ctx, func() (R, error) {
		by := &patient{}
		defer by.gone.Store(true)
		return actor.Ask(ctx, p.loader, request(by), actor.Within(patience))
	})
}

// reading is a read for which an actor waits. If it fails it is retried as long as the caller
// waits; a caller that asks again makes a new reading.
type reading struct {
	number uint64
	by     *patient
	load   *actor.Promised[Loaded] // of an id, together with others unless alone
	id     string
	alone  bool
	read   func(ctx context.Context) (answer func(), err error) // of anything else
	delay  time.Duration
}

// loads is what the loader has to read. It outlives the loader's incarnations, since callers would
// otherwise ask again only after a minute. Owned by the loader's turn.
type loads struct {
	p    *Persistence
	last uint64
	open map[uint64]*reading // what was not answered, by number

	failing cause
}

// loader is the actor that reads from the journal for others. Requests that come during a read are
// read together next.
type loader struct {
	*loads
	wanted []*reading
	busy   int
}

// Init implements actor.Initializer.
func (l *loader) Init(ctx *actor.Context[any]) error {
	for _, number := range slices.Sorted(maps.Keys(l.open)) {
		l.wanted = append(l.wanted, l.open[number])
	}
	l.work(ctx)
	return nil
}

// Receive implements actor.Actor.
func (l *loader) Receive(ctx *actor.Context[any], m any) error {
	switch m := m.(type) {
	case loadID:
		l.want(&reading{by: m.patient, load: actor.Promise(ctx, m), id: m.id})
	case readEvents:
		answer := actor.Promise(ctx, m)
		l.want(&reading{by: m.patient, read: func(ctx context.Context) (func(), error) {
			events, err := l.p.journal.Events(ctx, m.id, m.after, PageRecords)
			return func() { answer.Resolve(events) }, err
		}})
	case readSnapshot:
		answer := actor.Promise(ctx, m)
		l.want(&reading{by: m.patient, read: func(ctx context.Context) (func(), error) {
			s, err := l.p.journal.Snapshot(ctx, m.id, m.below)
			return func() { answer.Resolve(s) }, err
		}})
	case *reading: // after a while, again
		if m.by.gone.Load() {
			delete(l.open, m.number)
		} else {
			l.wanted = append(l.wanted, m)
		}
	case readDone:
		l.busy--
		l.done(ctx, m)
	}
	l.work(ctx)
	return nil
}

func (l *loader) want(r *reading) {
	l.last++
	r.number = l.last
	l.open[r.number] = r
	l.wanted = append(l.wanted, r)
}

// work reads what is wanted, if not enough is being read already.
func (l *loader) work(ctx *actor.Context[any]) {
	for l.busy < readers && len(l.wanted) > 0 {
		n := 1
		for n < min(len(l.wanted), loadTogether) && l.wanted[0].together() && l.wanted[n].together() {
			n++
		}
		list := l.wanted[:n:n]
		l.wanted = l.wanted[n:]
		l.busy++
		actor.Pipe(ctx, func(life context.Context) ([]func(), error) { return l.read(life, list) },
			func(answers []func(), err error) any { return readDone{list, answers, err} })
	}
}

func (r *reading) together() bool { return r.load != nil && !r.alone }

// read returns what answers those that wait. It changes nothing: the read of an earlier
// incarnation may not have ended.
func (l *loads) read(ctx context.Context, list []*reading) (answers []func(), err error) {
	if read := list[0].read; read != nil {
		answer, err := read(ctx)
		return []func(){answer}, err
	}
	ids := make([]string, len(list))
	for i, r := range list {
		ids[i] = r.id
	}
	loaded, err := l.p.journal.Load(ctx, ids)
	if err != nil {
		return nil, err
	}
	for i, r := range list {
		answers = append(answers, func() { r.load.Resolve(loaded[i]) })
	}
	return answers, nil
}

// done answers the readings, or retries them: ids that were loaded together are retried one by one,
// since one that cannot be read must not keep others from starting.
func (l *loader) done(ctx *actor.Context[any], m readDone) {
	if m.err == nil {
		l.failing.end()
		for i, r := range m.list {
			delete(l.open, r.number)
			m.answers[i]()
		}
		return
	}
	if l.failing.isNew(m.err) {
		l.p.sys.Log().LogAttrs(context.Background(), slog.LevelError, "journal cannot be read, trying again; who waits for it handles nothing meanwhile",
			errorAttr(m.err))
	}
	for _, r := range m.list {
		r.alone = true
		r.delay = min(max(2*r.delay, l.p.cfg.RetryMin), l.p.cfg.RetryMax)
		ctx.After(fmt.Sprint("retry ", r.number), r.delay, r)
	}
}
