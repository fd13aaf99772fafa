package retention

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/series"
)

const (
	// maxLate bounds the series for which late values are recorded. With more, all
	// series are treated as late.
	maxLate = 100_000
	// maxLateRanges bounds the times of one series, so that a value of 1970 and one of
	// an hour ago do not concern all that is between them. With more, those that are
	// next to each other become one.
	maxLateRanges = 64
	// kindState and statePlace name the document that has the cursor up to which
	// late values were recorded.
	kindState  = "retention-state"
	statePlace = "place"
)

// lateness records which series got values of times whose rows may have been made
// already, and which entities were deleted or got another type. It follows the changes from a cursor that is
// stored after each round, so that it misses nothing while the process is down.
type lateness struct {
	rt      *entity.Runtime
	log     *slog.Logger
	wg      *sync.WaitGroup // the Retainer's
	started bool            // owned by the rounds

	mu     sync.Mutex
	grace  int64     // a value that is committed at most this long after its time is not late; guarded by mu
	noted  lateNotes // guarded by mu
	cursor string    // noted has every change up to it; guarded by mu
}

// lateNotes is what was recorded up to a cursor.
type lateNotes struct {
	all    bool                       // every series may be late
	series map[lateKey][]series.Range // in order, apart from each other
	edited map[string]bool            // entities that got another type, and whether they were deleted
	unsure bool                       // any entity may have been
	cursor string
}

type lateKey struct{ id, key string }

// of returns the times of the late values of a series.
func (n *lateNotes) of(id, key string) []series.Range {
	if n.all {
		return []series.Range{{From: entity.MinTS, To: entity.MaxTS + 1}}
	}
	return n.series[lateKey{id, key}]
}

// begin hands over what was recorded, and starts a new record. The first time it begins to
// follow the changes: what comes while the first round reads the values is late for it.
func (l *lateness) begin(ctx context.Context, policy series.Policy) (lateNotes, error) {
	l.mu.Lock()
	l.grace = int64(series.MaxSpan)
	for i := range policy {
		l.grace = min(l.grace, int64(policy[i].Grace))
	}
	l.mu.Unlock()
	if !l.started {
		if err := l.start(ctx); err != nil {
			return lateNotes{}, err
		}
		l.started = true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	taken := l.noted
	taken.cursor = l.cursor
	l.noted = lateNotes{all: len(policy) == 0} // until there is a rule, nothing is made
	return taken, nil
}

// again takes back what was handed over, because the round has failed.
func (l *lateness) again(taken lateNotes) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if taken.all {
		l.noted.all, l.noted.series = true, nil
	}
	for k, ranges := range taken.series {
		for _, r := range ranges {
			l.note(k, r)
		}
	}
	l.noted.unsure = l.noted.unsure || taken.unsure
	for id, deleted := range taken.edited {
		l.edited(id, deleted)
	}
}

// begun reports whether changes are followed, or were by a process before.
func (l *lateness) begun(ctx context.Context) (bool, error) {
	if l.started {
		return true, nil
	}
	_, err := l.rt.Doc(ctx, kindState, statePlace)
	if errors.Is(err, entity.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// edited notes an entity that was deleted or got another type. REQUIRES: l.mu held.
func (l *lateness) edited(id string, deleted bool) {
	if l.noted.edited == nil {
		l.noted.edited = make(map[string]bool)
	}
	if len(l.noted.edited) >= maxLate {
		l.noted.unsure = true
		return
	}
	l.noted.edited[id] = l.noted.edited[id] || deleted
}

// done stores the place up to which everything has been dealt with.
func (l *lateness) done(ctx context.Context, taken lateNotes) error {
	if taken.cursor == "" {
		return nil
	}
	_, err := l.rt.PutDoc(ctx, kindState, statePlace, []byte(taken.cursor), "")
	return err
}

// note adds a range to those of a series. REQUIRES: l.mu held.
func (l *lateness) note(k lateKey, r series.Range) {
	if l.noted.all {
		return
	}
	old, ok := l.noted.series[k]
	if !ok && len(l.noted.series) >= maxLate {
		l.noted.all, l.noted.series = true, nil
		return
	}
	if l.noted.series == nil {
		l.noted.series = make(map[lateKey][]series.Range)
	}
	l.noted.series[k] = addRange(old, r)
}

// addRange adds a range to ranges that are in order and apart from each other.
func addRange(list []series.Range, r series.Range) []series.Range {
	i, _ := slices.BinarySearchFunc(list, r.From, func(o series.Range, from int64) int { return cmp.Compare(o.To, from) })
	end := i
	for ; end < len(list) && list[end].From <= r.To; end++ {
		r = series.Range{From: min(r.From, list[end].From), To: max(r.To, list[end].To)}
	}
	list = slices.Replace(list, i, end, r)
	if len(list) <= maxLateRanges {
		return list
	}
	least := 1
	for i := 2; i < len(list); i++ {
		if list[i].From-list[i-1].To < list[least].From-list[least-1].To {
			least = i
		}
	}
	list[least-1].To = list[least].To
	return slices.Delete(list, least, least+1)
}

// take records a change.
func (l *lateness) take(c *entity.Change) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cursor = c.Cursor
	if c.Edit != nil {
		if c.Edit.Deleted || c.Edit.Typed && !c.Edit.Created { // nothing is kept of a new one
			l.edited(c.Entity, c.Edit.Deleted)
		}
		return
	}
	if c.TS >= c.Committed-l.grace {
		return
	}
	for i := range c.Values {
		l.note(lateKey{c.Entity, c.Values[i].Key}, series.Range{From: c.TS, To: c.TS + 1})
	}
}

// start begins to record changes from the place that is stored. Where the changes after it
// are lost, every series may be late.
func (l *lateness) start(ctx context.Context) error {
	doc, err := l.rt.Doc(ctx, kindState, statePlace)
	missing := errors.Is(err, entity.ErrNotFound)
	if err != nil && !missing {
		return err
	}
	// All changes, so that the cursor does not expire while there are only those of other kinds.
	q := entity.ChangesQuery{Cursor: string(doc.Body), Edits: true, Commands: true, Presence: true}
	changes, err := l.rt.Follow(ctx, q)
	if errors.Is(err, entity.ErrCursorExpired) {
		l.lost()
		q.Cursor = ""
		changes, err = l.rt.Follow(ctx, q)
	}
	if err != nil {
		return err
	}
	l.mu.Lock()
	l.cursor = changes.Cursor() // where to resume if nothing comes before the next start
	l.mu.Unlock()
	if missing {
		// Before any row is made: what comes after it is late, even if this round does not end.
		if _, err := l.rt.PutDoc(ctx, kindState, statePlace, []byte(changes.Cursor()), ""); err != nil {
			changes.Close()
			return err
		}
	}
	l.wg.Go(func() {
		defer changes.Close()
		l.record(ctx, changes)
	})
	return nil
}

// record records changes until ctx ends or the runtime is closed.
func (l *lateness) record(ctx context.Context, changes *entity.Follower) {
	for {
		c, err := changes.Next(ctx)
		switch {
		case err == nil:
			l.take(&c)
		case ctx.Err() != nil, errors.Is(err, entity.ErrClosed):
			return
		case errors.Is(err, entity.ErrLagged):
		case errors.Is(err, entity.ErrCursorExpired):
			l.lost()
		default:
			l.log.LogAttrs(ctx, slog.LevelWarn, "retention: the changes are read again", slog.Any("error", err))
		}
	}
}

// lost records that changes were lost.
func (l *lateness) lost() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.noted.all, l.noted.series, l.noted.unsure = true, nil, true
}
