package codec_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/greenroom-go/greenroom/codec"
)

type shape interface{ area() int }

type square struct{ Side int }

func (s square) area() int { return s.Side * s.Side }

func TestValuesComeBackWithAndWithoutAName(t *testing.T) {
	ts := codec.NewTypes(codec.Of[square]("square"))
	roundTrip(t, ts, 42)
	roundTrip(t, ts, "text")
	roundTrip(t, ts, struct{}{})
	roundTrip(t, ts, square{3})
	roundTrip(t, ts, struct{ A, B int }{1, 2})
	data, err := ts.AppendValue([]byte("before"), shape(square{3}))
	if err != nil || string(data[:6]) != "before" {
		t.Fatal(data, err)
	}
	var got shape
	if err := ts.DecodeValue(data[6:], &got); err != nil || got != shape(square{3}) {
		t.Errorf("as an interface: %v, %v", got, err)
	}
	data, err = ts.AppendValue(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := ts.DecodeValue(data, &got); err != nil || got != nil {
		t.Errorf("nil: %v, %v", got, err)
	}
	var text string
	if err := ts.DecodeValue(data, &text); err == nil && text != "" {
		t.Errorf("nil for a string: %q, %v", text, err)
	}
}

func roundTrip[T comparable](t *testing.T, ts *codec.Types, v T) {
	t.Helper()
	data, err := ts.AppendValue(nil, v)
	if err != nil {
		t.Errorf("%#v: %v", v, err)
		return
	}
	var got T
	if err := ts.DecodeValue(data, &got); err != nil || got != v {
		t.Errorf("%#v has become %#v: %v", v, got, err)
	}
}

func TestAValueThatIsNotWhatIsWantedIsAnError(t *testing.T) {
	ts := codec.NewTypes(codec.Of[square]("square"))
	if _, err := ts.AppendValue(nil, func() {}); !errors.Is(err, codec.ErrUnknownType) {
		t.Errorf("a function: %v", err)
	}
	named, err := ts.AppendValue(nil, square{3})
	if err != nil {
		t.Fatal(err)
	}
	var n int
	if err := ts.DecodeValue(named, &n); !errors.Is(err, codec.ErrUnknownType) {
		t.Errorf("a registered type for another one: %v", err)
	}
	if err := codec.NewTypes().DecodeValue(named, &n); !errors.Is(err, codec.ErrUnknownName) {
		t.Errorf("a name that is not registered: %v", err)
	}
	var wanted shape
	plain, err := ts.AppendValue(nil, 42)
	if err != nil {
		t.Fatal(err)
	}
	if err := ts.DecodeValue(plain, &wanted); !errors.Is(err, codec.ErrUnknownType) {
		t.Errorf("a plain value for an interface: %v", err)
	}
	for _, bad := range [][]byte{nil, {0}, {5, 'a'}, {0, 0xff}, {0xff}} {
		if err := ts.DecodeValue(bad, &n); err == nil {
			t.Errorf("% x is read as %d", bad, n)
		}
	}
}

func TestASentinelIsFoundByItsName(t *testing.T) {
	errFull, errGone := errors.New("full"), errors.New("gone")
	ts := codec.NewTypes(codec.Sentinel("shop.full", errFull), codec.Sentinel("shop.gone", errGone))
	if name := ts.SentinelName(fmt.Errorf("buy: %w", errGone)); name != "shop.gone" || ts.SentinelOf(name) != errGone { //nolint:errorlint // that very one
		t.Errorf("got %q", name)
	}
	if name := ts.SentinelName(errors.New("other")); name != "" || ts.SentinelOf("shop.other") != nil {
		t.Errorf("got %q", name)
	}
	for name, twice := range map[string]codec.Registration{
		"the name": codec.Sentinel("shop.full", errors.New("else")), "the error": codec.Sentinel("shop.empty", errFull), "nil": codec.Sentinel("shop.nil", nil),
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s is taken", name)
				}
			}()
			codec.NewTypes(codec.Sentinel("shop.full", errFull), twice)
		}()
	}
}
