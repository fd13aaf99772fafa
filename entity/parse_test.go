package entity

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/entity/value"
)

var parseNow = time.UnixMilli(1_700_000_000_123)

// reading is what comes of a payload: of now where it says no time.
func reading(ts int64, samples ...Sample) Reading {
	return Reading{TS: ts, Values: samples, Arrived: ts == parseNow.UnixMilli()}
}

func numbered(n uint64, r Reading) Reading {
	r.Number = n
	return r
}

func TestParseReadingsAcceptsTheFormsOfAPayload(t *testing.T) {
	const now = 1_700_000_000_123
	tests := map[string]struct {
		payload string
		want    []Reading
	}{
		"keys of now":              {`{"temperature":21.5}`, []Reading{reading(now, Sample{"temperature", value.Float(21.5)})}},
		"every kind":               {`{"f":1.0,"i":-7,"b":true,"c":false,"s":"x","o":{"a":[1, null]},"l":[]}`, []Reading{reading(now, Sample{"f", value.Float(1)}, Sample{"i", value.Int(-7)}, Sample{"b", value.Bool(true)}, Sample{"c", value.Bool(false)}, Sample{"s", value.String("x")}, Sample{"o", ParseJSON([]byte(`{"a":[1,null]}`))}, Sample{"l", ParseJSON([]byte(`[]`))})}},
		"time and values":          {`{"ts":1451649600512,"values":{"t":21.5}}`, []Reading{reading(1451649600512, Sample{"t", value.Float(21.5)})}},
		"values before time":       {`{"values":{"t":21.5},"ts":1451649600512}`, []Reading{reading(1451649600512, Sample{"t", value.Float(21.5)})}},
		"time zero":                {`{"ts":0,"values":{"t":1}}`, []Reading{reading(0, Sample{"t", value.Int(1)})}},
		"white space":              {" \n{ \"ts\" : 5 ,\t\"values\" : { \"t\" : 1 } } \r\n", []Reading{reading(5, Sample{"t", value.Int(1)})}},
		"array of both":            {`[{"t":1},{"ts":5,"values":{"t":2}}]`, []Reading{reading(now, Sample{"t", value.Int(1)}), reading(5, Sample{"t", value.Int(2)})}},
		"ts alone is a key":        {`{"ts":1}`, []Reading{reading(now, Sample{"ts", value.Int(1)})}},
		"values alone is a key":    {`{"values":{"a": 1}}`, []Reading{reading(now, Sample{"values", ParseJSON([]byte(`{"a":1}`))})}},
		"values with null is json": {`{"values":{"a":null}}`, []Reading{reading(now, Sample{"values", ParseJSON([]byte(`{"a":null}`))})}},
		"ts with another key":      {`{"ts":1,"t":2}`, []Reading{reading(now, Sample{"ts", value.Int(1)}, Sample{"t", value.Int(2)})}},
		"ts as a text":             {`{"ts":"noon","t":2}`, []Reading{reading(now, Sample{"ts", value.String("noon")}, Sample{"t", value.Int(2)})}},
		"key ts inside values":     {`{"ts":5,"values":{"ts":6,"values":{"x":1}}}`, []Reading{reading(5, Sample{"ts", value.Int(6)}, Sample{"values", ParseJSON([]byte(`{"x":1}`))})}},
		"escapes":                  {`{"k\u0041":"a\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00é"}`, []Reading{reading(now, Sample{"kA", value.String("a\"\\/\b\f\n\r\té😀é")})}},
		"a number of its own":      {`{"seq":7,"values":{"t":1}}`, []Reading{numbered(7, reading(now, Sample{"t", value.Int(1)}))}},
		"values before a number":   {`{"values":{"t":1},"seq":7}`, []Reading{numbered(7, reading(now, Sample{"t", value.Int(1)}))}},
		"number and time":          {`{"ts":5,"seq":7,"values":{"t":1}}`, []Reading{numbered(7, reading(5, Sample{"t", value.Int(1)}))}},
		"time, values and number":  {`{"ts":5,"values":{"t":1},"seq":7}`, []Reading{numbered(7, reading(5, Sample{"t", value.Int(1)}))}},
		"seq is a key":             {`{"seq":7,"t":1}`, []Reading{reading(now, Sample{"seq", value.Int(7)}, Sample{"t", value.Int(1)})}},
		"seq as a text":            {`{"seq":"a","values":{"t":1}}`, []Reading{reading(now, Sample{"seq", value.String("a")}, Sample{"values", ParseJSON([]byte(`{"t":1}`))})}},
		"nul in a text":            {`{"k":"a\u0000b"}`, []Reading{reading(now, Sample{"k", value.String("a\x00b")})}},
		"json keeps its strings":   {`{"k":{ "a b" : "c  \" d" }}`, []Reading{reading(now, Sample{"k", ParseJSON([]byte(`{"a b":"c  \" d"}`))})}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := ParseReadings([]byte(tt.payload), parseNow)
			if err != nil {
				t.Fatalf("ParseReadings(%s): %v", tt.payload, err)
			}
			if !reflect.DeepEqual(got, tt.want) {
				t.Errorf("ParseReadings(%s)\n got %v\nwant %v", tt.payload, got, tt.want)
			}
		})
	}
}

