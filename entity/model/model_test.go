package model

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/greenroom-go/greenroom/entity/value"
)

func parse(t testing.TB, text string) *Type {
	t.Helper()
	typ, err := Parse([]byte(text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return typ
}

func set(t testing.TB, texts ...string) map[string]*Type {
	t.Helper()
	types := map[string]*Type{}
	for _, text := range texts {
		typ := parse(t, text)
		types[typ.ID] = typ
	}
	return types
}

func TestTypeIsTheSameWrittenAndReadAgain(t *testing.T) {
	typ := parse(t, `{"id":"Room","name":"A room","extends":["Space"],"strict":true,
		"properties":{"floor":{"type":"integer","min":-5,"max":200,"writable":true},"mode":{"type":"enum","values":["on","off"]},"level":{"type":"enum","values":[1,2]}},
		"telemetry":{"t":{"type":"number","unit":"degreeCelsius","semantic":"Temperature"},"p":{"type":"object","fields":{"x":{"type":"array","element":{"type":"number"},"maxLength":3}}}},
		"relations":{"isIn":{"target":["Building"],"max":1,"properties":{"since":{"type":"date"}}}},
		"commands":{"restart":{"request":{"type":"map","element":{"type":"duration"}}}},"components":{"c":"Battery"}}`)
	text, err := json.Marshal(typ)
	if err != nil {
		t.Fatal(err)
	}
	if again := parse(t, string(text)); !reflect.DeepEqual(again, typ) {
		t.Errorf("read again: %+v, was %+v", again, typ)
	}
}

func TestWrongTypesAreRefusedWithTheirPlace(t *testing.T) {
	for text, place := range map[string]string{
		`{`:                                 "",
		`{"id":1}`:                          "",
		`{"id":"a"} x`:                      "",
		`{"id":"a","propertys":{}}`:         "propertys",
		`{}`:                                "id",
		`{"id":"a","extends":[""]}`:         ".extends",
		`{"id":"a","telemetry":{"t":null}}`: ".telemetry.t",
		`{"id":"a","telemetry":{"":{"type":"number"}}}`:                                                                               ".telemetry.",
		`{"id":"a","telemetry":{"t":{"type":"numbr"}}}`:                                                                               ".telemetry.t.type",
		`{"id":"a","telemetry":{"t":{"type":"string","min":1}}}`:                                                                      "min and max are for numbers",
		`{"id":"a","telemetry":{"t":{"type":"number","min":2,"max":1}}}`:                                                              "min 2 is more than max 1",
		`{"id":"a","telemetry":{"t":{"type":"number","maxLength":1}}}`:                                                                ".maxLength",
		`{"id":"a","telemetry":{"t":{"type":"string","maxLength":-1}}}`:                                                               ".maxLength",
		`{"id":"a","telemetry":{"t":{"type":"enum"}}}`:                                                                                ".values",
		`{"id":"a","telemetry":{"t":{"type":"enum","values":[1,"a"]}}}`:                                                               "not both",
		`{"id":"a","telemetry":{"t":{"type":"enum","values":[1,1]}}}`:                                                                 ".values[1]",
		`{"id":"a","telemetry":{"t":{"type":"enum","values":[1.5]}}}`:                                                                 ".values[0]",
		`{"id":"a","telemetry":{"t":{"type":"array"}}}`:                                                                               ".element",
		`{"id":"a","telemetry":{"t":{"type":"array","element":{"type":"x"}}}}`:                                                        ".telemetry.t.element.type",
		`{"id":"a","telemetry":{"t":{"type":"object","fields":{"f":{"type":"x"}}}}}`:                                                  ".telemetry.t.fields.f.type",
		`{"id":"a","properties":{"p":{"type":"number","fields":{}}}}`:                                                                 ".fields",
		`{"id":"a","properties":{"p":{"type":"number"}},"components":{"p":"B"}}`:                                                      ".components.p",
		`{"id":"a","relations":{"r":{"max":-1}}}`:                                                                                     ".relations.r.max",
		`{"id":"a","commands":{"c":{"request":{"type":"?"}}}}`:                                                                        ".commands.c.request.type",
		`{"id":"a","telemetry":{"t":` + strings.Repeat(`{"type":"array","element":`, 40) + `{"type":"any"}` + strings.Repeat("}", 42): "nested deeper",
	} {
		_, err := Parse([]byte(text))
		if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), place) {
			t.Errorf("%.80s: %v, want ErrInvalid at %q", text, err, place)
		}
	}
}

