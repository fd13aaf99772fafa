package codec_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/codec"
)

// everything has a field of each sort that CBOR gives back.
type everything struct {
	Bool    bool
	Int     int
	Small   int8
	Large   uint64
	Float   float64
	Narrow  float32
	Text    string
	Bytes   []byte
	Strings []string
	Nested  []inner
	Array   [3]int16
	Map     map[string]inner
	ByID    map[int64]float64
	Pointer *inner
	Time    time.Time
	For     time.Duration
	Addr    netip.Addr
	PID     actor.PID
	Day     weekday
	Tagged  int    `cbor:"t"`
	Number  string `cbor:"1,keyasint"`
	Cache   func() `cbor:"-"`
	inner
}

type inner struct {
	N    int
	Next *inner
}

type weekday int

// point has methods of its pointer, and is registered as a value.
type point struct{ x, y int32 }

func (p *point) AppendBinary(dst []byte) ([]byte, error) {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(dst, uint32(p.x)), uint32(p.y)), nil
}

func (p *point) UnmarshalBinary(data []byte) error {
	if len(data) != 8 {
		return errors.New("want 8 bytes")
	}
	p.x, p.y = int32(binary.BigEndian.Uint32(data)), int32(binary.BigEndian.Uint32(data[4:]))
	return nil
}

// message has the methods that vtprotobuf generates.
type message struct{ text string }

func (m *message) SizeVT() int { return len(m.text) }

func (m *message) MarshalToSizedBufferVT(buf []byte) (int, error) {
	return copy(buf[len(buf)-len(m.text):], m.text), nil
}

func (m *message) UnmarshalVT(data []byte) error {
	m.text = string(data)
	return nil
}

type ids []string

var types = codec.NewTypes(
	codec.Of[everything]("everything"),
	codec.Of[*inner]("inner"),
	codec.Of[point]("point"),
	codec.Of[*point]("point.pointer"),
	codec.Of[*message]("message"),
	codec.Of[*wrapperspb.StringValue](""),
	codec.Of[ids]("ids"),
	codec.Of[weekday]("weekday"),
)

func full() everything {
	return everything{
		Bool: true, Int: -1 << 62, Small: -128, Large: math.MaxUint64, Float: math.Pi, Narrow: 1.5,
		Text: "héllo \xff", Bytes: []byte{0, 255}, Strings: []string{"a", ""}, Nested: []inner{{N: 1}, {N: 2, Next: &inner{N: 3}}},
		Array: [3]int16{1, -2, 3}, Map: map[string]inner{"b": {N: 1}, "a": {}}, ByID: map[int64]float64{-7: 0.1, 1 << 40: math.Inf(1)},
		Pointer: &inner{N: 4}, Time: time.Date(2026, 11, 22, 1, 2, 3, 456_789_012, time.FixedZone("", 3600)), For: time.Hour,
		Addr: netip.MustParseAddr("fe80::1%eth0"), Day: 3, Tagged: 5, Number: "one", inner: inner{N: 6},
	}
}

func TestValuesComeBackAsTheyWere(t *testing.T) {
	t.Parallel()
	for _, v := range []any{
		full(),
		everything{},
		&inner{N: 1, Next: &inner{}},
		point{-1, 2},
		&point{3, -4}, &message{"hello"},
		ids{"a", "b"},
		ids(nil), weekday(-3),
	} {
		name, data, err := types.Append([]byte("before"), v)
		if err != nil || string(data[:6]) != "before" {
			t.Errorf("append %+v: %q %v", v, data, err)
			continue
		}
		data = data[6:]
		got, err := types.Decode(name, data)
		for i := range data {
			data[i] = 0xee // what is decoded must not be a part of data
		}
		if err != nil || !equal(got, v) {
			t.Errorf("%s: %+v has come back as %+v, %v", name, v, got, err)
		}
	}
}

