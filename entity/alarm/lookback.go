package alarm

import (
	"context"
	"errors"
	"slices"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/filter"
)

// An entity that was just read may be ahead of the changes: it already includes nearly all readings
// that still wait among them. That does not make them late, and a replay for each of them and each
// rule would cost far more than the readings did. So the history is read once for all rules, from
// the first of these readings on. Rules whose condition is not met anywhere in it can ignore these
// readings. For the other rules they count as late.

const (
	// lookBackPoints bounds how many readings of a key are examined, and lookBackKeys of how many
	// keys. If there are more, the readings count as late.
	lookBackPoints = 64
	lookBackKeys   = 16
)

// lookedBack is the result.
type lookedBack struct {
	points []heldBack // what was looked at, in the order of places
	quiet  []uint64   // the rules that have nothing to do with it, by the bits of rule.bit
}

// passes reports whether a rule can ignore the readings that were examined.
func (l *lookedBack) passes(r *rule) bool {
	n := r.bit / 64
	return n < len(l.quiet) && l.quiet[n]&(1<<(r.bit%64)) != 0
}

// has reports whether a reading was looked at. slots are those of its values that picked has.
func (l *lookedBack) has(c *entity.Change, slots, picked []int) bool {
	for n, slot := range slots {
		if !slices.ContainsFunc(l.points, func(w heldBack) bool {
			return w.slot == slot && w.place.TS == c.TS && w.v == c.Values[picked[n]].Value
		}) {
			return false
		}
	}
	return true
}

// lookBack examines the readings of an entity that was just read, from the reading of a change on,
// unless there are many. It removes uncommitted values from the entity, because they are still to
// come.
func (e *engine) lookBack(ctx context.Context, s *subject, from int64) error {
	var points []heldBack
	work := frame{id: s.id, typ: s.typ, created: s.created, presence: s.presence, env: s.env, isA: s.isA, values: slices.Clone(s.values)}
	keys := 0
	for _, v := range s.values {
		path := e.slots.paths[v.slot]
		if path.root != filter.RootLatest || v.ts < from {
			continue
		}
		if keys++; keys > lookBackKeys {
			return nil
		}
		list, more, err := e.rt.History(ctx, entity.HistoryQuery{ID: s.id, Key: path.name, To: e.horizon() + 1, Limit: lookBackPoints, Descending: true})
		if errors.Is(err, entity.ErrNotFound) {
			return nil // it was deleted meanwhile, which is a change of its own
		}
		if err != nil {
			return err
		}
		before := slices.IndexFunc(list, func(p entity.Point) bool { return p.TS < from })
		if before < 0 && more != "" {
			return nil
		}
		i, _ := work.find(v.slot)
		if before < 0 {
			before = len(list)
			work.values = slices.Delete(work.values, i, i+1)
		} else {
			work.values[i].ts, work.values[i].v = list[before].TS, list[before].Value
		}
		if len(list) == 0 || list[0].TS < v.ts { // the history of the value that it has is gone
			points = append(points, heldBack{v.slot, entity.Place{TS: v.ts}, v.v})
		}
		for _, p := range list[:before] {
			points = append(points, heldBack{v.slot, p.Place(), p.Value})
		}
	}
	slices.SortStableFunc(points, func(a, b heldBack) int { return a.place.Compare(b.place) })
	quiet, err := e.quiet(ctx, s, &work, points, from)
	if err != nil {
		return err
	}
	s.values, s.newest, s.back = work.values, 0, &lookedBack{points, quiet}
	e.see(s)
	return nil
}

// quiet returns the rules of an entity that can ignore some readings: none of the readings meets
// their condition, and they have had no alarm since. f is the entity before the readings; quiet
// applies them to it.
func (e *engine) quiet(ctx context.Context, s *subject, f *frame, points []heldBack, from int64) ([]uint64, error) {
	rules := make([]*rule, 0, len(s.rules))
	for _, r := range s.rules {
		if s.state(r) == nil {
			rules = append(rules, r)
		}
	}
	for len(points) > 0 {
		at := points[0].place
		for len(points) > 0 && points[0].place == at {
			f.put(points[0].slot, at.TS, points[0].v)
			points = points[1:]
		}
		e.count.evaluations.Add(uint64(len(rules)))
		rules = slices.DeleteFunc(rules, func(r *rule) bool { return r.raise.Match(f, &f.env) })
	}
	quiet := make([]uint64, len(e.index.rules)/64+1)
	alarms := e.kept && len(e.ledger.items) > 0
	if e.kept && !alarms {
		list, err := e.rt.Items(ctx, entity.ItemsQuery{Kind: timeKind, From: part(s.id), To: after(part(s.id)), Limit: 1})
		if err != nil {
			return nil, err
		}
		alarms = len(list) > 0
	}
	for _, r := range rules {
		if alarms {
			last, err := e.lastAlarm(ctx, s.id, r, entity.MaxTS)
			if err != nil {
				return nil, err
			}
			if last != nil && (last.Open() || last.Raised >= from || last.Cleared >= from) {
				continue
			}
		}
		quiet[r.bit/64] |= 1 << (r.bit % 64)
	}
	return quiet, nil
}
