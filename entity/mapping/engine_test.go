package mapping

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/value"
	"github.com/greenroom-go/greenroom/internal/depth"
)

func TestTheSeedsMapping(t *testing.T) {
	m := newModel(t)
	l := follow(m, "m: insert into entity3 select entity1.property1 as property1, entity2.property2.name as property2, entity1.property1 + entity2.property3 as property3")
	m.write("entity1", 10, sample("property1", 1))
	l.settle()
	l.is("entity3", "property1", 10, 1)
	m.write("entity2", 20, sample("property2", entity.ParseJSON([]byte(`{"name":"hall","size":3}`))), sample("property3", 2.5))
	l.settle()
	l.is("entity3", "property2", 20, "hall")
	l.is("entity3", "property3", 20, 3.5)
	m.write("entity1", 30, sample("property1", 4))
	l.settle()
	m.wantHistory("entity3", "property1", "10:1 30:4")
	m.wantHistory("entity3", "property3", "20:3.5 30:6.5")
	if n := len(m.log); n != 3+3 {
		t.Errorf("%d changes, want one reading for each reading of a source", n)
	}
}

// The target takes one output of a source with a number: values that stand behind as many behaviors are one output,
// whatever they are computed from.
func TestOutputsOfOneChangeHaveDifferentSources(t *testing.T) {
	m := newModel(t)
	m.write("a", 5, sample("x", 1))
	l := follow(m, "m: insert into e select a.x as one, sum(m.x) as many from (a, b) as m")
	for n, want := range []int{0: 1, 1: 1, 2: 2, 3: 3} {
		m.commit("a", entity.Origin{Source: depth.With("behavior:b@1", n), Seq: uint64(n + 1)}, entity.Reading{TS: int64(10 + n), Values: []entity.Sample{sample("x", 2)}}) //nolint:gosec // not negative
		c := m.log[len(m.log)-1]
		if n == 0 {
			c.Origin = entity.Origin{}
		}
		if out := l.engine.Apply([]entity.Change{c}).Outputs; len(out) != 1 || len(out[0].Readings[0].Values) != 2 || out[0].Depth != want {
			t.Errorf("of a change behind which %d behaviors stand: %+v", n, out)
		}
	}
}

func TestAValueSaysWhereItIsFrom(t *testing.T) {
	m := newModel(t)
	follow(m, "m: insert into e select a.x * 2 as y").settle()
	m.write("b", 5, sample("x", 1))
	m.write("a", 7, sample("x", 1))
	l := &live{model: m, engine: NewEngine(), life: 1}
	l.install("m: insert into e select a.x * 2 as y")
	l.engine.Live("m")
	effects := l.engine.Apply(m.log)
	if len(effects.Outputs) != 1 {
		t.Fatalf("%+v", effects.Outputs)
	}
	if o := effects.Outputs[0]; o.Mapping != "m" || o.Version != 1 || o.Seq != 2 || o.Readings[0].TS != 7 || o.Into != "e" {
		t.Errorf("got %+v, want the mapping, the time and the number of the newest change", o)
	}
}

func TestALateReadingChangesWhatWasComputedWithoutIt(t *testing.T) {
	m := newModel(t)
	l := follow(m, "m: insert into e select a.x + b.y as z")
	m.write("b", 10, sample("y", 100))
	for ts := 20; ts <= 60; ts += 10 {
		m.write("a", int64(ts), sample("x", ts))
	}
	l.settle()
	m.wantHistory("e", "z", "20:120 30:130 40:140 50:150 60:160")
	m.write("b", 35, sample("y", 200)) // between 30 and 40, and nothing newer of b
	l.settle()
	m.wantHistory("e", "z", "20:120 30:130 35:230 40:240 50:250 60:260")
	m.write("b", 25, sample("y", 300)) // in effect up to 35
	l.settle()
	m.wantHistory("e", "z", "20:120 25:320 30:330 35:230 40:240 50:250 60:260")
	m.write("a", 30, sample("x", 0)) // the same moment: it replaces
	l.settle()
	m.wantHistory("e", "z", "20:120 25:320 30:300 35:200 40:240 50:250 60:260")
}

