package mapping

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/value"
)

// hostile are expressions of expr-lang that would run long, take much memory or
// reach what is not theirs. They go to the gate directly, past our own parser,
// which has no words for most of them.
var hostile = []string{
	"1..1000000000",
	"sum(1..1000000000)",
	"map(1..1000000000, # * 2)",
	"map(1..1e9, ...)",
	"filter(1..1000000000, true)",
	"all(1..1000, all(1..1000, all(1..1000, true)))",
	"reduce(1..1000000, #acc + #acc, 'xx')",
	"count(1..1000000000, # > 1)",
	"count(s0)",
	"sum(s0)",
	"groupBy(1..10, # % 2)",
	"sortBy(1..10, -#)",
	"let a = 'x'; let b = a + a; b + b",
	"s0; s1",
	"repeat('x', 1000000000)",
	"'x' | repeat(1000000000)",
	"repeat(s0, s1)",
	"join(split(repeat('a,', 1000000), ','))",
	"toJSON(s0)",
	"fromJSON(s0)",
	"toBase64(s0)",
	"s0 matches '(a+)+$'",
	"s0 contains 'x'",
	"s0 startsWith 'x'",
	"s0 in [1, 2]",
	"s0 in 1..1000000000",
	"not (s0 in [1])",
	"[s0, s1]",
	"{a: s0}",
	"s0[0]",
	"s0[1:1000]",
	"s0.field",
	"s0?.field",
	"s0.method()",
	"s0()",
	"(s0 + s1)()",
	"$env",
	"$env['s0']",
	"now()",
	"duration('1h')",
	"date('2020-01-01')",
	"len(s0)",
	"type(s0)",
	"get(s0, 'x')",
	"int('1')", // see below: int is ours, and takes no text at run time
	"s2",
	"unknown",
	"unknown(s0)",
	"_add(s0, s1)",
	"_condition(s0)",
	"abs()",
	"abs(s0, s1)",
	"if s0 { 1 } else { 2 }",
	"s0 < s1 < 3",
	"b'bytes'",
	"#",
	"#acc",
	".x",
	"'a' .. 'b'",
	"...",
	"",
	")",
	"1 +",
	"0x",
}

func TestHostileExpressionsAreRefusedWhenInstalled(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for _, text := range hostile {
		if text == "int('1')" {
			continue
		}
		if _, err := compileFormula(text, 2); err == nil {
			t.Errorf("%s is let in", text)
		}
		if !strings.HasPrefix(text, "_") && text != "" {
			if s, err := Parse("insert into e select " + strings.NewReplacer("s0", "a.x", "s1", "a.y").Replace(text) + " as p"); err == nil {
				if s.String() != "insert into e select a.x as p" && !strings.Contains(text, "s0.") && !strings.Contains(text, "now") {
					t.Errorf("as a statement, %s is let in: %s", text, s)
				}
			}
		}
	}
	runtime.ReadMemStats(&after)
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 64<<20 {
		t.Errorf("to refuse them took %d MB", grown>>20)
	}
}

func TestHostileShapesAreRefusedWhenInstalled(t *testing.T) {
	chain := "s0"
	for range 28 {
		chain = "0 < ((" + chain + ") ? 1 : 2) < 9" // expr-lang computes the middle twice
	}
	for name, text := range map[string]string{
		"nested comparisons": chain,
		"parentheses":        strings.Repeat("(", 10_000) + "s0" + strings.Repeat(")", 10_000),
		"minuses":            strings.Repeat("-", 10_000) + "s0",
		"nots":               strings.Repeat("not ", 10_000) + "s0",
		"conditions":         strings.Repeat("s0 ? 1 : ", 10_000) + "2",
		"sum":                "s0" + strings.Repeat(" + s0", 10_000),
		"powers":             "s0" + strings.Repeat(" ** s0", 10_000),
		"calls":              strings.Repeat("abs(", 10_000) + "s0" + strings.Repeat(")", 10_000),
		"coalesce":           "s0" + strings.Repeat(" ?? s0", 10_000),
		"arguments":          "max(s0" + strings.Repeat(", s0", 10_000) + ")",
		"brackets":           strings.Repeat("[", 10_000),
		"long text":          "s0 == '" + strings.Repeat("x", 100_000) + "' +",
		"deep but few":       strings.Repeat("abs(", 80) + "s0" + strings.Repeat(")", 80),
	} {
		if _, err := compileFormula(text, 2); err == nil && name != "parentheses" { // they make no nodes
			t.Errorf("%s: let in", name)
		}
		if _, err := Parse("insert into e select " + strings.ReplaceAll(text, "s0", "a.x") + " as p"); err == nil {
			t.Errorf("%s: let in as a statement", name)
		}
	}
}

