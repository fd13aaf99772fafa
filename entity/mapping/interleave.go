package mapping

import (
	"context"
	"time"
)

// A mapping that is put in force or reloaded may have hundreds of thousands of readings in its
// windows. The follower reads a portion at a time, and handles changes before the next one, so that
// the values of other mappings wait for no more than a portion.
const (
	// loadReads, loadReadings and loadTime bound a portion, but for the last page in it.
	loadReads    = 16
	loadReadings = loadPage
	loadTime     = 5 * time.Millisecond
)

// putInForce loads a mapping and returns its values as of now. Meanwhile it lets changes pass, of which
// the mapping misses none: its values at the time of those are computed afterwards, as they are of late
// readings. restore is for one that was in force before, with its errors.
func (f *follower) putInForce(ctx context.Context, m Mapping, restore bool) (outputs []Output, failed map[string]error, err error) {
	head, err := f.head(ctx)
	if err != nil {
		return nil, nil, err
	}
	how := installing{restore: restore, live: f.position == head, between: f.portions()}
	if !how.live {
		f.loading[head] = append(f.loading[head], m.Name)
	}
	f.loadsOne = true
	former := f.engine.mappings[m.Name]
	outputs, failed, err = f.engine.install(ctx, f.s.reader, f.seq, how, []Mapping{m})
	f.loadsOne = false
	switch there := f.engine.mappings[m.Name]; {
	case there == nil:
	case err == nil && former != nil:
		f.backlog.inherit(there, former)
	case err != nil && f.failed == nil && there.silent:
		f.failed = err // the one before has missed something, and nothing would load it
	}
	return outputs, failed, err
}

// portions returns what is called after each page that is read for a mapping, and lets changes pass
// after each portion.
func (f *follower) portions() func(readings int) error {
	began, reads, all := f.s.now(), 0, 0
	return func(readings int) error {
		reads, all = reads+1, all+readings
		if reads < loadReads && all < loadReadings && f.s.now().Sub(began) < loadTime {
			return nil
		}
		f.failed = f.letPass()
		began, reads, all = f.s.now(), 0, 0
		return f.failed
	}
}

// letPass handles waiting work that does not involve another load: changes, and calls that only
// read.
func (f *follower) letPass() error {
	if err := f.land(); err != nil {
		return err
	}
	select {
	case c := <-f.s.looks:
		f.answer(c)
	default:
	}
	if len(f.flights) >= maxFlights {
		return nil
	}
	select {
	case <-f.s.ctx.Done():
		return ErrClosed
	case c, ok := <-f.feed.changes:
		if !ok {
			return f.feed.err
		}
		return f.apply(f.feed.drain(c))
	default:
		return nil
	}
}