func TestAReadingLaterThanTheMemoryIsDerivedFromTheHistory(t *testing.T) {
	m := newModel(t)
	l := follow(m, "m: insert into e select a.x + b.y as z")
	m.write("b", 1, sample("y", 0))
	for ts := 10; ts < 10+10*recent; ts += 5 {
		m.write("a", int64(ts), sample("x", ts))
		l.settle()
	}
	m.write("b", 12, sample("y", 1000))
	m.write("b", 22, sample("y", 2000))
	l.settle()
	got := m.history("e", "z")
	if want := "10:10 12:1010 15:1015 20:1020 22:2020 25:2025 30:2030"; !strings.HasPrefix(got, want) {
		t.Errorf("history is %s\n      want %s …", got, want)
	}
}

func TestWindowsOfOneEntity(t *testing.T) {
	m := newModel(t)
	l := follow(m, `m: insert into e select avg(a.x) over last 3 as mean, max(a.x) over 20ms as top, count(a.x) over 20ms as n,
		first(a.x) over last 3 as oldest, last(a.x) over 1h as newest, sum(a.x) over last 2 as sum, min(a.x) over last 2 as low`)
	for i, x := range []int{5, 1, 9, 2, 4} {
		m.write("a", int64(10*(i+1)), sample("x", x))
	}
	l.settle()
	m.wantHistory("e", "mean", "10:5 20:3 30:5 40:4 50:5")
	m.wantHistory("e", "top", "10:5 20:5 30:9 40:9 50:4")
	m.wantHistory("e", "n", "10:1 20:2 30:2 40:2 50:2")
	m.wantHistory("e", "oldest", "10:5 20:5 30:5 40:1 50:9")
	m.wantHistory("e", "newest", "10:5 20:1 30:9 40:2 50:4")
	m.wantHistory("e", "sum", "10:5 20:6 30:10 40:11 50:6")
	m.wantHistory("e", "low", "10:5 20:1 30:1 40:2 50:2")
	m.write("a", 35, sample("x", 30)) // late
	l.settle()
	m.wantHistory("e", "sum", "10:5 20:6 30:10 35:39 40:32 50:6")
	m.wantHistory("e", "top", "10:5 20:5 30:9 35:30 40:30 50:30")
	l.is("e", "mean", 50, 12.0)
}

func TestFanInOverAPattern(t *testing.T) {
	m := newModel(t)
	m.write("meter-1-a", 5, sample("power", 10))
	m.write("meter-2-a", 5, sample("power", 1000))
	l := follow(m, `floor: insert into "floor-1" select sum(m.power) as power, avg(m.power) as mean, min(m.power) as low, max(m.power) as top,
		count(m.power) as n, last(m.power) as newest from like 'meter-1-%' as m`)
	l.is("floor-1", "power", 5, 10)
	m.write("meter-1-b", 7, sample("power", 5.5))
	m.write("meter-1-c", 6, sample("power", "broken"))
	l.settle()
	l.is("floor-1", "power", 7, 15.5)
	l.is("floor-1", "mean", 7, 7.75)
	l.is("floor-1", "low", 7, 5.5)
	l.is("floor-1", "top", 7, 10)
	l.is("floor-1", "n", 7, 3)
	l.is("floor-1", "newest", 7, 5.5)
	m.write("meter-1-a", 9, sample("power", 1))
	m.write("meter-1-a", 8, sample("power", 500)) // late: the history has it, the floor does not
	l.settle()
	l.is("floor-1", "power", 9, 6.5)
	m.remove("meter-1-a")
	l.settle()
	l.is("floor-1", "power", 9, 5.5) // never older than what was there
	l.is("floor-1", "n", 9, 2)
	m.write("meter-1-a", 10, sample("power", 2)) // back under its name
	l.settle()
	l.is("floor-1", "power", 10, 7.5)
}

