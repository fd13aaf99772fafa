package entity

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/greenroom-go/greenroom/entity/value"
)

func TestValueEncodesAsEncodingJSONDoes(t *testing.T) {
	for _, f := range []float64{0, 1, -1, 21.5, 0.1, 1e-6, 9.99e-7, 1e20, 1e21, -1e300, 5e-324, math.MaxFloat64, math.Pi} {
		got := value.Float(f).AppendJSON(nil)
		var back float64
		if err := json.Unmarshal(got, &back); err != nil || back != f {
			t.Errorf("%v: %s reads back as %v, %v", f, got, back, err)
		}
	}
	for _, s := range []string{"", "plain", "q\"b\\", "\b\f\n\r\t\x00\x1f", "é😀\u2028\u2029", "\xff!"} {
		got := value.String(s).AppendJSON(nil)
		var back string
		if err := json.Unmarshal(got, &back); err != nil || back != strings.ToValidUTF8(s, "\ufffd") {
			t.Errorf("%q: %s reads back as %q, %v", s, got, back, err)
		}
	}
	type row struct{ V value.Value }
	got, err := json.Marshal([]row{{value.Int(math.MinInt64)}, {value.Bool(true)}, {ParseJSON([]byte(`{"a": [1]}`))}, {value.Value{}}})
	if want := `[{"V":-9223372036854775808},{"V":true},{"V":{"a":[1]}},{"V":null}]`; err != nil || string(got) != want {
		t.Errorf("got %s, %v, want %s", got, err, want)
	}
}

func TestJSONRefusesWhatIsNoObjectOrArray(t *testing.T) {
	for _, raw := range []string{"", "1", `"a"`, "null", "{", "[1]]", "[\"\xff\"]", strings.Repeat("[", 99) + strings.Repeat("]", 99)} {
		if v := ParseJSON([]byte(raw)); v.Kind() != 0 {
			t.Errorf("ParseJSON(%q) is of kind %v", raw, v.Kind())
		}
	}
}

func TestNumberIsOfNumbersOnly(t *testing.T) {
	if f, ok := value.Float(1.5).Number(); !ok || f != 1.5 {
		t.Errorf("Float: %v, %v", f, ok)
	}
	if f, ok := value.Int(-3).Number(); !ok || f != -3 {
		t.Errorf("Int: %v, %v", f, ok)
	}
	for _, v := range []value.Value{value.Bool(true), value.String("1"), ParseJSON([]byte("[1]")), {}} {
		if f, ok := v.Number(); ok || f != 0 {
			t.Errorf("%v of kind %v is the number %v", v, v.Kind(), f)
		}
	}
}

func TestCheckIDNamesTheRule(t *testing.T) {
	for _, id := range []string{"a", "room 12", "Zähler.7", "*", "a%b", "$SYS", ".a", "...", strings.Repeat("x", MaxIDBytes)} {
		if err := CheckID(id); err != nil {
			t.Errorf("%q: %v", id, err)
		}
	}
	for id, rule := range map[string]string{
		".": "must not be . or ..", "..": "must not be . or ..",
		"": "not 0", strings.Repeat("x", MaxIDBytes+1): "not 257", "a/b": "'/'", "a+": "'+'", "#": "'#'",
		"\u2003a": "space", "a\u00a0": "space", "a\nb": "U+000A", "a\u0085b": "U+0085", "\xff": "UTF-8",
	} {
		if err := CheckID(id); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), rule) {
			t.Errorf("%q: got %v, want ErrInvalid with %q", id, err, rule)
		}
	}
}

func TestCheckReadingsRefusesWhatTheParserWould(t *testing.T) {
	good := Sample{"k", value.Int(1)}
	for name, readings := range map[string][]Reading{
		"none":           {},
		"no values":      {{TS: 1}},
		"negative time":  {{TS: -1, Values: []Sample{good}}},
		"time too far":   {{TS: MaxTS + 1, Values: []Sample{good}}},
		"empty key":      {{TS: 1, Values: []Sample{{"", value.Int(1)}}}},
		"no value":       {{TS: 1, Values: []Sample{{"k", value.Value{}}}}},
		"NaN":            {{TS: 1, Values: []Sample{{"k", value.Float(math.NaN())}}}},
		"infinity":       {{TS: 1, Values: []Sample{{"k", value.Float(math.Inf(-1))}}}},
		"not UTF-8":      {{TS: 1, Values: []Sample{{"k", value.String("\xff")}}}},
		"key not UTF-8":  {{TS: 1, Values: []Sample{{"\xff", value.Int(1)}}}},
		"second is bad":  {{TS: 1, Values: []Sample{good}}, {TS: 1}},
		"text too long":  {{TS: 1, Values: []Sample{{"k", value.String(strings.Repeat("x", MaxTextBytes+1))}}}},
		"too many":       make([]Reading, MaxReadings+1),
		"too many keys":  {{TS: 1, Values: make([]Sample, MaxReadingKeys+1)}},
		"control in key": {{TS: 1, Values: []Sample{{"é\u0085", value.Int(1)}}}},
	} {
		if err := checkReadings(readings); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: got %v, want ErrInvalid", name, err)
		}
	}
	if err := checkReadings([]Reading{{TS: 1, Values: []Sample{good}}}); err != nil {
		t.Error(err)
	}
}

func TestTheDeltaComparesIntegersAndFloatsExactly(t *testing.T) {
	for _, x := range []struct {
		desired, reported value.Value
		same              bool
	}{
		{value.Int(9007199254740993), value.Float(9007199254740992), false},
		{value.Int(9007199254740992), value.Float(9007199254740992), true},
		{value.Float(9007199254740992), value.Int(9007199254740993), false},
		{value.Int(1), value.Float(1), true},
		{ParseJSON([]byte(`[9007199254740993]`)), ParseJSON([]byte(`[9007199254740992.0]`)), false},
		{ParseJSON([]byte(`[1152921504606846976]`)), ParseJSON([]byte(`[1152921504606846976.0]`)), true},
	} {
		desired, reported := []Attribute{{Path: "/x", Value: x.desired}}, []Attribute{{Path: "/x", Value: x.reported}}
		if delta := Delta(desired, reported); (len(delta) == 0) != x.same {
			t.Errorf("desired %v, reported %v: the delta is %v", x.desired, x.reported, delta)
		}
	}
}
