package mapping

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/greenroom-go/greenroom/entity"
)

// Reader reads the state from before the changes. Its answers may be ahead of the changes that an
// [Engine] has seen, but not behind.
type Reader interface {
	// Match calls f with the entities whose id matches a pattern.
	Match(ctx context.Context, pattern string, f func(id string, v View)) error
	// Entities calls f with those of the entities that exist.
	Entities(ctx context.Context, ids []string, f func(id string, v View)) error
	// Points returns up to limit readings of a key with from <= TS < to in the
	// order of time, or in the opposite one. An unknown entity has none.
	Points(ctx context.Context, id, key string, from, to int64, limit int, descending bool) ([]entity.Point, error)
	// Related returns the entities at the other end of an entity's relations.
	Related(ctx context.Context, r Relation) ([]string, error)
}

// View is the present state of an entity: a part of [entity.View]. It is used only while the
// function that was given it runs.
type View interface {
	Latest(key string) (entity.Latest, bool)
	Attribute(s entity.Section, path string) (entity.Attribute, bool)
}

// Check returns the error that [Engine.Install] would return for a mapping, and changes nothing.
func (e *Engine) Check(ctx context.Context, r Reader, mapped Mapping) error {
	m, err := e.build(ctx, r, mapped)
	if err != nil {
		return err
	}
	return e.admit(m, true)
}

// Install puts mappings in force, replacing those of the same names, loads what they need, and
// returns their present values, with seq. It returns ErrTaken, a CycleError or an error of the
// reader, and then nothing has changed.
//
// The reader may be ahead of what was applied. Changes that it already had when Install was called
// may be applied afterwards, in order: a mapping that replaces another computes their results, and
// a new one computes nothing from them. Then [Engine.Live] has to be called.
func (e *Engine) Install(ctx context.Context, r Reader, seq uint64, mapped ...Mapping) ([]Output, error) {
	outputs, _, err := e.install(ctx, r, seq, installing{}, mapped)
	return outputs, err
}

// Restore is Install for mappings that were in force before. For mappings that cannot be installed
// again it returns the reasons, by name, and continues with the others. Relations that have closed
// a cycle meanwhile suspend the mappings on it.
func (e *Engine) Restore(ctx context.Context, r Reader, seq uint64, mapped ...Mapping) ([]Output, map[string]error, error) {
	return e.install(ctx, r, seq, installing{restore: true}, mapped)
}

// installing says how mappings are put in force.
type installing struct {
	restore bool // they were before
	live    bool // what the reader had when install was called has been applied
	// between is called between the portions that are read for a mapping, with the number of
	// readings in one; it may apply changes, and make the mapping live. The replaced mapping has
	// values until the new one is loaded. If between is nil, everything is read at once.
	between func(readings int) error
}

// maxReshaped is how often a mapping is loaded by portions that has to begin again because its
// groups have changed meanwhile. Then it is loaded at once.
const maxReshaped = 3

// errReshaped says that a load has to begin again.
var errReshaped = errors.New("the groups have changed meanwhile")

func (e *Engine) install(ctx context.Context, r Reader, seq uint64, how installing, mapped []Mapping) ([]Output, map[string]error, error) {
	e.begin()
	var fresh, old []*mapping
	failed := make(map[string]error)
	err := func() error {
		for _, one := range mapped {
			m, err := e.build(ctx, r, one)
			if err != nil {
				return err
			}
			if err := e.admit(m, !how.restore); err != nil {
				if !how.restore {
					return err
				}
				failed[m.Name] = err
				continue
			}
			before := e.mappings[m.Name]
			if slices.Contains(fresh, before) {
				return fmt.Errorf("mapping %q: %w: it is to be installed twice", m.Name, entity.ErrInvalid)
			}
			if before != nil {
				e.retire(before)
				old = append(old, before)
			}
			m.former, m.replaying, m.notYetInForce = before, !how.live, before == nil && !how.restore
			e.link(m)
			e.chargeMembers(m)
			fresh = append(fresh, m)
		}
		err := e.load(ctx, loader{r, how.between}, fresh)
		for tries := 1; errors.Is(err, errReshaped); tries++ {
			if tries == maxReshaped {
				how.between = nil
			}
			if fresh, err = e.rebuild(ctx, r, fresh[0]); err == nil {
				err = e.load(ctx, loader{r, how.between}, fresh)
			}
		}
		return err
	}()
	if err != nil {
		for _, m := range fresh {
			e.unlink(m)
		}
		for _, m := range old {
			m.retired = false
			e.enter(m)
		}
		return nil, nil, err
	}
	for _, m := range old {
		e.detach(m)
	}
	for _, m := range fresh {
		if m.former != nil {
			m.depth = max(m.depth, m.former.depth)
		}
		m.loading, m.former = false, nil
	}
	e.order()
	for _, m := range fresh {
		e.first(m, seq)
	}
	e.flush(seq, true)
	return e.end().Outputs, failed, nil
}

// rebuild takes a mapping out that has to be loaded from the beginning, and lets it in as it is now. It
// takes all changes in from now on: those before are in what the reader has.
func (e *Engine) rebuild(ctx context.Context, r Reader, before *mapping) ([]*mapping, error) {
	e.unlink(before)
	m, err := e.build(ctx, r, before.Mapping)
	if err != nil {
		return nil, err
	}
	m.former, m.depth = before.former, before.depth
	e.link(m)
	e.chargeMembers(m)
	return []*mapping{m}, nil
}

