package filter_test

import (
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/filter"
)

// view shows an entity.View to a filter: this is all that is needed between the
// two packages, neither of which has to know the other.
type view struct {
	entity.View
	edge    entity.Value // the properties of the relation that led here
	related func(id string) (entity.View, bool)
}

var sections = map[filter.Root]entity.Section{
	filter.RootAttributes: entity.Attributes, filter.RootDesired: entity.Desired, filter.RootReported: entity.Reported,
}

func (v view) Lookup(p *filter.Path) (filter.Value, bool) {
	switch p.Root {
	case filter.RootID:
		return filter.String(v.ID()), true
	case filter.RootType:
		return filter.String(v.Type()), v.Type() != ""
	case filter.RootCreated:
		return filter.Time(v.Created()), true
	case filter.RootUpdated:
		return filter.Time(v.Updated()), true
	case filter.RootLatest:
		l, ok := v.Latest(p.Name)
		return value(l.Value), ok
	case filter.RootRelation:
		return filter.JSONAt(v.edge.Text(), p.Name)
	case filter.RootDelta:
		return v.delta(p)
	default:
		return v.leaf(p)
	}
}

func (v view) leaf(p *filter.Path) (filter.Value, bool) {
	if a, ok := v.Attribute(sections[p.Root], p.Name); ok {
		return value(a.Value), true
	}
	return filter.JSON("{}"), v.Has(sections[p.Root], p.Name)
}

func (v view) delta(p *filter.Path) (filter.Value, bool) {
	for a := range v.EachAttribute(entity.Desired) {
		if a.Path != p.Name && !strings.HasPrefix(a.Path, p.Name+"/") {
			continue
		}
		if r, ok := v.Attribute(entity.Reported, a.Path); ok && r.Value.Equal(a.Value) {
			continue
		}
		if a.Path == p.Name {
			return value(a.Value), true
		}
		return filter.JSON("{}"), true
	}
	return filter.Value{}, false
}

func (v view) Time(p *filter.Path) (int64, bool) {
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
		a, ok := v.Attribute(sections[p.Root], p.Name)
		return a.TS, ok
	}
}

func (v view) Is(typeID string) bool { return v.IsA(typeID) }

func (v view) Related(r *filter.Relation, e *filter.Env) bool {
	direction := entity.Out
	if r.Direction == filter.From {
		direction = entity.In
	}
	for x := range v.Relations(direction) {
		other := x.To
		if r.Direction == filter.From {
			other = x.From
		}
		if r.Type != "" && x.Type != r.Type || r.ID != "" && other != r.ID {
			continue
		}
		if r.Decided() {
			return r.Match(nil, e)
		}
		if w, ok := v.related(other); ok && r.Match(view{w, x.Properties, v.related}, e) {
			return true
		}
		if e.Err() != nil {
			return false
		}
	}
	return false
}

func value(v entity.Value) filter.Value {
	switch v.Kind() {
	case entity.KindFloat:
		return filter.Float(v.Float())
	case entity.KindInt:
		return filter.Int(v.Int())
	case entity.KindBool:
		return filter.Bool(v.Bool())
	case entity.KindString:
		return filter.String(v.Text())
	default:
		return filter.JSON(v.Text())
	}
}

// record is an entity.View of what is written down in it.
type record struct {
	entity.View
	id, typ    string
	latest     []entity.Latest
	attributes map[entity.Section][]entity.Attribute
	relations  map[entity.Direction][]entity.Relation
}

func (r *record) ID() string         { return r.id }
func (r *record) Type() string       { return r.typ }
func (r *record) IsA(id string) bool { return id == r.typ || id == "base" }
func (r *record) Created() int64     { return 1000 }
func (r *record) Updated() int64     { return 2000 }
func (r *record) Relations(d entity.Direction) iter.Seq[entity.Relation] {
	return slices.Values(r.relations[d])
}

func (r *record) Latest(key string) (entity.Latest, bool) {
	i := slices.IndexFunc(r.latest, func(l entity.Latest) bool { return l.Key == key })
	if i < 0 {
		return entity.Latest{}, false
	}
	return r.latest[i], true
}

func (r *record) Attribute(s entity.Section, path string) (entity.Attribute, bool) {
	i := slices.IndexFunc(r.attributes[s], func(a entity.Attribute) bool { return a.Path == path })
	if i < 0 {
		return entity.Attribute{}, false
	}
	return r.attributes[s][i], true
}

func (r *record) EachAttribute(s entity.Section) iter.Seq[entity.Attribute] {
	return slices.Values(r.attributes[s])
}

func (r *record) Has(s entity.Section, path string) bool {
	return slices.ContainsFunc(r.attributes[s], func(a entity.Attribute) bool {
		return a.Path == path || strings.HasPrefix(a.Path, path+"/")
	})
}

func TestAnEntityViewCanBeMatched(t *testing.T) {
	floor := &record{id: "floor-3", typ: "floor", latest: []entity.Latest{{Key: "power", TS: 9000, Value: entity.Int(7)}}}
	meter := &record{
		id: "m-1", typ: "meter",
		latest: []entity.Latest{{Key: "power", TS: 9000, Value: entity.Float(7.5)}, {Key: "tags", TS: 1, Value: entity.JSON([]byte(`["roof"]`))}},
		attributes: map[entity.Section][]entity.Attribute{
			entity.Attributes: {{Path: "/a~1b/c", TS: 5000, Value: entity.String("x")}},
			entity.Desired:    {{Path: "/mode", TS: 6000, Value: entity.String("eco")}, {Path: "/rate", TS: 6000, Value: entity.Int(5)}},
			entity.Reported:   {{Path: "/mode", TS: 7000, Value: entity.String("eco")}, {Path: "/rate", TS: 6000, Value: entity.Int(4)}},
		},
		relations: map[entity.Direction][]entity.Relation{
			entity.In: {{From: "floor-3", To: "m-1", Type: "contains", Properties: entity.JSON([]byte(`{"weight":2}`))}},
		},
	}
	v := view{View: meter, related: func(id string) (entity.View, bool) { return floor, id == floor.id }}
	for text, want := range map[string]bool{
		`id = "m-1" and type is "base" and power = 7.5 and age(power) = 1s`:                  true,
		"attributes.`a/b`.c = \"x\" and exists attributes.`a/b` and not exists attributes.d": true,
		`ts(desired.mode) = 6000 and created = 1000 and updated = 2000`:                      true,
		`tags contains "roof"`: true,
		`exists delta and delta.rate = 5 and age(delta.rate) = 4s`:         true,
		`exists delta.mode or age(delta.mode) > 0s`:                        false,
		`related contains from "floor-3"`:                                  true,
		`related contains to any`:                                          false,
		`related any from (power = 7 and relation.weight = 2)`:             true,
		`related contains from (power > 7 or relation.weight > 2)`:         false,
		`related contains from (related contains from any) or missing = 1`: false,
	} {
		f, err := filter.Parse(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		e := filter.Env{Now: 10_000}
		if got := f.Match(v, &e); got != want {
			t.Errorf("%s is %v, want %v", text, got, want)
		}
	}
}
