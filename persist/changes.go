package persist

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"
)

// ChangesOption is an option of [Persistence.Changes].
type ChangesOption func(*follower)

// After makes Changes begin after these places, one for each of the [Parts] partitions: the
// Position of the last event of that Part that was seen, 0 for none. All events that codec.Split
// makes of a record have the same Position, so store a place only when the next event has another
// one.
func After(places []uint64) ChangesOption {
	return func(f *follower) { f.places, f.begins = slices.Clone(places), true }
}

// FromTheBeginning makes Changes begin with the first event in the journal.
func FromTheBeginning() ChangesOption { return After(make([]uint64, Parts)) }

// OfIDs makes Changes yield only the events of ids for which is returns true. The others are read,
// but not decoded.
func OfIDs(is func(id string) bool) ChangesOption { return func(f *follower) { f.is = is } }

// Changes yields the events of all ids that are committed from now on, or after the places given by
// an option, until ctx ends. It is the live form of [Persistence.Project], for example for a
// screen. Events of a partition, and so those of an id, come in the order of commits, without a
// gap; there is no order across partitions. Each caller keeps its own places. Commits of other
// processes appear within two seconds.
//
// It ends with one error: that of the journal, one that wraps [ErrUnreadable], or the cause of ctx.
// It may be called again with the places that the caller has reached. It reads at most a page ahead
// of the caller; a slow caller delays nobody.
func (p *Persistence) Changes(ctx context.Context, opts ...ChangesOption) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		f := &follower{p: p, woken: make(chan struct{}, 1)}
		for _, opt := range opts {
			opt(f)
		}
		if err := f.run(ctx, func(e Event) bool { return yield(e, nil) }); err != nil {
			yield(Event{}, fmt.Errorf("changes: %w", err))
		}
	}
}

// followEvery is how often a follower looks for commits of other processes.
const followEvery = 2 * time.Second

// follower is a call of Changes.
type follower struct {
	p      *Persistence
	places []uint64
	begins bool // begin at places, not at the end of the journal
	is     func(id string) bool
	values []any
	events []Event  // of one record
	ends   []uint64 // as last read, nil if never

	mu     sync.Mutex
	unread parts // guarded by mu
	woken  chan struct{}
}

// tell says in which partitions there are new events.
func (f *follower) tell(fed parts) {
	f.mu.Lock()
	f.unread |= fed
	f.mu.Unlock()
	select {
	case f.woken <- struct{}{}:
	default:
	}
}

func (f *follower) take() parts {
	f.mu.Lock()
	defer f.mu.Unlock()
	unread := f.unread
	f.unread = 0
	return unread
}

// run returns nil when yield has returned false.
func (f *follower) run(ctx context.Context, yield func(Event) bool) (err error) {
	defer f.p.follow(f)() // before the ends are read: nothing is missed
	if !f.begins {
		if f.places, err = f.p.journal.Ends(ctx); err != nil {
			return err
		}
	}
	if len(f.places) != Parts {
		return fmt.Errorf("After: there must be %d places, not %d", Parts, len(f.places))
	}
	look := time.NewTicker(followEvery)
	defer look.Stop()
	for unread := allParts; ; unread = f.take() {
		for unread != 0 {
			unread |= f.take()
			for part := range unread.each() {
				more, goesOn, err := f.pass(ctx, part, yield)
				if err != nil || !goesOn {
					return err
				}
				if !more {
					unread &^= 1 << part
				}
			}
		}
		select {
		case <-f.woken:
		case <-look.C:
			if err := f.look(ctx); err != nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// look determines what others have committed.
func (f *follower) look(ctx context.Context) error {
	ends, err := f.p.journal.Ends(ctx)
	if err != nil {
		return err
	}
	var fed parts
	for part, end := range ends {
		if end > f.places[part] {
			fed |= 1 << part
		}
	}
	f.ends = ends
	f.tell(fed)
	return nil
}

// pass yields the next page of a partition. It reports whether there may be more, and what yield
// has returned.
func (f *follower) pass(ctx context.Context, part int, yield func(Event) bool) (more, goesOn bool, err error) {
	page, err := f.p.journal.Feed(ctx, part, f.places[part], PageRecords)
	if err != nil {
		return false, false, err
	}
	if len(page) == 0 && f.ends != nil { // events after the end that was read before are those of others
		f.places[part] = max(f.places[part], f.ends[part])
	}
	for i := range page {
		r := &page[i]
		if f.is == nil || f.is(r.ID) {
			if f.events, err = f.p.appendEvents(f.events[:0], r, part, &f.values); err != nil {
				return false, false, err
			}
			for _, e := range f.events {
				if !yield(e) {
					return false, false, nil
				}
			}
		}
		f.places[part] = r.Position
	}
	return len(page) > 0, true, nil
}

// appendEvents appends the events that a record stands for. values is room for the next call.
func (p *Persistence) appendEvents(to []Event, r *Record, part int, values *[]any) (_ []Event, err error) {
	e := Event{ID: r.ID, Number: r.Number, Part: part, Position: r.Position, Time: time.UnixMilli(r.Time), Erased: r.Erased}
	switch {
	case r.Erased:
		return append(to, e), nil
	case r.Type == "":
		return to, nil
	case !r.Intact(r.ID, r.Number):
		err = errors.New("its checksum is wrong")
	default:
		*values, err = p.cfg.Types.AppendDecoded((*values)[:0], r.Type, r.Data)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: number %d of %s: %w", ErrUnreadable, r.Number, r.ID, err)
	}
	for _, e.Value = range *values {
		to = append(to, e)
	}
	return to, nil
}

// follow registers a follower to be told of commits, until end is called.
func (p *Persistence) follow(f *follower) (end func()) {
	p.mu.Lock()
	p.followers = append(slices.Clone(p.followers), f)
	p.mu.Unlock()
	p.projected.Add(1)
	return func() {
		p.projected.Add(-1)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.followers = slices.DeleteFunc(slices.Clone(p.followers), func(other *follower) bool { return other == f })
	}
}
