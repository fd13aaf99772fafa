package mapping

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/internal/heaptest"
)

// Not parallel: it measures the heap.
func TestAMappingTakesWhatIsEstimated(t *testing.T) {
	long := strings.Repeat("k", 200)
	for _, test := range []struct {
		what   string
		copies int
		text   string // with N in place of the number of the copy
	}{
		{"one value", 50, "select sensorN.t * 1.8 + 32 as f"},
		{"much space", 10, strings.Repeat(" ", 60_000) + "select sensorN.t as f"},
		{"many fields", 1, "select " + heaptest.Times(64, "aN.k# as v#", ", ")},
		{"many entities", 1, "select " + heaptest.Times(3, heaptest.Times(40, "a#N.k", " + ")+" as v#", ", ")},
		{"many sources of one entity", 1, "select " + heaptest.Times(3, heaptest.Times(60, "a.k#N", " + ")+" as v#", ", ")},
		{"long keys", 1, "select " + heaptest.Times(30, "`"+long+"`.`"+long+"N`.a.b.c", " + ") + " as f"},
		{"attributes", 1, "select " + heaptest.Times(30, "a.x + b#.attributes.floor.a.b as v#", ", ")},
		{"windows", 1, "select " + heaptest.Times(60, "avg(a#.x) over last 10 as v#", ", ")},
		{"sums of numbers", 1, "select " + heaptest.Times(2, heaptest.Times(240, "a + 1", " * ")+" as v#", ", ")},
		{"patterns in expressions", 1, "select " + heaptest.Times(2, "a like '"+strings.Repeat("%_a", 300)+"' as v#", ", ")},
		{"a list", 1, "select sum(g.x) as f from (" + heaptest.Times(300, "idN#", ", ") + ") as g"},
		{"a list that is used often", 1, "select " + heaptest.Times(16, "sum(g.a#) + max(g.b) as f#", ", ") + " from (" + heaptest.Times(200, "idN#", ", ") + ") as g"},
		{"groups", 1, "select " + heaptest.Times(60, "sum(g#.x) as f#", ", ") + " from " + heaptest.Times(60, "like 'aN_%#_' as g#", ", ")},
	} {
		within := false
		for range 3 { // what earlier tests have left may be freed meanwhile
			took, estimated := measure(t, test.text, test.copies)
			within = estimated >= took/2 && estimated <= took*2
			t.Logf("%-28s %9d bytes in memory, estimated %9d, ratio %.2f", test.what, took, estimated, float64(estimated)/float64(took))
			if within {
				break
			}
		}
		if !within {
			t.Errorf("%s: the estimate is off by more than a factor of two", test.what)
		}
	}
}

// measure returns how much memory mappings take, and how much is estimated.
func measure(t *testing.T, text string, copies int) (took, estimated int) {
	t.Helper()
	var list []Mapping
	before := heaptest.Live()
	for i := range copies {
		n := fmt.Sprint(i)
		statement := mustParse(t, "insert into e"+n+" "+strings.ReplaceAll(text, "N", n))
		_, kept, err := statement.canonical()
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, Mapping{n, 1, kept})
	}
	e := NewEngine()
	if _, err := e.Install(t.Context(), newModel(t), 1, list...); err != nil {
		t.Fatal(err)
	}
	took = heaptest.Live() - before
	for _, m := range list {
		estimated += m.Statement.bytes()
	}
	runtime.KeepAlive(e)
	runtime.KeepAlive(list)
	return took, estimated
}

func TestMappingsAreBoundedByTheirMemory(t *testing.T) {
	statement := func(into string) string {
		return "insert into " + into + " select " + heaptest.Times(40, "a.x#", " + ") + " as y"
	}
	dir, size := t.TempDir(), mustParse(t, statement("a")).bytes()
	options := houseOptions{mappings: Config{most: 2*size + size/2}}
	h := build(t, dir, options)
	h.put("a", statement("a"))
	h.put("b", statement("b"))
	_, err := h.Put(t.Context(), "c", mustParse(t, statement("c")), "")
	want := fmt.Sprintf(`mapping "c": statement: too many mappings: it takes %d bytes of memory, with which all mappings take %d; at most %d`, size, 3*size, options.mappings.most)
	if !errors.Is(err, ErrLimit) || !strings.Contains(err.Error(), want) {
		t.Errorf("put a third one: %v, want %q", err, want)
	}
	if err := h.Check(t.Context(), "c", mustParse(t, statement("c"))); !errors.Is(err, ErrLimit) {
		t.Errorf("check a third one: %v", err)
	}
	h.put("b", statement("f")) // in the place of the second
	if err := h.Delete(t.Context(), "a", ""); err != nil {
		t.Fatal(err)
	}
	h.put("d", statement("d"))
	body := fmt.Sprintf(`{"statement":%q,"language":1}`, statement("e"))
	if _, err := h.rt.PutDoc(t.Context(), docKind, "e", []byte(body), ""); err != nil {
		t.Fatal(err)
	}
	ids := "(" + heaptest.Times(1000, "a#", ",") + ")"
	long := "insert into e select " + heaptest.Times(12, "sum(g#.x) as v#", ",") + " from " + heaptest.Times(12, ids+" as g#", ",")
	_, err = h.Put(t.Context(), "long", mustParse(t, long), "") // could not be read at the next start
	if !errors.Is(err, entity.ErrInvalid) || !strings.Contains(err.Error(), "canonical form has") {
		t.Errorf("put a statement whose canonical form is too long: %v", err)
	}
	h.close()
	h = build(t, dir, options)
	list, err := h.List(t.Context())
	if err != nil || len(list) != 3 {
		t.Fatalf("%v, %v", list, err)
	}
	for _, in := range list {
		text, err := h.Text(t.Context(), in.Name)
		if into := map[string]string{"b": "f", "d": "d", "e": "e"}[in.Name]; text != statement(into) {
			t.Errorf("%s: text %.40q, %v", in.Name, text, err)
		}
		if beyond := in.Name == "e"; (in.Statement == nil) != beyond || strings.Contains(in.Problem, "too many mappings") != beyond {
			t.Errorf("%s: problem %q", in.Name, in.Problem)
		}
	}
	var values []entity.Sample
	for i := range 40 {
		values = append(values, sample(fmt.Sprint("x", i), 1))
	}
	h.write("a", 1, values...)
	h.sync(1)
	h.is("d", "y", 1, 40)
	if got, there := h.latest("e", "y"); there {
		t.Errorf("the one beyond has computed %v", got)
	}
}
