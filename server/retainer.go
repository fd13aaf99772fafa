package server

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"sync"
	"time"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/series"
)

const (
	// kindRetention is the kind of the documents that have the rules.
	kindRetention = "retention"
	// kindRetentionState has the cursor up to which late values were noted.
	kindRetentionState = "retention-state"
	retentionPlace     = "place"

	// retentionEvery is how often the rules are applied, from the end of one round
	// to the beginning of the next.
	retentionEvery = time.Minute
	// maxBadSeries is how many series may fail in a round before it is taken for a
	// failure of the store.
	maxBadSeries = 20
	// maxRetentionRules bounds the rules, and maxKeptCache the series whose state
	// is kept in memory between two rounds.
	maxRetentionRules = 1000
	maxKeptCache      = 100_000
)

// retainer applies the rules of retention in the background: it makes the rows of
// rollups and deletes what is older than its rule says. It goes round all series
// again and again; a crash in between leaves nothing that the next round does not
// put right, because rows are noted after they were made, and deletions before.
type retainer struct {
	rollups
	log *slog.Logger
	now func() time.Time

	nudge  chan struct{}
	ctx    context.Context //nolint:containedctx // the retainer's own life
	cancel context.CancelFunc
	wg     sync.WaitGroup

	cache map[rollupKey]*keptSeries // owned by the rounds
	late  *lateness

	mu     sync.Mutex
	status retentionStatus
}

// retentionStatus tells what the retainer has done since the server was started.
type retentionStatus struct {
	Running bool   `json:"running"`
	Rounds  int64  `json:"rounds"`
	Last    int64  `json:"last_ms,omitempty"`
	Next    int64  `json:"next_ms,omitempty"`
	Series  int64  `json:"series"`  // that a rule is about, in the last round
	Rows    int64  `json:"rows"`    // made
	Removed int64  `json:"removed"` // values deleted from the history
	Late    int64  `json:"late"`    // series whose rows were made again for late values
	Error   string `json:"error,omitempty"`
}

func newRetainer(rt *entity.Runtime, log *slog.Logger) *retainer {
	r := &retainer{
		rollups: rollups{rt}, log: log, now: time.Now, nudge: make(chan struct{}, 1),
		cache: make(map[rollupKey]*keptSeries), late: newLateness(rt),
	}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	return r
}

// start begins the rounds. close ends them.
func (r *retainer) start() {
	r.wg.Go(r.run)
	r.wg.Go(func() { r.late.follow(r.ctx, r.log) })
}

func (r *retainer) close() {
	r.cancel()
	r.wg.Wait()
}

// wake makes the next round begin now.
func (r *retainer) wake() {
	select {
	case r.nudge <- struct{}{}:
	default:
	}
}

