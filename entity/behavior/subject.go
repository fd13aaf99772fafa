package behavior

import (
	"container/list"
	"encoding/binary"
	"iter"
	"slices"
	"strings"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/filter"
	"github.com/greenroom-go/greenroom/entity/filter/entityview"
)

// subject is what a behavior knows about an entity: an [entity.View] of it, and its state. It is
// owned by the entity's runner and, between batches, by the follower.
type subject struct {
	id, typ  string
	created  int64
	updated  int64
	revision uint64
	presence entity.Presence
	latest   map[string]entity.Latest
	sections [3][]entity.Attribute // ordered by path
	isA      func(typ, of string) bool

	state   []byte // nil for none
	touched bool   // the state has changed since the last commit
	ended   bool   // the entity has been deleted
	stub    bool   // the behavior does not apply to it, and only its state is known

	known   bool   // matched is valid
	matched bool   // by type and Where
	types   uint64 // the version of the types for which matched is valid

	at    *list.Element
	bytes int
}

// ID and the others are for [entity.View].
func (s *subject) ID() string                { return s.id }
func (s *subject) Type() string              { return s.typ }
func (s *subject) IsA(id string) bool        { return s.isA(s.typ, id) }
func (s *subject) Created() int64            { return s.created }
func (s *subject) Updated() int64            { return s.updated }
func (s *subject) ETag() string              { return "" }
func (s *subject) Revision() uint64          { return s.revision }
func (s *subject) Presence() entity.Presence { return s.presence }
func (s *subject) Relations(entity.Direction) iter.Seq[entity.Relation] {
	return func(func(entity.Relation) bool) {}
}

func (s *subject) Latest(key string) (entity.Latest, bool) {
	l, ok := s.latest[key]
	return l, ok
}

func (s *subject) EachLatest() iter.Seq[entity.Latest] {
	return func(yield func(entity.Latest) bool) {
		for _, l := range s.latest {
			if !yield(l) {
				return
			}
		}
	}
}

func (s *subject) section(n entity.Section) []entity.Attribute {
	if n < entity.Attributes || n > entity.Reported {
		return nil
	}
	return s.sections[n-1]
}

func find(list []entity.Attribute, path string) (int, bool) {
	return slices.BinarySearchFunc(list, path, func(a entity.Attribute, path string) int { return strings.Compare(a.Path, path) })
}

func (s *subject) Attribute(n entity.Section, path string) (entity.Attribute, bool) {
	list := s.section(n)
	if i, ok := find(list, path); ok {
		return list[i], true
	}
	return entity.Attribute{}, false
}

func (s *subject) Has(n entity.Section, path string) bool {
	list := s.section(n)
	if _, ok := find(list, path); ok {
		return true
	}
	i, _ := find(list, path+"/")
	return i < len(list) && strings.HasPrefix(list[i].Path, path+"/")
}

func (s *subject) EachAttribute(n entity.Section) iter.Seq[entity.Attribute] {
	return slices.Values(s.section(n))
}

// load copies the entity's present state.
func (s *subject) load(v entity.View) {
	s.typ, s.created, s.updated, s.revision, s.presence = v.Type(), v.Created(), v.Updated(), v.Revision(), v.Presence()
	s.latest = make(map[string]entity.Latest)
	for l := range v.EachLatest() {
		s.latest[l.Key] = l
	}
	for n := range s.sections {
		s.sections[n] = slices.Collect(v.EachAttribute(entity.Section(n + 1)))
	}
	s.weigh()
}

// forget leaves nothing of the entity but its state.
func (s *subject) forget() {
	s.latest, s.sections, s.stub = nil, [3][]entity.Attribute{}, true
	s.weigh()
}

// weigh sets roughly how many bytes the subject occupies.
func (s *subject) weigh() {
	const own, each = 500, 160
	n := own + 2*len(s.id) + len(s.typ) + len(s.state)
	for _, l := range s.latest {
		n += each + len(l.Value.Text())
	}
	for i := range s.sections {
		for _, a := range s.sections[i] {
			n += each + len(a.Path) + len(a.Value.Text())
		}
	}
	s.bytes = n
}

// take applies a change, and reports whether it is a reading whose keys all have newer values
// already. Changes that the subject has seen may come again.
func (s *subject) take(c *entity.Change) (late bool) {
	switch {
	case c.Edit != nil:
		s.edit(c.Edit)
		return false
	case c.Presence != nil:
		s.presence = *c.Presence
		return false
	case c.Command != nil:
		return false
	}
	late = true
	for i := range c.Values {
		v := &c.Values[i]
		old, ok := s.latest[v.Key]
		if ok && c.TS < old.TS {
			continue
		}
		late = false
		s.latest[v.Key] = entity.Latest{Key: v.Key, TS: c.TS, Value: v.Value, Origin: c.Origin}
		if !ok {
			s.bytes += 160
		}
		s.bytes += len(v.Value.Text()) - len(old.Value.Text())
	}
	s.updated = max(s.updated, c.TS)
	return late
}

// edit applies an edit.
func (s *subject) edit(e *entity.Edit) {
	if e.Revision <= s.revision {
		return // it was loaded with it
	}
	s.revision, s.known = e.Revision, false
	if e.Typed {
		s.typ = e.Type
	}
	for i := range e.Attributes {
		a := &e.Attributes[i]
		list := s.sections[a.Section-1]
		at, ok := find(list, a.Path)
		switch {
		case a.Removed() && ok:
			list = slices.Delete(list, at, at+1)
		case a.Removed():
		case ok:
			list[at] = a.Attribute
		default:
			list = slices.Insert(list, at, a.Attribute)
		}
		s.sections[a.Section-1] = list
	}
	s.weigh()
}

// concerned reports whether the behavior applies to the entity. types is the version of the types.
func (s *subject) concerned(spec *Spec, settled bool, types uint64) bool {
	if !s.known || !settled || s.types != types {
		s.matched = (spec.Type == "" || s.IsA(spec.Type)) && (spec.Where == nil || spec.Where.Match(entityview.New(s, nil), &filter.Env{}))
		s.known, s.types = true, types
	}
	return s.matched
}

// stored returns the body of the item of the state: when the entity was created, and the state.
func (s *subject) stored() []byte {
	if s.state == nil {
		return nil
	}
	return append(binary.BigEndian.AppendUint64(make([]byte, 0, 8+len(s.state)), uint64(s.created)), s.state...) //nolint:gosec // comes back as it is
}

// restore reads the body of the item of the state. It ignores a state of an earlier entity with the
// same id.
func (s *subject) restore(body []byte) {
	if created, state := splitState(body); created == s.created {
		s.state = state
	}
}

// splitState returns when the entity of a stored state was created, and the state.
func splitState(body []byte) (created int64, state []byte) {
	if len(body) < 8 {
		return 0, nil
	}
	return int64(binary.BigEndian.Uint64(body)), slices.Clone(body[8:]) //nolint:gosec // see stored
}
