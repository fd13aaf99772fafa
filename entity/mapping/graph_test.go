package mapping

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/filter"
)

// cycles are mappings of which the last closes a cycle.
var cycles = []struct {
	name, want string
	mappings   []string
}{
	{"itself", "a -> a (x.p -> x.p)", []string{"a: insert into x select x.p + 1 as p"}},
	{"itself in a window", "a -> a (x.p -> x.p)", []string{"a: insert into x select avg(x.p) over last 10 as p"}},
	{"itself in a list", "a -> a (x.p -> x.p)", []string{"a: insert into x select sum(m.p) as p from (x, y) as m"}},
	{"itself in a pattern", "a -> a (`meter-all`.p -> `meter-all`.p)", []string{`a: insert into "meter-all" select sum(m.p) as p from like 'meter-%' as m`}},
	{"two fields of one", "a -> a -> a (x.p -> x.q -> x.p)", []string{"a: insert into x select x.q + 1 as p, x.p + 1 as q"}},
	{"two", "b -> a -> b (y.q -> x.p -> y.q)", []string{"a: insert into x select y.q as p", "b: insert into y select x.p as q"}},
	{"three", "c -> a -> b -> c (z.r -> x.p -> y.q -> z.r)", []string{
		"a: insert into x select z.r + 1 as p, other.k as k", "b: insert into y select max(x.p) over 5m as q", "c: insert into z select w.k + y.q as r",
	}},
	{"through groups", "c -> a -> b -> c (f1.p -> house.p -> f0.p -> f1.p)", []string{
		"a: insert into house select sum(m.p) as p from like 'f_' as m", "b: insert into f0 select max(m.p) as p from (house) as m", "c: insert into f1 select f0.p as p",
	}[:2]},
	{"a path does not help", "b -> a -> b (y.q -> x.p -> y.q)", []string{"a: insert into x select y.q.deep as p", "b: insert into y select x.p.er as q"}},
}

func TestACycleIsRefusedAndNamed(t *testing.T) {
	for _, c := range cycles {
		t.Run(c.name, func(t *testing.T) {
			e, m := NewEngine(), newModel(t)
			list := parseAll(t, c.mappings)
			last := list[len(list)-1]
			if _, err := e.Install(t.Context(), m, 0, list[:len(list)-1]...); err != nil {
				t.Fatal(err)
			}
			err := e.Check(t.Context(), m, last)
			_, ierr := e.Install(t.Context(), m, 0, last)
			var cycle *CycleError
			if !errors.Is(err, ErrCycle) || !errors.As(ierr, &cycle) || err.Error() != ierr.Error() {
				t.Fatalf("check gives %v, install %v; want a CycleError", err, ierr)
			}
			if c.name == "through groups" {
				c.want = "b -> a -> b (f0.p -> house.p -> f0.p)"
			}
			if want := fmt.Sprintf("mapping %q: cycle: %s", last.Name, c.want); err.Error() != want {
				t.Errorf("got  %v\nwant %s", err, want)
			}
			if n := len(e.mappings); n != len(list)-1 || e.mappings[last.Name] != nil {
				t.Errorf("%d mappings are in force", n)
			}
		})
	}
}

func TestWhatIsNoCycleIsLetIn(t *testing.T) {
	e, m := NewEngine(), newModel(t)
	for _, mapped := range parseAll(t, []string{
		"a: insert into x select x.p + 1 as q",                                                    // another key of its own
		"b: insert into y select x.q as p, x.p as r",                                              // both keys
		"c: insert into x select y.r as s",                                                        // mapping to mapping and back, value to value not
		`d: insert into "meter-all" select sum(m.p) as total from like 'meter-%' as m`,            // in the pattern, with another key
		"e: insert into house select sum(m.p) as p from house -> contains as m",                   // the same key of what it contains
		"f: insert into z select avg(house.p) over last 5 + avg(house.p) over last 6 as p",        // a diamond
		"g: insert into q select z.p + house.p as p, coalesce(max(m.s), 0) as s from (x, y) as m", // more of them
	}) {
		if _, err := e.Install(t.Context(), m, 0, mapped); err != nil {
			t.Errorf("%s: %v", mapped.Name, err)
		}
	}
}