func (r *retainer) run() {
	for {
		r.round()
		r.mu.Lock()
		r.status.Next = r.now().Add(retentionEvery).UnixMilli()
		r.mu.Unlock()
		timer := time.NewTimer(retentionEvery)
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

// round applies the rules once, and notes how that went.
func (r *retainer) round() {
	r.mu.Lock()
	r.status.Running = true
	r.mu.Unlock()
	err := r.apply(r.ctx)
	text := ""
	if err != nil && r.ctx.Err() == nil {
		text = err.Error()
		r.log.LogAttrs(r.ctx, slog.LevelError, "retention", slog.Any("error", err))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status.Running, r.status.Error, r.status.Last = false, text, r.now().UnixMilli()
	r.status.Rounds++
}

func (r *retainer) state() retentionStatus {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.status
}

func (r *retainer) count(f func(*retentionStatus)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f(&r.status)
}

// policy reads the rules.
func (r *retainer) policy(ctx context.Context) (series.Policy, error) {
	docs, err := r.rt.Docs(ctx, kindRetention)
	if err != nil {
		return nil, err
	}
	policy := make(series.Policy, len(docs))
	for i := range docs {
		if err := json.Unmarshal(docs[i].Body, &policy[i]); err != nil {
			return nil, fmt.Errorf("retention rule %q: %w", docs[i].ID, err)
		}
	}
	return policy, nil
}

// apply goes round all series.
func (r *retainer) apply(ctx context.Context) error {
	policy, err := r.policy(ctx)
	if err != nil || len(policy) == 0 {
		return err
	}
	late := r.late.begin(ctx, policy)
	lines := lineages{rt: r.rt}
	n, bad := int64(0), 0
	var failed error
	err = r.rt.Scan(ctx, entity.ListQuery{}, func(v entity.View) bool {
		types := lines.of(v.Type())
		for l := range v.EachLatest() {
			rule := policy.For(types, l.Key)
			if rule.Raw == 0 && len(rule.Tiers) == 0 {
				continue
			}
			n++
			if err := r.keep(ctx, v.ID(), l.Key, v.Created(), &rule, late.of(v.ID(), l.Key)); err != nil {
				// One series that cannot be worked on does not keep the others from it.
				failed, bad = cmp.Or(failed, err), bad+1
				if bad == maxBadSeries || ctx.Err() != nil || errors.Is(err, entity.ErrClosed) {
					return false
				}
			}
		}
		return true
	})
	if bad > 1 {
		failed = fmt.Errorf("%w; %d series failed", failed, bad)
	}
	if err = errors.Join(err, failed); err != nil {
		r.late.again(late)
		return err
	}
	r.count(func(s *retentionStatus) { s.Series = n })
	if err := r.forgetDeleted(ctx, late.deleted); err != nil {
		r.late.again(late)
		return err
	}
	return r.late.done(ctx, late)
}

// keep applies a rule to one series.
func (r *retainer) keep(ctx context.Context, id, key string, created int64, rule *series.Rule, late []series.Range) error {
	k, err := r.recall(ctx, id, key, created)
	if err != nil {
		return err
	}
	tasks := rule.Plan(k.Kept, r.now().UnixMilli(), late)
	if len(late) > 0 && len(tasks) > 0 {
		r.count(func(s *retentionStatus) { s.Late++ })
	}
	for _, task := range tasks {
		if err := r.do(ctx, k, task); err != nil {
			delete(r.cache, k.name())
			return fmt.Errorf("%v of %q key %q: %w", task.Action, id, key, err)
		}
	}
	return nil
}

// recall returns what there is of a series, of this entity and not of one of the
// same id before it.
func (r *retainer) recall(ctx context.Context, id, key string, created int64) (*keptSeries, error) {
	name := newRollupKey(id, key)
	k := r.cache[name]
	if k == nil {
		loaded, err := r.load(ctx, id, key)
		if err != nil {
			return nil, err
		}
		if len(r.cache) >= maxKeptCache {
			clear(r.cache)
		}
		k = &loaded
		r.cache[name] = k
	}
	if k.Created != created {
		if err := r.forget(ctx, k); err != nil {
			return nil, err
		}
		*k = keptSeries{Entity: id, Key: key, Created: created}
	}
	return k, nil
}

// do does one task.
func (r *retainer) do(ctx context.Context, k *keptSeries, task series.Task) error {
	if task.Action == series.RollUp {
		n, err := r.replace(ctx, k, task.Step, task.Range, r.rolledUp(ctx, k, task))
		if err != nil {
			return err
		}
		r.count(func(s *retentionStatus) { s.Rows += int64(n) })
		k.Kept.Done(task)
		return r.save(ctx, k)
	}
	k.Kept.Done(task)
	if err := r.save(ctx, k); err != nil {
		return err
	}
	if task.Step != 0 {
		if err := r.remove(ctx, k, task.Step, task.To); err != nil {
			return err
		}
		return r.save(ctx, k)
	}
	n, err := r.rt.Trim(ctx, k.Entity, k.Key, task.To)
	r.count(func(s *retentionStatus) { s.Removed += int64(n) })
	return err
}

// rolledUp makes rows of values, or of the rows of a shorter step.
func (r *retainer) rolledUp(ctx context.Context, k *keptSeries, task series.Task) iter.Seq2[series.Row, error] {
	return func(yield func(series.Row, error) bool) {
		row := series.Row{}
		step := int64(task.Step)
		open := func(ts int64) bool { // makes row the one that ts is in
			if row.Summary != nil && ts < row.End {
				return true
			}
			if row.Summary != nil && row.Summary.Count > 0 && !yield(row, nil) {
				return false
			}
			start := ts - ts%step
			row = series.Row{Start: start, End: start + step, Summary: series.NewSummary(task.Percentiles)}
			return true
		}
		if err := r.addTo(ctx, k, task, &row, open); err != nil {
			if !errors.Is(err, errEnough) {
				yield(series.Row{}, err)
			}
			return
		}
		if row.Summary != nil && row.Summary.Count > 0 {
			yield(row, nil)
		}
	}
}

// errEnough ends a sequence whose reader wants no more of it.
var errEnough = errors.New("no more is wanted")

// addTo adds what a task is made of to the rows that open opens.
func (r *retainer) addTo(ctx context.Context, k *keptSeries, task series.Task, row *series.Row, open func(ts int64) bool) error {
	if task.Source != 0 {
		for part, err := range r.rows(ctx, k, task.Source, task.Range) {
			if err != nil {
				return err
			}
			if !open(part.Start) {
				return errEnough
			}
			if err := row.Summary.Append(part.Summary); err != nil {
				return err
			}
		}
		return nil
	}
	q := entity.HistoryQuery{ID: k.Entity, Key: k.Key, From: task.From, To: task.To, Limit: historyPage}
	for {
		page, next, err := r.rt.History(ctx, q)
		if err != nil {
			return ignoreMissing(err) // deleted since
		}
		for _, p := range page {
			n := number(p.Value)
			if n.IsZero() {
				continue
			}
			if !open(p.TS) {
				return errEnough
			}
			if err := row.Summary.Add(series.Point{TS: p.TS, Value: n}); err != nil {
				return err
			}
		}
		if q.Cursor = next; next == "" {
			return nil
		}
	}
}

// forgetDeleted removes the rollups of entities that are no more.
func (r *retainer) forgetDeleted(ctx context.Context, deleted map[string]struct{}) error {
	if len(deleted) == 0 {
		return nil
	}
	docs, err := r.rt.Docs(ctx, kindKept)
	if err != nil {
		return err
	}
	for i := range docs {
		var k keptSeries
		if err := json.Unmarshal(docs[i].Body, &k); err != nil {
			return fmt.Errorf("kept series %s: %w", docs[i].ID, err)
		}
		if _, ok := deleted[k.Entity]; !ok {
			continue
		}
		created := int64(0)
		err := r.rt.View(ctx, k.Entity, func(v entity.View) error { created = v.Created(); return nil })
		if err != nil && !errors.Is(err, entity.ErrNotFound) {
			return err
		}
		if created != k.Created {
			if err := r.forget(ctx, &k); err != nil {
				return err
			}
			delete(r.cache, k.name())
		}
	}
	return nil
}

// kept returns what there is of a series, for a question.
func (r *retainer) kept(ctx context.Context, id, key string) (keptSeries, error) {
	k, err := r.load(ctx, id, key)
	if err != nil || k.Created == 0 {
		return k, err
	}
	created := int64(0)
	if err := r.rt.View(ctx, id, func(v entity.View) error { created = v.Created(); return nil }); err != nil {
		return k, err
	}
	if created != k.Created { // of an entity of the same id that is no more
		return keptSeries{Entity: id, Key: key}, nil
	}
	return k, nil
}

// lineages finds out what types extend, nearest first. It remembers the answers.
type lineages struct {
	rt    *entity.Runtime
	known map[string][]string
}

func (l *lineages) of(typ string) []string {
	if typ == "" {
		return nil
	}
	if list, ok := l.known[typ]; ok {
		return list
	}
	list, seen := []string{typ}, map[string]bool{typ: true}
	for i := 0; i < len(list); i++ {
		t, err := l.rt.Type(list[i])
		if err != nil {
			continue // deleted since
		}
		for _, base := range t.Extends {
			if !seen[base] {
				seen[base] = true
				list = append(list, base)
			}
		}
	}
	if l.known == nil {
		l.known = make(map[string][]string)
	}
	l.known[typ] = list
	return list
}
