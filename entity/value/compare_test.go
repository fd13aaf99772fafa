package value

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

// rat is the exact worth of a number.
func rat(n Value) *big.Rat {
	if n.Kind() == KindInt {
		return new(big.Rat).SetInt64(n.Int())
	}
	return new(big.Rat).SetFloat64(n.Float())
}

// edgeNumbers are numbers at which comparisons go wrong.
var edgeNumbers = []Value{
	Int(0), Int(1), Int(-1), Int(math.MaxInt64), Int(math.MinInt64), Int(1<<53 + 1), Int(-(1<<53 + 1)), Int(math.MaxInt64 - 1),
	Float(0), Float(math.Copysign(0, -1)), Float(1), Float(0.1), Float(-2.5), Float(1 << 53), Float(1 << 63), Float(-(1 << 63)), Float(1e300), Float(-1e300), Float(5e-324), Float(math.MaxFloat64),
}

func TestNumbersCompareByWhatTheyAreWorth(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	list := append([]Value(nil), edgeNumbers...)
	for range 60 {
		list = append(list, anyNumber(r))
	}
	for _, a := range list {
		for _, b := range list {
			want := rat(a).Cmp(rat(b))
			if got := CompareNumbers(a, b); got != want {
				t.Errorf("%v with %v is %d, want %d", a, b, got, want)
			}
			if got := Compare(a, b); got != []Order{Less, Equal, Greater}[want+1] || got.Reverse() != Compare(b, a) {
				t.Errorf("%v with %v is %d, want %d", a, b, got, want)
			}
		}
		if CompareNumbers(Value{}, a) != -1 || CompareNumbers(a, Value{}) != 1 {
			t.Errorf("none is not before %v", a)
		}
		if nan := Float(math.NaN()); Compare(nan, a) != Apart || Compare(a, nan) != Apart {
			t.Errorf("a NaN is in an order with %v", a)
		}
	}
}

func TestValuesOfDifferentKindsAreApart(t *testing.T) {
	list := []Value{Int(1), Bool(true), String("1"), JSON("[1]"), Duration(1), {}}
	for i, a := range list {
		for j, b := range list {
			want := Apart
			if i == j {
				want = Equal
			}
			if got := Compare(a, b); got != want {
				t.Errorf("%v with %v is %d, want %d", a, b, got, want)
			}
		}
	}
	if Compare(Bool(true), Bool(false)) != Apart {
		t.Error("bools are in an order")
	}
}

func TestInstantsCompareWithNumbersAndStrings(t *testing.T) {
	at := Time(1_700_000_000_000)
	for _, x := range []struct {
		v    Value
		want Order
	}{
		{Int(1_700_000_000_000), Equal},
		{Float(1_700_000_000_000.5), Less},
		{String("2023-11-14T22:13:20Z"), Equal},
		{String("2023-11-14"), Greater},
		{String("2023-11-14T22:13:20Z "), Apart},
		{Bool(true), Apart},
		{Duration(5), Apart},
	} {
		if got := Compare(at, x.v); got != x.want || Compare(x.v, at) != x.want.Reverse() {
			t.Errorf("%v with %v is %d, want %d", at, x.v, got, x.want)
		}
	}
}