func TestAReplacementIsJudgedWithoutWhatItReplaces(t *testing.T) {
	e, m := NewEngine(), newModel(t)
	install := func(text string) error {
		_, err := e.Install(t.Context(), m, 0, parseAll(t, []string{text})...)
		return err
	}
	for _, text := range []string{"a: insert into x select y.q as p", "b: insert into y select z.q as q"} {
		if err := install(text); err != nil {
			t.Fatal(err)
		}
	}
	if err := install("a: insert into z select x.p as q"); err != nil {
		t.Errorf("nothing writes x.p any more: %v", err)
	}
	if err := install("b: insert into x select z.q as p"); !errors.Is(err, ErrCycle) {
		t.Errorf("b -> a -> b: %v", err)
	}
	if got := e.mappings["b"].Statement.String(); got != "insert into y select z.q as q" {
		t.Errorf("in force is %s", got)
	}
	if err := install("c: insert into y select k.k as q"); !errors.Is(err, ErrTaken) || !strings.Contains(err.Error(), `y.q: written by another mapping: "b"`) {
		t.Errorf("two writers: %v", err)
	}
	e.Remove("b")
	if err := install("c: insert into y select k.k as q"); err != nil {
		t.Errorf("b is gone: %v", err)
	}
}

func TestARelationThatClosesACycleSuspendsItUntilItIsGone(t *testing.T) {
	m := newModel(t)
	m.write("m1", 1, sample("p", 1))
	l := follow(m,
		"floor: insert into floor select sum(m.p) as p from floor -> contains as m",
		"house: insert into house select sum(m.p) as p from house -> contains as m",
		"after: insert into z select house.p * 2 as p")
	m.relate("floor", "contains", "m1", false)
	m.relate("house", "contains", "floor", false)
	l.settle()
	l.is("z", "p", 1, 2)
	m.relate("floor", "contains", "house", false) // floor -> house -> floor
	l.settle()
	m.write("m1", 2, sample("p", 5))
	l.settle() // it comes to rest
	l.is("house", "p", 1, 1)
	for name, suspended := range map[string]bool{"floor": true, "house": true, "after": false} {
		ex := l.engine.explain(Installed{Mapping: Mapping{Name: name}})
		if (ex.Fields[0].State == StateSuspended) != suspended {
			t.Errorf("%s is %s", name, ex.Fields[0].State)
		}
	}
	if err := l.engine.Check(t.Context(), m, parseAll(t, []string{"new: insert into n select floor.p as p"})[0]); err != nil {
		t.Errorf("a mapping that only reads what is on the cycle: %v", err)
	}
	fresh := NewEngine()
	if _, failed, err := fresh.Restore(t.Context(), m, 0, parseAll(t, []string{
		"floor: insert into floor select sum(m.p) as p from floor -> contains as m",
		"house: insert into house select sum(m.p) as p from house -> contains as m",
	})...); err != nil || len(failed) > 0 || !fresh.mappings["floor"].fields[0].suspended {
		t.Errorf("restored: %v, %v", failed, err)
	}
	m.relate("floor", "contains", "house", true)
	l.settle()
	l.is("floor", "p", 2, 5)
	l.is("z", "p", 2, 10)
}

func TestAMappingThatRelationsMakeACycleIsRefused(t *testing.T) {
	m := newModel(t)
	m.relate("floor", "contains", "house", false)
	m.relate("house", "contains", "floor", false)
	l := follow(m, "floor: insert into floor select sum(m.p) as p from floor -> contains as m")
	_, err := l.engine.Install(t.Context(), m, 0, parseAll(t, []string{"house: insert into house select sum(m.p) as p from house -> contains as m"})...)
	if want := "house -> floor -> house (house.p -> floor.p -> house.p)"; !errors.Is(err, ErrCycle) || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want …%s", err, want)
	}
}

