package mapping

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/value"
)

// hostile are expressions that would run long, take much memory or reach what is
// not theirs in other languages, and shapes that must not be let in.
var hostile = []string{
	"1..1000000000", "map(1..1000000000, # * 2)", "let a = 'x'; a + a", "repeat('x', 1000000000)", "'x' | repeat(1000000000)",
	"a.x matches '(a+)+$'", "[a.x, a.y]", "{a: a.x}", "a.x[0]", "a.x?.field", "a.x.method()", "$env", "now", "now()", "len(a.x)", "age(a.x) > 5m",
	"related any to any", "type = 'x'", "id", "created", "_add(a.x, a.y)", "abs()", "abs(a.x, a.y)", "if a.x { 1 }", "a.x < a.y < 3", "#", ".x", "...", "", ")", "1 +", "0x", "a.x; a.y",
	"a.x + 5m", "5m", "2026-01-01 + 1d",
}

func TestHostileExpressionsAreRefusedWhenInstalled(t *testing.T) {
	for _, text := range hostile {
		if s, err := Parse("insert into e select " + text + " as p"); err == nil {
			t.Errorf("%s is let in as %s", text, s)
		}
	}
}

func TestHostileShapesAreRefusedWhenInstalled(t *testing.T) {
	for name, text := range map[string]string{
		"parentheses": strings.Repeat("(", 10_000) + "a.x" + strings.Repeat(")", 10_000),
		"minuses":     strings.Repeat("- ", 10_000) + "a.x",
		"nots":        strings.Repeat("not ", 10_000) + "a.x",
		"choices":     strings.Repeat("a.x ? 1 : ", 5_000) + "2",
		"sum":         "a.x" + strings.Repeat(" + a.x", 5_000),
		"powers":      "a.x" + strings.Repeat(" ** a.x", 5_000),
		"calls":       strings.Repeat("abs(", 10_000) + "a.x" + strings.Repeat(")", 10_000),
		"fallbacks":   "a.x" + strings.Repeat(" ?? a.x", 5_000),
		"arguments":   "max(a.x" + strings.Repeat(", a.x", 33) + ")",
		"brackets":    strings.Repeat("[", 10_000),
		"deep calls":  strings.Repeat("abs(", 80) + "a.x" + strings.Repeat(")", 80),
	} {
		if _, err := Parse("insert into e select " + text + " as p"); !errors.Is(err, entity.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTheLongestExpressionsAreComputed(t *testing.T) {
	for name, text := range map[string]string{
		"powers":  "a.x" + strings.Repeat(" ** a.x", 490),
		"choices": strings.Repeat("a.x > 2 ? 1 : ", 190) + "2",
		"sum":     "a.x" + strings.Repeat(" + a.x", 490),
		"calls":   strings.Repeat("abs(", 30) + "a.x" + strings.Repeat(")", 30),
	} {
		if _, err := evaluate(t, text, 1, nil); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTextsDoNotGrowWithoutBound(t *testing.T) {
	if v, err := evaluate(t, "a.x + a.x + a.x + a.x", strings.Repeat("x", entity.MaxTextBytes/2), nil); err == nil {
		t.Errorf("made a text of %d bytes", len(v.Text()))
	}
}

// evaluate computes an expression over a.x and a.y.
func evaluate(t testing.TB, expression string, x, y any) (value.Value, error) {
	t.Helper()
	s := mustParse(t, "insert into e select "+expression+" as p")
	f := &s.Select[0]
	fr := newFrame(f, nil, nil)
	for i := range f.Sources {
		v := x
		if f.Sources[i].Key == "y" {
			v = y
		}
		if v != nil {
			fr.put(i, 1, f.Sources[i].extract(sample("k", v).Value))
		}
	}
	return fr.evaluate()
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
	{"a.x + a.y", "a", 1, errors.New("a number is needed, not a string")},
	{"a.x + a.y", huge, 1, errors.New("beyond 64 bits")},
	{"a.x + a.y", huge, 1.0, 0x1p63},
	{"a.x - a.y", -huge, 2, errors.New("beyond 64 bits")},
	{"a.x - a.y", 5, 7, -2},
	{"-a.x", math.MinInt64, nil, errors.New("beyond 64 bits")},
	{"-a.x", 5, nil, -5},
	{"+a.x", 2.5, nil, 2.5},
	{"a.x * a.y", 3037000500, 3037000500, errors.New("beyond 64 bits")},
	{"a.x * a.y", math.MinInt64, 1, math.MinInt64},
	{"a.x * a.y", math.MinInt64, -1, errors.New("beyond 64 bits")},
	{"a.x * a.y", -3, 7, -21},
	{"a.x / a.y", 7, 2, 3.5},
	{"a.x / a.y", 7, 0, errors.New("division by zero")},
	{"a.x / a.y", 7, 0.0, errors.New("division by zero")},
	{"a.x % a.y", -7, 3, -1},
	{"a.x % a.y", math.MinInt64, -1, 0},
	{"a.x % a.y", 7.5, 2, 1.5},
	{"a.x % a.y", 7, 0, errors.New("division by zero")},
	{"a.x ** a.y", 2, 10, 1024.0},
	{"2 ** 3 ** 2 + a.x", 0, nil, 512.0},
	{"-a.x ** 2", 3, nil, -9.0},
	{"1 + 2 * a.x - 4 / 2", 3, nil, 5.0},
	{"(1 + 2) * a.x", 3, nil, 9},
	{"a.x < a.y", 1, 1.5, true},
	{"a.x >= a.y", "b", "a", true},
	{"a.x < a.y", "b", 1, errors.New("a string cannot be compared with an integer")},
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
	{"coalesce(a.x > 10 ? 1 : 2, 5)", nil, nil, 5},
	{"a.x > 10 or a.y > 10", nil, 50, nil},
	{"a.x > 10 or a.y > 10", 50, nil, true},
	{"a.x in (1, 'on', 2.0)", 2, nil, true},
	{"a.x not in (1, 2)", nil, nil, nil},
	{"a.x between 1 and 5 ? 'ok' : 'no'", 7, nil, "no"},
	{"a.x between 1 and 5", "x", nil, errors.New("a string cannot be compared with an integer")},
	{"a.x like 'w%' and not (a.x contains 'z')", "warn", nil, true},
	{"exists a.x", nil, nil, false},
	{"a.x == 9007199254740992.0", 9007199254740993, nil, false},
	{"max(a.x, 9007199254740992.0)", 9007199254740993, nil, 9007199254740993},
	{"a.x", true, nil, true},
	{"not a.x", 5, nil, errors.New("a condition is needed, not an integer")},
	{"a.x ? a.y : a.y", 1, 2, errors.New("a condition is needed, not an integer")},
	{"a.x + a.y", 1, nil, nil},
	{"coalesce(a.x + a.y, a.x, 0)", 1, nil, 1},
	{"coalesce(a.x, a.y)", nil, nil, nil},
	{"ifnull(a.x, 5)", nil, nil, 5},
	{"a.x ?? a.y ?? 7", nil, nil, 7},
	{"a.x ?? 7", 1, nil, 1},
	{"isnull(a.x) ? -1 : a.x", nil, nil, -1},
	{"abs(a.x)", -5, nil, 5},
	{"abs(a.x)", math.MinInt64, nil, errors.New("beyond 64 bits")},
	{"abs(a.x)", -5.5, nil, 5.5},
	{"sign(a.x)", -5.5, nil, -1},
	{"floor(a.x) + ceil(a.x)", 1.5, nil, 3.0},
	{"round(a.x)", 2.5, nil, 3.0},
	{"round(a.x, 2)", 2.345678, nil, 2.35},
	{"round(a.x, 2)", 1e300, nil, 1e300},
	{"round(a.x)", 7, nil, 7},
	{"round(a.x, a.y)", 1.5, 99, errors.New("0 to 15")},
	{"sqrt(a.x)", 9, nil, 3.0},
	{"sqrt(a.x)", -1, nil, errors.New("infinite or not a number")},
	{"exp(log(a.x))", 1, nil, 1.0},
	{"log(a.x)", 0, nil, errors.New("infinite or not a number")},
	{"log10(a.x) + log2(a.y)", 1000, 8, 6.0},
	{"pow(a.x, a.y)", 2, 0.5, math.Sqrt2},
	{"atan2(a.x, a.y)", 1, 1, math.Pi / 4},
	{"sin(a.x) + cos(a.x) + tan(a.x) + asin(a.x) + atan(a.x) + acos(1)", 0, nil, 1.0},
	{"min(a.x, a.y)", 1, 0.5, 0.5},
	{"max(a.x, a.y, 3)", 1, 2, 3},
	{"max(a.x, a.y)", "a", 2, errors.New("not a string")},
	{"clamp(a.x, 0, 100)", 150, nil, 100},
	{"clamp(a.x, 0, 100)", -1.5, nil, 0},
	{"clamp(a.x, 5, 1)", 3, nil, 1}, // the limits are the wrong way around
	{"int(a.x)", 2.9, nil, 2},
	{"int(a.x)", true, nil, 1},
	{"int(a.x)", 1e300, nil, errors.New("beyond 64 bits")},
	{"int(a.x)", "5", nil, errors.New("a number is needed")},
	{"a.x == 'it''s \u00e9\U0001F600\\n'", "it's \u00e9\U0001F600\n", nil, true},
	{"a.x ?? 0", entity.ParseJSON([]byte(`{"a":1}`)), nil, entity.ParseJSON([]byte(`{"a":1}`))},
	{"a.x + 1", entity.ParseJSON([]byte(`{"a":1}`)), nil, errors.New("a number is needed, not a JSON value")},
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

func TestEvaluationAllocatesNothing(t *testing.T) {
	s := mustParse(t, "insert into e select max(a.x * 1.8 + 32, a.y ?? 0) > 5 and a.x in (1, 2) ? 1 : round(a.x, 2) as p")
	fr := newFrame(&s.Select[0], nil, nil)
	fr.put(0, 1, value.Float(20))
	allocations := testing.AllocsPerRun(1000, func() {
		if _, err := fr.evaluate(); err != nil {
			t.Fatal(err)
		}
	})
	if allocations > 0 {
		t.Errorf("%v allocations for an evaluation", allocations)
	}
}

func FuzzExpression(f *testing.F) {
	for _, text := range hostile {
		f.Add(text)
	}
	for _, e := range expressions {
		f.Add(e.expression)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ParseJSON(fmt.Appendf(nil, `{"into":"e","select":[{"as":"p","value":%s}]}`, value.AppendQuoted(nil, text)))
		if err != nil {
			return
		}
		again := mustParse(t, s.String())
		for _, v := range []value.Value{{}, value.Int(math.MaxInt64), value.Float(-1e300), value.Int(0), value.String("x"), value.Bool(true), entity.ParseJSON([]byte("[1]"))} {
			var results [2]string
			for i, spec := range []*Field{&s.Select[0], &again.Select[0]} {
				if spec.fanIn() {
					return
				}
				fr := newFrame(spec, nil, nil)
				for i := range spec.Sources {
					fr.put(i, 1, v)
				}
				got, err := fr.evaluate()
				if len(got.Text()) > entity.MaxTextBytes+len(text) {
					t.Fatalf("%q makes a text of %d bytes", text, len(got.Text()))
				}
				results[i] = fmt.Sprint(got.Kind(), got, err)
			}
			if results[0] != results[1] {
				t.Fatalf("%q gives %s of %v, and as it is printed, %s: %s", text, results[0], v, s, results[1])
			}
		}
	})
}
