package entity

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/greenroom-go/greenroom/entity/model"
)

// docType is the kind of the documents that hold types.
const docType = "type"

// types has all types of entities, resolved. The set is replaced as a whole when a type changes, so
// that checking a reading takes no lock.
type types struct {
	current atomic.Pointer[typeSet]
	version atomic.Uint64 // of current; increases after each change
	mu      sync.Mutex    // held while a type is changed
}

func (t *types) set(next *typeSet) {
	t.current.Store(next)
	t.version.Add(1)
}

type typeSet struct {
	declared map[string]*model.Type
	resolved map[string]*model.Resolved
	etags    map[string]string
}

// StoredType is a type with its version.
type StoredType struct {
	*model.Type // must not be changed
	ETag        string
}

// loadTypes reads the types from the store.
func (r *Runtime) loadTypes(ctx context.Context) error {
	set := &typeSet{declared: make(map[string]*model.Type), etags: make(map[string]string)}
	err := eachDoc(func(d *Doc) error {
		t, err := model.Parse(d.Body)
		if err != nil {
			return fmt.Errorf("stored type %q: %w", d.ID, err)
		}
		set.declared[t.ID], set.etags[t.ID] = t, d.ETag()
		return nil
	}, func(after string) ([]Doc, error) { return r.store.Docs(ctx, docType, after, docsPage) })
	if err != nil {
		return fmt.Errorf("read the types: %w", err)
	}
	if set.resolved, err = model.ResolveAll(set.declared); err != nil {
		return fmt.Errorf("stored types: %w", err)
	}
	r.types.set(set)
	return nil
}

// with returns a copy of the set in which the types in list replace those of the same ids.
func (s *typeSet) with(list []*model.Type) (*typeSet, error) {
	next := &typeSet{declared: maps.Clone(s.declared), etags: maps.Clone(s.etags)}
	for _, t := range list {
		next.declared[t.ID] = t
	}
	var err error
	next.resolved, err = model.ResolveAll(next.declared)
	return next, err
}

// PutType stores a type, under a condition as for PutDoc. From then on readings and edits are
// checked against it. Existing entities of the type are left as they are. The types that it extends
// or contains must exist. It returns the errors of package model for an invalid type, and
// ErrConflict or ErrNotFound if the condition does not hold. t must not be changed afterwards.
func (r *Runtime) PutType(ctx context.Context, t *model.Type, condition string) (StoredType, error) {
	list, err := r.putTypes(ctx, []*model.Type{t}, condition)
	if err != nil {
		return StoredType{}, err
	}
	return list[0], nil
}

// PutTypes stores types that may refer to each other, replacing those of the same ids: all of them
// or, with an error of package model, none. After an error of the store, some may be stored.
func (r *Runtime) PutTypes(ctx context.Context, list []*model.Type) ([]StoredType, error) {
	return r.putTypes(ctx, list, "")
}

func (r *Runtime) putTypes(ctx context.Context, list []*model.Type, condition string) (stored []StoredType, err error) {
	for _, t := range list {
		if err := t.Check(); err != nil {
			return nil, err
		}
	}
	r.types.mu.Lock()
	defer r.types.mu.Unlock()
	next, err := r.types.current.Load().with(list)
	if err != nil {
		return nil, err
	}
	defer func() {
		if len(stored) == 0 {
			return
		}
		defer r.presences.retype()
		if err == nil {
			r.types.set(next)
		} else if lerr := r.read(ctx, r.loadTypes); lerr != nil { // some are stored
			err = errors.Join(err, lerr)
		}
	}()
	for _, t := range list {
		body, err := json.Marshal(t)
		if err != nil {
			return stored, fmt.Errorf("type %q: %w", t.ID, err)
		}
		doc, err := r.PutDoc(ctx, docType, t.ID, body, condition)
		if err != nil {
			return stored, err
		}
		next.etags[t.ID] = doc.ETag()
		stored = append(stored, StoredType{t, doc.ETag()})
	}
	return stored, nil
}

// DeleteType removes a type, under a condition as for DeleteDoc. It returns ErrTypeInUse while
// there are entities of the type or types that need it.
func (r *Runtime) DeleteType(ctx context.Context, id, condition string) (err error) {
	r.types.mu.Lock()
	defer r.types.mu.Unlock()
	set := r.types.current.Load()
	if set.declared[id] == nil {
		return fmt.Errorf("type %q: %w", id, ErrNotFound)
	}
	next := &typeSet{declared: maps.Clone(set.declared), etags: maps.Clone(set.etags)}
	delete(next.declared, id)
	delete(next.etags, id)
	if next.resolved, err = model.ResolveAll(next.declared); err != nil {
		return fmt.Errorf("delete type %q: %w: %w", id, ErrTypeInUse, err)
	}
	some, err := r.page(ctx, ListQuery{Limit: 1, Types: []string{id}})
	if err != nil {
		return err
	}
	if len(some) > 0 {
		return fmt.Errorf("delete type %q: %w: %q is of it", id, ErrTypeInUse, some[0].ID)
	}
	if err := r.DeleteDoc(ctx, docType, id, condition); err != nil {
		return err
	}
	r.types.set(next)
	return nil
}

// TypesVersion returns a number that increases when the types change. Types that are read
// afterwards are of that version or a later one. It does no I/O.
func (r *Runtime) TypesVersion() uint64 { return r.types.version.Load() }

// Type returns a type, or ErrNotFound. It does no I/O.
func (r *Runtime) Type(id string) (StoredType, error) {
	set := r.types.current.Load()
	t := set.declared[id]
	if t == nil {
		return StoredType{}, fmt.Errorf("type %q: %w", id, ErrNotFound)
	}
	return StoredType{t, set.etags[id]}, nil
}