func TestALongChainIsOrdered(t *testing.T) {
	e, m := NewEngine(), newModel(t)
	const n = 5000
	var list []Mapping
	for i := range n {
		list = append(list, Mapping{fmt.Sprintf("m%d", i), 1, mustParse(t, fmt.Sprintf("insert into e%d select e%d.x as x", i, i+1))})
	}
	if _, err := e.Install(t.Context(), m, 0, list...); err != nil {
		t.Fatal(err)
	}
	if first, last := e.mappings["m0"].fields[0].rank, e.mappings[fmt.Sprintf("m%d", n-1)].fields[0].rank; first != n || last != 1 {
		t.Errorf("ranks %d and %d, want %d and 1", first, last, n)
	}
	_, err := e.Install(t.Context(), m, 0, Mapping{"close", 1, mustParse(t, fmt.Sprintf("insert into e%d select e0.x as x", n))})
	var cycle *CycleError
	if !errors.As(err, &cycle) || len(cycle.Mappings) != n+2 {
		t.Errorf("closing it: %.100v", err)
	}
}

func TestPatterns(t *testing.T) {
	for _, c := range []struct {
		pattern, id string
		want        bool
	}{
		{"a", "a", true},
		{"a", "ab", false},
		{"%", "", true},
		{"%", "anything", true},
		{"a%", "a", true},
		{"a%c", "abcbc", true},
		{"a%c", "abcb", false},
		{"a%b%c", "a1b2b3c", true},
		{"_", "é", true},
		{"_", "", false},
		{"__", "é", false},
		{"m-_-%", "m-1-", true},
		{"m-_-%", "m--", false},
		{"%é_", "xéy", true},
		{strings.Repeat("%a", 40) + "b", strings.Repeat("a", 200), false},
	} {
		var p patterns
		g := likeGroup(t, c.pattern)
		if got := g.spec.like.Match(c.id); got != c.want {
			t.Errorf("%q matches %q: %v", c.pattern, c.id, got)
		}
		p.add(g)
		p.add(likeGroup(t, "other%"))
		var found []*group
		p.each(c.id, func(g *group) { found = append(found, g) })
		if slices.Contains(found, g) != c.want {
			t.Errorf("%q is found for %q: %v", c.pattern, c.id, !c.want)
		}
	}
}

// likeGroup returns the group of a pattern.
func likeGroup(t *testing.T, pattern string) *group {
	t.Helper()
	spec := &Group{}
	if err := spec.setLike(pattern); err != nil {
		t.Fatal(err)
	}
	return &group{spec: spec}
}

func FuzzPattern(f *testing.F) {
	f.Add("a%b_c", "axxbyc")
	f.Add("%é", "ééé")
	f.Fuzz(func(t *testing.T, pattern, id string) {
		if entity.CheckID(id) != nil || len(pattern) > entity.MaxIDBytes {
			return
		}
		p, err := filter.ParsePattern(pattern)
		if err != nil {
			return
		}
		if want := slowMatch([]rune(pattern), []rune(id), map[[2]int]bool{}); strings.ToValidUTF8(pattern, "") == pattern && p.Match(id) != want {
			t.Errorf("%q matches %q: %v", pattern, id, !want)
		}
	})
}

// slowMatch is the definition of a match.
func slowMatch(pattern, id []rune, no map[[2]int]bool) bool {
	at := [2]int{len(pattern), len(id)}
	switch {
	case no[at]:
		return false
	case len(pattern) == 0:
		return len(id) == 0
	case pattern[0] == '%' && (slowMatch(pattern[1:], id, no) || len(id) > 0 && slowMatch(pattern, id[1:], no)):
		return true
	case pattern[0] == '\\' && len(id) > 0 && pattern[1] == id[0] && slowMatch(pattern[2:], id[1:], no):
		return true
	case len(id) > 0 && !strings.ContainsRune(`%\`, pattern[0]) && (pattern[0] == '_' || pattern[0] == id[0]) && slowMatch(pattern[1:], id[1:], no):
		return true
	}
	no[at] = true
	return false
}