func TestInheritanceGivesAllMembersAndAllNames(t *testing.T) {
	types, err := ResolveAll(set(t,
		`{"id":"Thing","properties":{"serial":{"type":"string"}},"commands":{"identify":{}}}`,
		`{"id":"Space","extends":["Thing"],"telemetry":{"t":{"type":"number"}}}`,
		`{"id":"Strict","extends":["Thing"],"strict":true}`,
		`{"id":"Battery","extends":["Thing"],"telemetry":{"charge":{"type":"number","max":100}},"properties":{"cells":{"type":"integer"}},"commands":{"reset":{}}}`,
		`{"id":"Room","extends":["Space","Strict"],"telemetry":{"h":{"type":"number"}},"relations":{"isIn":{}},"components":{"backup":"Battery"}}`,
	))
	if err != nil {
		t.Fatal(err)
	}
	room := types["Room"]
	keys := func(m any) (list []string) {
		for _, k := range reflect.ValueOf(m).MapKeys() {
			list = append(list, k.String())
		}
		slices.Sort(list)
		return list
	}
	for _, tt := range []struct {
		got  []string
		want string
	}{
		{keys(room.IsA), "Room Space Strict Thing"},
		{keys(room.Properties), "backup serial"},
		{keys(room.Telemetry), "backup.charge h t"},
		{keys(room.Relations), "isIn"},
		{keys(room.Commands), "backup.identify backup.reset identify"},
	} {
		if got := strings.Join(tt.got, " "); got != tt.want {
			t.Errorf("got %s, want %s", got, tt.want)
		}
	}
	if !room.Strict || types["Space"].Strict {
		t.Error("strictness is not inherited as it should be")
	}
	if err := room.CheckAttribute([]string{"backup", "serial"}, value.String("x")); err != nil {
		t.Error(err)
	}
	for _, path := range [][]string{{"backup", "nothing"}, {"backup"}, {"unknown"}, {"serial", "x"}, nil} {
		if err := room.CheckAttribute(path, value.Int(1)); !errors.Is(err, ErrMismatch) {
			t.Errorf("attribute %v: %v, want ErrMismatch", path, err)
		}
	}
	if err := room.CheckTelemetry("unknown", value.Int(0)); !errors.Is(err, ErrMismatch) {
		t.Errorf("unknown telemetry of a strict type: %v", err)
	}
	if err := types["Space"].CheckTelemetry("unknown", value.Int(0)); err != nil {
		t.Errorf("unknown telemetry of an open type: %v", err)
	}
}

func TestTypesThatCannotBeResolvedAreRefused(t *testing.T) {
	for text, tt := range map[string]struct {
		want error
		says string
		set  []string
	}{
		"itself":    {ErrCycle, "A → A", []string{`{"id":"A","extends":["A"]}`}},
		"a cycle":   {ErrCycle, "A → B → C → A", []string{`{"id":"A","extends":["B"]}`, `{"id":"B","components":{"c":"C"}}`, `{"id":"C","extends":["A"]}`}},
		"a missing": {ErrUnknown, `"B", which "A" needs`, []string{`{"id":"A","extends":["B"]}`}},
		"a conflict": {ErrInvalid, `telemetry "t" is declared twice`, []string{
			`{"id":"A","extends":["B"],"telemetry":{"t":{"type":"string"}}}`, `{"id":"B","telemetry":{"t":{"type":"number"}}}`,
		}},
	} {
		_, err := ResolveAll(set(t, tt.set...))
		if !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v, want %v saying %q", text, err, tt.want, tt.says)
		}
	}
	if _, err := ResolveAll(set(t,
		`{"id":"Top","telemetry":{"t":{"type":"number"}}}`, `{"id":"L","extends":["Top"]}`, `{"id":"R","extends":["Top"]}`,
		`{"id":"D","extends":["L","R"],"telemetry":{"t":{"type":"number"}}}`,
	)); err != nil {
		t.Errorf("a diamond whose declarations are alike: %v", err)
	}
}