func TestFanInIsComputedOnceForManyChanges(t *testing.T) {
	m := newModel(t)
	l := follow(m, "floor: insert into floor select sum(m.power) as power from like 'm%' as m")
	for i := range 100 {
		m.write(fmt.Sprintf("m%d", i), int64(i+1), sample("power", 1))
	}
	l.step(100)
	if got := len(m.log) - 100; got != 1 {
		t.Errorf("%d readings of the floor for 100 changes at once, want 1", got)
	}
	l.is("floor", "power", 100, 100)
}

func TestFanInOverAList(t *testing.T) {
	m := newModel(t)
	l := follow(m, "m: insert into e select sum(m.x) / r.area as density from (a, b, c) as m, room as r")
	m.write("a", 1, sample("x", 6))
	m.write("b", 2, sample("x", 4))
	l.settle()
	if h := m.history("e", "density"); h != "" {
		t.Errorf("without an area the density is %s", h)
	}
	m.write("room", 3, sample("area", 4))
	m.write("d", 4, sample("x", 4)) // not in the list
	l.settle()
	l.is("e", "density", 3, 2.5)
	m.remove("a")
	l.settle()
	l.is("e", "density", 3, 1.0)
	m.write("a", 5, sample("x", 0))
	m.write("c", 6, sample("x", 8))
	l.settle()
	l.is("e", "density", 6, 3.0)
}

func TestFanInOverRelationsFollowsThem(t *testing.T) {
	m := newModel(t)
	m.write("m1", 1, sample("power", 1))
	m.write("m2", 2, sample("power", 20))
	m.relate("floor", "contains", "m1", false)
	l := follow(m,
		"out: insert into floor select coalesce(sum(m.power), 0) as power from floor -> contains as m",
		"in: insert into hall select sum(m.power) as power from hall <- locatedIn as m")
	l.is("floor", "power", 1, 1)
	m.relate("floor", "contains", "m2", false)
	m.relate("floor", "other", "m3", false)
	m.relate("m2", "locatedIn", "hall", false)
	m.relate("floor", "contains", "m3", false)
	l.settle()
	l.is("floor", "power", 2, 21)
	l.is("hall", "power", 2, 20)
	m.write("m3", 5, sample("power", 300))
	l.settle()
	l.is("floor", "power", 5, 321)
	m.relate("floor", "contains", "m1", true)
	m.relate("floor", "contains", "m3", true)
	l.settle()
	l.is("floor", "power", 5, 20)
	m.write("m1", 6, sample("power", 7)) // does not belong to it any more
	l.settle()
	l.is("floor", "power", 5, 20)
	m.remove("floor") // and all its relations
	l.settle()
	m.write("m2", 9, sample("power", 8))
	l.settle()
	if h := m.history("floor", "power"); strings.Contains(h, "8") {
		t.Errorf("the floor that was deleted has %s", h)
	}
	l.is("hall", "power", 9, 8)
}

func TestAWindowOverAGroup(t *testing.T) {
	m := newModel(t)
	m.write("m1", 1, sample("x", 1))
	m.write("m2", 95, sample("x", 2))
	m.write("m2", 96, sample("x", 3))
	l := follow(m, "m: insert into e select sum(m.x) over 10ms as sum, count(m.x) over 10ms as n, max(m.x) over 10ms as top, first(m.x) over 10ms as oldest from like 'm%' as m")
	l.is("e", "sum", 96, 5)
	m.write("m1", 100, sample("x", 100))
	m.write("m3", 97, sample("x", 10)) // late, but inside
	m.write("m3", 90, sample("x", 7000))
	m.write("m3", 91, sample("x", 1))
	l.settle()
	l.is("e", "sum", 100, 116)
	l.is("e", "n", 100, 5)
	l.is("e", "top", 100, 100)
	l.is("e", "oldest", 100, 1)
	m.write("m1", 106, sample("x", 4))
	l.settle()
	l.is("e", "sum", 106, 114) // 97, 100 and 106
	m.remove("m1")             // the window goes back with the newest reading
	l.settle()
	l.is("e", "sum", 106, 7016) // from 88 to 97, with the time that was reached
}