func TestParseReadingsKeepsNumbersExact(t *testing.T) {
	tests := map[string]value.Value{
		"9223372036854775807":    value.Int(math.MaxInt64),
		"-9223372036854775808":   value.Int(math.MinInt64),
		"9223372036854775808":    value.Float(9223372036854775808),
		"-0":                     value.Int(0),
		"-0.0":                   value.Float(math.Copysign(0, -1)),
		"1e3":                    value.Float(1000),
		"1E+2":                   value.Float(100),
		"0.1":                    value.Float(0.1),
		"1.7976931348623157e308": value.Float(math.MaxFloat64),
		"5e-324":                 value.Float(5e-324),
		"1e-400":                 value.Float(0),
	}
	for text, want := range tests {
		got, err := ParseReadings([]byte(`{"k":`+text+`}`), parseNow)
		if err != nil {
			t.Errorf("%s: %v", text, err)
		} else if v := got[0].Values[0].Value; v != want {
			t.Errorf("%s: got %v of kind %v, want %v of kind %v", text, v, v.Kind(), want, want.Kind())
		}
	}
}

func TestAReadingIsReadAsItIsAppended(t *testing.T) {
	want := Reading{TS: 1451649600512, Values: []Sample{
		{Key: "a\"\\", Value: value.String("<\n\u2028>")},
		{Key: "f", Value: value.Float(-0.1)},
		{Key: "i", Value: value.Int(math.MinInt64)},
		{Key: "on", Value: value.Bool(true)},
	}}
	got, err := ParseReadings(want.AppendJSON(nil), parseNow)
	if err != nil || len(got) != 1 || !reflect.DeepEqual(got[0], want) {
		t.Errorf("read %+v, %v; want %+v", got, err, want)
	}
	if got := string(AppendSamples(nil, nil)); got != "{}" {
		t.Errorf("no samples are %s, want {}", got)
	}
}

