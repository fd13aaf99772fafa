package filter

import (
	"slices"
	"strings"

	"github.com/greenroom-go/greenroom/entity/value"
)

// thing is an entity of the tests: everything by its name, as a filter has it.
type thing struct {
	id, typ  string
	types    []string // its type and what that extends
	values   map[string]value.Value
	times    map[string]int64
	edges    []edge
	property string // JSON object: of the relation that led here
}

type edge struct {
	typ      string
	to       *thing // the entity at the other end
	from     bool   // the relation comes from there
	property string
}

func (t *thing) Lookup(p *Path) (value.Value, bool) {
	switch p.Root {
	case RootID:
		return value.String(t.id), true
	case RootType:
		return value.String(t.typ), t.typ != ""
	case RootRelation:
		return value.At(t.property, p.Name)
	default:
		v, ok := t.values[p.Root.String()+" "+p.Name]
		return v, ok
	}
}

func (t *thing) Time(p *Path) (int64, bool) {
	ms, ok := t.times[p.Root.String()+" "+p.Name]
	return ms, ok
}

func (t *thing) Is(id string) bool { return slices.Contains(t.types, id) }

func (t *thing) Related(r *Relation, e *Env) bool {
	for _, x := range t.edges {
		if r.Type != "" && x.typ != r.Type || x.from != (r.Direction == From) || r.ID != "" && x.to.id != r.ID {
			continue
		}
		if r.Decided() {
			if r.Match(nil, e) {
				return true
			}
			continue
		}
		other := *x.to
		other.property = x.property
		if r.Match(&other, e) {
			return true
		}
		if e.Err() != nil {
			return false
		}
	}
	return false
}

// set stores a value by the path as a filter has it.
func (t *thing) set(path string, v value.Value, ts int64) *thing {
	n, paths, err := parse("exists " + path)
	if err != nil || n == nil {
		panic(err)
	}
	if t.values == nil {
		t.values, t.times = make(map[string]value.Value), make(map[string]int64)
	}
	at := paths[0].Root.String() + " " + paths[0].Name
	t.values[at] = v
	if !strings.HasSuffix(paths[0].Root.String(), "ed") || paths[0].Root.document() {
		t.times[at] = ts
	}
	return t
}

const noon = 1_767_268_800_000 // 2026-01-01T12:00:00Z

// room is a thing with some of everything.
func room() *thing {
	t := &thing{id: "room-12", typ: "room", types: []string{"room", "place"}}
	t.set("temperature", value.Float(21.5), noon-60_000).
		set("count", value.Int(7), noon-3_600_000).
		set("occupied", value.Bool(true), noon-1000).
		set("door", value.String("Open"), noon).
		set("`CO2 (ppm)`", value.Float(700), noon).
		set("big", value.Int(1<<53+1), noon).
		set("position", value.JSON(`{"lat":50.5}`), noon).
		set("created", value.Time(noon-86_400_000), 0).
		set("updated", value.Time(noon-60_000), 0).
		set("attributes.location", value.JSON("{}"), 0).
		set("attributes.location.floor", value.Int(3), noon-7*86_400_000).
		set("attributes.tags", value.JSON(`["roof","Süd","a\"b",1,2.5,true]`), noon).
		set("attributes.due", value.String("2026-01-05"), noon).
		set("attributes.since", value.Int(noon-1000), noon).
		set("attributes.limit", value.Int(20), noon).
		set("desired", value.JSON("{}"), 0).
		set("desired.mode", value.String("eco"), noon-5000).
		set("reported.mode", value.String("heat"), noon-9000).
		set("delta", value.JSON("{}"), 0).
		set("delta.mode", value.String("eco"), noon-5000)
	floor := &thing{id: "floor-3", typ: "floor"}
	floor.set("power", value.Float(9), noon)
	building := &thing{id: "hq", typ: "building"}
	floor.edges = []edge{{typ: "contains", to: building, from: true}}
	fan := &thing{id: "fan-1", typ: "fan"}
	fan.set("speed", value.Int(3), noon)
	t.edges = []edge{
		{typ: "contains", to: floor, from: true, property: `{"weight":3,"note":"a\nb"}`},
		{typ: "feeds", to: fan, property: `{"pipe":{"bar":1.5}}`},
	}
	return t
}