func TestAttributesAreParameters(t *testing.T) {
	m := newModel(t)
	l := follow(m,
		"cal: insert into e select a.x * a@attributes.factor + ifnull(a@attributes.\"off set\".zero, 0) as y",
		"floor: insert into floor select sum(m.power) / floor@attributes.area as density, sum(m@attributes.rated) as rated, coalesce(a@desired.limit, 5) + max(m.power) as head from like 'm%' as m")
	m.write("a", 10, sample("x", 2))
	m.write("m1", 10, sample("power", 30))
	l.settle()
	if h := m.history("e", "y") + m.history("floor", "density"); h != "" {
		t.Errorf("without the attributes there is %s", h)
	}
	m.set("a", 500, entity.Attributes, "/factor", value.Int(3))
	m.set("floor", 500, entity.Attributes, "/area", value.Int(10))
	m.set("m1", 600, entity.Attributes, "/rated", value.Int(100))
	m.set("m2", 700, entity.Attributes, "/rated", value.Int(50)) // known by its attributes alone
	l.settle()
	m.wantHistory("e", "y", "10:6") // at the time of the reading
	l.is("floor", "density", 10, 3.0)
	l.is("floor", "rated", 700, 150)
	l.is("floor", "head", 10, 35)
	m.write("a", 20, sample("x", 4))
	m.set("a", 800, entity.Attributes, "/off set/zero", value.Float(0.5))
	m.set("a", 800, entity.Desired, "/limit", value.Int(7))
	l.settle()
	m.wantHistory("e", "y", "10:6 20:12.5")
	m.write("a", 15, sample("x", 1)) // late: the parameters are those of now
	l.settle()
	m.wantHistory("e", "y", "10:6 15:3.5 20:12.5")
	m.set("m1", 900, entity.Attributes, "/rated", value.Value{})
	m.set("a", 900, entity.Attributes, "/off set/zero", value.Value{})
	l.settle()
	l.is("e", "y", 20, 12)
	l.is("floor", "rated", 900, 50)
	l.is("floor", "head", 10, 37)
	l = &live{model: m, engine: NewEngine(), cursor: 0, life: 2}
	before := m.history("e", "y")
	l.install("cal: insert into e select a.x * a@attributes.factor + ifnull(a@attributes.\"off set\".zero, 0) as y")
	l.settle()
	m.wantHistory("e", "y", before) // a changed parameter does not change the past
}

func TestChainsAndDiamondsComeToRest(t *testing.T) {
	m := newModel(t)
	l := follow(m,
		"d: insert into d select b.x + c.x as x",
		"b: insert into b select a.x * 2 as x",
		"c: insert into c select a.x * 3 as x",
		"deep: insert into z select d.x - a.x as x")
	for ts := range 20 {
		m.write("a", int64(ts+1), sample("x", ts))
		if ts%3 == 0 {
			l.settle()
		}
	}
	l.settle()
	for ts := range 20 {
		if got := m.points["z"]["x"][int64(ts+1)]; got != value.Int(int64(4*ts)) {
			t.Errorf("at %d the end of the chain is %v, want %d", ts+1, got, 4*ts)
		}
	}
}

func TestErrorsOfAnEvaluationAreCountedAndNothingIsWritten(t *testing.T) {
	m := newModel(t)
	l := follow(m, "m: insert into e select 1 / a.x as inverse, sqrt(a.x) as root, a.y + 1 as more, a.x as x")
	for i, v := range []any{2, 0, -4, "text"} {
		m.write("a", int64(i+1), sample("x", v), sample("y", []any{1, true, int(9223372036854775807 >> 1), 9223372036854775807}[i]))
	}
	l.settle()
	m.wantHistory("e", "inverse", "1:0.5 3:-0.25")
	m.wantHistory("e", "root", "1:1.4142135623730951 2:0")
	m.wantHistory("e", "more", "1:2 3:4611686018427387904")
	m.wantHistory("e", "x", `1:2 2:0 3:-4 4:"text"`)
	x := l.engine.mappings["m"]
	for i, want := range []string{"a number is needed, not a string", "a number is needed", "the integer is beyond 64 bits", ""} {
		if got := x.fields[i].failure; !strings.Contains(got, want) || want == "" && got != "" {
			t.Errorf("the last failure of field %d is %q, want %q", i, got, want)
		}
	}
	if x.fields[0].failures != 2 {
		t.Errorf("%d failures of the first field, want 2", x.fields[0].failures)
	}
}

