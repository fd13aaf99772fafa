package persist

import (
	"context"
	"fmt"
	"log/slog"
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
		id string
	}
	readEvents struct {
		actor.Returns[[]Record]
		id    string
		after uint64
	}
	readDone struct {
		list []*reading
		err  error
	}
)

// reading is something that an actor waits for. A read that fails is tried again, as long as
// somebody waits.
type reading struct {
	load  *actor.Promised[Loaded] // of an id, together with others unless alone
	id    string
	alone bool
	read  func(ctx context.Context) (answer func(), err error) // of anything else

	loaded Loaded
	answer func()
	delay  time.Duration
}

// loader is the actor that reads from the journal for others. What is wanted while it reads is
// read together next.
type loader struct {
	p      *Persistence
	wanted []*reading
	busy   int

	retries int    // how often something was tried again
	failing string // the error that was logged last
}

// Receive implements actor.Actor.
func (l *loader) Receive(ctx *actor.Context[any], m any) error {
	switch m := m.(type) {
	case loadID:
		l.wanted = append(l.wanted, &reading{load: actor.Promise(ctx, m), id: m.id})
	case readEvents:
		answer := actor.Promise(ctx, m)
		l.wanted = append(l.wanted, &reading{read: func(ctx context.Context) (func(), error) {
			events, err := l.p.journal.Events(ctx, m.id, m.after, PageRecords)
			return func() { answer.Resolve(events) }, err
		}})
	case *reading: // after a while, again
		l.wanted = append(l.wanted, m)
	case readDone:
		l.busy--
		l.done(ctx, m)
	}
	for l.busy < readers && len(l.wanted) > 0 {
		l.begin(ctx)
	}
	return nil
}

// begin reads what is wanted next.
func (l *loader) begin(ctx *actor.Context[any]) {
	n := 1
	for n < min(len(l.wanted), loadTogether) && l.wanted[0].together() && l.wanted[n].together() {
		n++
	}
	list := l.wanted[:n:n]
	l.wanted = l.wanted[n:]
	l.busy++
	actor.Pipe(ctx, func(life context.Context) (struct{}, error) { return struct{}{}, l.read(life, list) },
		func(_ struct{}, err error) any { return readDone{list, err} })
}

func (r *reading) together() bool { return r.load != nil && !r.alone }

func (l *loader) read(ctx context.Context, list []*reading) (err error) {
	if read := list[0].read; read != nil {
		list[0].answer, err = read(ctx)
		return err
	}
	ids := make([]string, len(list))
	for i, r := range list {
		ids[i] = r.id
	}
	loaded, err := l.p.journal.Load(ctx, ids)
	if err == nil {
		for i := range list {
			list[i].loaded = loaded[i]
		}
	}
	return err
}

// done answers, or sees to it that it is tried again: those that were loaded together one by
// one, as one that cannot be read must keep no other from life.
func (l *loader) done(ctx *actor.Context[any], m readDone) {
	if m.err == nil {
		l.failing = ""
	} else if text := m.err.Error(); text != l.failing {
		l.failing = text
		l.p.sys.Log().LogAttrs(context.Background(), slog.LevelError, "journal cannot be read, trying again; who waits for it handles nothing meanwhile",
			slog.String("error", text))
	}
	for _, r := range m.list {
		switch {
		case m.err != nil:
			r.alone = true
			r.delay = min(max(2*r.delay, l.p.cfg.RetryMin), l.p.cfg.RetryMax)
			l.retries++
			ctx.After(fmt.Sprint("retry ", l.retries), r.delay, r)
		case r.load != nil:
			r.load.Resolve(r.loaded)
		default:
			r.answer()
		}
	}
}
