package retention

import (
	"context"
	"iter"
	"log/slog"
	"sync"
	"time"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/series"
)

const (
	// roundInterval is how often the rules are applied, from the end of one round to
	// the beginning of the next.
	roundInterval = time.Minute
	// maxBadSeries is how many series may fail in a round before it is taken for a
	// failure of the store.
	maxBadSeries = 20
	// maxCached bounds the series whose state is kept in memory between two rounds.
	maxCached = 100_000
	// rowsAtOnce is how many rows are made of values at once. One with percentiles has up to 64 KiB.
	rowsAtOnce = 64
)

// Retainer keeps the rules and applies them in the background, round after round: it
// makes the rows of rollups and deletes what is older than its rule allows. A crash
// leaves nothing that the next round does not repair, because rows are recorded after
// they were made, and deletions before. Its methods may be called concurrently. Make it
// with New.
type Retainer struct {
	rt    *entity.Runtime
	store rollups
	log   *slog.Logger
	now   func() time.Time // set before Start

	nudge   chan struct{}
	ctx     context.Context //nolint:containedctx // ends with Close
	cancel  context.CancelFunc
	wg      sync.WaitGroup
	editing sync.Mutex // held while a rule is compared with the others and put

	cache map[seriesName]*Series // owned by the rounds
	swept *series.Policy         // what all that is kept was last compared with, nil for never; owned by the rounds
	late  *lateness

	mu     sync.Mutex
	status Status // guarded by mu
}

// Status says what a Retainer has done since it was started.
type Status struct {
	Running bool   `json:"running"`           // a round is under way
	Rounds  int64  `json:"rounds"`            // that have ended
	Last    int64  `json:"last_ms,omitempty"` // when the last one ended
	Next    int64  `json:"next_ms,omitempty"` // when the next one begins at the latest
	Series  int64  `json:"series"`            // that a rule is about, in the last round
	Rows    int64  `json:"rows"`              // made
	Removed int64  `json:"removed"`           // values deleted from the history
	Late    int64  `json:"late"`              // series whose rows were made again for late values
	Error   string `json:"error,omitempty"`   // of the last round
}

// New returns a Retainer for the series of rt. Call Start to have the rules applied, and
// Close before rt is closed.
func New(rt *entity.Runtime, log *slog.Logger) *Retainer {
	r := &Retainer{
		rt: rt, store: rollups{rt}, log: log, now: time.Now, nudge: make(chan struct{}, 1),
		cache: make(map[seriesName]*Series),
	}
	r.late = &lateness{rt: rt, log: log, wg: &r.wg}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	return r
}

// Start begins the rounds, the first one at once. Call it at most once.
func (r *Retainer) Start() { r.wg.Go(r.run) }

// Close ends the rounds and waits for the one under way.
func (r *Retainer) Close() {
	r.cancel()
	r.wg.Wait()
}

// Wake makes the next round begin now, or after the one under way.
func (r *Retainer) Wake() {
	select {
	case r.nudge <- struct{}{}:
	default:
	}
}

// Status returns what has been done.
func (r *Retainer) Status() Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.status
}

func (r *Retainer) count(f func(*Status)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f(&r.status)
}

func (r *Retainer) run() {
	for {
		r.round()
		timer := time.NewTimer(roundInterval)
		r.count(func(s *Status) { s.Next = r.now().Add(roundInterval).UnixMilli() })
		select {
		case <-r.ctx.Done():
			timer.Stop()
			return
		case <-r.nudge:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// round applies the rules once, and records how that went.
func (r *Retainer) round() {
	r.count(func(s *Status) { s.Running = true })
	err := r.apply(r.ctx)
	text := ""
	if err != nil && r.ctx.Err() == nil {
		text = err.Error()
		r.log.LogAttrs(r.ctx, slog.LevelError, "retention", slog.Any("error", err))
	}
	r.count(func(s *Status) {
		s.Running, s.Error, s.Last = false, text, r.now().UnixMilli()
		s.Rounds++
	})
}

// policy reads the rules.
func (r *Retainer) policy(ctx context.Context) (series.Policy, error) {
	rules, err := r.Rules(ctx)
	if err != nil {
		return nil, err
	}
	policy := make(series.Policy, len(rules))
	for i := range rules {
		policy[i] = rules[i].Rule
	}
	return policy, nil
}

// Series returns what is kept of one key of an entity. The errors are those of
// entity.Runtime.View, for a series of which something is kept.
func (r *Retainer) Series(ctx context.Context, id, key string) (*Series, error) {
	k, err := r.store.load(ctx, id, key)
	if err != nil || k.Created == 0 {
		return k, err
	}
	created := int64(0)
	if err := r.rt.View(ctx, id, func(v entity.View) error { created = v.Created(); return nil }); err != nil {
		return nil, err
	}
	if created != k.Created { // of a deleted entity that had the id
		return &Series{Entity: id, Key: key}, nil
	}
	return k, nil
}

// Rows returns the rows of one step of a series that begin in a range, in the order of
// time. They are read from the store while the sequence is ranged over; it ends with an
// error of the store.
func (r *Retainer) Rows(ctx context.Context, s *Series, step series.Span, within series.Range) iter.Seq2[series.Row, error] {
	return r.store.rows(ctx, s, step, within)
}

// Last returns the last point of a series that is before a time and in rows only, and
// whether there is one.
func (r *Retainer) Last(ctx context.Context, s *Series, before int64) (last series.Point, ok bool, err error) {
	for _, tier := range s.Kept.Tiers {
		row, found, err := r.store.last(ctx, s, tier.Step, before)
		if err != nil {
			return last, false, err
		}
		if found && (!ok || row.Summary.Last.TS > last.TS) {
			last, ok = row.Summary.Last, true
		}
	}
	return last, ok, nil
}