func TestReplacingAndRemoving(t *testing.T) {
	m := newModel(t)
	l := follow(m, "m: insert into e select a.x + 1 as y")
	m.write("a", 1, sample("x", 1))
	l.settle()
	l.is("e", "y", 1, 2)
	l.install("m: insert into e select a.x + 10 as y")
	l.is("e", "y", 1, 11)
	m.write("a", 2, sample("x", 2))
	l.settle()
	m.wantHistory("e", "y", "1:11 2:12")
	if !l.engine.Remove("m") || l.engine.Remove("m") {
		t.Error("removed not once")
	}
	m.write("a", 3, sample("x", 3))
	l.settle()
	m.wantHistory("e", "y", "1:11 2:12")
	e := l.engine
	if len(e.entities)+len(e.targets)+len(e.byKey)+len(e.related)+len(e.patterns.byPrefix)+len(e.patterns.lengths) != 0 {
		t.Errorf("something is left: %+v", e)
	}
}

// broken is a reader that fails.
type broken struct{ *model }

var errBroken = errors.New("broken")

func (b broken) Points(_ context.Context, id, key string, from, to int64, limit int, descending bool) ([]entity.Point, error) {
	return nil, errBroken
}

func TestAnInstallThatFailsChangesNothing(t *testing.T) {
	m := newModel(t)
	m.write("a", 1, sample("x", 1))
	l := follow(m, "m: insert into e select a.x + 1 as y", "n: insert into f select sum(m.x) as y from like 'a%' as m")
	before := fmt.Sprint(l.engine.mappings, l.engine.entities["a"].keys)
	_, err := l.engine.Install(t.Context(), broken{m}, 0, parseAll(t, []string{
		"m: insert into e select a.x + 2 as y", "o: insert into g select a.x + sum(m.x) over 5m as y from like 'b%' as m, (a) as n",
	}[:1])...)
	if !errors.Is(err, errBroken) {
		t.Fatalf("got %v", err)
	}
	if after := fmt.Sprint(l.engine.mappings, l.engine.entities["a"].keys); len(after) != len(before) {
		t.Errorf("before %s\nafter  %s", before, after)
	}
	m.write("a", 2, sample("x", 5))
	l.settle()
	l.is("e", "y", 2, 6)
	l.is("f", "y", 2, 5)
}

// shapes are the mappings of the property test. Their sources are a0…a3 and
// m0…m5 with the keys x and y, and values of mappings.
var shapes = []string{
	"copy: insert into copy select a0.x as x",
	"scale: insert into scale select a1.x * 1.8 + 32 as x, a1.y as y",
	"join: insert into join select a0.x + a1.y - a2.x as v",
	"chain: insert into chain select join.v * 2 as v, scale.x + a3.x as w",
	"choice: insert into choice select a0.x > 50 ? coalesce(a1.x, 0) : coalesce(a2.y, -1) as v",
	"mean: insert into mean select avg(a0.x) over last 4 as x, sum(a1.x) over 40ms as s, max(a2.x) over 40ms as t",
	"mixed: insert into mixed select max(a0.x) over last 5 - min(a0.x) over last 5 + a1.x as spread",
	"total: insert into total select sum(m.x) as sum, avg(m.x) as mean, min(m.x) as low, max(m.x) as top, count(m.x) as n, last(m.x) as newest from like 'm_' as m",
	"some: insert into some select sum(m.x) + a0.x as v from (m1, m3, m5) as m",
	"related: insert into related select coalesce(sum(m.x), 0) as v, coalesce(max(m.y), 0) as t from hub -> has as m",
	"recent: insert into recent select sum(m.x) over 60ms as sum, count(m.y) over 60ms as n from like 'm%' as m",
	"upper: insert into upper select total.sum - some.v as v",
}

// deed is one thing that happens to entities.
type deed struct {
	depth  int
	id     string
	ts     int64
	values []entity.Sample
	member string // of the relation of hub that is put or removed
}