func TestValuesAreCheckedByTheirSchema(t *testing.T) {
	f, n := value.Float, value.Int
	s, j, b := value.String, value.JSON, value.Bool(true)
	for _, tt := range []struct {
		schema       string
		right, wrong []value.Value
	}{
		{`{"type":"number","min":-1,"max":2.5}`, []value.Value{f(2.5), n(-1)}, []value.Value{f(2.6), n(-2), s("1"), b, j("[1]")}},
		{`{"type":"integer","max":9}`, []value.Value{n(9), f(3)}, []value.Value{f(3.5), n(10), s("1"), f(1e300)}},
		{`{"type":"boolean"}`, []value.Value{b}, []value.Value{n(1), s("true")}},
		{`{"type":"string","maxLength":2}`, []value.Value{s(""), s("ab")}, []value.Value{s("abc"), n(1)}},
		{`{"type":"enum","values":["a","b"]}`, []value.Value{s("a")}, []value.Value{s("c"), n(1)}},
		{`{"type":"enum","values":[1,2]}`, []value.Value{n(1), f(2)}, []value.Value{n(3), s("1"), f(1.5)}},
		{`{"type":"date"}`, []value.Value{s("2024-02-29")}, []value.Value{s("2023-02-29"), s("2024-2-1"), n(1)}},
		{`{"type":"dateTime"}`, []value.Value{s("2024-02-29T01:02:03.4Z"), s("2024-02-29T01:02:03+01:00")}, []value.Value{s("2024-02-29"), s("2024-02-29T25:02:03Z")}},
		{`{"type":"time"}`, []value.Value{s("23:59:59"), s("23:59:59+01:00"), s("23:59:59.5Z")}, []value.Value{s("24:00:00"), s("1:2")}},
		{`{"type":"duration"}`, []value.Value{s("P1DT2H"), s("PT0.5S"), s("P3W")}, []value.Value{s("P"), s("PT"), s("1D"), s("P1H")}},
		{`{"type":"any"}`, []value.Value{n(1), s(""), j("{}"), b}, nil},
		{`{"type":"array","element":{"type":"integer"},"maxLength":2}`, []value.Value{j("[]"), j("[1,2]")}, []value.Value{j("[1,2,3]"), j(`["a"]`), j("{}"), n(1), j("[null]")}},
		{`{"type":"map","element":{"type":"number"}}`, []value.Value{j("{}"), j(`{"x":1.5}`)}, []value.Value{j(`{"x":"a"}`), j("[]")}},
		{`{"type":"object","fields":{"x":{"type":"number"},"y":{"type":"object","fields":{"z":{"type":"any"}}}}}`, []value.Value{j("{}"), j(`{"x":1,"y":{"z":[{"a":1}]}}`)}, []value.Value{j(`{"w":1}`), j(`{"y":{"x":1}}`), j(`{"x":{}}`), j(`{"y":7}`)}},
	} {
		typ := parse(t, `{"id":"T","telemetry":{"t":`+tt.schema+`}}`).Telemetry["t"]
		for _, d := range tt.right {
			if err := typ.Check(d); err != nil {
				t.Errorf("%s: %v: %v", tt.schema, d, err)
			}
		}
		for _, d := range tt.wrong {
			if err := typ.Check(d); !errors.Is(err, ErrMismatch) {
				t.Errorf("%s: %v: %v, want ErrMismatch", tt.schema, d, err)
			}
		}
	}
}

