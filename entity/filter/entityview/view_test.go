package entityview_test

import (
	"errors"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/filter"
	"github.com/greenroom-go/greenroom/entity/filter/entityview"
	"github.com/greenroom-go/greenroom/entity/value"
)

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
func (r *record) Presence() entity.Presence {
	return entity.Presence{State: entity.PresenceOnline, Since: 3000}
}

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
	floor := &record{id: "floor-3", typ: "floor", latest: []entity.Latest{{Key: "power", TS: 9000, Value: value.Int(7)}}}
	meter := &record{
		id: "m-1", typ: "meter",
		latest: []entity.Latest{{Key: "presence", Value: value.Int(5)}, {Key: "presence.online", Value: value.Int(6)}, {Key: "power", TS: 9000, Value: value.Float(7.5)}, {Key: "tags", TS: 1, Value: entity.ParseJSON([]byte(`["roof"]`))}},
		attributes: map[entity.Section][]entity.Attribute{
			entity.Attributes: {{Path: "/a~1b/c", TS: 5000, Value: value.String("x")}},
			entity.Desired:    {{Path: "/mode", TS: 6000, Value: value.String("eco")}, {Path: "/rate", TS: 6000, Value: value.Int(5)}},
			entity.Reported:   {{Path: "/mode", TS: 7000, Value: value.String("eco")}, {Path: "/rate", TS: 6000, Value: value.Int(4)}},
		},
		relations: map[entity.Direction][]entity.Relation{
			entity.In: {{From: "floor-3", To: "m-1", Type: "contains", Properties: entity.ParseJSON([]byte(`{"weight":2}`))}},
		},
	}
	v := entityview.New(meter, func(id string, look func(entity.View)) error {
		if id == floor.id {
			look(floor)
		}
		return nil
	})
	for text, want := range map[string]bool{
		`id = "m-1" and type is "base" and power = 7.5 and age(power) = 1s`:                  true,
		"attributes.`a/b`.c = \"x\" and exists attributes.`a/b` and not exists attributes.d": true,
		`ts(desired.mode) = 6000 and created = 1000 and updated = 2000`:                      true,
		`tags contains "roof"`: true,
		`exists delta and delta.rate = 5 and age(delta.rate) = 4s`: true,
		`exists delta.mode or age(delta.mode) > 0s`:                false,
		`presence.online and not presence.connected and presence.since = 1970-01-01T00:00:03Z and exists presence.since and not exists presence.seen`: true,
		`presence = 5 and ` + "`presence.online`" + ` = 6`:                 true,
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

func TestRelatedEntitiesThatCannotBeHadDoNotMatch(t *testing.T) {
	gone := errors.New("gone")
	meter := &record{id: "m-1", relations: map[entity.Direction][]entity.Relation{
		entity.Out: {{From: "m-1", To: "a", Type: "feeds"}, {From: "m-1", To: "b", Type: "feeds"}},
	}}
	asked := 0
	for name, find := range map[string]entityview.Finder{
		"no finder": nil,
		"an error":  func(string, func(entity.View)) error { asked++; return gone },
		"nobody":    func(string, func(entity.View)) error { return nil },
	} {
		v := entityview.New(meter, find)
		for text, want := range map[string]bool{
			`related feeds to "b"`:             true,
			`related feeds to (id = "b")`:      true, // decided by the id
			`related feeds to (power != 1)`:    false,
			`not related feeds to (power = 1)`: true,
		} {
			f, err := filter.Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			if got := f.Match(v, &filter.Env{}); got != want {
				t.Errorf("%s, %s is %v, want %v", name, text, got, want)
			}
		}
	}
	if asked != 2 {
		t.Errorf("a finder that failed was asked %d times by 2 filters", asked)
	}
}