// draw makes up what happens: mostly in order, often a little late, sometimes
// very late or a repetition of a moment.
func draw(r *rand.Rand, clock *int64, relations bool) deed {
	if relations && r.IntN(12) == 0 {
		return deed{member: fmt.Sprintf("m%d", r.IntN(6))}
	}
	*clock += int64(r.IntN(8))
	d := deed{id: fmt.Sprintf("a%d", r.IntN(4)), ts: *clock}
	switch r.IntN(10) {
	case 0:
		d.ts = max(1, d.ts-int64(r.IntN(400)))
	case 1, 2, 3:
		d.ts = max(1, d.ts-int64(r.IntN(30)))
	}
	if r.IntN(2) == 0 {
		d.id = fmt.Sprintf("m%d", r.IntN(6))
	}
	for _, key := range [...][]string{{"x"}, {"y"}, {"x", "y"}}[r.IntN(3)] {
		v := value.Float(float64(r.IntN(10_000)) / 97)
		if r.IntN(3) == 0 {
			v = value.Int(int64(r.IntN(100)))
		}
		d.values = append(d.values, entity.Sample{Key: key, Value: v})
	}
	if r.IntN(4) == 0 {
		d.depth = 1 + r.IntN(3)
	}
	return d
}

// do lets it happen.
func (m *model) do(d deed) {
	if d.member != "" {
		m.relate("hub", "has", d.member, m.edges[entity.Relation{From: "hub", Type: "has", To: d.member}])
		return
	}
	var from entity.Origin
	if d.depth > 0 {
		from = entity.Origin{Source: depth.With("behavior:b@1", d.depth), Seq: uint64(len(m.log) + 1)}
	}
	m.commit(d.id, from, entity.Reading{TS: d.ts, Values: d.values})
}

// checkRecomputed compares what a run has written with what is computed at once
// from the histories.
func checkRecomputed(t *testing.T, m *model, mappings []string, removals bool) {
	t.Helper()
	fresh := NewEngine()
	outputs, err := fresh.Install(t.Context(), m, 0, parseAll(t, mappings)...)
	if err != nil {
		t.Fatal(err)
	}
	for _, mapped := range parseAll(t, mappings) {
		byKey := map[string]map[int64]value.Value{}
		err := fresh.Recompute(t.Context(), m, mapped.Name, 0, end, func(v Value) error {
			if byKey[v.Key] == nil {
				byKey[v.Key] = map[int64]value.Value{}
			}
			byKey[v.Key][v.TS] = v.Value
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		into := mapped.Statement.Into
		for i := range mapped.Statement.Select {
			f := &mapped.Statement.Select[i]
			if !f.fanIn() {
				compareHistory(t, mapped.Name+"."+f.As, m.points[into][f.As], byKey[f.As])
			}
		}
	}
	for _, o := range outputs {
		for _, r := range o.Readings {
			for _, s := range r.Values {
				got, _ := m.latest(o.Into)(s.Key)
				if got.Value != s.Value || got.TS != r.TS && !removals {
					t.Errorf("%s.%s: live %v at %d, recomputed %v at %d", o.Mapping, s.Key, got.Value, got.TS, s.Value, r.TS)
				}
			}
		}
	}
}

func compareHistory(t *testing.T, what string, live, recomputed map[int64]value.Value) {
	t.Helper()
	bad := 0
	for ts, v := range recomputed {
		if got := live[ts]; got != v {
			bad++
			if bad < 4 {
				t.Errorf("%s at %d: live %v, recomputed %v", what, ts, got, v)
			}
		}
	}
	if len(live) != len(recomputed) {
		t.Errorf("%s: %d values live, %d recomputed", what, len(live), len(recomputed))
	}
}

func TestLiveAndRecomputedAreTheSame(t *testing.T) {
	for seed := range uint64(40) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			m := newModel(t)
			relations := seed%3 == 0
			for range r.IntN(40) { // there may be something before the mappings
				clock := int64(r.IntN(200))
				m.do(draw(r, &clock, relations))
			}
			before := len(m.log)
			l := follow(m, shapes...)
			clock := int64(200)
			for range 300 {
				m.do(draw(r, &clock, relations))
				if r.IntN(3) == 0 {
					l.step(1 + r.IntN(20))
				}
			}
			l.settle()
			if before > 0 { // the past before the install is not computed by itself
				for _, mapped := range parseAll(t, shapes) {
					l.backfill(mapped)
				}
				l.settle()
			}
			checkRecomputed(t, m, shapes, relations)
		})
	}
}