// Types returns all types, ordered by id. It does no I/O.
func (r *Runtime) Types() []StoredType {
	set := r.types.current.Load()
	list := make([]StoredType, 0, len(set.declared))
	for id, t := range set.declared {
		list = append(list, StoredType{t, set.etags[id]})
	}
	slices.SortFunc(list, func(a, b StoredType) int { return strings.Compare(a.ID, b.ID) })
	return list
}

// ResolvedType returns a type with everything that it inherits, or ErrNotFound. The result must not
// be changed. It does no I/O.
func (r *Runtime) ResolvedType(id string) (*model.Resolved, error) {
	if t := r.types.current.Load().resolved[id]; t != nil {
		return t, nil
	}
	return nil, fmt.Errorf("type %q: %w", id, ErrNotFound)
}

// isA reports whether a type is another or extends it.
func (r *Runtime) isA(typ, of string) bool {
	if typ == "" || typ == of {
		return typ != ""
	}
	t := r.types.current.Load().resolved[typ]
	return t != nil && t.IsA[of]
}

// typesOf returns a type and all types that extend it, nil for "".
func (r *Runtime) typesOf(id string) []string {
	if id == "" {
		return nil
	}
	list := []string{id}
	for other, t := range r.types.current.Load().resolved {
		if other != id && t.IsA[id] {
			list = append(list, other)
		}
	}
	slices.Sort(list)
	return list
}

// resolved returns the entity's type, nil if it has none.
func (e *entityActor) resolved(typ string) *model.Resolved {
	if typ == "" {
		return nil
	}
	return e.rt.types.current.Load().resolved[typ]
}

// checkTelemetry returns an error if the readings do not agree with the entity's type.
func (e *entityActor) checkTelemetry(readings []Reading) error {
	t := e.resolved(e.state.typ)
	if t == nil {
		return nil
	}
	for i := range readings {
		for j := range readings[i].Values {
			s := &readings[i].Values[j]
			if err := t.CheckTelemetry(s.Key, s.Value); err != nil {
				return fmt.Errorf("type %q: reading %d key %q: %w", e.state.typ, i, s.Key, err)
			}
		}
	}
	return nil
}

// conforms returns an error if the edit does not agree with the entity's type. It checks what the
// edit sets and, if the type is new, everything that the entity has.
func (e *entityActor) conforms(edit *Edit, next [len(sections)]section, targets map[string]string) error {
	typ := e.state.typ
	if edit.Typed {
		typ = edit.Type
	}
	t := e.resolved(typ)
	switch {
	case typ == "":
		return nil
	case t == nil && edit.Typed:
		return fmt.Errorf("type %q: %w: there is no such type", brief(typ), ErrInvalid)
	case t == nil:
		return nil
	}
	err := checkLeaves(t, edit)
	if err == nil && edit.Typed {
		err = e.conformsWholly(t, next)
	}
	if err == nil {
		err = e.checkEdges(t, edit, targets)
	}
	if err != nil {
		return fmt.Errorf("type %q: %w", typ, err)
	}
	return nil
}

func checkLeaves(t *model.Resolved, edit *Edit) error {
	for i := range edit.Attributes {
		if a := &edit.Attributes[i]; !a.Removed() {
			if err := checkLeaf(t, a.Section, &a.Attribute); err != nil {
				return err
			}
		}
	}
	return nil
}

func checkLeaf(t *model.Resolved, s Section, a *Attribute) error {
	names := strings.Split(a.Path[1:], "/")
	for i := range names {
		names[i] = unescapeMember(names[i])
	}
	if err := t.CheckAttribute(names, a.Value); err != nil {
		return fmt.Errorf("%v %s: %w", s, a.Path, err)
	}
	return nil
}

// conformsWholly checks everything that the entity has against its new type.
func (e *entityActor) conformsWholly(t *model.Resolved, next [len(sections)]section) error {
	for _, s := range sections {
		for i := range next[s-1] {
			if err := checkLeaf(t, s, &next[s-1][i]); err != nil {
				return err
			}
		}
	}
	for i := range e.state.slots {
		l := e.state.latest(i, e.rt.keys)
		if err := t.CheckTelemetry(l.Key, l.Value); err != nil {
			return fmt.Errorf("latest %q: %w", l.Key, err)
		}
	}
	return nil
}

// checkEdges checks the edges that an edit puts. targets has the types of the
// entities at the other ends.
func (e *entityActor) checkEdges(t *model.Resolved, edit *Edit, targets map[string]string) error {
	fresh := make(map[string]int) // by type of relation: how many edges are new
	for i := range edit.Relations {
		if rel := &edit.Relations[i]; rel.Removed {
			fresh[rel.Type]--
		} else if !e.rt.graph.has(e.h.id, rel.Type, rel.To) {
			fresh[rel.Type]++
		}
	}
	for i := range edit.Relations {
		rel := &edit.Relations[i]
		if rel.Removed {
			continue
		}
		to := targets[rel.To]
		if rel.To == e.h.id {
			to = t.Type.ID
		}
		isA := func(id string) bool { return e.rt.isA(to, id) }
		n := e.rt.graph.degreeOf(e.h.id, rel.Type) + fresh[rel.Type]
		if err := t.CheckRelation(rel.Type, isA, rel.Properties.Text(), n); err != nil {
			return fmt.Errorf("relation %q to %q: %w", rel.Type, rel.To, err)
		}
	}
	return nil
}
