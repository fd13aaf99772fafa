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

// loadPage is how many readings are read at once to load a mapping.
const loadPage = 1024

// loader reads what mappings need. Any changes may be applied between two portions: the readings of
// a portion and those of changes may come in any order, and readings in both count once.
type loader struct {
	Reader
	between func(readings int) error // nil for nothing, see installing
}

// pause ends a portion.
func (l *loader) pause(m *mapping, readings int) error {
	if l.between == nil {
		return nil
	}
	if err := l.between(readings); err != nil {
		return err
	}
	if m.reshaped {
		return errReshaped
	}
	return nil
}

// load fills mappings that were linked: the members of patterns, the latest
// values, the windows and the lines. With pauses there is but one mapping.
func (e *Engine) load(ctx context.Context, r loader, fresh []*mapping) error {
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
	for ids := range slices.Chunk(slices.Sorted(maps.Keys(wanted)), idsAtOnce) {
		err := r.Entities(ctx, ids, func(id string, v View) {
			for _, u := range wanted[id] {
				u.load(v)
			}
			for _, j := range members[id] {
				j.load(v)
			}
		})
		if err == nil {
			err = r.pause(fresh[0], len(ids))
		}
		if err != nil {
			return fmt.Errorf("load the latest values: %w", err)
		}
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

// of returns the present value of a source and since when, and false if it has none.
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
func (m *mapping) loadHistory(ctx context.Context, r loader) error {
	for _, f := range m.fields {
		for i := range f.spec.Sources {
			src := &f.spec.Sources[i]
			var err error
			switch {
			case f.lines[i] != nil:
				err = f.loadLine(ctx, r, i)
			case src.Group == "" && src.windowed():
				err = f.loadWindow(ctx, r, i)
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
func (f *field) loadLine(ctx context.Context, r loader, i int) error {
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
	return r.pause(f.m, len(points))
}

// loadWindow fills the window of one entity.
func (f *field) loadWindow(ctx context.Context, r loader, i int) error {
	src := &f.spec.Sources[i]
	from, most, err := warmFrom(ctx, r, src, src.Entity, end)
	if err != nil || most == 0 {
		return err
	}
	return f.loadPages(ctx, r, i, 0, src.Entity, from, most)
}

// loadPages gives the newest readings of an entity from a time on to a window, page by page.
func (f *field) loadPages(ctx context.Context, r loader, i int, member int32, id string, from int64, most int) error {
	return eachPage(ctx, r, &f.spec.Sources[i], id, interval{from, end}, most, loadPage, func(points []point) error {
		for _, p := range points {
			f.many[i].put(member, p.ts, p.value)
		}
		return r.pause(f.m, len(points))
	})
}

// loadGroupWindow fills the window of a group with the history of all members. The time of the window is that of the
// newest reading of all of them, which the latest values have told.
// Who joins meanwhile had no readings before.
func (f *field) loadGroupWindow(ctx context.Context, r loader, i int) error {
	g := f.m.groups[f.spec.Sources[i].Group]
	for _, id := range slices.Sorted(maps.Keys(g.index)) {
		newest, ok := f.many[i].newest()
		n, in := g.index[id]
		if !ok || !in {
			return nil // nobody has readings, or there was no room for the group
		}
		if err := f.loadMemberWindow(ctx, r, i, n, id, newest); err != nil {
			return err
		}
	}
	return nil
}

// loadMemberWindow fills the window of a group, whose newest reading is known, with
// the history of one member.
func (f *field) loadMemberWindow(ctx context.Context, r loader, i int, member int32, id string, last int64) error {
	from := last - f.spec.Sources[i].Over.Milliseconds() + 1
	return f.loadPages(ctx, r, i, member, id, from, MaxWindowReadings+1)
}

// warm returns the contents of a source's window after all readings before a time.
func warm(ctx context.Context, r Reader, src *Source, id string, to int64) (list []point, err error) {
	from, most, err := warmFrom(ctx, r, src, id, to)
	if err != nil || most == 0 {
		return nil, err
	}
	err = eachPage(ctx, r, src, id, interval{from, to}, most, most, func(points []point) error {
		list = append(points, list...)
		return nil
	})
	return list, err
}

// warmFrom returns from which time on, and how many, readings warm returns at most.
func warmFrom(ctx context.Context, r Reader, src *Source, id string, to int64) (from int64, most int, err error) {
	if src.Over == 0 {
		return 0, max(src.LastN, 1), nil
	}
	last, err := r.Points(ctx, id, src.Key, 0, to, 1, true)
	if err != nil || len(last) == 0 {
		return 0, 0, err
	}
	return last[0].TS - src.Over.Milliseconds() + 1, MaxWindowReadings + 1, nil
}

// eachPage calls f with the newest readings of a source in a range of time, of so many times at
// most: page by page, the newest page first, each in the order of time. A key may have many
// readings of one millisecond, of which the last counts.
func eachPage(ctx context.Context, r Reader, src *Source, id string, within interval, most, page int, f func([]point) error) error {
	for to := within.to; most > 0; {
		limit := min(most, page)
		points, err := r.Points(ctx, id, src.Key, max(within.from, 0), to, limit, true)
		if err != nil {
			return err
		}
		for i := range points {
			if points[i].TS < to {
				to = points[i].TS
				most--
			}
		}
		slices.Reverse(points)
		if err := f(toPoints(points, src)); err != nil || len(points) < limit {
			return err
		}
	}
	return nil
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

// Complete does the work that Apply has left, reading earlier values, and calls put with the
// resulting outputs, in pages. seq is that of the last change that was applied. It returns the
// error of the reader or of put, and then may be called again with the same effects.
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
					if err := u.f.loadMemberWindow(ctx, loader{Reader: r}, u.i, j.g.index[j.id], j.id, newest); err != nil {
						return err
					}
				}
				e.markDirty(u.f)
			}
		}
	}
	return nil
}