// equal is reflect.DeepEqual, but that two times are equal if they are the same instant in
// zones with the same offset.
func equal(a, b any) bool {
	x, ok := a.(everything)
	y, _ := b.(everything)
	if !ok {
		return reflect.DeepEqual(a, b)
	}
	sameTime := x.Time.Format(time.RFC3339Nano) == y.Time.Format(time.RFC3339Nano)
	x.Time, y.Time = time.Time{}, time.Time{}
	return sameTime && reflect.DeepEqual(x, y)
}

func TestAProtobufMessageHasItsOwnName(t *testing.T) {
	t.Parallel()
	name, data, err := types.Append(nil, wrapperspb.String("x"))
	if err != nil || name != "google.protobuf.StringValue" {
		t.Fatalf("%q, %v", name, err)
	}
	got, err := types.Decode(name, data)
	if m, ok := got.(*wrapperspb.StringValue); err != nil || !ok || m.GetValue() != "x" {
		t.Errorf("%v, %v", got, err)
	}
}

func TestEqualValuesHaveEqualBytes(t *testing.T) {
	t.Parallel()
	_, first, err := types.Append(nil, full())
	if err != nil {
		t.Fatal(err)
	}
	for range 20 { // the order of a map changes from one range to the next
		_, data, err := types.Append(nil, full())
		if err != nil || !bytes.Equal(data, first) {
			t.Fatalf("%x and %x, %v", data, first, err)
		}
	}
}

func TestWhatWouldNotComeBackPanicsAtTheStart(t *testing.T) {
	t.Parallel()
	type hidden struct{ n int } //nolint:unused // found by reflection
	type deep struct{ Items []struct{ F func() } }
	type either struct{ V any }
	type twice struct {
		A int `cbor:"x"`
		B int `cbor:"x"`
	}
	type hiding struct {
		inner
		N int
	}
	type embedding struct {
		time.Time
		N int
	}
	type nesting struct{ E embedding }
	type mixing struct {
		time.Time
		netip.Addr
	}
	type pointers struct{ P **int }
	type keys struct{ M map[point]int }
	type jsonTag struct {
		A int `json:"-"`
	}
	type pointing struct{ *inner }
	up := func(inner) (*inner, error) { return nil, nil }
	for want, define := range map[string]func(){
		"field n is not exported":                                     func() { codec.NewTypes(codec.Of[hidden]("x")) },
		"field Items[].F is of kind func":                             func() { codec.NewTypes(codec.Of[deep]("x")) },
		"field V is of the interface type interface {}":               func() { codec.NewTypes(codec.Of[either]("x")) },
		`fields A and B, which are both written as "x"`:               func() { codec.NewTypes(codec.Of[twice]("x")) },
		`fields inner and N, which are both written as "N"`:           func() { codec.NewTypes(codec.Of[hiding]("x")) },
		"embeds time.Time, whose MarshalBinary":                       func() { codec.NewTypes(codec.Of[embedding]("x")) },
		"field Time is embedded and has methods that encode it":       func() { codec.NewTypes(codec.Of[mixing]("x")) },
		"field E embeds time.Time":                                    func() { codec.NewTypes(codec.Of[nesting]("x")) },
		"field P is a pointer to a pointer":                           func() { codec.NewTypes(codec.Of[pointers]("x")) },
		"field M has keys of type codec_test.point":                   func() { codec.NewTypes(codec.Of[keys]("x")) },
		`field A has the tag json:"-"`:                                func() { codec.NewTypes(codec.Of[jsonTag]("x")) },
		"field inner is an embedded pointer":                          func() { codec.NewTypes(codec.Of[pointing]("x")) },
		"type error is an interface":                                  func() { codec.NewTypes(codec.Of[error]("x")) },
		"register *codec_test.message":                                func() { codec.NewTypes(codec.Of[message]("x")) },
		"name must have 1 to 128 bytes, not 0":                        func() { codec.NewTypes(codec.Of[inner]("")) },
		"name must have 1 to 128 bytes, not 129":                      func() { codec.NewTypes(codec.Of[inner](strings.Repeat("x", 129))) },
		`name must be visible ASCII, not "a b"`:                       func() { codec.NewTypes(codec.Of[inner]("a b")) },
		`type codec_test.weekday: name "x" is registered twice`:       func() { codec.NewTypes(codec.Of[inner]("x"), codec.Of[weekday]("x")) },
		`is registered twice, as "x" and as "y"`:                      func() { codec.NewTypes(codec.Of[inner]("x"), codec.Of[inner]("y")) },
		`the upcast from "old" makes *codec_test.inner`:               func() { codec.NewTypes(codec.Of[inner]("x", codec.From("old", up))) },
		`name "x" is registered twice`:                                func() { codec.NewTypes(codec.Of[inner]("x", codec.Was("x"))) },
		"old type codec_test.hidden: field n is not exported":         func() { codec.From("x", func(hidden) (inner, error) { return inner{}, nil }) },
		"old type codec_test.hidden: field n is not exported and wou": func() { codec.NewTypes(codec.Split("x", func(hidden) ([]any, error) { return nil, nil })) },
	} {
		func() {
			defer func() {
				text, _ := recover().(string)
				if !strings.HasPrefix(text, "codec: ") || !strings.Contains(text, want) {
					t.Errorf("want a panic with %q, not %q", want, text)
				}
			}()
			define()
		}()
	}
}

