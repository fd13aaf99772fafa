package alarm

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"time"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/internal/owner"
)

const (
	// applyAtOnce is roughly how many changes are applied before other work is done.
	applyAtOnce = 4096
	// ledgerItems and ledgerBytes are roughly how much is written in one commit.
	ledgerItems = 5000
	ledgerBytes = 4 << 20
	// lateGrace is how long late readings wait for changes that wait.
	lateGrace = time.Second
	// commitShare is the share of time that commits may take, as a divisor, because commits of
	// alarms delay those of readings. gatherMost bounds how long alarms wait for that.
	commitShare = 10
	gatherMost  = 250 * time.Millisecond
	// maxNap bounds the sleep until something is due: the machine's clock may be set.
	maxNap = 10 * time.Second
	// endPatience is how long Close waits for the last commit.
	endPatience = 5 * time.Second
	// typesEvery is how often the follower checks whether types have changed.
	typesEvery = time.Second
	// purgeEvery is how often the follower looks for alarms past their retention.
	purgeEvery = 10 * time.Minute
	// purgePause is between the parts of that: it goes through all that have cleared.
	purgePause = 100 * time.Millisecond
)

// follower is one run of a service, starting from what is durable, until the service is closed or
// the runtime fails. It is owned by the engine's goroutine.
type follower struct {
	s *Service
	e *engine

	feed *feed // nil while there are neither rules nor alarms

	late    time.Time     // since when there are late readings to be gone through, zero for none
	written time.Time     // when the last commit began
	writing time.Duration // how long it took
	typed   time.Time     // when types were last looked at
	purged  time.Time     // when alarms were last looked for that have been kept for long
	purge   string        // the ID from which on they are
}

// batches returns the channel of changes, nil while no changes are followed.
func (f *follower) batches() <-chan batch {
	if f.feed == nil {
		return nil
	}
	return f.feed.batches
}

// waiting is how many changes wait for the engine.
func (f *follower) waiting() int64 {
	if f.feed == nil {
		return 0
	}
	return f.feed.waiting.Load()
}

// follow does all pending work, until an error.
func (f *follower) follow() error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		if err := f.switchFeed(f.s.ctx); err != nil {
			return err
		}
		timer.Reset(f.nap())
		var err error
		select {
		case <-f.s.ctx.Done():
			return ErrClosed
		case c := <-f.s.calls:
			if err = f.answer(c); err != nil {
				return err
			}
			continue
		case b, ok := <-f.batches():
			if !ok {
				return f.feed.err
			}
			err = f.apply(b)
		case <-timer.C:
		}
		if err == nil {
			err = f.work(f.s.ctx)
		}
		if err != nil {
			return err
		}
	}
}

// nap returns how long there is nothing to do unless something arrives.
func (f *follower) nap() time.Duration {
	if f.e.working() {
		return 0
	}
	nap := maxNap
	if f.feed != nil {
		nap = f.s.cfg.SaveEvery
	}
	if f.e.gate.head == "" {
		left := min(f.e.timers.Next()-f.e.now(), nap.Milliseconds()) // more would not fit a Duration
		nap = min(nap, max(0, time.Duration(left)*time.Millisecond))
	}
	if len(f.e.ledger.items) > 0 {
		nap = min(nap, max(0, f.gather()-time.Since(f.written)))
	}
	return nap
}

// answer runs a call and makes its result durable. It returns an error of the store, after which
// the engine's decisions are void.
func (f *follower) answer(c owner.Call[*engine]) error {
	if err := context.Cause(c.Context); err != nil {
		c.Answer(err)
		return nil // the error is the caller's
	}
	before := len(f.e.ledger.items) + len(f.e.dirty)
	err := c.Run(f.s.ctx, f.e)
	if err == nil {
		// What comes after the answer to a first rule is followed.
		if err = f.switchFeed(f.s.ctx); err == nil {
			err = f.commit(f.s.ctx)
		}
		if err != nil {
			c.Answer(err)
			return err
		}
	}
	c.Answer(err)
	if err != nil && len(f.e.ledger.items)+len(f.e.dirty) != before {
		return err // half of it was decided
	}
	return nil
}