func TestTextsDoNotGrowWithoutBound(t *testing.T) {
	ev := newEvaluator()
	f := Field{Sources: []Source{{}}}
	var err error
	if f.formula, err = compileFormula("s0 + s0 + s0 + s0", 1); err != nil {
		t.Fatal(err)
	}
	fr := newFrame(&f, nil)
	fr.put(0, 1, value.String(strings.Repeat("x", entity.MaxTextBytes/2)))
	if v, err := ev.field(fr); err == nil {
		t.Errorf("made a text of %d bytes", len(v.Text()))
	}
}

// evaluate computes an expression over a.x and a.y.
func evaluate(t testing.TB, expression string, x, y any) (value.Value, error) {
	t.Helper()
	s := mustParse(t, "insert into e select "+expression+" as p")
	f := &s.Select[0]
	fr := newFrame(f, nil)
	for i := range f.Sources {
		v := x
		if f.Sources[i].Key == "y" {
			v = y
		}
		if v != nil {
			fr.put(i, 1, member(sample("k", v).Value, f.Sources[i].Path))
		}
	}
	return newEvaluator().field(fr)
}

const huge = math.MaxInt64

// expressions are what they give for a.x and a.y.
var expressions = []struct {
	expression string
	x, y, want any // nil is missing; an error is a part of its text
}{
	{"a.x + a.y", 1, 2, 3},
	{"a.x + a.y", 1, 2.5, 3.5},
	{"a.x + a.y", "a", "b", "ab"},
	{"a.x + a.y", "a", 1, errors.New("a number is needed, not a text")},
	{"a.x + a.y", huge, 1, errOverflow},
	{"a.x + a.y", huge, 1.0, 0x1p63},
	{"a.x - a.y", -huge, 2, errOverflow},
	{"a.x - a.y", 5, 7, -2},
	{"-a.x", math.MinInt64, nil, errOverflow},
	{"-a.x", 5, nil, -5},
	{"+a.x", 2.5, nil, 2.5},
	{"a.x * a.y", 3037000500, 3037000500, errOverflow},
	{"a.x * a.y", math.MinInt64, 1, math.MinInt64},
	{"a.x * a.y", math.MinInt64, -1, errOverflow},
	{"a.x * a.y", -3, 7, -21},
	{"a.x / a.y", 7, 2, 3.5},
	{"a.x / a.y", 7, 0, errDivision},
	{"a.x / a.y", 7, 0.0, errDivision},
	{"a.x % a.y", -7, 3, -1},
	{"a.x % a.y", math.MinInt64, -1, 0},
	{"a.x % a.y", 7.5, 2, 1.5},
	{"a.x % a.y", 7, 0, errDivision},
	{"a.x ** a.y", 2, 10, 1024.0},
	{"2 ** 3 ** 2 + a.x", 0, nil, 512.0},
	{"-a.x ** 2", 3, nil, -9.0},
	{"1 + 2 * a.x - 4 / 2", 3, nil, 5.0},
	{"(1 + 2) * a.x", 3, nil, 9},
	{"a.x < a.y", 1, 1.5, true},
	{"a.x >= a.y", "b", "a", true},
	{"a.x < a.y", "b", 1, errors.New("a text cannot be compared with an integer")},
	{"a.x == a.y", 1, 1.0, true},
	{"a.x == a.y", "1", 1, false},
	{"a.x != a.y", true, false, true},
	{"a.x > 0 and a.y > 0", 1, -1, false},
	{"a.x > 0 and 1 / a.y > 0", -1, 0, false}, // the right side is not computed
	{"a.x > 0 or 1 / a.y > 0", 1, 0, true},
	{"not (a.x > 0)", 1, nil, false},
	{"a.x and true", 1, nil, errors.New("a condition is needed, not an integer")},
	{"a.x ? 1 : 2", true, nil, 1},
	{"a.x > 10 ? a.y : null", 5, 1, nil},
	{"a.x > 10 ? 'hot' : 'cold'", 50, nil, "hot"},
	{"a.x > 10 ? 'hot' : 'cold'", nil, nil, nil}, // no condition, no value
	{"a.x > 10 or a.y > 10", nil, 50, nil},
	{"a.x + a.y", 1, nil, nil},
	{"coalesce(a.x + a.y, a.x, 0)", 1, nil, 1},
	{"coalesce(a.x, a.y)", nil, nil, nil},
	{"ifnull(a.x, 5)", nil, nil, 5},
	{"a.x ?? a.y ?? 7", nil, nil, 7},
	{"a.x ?? 7", 1, nil, 1},
	{"isnull(a.x) ? -1 : a.x", nil, nil, -1},
	{"abs(a.x)", -5, nil, 5},
	{"abs(a.x)", math.MinInt64, nil, errOverflow},
	{"abs(a.x)", -5.5, nil, 5.5},
	{"sign(a.x)", -5.5, nil, -1},
	{"floor(a.x) + ceil(a.x)", 1.5, nil, 3.0},
	{"round(a.x)", 2.5, nil, 3.0},
	{"round(a.x, 2)", 2.345678, nil, 2.35},
	{"round(a.x, 2)", 1e300, nil, 1e300},
	{"round(a.x)", 7, nil, 7},
	{"round(a.x, a.y)", 1.5, 99, errors.New("0 to 15")},
	{"sqrt(a.x)", 9, nil, 3.0},
	{"sqrt(a.x)", -1, nil, errors.New("NaN")},
	{"exp(log(a.x))", 1, nil, 1.0},
	{"log(a.x)", 0, nil, errors.New("-Inf")},
	{"log10(a.x) + log2(a.y)", 1000, 8, 6.0},
	{"pow(a.x, a.y)", 2, 0.5, math.Sqrt2},
	{"atan2(a.x, a.y)", 1, 1, math.Pi / 4},
	{"sin(a.x) + cos(a.x) + tan(a.x) + asin(a.x) + atan(a.x) + acos(1)", 0, nil, 1.0},
	{"min(a.x, a.y)", 1, 0.5, 0.5},
	{"max(a.x, a.y, 3)", 1, 2, 3},
	{"max(a.x, a.y)", "a", 2, errors.New("not a text")},
	{"clamp(a.x, 0, 100)", 150, nil, 100},
	{"clamp(a.x, 0, 100)", -1.5, nil, 0},
	{"int(a.x)", 2.9, nil, 2},
	{"int(a.x)", true, nil, 1},
	{"int(a.x)", 1e300, nil, errOverflow},
	{"int(a.x)", "5", nil, errors.New("a number is needed")},
	{"a.x == 'it''s \u00e9\U0001F600\n'", "it's \u00e9\U0001F600\n", nil, true},
	{"a.x ?? 0", entity.ParseJSON([]byte(`{"a":1}`)), nil, entity.ParseJSON([]byte(`{"a":1}`))},
	{"a.x + 1", entity.ParseJSON([]byte(`{"a":1}`)), nil, errors.New("a number is needed, not json")},
	{"a.x.a + 1", entity.ParseJSON([]byte(`{"a":1}`)), nil, 2},
	{"a.x.a.b", entity.ParseJSON([]byte(`{"a":{"b":[1, 2]}}`)), nil, entity.ParseJSON([]byte(`[1,2]`))},
	{"a.x.b ?? 'none'", entity.ParseJSON([]byte(`{"a":1,"b":null}`)), nil, "none"},
	{"a.x.a ?? 'none'", 5, nil, "none"},
	{"a.x.a ?? 'none'", entity.ParseJSON([]byte(`[1]`)), nil, "none"},
	{"a.x.a", entity.ParseJSON([]byte(`{"a":9223372036854775807}`)), nil, math.MaxInt64},
	{"a.x.a", entity.ParseJSON([]byte(`{"a":1.5}`)), nil, 1.5},
}

