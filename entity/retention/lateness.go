package retention

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/series"
)

const (
	// maxLate bounds the series for which late values are recorded. With more, all
	// series are treated as late.
	maxLate = 100_000
	// retryAfter is the pause after an error.
	retryAfter = time.Second
	// kindState and statePlace name the document that has the cursor up to which
	// late values were recorded.
	kindState  = "retention-state"
	statePlace = "place"
)

// lateness records which series got values of times whose rows may have been made
// already, and which entities were deleted. It follows the changes from a cursor that is
// stored after each round, so that it misses nothing while the process is down.
type lateness struct {
	rt     *entity.Runtime
	rules  chan struct{} // closed when there are rules
	active sync.Once

	following chan struct{} // closed when the changes are followed
	begun     sync.Once

	mu     sync.Mutex
	grace  int64     // a value that is committed at most this long after its time is not late; guarded by mu
	noted  lateNotes // guarded by mu
	cursor string    // noted has every change up to it; guarded by mu
}

// lateNotes is what was recorded up to a cursor.
type lateNotes struct {
	all     bool // every series may be late
	series  map[lateKey]series.Range
	deleted map[string]struct{}
	cursor  string
}

type lateKey struct{ id, key string }

func newLateness(rt *entity.Runtime) *lateness {
	return &lateness{rt: rt, rules: make(chan struct{}), following: make(chan struct{})}
}

// of returns the times of the late values of a series.
func (n *lateNotes) of(id, key string) []series.Range {
	if n.all {
		return []series.Range{{From: entity.MinTS, To: entity.MaxTS + 1}}
	}
	if r, ok := n.series[lateKey{id, key}]; ok {
		return []series.Range{r}
	}
	return nil
}

// begin hands over what was recorded, and starts a new record. The first time it waits until
// the changes are followed: what comes while the first round reads the values is late for it.
func (l *lateness) begin(ctx context.Context, policy series.Policy) lateNotes {
	l.mu.Lock()
	l.grace = int64(series.MaxSpan)
	for i := range policy {
		l.grace = min(l.grace, int64(policy[i].Grace))
	}
	l.mu.Unlock()
	l.active.Do(func() { close(l.rules) })
	select {
	case <-l.following:
	case <-ctx.Done(): // the round ends soon, too
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	taken := l.noted
	taken.cursor = l.cursor
	l.noted = lateNotes{}
	return taken
}

// again takes back what was handed over, because the round has failed.
func (l *lateness) again(taken lateNotes) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.noted.all = l.noted.all || taken.all
	for k, r := range taken.series {
		l.note(k, r)
	}
	if l.noted.deleted == nil {
		l.noted.deleted = make(map[string]struct{})
	}
	maps.Copy(l.noted.deleted, taken.deleted)
}

// done stores the place up to which everything has been dealt with.
func (l *lateness) done(ctx context.Context, taken lateNotes) error {
	if taken.cursor == "" {
		return nil
	}
	_, err := l.rt.PutDoc(ctx, kindState, statePlace, []byte(taken.cursor), "")
	return err
}

// note widens the range of a series. REQUIRES: l.mu held.
func (l *lateness) note(k lateKey, r series.Range) {
	if old, ok := l.noted.series[k]; ok {
		r = series.Range{From: min(r.From, old.From), To: max(r.To, old.To)}
	} else if len(l.noted.series) >= maxLate {
		l.noted.all = true
		return
	}
	if l.noted.series == nil {
		l.noted.series = make(map[lateKey]series.Range)
	}
	l.noted.series[k] = r
}

// take records a change.
func (l *lateness) take(c *entity.Change) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cursor = c.Cursor
	if c.Edit != nil {
		if c.Edit.Deleted {
			if l.noted.deleted == nil {
				l.noted.deleted = make(map[string]struct{})
			}
			l.noted.deleted[c.Entity] = struct{}{}
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

// follow records changes until ctx ends, as soon as there are rules.
func (l *lateness) follow(ctx context.Context, log *slog.Logger) {
	select {
	case <-l.rules:
	case <-ctx.Done():
		return
	}
	for ctx.Err() == nil {
		err := l.read(ctx)
		if ctx.Err() != nil || errors.Is(err, entity.ErrClosed) {
			return
		}
		if !errors.Is(err, entity.ErrLagged) {
			log.LogAttrs(ctx, slog.LevelWarn, "retention: the changes are read again", slog.Any("error", err))
		}
		timer := time.NewTimer(retryAfter)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
	}
}

// read records changes until an error ends them.
func (l *lateness) read(ctx context.Context) error {
	l.mu.Lock()
	cursor := l.cursor
	l.mu.Unlock()
	if cursor == "" {
		doc, err := l.rt.Doc(ctx, kindState, statePlace)
		if err != nil && !errors.Is(err, entity.ErrNotFound) {
			return err
		}
		cursor = string(doc.Body)
	}
	sub, err := l.rt.Changes(ctx, entity.ChangesQuery{Cursor: cursor, Edits: true})
	if errors.Is(err, entity.ErrCursorExpired) {
		l.mu.Lock()
		l.noted.all = true
		l.mu.Unlock()
		sub, err = l.rt.Changes(ctx, entity.ChangesQuery{Edits: true})
	}
	if err != nil {
		return err
	}
	defer sub.Close()
	if cursor == "" { // where to resume if nothing comes before the next start
		l.mu.Lock()
		l.cursor = sub.Cursor()
		l.mu.Unlock()
	}
	l.begun.Do(func() { close(l.following) })
	for {
		c, err := sub.Next(ctx)
		if err != nil {
			return err
		}
		l.take(&c)
	}
}
