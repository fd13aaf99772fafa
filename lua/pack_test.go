package lua

import (
	"bytes"
	"math"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"

	glua "github.com/yuin/gopher-lua"

	"github.com/greenroom-go/greenroom/actor"
)

// machine returns what makes values of a script.
func machine(t testing.TB) scriptMaker {
	t.Helper()
	state := glua.NewState(glua.Options{SkipOpenLibs: true})
	t.Cleanup(state.Close)
	m := newMeter(Config{MemoryLimit: 1 << 30, Steps: 1 << 30}, new(atomic.Bool), func(*walker) {})
	return newScriptMaker(state, (&service{root: state}).int64s(), m)
}

// through packs values of Go, makes values of a script of that, and goes back.
func through(t *testing.T, m scriptMaker, values ...any) []any {
	t.Helper()
	there, err := packGo(values)
	if err != nil {
		t.Fatal(err)
	}
	in, err := m.unpack(there)
	if err != nil {
		t.Fatal(err)
	}
	back, err := m.pack(m.state, in, 1)
	if err != nil {
		t.Fatal(err)
	}
	out, err := unpackGo(back)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestPackedValuesComeBack(t *testing.T) {
	m := machine(t)
	for _, c := range []struct{ in, out any }{
		{nil, nil},
		{true, true},
		{false, false},
		{0, 0.0},
		{-7, -7.0},
		{uint8(200), 200.0},
		{2.5, 2.5},
		{float32(0.5), 0.5},
		{math.Inf(-1), math.Inf(-1)},
		{int64(exact), float64(exact)},
		{int64(exact) + 1, int64(exact) + 1},
		{int64(math.MinInt64), int64(math.MinInt64)},
		{uint64(math.MaxInt64), int64(math.MaxInt64)},
		{"", ""},
		{"a\x00ü\xff", "a\x00ü\xff"},
		{[]byte("bytes"), "bytes"},
		{actor.PID{}, "-"},
		{[]any{1, "two", nil, []any{}}, &Table{List: []any{1.0, "two", nil, &Table{List: []any{}}}}},
		{
			map[string]any{"b": 2, "a": 1, "none": nil},
			&Table{List: []any{}, Fields: []Field{{"a", 1.0}, {"b", 2.0}}},
		},
		{
			&Table{List: []any{"x"}, Fields: []Field{{"z", true}, {true, "y"}, {0.5, int64(math.MaxInt64)}, {0.0, "zero"}}},
			&Table{List: []any{"x"}, Fields: []Field{{"z", true}, {true, "y"}, {0.5, int64(math.MaxInt64)}, {0.0, "zero"}}},
		},
		{(*Table)(nil), nil},
	} {
		if got := through(t, m, c.in); len(got) != 1 || !reflect.DeepEqual(got[0], c.out) {
			t.Errorf("%#v comes back as %#v, not %#v", c.in, got, c.out)
		}
	}
	if got := through(t, m, "a", nil, nil); !reflect.DeepEqual(got, []any{"a", nil, nil}) {
		t.Errorf("trailing nils come back as %#v", got)
	}
	zero := through(t, m, math.Copysign(0, -1))[0].(float64)
	if !math.Signbit(zero) {
		t.Error("-0 has lost its sign")
	}
	if n := through(t, m, math.NaN())[0].(float64); n == n {
		t.Errorf("NaN comes back as %v", n)
	}
}

func TestPackRefusesWithThePath(t *testing.T) {
	m := machine(t)
	deep, circle, wide := m.state.NewTable(), m.state.NewTable(), m.state.NewTable()
	for at, i := deep, 0; i < maxDepth; i++ {
		next := m.state.NewTable()
		at.RawSetString("x", next)
		at = next
	}
	circle.RawSetString("self", circle)
	wide.RawSetInt(maxPacked, glua.LTrue)
	keyed, inner := m.state.NewTable(), m.state.NewTable()
	keyed.RawSet(m.state.NewTable(), glua.LTrue)
	inner.RawSetInt(2, m.state.NewFunction(func(*glua.LState) int { return 0 }))
	for _, c := range []struct {
		v    glua.LValue
		want string
	}{
		{m.state.NewFunction(func(*glua.LState) int { return 0 }), "argument 1: a function cannot be sent"},
		{inner, "argument 1.2: a function cannot be sent"},
		{keyed, "argument 1.[table]: a table cannot be a key in a message"},
		{&glua.LUserData{Metatable: glua.LNil}, "argument 1: a userdata cannot be sent"},
		{&glua.LUserData{Value: &coroutine{}, Metatable: glua.LNil}, "argument 1: a thread cannot be sent"},
		{deep, "tables are at most 32 deep"},
		{circle, "argument 1.self.self.self"},
		{wide, "a message has at most 1048576 bytes"},
		{glua.LString(strings.Repeat("x", maxPacked)), "a message has at most 1048576 bytes"},
	} {
		if _, err := m.pack(m.state, []glua.LValue{c.v}, 1); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.v, err, c.want)
		}
	}
	for _, c := range []struct {
		v    any
		want string
	}{
		{struct{}{}, "argument 1: a struct {} cannot be sent: it must be nil, a bool"},
		{uint64(math.MaxUint64), "argument 1: 18446744073709551615 cannot be sent"},
		{map[string]any{"f": []any{1, make(chan int)}}, "argument 1.f.2: a chan int cannot be sent"},
		{&Table{Fields: []Field{{3.0, "x"}}}, "argument 1.3: 3 cannot be the key of a field"},
		{&Table{Fields: []Field{{3, "x"}}}, "argument 1.3: a int cannot be the key of a field"},
	} {
		if _, err := packGo([]any{c.v}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.v, err, c.want)
		}
	}
}

