package codec_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"log/slog"
	"reflect"
	"runtime"
	"testing"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/codec"
)

type (
	large struct{ A, B, C, D, E, F string }
	block struct{ Bytes [1 << 10]byte }
	tuple struct {
		_     struct{} `cbor:",toarray"`
		Name  string
		Items []large
	}
	numbered struct {
		Items []large `cbor:"-2,keyasint"`
	}
	within  struct{ Items []large }
	outside struct {
		N int
		within
	}
	tree struct {
		Text  string
		Trees []tree
	}
)

// head is the head of an item of CBOR.
func head(major byte, n int) []byte {
	return binary.BigEndian.AppendUint32([]byte{major<<5 | 26}, uint32(n))
}

// many is the head of an item and n times the same after it.
func many(major byte, n int, item ...byte) []byte {
	return append(head(major, n), bytes.Repeat(item, n)...)
}

// taggedArray is the heads of an array of one item behind a tag.
var taggedArray = []byte{0xd8, 0x64, 0x81}

func join(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

// Whoever sends a few bytes must not make their reader take a hundred times as many.
func TestStrictTypesTakeNoMoreMemoryThanBytesAllow(t *testing.T) {
	const n = 60_000
	items := many(4, n, 0xa0)
	pairs := head(5, n)
	for i := range n {
		pairs = append(pairs, 25, byte(i>>8), byte(i), 0xa0)
	}
	for _, c := range []struct {
		name string
		into any
		data []byte
	}{
		{"structs", new([]large), items},
		{"arrays", new([][1 << 10]byte), many(4, n, 0x40)},
		{"structs with arrays", new([]block), items},
		{"pointers", new([]*large), items},
		{"pairs", new(map[int]large), pairs},
		{"in a field", new(within), join([]byte{0xa1, 0x65}, []byte("Items"), items)},
		{"in a field of an embedded struct", new(outside), join([]byte{0xa1, 0x65}, []byte("Items"), items)},
		{"in a field with a number", new(numbered), join([]byte{0xa1, 0x21}, items)},
		{"in a struct that is an array", new(tuple), join([]byte{0x82, 0x60}, items)},
		{"in a slice", new([][]large), join([]byte{0x81}, items)},
		{"in a map", new(map[string][]large), join([]byte{0xa1, 0x60}, items)},
		{"behind a tag", new([]large), join([]byte{0xd8, 0x64}, items)},
		{"of themselves", new([]tree), items},
		{"small maps", new([]map[string]string), many(4, n, 0xa1, 0x60, 0x60)},
		{"empty maps", new([]map[string]string), many(4, n, 0xa0)},
		{
			"after arrays behind tags", new(within),
			join([]byte{0xa2, 0x61, 'x'}, bytes.Repeat(taggedArray, codec.MaxDepth/2), []byte{0, 0x65}, []byte("Items"), items),
		},
	} {
		types := codec.NewTypes()
		data := append([]byte{0}, c.data...)
		if err := types.DecodeValue(data, reflect.New(reflect.TypeOf(c.into).Elem()).Interface()); err != nil {
			t.Errorf("%s: it is no value: %v", c.name, err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := types.Strict().DecodeValue(data, c.into)
		runtime.ReadMemStats(&after)
		if !errors.Is(err, codec.ErrTooLarge) {
			t.Errorf("%s: %v", c.name, err)
		}
		if took := after.TotalAlloc - before.TotalAlloc; took > 1<<20 {
			t.Errorf("%s: %d bytes for nothing", c.name, took)
		}
	}
}

func TestStrictTypesWeighReferences(t *testing.T) {
	sys := actor.NewSystem("a", actor.WithLogger(slog.New(slog.DiscardHandler)))
	t.Cleanup(func() { _, _ = sys.Shutdown(t.Context()) })
	types := codec.NewTypes().Bind(sys)
	for _, c := range []struct {
		n    int
		text string
		want error
	}{
		{60_000, "a/#1", codec.ErrTooLarge}, {60_000, "", nil}, {60_000, "a/a/name/of/20/bytes#1", nil}, {50, "a/#1", nil},
	} {
		data := join([]byte{0}, many(4, c.n, append([]byte{0x60 + byte(len(c.text))}, c.text...)...))
		var refs []actor.Ref[int]
		if err := types.Strict().DecodeValue(data, &refs); !errors.Is(err, c.want) {
			t.Errorf("%d times %q: %v", c.n, c.text, err)
		}
	}
}

func TestStrictTypesTakeWhatTheirOwnProgramHasWritten(t *testing.T) {
	types := codec.NewTypes(codec.Of[outside]("outside"), codec.Of[tuple]("tuple"), codec.Of[[]string]("texts"),
		codec.Of[map[int][]int]("lists"), codec.Of[[]large]("large"), codec.Of[block]("block")).Strict()
	lists := map[int][]int{}
	for i := range 10_000 {
		lists[i] = []int{}
	}
	for _, v := range []any{
		outside{1, within{make([]large, 10_000)}},
		tuple{Name: "x", Items: make([]large, 10_000)},
		make([]string, 100_000), lists, make([]large, 10_000),
		block{},
	} {
		name, data, err := types.Append(nil, v)
		if err != nil {
			t.Fatal(err)
		}
		if back, err := types.Decode(name, data); err != nil || !reflect.DeepEqual(back, v) {
			t.Errorf("%s of %d bytes: %v", name, len(data), err)
		}
	}
}

func TestStrictTypesAreNotNestedDeeply(t *testing.T) {
	types := codec.NewTypes(codec.Of[tree]("tree"))
	deep := tree{}
	for range codec.MaxDepth {
		deep = tree{Trees: []tree{deep}}
	}
	name, data, err := types.Append(nil, deep)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := types.Decode(name, data); err != nil {
		t.Error(err)
	}
	if _, err := types.Strict().Decode(name, data); err == nil {
		t.Error("a deep value is taken")
	}
	tagged := join([]byte{0xa1, 0x61, 'x'}, bytes.Repeat(taggedArray, codec.MaxDepth-1), []byte{0})
	if _, err := types.Strict().Decode(name, tagged); err != nil {
		t.Errorf("tags are levels: %v", err)
	}
	tagged = join([]byte{0xa1, 0x61, 'x'}, bytes.Repeat([]byte{0xd8, 0x64}, codec.MaxDepth), []byte{0})
	if _, err := types.Strict().Decode(name, tagged); err != nil {
		t.Errorf("the last tag of a run is a level: %v", err)
	}
	unknown := join([]byte{0xa1, 0x61, 'x'}, bytes.Repeat([]byte{0x81}, 1000), []byte{0})
	if _, err := types.Strict().Decode(name, unknown); err == nil {
		t.Error("a deep value of a field that is passed over is taken")
	}
}

// referring has references wherever a type may have them.
type referring struct {
	To    actor.Ref[int]
	None  actor.Ref[int]
	All   []actor.Ref[string]
	Named map[string]actor.Ref[int]
	Other *referring
	Deep  struct{ Two [2]actor.Ref[int] }
	unnamed
}

type unnamed struct{ Inner actor.Ref[int] }

func TestReferencesAreThoseOfTheSystem(t *testing.T) {
	sys := actor.NewSystem("a", actor.WithLogger(slog.New(slog.DiscardHandler)))
	t.Cleanup(func() { _, _ = sys.Shutdown(t.Context()) })
	number := actor.SpawnFunc(sys, "number", func(*actor.Context[int], int) error { return nil })
	text := actor.SpawnFunc(sys, "text", func(*actor.Context[string], string) error { return nil })
	types := codec.NewTypes(codec.Of[referring]("r"), codec.Of[*referring]("p"))
	bound := types.Bind(sys)
	v := referring{
		To: number, All: []actor.Ref[string]{text, {}}, Named: map[string]actor.Ref[int]{"x": number},
		Other: &referring{To: number}, unnamed: unnamed{number},
	}
	v.Deep.Two[1] = number
	for _, v := range []any{v, &v} {
		name, data, err := bound.Append(nil, v)
		if err != nil {
			t.Fatal(err)
		}
		back, err := bound.Decode(name, data)
		if err != nil || !reflect.DeepEqual(back, v) {
			t.Errorf("got %+v, %v", back, err)
		}
		if _, err := types.Decode(name, data); err == nil {
			t.Error("references are read without a system")
		}
		if _, _, err := types.Append(nil, v); err == nil {
			t.Error("references are written without a system")
		}
	}
	data, err := bound.AppendValue(nil, number)
	if err != nil {
		t.Fatal(err)
	}
	var ref actor.Ref[int]
	if err := bound.DecodeValue(data, &ref); err != nil || ref != number {
		t.Errorf("a value: %v, %v", ref, err)
	}
	if _, err := types.AppendValue(nil, number); err == nil {
		t.Error("a value is written without a system")
	}
	routed, err := actor.Routed(sys, number.PID(), func(n int, to func(actor.Ref[int])) { to(number) })
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bound.AppendValue(nil, routed); err == nil {
		t.Error("a routing reference has an address")
	}
}

func TestAReferenceThatIsNotFoundTakesNoMessage(t *testing.T) {
	sys := actor.NewSystem("a", actor.WithLogger(slog.New(slog.DiscardHandler)))
	t.Cleanup(func() { _, _ = sys.Shutdown(t.Context()) })
	text := actor.SpawnFunc(sys, "text", func(*actor.Context[string], string) error { return nil })
	other := actor.NewSystem("b", actor.WithLogger(slog.New(slog.DiscardHandler)))
	t.Cleanup(func() { _, _ = other.Shutdown(t.Context()) })
	gone := actor.SpawnFunc(sys, "gone", func(*actor.Context[int], int) error { return nil })
	gone.Stop()
	if _, err := gone.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	there := actor.SpawnFunc(other, "there", func(*actor.Context[int], int) error { return nil })
	types := codec.NewTypes().Bind(sys)
	for pid, want := range map[actor.PID]error{
		gone.PID(): actor.ErrStopped, text.PID(): actor.ErrNotAccepted, there.PID(): actor.ErrStopped,
	} {
		data, err := types.AppendValue(nil, pid)
		if err != nil {
			t.Fatal(err)
		}
		var ref actor.Ref[int]
		if err := types.DecodeValue(data, &ref); err != nil || ref.PID() != pid {
			t.Errorf("%v: %v, %v", pid, ref, err)
			continue
		}
		if err := ref.TryTell(t.Context(), 1); !errors.Is(err, want) {
			t.Errorf("%v: a tell: %v, want %v", pid, err, want)
		}
		if _, err := actor.AskFor[int](t.Context(), ref, 1); !errors.Is(err, want) {
			t.Errorf("%v: an ask: %v, want %v", pid, err, want)
		}
		before := len(sys.DeadLetters())
		if ref.Tell(t.Context(), 1); len(sys.DeadLetters()) != before+1 {
			t.Errorf("%v: a tell is no dead letter", pid)
		}
		ref.Stop() // which concerns nobody
		_ = sys.Stop(pid)
		if d, err := ref.Wait(t.Context()); d.Reason == 0 || err != nil {
			t.Errorf("%v: a wait: %+v, %v", pid, d, err)
		}
	}
}
