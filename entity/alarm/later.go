package alarm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/filter"
	"github.com/greenroom-go/greenroom/entity/value"
)

// laterPage is how many points of a key are read at once when their time has come.
const laterPage = 100

// later is an entity with readings that wait for their time. The readings are in the history; when
// the clock reaches their time they are applied as if they had just arrived, and until then they
// are left out of what is known about the entity.
type later struct {
	timer timer
	id    string
	from  int64 // when the first of them was measured
}

// laterJSON is a later as it is stored, under its entity.
type laterJSON struct {
	From int64 `json:"from"`
}

// horizon returns the time up to which readings count as present.
func (e *engine) horizon() int64 { return e.now() + e.steps.ahead }

// postpone makes a reading of an entity wait for its time.
func (e *engine) postpone(id string, ts int64) error {
	x := e.later[id]
	switch {
	case x != nil && x.from <= ts:
		return nil
	case x == nil && len(e.later) >= MaxActive:
		e.count.overflow.Add(1)
		return nil
	case x == nil:
		x = &later{id: id}
		x.timer.Value.later = x
		e.later[id] = x
	}
	return e.resume(x, ts)
}

// resume sets the time from which on readings wait.
func (e *engine) resume(x *later, from int64) error {
	x.from = from
	e.timers.Set(&x.timer, max(1, from-e.steps.ahead))
	return e.ledger.put(laterKind, x.id, &laterJSON{from})
}

// forgetLater records that no reading of an entity waits.
func (e *engine) forgetLater(id string) {
	if x := e.later[id]; x != nil {
		e.timers.Set(&x.timer, 0)
		delete(e.later, id)
		e.ledger.set(laterKind, id, nil)
	}
}

// loadLater reads which readings waited when the service was closed.
func (e *engine) loadLater(ctx context.Context) error {
	return e.each(ctx, laterKind, func(it *entity.Item) error {
		var x laterJSON
		if err := json.Unmarshal(it.Body, &x); err != nil {
			return fmt.Errorf("the readings of entity %q that wait for their time: %w", it.Key, err)
		}
		l := &later{id: it.Key, from: x.From}
		l.timer.Value.later = l
		e.later[it.Key] = l
		e.timers.Set(&l.timer, max(1, x.From-e.steps.ahead))
		return nil
	})
}

// holdBack removes from what is known about an entity the values measured at a time that is still
// in the future.
func (e *engine) holdBack(ctx context.Context, s *subject) error {
	horizon := e.horizon()
	for i := 0; i < len(s.values); {
		x := &s.values[i]
		path := e.slots.paths[x.slot]
		if path.root != filter.RootLatest || x.ts <= horizon {
			i++
			continue
		}
		first, _, err := e.rt.History(ctx, entity.HistoryQuery{ID: s.id, Key: path.name, From: horizon + 1, Limit: 1})
		if err != nil {
			return err
		}
		if len(first) > 0 {
			if err := e.postpone(s.id, first[0].TS); err != nil {
				return err
			}
		}
		last, ok, err := e.lastBy(ctx, s.id, path.name, horizon)
		if err != nil {
			return err
		}
		if !ok {
			s.values = slices.Delete(s.values, i, i+1)
			continue
		}
		x.ts, x.v = last.TS, last.Value
		i++
	}
	ts, ok := s.ts(e.slots.updated)
	if !ok || ts <= horizon || len(s.live) == 0 {
		return nil
	}
	ts, err := e.updatedBy(ctx, s.id, horizon)
	if err != nil {
		return err
	}
	s.put(e.slots.updated, ts, timeOf(ts))
	return nil
}

// lastBy returns the last value of a key up to a time, and false where there is none.
func (e *engine) lastBy(ctx context.Context, id, key string, ts int64) (entity.Point, bool, error) {
	last, _, err := e.rt.History(ctx, entity.HistoryQuery{ID: id, Key: key, To: ts + 1, Limit: 1, Descending: true})
	if err != nil || len(last) == 0 {
		return entity.Point{}, false, err
	}
	return last[0], true, nil
}