func TestUnpackRefusesWhatIsNotPacked(t *testing.T) {
	m := machine(t)
	nested := bytes.Repeat([]byte{tagTable, 1, 0}, maxDepth+1)
	for _, c := range []struct {
		in   string
		want string
	}{
		{"\xff", "there is no tag 255"},
		{"\x03", "end too early"},
		{"\x04\x00", "end too early"},
		{"\x06\x05ab", "end too early"},
		{"\x07\xff\xff\xff\xff\x0f\x00", "end too early"},
		{"\x07\x00\x01\x00\x00", "the key of a field has the tag 0"},
		{"\x07\x00\x01\x03\x08\x02", "4 is the key of a field"},
		{"\x07\x00\x01\x06\x01a\x00", "a field is nil"},
		{string(nested) + "\x00", "tables are at most 32 deep"},
		{strings.Repeat("\x00", maxPacked+1), "at most 1048576 bytes"},
	} {
		if _, err := m.unpack([]byte(c.in)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.in, err, c.want)
		}
		if _, err := unpackGo([]byte(c.in)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.in, err, c.want)
		}
	}
}

// FuzzPack reads bytes as a stranger may send them: what is read must come out of a script as it went in.
func FuzzPack(f *testing.F) {
	seed, err := packGo([]any{
		nil, true, 1, 2.5, int64(math.MinInt64), "text",
		[]any{1, nil, []any{"x"}},
		map[string]any{"k": map[string]any{"n": -1}},
		&Table{Fields: []Field{{true, 1}, {-2.0, "x"}}},
	})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	f.Add([]byte{tagTable, 2, 1, tagNil, tagTrue, tagString, 1, 'a', tagFalse})
	f.Fuzz(func(t *testing.T, in []byte) {
		m := machine(t)
		values, err := m.unpack(in)
		inGo, goErr := unpackGo(in)
		if (err == nil) != (goErr == nil) {
			t.Fatalf("a script gets %v, Go %v", err, goErr)
		}
		if err != nil {
			return
		}
		// Once through a script, the form is settled: holes at the end and double keys are gone.
		once, err := m.pack(m.state, values, 1)
		if err != nil {
			return // more than a message has
		}
		again, err := m.unpack(once)
		if err != nil {
			t.Fatal(err)
		}
		if twice, err := m.pack(m.state, again, 1); err != nil || !bytes.Equal(once, twice) {
			t.Fatalf("%x comes back as %x, %v", once, twice, err)
		}
		packed, err := packGo(inGo)
		if err != nil {
			t.Fatal(err)
		}
		fromGo, err := m.unpack(packed)
		if err != nil {
			t.Fatal(err)
		}
		if same, err := m.pack(m.state, fromGo, 1); err != nil || !bytes.Equal(once, same) {
			t.Fatalf("by way of Go %x becomes %x, %v", once, same, err)
		}
	})
}

func TestATableThatIsNilIsNoField(t *testing.T) {
	got := through(t, machine(t), map[string]any{"x": (*Table)(nil), "y": 1})
	if want := []any{&Table{List: []any{}, Fields: []Field{{"y", 1.0}}}}; !reflect.DeepEqual(got, want) {
		t.Errorf("it becomes %+v", got[0])
	}
}

func TestAMessageShowsTheSizeOfLargeValues(t *testing.T) {
	for _, c := range []struct{ value, want string }{
		{"apple", `"apple"`},
		{strings.Repeat("x", 64<<10), " bytes"},
	} {
		body, err := packGo([]any{c.value})
		if err != nil {
			t.Fatal(err)
		}
		p := &parcel{body: body}
		if got := p.Content(); !strings.HasSuffix(got, c.want) || len(got) > 20 {
			t.Errorf("%d bytes are shown as %.40s, want %s", len(body), got, c.want)
		}
	}
}
