package mapping

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/filter"
	"github.com/greenroom-go/greenroom/entity/value"
)

// model is the entity runtime in a map: a log of changes and the histories that
// come of it. It is a Reader.
type model struct {
	t          testing.TB
	log        []entity.Change
	points     map[string]map[string]map[int64]value.Value
	origins    map[string]map[string]entity.Origin // of the latest, by entity and key
	edges      map[entity.Relation]bool            // without properties
	applied    map[string]uint64                   // by entity and source
	attributes map[string]map[string]entity.Attribute
	repeats    int // outputs that were there already
}

func newModel(t testing.TB) *model {
	return &model{
		t: t, points: map[string]map[string]map[int64]value.Value{}, origins: map[string]map[string]entity.Origin{},
		edges: map[entity.Relation]bool{}, applied: map[string]uint64{}, attributes: map[string]map[string]entity.Attribute{},
	}
}

// write commits a reading.
func (m *model) write(id string, ts int64, values ...entity.Sample) {
	m.commit(id, entity.Origin{}, entity.Reading{TS: ts, Values: values})
}

func (m *model) commit(id string, from entity.Origin, readings ...entity.Reading) {
	if !from.IsZero() {
		k := id + "\x00" + from.Source
		if from.Seq <= m.applied[k] {
			m.repeats++
			return
		}
		m.applied[k] = from.Seq
	}
	for _, r := range readings {
		m.reading(id, from, r)
	}
}

func (m *model) reading(id string, from entity.Origin, r entity.Reading) {
	for _, s := range r.Values {
		if m.points[id] == nil {
			m.points[id], m.origins[id] = map[string]map[int64]value.Value{}, map[string]entity.Origin{}
		}
		if m.points[id][s.Key] == nil {
			m.points[id][s.Key] = map[int64]value.Value{}
		}
		if l, ok := m.latest(id)(s.Key); !ok || l.TS <= r.TS {
			m.origins[id][s.Key] = from
		}
		m.points[id][s.Key][r.TS] = s.Value
	}
	m.log = append(m.log, entity.Change{Seq: uint64(len(m.log) + 1), Entity: id, TS: r.TS, Values: r.Values, Origin: from})
}

// relate commits an edge or its removal.
func (m *model) relate(from, typ, to string, removed bool) {
	r := entity.Relation{From: from, Type: typ, To: to}
	if removed {
		delete(m.edges, r)
	} else {
		m.edges[r] = true
	}
	m.edit(from, &entity.Edit{Relations: []entity.RelationEdit{{Relation: r, Removed: removed}}})
}

// remove commits the end of an entity.
func (m *model) remove(id string) {
	delete(m.points, id)
	delete(m.origins, id)
	delete(m.attributes, id)
	for r := range m.edges {
		if r.From == id || r.To == id {
			delete(m.edges, r)
		}
	}
	m.edit(id, &entity.Edit{Deleted: true})
}

func (m *model) edit(id string, edit *entity.Edit) {
	m.log = append(m.log, entity.Change{Seq: uint64(len(m.log) + 1), Entity: id, Edit: edit})
}

// put commits outputs the way the service does. life tells runs of it apart.
func (m *model) put(life uint64, outputs []Output) {
	for i := range outputs {
		o := &outputs[i]
		from := entity.Origin{Source: o.source(), Seq: o.Seq}
		if o.Again {
			from.Seq = life<<32 + uint64(len(m.log))
		}
		m.commit(o.Into, from, o.Readings...)
	}
}

func (m *model) latest(id string) func(key string) (entity.Latest, bool) {
	return func(key string) (l entity.Latest, ok bool) {
		for ts, v := range m.points[id][key] {
			if !ok || ts > l.TS {
				l, ok = entity.Latest{Key: key, TS: ts, Value: v, Origin: m.origins[id][key]}, true
			}
		}
		return l, ok
	}
}

// modelView is the View of an entity of a model.
type modelView struct {
	m  *model
	id string
}

func (v modelView) Latest(key string) (entity.Latest, bool) { return v.m.latest(v.id)(key) }

func (v modelView) Attribute(s entity.Section, path string) (entity.Attribute, bool) {
	a, ok := v.m.attributes[v.id][attributeKey(s, path)]
	return a, ok
}

// set commits an attribute, or with the zero Value its removal.
func (m *model) set(id string, ts int64, s entity.Section, path string, v value.Value) {
	if m.points[id] == nil {
		m.points[id], m.origins[id] = map[string]map[int64]value.Value{}, map[string]entity.Origin{}
	}
	if m.attributes[id] == nil {
		m.attributes[id] = map[string]entity.Attribute{}
	}
	a := entity.Attribute{Path: path, TS: ts, Value: v}
	m.attributes[id][attributeKey(s, path)] = a
	if v.Kind() == 0 {
		delete(m.attributes[id], attributeKey(s, path))
	}
	m.edit(id, &entity.Edit{Attributes: []entity.AttributeEdit{{Section: s, Attribute: a}}})
}

func (m *model) Match(_ context.Context, pattern string, f func(id string, v View)) error {
	p, err := filter.ParsePattern(pattern)
	if err != nil {
		return err
	}
	for _, id := range slices.Sorted(maps.Keys(m.points)) {
		if p.Match(id) {
			f(id, modelView{m, id})
		}
	}
	return nil
}

