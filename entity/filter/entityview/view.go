// Package entityview presents entities to filters: it connects package entity, which does not know
// filters, with package filter, which does not know entities.
package entityview

import (
	"strings"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/filter"
	"github.com/greenroom-go/greenroom/entity/value"
)

// Finder calls look with the entity that has an id, before it returns and on the same goroutine; it
// does not call look if there is no such entity. An error ends the search for related entities,
// which has then found none. The error is not reported: a Finder has to record it itself.
type Finder func(id string, look func(entity.View)) error

// View is a [filter.View] of an entity. [New] makes them. It is valid as long as the
// entity.View in it, and used by one goroutine at a time.
type View struct {
	entity.View

	find Finder
	edge value.Value // the properties of the relation that led here
}

// New returns the view of an entity. find finds related entities; if it is nil, only relations that
// are decided by type and id match.
func New(v entity.View, find Finder) *View { return &View{View: v, find: find} }

// Section returns the section that a root stands for, and whether it does.
func Section(r filter.Root) (s entity.Section, ok bool) {
	switch r {
	case filter.RootAttributes:
		return entity.Attributes, true
	case filter.RootDesired:
		return entity.Desired, true
	case filter.RootReported:
		return entity.Reported, true
	default:
		return 0, false
	}
}

// Lookup returns the value at a path, as [filter.View] requires.
func (v *View) Lookup(p *filter.Path) (value.Value, bool) {
	switch p.Root {
	case filter.RootID:
		return value.String(v.ID()), true
	case filter.RootType:
		return value.String(v.Type()), v.Type() != ""
	case filter.RootCreated:
		return value.Time(v.Created()), true
	case filter.RootUpdated:
		return value.Time(v.Updated()), v.Updated() != 0
	case filter.RootLatest:
		l, ok := v.Latest(p.Name)
		return l.Value, ok
	case filter.RootPresence:
		return Presence(v.View.Presence(), p.Name)
	case filter.RootRelation:
		return value.At(v.edge.Text(), p.Name)
	case filter.RootDelta:
		return v.delta(p)
	default:
		return v.leaf(p)
	}
}

// Presence returns a member of a presence, as a filter sees it. A device that was never heard from
// has no times.
func Presence(is entity.Presence, member string) (value.Value, bool) {
	switch member {
	case filter.PresenceOnline:
		return value.Bool(is.State == entity.PresenceOnline), true
	case filter.PresenceConnected:
		return value.Bool(is.Connected), true
	case filter.PresenceSince:
		return value.Time(is.Since), is.Since != 0
	default:
		return value.Time(is.Seen), is.Seen != 0
	}
}

func (v *View) leaf(p *filter.Path) (value.Value, bool) {
	section, _ := Section(p.Root)
	if a, ok := v.Attribute(section, p.Name); ok {
		return a.Value, true
	}
	return value.JSON("{}"), v.Has(section, p.Name)
}

// delta returns the value at a path in desired if reported does not have it.
func (v *View) delta(p *filter.Path) (value.Value, bool) {
	var desired, reported []entity.Attribute
	for a := range v.EachAttribute(entity.Desired) {
		desired = append(desired, a)
	}
	for a := range v.EachAttribute(entity.Reported) {
		reported = append(reported, a)
	}
	for _, a := range entity.Delta(desired, reported) {
		switch {
		case a.Path == p.Name:
			return a.Value, true
		case strings.HasPrefix(a.Path, p.Name+"/"):
			return value.JSON("{}"), true
		}
	}
	return value.Value{}, false
}

// Time returns when the value at a path was measured or set. A leaf of delta is as old as that of
// desired.
func (v *View) Time(p *filter.Path) (int64, bool) {
	switch p.Root {
	case filter.RootLatest:
		l, ok := v.Latest(p.Name)
		return l.TS, ok
	case filter.RootDelta:
		if _, ok := v.delta(p); !ok {
			return 0, false
		}
		a, ok := v.Attribute(entity.Desired, p.Name)
		return a.TS, ok
	default:
		section, _ := Section(p.Root)
		a, ok := v.Attribute(section, p.Name)
		return a.TS, ok
	}
}

// Is reports whether the entity's type is or extends the type with this id.
func (v *View) Is(typeID string) bool { return v.IsA(typeID) }

// Related reports whether the entity has a relation that matches r.
func (v *View) Related(r *filter.Relation, e *filter.Env) bool {
	direction := entity.Out
	if r.Direction == filter.From {
		direction = entity.In
	}
	for edge := range v.Relations(direction) {
		other := edge.To
		if r.Direction == filter.From {
			other = edge.From
		}
		if r.Type != "" && edge.Type != r.Type || r.ID != "" && other != r.ID {
			continue
		}
		if r.Decided() {
			return r.Match(nil, e)
		}
		matched, err := v.relatedTo(other, edge.Properties, r, e)
		if matched || err != nil || e.Err() != nil {
			return matched
		}
	}
	return false
}

// relatedTo matches the entity at the other end of an edge.
func (v *View) relatedTo(id string, properties value.Value, r *filter.Relation, e *filter.Env) (matched bool, err error) {
	if v.find == nil {
		return false, nil
	}
	err = v.find(id, func(other entity.View) {
		matched = r.Match(&View{View: other, find: v.find, edge: properties}, e)
	})
	return matched, err
}
