package mapping

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
)

// The dependency graph. Its nodes are fields; a field has an edge from each field that writes one
// of its sources. Sources that the statement names, by id, list or pattern, give permanent edges,
// and a mapping that would close a cycle of these is refused. Edges by relations come and go: a
// relation that closes a cycle suspends the fields on it until one of its edges is gone, whichever
// came first.

// claim registers the fields of a mapping as the writers of their targets.
func (e *Engine) claim(m *mapping) {
	for _, f := range m.fields {
		k := f.target()
		e.targets[k] = f
		at, _ := writer(e.byKey[k.key], k.entity)
		e.byKey[k.key] = slices.Insert(e.byKey[k.key], at, f)
	}
	e.stale = true
}

// release undoes claim.
func (e *Engine) release(m *mapping) {
	for _, f := range m.fields {
		k := f.target()
		delete(e.targets, k)
		e.byKey[k.key] = slices.DeleteFunc(e.byKey[k.key], func(o *field) bool { return o == f })
		if len(e.byKey[k.key]) == 0 {
			delete(e.byKey, k.key)
		}
	}
	e.stale = true
}

// checkTargets returns ErrTaken when another mapping writes what m would.
func (e *Engine) checkTargets(m *mapping) error {
	for _, f := range m.fields {
		if o := e.targets[f.target()]; o != nil && o.m.Name != m.Name {
			return fmt.Errorf("mapping %q: %s: %w: %q", m.Name, f.target(), ErrTaken, o.m.Name)
		}
	}
	return nil
}

// producers returns the fields that write a source of the field, including those by relations if
// relations is set.
func (e *Engine) producers(f *field, relations bool) iter.Seq[*field] {
	return func(yield func(*field) bool) {
		for i := range f.spec.Sources {
			for _, p := range e.producersOf(f.m, &f.spec.Sources[i], relations) {
				if !yield(p) {
					return
				}
			}
		}
	}
}

// producersOf returns the fields that write one source.
func (e *Engine) producersOf(m *mapping, src *Source, relations bool) []*field {
	switch g := m.groups[src.Group]; {
	case src.Section != 0: // no mapping writes attributes
	case g == nil:
		if p := e.targets[valueKey{src.Entity, src.Key}]; p != nil {
			return []*field{p}
		}
	case g.spec.Relation == nil || relations:
		return e.writers(g, src.Key)
	}
	return nil
}

// writer returns where in a list, ordered by the id of the target, the field of
// a target is or belongs.
func writer(list []*field, id string) (int, bool) {
	return slices.BinarySearchFunc(list, id, func(f *field, id string) int { return strings.Compare(f.m.Statement.Into, id) })
}

// writers returns the fields that write a key of what is in the group, or would
// be once it exists, ordered by the id of the target.
func (e *Engine) writers(g *group, key string) []*field {
	list := e.byKey[key]
	if len(list) == 0 {
		return nil
	}
	var found []*field
	if g.spec.Like != "" {
		begin := g.spec.prefix()
		for i, _ := writer(list, begin); i < len(list) && strings.HasPrefix(list[i].m.Statement.Into, begin); i++ {
			if g.spec.like.Match(list[i].m.Statement.Into) {
				found = append(found, list[i])
			}
		}
		return found
	}
	if len(list) < len(g.index) {
		for _, f := range list {
			if _, in := g.index[f.m.Statement.Into]; in {
				found = append(found, f)
			}
		}
		return found
	}
	for id := range g.index {
		if i, ok := writer(list, id); ok {
			found = append(found, list[i])
		}
	}
	slices.SortFunc(found, func(a, b *field) int { return strings.Compare(a.m.Statement.Into, b.m.Statement.Into) })
	return found
}

// checkCycles returns a CycleError when a field of m is computed from itself.
func (e *Engine) checkCycles(m *mapping, relations bool) error {
	for _, start := range m.fields {
		from := map[*field]*field{} // what a field was reached from, against the flow
		todo := []*field{start}
		for len(todo) > 0 {
			f := todo[len(todo)-1]
			todo = todo[:len(todo)-1]
			for p := range e.producers(f, relations) {
				if p == start {
					from[start] = f
					return cycleError(start, from)
				}
				if _, seen := from[p]; !seen {
					from[p] = f
					todo = append(todo, p)
				}
			}
		}
	}
	return nil
}

// cycleError goes round from start along the flow of the data: from[x] is
// computed from x.
func cycleError(start *field, from map[*field]*field) error {
	err := &CycleError{}
	for f := start; ; f = from[f] {
		err.Mappings = append(err.Mappings, f.m.Name)
		err.Values = append(err.Values, f.target().String())
		if f == start && len(err.Mappings) > 1 {
			return err
		}
	}
}

// order determines the order of evaluation, with sources before what is computed from them and
// otherwise by the names of the mappings, and which fields are on a cycle.
func (e *Engine) order() {
	if !e.stale {
		return
	}
	e.stale = false
	s := components{e: e, number: make(map[*field]int), low: make(map[*field]int), open: make(map[*field]bool)}
	for _, f := range e.fields() {
		if s.number[f] == 0 {
			s.visit(f)
		}
	}
}

// fields returns all of them, by mapping and place.
func (e *Engine) fields() []*field {
	return slices.SortedFunc(maps.Values(e.targets), func(a, b *field) int {
		return cmp.Or(strings.Compare(a.m.Name, b.m.Name), cmp.Compare(a.index, b.index))
	})
}

// components is Tarjan's search for strongly connected components. It yields sources first.
type components struct {
	e           *Engine
	number, low map[*field]int
	open        map[*field]bool
	stack       []*field
	rank        int
}

func (s *components) visit(f *field) {
	s.number[f] = len(s.number) + 1
	s.low[f] = s.number[f]
	s.stack, s.open[f] = append(s.stack, f), true
	self := false
	for p := range s.e.producers(f, true) {
		switch {
		case p == f:
			self = true
		case s.number[p] == 0:
			s.visit(p)
			s.low[f] = min(s.low[f], s.low[p])
		case s.open[p]:
			s.low[f] = min(s.low[f], s.number[p])
		}
	}
	if s.low[f] != s.number[f] {
		return
	}
	for alone := s.stack[len(s.stack)-1] == f; ; {
		top := s.stack[len(s.stack)-1]
		s.stack, s.open[top] = s.stack[:len(s.stack)-1], false
		s.rank++
		top.rank = s.rank
		s.e.suspend(top, self || !alone)
		if top == f {
			return
		}
	}
}

// suspend suspends or resumes a field.
func (e *Engine) suspend(f *field, suspended bool) {
	if f.suspended && !suspended {
		e.markDirty(f) // what it has missed
	}
	f.suspended = suspended
}