func TestExpressions(t *testing.T) {
	for _, c := range expressions {

		got, err := evaluate(t, c.expression, c.x, c.y)
		name := fmt.Sprintf("%s with %v and %v", c.expression, c.x, c.y)
		switch want := c.want.(type) {
		case error:
			if err == nil || !strings.Contains(err.Error(), want.Error()) {
				t.Errorf("%s gives %v, %v; want the error %q", name, got, err, want)
			}
		case nil:
			if err != nil || got.Kind() != 0 {
				t.Errorf("%s gives %v, %v; want no value", name, got, err)
			}
		default:
			if w := sample("k", want).Value; err != nil || got != w {
				t.Errorf("%s gives %v (%v), %v; want %v (%v)", name, got, got.Kind(), err, w, w.Kind())
			}
		}
	}
}

func TestEvaluationAllocatesLittle(t *testing.T) {
	s := mustParse(t, "insert into e select a.x * 1.8 + 32 as p")
	fr := newFrame(&s.Select[0], nil)
	fr.put(0, 1, value.Float(20))
	ev := newEvaluator()
	allocations := testing.AllocsPerRun(1000, func() {
		if _, err := ev.field(fr); err != nil {
			t.Fatal(err)
		}
	})
	if allocations > 8 {
		t.Errorf("%v allocations for an evaluation", allocations)
	}
}

func FuzzExpression(f *testing.F) {
	for _, text := range hostile {
		f.Add(text)
	}
	f.Add("s0 > 1 ? max(s0, s1) : coalesce(s0, 5)")
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 4*MaxNodes {
			return
		}
		formula, err := compileFormula(text, 2)
		if err != nil {
			return
		}
		spec := Field{Sources: make([]Source, 2), formula: formula}
		for _, v := range []value.Value{{}, value.Int(math.MaxInt64), value.Float(-1e300), value.String("x"), value.Bool(true), entity.ParseJSON([]byte("[1]"))} {
			fr := newFrame(&spec, nil)
			fr.put(0, 1, v)
			fr.put(1, 1, value.Int(2))
			got, err := newEvaluator().field(fr)
			if err == nil && len(got.Text()) > entity.MaxTextBytes+len(text) {
				t.Fatalf("%q makes a text of %d bytes", text, len(got.Text()))
			}
		}
	})
}
