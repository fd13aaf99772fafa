package filter

import (
	"errors"
	"testing"

	"github.com/greenroom-go/greenroom/entity/value"
)

// matches are filters and whether the room of the tests is one they are about,
// at noon.
var matches = []struct {
	text string
	want bool
}{
	{``, true},
	{`true`, true},
	{`false`, false},
	{`not false`, true},

	{`id = "room-12"`, true},
	{`id = "Room-12"`, false},
	{`"room-12" = id`, true},
	{`id != "room-12"`, false},
	{`id < "room-2"`, true},
	{`type = "room"`, true},
	{`type = "place"`, false},
	{`type is "place"`, true},
	{`type is not "place"`, false},
	{`type is not "meter"`, true},
	{`id prefix "room-"`, true},
	{`id prefix "ROOM-"`, false},
	{`id iprefix "ROOM-"`, true},
	{`id suffix "-12"`, true},
	{`id isuffix "M-12"`, true},
	{`id contains "om"`, true},
	{`id icontains "OOM"`, true},
	{`id like "room-__"`, true},
	{`id like "r%-_"`, false},
	{`id like "%m%1%"`, true},
	{`id ilike "R%2"`, true},
	{`id in ("a", "room-12")`, true},
	{`id not in ("a", "room-12")`, false},
	{`id not like "x%"`, true},

	{`temperature > 21`, true},
	{`temperature > 21.5`, false},
	{`temperature >= 21.5`, true},
	{`21 < temperature`, true},
	{`temperature between 21 and 22`, true},
	{`temperature not between 21 and 22`, false},
	{`temperature between 22 and 21`, false},
	{`count = 7`, true},
	{`count = 7.0`, true},
	{`count in (1, 7.0)`, true},
	{`count between attributes.location.floor and attributes.limit`, true},
	{`temperature > attributes.limit`, true},
	{`big = 9007199254740993`, true},
	{`big = 9007199254740992.0`, false},
	{`big > 9007199254740992.0`, true},
	{`occupied = true`, true},
	{`occupied != false`, true},
	{`occupied = 1`, false},
	{`door = "Open"`, true},
	{`door ilike "open"`, true},
	{`door > 5`, false},
	{`door < 5`, false},
	{`door != 5`, true},
	{"`CO2 (ppm)` >= 700", true},
	{`exists position`, true},
	{`exists(position)`, true},
	{`position contains "lat"`, false},

	// Functions.
	{`abs(0 - count) = 7`, true},
	{`floor(temperature) = 21`, true},
	{`max(count, temperature, 5) = 21.5`, true},
	{`pow(count, 2) between 49 and 49`, true},
	{`clamp(temperature, 0, attributes.limit) = attributes.limit`, true},
	{`coalesce(missing, count) = 7`, true},
	{`isnull(missing) = true`, true},
	{`sqrt(missing) = 0`, false},

	// What is not there.
	{`missing = 1`, false},
	{`missing != 1`, false},
	{`missing not in (1, 2)`, false},
	{`missing not like "a"`, false},
	{`missing not between 1 and 2`, false},
	{`not missing = 1`, true},
	{`not exists missing`, true},
	{`missing = attributes.limit`, false},
	{`attributes.limit != missing`, false},
	{`age(missing) < 1h`, false},

	// Documents.
	{`attributes.location.floor = 3`, true},
	{`exists attributes.location`, true},
	{`exists attributes.location.room`, false},
	{`exists delta`, true},
	{`delta.mode = "eco"`, true},
	{`desired.mode != reported.mode`, true},
	{`attributes.tags contains "roof"`, true},
	{`attributes.tags contains "Süd"`, true},
	{`attributes.tags contains "a\"b"`, true},
	{`attributes.tags contains "süd"`, false},
	{`attributes.tags contains 1`, true},
	{`attributes.tags contains 1.0`, true},
	{`attributes.tags contains 2.5`, true},
	{`attributes.tags contains true`, true},
	{`attributes.tags contains false`, false},
	{`attributes.tags not contains "x"`, true},

	// Times.
	{`age(temperature) = 1m`, true},
	{`age(temperature) <= 60s`, true},
	{`age(count) between 30m and 90m`, true},
	{`age(created) > 23h`, true},
	{`age(desired.mode) < 10s`, true},
	{`ts(temperature) > now - 2m`, true},
	{`ts(temperature) > now-30s`, false},
	{`ts(temperature) = 2026-01-01T11:59:00Z`, true},
	{`ts(temperature) = 2026-01-01T12:59+01:00`, true},
	{`ts(temperature) = 1767268740000`, true},
	{`created < 2026-01-01`, true},
	{`created > 2025-12-31`, true},
	{`updated <= now`, true},
	{`now >= updated`, true},
	{`2026-01-01 < now`, true},
	{`now > now - 1ms`, true},
	{`attributes.due > now`, true},
	{`attributes.due < now + 7d`, true},
	{`attributes.due < now + 1d`, false},
	{`attributes.since < now`, true},
	{`attributes.since >= 2026-01-01T11:59:59Z`, true},
	{`door < now`, false},
	{`door != now`, true},

	// Relations.
	{`related contains from "floor-3"`, true},
	{`related contains to "floor-3"`, false},
	{`related feeds from any`, false},
	{`related feeds to any`, true},
	{`related any to "fan-1"`, true},
	{`related any from "fan-1"`, false},
	{`related contains from (power > 5)`, true},
	{`related contains from (power > 15)`, false},
	{`related contains from (power > 5 and relation.weight = 3)`, true},
	{`related contains from (relation.weight > 3)`, false},
	{`related contains from (relation.note = "a\nb")`, true},
	{`related feeds to (speed < 5 and relation.pipe.bar >= 1.5)`, true},
	{`related contains from (related contains from "hq")`, true},
	{`related contains from (related contains from (type = "building"))`, true},
	{`related contains from (related contains from (type = "floor"))`, false},
	{`related contains from (id = "floor-3")`, true},
	{`not related contains from (id = "floor-4")`, true},
	{`related contains from (true)`, true},
	{`related contains from (false)`, false},

	// Structure.
	{`id = "x" or count = 7 and occupied = true`, true},
	{`(id = "x" or count = 7) and occupied = false`, false},
	{`not (id = "x" or occupied = false)`, true},
	{`not not count = 7`, true},
	{`5 = 5.0 and "a" < "b"`, true},
	{`5 in (1, 2) or 3 between 1 and 5`, true},
	{`true and (false or count = 7)`, true},
	{`true = occupied`, true},
	{`3 not between 1 and 5`, false},
	{`6 not between 1 and 5 and 6 not in (1, 2)`, true},
	{`count not in (7)`, false},
}