func TestParseReadingsRefusesTheWholePayloadAndSaysWhy(t *testing.T) {
	deep := strings.Repeat("[", MaxDepth+1) + strings.Repeat("]", MaxDepth+1)
	tests := map[string]struct{ payload, cause, detail string }{
		"nothing":                {"", CauseEmpty, "must be"},
		"white space":            {" \n", CauseEmpty, "must be"},
		"no readings":            {"[]", CauseEmpty, "at least one"},
		"no keys":                {"{}", CauseEmpty, "at least one key"},
		"no values":              {`{"ts":1,"values":{}}`, CauseEmpty, "at least one key"},
		"no values, other order": {`{"values":{},"ts":1}`, CauseEmpty, "at least one key"},
		"a number":               {"21.5", CauseShape, "object is expected"},
		"a text":                 {`"21.5"`, CauseShape, "object is expected"},
		"a bare word":            {"hello", CauseSyntax, "object is expected"},
		"an array of numbers":    {"[1]", CauseShape, "reading 0"},
		"an array of arrays":     {`[[{"a":1}]]`, CauseShape, "reading 0"},
		"second of an array":     {`[{"a":1},{"b":null}]`, CauseNull, `reading 1, key "b"`},
		"null":                   {`{"a":1,"b":null}`, CauseNull, "leave the key out"},
		"null in values":         {`{"values":{"b":null},"ts":1}`, CauseNull, "leave the key out"},
		"NaN":                    {`{"a":NaN}`, CauseSyntax, "no NaN"},
		"too great":              {`{"a":1e400}`, CauseNumber, "1e400"},
		"leading zero":           {`{"a":01}`, CauseSyntax, "leading zero"},
		"plus":                   {`{"a":+1}`, CauseSyntax, "'+'"},
		"no fraction":            {`{"a":1.}`, CauseSyntax, "after the decimal point"},
		"no exponent":            {`{"a":1e}`, CauseSyntax, "exponent"},
		"minus alone":            {`{"a":-}`, CauseSyntax, "digit"},
		"single quotes":          {`{'a':1}`, CauseSyntax, "double quotes"},
		"trailing comma":         {`{"a":1,}`, CauseSyntax, "double quotes"},
		"trailing bytes":         {`{"a":1}x`, CauseSyntax, "after the end"},
		"two objects":            {`{"a":1}{"a":2}`, CauseSyntax, "after the end"},
		"cut off":                {`{"a":1`, CauseSyntax, "end of the payload"},
		"cut off text":           {`{"a":"b`, CauseSyntax, "without an end"},
		"bad escape":             {`{"a":"\x"}`, CauseSyntax, "escape"},
		"control character":      {"{\"a\":\"b\x01\"}", CauseSyntax, "control"},
		"half a surrogate":       {`{"a":"\ud83d"}`, CauseEncoding, "surrogate"},
		"not UTF-8":              {"{\"a\":\"\xff\"}", CauseEncoding, "0xff"},
		"key twice":              {`{"a":1,"a":2}`, CauseDuplicate, `"a"`},
		"key twice by escape":    {`{"a":1,"\u0061":2}`, CauseDuplicate, `"a"`},
		"key twice among many":   {`{` + manyKeys(40) + `,"k39":1}`, CauseDuplicate, `"k39"`},
		"ts twice":               {`{"ts":1,"ts":2,"values":{"a":1}}`, CauseDuplicate, `"ts"`},
		"empty key":              {`{"":1}`, CauseKey, "1 to 256 bytes, not 0"},
		"control in key":         {`{"a\n":1}`, CauseKey, "control"},
		"long key":               {`{"` + strings.Repeat("k", MaxKeyBytes+1) + `":1}`, CauseKey, "1 to 256 bytes, not 257"},
		"ts as a text":           {`{"ts":"2026-01-01","values":{"a":1}}`, CauseTime, "integer of milliseconds"},
		"ts as a float":          {`{"ts":1.5,"values":{"a":1}}`, CauseTime, "integer of milliseconds"},
		"ts negative":            {`{"ts":-1,"values":{"a":1}}`, CauseTime, "milliseconds"},
		"ts in microseconds":     {`{"ts":1451649600512000,"values":{"a":1}}`, CauseTime, "milliseconds"},
		"ts late in the object":  {`{"values":{"a":1},"ts":1451649600512000}`, CauseTime, "milliseconds"},
		"third member":           {`{"ts":1,"values":{"a":1},"b":2}`, CauseShape, "inside values"},
		"values a number":        {`{"ts":1,"values":2}`, CauseShape, "values must be an object"},
		"values a text, first":   {`{"values":"x","ts":1}`, CauseShape, "values must be an object"},
		"values an array":        {`{"ts":1,"values":[1]}`, CauseShape, "values must be an object"},
		"number not positive":    {`{"ts":1,"seq":0,"values":{"a":1}}`, CauseShape, "seq must be"},
		"fourth member":          {`{"ts":1,"seq":1,"values":{"a":1},"b":2}`, CauseShape, "inside values"},
		"third member first":     {`{"b":2,"ts":1,"values":{"a":1}}`, CauseShape, "inside values"},
		"too deep":               {`{"a":` + deep + `}`, CauseTooLarge, "deeper than 32"},
		"too many keys":          {`{` + manyKeys(MaxReadingKeys+1) + `}`, CauseTooLarge, "1024 keys"},
		"too many readings":      {`[` + strings.Repeat(`{"a":1},`, MaxReadings) + `{"a":1}]`, CauseTooLarge, "10000 readings"},
		"text too long":          {`{"a":"` + strings.Repeat("x", MaxTextBytes+1) + `"}`, CauseTooLarge, "65537 bytes"},
		"json too long":          {`{"a":["` + strings.Repeat("x", MaxTextBytes+1) + `"]}`, CauseTooLarge, "at most 65536"},
		"payload too long":       {`{"a":1}` + strings.Repeat(" ", MaxPayloadBytes), CauseTooLarge, "at most 1048576"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := ParseReadings([]byte(tt.payload), parseNow)
			pe, ok := errors.AsType[*PayloadError](err)
			if !ok || got != nil {
				t.Fatalf("got %v, %v; want a *PayloadError and no readings", got, err)
			}
			if pe.Cause != tt.cause || !strings.Contains(pe.Detail, tt.detail) {
				t.Errorf("got %q: %q\nwant %q with %q", pe.Cause, pe.Detail, tt.cause, tt.detail)
			}
			if !errors.Is(err, ErrInvalid) {
				t.Error("the error does not wrap ErrInvalid")
			}
			if len(pe.Detail) > 400 {
				t.Errorf("the detail has %d bytes: %s", len(pe.Detail), pe.Detail)
			}
		})
	}
}

func manyKeys(n int) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `"k%d":%d`, i, i)
	}
	return b.String()
}

