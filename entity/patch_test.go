package entity

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/greenroom-go/greenroom/entity/value"
)

// sectionOf makes a section of a JSON object, all leaves with the time 1.
func sectionOf(t testing.TB, doc string) section {
	t.Helper()
	l, err := (&Patch{Section: Attributes, Form: Replace, Body: []byte(doc)}).apply(nil, 1, 0)
	if err != nil {
		t.Fatalf("section of %s: %v", doc, err)
	}
	return l.section
}

func patched(t testing.TB, doc string, form PatchForm, patch string) (string, error) {
	t.Helper()
	l, err := (&Patch{Section: Attributes, Form: form, Body: []byte(patch)}).apply(sectionOf(t, doc), 2, 0)
	if err != nil {
		return "", err
	}
	for i := 1; i < len(l.section); i++ {
		if l.section[i-1].Path >= l.section[i].Path {
			t.Errorf("%s with %s: leaves out of order: %+v", doc, patch, l.section)
		}
	}
	return string(AppendAttributes(nil, l.section)), nil
}

// The cases of RFC 7396, appendix A, whose documents are objects, and some more.
func TestMergePatchDoesWhatItsRFCSays(t *testing.T) {
	for _, tt := range [][3]string{
		{`{"a":"b"}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":"b"}`, `{"b":"c"}`, `{"a":"b","b":"c"}`},
		{`{"a":"b"}`, `{"a":null}`, `{}`},
		{`{"a":"b","b":"c"}`, `{"a":null}`, `{"b":"c"}`},
		{`{"a":["b"]}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":"c"}`, `{"a":["b"]}`, `{"a":["b"]}`},
		{`{"a":{"b":"c"}}`, `{"a":{"b":"d","c":null}}`, `{"a":{"b":"d"}}`},
		{`{"a":[{"b":"c"}]}`, `{"a":[1]}`, `{"a":[1]}`},
		{`{"a":"foo"}`, `{"b":[null]}`, `{"a":"foo","b":[null]}`},
		{`{}`, `{"a":{"bb":{"ccc":null}}}`, `{"a":{"bb":{}}}`},
		{`{"a":{"b":1}}`, `{"a":{"b":null}}`, `{"a":{}}`},
		{`{"a":{}}`, `{"a":{"b":1}}`, `{"a":{"b":1}}`},
		{`{"a":{"b":1,"c":2}}`, `{"a":7}`, `{"a":7}`},
		{`{"a":{"b":1},"a-b":2,"a0":3}`, `{"a":null}`, `{"a-b":2,"a0":3}`},
		{`{"a/b":1,"a~b":{"":2}}`, `{"a/b":3,"a~b":{"":4}}`, `{"a~b":{"":4},"a/b":3}`},
		{`{"n":9007199254740993,"f":1.5}`, `{}`, `{"f":1.5,"n":9007199254740993}`},
	} {
		got, err := patched(t, tt[0], MergePatch, tt[1])
		if err != nil || got != tt[2] {
			t.Errorf("%s with %s: %s, %v, want %s", tt[0], tt[1], got, err, tt[2])
		}
	}
	for _, patch := range []string{`[1]`, `"a"`, `null`, `7`, ``, `{"a":1`, `{"a":1}x`, `{"a":nul}`, `{"a":{"b"}}`, "{\"\\n\":1}", `{"a":` + strings.Repeat(`{"a":`, MaxDepth) + "1" + strings.Repeat("}", MaxDepth+1)} {
		if _, err := patched(t, `{}`, MergePatch, patch); !errors.Is(err, ErrInvalid) {
			t.Errorf("%.40s: %v, want ErrInvalid", patch, err)
		}
	}
}

