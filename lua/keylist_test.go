package lua

import (
	"fmt"
	"testing"

	glua "github.com/yuin/gopher-lua"
)

// unpacked makes the table of packed values.
func unpacked(t *testing.T, m scriptMaker, v any) *tableLayout {
	t.Helper()
	packed, err := packGo([]any{v})
	if err != nil {
		t.Fatal(err)
	}
	in, err := m.unpack(packed)
	if err != nil {
		t.Fatal(err)
	}
	return tableOf(in[0].(*glua.LTable))
}

func TestMessagesOfOneKindShareTheirKeys(t *testing.T) {
	m := machine(t)
	message := &Table{Fields: []Field{{"id", 1}, {"name", "ann"}, {"at", &Table{Fields: []Field{{"x", 1}, {"y", 2}}}}}}
	for range maxSharedKeys {
		unpacked(t, m, message)
	}
	a, b := unpacked(t, m, message), unpacked(t, m, message)
	if a.shared() == nil || a.shared() != b.shared() || len(a.keys) != 3 {
		t.Errorf("%v and %v share no keys", a.keys, b.keys)
	}
	if other := unpacked(t, m, &Table{Fields: []Field{{"id", 1}, {"at", 2}}}); other.shared() != nil {
		t.Error("keys that came once are kept")
	}
	wide := &Table{}
	for i := range maxSharedKeys + 1 {
		wide.Fields = append(wide.Fields, Field{fmt.Sprint("k", i), i})
	}
	for range 2 * len(wide.Fields) {
		if unpacked(t, m, wide).shared() != nil {
			t.Fatalf("%d keys are shared, at most %d may be", len(wide.Fields), maxSharedKeys)
		}
	}
}

// A packed text may have a key twice, or keys that are no texts.
func TestSharedKeysAreThoseOfTheTable(t *testing.T) {
	m := machine(t)
	for round := range 4 * maxSharedKeys {
		twice := unpacked(t, m, &Table{Fields: []Field{{"a", 1}, {"b", 2}, {"a", 3}}})
		mixed := unpacked(t, m, &Table{Fields: []Field{{"a", 1}, {true, 2}, {"b", 3}, {0.5, 4}}})
		for key, want := range map[glua.LValue]glua.LValue{glua.LString("a"): glua.LNumber(3), glua.LString("b"): glua.LNumber(2)} {
			if twice.field(key) != want || twice.keys[twice.k2i[key]] != key {
				t.Fatalf("round %d: %v at %v", round, twice.strdict, twice.k2i)
			}
		}
		if len(twice.keys) != 2 || len(mixed.keys) != 4 || len(mixed.k2i) != 4 || mixed.field(glua.LTrue) != glua.LNumber(2) {
			t.Fatalf("round %d: keys %v and %v", round, twice.keys, mixed.keys)
		}
	}
}

func TestListsOfKeysAreBounded(t *testing.T) {
	m := machine(t)
	for i := range 4 * maxKeySteps {
		for range 2 {
			unpacked(t, m, &Table{Fields: []Field{{fmt.Sprint("k", i), i}}})
		}
		if n := len(m.meter.lists); n > maxKeySteps {
			t.Fatalf("%d keys are remembered, at most %d may be", n, maxKeySteps)
		}
	}
	before := m.meter.steps
	unpacked(t, m, &Table{Fields: []Field{{"new", 1}}})
	if spent := before - m.meter.steps; spent < stepsPerList {
		t.Errorf("a key that is remembered has cost %d steps, not %d", spent, stepsPerList)
	}
}
