package mapping

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/value"
)

// end is after all times.
const end = entity.MaxTS + 1

// load fills mappings that were linked: the members of patterns, the latest
// values, the windows and the lines.
func (e *Engine) load(ctx context.Context, r Reader, fresh []*mapping) error {
	if err := e.loadPatterns(ctx, r, fresh); err != nil {
		return err
	}
	wanted := make(map[string][]fieldSource) // by entity: sources of single entities and targets
	members := make(map[string][]membership)
	for _, m := range fresh {
		for _, f := range m.fields {
			for i := range f.spec.Sources {
				if src := &f.spec.Sources[i]; src.Group == "" {
					wanted[src.Entity] = append(wanted[src.Entity], fieldSource{f, i})
				}
			}
			if f.fanIn {
				wanted[m.Statement.Into] = append(wanted[m.Statement.Into], fieldSource{f, -1})
			}
		}
		for _, g := range m.groups {
			if g.spec.Like != "" {
				continue
			}
			for id := range g.index {
				members[id] = append(members[id], membership{g, id})
				if wanted[id] == nil {
					wanted[id] = []fieldSource{}
				}
			}
		}
	}
	err := r.Entities(ctx, slices.Sorted(maps.Keys(wanted)), func(id string, v View) {
		for _, u := range wanted[id] {
			u.load(v)
		}
		for _, j := range members[id] {
			j.load(v)
		}
	})
	if err != nil {
		return fmt.Errorf("load the latest values: %w", err)
	}
	for _, m := range fresh {
		if err := m.loadHistory(ctx, r); err != nil {
			return fmt.Errorf("mapping %q: load the history: %w", m.Name, err)
		}
	}
	return nil
}

// membership is an entity in a group.
type membership struct {
	g  *group
	id string
}

// load gives the latest values of a member to what is over the group.
func (j membership) load(v View) {
	n, in := j.g.index[j.id]
	if !in { // there was no room for it
		return
	}
	for _, u := range j.g.uses {
		if value, ts, ok := u.source().of(v); ok {
			u.f.many[u.i].put(n, ts, value)
		}
	}
}

// of returns what a source is now and since when, and false for nothing.
func (s *Source) of(v View) (value value.Value, ts int64, ok bool) {
	if s.Section != 0 {
		a, ok := v.Attribute(s.Section, s.Key)
		return a.Value, a.TS, ok
	}
	l, ok := v.Latest(s.Key)
	return s.extract(l.Value), l.TS, ok
}

// load gives the latest value of a source to its field, or to a field over a
// group, with the source -1, the time of its own last value.
func (u fieldSource) load(v View) {
	if u.i < 0 {
		if l, ok := v.Latest(u.f.spec.As); ok && !l.Origin.IsZero() {
			u.f.lastTS = l.TS
		}
		return
	}
	value, ts, ok := u.source().of(v)
	if !ok {
		return
	}
	u.f.put(u.i, ts, value)
	if line := u.f.lines[u.i]; line != nil {
		line.put(ts, value)
	}
}

// loadPatterns finds the members of the groups with a pattern. Several patterns
// are looked for in one pass over all entities.
func (e *Engine) loadPatterns(ctx context.Context, r Reader, fresh []*mapping) error {
	var found []*group
	loading := make(map[*mapping]bool, len(fresh))
	for _, m := range fresh {
		loading[m] = true
		for _, g := range m.groups {
			if g.spec.Like != "" {
				found = append(found, g)
			}
		}
	}
	if len(found) == 0 {
		return nil
	}
	pattern := "%"
	if len(found) == 1 {
		pattern = found[0].spec.Like
	}
	return r.Match(ctx, pattern, func(id string, v View) {
		e.patterns.each(id, func(g *group) {
			if loading[g.m] {
				e.join(g, id)
				membership{g, id}.load(v)
			}
		})
	})
}