// The cases of RFC 6902, appendix A, and more at the edges.
func TestJSONPatchDoesWhatItsRFCSays(t *testing.T) {
	const fails = ""
	for i, tt := range [][3]string{
		{`{"foo":"bar"}`, `[{"op":"add","path":"/baz","value":"qux"}]`, `{"baz":"qux","foo":"bar"}`},
		{`{"foo":["bar","baz"]}`, `[{"op":"add","path":"/foo/1","value":"qux"}]`, `{"foo":["bar","qux","baz"]}`},
		{`{"baz":"qux","foo":"bar"}`, `[{"op":"remove","path":"/baz"}]`, `{"foo":"bar"}`},
		{`{"foo":["bar","qux","baz"]}`, `[{"op":"remove","path":"/foo/1"}]`, `{"foo":["bar","baz"]}`},
		{`{"baz":"qux","foo":"bar"}`, `[{"op":"replace","path":"/baz","value":"boo"}]`, `{"baz":"boo","foo":"bar"}`},
		{`{"foo":{"bar":"baz","waldo":"fred"},"qux":{"corge":"grault"}}`, `[{"op":"move","from":"/foo/waldo","path":"/qux/thud"}]`, `{"foo":{"bar":"baz"},"qux":{"corge":"grault","thud":"fred"}}`},
		{`{"foo":["all","grass","cows","eat"]}`, `[{"op":"move","from":"/foo/1","path":"/foo/3"}]`, `{"foo":["all","cows","eat","grass"]}`},
		{`{"baz":"qux","foo":["a",2,"c"]}`, `[{"op":"test","path":"/baz","value":"qux"},{"op":"test","path":"/foo/1","value":2}]`, `{"baz":"qux","foo":["a",2,"c"]}`},
		{`{"baz":"qux"}`, `[{"op":"test","path":"/baz","value":"bar"}]`, fails},
		{`{"foo":"bar"}`, `[{"op":"add","path":"/child","value":{"grandchild":{}}}]`, `{"child":{"grandchild":{}},"foo":"bar"}`},
		{`{"foo":"bar"}`, `[{"op":"add","path":"/baz","value":"qux","xyz":123}]`, `{"baz":"qux","foo":"bar"}`},
		{`{"foo":"bar"}`, `[{"op":"add","path":"/baz/bat","value":"qux"}]`, fails},
		{`{"/":9,"~1":10}`, `[{"op":"test","path":"/~01","value":10}]`, `{"~1":10,"/":9}`},
		{`{"/":9,"~1":10}`, `[{"op":"test","path":"/~01","value":"10"}]`, fails},
		{`{"foo":["bar"]}`, `[{"op":"add","path":"/foo/-","value":["abc","def"]}]`, `{"foo":["bar",["abc","def"]]}`},

		{`{"a":{"b":1}}`, `[{"op":"copy","from":"/a","path":"/c"}]`, `{"a":{"b":1},"c":{"b":1}}`},
		{`{"a":{"b":1}}`, `[{"op":"move","from":"/a","path":"/a/c"}]`, fails},
		{`{"a":{"b":1}}`, `[{"op":"move","from":"/a","path":"/a"}]`, `{"a":{"b":1}}`},
		{`{"a":{"b":1}}`, `[{"op":"replace","path":"","value":{"z":[{}]}}]`, `{"z":[{}]}`},
		{`{"a":1}`, `[{"op":"replace","path":"","value":7}]`, fails},
		{`{"a":1}`, `[{"op":"remove","path":""}]`, `{}`},
		{`{"a":{"b":1}}`, `[{"op":"remove","path":"/a/b"},{"op":"test","path":"/a","value":{}}]`, `{"a":{}}`},
		{`{"a":[{"b":[1]}]}`, `[{"op":"add","path":"/a/0/b/0","value":0},{"op":"replace","path":"/a/0/c","value":0}]`, fails},
		{`{"a":[{"b":[1]}]}`, `[{"op":"add","path":"/a/0/b/0","value":0},{"op":"add","path":"/a/0/c","value":null}]`, `{"a":[{"b":[0,1],"c":null}]}`},
		{`{"a":[1,2]}`, `[{"op":"remove","path":"/a/2"}]`, fails},
		{`{"a":[1,2]}`, `[{"op":"remove","path":"/a/01"}]`, fails},
		{`{"a":[1,2]}`, `[{"op":"remove","path":"/a/-"}]`, fails},
		{`{"a":[1,2]}`, `[{"op":"add","path":"/a/3","value":3}]`, fails},
		{`{"a":[1,2]}`, `[{"op":"add","path":"/a/2","value":3}]`, `{"a":[1,2,3]}`},
		{`{"a":1}`, `[{"op":"add","path":"/a/b","value":3}]`, fails},
		{`{"a":1}`, `[{"op":"add","path":"/b","value":null}]`, fails},
		{`{"a":1}`, `[{"op":"add","path":"/b"}]`, fails},
		{`{"a":1}`, `[{"op":"move","path":"/b"}]`, fails},
		{`{"a":1}`, `[{"op":"remove"}]`, fails},
		{`{"a":1}`, `[{"op":"remove","path":"a"}]`, fails},
		{`{"a":1}`, `[{"op":"remove","path":"/~2"}]`, fails},
		{`{"a":1}`, `[{"op":"increment","path":"/a"}]`, fails},
		{`{"a":1}`, `{"op":"remove","path":"/a"}`, fails},
		{`{"a":{"x":1,"y":[1.0]}}`, `[{"op":"test","path":"/a","value":{"y":[1],"x":1e0}}]`, `{"a":{"x":1,"y":[1.0]}}`},
		{`{"n":9007199254740993}`, `[{"op":"test","path":"/n","value":9007199254740992}]`, fails},
		{`{"a":"x"}`, `[{"op":"remove","path":"/a"},{"op":"remove","path":"/a"}]`, fails},
	} {
		got, err := patched(t, tt[0], JSONPatch, tt[1])
		switch {
		case tt[2] == fails && err == nil:
			t.Errorf("%d: %s with %s: %s, want an error", i, tt[0], tt[1], got)
		case tt[2] == fails && !errors.Is(err, ErrInvalid) && !errors.Is(err, ErrConflict):
			t.Errorf("%d: %s with %s: %v, want ErrInvalid or ErrConflict", i, tt[0], tt[1], err)
		case tt[2] != fails && (err != nil || got != tt[2]):
			t.Errorf("%d: %s with %s: %s, %v, want %s", i, tt[0], tt[1], got, err, tt[2])
		}
	}
}

