package lua

import (
	"bytes"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/codec"
)

type shapedBase struct{ Base string }

// shaped has a field of each shape.
type shaped struct {
	shapedBase
	Bool     bool
	Int8     int8
	Int64    int64
	Uint16   uint16
	Float32  float32
	Float64  float64
	Bytes    []byte
	List     []string
	Array    [2]int
	Map      map[string]float64
	ByNumber map[int16]bool
	Tree     *shaped
	Trees    []*shaped
	Any      any `cbor:"-" lua:"any"`
	At       time.Time
	PID      actor.PID
	Inner    struct{ HTTPCode, ID int }
	Left     chan int `cbor:"-"`
}

func vocabularyOfShaped(t testing.TB) *vocabulary {
	t.Helper()
	v := &vocabulary{byName: map[string]*word{}, byType: map[reflect.Type]*word{}}
	w := &word{name: "shaped", t: reflect.TypeFor[shaped]()}
	if w.shape, w.err = (shapes{}).of(w.t); w.err != nil {
		t.Fatal(w.err)
	}
	v.byName[w.name], v.byType[w.t] = w, w
	return v
}

func TestTypedValuesComeBack(t *testing.T) {
	v := vocabularyOfShaped(t)
	pid, err := actor.ParsePID("a~b/c#1")
	if err != nil {
		t.Fatal(err)
	}
	want := shaped{
		shapedBase: shapedBase{"b"}, Bool: true, Int8: -128, Int64: math.MinInt64, Uint16: math.MaxUint16, Float32: 0.1, Float64: math.Inf(1),
		Bytes: []byte{0, 255}, List: []string{"x", ""}, Array: [2]int{1, 2}, Map: map[string]float64{"": 1, "k": -0.5},
		ByNumber: map[int16]bool{-3: true, 1: false, 9: true}, Tree: &shaped{Int64: 1<<53 + 1}, Trees: []*shaped{nil, {}},
		Any: &Table{List: []any{1.0, int64(1 << 60)}}, At: time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC), PID: pid,
	}
	want.Inner.HTTPCode = 404
	for _, in := range []*shaped{want.Tree, want.Trees[1], &want} {
		body, err := v.packMessage(*in)
		if err != nil {
			t.Fatal(err)
		}
		got, err := v.message(body, 1)
		if err != nil {
			t.Fatal(err)
		}
		again, err := v.packMessage(got)
		if err != nil || !bytes.Equal(body, again) {
			t.Errorf("%+v comes back as %+v, %v", *in, got, err)
		}
	}
	body, err := v.packMessage(want)
	if err != nil {
		t.Fatal(err)
	}
	values, err := unpackGo(body)
	if err != nil {
		t.Fatal(err)
	}
	table := values[1].(*Table)
	for _, name := range []string{"base", "int8", "by_number", "pid", "any"} {
		if table.Field(name) == nil {
			t.Errorf("there is no field %s in %v", name, table.Fields)
		}
	}
	if inner, ok := table.Field("inner").(*Table); !ok || inner.Field("http_code") != 404.0 || inner.Field("id") != 0.0 {
		t.Errorf("inner is %v", table.Field("inner"))
	}
	if table.Field("left") != nil {
		t.Error("a field that is left out is sent")
	}
}

func TestTypedMessagesThatScriptsCannotHave(t *testing.T) {
	type recursive struct{ R *recursive }
	endless := recursive{}
	endless.R = &endless
	for _, tt := range []struct {
		message any
		says    string
	}{
		{endless, "tables are at most 32 deep"},
		{struct{ U uint64 }{math.MaxUint64}, "argument 2.u: 18446744073709551615 cannot be sent"},
		{struct{ M map[string]any }{map[string]any{"f": 1i}}, "argument 2.m.f: a complex128 cannot be sent"},
		{struct{ S string }{strings.Repeat("x", maxPacked)}, "argument 2.s: a message has at most 1048576 bytes"},
		{struct{ C chan int }{}, "the field C of struct { C chan int }: a chan int is nothing that a script can have"},
		{struct{ c int }{}, "is not exported"},
		{struct {
			A int
			B int `lua:"a"`
		}{}, "has two fields with the name a"},
		{struct{ M map[float64]int }{}, "keys that are neither texts nor integers"},
		{struct{ E error }{}, "which type it has is not known"},
	} {
		w := &word{name: "m", t: reflect.TypeOf(tt.message)}
		w.shape, w.err = (shapes{}).of(w.t)
		v := &vocabulary{byType: map[reflect.Type]*word{w.t: w}}
		if _, err := v.packMessage(tt.message); err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%T: %v, not %q", tt.message, err, tt.says)
		}
	}
}

func TestTypeOfIsWhatIsWritten(t *testing.T) {
	types := codec.NewTypes(codec.Of[int]("n", codec.Was("old")))
	if got, ok := types.TypeOf("n"); !ok || got != reflect.TypeFor[int]() {
		t.Error(got, ok)
	}
	if got, ok := types.TypeOf("old"); ok {
		t.Error(got)
	}
}

// FuzzTyped makes structs of tables of a stranger. What becomes one has a table that becomes the same.
func FuzzTyped(f *testing.F) {
	v := vocabularyOfShaped(f)
	for _, m := range []shaped{{}, {List: []string{"a"}, Tree: &shaped{Int64: math.MaxInt64}, ByNumber: map[int16]bool{1: true}, Any: true}} {
		body, err := v.packMessage(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		m, err := v.message(in, 1)
		if err != nil {
			return
		}
		once, err := v.packMessage(m)
		if err != nil {
			return // numbers as texts may be more than a message has
		}
		again, err := v.message(once, 1)
		if err != nil {
			t.Fatalf("%+v: %v", m, err)
		}
		if twice, err := v.packMessage(again); err != nil || !bytes.Equal(once, twice) {
			t.Fatalf("%x comes back as %x, %v", once, twice, err)
		}
	})
}
