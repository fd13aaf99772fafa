package retention

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/series"
)

// apply is one round: it applies the rules to every series.
func (r *Retainer) apply(ctx context.Context) error {
	policy, err := r.policy(ctx)
	if err != nil {
		return err
	}
	if len(policy) == 0 {
		// Rows of rules that there were may have to go.
		if begun, err := r.late.begun(ctx); err != nil || !begun {
			return err
		}
	}
	late, err := r.late.begin(ctx, policy)
	if err != nil {
		return err
	}
	bases := &ancestry{rt: r.rt}
	if len(policy) > 0 {
		err = r.keepAll(ctx, policy, bases, &late)
	}
	if err == nil {
		err = r.sweep(ctx, policy, bases, &late)
	}
	if err != nil {
		r.late.again(late)
		return err
	}
	if len(policy) == 0 { // no rows were made again
		return nil
	}
	return r.late.done(ctx, late)
}

// keepAll applies the rules to every series.
func (r *Retainer) keepAll(ctx context.Context, policy series.Policy, bases *ancestry, late *lateNotes) error {
	n, bad := int64(0), 0
	var failed error
	err := r.rt.Scan(ctx, entity.ListQuery{}, func(v entity.View) bool {
		types := bases.of(v.Type())
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
	if err = errors.Join(err, failed); err == nil {
		r.count(func(s *Status) { s.Series = n })
	}
	return err
}

// keep applies a rule to one series.
func (r *Retainer) keep(ctx context.Context, id, key string, created int64, rule *series.Rule, late []series.Range) error {
	k, err := r.recall(ctx, id, key, created)
	if err != nil {
		return err
	}
	tasks := rule.Plan(k.Kept, r.now().UnixMilli(), late)
	if len(late) > 0 && len(tasks) > 0 {
		r.count(func(s *Status) { s.Late++ })
	}
	for _, task := range tasks {
		if err := r.do(ctx, k, task); err != nil {
			delete(r.cache, k.name())
			return fmt.Errorf("%v of %q key %q: %w", task.Action, id, key, err)
		}
	}
	return nil
}

// recall returns what is kept of a series of the entity that was created then, and not
// of a deleted one that had its id.
func (r *Retainer) recall(ctx context.Context, id, key string, created int64) (*Series, error) {
	name := newSeriesName(id, key)
	k := r.cache[name]
	if k == nil {
		loaded, err := r.store.load(ctx, id, key)
		if err != nil {
			return nil, err
		}
		if len(r.cache) >= maxCached {
			clear(r.cache)
		}
		k = loaded
		r.cache[name] = k
	}
	if k.Created != created {
		if err := r.store.forget(ctx, k); err != nil {
			return nil, err
		}
		*k = Series{Entity: id, Key: key, Created: created}
	}
	return k, nil
}

// do carries out one task.
func (r *Retainer) do(ctx context.Context, k *Series, task series.Task) error {
	if task.Action == series.RollUp {
		n, err := r.store.replace(ctx, k, task.Step, task.Range, r.rolledUp(ctx, k, task))
		if err != nil {
			return err
		}
		r.count(func(s *Status) { s.Rows += int64(n) })
		k.Kept.Done(task)
		return r.store.save(ctx, k)
	}
	k.Kept.Done(task)
	if err := r.store.save(ctx, k); err != nil {
		return err
	}
	if task.Step != 0 {
		if err := r.store.remove(ctx, k, task.Step, task.To); err != nil {
			return err
		}
		return r.store.save(ctx, k)
	}
	n, err := r.rt.Trim(ctx, k.Entity, k.Key, task.To)
	r.count(func(s *Status) { s.Removed += int64(n) })
	return err
}

// rolledUp returns the rows that a task makes of values, or of the rows of a shorter
// step, in the order of time.
func (r *Retainer) rolledUp(ctx context.Context, k *Series, task series.Task) iter.Seq2[series.Row, error] {
	if task.Source == 0 {
		return r.valuesRolledUp(ctx, k, task)
	}
	return func(yield func(series.Row, error) bool) {
		var row series.Row
		for part, err := range r.store.rows(ctx, k, task.Source, task.Range) {
			if err == nil && (row.Summary == nil || part.Start >= row.End) {
				if row.Summary != nil && row.Summary.Count > 0 && !yield(row, nil) {
					return
				}
				row = newRow(task, part.Start)
			}
			if err == nil {
				err = row.Summary.Append(part.Summary)
			}
			if err != nil {
				yield(series.Row{}, err)
				return
			}
		}
		if row.Summary != nil && row.Summary.Count > 0 {
			yield(row, nil)
		}
	}
}

// newRow returns the row of a task that a time falls into, without a value.
func newRow(task series.Task, ts int64) series.Row {
	start := ts - ts%int64(task.Step)
	return series.Row{Start: start, End: start + int64(task.Step), Summary: series.NewSummary(task.Percentiles)}
}

// valuesRolledUp is rolledUp for values. Nothing can be written while they are read, so it reads what
// makes some rows.
func (r *Retainer) valuesRolledUp(ctx context.Context, k *Series, task series.Task) iter.Seq2[series.Row, error] {
	return func(yield func(series.Row, error) bool) {
		for from := task.From; from < task.To; {
			rows, end, err := r.rollUp(ctx, k, task, from)
			if err != nil {
				yield(series.Row{}, err)
				return
			}
			for _, row := range rows {
				if row.Summary.Count > 0 && !yield(row, nil) {
					return
				}
			}
			from = end
		}
	}
}

// errEnough ends a scan of the history.
var errEnough = errors.New("there are enough rows")

// rollUp makes rows of the values from a time on, at most rowsAtOnce, and returns where it ended.
func (r *Retainer) rollUp(ctx context.Context, k *Series, task series.Task, from int64) (rows []series.Row, end int64, err error) {
	q := entity.HistoryQuery{ID: k.Entity, Key: k.Key, From: from, To: task.To}
	err = r.rt.ScanHistory(ctx, q, func(c *entity.Chunk) error {
		columns, err := c.Columns()
		if err != nil {
			return err
		}
		left := series.Numbers{TS: columns.TS, Bits: columns.Bits, Kind: columns.Kind, Kinds: columns.Kinds}
		for len(left.TS) > 0 {
			if n := len(rows); n == 0 || left.TS[0] >= rows[n-1].End {
				if n == rowsAtOnce {
					return errEnough
				}
				rows = append(rows, newRow(task, left.TS[0]))
			}
			row := &rows[len(rows)-1]
			var some series.Numbers
			some, left = left.Cut(row.End)
			if err := row.Summary.AddNumbers(some); err != nil {
				return err
			}
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		return rows, rows[rowsAtOnce-1].End, nil
	}
	return rows, task.To, err
}

// ancestry finds out what types extend, nearest first. It remembers the answers.
type ancestry struct {
	rt    *entity.Runtime
	known map[string][]string
}

// of returns a type and those that it extends.
func (l *ancestry) of(typ string) []string {
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