func TestFailedTestOperationIsAConflict(t *testing.T) {
	for _, patch := range []string{`[{"op":"test","path":"/a","value":2}]`, `[{"op":"test","path":"/b","value":2}]`} {
		if _, err := patched(t, `{"a":1}`, JSONPatch, patch); !errors.Is(err, ErrConflict) || !errors.Is(err, ErrTestFailed) {
			t.Errorf("%s: %v, want ErrConflict by ErrTestFailed", patch, err)
		}
	}
	if err := CheckCondition("one", "other"); !errors.Is(err, ErrConflict) || errors.Is(err, ErrTestFailed) {
		t.Errorf("a condition that does not hold: %v, want ErrConflict alone", err)
	}
}

func TestEditSaysWhatWasSetAndRemovedAndOnlySetLeavesGetANewTime(t *testing.T) {
	before := sectionOf(t, `{"keep":1,"same":2,"other":{"x":1,"y":2},"list":[1]}`)
	l, err := (&Patch{Section: Desired, Form: MergePatch, Body: []byte(`{"same":2,"other":{"x":null},"new":true}`)}).apply(before, 5, 0)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range l.compare(before, Desired) {
		got = append(got, fmt.Sprintf("%v %s %v@%d", e.Section, e.Path, e.Value, e.TS))
	}
	const want = "desired /new true@5, desired /other/x null@5, desired /same 2@5"
	if text := strings.Join(got, ", "); text != want {
		t.Errorf("edits %s, want %s", text, want)
	}
	if times := string(AppendTimes(nil, []Attribute{{Path: "/a/b", TS: 1999, Value: value.Int(1)}})); times != `{"a":{"b":{"timestamp":1}}}` {
		t.Errorf("times %s", times)
	}
}