// apply takes a batch of changes and those that wait behind it.
func (f *follower) apply(b batch) error {
	for n := 0; ; {
		f.e.began, f.e.lead = f.e.now(), nil
		for i := range b.changes {
			c := &b.changes[i]
			if err := f.e.apply(f.s.ctx, c); err != nil {
				return err
			}
			f.e.reached(c.Cursor, c.Committed)
			if len(f.e.ledger.items) > f.e.steps.items || f.e.ledger.bytes > ledgerBytes {
				if err := f.commit(f.s.ctx); err != nil {
					return err
				}
			}
		}
		n += len(b.changes)
		f.s.count.committed.Store(b.changes[len(b.changes)-1].Committed)
		f.feed.took(b)
		if n >= f.e.steps.apply {
			break
		}
		// Readings do not wait for alarms: their commit goes first.
		runtime.Gosched()
		var ok bool
		select {
		case b, ok = <-f.feed.batches:
		default:
		}
		if !ok {
			break // the end of the feed is found the next time
		}
	}
	f.s.count.waiting.Store(f.waiting())
	return nil
}

// work does a part of the remaining work: late readings, new rules, whatever is due by the clock,
// and committing the results.
func (f *follower) work(ctx context.Context) error {
	switch {
	case len(f.e.late)+len(f.e.running) == 0:
		f.late = time.Time{}
	case f.late.IsZero():
		f.late = time.Now()
	}
	// Waiting changes may include more late readings for the same alarms.
	if f.waiting() == 0 || time.Since(f.late) >= f.e.steps.grace {
		if err := f.e.catchUp(ctx); err != nil {
			return err
		}
	}
	if time.Since(f.typed) > typesEvery {
		f.typed = time.Now()
		if err := f.e.retype(); err != nil {
			return err
		}
	}
	if err := f.e.sweep(ctx); err != nil {
		return err
	}
	if err := f.e.advanceClock(ctx); err != nil {
		return err
	}
	if err := f.e.fire(ctx); err != nil {
		return err
	}
	f.e.clearAwaits()
	if since := time.Since(f.purged); since > purgeEvery || f.purge != "" && since > purgePause {
		f.purged = time.Now()
		if err := f.purgeSome(ctx); err != nil {
			return err
		}
	}
	since := time.Since(f.written)
	if len(f.e.ledger.items) > 0 && (since >= f.gather() || len(f.e.ledger.items) >= f.e.steps.items) || f.e.moved && since >= f.s.cfg.SaveEvery || f.e.awaited() {
		if err := f.commit(ctx); err != nil {
			return err
		}
	}
	if len(f.e.ledger.items) == 0 {
		return f.e.markDeleted(ctx)
	}
	return nil
}

// commit makes the decisions durable and publishes them.
func (f *follower) commit(ctx context.Context) error {
	f.written = time.Now()
	err := f.e.commit(ctx)
	f.writing = time.Since(f.written)
	return err
}

// gather is how long after a commit alarms wait for others.
func (f *follower) gather() time.Duration {
	return max(f.s.cfg.Gather, min(commitShare*f.writing, gatherMost))
}

// end makes the decisions durable, unless that has failed before.
func (f *follower) end(why error) {
	if f.feed != nil {
		f.feed.stop()
	}
	if errors.Is(why, ErrClosed) {
		ctx, cancel := context.WithTimeout(context.Background(), endPatience)
		defer cancel()
		if err := f.commit(ctx); err != nil && !errors.Is(err, entity.ErrClosed) {
			f.s.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "the place of the alarms is not saved; what came since is gone through again", slog.Any("error", err))
		}
	}
	f.e.release(errAnew)
}