func TestParseReadingsTakesWhatIsJustWithinTheLimits(t *testing.T) {
	deep := strings.Repeat("[", MaxDepth) + strings.Repeat("]", MaxDepth)
	for name, payload := range map[string]string{
		"depth":           `{"a":` + deep + `}`,
		"keys":            `{` + manyKeys(MaxReadingKeys) + `}`,
		"readings":        `[` + strings.Repeat(`{"a":1},`, MaxReadings-1) + `{"a":1}]`,
		"text":            `{"a":"` + strings.Repeat("x", MaxTextBytes) + `"}`,
		"key":             `{"` + strings.Repeat("k", MaxKeyBytes) + `":1}`,
		"large envelope":  `{"values":{"a":"` + strings.Repeat("x", MaxTextBytes-1) + `","b":"` + strings.Repeat("x", 99) + `"},"ts":1}`,
		"the latest time": fmt.Sprintf(`{"ts":%d,"values":{"a":1}}`, MaxTS),
	} {
		readings, err := ParseReadings([]byte(payload), parseNow)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if err := checkReadings(readings); err != nil {
			t.Errorf("%s: what was parsed may not be ingested: %v", name, err)
		}
	}
}

// FuzzParseReadings holds the parser against encoding/json and against itself.
func FuzzParseReadings(f *testing.F) {
	for _, seed := range []string{
		`{"temperature":21.5}`, `{"ts":1451649600512,"values":{"temperature":21.5,"on":true}}`,
		`{"values":{"a":{"b":[1,2,null]}},"ts":12}`, `[{"a":1},{"ts":2,"values":{"b":"x"}}]`,
		`{"a":"\ud83d\ude00\n","b":[ ],"c":{"d":{}}}`, `{"a":1e400}`, `{"a":-0.0,"b":1E-7,"c":123456789012345678901}`,
		`{"ts":"x","values":{}}`, `[[]]`, `{"a":nul}`, "{\"a\":\"\xff\"}", ` { "a" : [ "b c" , { "d" : "\" " } ] } `,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		readings, err := ParseReadings(payload, parseNow)
		if err != nil {
			if pe, ok := errors.AsType[*PayloadError](err); !ok || readings != nil {
				t.Fatalf("got %v with %v", readings, err)
			} else if pe.Cause == CauseSyntax && json.Valid(payload) {
				t.Fatalf("valid JSON refused as a syntax error: %v", err)
			}
			return
		}
		if !json.Valid(payload) {
			t.Fatalf("accepted what is not JSON: %q", payload)
		}
		if err := checkReadings(readings); err != nil {
			t.Fatalf("parsed readings may not be ingested: %v", err)
		}
		text := appendReadings(nil, readings)
		again, err := ParseReadings(text, parseNow)
		if len(text) > MaxPayloadBytes {
			return
		}
		if err != nil {
			t.Fatalf("round trip of %s: %v", text, err)
		}
		if got := appendReadings(nil, again); string(got) != string(text) {
			t.Fatalf("round trip of %s ended in %s", text, got)
		}
	})
}

func appendReadings(dst []byte, readings []Reading) []byte {
	dst = append(dst, '[')
	for i, r := range readings {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = fmt.Appendf(dst, `{"ts":%d,"values":{`, r.TS)
		for j, s := range r.Values {
			if j > 0 {
				dst = append(dst, ',')
			}
			dst = append(value.AppendQuoted(dst, s.Key), ':')
			dst = s.Value.AppendJSON(dst)
		}
		dst = append(dst, "}}"...)
	}
	return append(dst, ']')
}

func TestParseReadingsAllocatesLittle(t *testing.T) {
	payload := []byte(`{"ts":1451649600512,"values":{"temperature":21.5,"humidity":40,"on":true}}`)
	allocs := testing.AllocsPerRun(100, func() {
		if _, err := ParseReadings(payload, parseNow); err != nil {
			t.Fatal(err)
		}
	})
	if allocs > 3 {
		t.Errorf("a reading of three keys costs %v allocations, want at most 3", allocs)
	}
}

func BenchmarkParseReadings(b *testing.B) {
	for name, payload := range map[string]string{
		"keys=3":       `{"temperature":21.5,"humidity":40.25,"on":true}`,
		"keys=3/ts":    `{"ts":1451649600512,"values":{"temperature":21.5,"humidity":40.25,"on":true}}`,
		"keys=300":     `{` + manyKeys(300) + `}`,
		"readings=100": `[` + strings.Repeat(`{"ts":1451649600512,"values":{"t":21.5}},`, 99) + `{"t":1}]`,
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := ParseReadings([]byte(payload), parseNow); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