func TestDeltaIsWhatDesiredHasAndReportedHasNot(t *testing.T) {
	for _, tt := range [][3]string{
		{`{"a":1}`, `{}`, `{"a":1}`},
		{`{"a":1}`, `{"a":1,"b":2}`, `{}`},
		{`{"a":1}`, `{"a":1.0}`, `{}`},
		{`{"a":1}`, `{"a":"1"}`, `{"a":1}`},
		{`{"a":{"b":1,"c":2}}`, `{"a":{"b":1}}`, `{"a":{"c":2}}`},
		{`{"a":{"b":1}}`, `{"a":7}`, `{"a":{"b":1}}`},
		{`{"a":[1,2]}`, `{"a":[1]}`, `{"a":[1,2]}`},
		{`{"a":[{"x":1,"y":2}]}`, `{"a":[{"y":2,"x":1.0}]}`, `{}`},
		{`{"a":{}}`, `{"a":{"b":1}}`, `{}`},
		{`{"a":{}}`, `{"a":1}`, `{"a":{}}`},
		{`{}`, `{"a":1}`, `{}`},
	} {
		got := string(AppendAttributes(nil, Delta(sectionOf(t, tt[0]), sectionOf(t, tt[1]))))
		if got != tt[2] {
			t.Errorf("desired %s reported %s: delta %s, want %s", tt[0], tt[1], got, tt[2])
		}
	}
}

// A section is always the document that its leaves stand for, whatever is done
// to it: the merge on the leaves is the merge on the document.
func FuzzMergePatch(f *testing.F) {
	f.Add(`{"a":{"b":1},"c":[1]}`, `{"a":{"b":null,"d":{}},"c":{"e":1}}`)
	f.Add(`{"a":{}}`, `{"a":{"x":null}}`)
	f.Add(`{"":{"":1}}`, `{"":{"":null}}`)
	f.Fuzz(func(t *testing.T, doc, patch string) {
		l, err := (&Patch{Section: Attributes, Form: Replace, Body: []byte(doc)}).apply(nil, 1, 0)
		if err != nil {
			return
		}
		merged, err := (&Patch{Section: Attributes, Form: MergePatch, Body: []byte(patch)}).apply(l.section, 2, 0)
		if err != nil {
			return
		}
		var target, change any
		if json.Unmarshal(AppendAttributes(nil, l.section), &target) != nil || json.Unmarshal([]byte(patch), &change) != nil {
			t.Fatalf("%q or %q was taken, and is no JSON", doc, patch)
		}
		want, err := encodeJSON(mergeDocs(target, change))
		if err != nil {
			t.Fatal(err)
		}
		if got := AppendAttributes(nil, merged.section); !sameJSON(got, want) {
			t.Errorf("%s with %s: %s, want %s", doc, patch, got, want)
		}
	})
}

// mergeDocs is the pseudo code of RFC 7396, section 2.
func mergeDocs(target, patch any) any {
	object, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	result, ok := target.(map[string]any)
	if !ok {
		result = map[string]any{}
	}
	for name, value := range object {
		if value == nil {
			delete(result, name)
		} else {
			result[name] = mergeDocs(result[name], value)
		}
	}
	return result
}

func FuzzJSONPatch(f *testing.F) {
	f.Add(`{"a":[1,{"b":2}]}`, `[{"op":"add","path":"/a/1/c","value":3},{"op":"move","from":"/a/0","path":"/d"}]`)
	f.Fuzz(func(t *testing.T, doc, patch string) {
		l, err := (&Patch{Section: Attributes, Form: Replace, Body: []byte(doc)}).apply(nil, 1, 0)
		if err != nil {
			return
		}
		after, err := (&Patch{Section: Attributes, Form: JSONPatch, Body: []byte(patch)}).apply(l.section, 2, 0)
		if err != nil {
			return
		}
		text := AppendAttributes(nil, after.section)
		again, err := (&Patch{Section: Attributes, Form: Replace, Body: text}).apply(nil, 1, 0)
		if err != nil || string(AppendAttributes(nil, again.section)) != string(text) {
			t.Errorf("%s with %s: %s does not read back: %v", doc, patch, text, err)
		}
	})
}