// backfill writes what is recomputed.
func (l *live) backfill(mapped Mapping) {
	l.t.Helper()
	var outputs []Output
	err := l.engine.Recompute(l.t.Context(), l.model, mapped.Name, 0, end, func(v Value) error {
		outputs = append(outputs, Output{
			Mapping: mapped.Name, Version: 1, Into: mapped.Statement.Into, Again: true,
			Readings: []entity.Reading{{TS: v.TS, Values: []entity.Sample{{Key: v.Key, Value: v.Value}}}},
		})
		return nil
	})
	if err != nil {
		l.t.Fatal(err)
	}
	l.put(l.life, outputs)
}

func TestAfterACrashNothingIsMissing(t *testing.T) {
	for seed := range uint64(40) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 2))
			m := newModel(t)
			relations := seed%3 == 0
			l := follow(m, shapes...)
			clock, saved := int64(100), 0
			for range 300 {
				m.do(draw(r, &clock, relations))
				if r.IntN(3) == 0 {
					l.step(1 + r.IntN(20))
				}
				if r.IntN(20) == 0 {
					saved = l.cursor
				}
				if r.IntN(40) == 0 { // all but the store and the saved cursor is gone
					l = &live{model: m, engine: NewEngine(), cursor: saved, life: l.life + 1}
					l.install(shapes...)
				}
			}
			l.settle()
			checkRecomputed(t, m, shapes, relations)
		})
	}
}

func TestTheSameChangesGiveTheSameOutputs(t *testing.T) {
	run := func() []string {
		r := rand.New(rand.NewPCG(7, 3))
		m := newModel(t)
		l := follow(m, shapes...)
		clock := int64(100)
		for range 400 {
			m.do(draw(r, &clock, true))
			if r.IntN(3) == 0 {
				l.step(1 + r.IntN(20))
			}
		}
		l.settle()
		lines := make([]string, len(m.log))
		for i := range m.log {
			c := &m.log[i]
			lines[i] = fmt.Sprint(c.Seq, c.Entity, c.TS, c.Values, c.Origin, c.Edit == nil)
		}
		return lines
	}
	first := run()
	for range 5 {
		second := run()
		for i := range min(len(first), len(second)) {
			if first[i] != second[i] {
				t.Fatalf("two runs differ:\n%s\n%s", first[i], second[i])
			}
		}
		if len(first) != len(second) {
			t.Fatalf("two runs have %d and %d changes", len(first), len(second))
		}
	}
}

func TestTheOrderOfEvaluationFollowsTheData(t *testing.T) {
	m := newModel(t)
	names := slices.Clone(shapes)
	var want string
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 4))
		r.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		e := NewEngine()
		if _, err := e.Install(t.Context(), m, 0, parseAll(t, names)...); err != nil {
			t.Fatal(err)
		}
		e.order()
		ranked := e.fields()
		slices.SortFunc(ranked, func(a, b *field) int { return a.rank - b.rank })
		var order []string
		for _, f := range ranked {
			order = append(order, f.target().String())
			for p := range e.producers(f, true) {
				if p.rank >= f.rank {
					t.Errorf("%v is computed before its source %v", f.target(), p.target())
				}
			}
		}
		if got := strings.Join(order, " "); want == "" {
			want = got
		} else if got != want {
			t.Errorf("installed in another order, they are computed in another one:\n%s\n%s", want, got)
		}
	}
}

// counting counts what is read of histories.
type counting struct {
	*model
	reads, points int
}

func (c *counting) Points(ctx context.Context, id, key string, from, to int64, limit int, descending bool) ([]entity.Point, error) {
	points, err := c.model.Points(ctx, id, key, from, to, limit, descending)
	c.reads++
	c.points += len(points)
	return points, err
}