func TestOldBytesBecomeValuesOfToday(t *testing.T) {
	t.Parallel()
	type addedV1 struct{ SKU string }
	type added struct {
		SKU string
		N   int
	}
	type removed struct{ SKU string }
	type moved struct{ From, To string }
	refused := errors.New("no sku")
	before := codec.NewTypes(codec.Of[addedV1]("added"), codec.Of[removed]("taken"), codec.Of[moved]("moved"))
	now := codec.NewTypes(
		codec.Of[added]("added.v2", codec.From("added", func(v addedV1) (added, error) {
			if v.SKU == "" {
				return added{}, refused
			}
			if v.SKU == "panic" {
				panic(refused)
			}
			return added{v.SKU, 1}, nil
		})),
		codec.Of[removed]("removed", codec.Was("taken")),
		codec.Split("moved", func(v moved) ([]any, error) {
			if v.From == v.To {
				return nil, nil
			}
			if v.To == "" {
				return []any{v}, nil
			}
			return []any{removed{v.From}, added{v.To, 1}}, nil
		}),
	)
	for _, c := range []struct {
		old  any
		want []any
		err  string
	}{
		{old: addedV1{"a"}, want: []any{added{"a", 1}}},
		{old: addedV1{}, err: `codec: upcast "added": no sku`},
		{old: addedV1{"panic"}, err: `codec: upcast "added": panic: no sku`},
		{old: removed{"b"}, want: []any{removed{"b"}}},
		{old: moved{"a", "b"}, want: []any{removed{"a"}, added{"b", 1}}},
		{old: moved{"a", "a"}},
		{old: moved{"a", ""}, err: `codec: upcast "moved": value 0: type is not registered: codec_test.moved`},
	} {
		name, data, err := before.Append(nil, c.old)
		if err != nil {
			t.Fatal(err)
		}
		got, err := now.AppendDecoded([]any{"first"}, name, data)
		if (err == nil) != (c.err == "") || err != nil && err.Error() != c.err || got[0] != "first" || !slices.Equal(got[1:], c.want) {
			t.Errorf("%+v: %+v, %v", c.old, got, err)
		}
		if one, err := now.Decode(name, data); c.err == "" && len(c.want) != 1 && (!errors.Is(err, codec.ErrSplit) || one != nil) {
			t.Errorf("%+v as one: %+v, %v", c.old, one, err)
		}
	}
	if names, old := now.Names(), now.OldNames(); !slices.Equal(names, []string{"added.v2", "removed"}) || !slices.Equal(old, []string{"added", "moved", "taken"}) {
		t.Errorf("names %v, old %v", names, old)
	}
}

