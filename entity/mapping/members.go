package mapping

import (
	"slices"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/value"
)

// edit applies a change of relations, or the deletion of an entity.
func (e *Engine) edit(c *entity.Change) {
	if c.Edit.Deleted {
		e.gone(c.Entity)
		return
	}
	if w := e.find(c.Entity); w != nil {
		for i := range c.Edit.Attributes {
			a := &c.Edit.Attributes[i]
			for _, u := range w.keys[attributeKey(a.Section, a.Path)] {
				e.parameter(u, a.TS, a.Value)
			}
		}
	}
	for i := range c.Edit.Relations {
		r := &c.Edit.Relations[i]
		e.relate(Relation{r.From, r.Type, false}, r.To, !r.Removed)
		e.relate(Relation{r.To, r.Type, true}, r.From, !r.Removed)
	}
}

// attributeKey returns the key under which an attribute is watched. It has a control character,
// which keys of telemetry do not have.
func attributeKey(s entity.Section, path string) string { return string(rune(s)) + path }

// watchKey is under what a source is watched.
func (s *Source) watchKey() string {
	if s.Section != 0 {
		return attributeKey(s.Section, s.Key)
	}
	return s.Key
}

// parameter gives an attribute to a field, which is computed anew at the time of
// its newest value. The zero Value is an attribute that is gone.
func (e *Engine) parameter(u watch, ts int64, v value.Value) {
	if u.f.m.replaying {
		return
	}
	u.f.take(u, ts, v)
	if u.f.any || u.f.fanIn {
		e.markDirty(u.f)
	}
}

// relate adds a member to the groups of a relation, or removes it.
func (e *Engine) relate(r Relation, id string, put bool) {
	for _, g := range e.related[r.Entity] {
		_, in := g.index[id]
		switch {
		case g.m.replaying || *g.spec.Relation != r || in == put || e.reshape(g.m):
		case put:
			e.join(g, id)
			e.pending.joined = append(e.pending.joined, membership{g, id})
		default:
			e.leave(g, id)
		}
	}
}

// reshape records that members or entities of a mapping have changed, and reports whether a load
// under way handles that: the load starts over, and the replaced mapping no longer has a value.
func (e *Engine) reshape(m *mapping) bool {
	switch {
	case m.loading:
		m.reshaped = true
	case m.retired:
		m.silent = true
	default:
		return false
	}
	m.depth = max(m.depth, e.depth)
	return true
}

// loadAnew schedules the reload of a mapping, which has no value until then.
func (e *Engine) loadAnew(m *mapping) {
	m.silent, m.depth = true, max(m.depth, e.depth)
	if !slices.Contains(e.pending.reload, m) {
		e.pending.reload = append(e.pending.reload, m)
	}
}

// join makes an entity a member.
func (e *Engine) join(g *group, id string) {
	if _, in := g.index[id]; in {
		return
	}
	if g.short {
		return // who else is missing does not matter
	}
	if !g.charge(1) {
		g.charge(-e.giveUp(g))
		for _, u := range g.uses {
			e.markDirty(u.f)
		}
		return
	}
	n := g.add(id)
	for _, u := range g.uses {
		e.watch(id, u, n)
	}
	e.affects(g, id)
}

// affects records that the graph has changed if a value of the entity is computed.
func (e *Engine) affects(g *group, id string) {
	for _, u := range g.uses {
		if e.targets[valueKey{id, u.source().Key}] != nil {
			e.stale = true
		}
	}
}

// leave removes an entity from a group. A window has to be reloaded, because readings that the
// member's readings had evicted may belong to it again.
func (e *Engine) leave(g *group, id string) {
	n := g.index[id]
	for _, u := range g.uses {
		u.f.many[u.i].leave(n)
		e.unwatch(id, u)
		e.markDirty(u.f)
		if u.source().windowed() {
			e.loadAnew(g.m)
		}
	}
	g.remove(id)
	g.charge(-1)
	e.affects(g, id)
}

// memberBytes is what a member of the group takes. Those of a list are a part of the statement.
func (g *group) memberBytes() int {
	if len(g.spec.List) > 0 {
		return 0
	}
	return joinedSize + len(g.uses)*useSize
}

// giveUp removes all members from a group for which there is no room for one more: with an unknown
// member missing, the group has no values until it is reloaded. The memory becomes available to
// others. giveUp returns how many members there were.
func (e *Engine) giveUp(g *group) (members int) {
	g.m.room.drop()
	g.short = true
	members = len(g.index)
	for _, u := range g.uses {
		u.f.many[u.i].clear()
	}
	for id := range g.index {
		for _, u := range g.uses {
			e.unwatch(id, u)
		}
		g.remove(id)
	}
	return members
}

// charge takes the room for so many more members, or gives it back.
func (g *group) charge(members int) bool { return g.m.room.take(members * g.memberBytes()) }

// chargeMembers takes the room for the members that relations give to the groups of a new mapping.
func (e *Engine) chargeMembers(m *mapping) {
	for _, g := range m.groups {
		if g.spec.Relation != nil && !g.charge(len(g.index)) {
			e.giveUp(g)
		}
	}
}

// isShort reports whether there was no room for something that the mapping is computed from.
func (m *mapping) isShort() bool {
	for _, g := range m.groups {
		if g.short {
			return true
		}
	}
	for _, f := range m.fields {
		if slices.Contains(f.short, true) {
			return true
		}
		for _, c := range f.many {
			if c != nil && c.isShort() {
				return true
			}
		}
	}
	return false
}

// gone removes a deleted entity from everything: the groups it is in, and those of its relations.
// Sources that name it by its id start over.
func (e *Engine) gone(id string) {
	w := e.entities[id]
	if w != nil {
		var groups []*group
		var fields []fieldSource
		for _, uses := range w.keys {
			for _, u := range uses {
				if u.f.m.replaying || e.reshape(u.f.m) {
					continue
				}
				if g := u.f.m.groups[u.source().Group]; g == nil {
					fields = append(fields, u.fieldSource)
				} else if !slices.Contains(groups, g) {
					groups = append(groups, g)
				}
			}
		}
		for _, g := range groups {
			e.leave(g, id)
			if len(g.spec.List) > 0 { // it may come back under its id
				e.join(g, id)
			}
		}
		for _, u := range fields {
			e.loadAnew(u.f.m)
		}
	}
	if w := e.entities[id]; w != nil {
		w.matched = false
	}
	for _, g := range e.related[id] {
		if g.m.replaying || len(g.index) == 0 || e.reshape(g.m) {
			continue
		}
		for member := range g.index {
			e.leave(g, member)
		}
	}
}

// watch makes the engine watch a key of an entity. member is -1 for an entity that the source
// names.
func (e *Engine) watch(id string, u fieldSource, member int32) {
	w := e.entities[id]
	if w == nil {
		w = &watched{keys: make(map[string][]watch, 1)}
		e.entities[id] = w
	}
	key := u.source().watchKey()
	w.keys[key] = append(w.keys[key], watch{u, member})
}

func (e *Engine) unwatch(id string, u fieldSource) {
	w := e.entities[id]
	if w == nil {
		return
	}
	key := u.source().watchKey()
	w.keys[key] = slices.DeleteFunc(w.keys[key], func(o watch) bool { return o.fieldSource == u })
	if len(w.keys[key]) == 0 {
		delete(w.keys, key)
	}
	if len(w.keys) == 0 {
		delete(e.entities, id)
	}
}