// updatedBy returns the time of the last reading of an entity up to a time, 0 for none.
func (e *engine) updatedBy(ctx context.Context, id string, ts int64) (int64, error) {
	is, err := e.rt.Entity(ctx, id)
	if err != nil {
		return 0, err
	}
	updated := int64(0)
	for i := range is.Latest {
		l := &is.Latest[i]
		if l.TS <= ts {
			updated = max(updated, l.TS)
			continue
		}
		last, _, err := e.lastBy(ctx, id, l.Key, ts)
		if err != nil {
			return 0, err
		}
		updated = max(updated, last.TS)
	}
	return updated, nil
}

// timeOf returns a time as a value, none for 0.
func timeOf(ts int64) value.Value {
	if ts == 0 {
		return value.Value{}
	}
	return value.Time(ts)
}

// heldBack is a value that has waited for its time.
type heldBack struct {
	slot  int
	place entity.Place
	v     value.Value
}

// takeUp applies the readings of an entity whose time has come.
func (e *engine) takeUp(ctx context.Context, x *later) error {
	horizon := e.horizon()
	s, fresh, err := e.know(ctx, x.id)
	if err != nil {
		return err
	}
	if s == nil || len(s.rules)+len(s.live) == 0 {
		e.forgetLater(x.id)
		return nil
	}
	due, next, err := e.dueOf(ctx, s, x.from, horizon)
	if errors.Is(err, entity.ErrNotFound) { // to know it again finds out what there is
		s.loaded = false
		return nil
	}
	if err != nil {
		return err
	}
	for len(due) > 0 {
		n := slices.IndexFunc(due, func(w heldBack) bool { return w.place != due[0].place })
		if n < 0 {
			n = len(due)
		}
		if err := e.arrive(ctx, s, due[:n], fresh); err != nil {
			return err
		}
		due, fresh = due[n:], false
	}
	if next > entity.MaxTS {
		e.forgetLater(x.id)
		return nil
	}
	return e.resume(x, next)
}

// arrive applies values of one place.
func (e *engine) arrive(ctx context.Context, s *subject, values []heldBack, fresh bool) error {
	at := values[0].place
	c := entity.Change{Entity: s.id, TS: at.TS, Arrived: at.Seq != 0}
	for _, w := range values {
		c.Values = append(c.Values, entity.Sample{Key: e.slots.paths[w.slot].name, Value: w.v})
	}
	return e.take(ctx, s, &c, e.slotsOf(&c), fresh, 0)
}

// dueOf reads the values of an entity that rules read in a range of time, or only the first of them
// if there are many, in the order of places. It returns the time from which on there is more, which
// is after entity.MaxTS if there is nothing.
func (e *engine) dueOf(ctx context.Context, s *subject, from, to int64) (due []heldBack, next int64, err error) {
	next = entity.MaxTS + 1
	var slots []int
	for _, list := range [][]*rule{s.rules, s.live} {
		for _, r := range list {
			slots = append(slots, r.keys...)
		}
	}
	slices.Sort(slots)
	for _, slot := range slices.Compact(slots) {
		q := entity.HistoryQuery{ID: s.id, Key: e.slots.paths[slot].name, From: from, Limit: laterPage}
		points, more, err := e.rt.History(ctx, q)
		for err == nil && more != "" && points[len(points)-1].TS == from { // what is of one time is never split
			var rest []entity.Point
			rest, more, err = e.rt.History(ctx, entity.HistoryQuery{ID: q.ID, Key: q.Key, Limit: laterPage, Cursor: more})
			points = append(points, rest...)
		}
		if err != nil {
			return nil, 0, err
		}
		if more != "" {
			next = min(next, points[len(points)-1].TS)
		}
		for _, p := range points {
			if p.TS > to {
				next = min(next, p.TS)
				break
			}
			due = append(due, heldBack{slot, p.Place(), p.Value})
		}
	}
	due = slices.DeleteFunc(due, func(w heldBack) bool { return w.place.TS >= next })
	slices.SortStableFunc(due, func(a, b heldBack) int { return a.place.Compare(b.place) })
	return due, next, nil
}