func TestFieldsMayBeAddedAndRemoved(t *testing.T) {
	t.Parallel()
	type v1 struct {
		Name string
		Age  int
		Fax  string
	}
	type v2 struct {
		Name  string
		Age   float64
		Email string
	}
	before := codec.NewTypes(codec.Of[v1]("x"))
	_, data, err := before.Append(nil, v1{"n", 3, "f"})
	if err != nil {
		t.Fatal(err)
	}
	now := codec.NewTypes(codec.Of[v2]("x"))
	if got, err := now.Decode("x", data); err != nil || got != (v2{Name: "n", Age: 3}) {
		t.Errorf("%+v, %v", got, err)
	}
	if lost, err := now.Ignored("x", data); err != nil || !slices.Equal(lost, []string{"Fax"}) {
		t.Errorf("ignored %v, %v", lost, err)
	}
	given := codec.NewTypes(codec.Of[v2]("x", codec.Dropped("Fax")))
	if lost, err := given.Ignored("x", data); err != nil || len(lost) > 0 {
		t.Errorf("ignored %v, %v", lost, err)
	}
}

func TestFailuresNameWhatFailed(t *testing.T) {
	t.Parallel()
	var none *inner
	dst := []byte("before")
	for _, c := range []struct {
		v    any
		err  string
		kind error
	}{
		{v: 1, err: "codec: encode: type is not registered: int", kind: codec.ErrUnknownType},
		{v: nil, err: "codec: encode: type is not registered: <nil>", kind: codec.ErrUnknownType},
		{v: none, err: `codec: encode "inner": value is nil`},
		{v: (*message)(nil), err: `codec: encode "message": value is nil`},
		{v: (*wrapperspb.StringValue)(nil), err: `codec: encode "google.protobuf.StringValue": value is nil`},
		{v: (*point)(nil), err: `codec: encode "point.pointer": value is nil`},
		{v: everything{Time: time.Date(20000, 1, 1, 0, 0, 0, 0, time.UTC)}, err: `codec: encode "everything": `},
	} {
		_, data, err := types.Append(dst, c.v)
		if err == nil || !strings.HasPrefix(err.Error(), c.err) || c.kind != nil && !errors.Is(err, c.kind) || string(data) != "before" {
			t.Errorf("%+v: %q, %v", c.v, data, err)
		}
	}
	for name, data := range map[string]string{
		"nobody": "", "everything": "", "inner": "\xf6", "point": "short", "ids": "\x9b\xff\xff\xff\xff\xff\xff\xff\xff", "weekday": "\x01\x01",
	} {
		v, err := types.Decode(name, []byte(data))
		if err == nil || v != nil || !strings.HasPrefix(err.Error(), `codec: decode "`+name+`": `) || errors.Is(err, codec.ErrUnknownName) != (name == "nobody") {
			t.Errorf("%s: %v, %v", name, v, err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	_, data, err := types.Append(nil, full())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte("\xa1\x61N\x01"))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, name := range types.Names() {
			v, err := types.Decode(name, data)
			if strict, refused := types.Strict().Decode(name, data); refused == nil && (err != nil || reflect.TypeOf(strict) != reflect.TypeOf(v)) {
				t.Fatalf("%s: %x is taken from strangers only: %v", name, data, err)
			}
			if err != nil {
				continue
			}
			_, again, err := types.Append(nil, v)
			if err != nil {
				continue // a time of the year 10000 can be read
			}
			second, err := types.Decode(name, again)
			if err != nil {
				t.Fatalf("%s: %x was written and cannot be read: %v", name, again, err)
			}
			if _, third, err := types.Append(nil, second); err != nil || !bytes.Equal(again, third) {
				t.Fatalf("%s: %x has become %x, %v", name, again, third, err)
			}
		}
	})
}

func TestTypesWithMoreLeaveTheOthersAlone(t *testing.T) {
	type one struct{ N int }
	type two struct{ N int }
	few := codec.NewTypes(codec.Of[one]("one"))
	more := few.With(codec.Of[two]("two"))
	if _, _, err := few.Append(nil, two{}); !errors.Is(err, codec.ErrUnknownType) {
		t.Errorf("the first Types: %v", err)
	}
	for _, v := range []any{one{1}, two{2}} {
		name, data, err := more.Append(nil, v)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := more.Decode(name, data); err != nil || got != v {
			t.Errorf("%v: %v %v", v, got, err)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("a name was registered twice")
		}
	}()
	more.With(codec.Of[struct{ S string }]("one"))
}
