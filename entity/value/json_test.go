package value

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// arrayContains is Contains by way of encoding/json.
func arrayContains(text string, want Value) bool {
	var list []json.RawMessage
	if json.Unmarshal([]byte(text), &list) != nil {
		return false
	}
	return slices.ContainsFunc(list, func(raw json.RawMessage) bool {
		v, ok := decoded(raw)
		return ok && v.Kind() != KindJSON && (v.Kind() == want.Kind() || v.IsNumber() && want.IsNumber()) && Compare(v, want) == Equal
	})
}

// decoded is the value of a JSON text by way of encoding/json.
func decoded(raw []byte) (Value, bool) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var x any
	if d.Decode(&x) != nil {
		return Value{}, false
	}
	switch x := x.(type) {
	case bool:
		return Bool(x), true
	case string:
		return String(x), true
	case json.Number:
		if i, err := x.Int64(); err == nil {
			return Int(i), true
		}
		f, err := x.Float64()
		return Float(f), err == nil
	case nil:
		return Value{}, false
	default:
		return JSON(string(raw)), true
	}
}

func TestAtFindsWhatIsThere(t *testing.T) {
	const text = `{"a":1,"b":{"c":"x\ny","d":[1,{"e":2}],"":3},"a/b":true,"~":null,"e\u0301":2.5,"\ud83d\ude00":-1}`
	for pointer, want := range map[string]string{
		"/a": "1", "/b/c": `"x\ny"`, "/b/d": `[1,{"e":2}]`, "/b/": "3", "/a~1b": "true", "/e\u0301": "2.5", "/😀": "-1",
		"/b": `{"c":"x\ny","d":[1,{"e":2}],"":3}`, "": text,
	} {
		if v, ok := At(text, pointer); !ok || v.String() != want {
			t.Errorf("%q is %v, %v; want %s", pointer, v, ok, want)
		}
	}
	for _, pointer := range []string{"/~0", "/c", "/a/b", "/b/d/0", "/b/c/x", "/"} {
		if v, ok := At(text, pointer); ok {
			t.Errorf("%q is %v, and is not there", pointer, v)
		}
	}
}

func FuzzJSON(f *testing.F) {
	for _, seed := range []string{`{"a":[1,"x",true,null,{"b":2}],"c":-1.5e3}`, `["a\u00e9\ud83d\ude00\"\\",12345678901234567890,0.1,-0]`, `{"":""}`, `[[],{}]`, `[`, `{"a"`, `"\`, `{"a":"\u`} {
		f.Add(seed, "/a", "x", int64(1))
	}
	f.Fuzz(func(t *testing.T, text, pointer, s string, i int64) {
		var compact bytes.Buffer
		valid := json.Compact(&compact, []byte(text)) == nil && strings.ToValidUTF8(text, "") == text
		if valid {
			text = compact.String()
		}
		for _, want := range []Value{String(s), Int(i), Float(float64(i) / 4), Bool(i > 0)} {
			got := Contains(text, want)
			if valid && got != arrayContains(text, want) {
				t.Errorf("%s has %v: %v", text, want, got)
			}
		}
		if pointer == "" || pointer[0] != '/' {
			pointer = "/" + pointer
		}
		got, ok := At(text, pointer)
		if !valid {
			return
		}
		if want, there := lookup(text, pointer); ok != there || ok && got != want {
			t.Errorf("%s at %q is %v, %v; want %v, %v", text, pointer, got, ok, want, there)
		}
	})
}

// lookup is At by way of encoding/json, for objects whose members are
// different.
func lookup(text, pointer string) (Value, bool) {
	for token := range strings.SplitSeq(pointer[1:], "/") {
		token = strings.ReplaceAll(strings.ReplaceAll(token, "~1", "/"), "~0", "~")
		d := json.NewDecoder(strings.NewReader(text))
		if start, err := d.Token(); err != nil || start != json.Delim('{') {
			return Value{}, false
		}
		found := false
		for d.More() {
			name, err := d.Token()
			var raw json.RawMessage
			if err != nil || d.Decode(&raw) != nil {
				return Value{}, false
			}
			if !found && name == token { // the first, where there are more
				found, text = true, string(raw)
			}
		}
		if !found {
			return Value{}, false
		}
	}
	return decoded([]byte(text))
}

func TestNumbersOfJSONAreReadAsPayloadsAre(t *testing.T) {
	for text, want := range map[string]string{"1": "int 1", "1.0": "float 1", "9223372036854775807": "int 9223372036854775807", "9223372036854775808": "float 9223372036854776000", "-0": "int 0"} {
		v, ok := At(text, "")
		if got := fmt.Sprint(v.Kind(), " ", v); !ok || got != want {
			t.Errorf("%s is %s, %v; want %s", text, got, ok, want)
		}
	}
}