func TestAWalkReadsWhatLiesCloseTogetherAtOnceAndSkipsTheRest(t *testing.T) {
	m := newModel(t)
	for ts := range 5000 {
		m.write("a", int64(2*ts), sample("x", ts))
	}
	for _, step := range []int{1, 2, 3, 2000} {
		c := &counting{model: m}
		w := &walk{r: c, id: "a", key: "x"}
		for ts := 0; ts < 11_000; ts += step {
			v, err := w.at(t.Context(), int64(ts))
			if err != nil {
				t.Fatal(err)
			}
			if there := ts%2 == 0 && ts < 10_000; (v.Kind() != 0) != there || there && v.Int() != int64(ts/2) {
				t.Fatalf("in steps of %d, at %d there is %v", step, ts, v)
			}
		}
		if c.reads > 20 || step > 1000 && c.points > 7*walkLeast {
			t.Errorf("in steps of %d: %d reads of %d readings", step, c.reads, c.points)
		}
	}
	c := &counting{model: m}
	w := &walk{r: c, id: "a", key: "x"}
	if points, err := w.seek(t.Context(), 9_900, 3000); err != nil || len(points) != 50 || points[0].TS != 9_900 {
		t.Errorf("%d readings from 9900 on, %v", len(points), err)
	}
}

func TestAnAttributeIsNewerByItsCommitWhenTheClockGoesBack(t *testing.T) {
	m := newModel(t)
	l := follow(m, "m: insert into e select sum(m@attributes.n) as sum from (a, b) as m")
	m.set("a", 1000, entity.Attributes, "/n", value.Int(1))
	m.set("b", 1100, entity.Attributes, "/n", value.Int(10))
	l.settle()
	m.set("a", 500, entity.Attributes, "/n", value.Int(2))
	l.settle()
	l.is("e", "sum", 1100, 12)
	m.set("b", 600, entity.Attributes, "/n", value.Value{})
	l.settle()
	l.is("e", "sum", 1100, 2)
}

func TestOneStepOfAWideFanOutIsBounded(t *testing.T) {
	m := newModel(t)
	const width, n = 500, 80
	var list []string
	for i := range width {
		list = append(list, fmt.Sprintf("m%d: insert into e%d select a.x as x, count(m.x) as n from like 'a%%' as m", i, i))
	}
	l := follow(m, list...)
	for i := range n {
		m.write("a", int64(i), sample("x", i))
	}
	changes, steps := slices.Clone(m.log), 0
	for len(changes) > 0 {
		done, effects := l.engine.applySome(changes, 1000)
		readings := 0
		for i := range effects.Outputs {
			readings += len(effects.Outputs[i].Readings)
		}
		if done == 0 || readings > 1000+2*width {
			t.Fatalf("a step of %d changes has %d readings", done, readings)
		}
		m.put(1, effects.Outputs)
		changes = changes[done:]
		steps++
	}
	if steps < n/4 {
		t.Errorf("%d steps: nothing was bounded", steps)
	}
	for i := range width {
		if got := len(m.points[fmt.Sprint("e", i)]["x"]); got != n {
			t.Fatalf("%d values of %d", got, n)
		}
	}
}

func TestMembersThatJoinAWindowAreReadByThemselves(t *testing.T) {
	m := newModel(t)
	const n = 200
	for i := range n {
		m.write(fmt.Sprint("m", i), int64(i), sample("x", 1))
	}
	l := follow(m, "m: insert into e select sum(m.x) over 1s as sum from hub -> has as m")
	for i := range n {
		m.relate("hub", "has", fmt.Sprint("m", i), false)
	}
	effects := l.engine.Apply(m.log[l.cursor:])
	c := &counting{model: m}
	err := l.engine.Complete(t.Context(), c, effects, uint64(len(m.log)), func(outputs []Output) error {
		m.put(1, outputs)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	l.is("e", "sum", n-1, n)
	if c.reads != n {
		t.Errorf("%d reads for %d new members", c.reads, n)
	}
}