func TestFilterMatches(t *testing.T) {
	for _, m := range matches {
		f, err := Parse(m.text)
		if err != nil {
			t.Errorf("%s: %v", m.text, err)
			continue
		}
		e := Env{Now: noon}
		if got := f.Match(room(), &e); got != m.want || e.Err() != nil {
			t.Errorf("%s is %v, %v; want %v", m.text, got, e.Err(), m.want)
		}
		if again, err := Parse(f.String()); err != nil || again.String() != f.String() || again.Match(room(), &e) != m.want {
			t.Errorf("%s: the canonical form %s is another filter, %v", m.text, f, err)
		}
	}
}

func TestAnEntityWithoutATypeHasNone(t *testing.T) {
	nameless := &thing{id: "x"}
	for _, text := range []string{`type = "a"`, `type != "a"`, `type is "a"`, `type is not "a"`, `exists type`, `type like "%"`} {
		f, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if f.Match(nameless, &Env{}) {
			t.Errorf("%s matches an entity that has no type", text)
		}
	}
}

// frozen is a thing whose lookups allocate nothing.
type frozen struct {
	*thing
	found map[Path]value.Value
	set   map[Path]int64
}

func (f *frozen) Lookup(p *Path) (value.Value, bool) { v, ok := f.found[*p]; return v, ok }
func (f *frozen) Time(p *Path) (int64, bool)         { ms, ok := f.set[*p]; return ms, ok }

// Related has every entity related to itself.
func (f *frozen) Related(r *Relation, e *Env) bool { return r.Match(f, e) }

func TestMatchingAllocatesNothing(t *testing.T) {
	v := &frozen{room(), make(map[Path]value.Value), make(map[Path]int64)}
	for _, m := range matches {
		f, err := Parse(m.text)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range f.paths {
			if x, ok := v.thing.Lookup(p); ok {
				v.found[*p] = x
			}
			if ms, ok := v.thing.Time(p); ok {
				v.set[*p] = ms
			}
		}
		e := Env{Now: noon}
		if n := testing.AllocsPerRun(100, func() { f.Match(v, &e) }); n > 0 {
			t.Errorf("%s: a match allocates %v times", m.text, n)
		}
	}
}

func TestRelatedIsBoundedByTheBudget(t *testing.T) {
	hub := &thing{id: "hub"}
	for range 100 {
		spoke := &thing{id: "spoke"}
		spoke.set("power", value.Int(1), 0)
		hub.edges = append(hub.edges, edge{typ: "contains", to: spoke})
	}
	for text, want := range map[string]bool{
		`related contains to (power > 5)`:               false,
		`not related contains to (power > 5)`:           false,
		`id = "hub" or related contains to (power > 5)`: true, // needs none
	} {
		f, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		enough := Env{MaxVisits: 100}
		f.Match(hub, &enough)
		if err := enough.Err(); err != nil {
			t.Errorf("%s: with enough visits: %v", text, err)
		}
		few := Env{MaxVisits: 99}
		if got := f.Match(hub, &few); got != want || errors.Is(few.Err(), ErrVisits) == want {
			t.Errorf("%s: with too few visits: %v, %v", text, got, few.Err())
		}
	}
}

func TestBindGivesAViewItsSlots(t *testing.T) {
	f, err := Parse(`temperature > 5 and attributes.a < 3 and temperature < 9`)
	if err != nil {
		t.Fatal(err)
	}
	bound := f.Bind(func(p Path) int { return len(p.String()) })
	if bound.String() != f.String() {
		t.Errorf("bound is %s, was %s", bound, f)
	}
	for _, p := range bound.Paths() {
		if p.Slot != len(p.String()) {
			t.Errorf("%s has the slot %d", p, p.Slot)
		}
	}
	for _, p := range f.Paths() {
		if p.Slot != 0 {
			t.Errorf("binding changed the filter that was bound: %s has the slot %d", p, p.Slot)
		}
	}
	if len(bound.Paths()) != 2 {
		t.Errorf("the paths are %v", bound.Paths())
	}
}

func TestDependsNamesWhatElseChangesTheAnswer(t *testing.T) {
	for text, want := range map[string]Depends{
		`temperature > 5 and attributes.a != desired.b`: {},
		`age(temperature) < 5m`:                         {Clock: true},
		`created > now - 1d or a = 1`:                   {Clock: true},
		`not a between 1 and now`:                       {Clock: true},
		`now > now - 5m`:                                {},
		`related any to "x"`:                            {Relations: true},
		`related any to (id = "x")`:                     {Relations: true},
		`not related any to (age(a) < 5m)`:              {Relations: true, Related: true, Clock: true},
	} {
		f, err := Parse(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
		} else if got := f.Depends(); got != want {
			t.Errorf("%s depends on %+v, want %+v", text, got, want)
		}
	}
}