func TestMismatchSaysWhatMustBe(t *testing.T) {
	typ := parse(t, `{"id":"T","telemetry":{"t":{"type":"number","min":-50,"max":100,"unit":"degreeCelsius"}}}`)
	err := typ.Telemetry["t"].Check(value.Float(130.5))
	const want = "does not agree with the type: must be a number from -50 to 100 degreeCelsius, not 130.5"
	if err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

func TestRelationsAreCheckedByTargetNumberAndProperties(t *testing.T) {
	types, err := ResolveAll(set(t, `{"id":"T","strict":true,"relations":{"in":{"target":["Room","Hall"],"max":2,"properties":{"since":{"type":"date"}}},"any":{}}}`))
	if err != nil {
		t.Fatal(err)
	}
	is := func(names ...string) func(string) bool {
		return func(id string) bool { return slices.Contains(names, id) }
	}
	r := types["T"]
	for name, tt := range map[string]struct {
		rel, props string
		isA        func(string) bool
		n          int
		ok         bool
	}{
		"right":             {"in", `{"since":"2024-01-01"}`, is("Hall"), 2, true},
		"a subtype":         {"in", "", is("Cell", "Room"), 1, true},
		"another type":      {"in", "", is("Desk"), 1, false},
		"no type":           {"in", "", is(), 1, false},
		"too many":          {"in", "", is("Room"), 3, false},
		"wrong property":    {"in", `{"since":1}`, is("Room"), 1, false},
		"unknown property":  {"in", `{"until":"2024-01-01"}`, is("Room"), 1, false},
		"anything":          {"any", `{"x":1}`, is(), 99, true},
		"unknown, strictly": {"out", "", is("Room"), 1, false},
	} {
		if err := r.CheckRelation(tt.rel, tt.isA, tt.props, tt.n); (err == nil) != tt.ok || err != nil && !errors.Is(err, ErrMismatch) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func BenchmarkCheckTelemetry(b *testing.B) {
	types, err := ResolveAll(set(b, `{"id":"T","telemetry":{"t":{"type":"number","min":-50,"max":100}}}`))
	if err != nil {
		b.Fatal(err)
	}
	typ := types["T"]
	b.ReportAllocs()
	for b.Loop() {
		if err := typ.CheckTelemetry("t", value.Float(21.5)); err != nil {
			b.Fatal(err)
		}
	}
}

func TestTypeOfTheWrongShapeIsRefusedInTheWordsOfJSON(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{"id":"A","relations":{"has":{"target":"B"}}}`:      `"target" before byte 42: must be an array, not string`,
		`{"id":"A","relations":{"has":{"max":"many"}}}`:      `"max" before byte`,
		`{"id":"A","strict":"yes"}`:                          `must be true or false, not string`,
		`{"id":"A","telemetry":["t"]}`:                       `must be an object, not array`,
		`{"id":7}`:                                           `must be a string, not number`,
		`{"id":"A","properties":{"p":{"type":["integer"]}}}`: `"type" before byte 37: must be a string, not array`,
	} {
		_, err := Parse([]byte(body))
		if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "Go ") {
			t.Errorf("%s: %v, want %q", body, err, want)
		}
	}
}

// With 21 levels there was a gigabyte of members, after 7.5 s.
func TestATypeThatBecomesTooLargeIsRefusedBeforeItIsPutTogether(t *testing.T) {
	texts := []string{`{"id":"T0","telemetry":{"a":{"type":"number"},"b":{"type":"number"}}}`}
	levels := 0
	for i := 1; i < 31; i++ {
		texts = append(texts, fmt.Sprintf(`{"id":"T%d","components":{"x":"T%d","y":"T%d"}}`, i, i-1, i-1))
		resolved, err := ResolveAll(set(t, texts...))
		if err != nil {
			if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "10000 members") {
				t.Errorf("level %d: %v", i, err)
			}
			continue
		}
		levels = i
		if n := len(resolved[fmt.Sprint("T", i)].Telemetry); n != 2<<i {
			t.Errorf("level %d: %d keys", i, n)
		}
	}
	if levels != 10 {
		t.Errorf("%d levels were taken, want 10", levels)
	}
}

func TestAllTypesTogetherAreBounded(t *testing.T) {
	for left, want := range map[int]error{4: ErrInvalid, 5: nil} {
		types := set(t, `{"id":"a","telemetry":{"t":{"type":"number"}}}`, `{"id":"b","extends":["a"]}`)
		r := resolver{types: types, done: map[string]*Resolved{}, sizes: map[string]int{}, total: MaxResolvedAll - left}
		if _, err := r.resolve("b", nil); !errors.Is(err, want) {
			t.Errorf("with room for %d: %v, want %v", left, err, want)
		}
	}
}
