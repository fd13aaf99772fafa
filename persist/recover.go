package persist

import (
	"context"
	"errors"
	"fmt"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/codec"
)

// subject is an actor's state as recovery sees it.
type subject struct {
	apply     func(v any) error // an event; nil if it has none
	setState  func(v any) error // a state; nil if it has none
	snapshots *snapshooter      // nil if it takes none
}

// replayer applies the records of an actor to it.
type replayer struct {
	types  *codec.Types
	id     string
	s      subject
	at     uint64 // the number of the present state
	bytes  int    // of the events that were applied
	values []any
}

// recovery brings an actor to the state in the journal. It can be resumed where it was interrupted.
type recovery struct {
	replayer
	in     *incarnation
	avoid  *uint64 // snapshots with this number or a higher one are skipped, 0 for none
	loaded *Loaded
	next   *actor.Future[[]Record] // the page after the one that is replayed, nil if it is not being read
	by     *patient                // who waits for it
}

// run recovers, page by page. It first waits for what an earlier incarnation has in flight.
func (r *recovery) run(ctx context.Context) error {
	in := r.in
	if r.loaded == nil {
		if err := in.p.await(ctx, waitForID{id: in.id}); err != nil {
			return err
		}
		l, err := r.load(ctx)
		if err != nil {
			return err
		}
		if err := r.begin(ctx, &l); err != nil {
			return r.erasedMeanwhile(ctx, err, l.Erased)
		}
		r.loaded = &l
	}
	if err := r.replayAll(ctx); err != nil {
		return r.erasedMeanwhile(ctx, err, r.loaded.Erased)
	}
	in.progress(r.loaded.Last, r.loaded.Last)
	in.mu.Lock()
	defer in.mu.Unlock()
	in.sent = r.loaded.Sent
	in.seen, in.reminders = make(map[string]uint64, len(r.loaded.Seen)), make(map[string]due, len(r.loaded.Reminders))
	for _, s := range r.loaded.Seen {
		in.seen[s.From] = s.Number
	}
	for _, m := range r.loaded.Reminders {
		in.reminders[m.Key] = dueOf(&m.ReminderEdit)
	}
	in.since, in.sinceBytes = int(r.loaded.Last-max(in.snapshot, r.loaded.Erased)), r.bytes
	return nil
}

// replayAll applies the events that were not loaded with the rest, page by page.
func (r *recovery) replayAll(ctx context.Context) error {
	defer r.forgetNext()
	for r.at < r.loaded.Last && r.s.apply != nil {
		r.in.progress(r.at, r.loaded.Last)
		page, err := r.page(ctx)
		if err != nil {
			return err
		}
		if len(page) == 0 {
			return r.unreadable(r.at+1, "it is missing")
		}
		if last := page[len(page)-1].Number; last < r.loaded.Last {
			r.readNext(ctx, last)
		}
		if err := r.replay(page); err != nil {
			return err
		}
	}
	return nil
}

// erasedMeanwhile returns errErased in place of the error of a recovery if the records were erased
// after it had begun: then the journal is not at fault.
func (r *recovery) erasedMeanwhile(ctx context.Context, err error, erased uint64) error {
	if !errors.Is(err, ErrUnreadable) {
		return err
	}
	now, again := r.load(ctx)
	switch {
	case again != nil:
		return again
	case now.Erased > erased:
		return errErased
	}
	return err
}

func (r *recovery) load(ctx context.Context) (Loaded, error) {
	return read(ctx, r.in.p, func(by *patient) actor.Request[Loaded] { return loadID{patient: by, id: r.id} })
}

// page returns the next page.
func (r *recovery) page(ctx context.Context) ([]Record, error) {
	if r.next != nil {
		page, err := r.next.Wait(ctx, actor.Within(patience))
		r.forgetNext()
		if err == nil {
			return page, nil
		}
	}
	return read(ctx, r.in.p, func(by *patient) actor.Request[[]Record] { return readEvents{patient: by, id: r.id, after: r.at} })
}

// readNext starts reading the page after a number, while the previous page is replayed.
func (r *recovery) readNext(ctx context.Context, after uint64) {
	r.by = &patient{}
	r.next = actor.AskFuture(ctx, r.in.p.loader, readEvents{patient: r.by, id: r.id, after: after}, actor.Within(patience))
}

func (r *recovery) forgetNext() {
	if r.next != nil {
		r.by.gone.Store(true)
		r.next = nil
	}
}

// progress records how far recovery has come.
func (in *incarnation) progress(at, of uint64) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.last, in.recoverTo = at, of
}

// begin starts from the loaded state, snapshot, or events if these are the first.
func (r *recovery) begin(ctx context.Context, l *Loaded) error {
	r.at = l.Erased
	switch {
	case r.s.apply == nil && l.State != nil:
		return r.set(l.State)
	case r.s.apply == nil:
		return nil
	case l.Snapshot != nil:
		return r.fromSnapshot(ctx, l)
	}
	return r.replay(l.Events)
}

// set sets the state.
func (r *replayer) set(s *Snapshot) error {
	if !s.Intact(r.id, s.Number) {
		return r.unreadable(s.Number, "the state has a checksum that is wrong")
	}
	v, err := r.types.Decode(s.Type, s.Data)
	if err == nil {
		err = r.s.setState(v)
	}
	if err != nil {
		return r.unreadable(s.Number, "the state: "+textOf(err))
	}
	return nil
}

// replay applies events, which must be the next ones.
func (r *replayer) replay(page []Record) error {
	for i := range page {
		e := &page[i]
		if e.Number != r.at+1 {
			return r.unreadable(r.at+1, fmt.Sprintf("number %d comes next", e.Number))
		}
		if e.Type != "" {
			if !e.Intact(r.id, e.Number) {
				return r.unreadable(e.Number, "the event has a checksum that is wrong")
			}
			var err error
			if r.values, err = r.types.AppendDecoded(r.values[:0], e.Type, e.Data); err != nil {
				return r.unreadable(e.Number, textOf(err))
			}
			for _, v := range r.values {
				if err := guarded(func() error { return r.s.apply(v) }); err != nil {
					return r.unreadable(e.Number, textOf(err))
				}
			}
		}
		r.at = e.Number
		r.bytes += len(e.Data)
	}
	return nil
}

func (r *replayer) unreadable(number uint64, why string) error {
	return fmt.Errorf("%w: number %d of %s: %s", ErrUnreadable, number, r.id, why)
}

// guarded calls the user's code and returns a panic as an error.
func guarded(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v", v)
		}
	}()
	return f()
}