func (m *model) Entities(_ context.Context, ids []string, f func(id string, v View)) error {
	for _, id := range ids {
		if m.points[id] != nil {
			f(id, modelView{m, id})
		}
	}
	return nil
}

func (m *model) Points(_ context.Context, id, key string, from, to int64, limit int, descending bool) ([]entity.Point, error) {
	var list []entity.Point
	for _, ts := range slices.Sorted(maps.Keys(m.points[id][key])) {
		if from <= ts && ts < to {
			list = append(list, entity.Point{TS: ts, Value: m.points[id][key][ts]})
		}
	}
	if descending {
		slices.Reverse(list)
	}
	return list[:min(limit, len(list))], nil
}

func (m *model) Related(_ context.Context, r Relation) (ids []string, err error) {
	for e := range m.edges {
		switch {
		case e.Type != r.Type:
		case r.Incoming && e.To == r.Entity:
			ids = append(ids, e.From)
		case !r.Incoming && e.From == r.Entity:
			ids = append(ids, e.To)
		}
	}
	slices.Sort(ids)
	return ids, nil
}

// live is an engine that follows a model.
type live struct {
	*model
	engine *Engine
	cursor int // changes that it has seen
	head   int // changes that were there when the mappings were loaded
	life   uint64
	names  []string
}

// follow installs mappings, given as name and statement, and follows from now on.
func follow(m *model, mappings ...string) *live {
	l := &live{model: m, engine: NewEngine(), cursor: len(m.log), life: 1}
	l.install(mappings...)
	return l
}

func (l *live) install(mappings ...string) {
	l.t.Helper()
	l.head = len(l.log)
	install := l.engine.Install
	if l.life > 1 {
		install = func(ctx context.Context, r Reader, seq uint64, mapped ...Mapping) ([]Output, error) {
			outputs, failed, err := l.engine.Restore(ctx, r, seq, mapped...)
			for _, f := range failed {
				err = errors.Join(err, f)
			}
			return outputs, err
		}
	}
	outputs, err := install(l.t.Context(), l.model, uint64(l.cursor), parseAll(l.t, mappings)...)
	if err != nil {
		l.t.Fatal(err)
	}
	for _, mapped := range parseAll(l.t, mappings) {
		l.names = append(l.names, mapped.Name)
	}
	l.put(l.life, outputs)
	l.step(0)
}

func parseAll(t testing.TB, mappings []string) (list []Mapping) {
	t.Helper()
	for _, text := range mappings {
		name, statement, _ := strings.Cut(text, ": ")
		list = append(list, Mapping{Name: name, Version: 1, Statement: mustParse(t, statement)})
	}
	return list
}

// step applies the next n changes.
func (l *live) step(n int) {
	l.t.Helper()
	if l.cursor >= l.head {
		l.engine.Live(l.names...)
	} else {
		n = min(n, l.head-l.cursor)
	}
	n = min(n, len(l.log)-l.cursor)
	changes := slices.Clone(l.log[l.cursor : l.cursor+n])
	l.cursor += n
	effects := l.engine.Apply(changes)
	l.put(l.life, effects.Outputs)
	if effects.Settled() {
		return
	}
	err := l.engine.Complete(l.t.Context(), l.model, effects, uint64(l.cursor), func(outputs []Output) error {
		l.put(l.life, outputs)
		return nil
	})
	if err != nil {
		l.t.Fatal(err)
	}
}

// settle applies what there is, what comes of it included.
func (l *live) settle() {
	l.t.Helper()
	for limit := 100_000; l.cursor < len(l.log); limit-- {
		if limit == 0 {
			l.t.Fatal("the mappings never come to rest")
		}
		l.step(100)
	}
}

func sample(key string, v any) entity.Sample {
	switch v := v.(type) {
	case int:
		return entity.Sample{Key: key, Value: value.Int(int64(v))}
	case float64:
		return entity.Sample{Key: key, Value: value.Float(v)}
	case bool:
		return entity.Sample{Key: key, Value: value.Bool(v)}
	case string:
		return entity.Sample{Key: key, Value: value.String(v)}
	case value.Value:
		return entity.Sample{Key: key, Value: v}
	}
	panic(fmt.Sprintf("no value of a %T", v))
}

// is fails the test unless the latest value of a key is v, at ts.
func (l *live) is(id, key string, ts int64, v any) {
	l.t.Helper()
	got, ok := l.latest(id)(key)
	if want := sample(key, v).Value; !ok || got.Value != want || got.TS != ts {
		l.t.Errorf("%s.%s = %v (%v) at %d, want %v (%v) at %d", id, key, got.Value, got.Value.Kind(), got.TS, want, want.Kind(), ts)
	}
}

// history is the history of a key as text.
func (m *model) history(id, key string) string {
	var b strings.Builder
	for _, ts := range slices.Sorted(maps.Keys(m.points[id][key])) {
		fmt.Fprintf(&b, "%d:%v ", ts, m.points[id][key][ts])
	}
	return strings.TrimSpace(b.String())
}

func (m *model) wantHistory(id, key, want string) {
	m.t.Helper()
	if got := m.history(id, key); got != want {
		m.t.Errorf("history of %s.%s is %s\n                     want %s", id, key, got, want)
	}
}
