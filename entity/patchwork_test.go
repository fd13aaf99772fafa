package entity

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// allocated returns the bytes that f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// ops makes a JSON patch of operations.
func ops(n int, op func(i int) string) string {
	list := make([]string, n)
	for i := range list {
		list[i] = op(i)
	}
	return "[" + strings.Join(list, ",") + "]"
}

func array(n int, element string) string {
	return "[" + strings.Repeat(element+",", n-1) + element + "]"
}

// It decoded and encoded the array for each operation: 56 s.
func TestAPatchInsideOfAnArrayDecodesItOnce(t *testing.T) {
	doc := `{"a":` + array(10_000, "0") + `}`
	patch := ops(17_000, func(i int) string { return fmt.Sprintf(`{"op":"replace","path":"/a/%d","value":%d}`, i%10_000, i%10) })
	var after string
	var err error
	n := allocated(func() { after, err = patched(t, doc, JSONPatch, patch) })
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(after, `{"a":[0,1,2,3,4,5,6,7,8,9,0,`) || len(after) != len(doc) {
		t.Errorf("%.60s of %d bytes", after, len(after))
	}
	if n > 64<<20 {
		t.Errorf("%d MiB were allocated", n>>20)
	}
}

func TestOperationsBesideAnArrayThatAPatchWorksInSeeIt(t *testing.T) {
	for i, tt := range [][3]string{
		{`{"a":[1]}`, `[{"op":"add","path":"/a/-","value":2},{"op":"test","path":"/a","value":[1,2]},{"op":"add","path":"/a/0","value":0}]`, `{"a":[0,1,2]}`},
		{`{"a":[1]}`, `[{"op":"add","path":"/a/-","value":2},{"op":"copy","from":"/a","path":"/b"},{"op":"remove","path":"/a/0"}]`, `{"a":[2],"b":[1,2]}`},
		{`{"a":[1]}`, `[{"op":"add","path":"/a/-","value":2},{"op":"replace","path":"/a","value":[7]},{"op":"add","path":"/a/-","value":8}]`, `{"a":[7,8]}`},
		{`{"a":[1]}`, `[{"op":"add","path":"/a/-","value":2},{"op":"remove","path":"/a"},{"op":"add","path":"/a","value":[3]}]`, `{"a":[3]}`},
		{`{"o":{"a":[1]}}`, `[{"op":"add","path":"/o/a/-","value":2},{"op":"move","from":"/o","path":"/p"},{"op":"add","path":"/p/a/-","value":3}]`, `{"p":{"a":[1,2,3]}}`},
		{`{"a":[1]}`, `[{"op":"add","path":"/a/-","value":2},{"op":"replace","path":"","value":{"b":1}}]`, `{"b":1}`},
		{`{"a":[[1]],"ab":[2]}`, `[{"op":"add","path":"/a/0/-","value":5},{"op":"add","path":"/ab/-","value":3},{"op":"remove","path":"/a"}]`, `{"ab":[2,3]}`},
		{
			`{"a":[1],"b":[1],"c":[1],"d":[1],"e":[1]}`, `[{"op":"add","path":"/a/-","value":2},{"op":"add","path":"/b/-","value":2},{"op":"add","path":"/c/-","value":2},{"op":"add","path":"/d/-","value":2},{"op":"add","path":"/e/-","value":2},{"op":"add","path":"/a/-","value":3}]`,
			`{"a":[1,2,3],"b":[1,2],"c":[1,2],"d":[1,2],"e":[1,2]}`,
		},
	} {
		if after, err := patched(t, tt[0], JSONPatch, tt[1]); err != nil || after != tt[2] {
			t.Errorf("case %d: %s, %v; want %s", i, after, err, tt[2])
		}
	}
}

// Each of them took seconds, or a gigabyte, in the entity's turn.
func TestAPatchThatTakesTooManyStepsIsRefused(t *testing.T) {
	text := strings.Repeat("x", 60_000)
	many := func(n int, member string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `,"%d":%s`, i, member)
		}
		return "{" + b.String()[1:] + "}"
	}
	for _, tt := range []struct {
		name, doc string
		form      PatchForm
		patch     string
	}{
		{"copies of a long text", `{"a":"` + text + `"}`, JSONPatch, ops(10_000, func(i int) string { return fmt.Sprintf(`{"op":"copy","from":"/a","path":"/%d"}`, i) })},
		{"copies of an object", `{"a":{"0":"` + text + `","1":"` + text + `"}}`, JSONPatch, ops(10_000, func(i int) string { return fmt.Sprintf(`{"op":"copy","from":"/a","path":"/b%d"}`, i%100) })},
		{"copies inside of an array", `{"a":["` + text + `"]}`, JSONPatch, ops(10_000, func(int) string { return `{"op":"copy","from":"/a/0","path":"/a/-"}` })},
		{"copies of all", `{"a":"` + text + `"}`, JSONPatch, ops(10_000, func(i int) string { return fmt.Sprintf(`{"op":"copy","from":"","path":"/a%d"}`, i) })},
		{"tests of a long array", `{"a":` + array(30_000, "0") + `}`, JSONPatch, ops(20_000, func(int) string { return `{"op":"test","path":"/a","value":0}` })},
		{"an array and what is beside it", `{"a":` + array(30_000, "0") + `}`, JSONPatch, ops(10_000, func(i int) string {
			if i%2 == 0 {
				return `{"op":"replace","path":"/a/1","value":1}`
			}
			return `{"op":"copy","from":"/a","path":"/b"}`
		})},
		{"a merge patch of many members", `{}`, MergePatch, many(95_000, "1")},
		{"a merge patch of many objects", `{}`, MergePatch, many(95_000, "{}")},
		{"a document of many members", `{}`, Replace, many(95_000, "1")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := patched(t, tt.doc, tt.form, tt.patch)
			if !errors.Is(err, ErrInvalid) && !errors.Is(err, ErrTestFailed) {
				t.Errorf("%v, want ErrInvalid", err)
			}
		})
	}
}