// Live says that all changes that were included when the mappings were loaded have been applied:
// later changes are new to them.
func (e *Engine) Live(names ...string) {
	for _, name := range names {
		for m := e.mappings[name]; m != nil; m = m.former {
			m.replaying = false
		}
	}
}

// build makes a mapping without adding it to the engine.
func (e *Engine) build(ctx context.Context, r Reader, mapped Mapping) (*mapping, error) {
	m := &mapping{Mapping: mapped, groups: make(map[string]*group), room: e.room.account(), loading: true}
	for i := range mapped.Statement.From {
		spec := &mapped.Statement.From[i]
		if spec.plain() {
			continue
		}
		g := &group{m: m, spec: spec}
		m.groups[spec.Alias] = g
		ids := spec.List
		if spec.Relation != nil {
			var err error
			if ids, err = r.Related(ctx, *spec.Relation); err != nil {
				return nil, fmt.Errorf("mapping %q: %w", mapped.Name, err)
			}
		}
		for _, id := range ids {
			g.add(id)
		}
	}
	for i := range mapped.Statement.Select {
		f := &field{m: m, index: i}
		f.frame = newFrame(&mapped.Statement.Select[i], f.roster, m.room)
		f.lines = make([]*line, len(f.spec.Sources))
		f.fanIn = f.spec.fanIn()
		m.fields = append(m.fields, f)
		for j := range f.spec.Sources {
			if g := m.groups[f.spec.Sources[j].Group]; g != nil {
				g.uses = append(g.uses, fieldSource{f, j})
			} else if f.many[j] == nil && !f.fanIn && !f.spec.Sources[j].timeless() {
				f.lines[j] = &line{room: m.room}
			}
		}
	}
	return m, nil
}

func (f *field) roster(alias string) *roster { return &f.m.groups[alias].roster }

// admit reports an error where the mapping closes a cycle, or writes what another
// one does.
func (e *Engine) admit(m *mapping, relations bool) error {
	if err := e.checkTargets(m); err != nil {
		return err
	}
	old := e.mappings[m.Name]
	if old != nil {
		e.release(old)
	}
	e.claim(m)
	err := e.checkCycles(m, relations)
	e.release(m)
	if old != nil {
		e.claim(old)
	}
	if err != nil {
		return fmt.Errorf("mapping %q: %w", m.Name, err)
	}
	return nil
}

// eachSource calls f with the sources by their entities, and with the number that these
// have in a group, -1 outside of one.
func (m *mapping) eachSource(f func(id string, u fieldSource, member int32)) {
	for _, x := range m.fields {
		for i := range x.spec.Sources {
			if src := &x.spec.Sources[i]; src.Group == "" {
				f(src.Entity, fieldSource{x, i}, -1)
			}
		}
	}
	for _, g := range m.groups {
		for id, n := range g.index {
			for _, u := range g.uses {
				f(id, u, n)
			}
		}
	}
}

// link adds a mapping to the engine.
func (e *Engine) link(m *mapping) {
	e.enter(m)
	e.attach(m)
}

// unlink undoes link.
func (e *Engine) unlink(m *mapping) {
	e.exit(m)
	e.detach(m)
}

// retire removes a mapping, except that it keeps computing.
func (e *Engine) retire(m *mapping) {
	e.exit(m)
	m.retired = true
}

// enter makes a mapping the one of its name.
func (e *Engine) enter(m *mapping) {
	e.mappings[m.Name] = m
	m.room.enter()
	e.claim(m)
}

// exit undoes enter.
func (e *Engine) exit(m *mapping) {
	delete(e.mappings, m.Name)
	m.room.leave()
	e.release(m)
}

// attach gives a mapping the changes of its sources.
func (e *Engine) attach(m *mapping) {
	m.eachSource(e.watch)
	for _, g := range m.groups {
		switch r := g.spec.Relation; {
		case g.spec.Like != "":
			e.patterns.add(g)
		case r != nil:
			e.related[r.Entity] = append(e.related[r.Entity], g)
		}
	}
}

// detach undoes attach.
func (e *Engine) detach(m *mapping) {
	for _, f := range m.fields {
		e.dirty = slices.DeleteFunc(e.dirty, func(o *field) bool { return o == f })
	}
	m.eachSource(func(id string, u fieldSource, _ int32) { e.unwatch(id, u) })
	for _, g := range m.groups {
		switch r := g.spec.Relation; {
		case g.spec.Like != "":
			e.patterns.remove(g)
		case r != nil:
			e.related[r.Entity] = slices.DeleteFunc(e.related[r.Entity], func(o *group) bool { return o == g })
			if len(e.related[r.Entity]) == 0 {
				delete(e.related, r.Entity)
			}
		}
	}
}

// Remove removes a mapping. What it has written stays. It reports whether there was one.
func (e *Engine) Remove(name string) bool {
	m := e.mappings[name]
	if m == nil {
		return false
	}
	e.unlink(m)
	return true
}

// first computes the value of each field of a mapping as of now.
func (e *Engine) first(m *mapping, seq uint64) {
	e.depth, m.depth = m.depth, 0
	defer func() { e.depth = 0 }()
	for _, f := range m.fields {
		if f.fanIn {
			e.markDirty(f)
			continue
		}
		if f.newest, f.any = f.frame.newest(); f.any {
			e.emit(f, f.frame, f.newest, seq, true)
		}
	}
}