// loadHistory fills what needs more than the latest values.
func (m *mapping) loadHistory(ctx context.Context, r Reader) error {
	for _, f := range m.fields {
		for i := range f.spec.Sources {
			src := &f.spec.Sources[i]
			var err error
			switch {
			case f.lines[i] != nil:
				err = f.loadLine(ctx, r, i)
			case src.Group == "" && src.windowed():
				var points []point
				points, err = warm(ctx, r, src, src.Entity, end)
				f.fill(i, 0, points)
			case src.windowed():
				err = f.loadGroupWindow(ctx, r, i)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// loadLine fills the memory of a source.
func (f *field) loadLine(ctx context.Context, r Reader, i int) error {
	src, l := &f.spec.Sources[i], f.lines[i]
	points, err := r.Points(ctx, src.Entity, src.Key, 0, end, recent, true)
	if err != nil {
		return err
	}
	l.complete = len(points) < recent
	for _, p := range slices.Backward(points) {
		v := src.extract(p.Value)
		l.put(p.TS, v)
		f.put(i, p.TS, v)
	}
	return nil
}

// loadGroupWindow fills the window of a group with the history of all members. The time of the window is that of the
// newest reading of all of them, which the latest values have told.
func (f *field) loadGroupWindow(ctx context.Context, r Reader, i int) error {
	g := f.m.groups[f.spec.Sources[i].Group]
	newest, ok := f.many[i].newest()
	if !ok {
		return nil
	}
	for id, n := range g.index {
		if err := f.loadMemberWindow(ctx, r, i, n, id, newest); err != nil {
			return err
		}
	}
	return nil
}

// loadMemberWindow fills the window of a group, whose newest reading is known, with
// the history of one member.
func (f *field) loadMemberWindow(ctx context.Context, r Reader, i int, member int32, id string, last int64) error {
	src := &f.spec.Sources[i]
	points, err := newest(ctx, r, src, id, last-src.Over.Milliseconds()+1, end, MaxWindowReadings+1)
	f.fill(i, member, points)
	return err
}

// fill puts readings of a member into what a source keeps.
func (f *field) fill(i int, member int32, points []point) {
	for _, p := range points {
		f.many[i].put(member, p.ts, p.value)
	}
}

// warm returns what is in the window of a source when everything before the time
// has come.
func warm(ctx context.Context, r Reader, src *Source, id string, to int64) ([]point, error) {
	limit, from := src.LastN, int64(0)
	switch {
	case src.Over > 0:
		last, err := r.Points(ctx, id, src.Key, 0, to, 1, true)
		if err != nil || len(last) == 0 {
			return nil, err
		}
		limit, from = MaxWindowReadings+1, last[0].TS-src.Over.Milliseconds()+1
	case limit == 0:
		limit = 1
	}
	return newest(ctx, r, src, id, from, to, limit)
}

// newest returns the newest readings of a source in a range of time, up to a limit.
func newest(ctx context.Context, r Reader, src *Source, id string, from, to int64, limit int) ([]point, error) {
	points, err := r.Points(ctx, id, src.Key, max(from, 0), to, limit, true)
	slices.Reverse(points)
	return toPoints(points, src), err
}

func toPoints(points []entity.Point, src *Source) []point {
	list := make([]point, len(points))
	for i, p := range points {
		list[i] = point{p.TS, src.extract(p.Value)}
	}
	return list
}

// outputPage is how many computed values are gathered before they are handed on.
const outputPage = 4096

// Complete does what Apply has left to do, reading what was before, and calls
// put with the outputs that come of it, in pages. seq is that of the last change
// that was applied. It returns the error of the reader or of put, and then may be
// called again with the same effects.
func (e *Engine) Complete(ctx context.Context, r Reader, effects Effects, seq uint64, put func([]Output) error) error {
	for _, m := range effects.reload {
		if e.mappings[m.Name] != m {
			continue
		}
		outputs, _, err := e.Restore(ctx, r, seq, m.Mapping)
		if err == nil {
			err = put(outputs)
		}
		if err != nil {
			return fmt.Errorf("load anew: %w", err)
		}
		e.Live(m.Name)
	}
	e.begin()
	if err := e.loadJoined(ctx, r, effects.joined); err != nil {
		return fmt.Errorf("load new members: %w", err)
	}
	for _, span := range e.merge(effects.Late) {
		if err := e.deriveSpan(ctx, r, span, seq, put); err != nil {
			return fmt.Errorf("derive anew: %w", err)
		}
	}
	e.order()
	e.flush(seq, true)
	return put(e.end().Outputs)
}

// loadJoined loads the values of members that relations have brought.
func (e *Engine) loadJoined(ctx context.Context, r Reader, joined []membership) error {
	members := make(map[string][]membership)
	var ids []string
	for _, j := range joined {
		if _, in := j.g.index[j.id]; !in || e.mappings[j.g.m.Name] != j.g.m {
			continue // it has left, or its mapping is gone
		}
		if members[j.id] == nil {
			ids = append(ids, j.id)
		}
		members[j.id] = append(members[j.id], j)
	}
	if len(ids) == 0 {
		return nil
	}
	err := r.Entities(ctx, ids, func(id string, v View) {
		for _, j := range members[id] {
			j.load(v)
		}
	})
	if err != nil {
		return err
	}
	for _, id := range ids {
		for _, j := range members[id] {
			for _, u := range j.g.uses {
				newest, known := u.f.many[u.i].newest()
				if known && u.source().windowed() {
					if err := u.f.loadMemberWindow(ctx, r, u.i, j.g.index[j.id], j.id, newest); err != nil {
						return err
					}
				}
				e.markDirty(u.f)
			}
		}
	}
	return nil
}
