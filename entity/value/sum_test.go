package value

import (
	"math"
	"math/big"
	"math/rand/v2"
	"reflect"
	"testing"
)

// bigSum is the sum of numbers by the standard library, rounded once.
func bigSum(values []Value) float64 {
	sum := new(big.Float).SetPrec(5000)
	for _, v := range values {
		if v.Kind() == KindInt {
			sum.Add(sum, new(big.Float).SetPrec(5000).SetInt64(v.Int()))
		} else {
			sum.Add(sum, new(big.Float).SetPrec(5000).SetFloat64(v.Float()))
		}
	}
	f, _ := sum.Float64()
	return f
}

// anyNumber draws a number: of ordinary size, of any size, tiny, or an integer.
func anyNumber(r *rand.Rand) Value {
	switch r.IntN(5) {
	case 0:
		return Float(math.Round(r.Float64()*10000) / 100)
	case 1:
		for {
			f := math.Float64frombits(r.Uint64())
			if !math.IsNaN(f) && math.Abs(f) < 1e307 {
				return Float(f)
			}
		}
	case 2:
		return Float(math.Float64frombits(r.Uint64N(1 << 54)))
	case 3:
		return Int(int64(r.Uint64()))
	default:
		return Int(r.Int64N(2000) - 1000)
	}
}

func TestTheSumIsRoundedOnceWhateverTheOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		values := make([]Value, 1+r.IntN(30))
		for i := range values {
			values[i] = anyNumber(r)
			if i > 0 && r.IntN(4) == 0 { // cancel out
				if f, ok := values[i-1].Number(); ok {
					values[i] = Float(-f)
				}
			}
		}
		var forth, back, odd, even Sum
		for i := range values {
			forth.Add(values[i])
			back.Add(values[len(values)-1-i])
			if i%2 == 0 {
				even.Add(values[i])
			} else {
				odd.Add(values[i])
			}
		}
		even.Merge(&odd)
		again := SumOf(forth.Parts())
		want := bigSum(values)
		for name, s := range map[string]*Sum{"forth": &forth, "back": &back, "in two parts": &even, "of its parts": &again} {
			if got := s.Float(); got != want {
				t.Fatalf("%s, the sum of %v is %v, want %v", name, values, got, want)
			}
		}
		if v, _ := forth.Value(); v != mustSum(&again) {
			t.Fatalf("the sum of %v is %v, of its parts %v", values, v, mustSum(&again))
		}
	}
}

func mustSum(s *Sum) Value {
	v, _ := s.Value()
	return v
}

func TestASumForgetsWhatIsTakenAway(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	var s Sum
	var in []Value
	for range 20_000 {
		if len(in) > 0 && r.IntN(2) == 0 {
			i := r.IntN(len(in))
			s.Remove(in[i])
			in[i] = in[len(in)-1]
			in = in[:len(in)-1]
			continue
		}
		v := anyNumber(r)
		s.Add(v)
		in = append(in, v)
	}
	if got, want := s.Float(), bigSum(in); got != want {
		t.Errorf("after 20 000 changes the sum is %v, want %v", got, want)
	}
	for _, v := range in {
		s.Remove(v)
	}
	if v, ok := s.Value(); !ok || v != Int(0) {
		t.Errorf("the empty sum is %v, want the integer 0", v)
	}
}

func TestASumOfIntegersIsAnIntegerWhereItFits(t *testing.T) {
	var s Sum
	s.Add(Int(math.MaxInt64))
	s.Add(Int(-5))
	if v, ok := s.Value(); !ok || v != Int(math.MaxInt64-5) {
		t.Errorf("got %v", v)
	}
	s.Add(Int(math.MaxInt64))
	if v, ok := s.Value(); !ok || v != Float(0x1p64) {
		t.Errorf("beyond int64 got %v of kind %v, want 2^64 as a float", v, v.Kind())
	}
	s.Remove(Int(math.MaxInt64))
	s.Add(Float(0.5))
	if v, _ := s.Value(); v.Kind() != KindFloat {
		t.Errorf("with a float it is %v", v.Kind())
	}
	s.Reset()
	if v, ok := s.Value(); !ok || v != Int(0) {
		t.Errorf("after a reset it is %v", v)
	}
	s.AddUint(math.MaxUint64)
	s.AddUint(1)
	if v, _ := s.Value(); v != Float(0x1p64) {
		t.Errorf("2^64 is %v", v)
	}
}

func TestASumBeyondFloat64IsNone(t *testing.T) {
	var s Sum
	s.Add(Float(math.MaxFloat64))
	s.Add(Float(math.MaxFloat64))
	if v, ok := s.Value(); ok {
		t.Errorf("got %v", v)
	}
	again := SumOf(s.Parts())
	if v, ok := again.Value(); ok {
		t.Errorf("of its parts it is %v", v)
	}
	s.Remove(Float(math.MaxFloat64))
	if v, ok := s.Value(); !ok || v.Float() != math.MaxFloat64 {
		t.Errorf("once the half is gone, got %v", v)
	}
}

func TestSumsRoundHalfwayAsTheRestSays(t *testing.T) {
	for _, x := range []struct {
		list []float64
		want float64
	}{
		{[]float64{1, 0x1p-53, 0x1p-106}, 1 + 0x1p-52},
		{[]float64{1, 0x1p-53, -0x1p-106}, 1},
		{[]float64{1, 0x1p-53}, 1},
		{[]float64{1e16, 1, -1e16}, 1},
		{[]float64{1e100, 1, -1e100, 1e-100}, 1},
		{[]float64{-1, -0x1p-53, -0x1p-106}, -1 - 0x1p-52},
	} {
		var sum Sum
		for _, f := range x.list {
			sum.Add(Float(f))
		}
		if got := sum.Float(); got != x.want {
			t.Errorf("%v come to %v, want %v", x.list, got, x.want)
		}
	}
}

func TestCarriesArePassedOnBeforeAnAccumulatorOverflows(t *testing.T) {
	for _, f := range []float64{0.1, -0.1} {
		var s Sum
		values := make([]Value, 100)
		for i := range values {
			values[i] = Float(f)
			s.Add(values[i])
			s.pending = sumPending // as if there had been that many
		}
		if got, want := s.Float(), bigSum(values); got != want {
			t.Errorf("got %v, want %v", got, want)
		}
	}
}

func TestColumnsOfNumbersSumUpAsSingleOnesDo(t *testing.T) {
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 9))
		var one, columns Sum
		var kinds []Kind
		var bits []uint64
		for range rnd.IntN(50) {
			v := []Value{
				Int(rnd.Int64() - rnd.Int64()), Bool(true),
				Float(rnd.NormFloat64()), Float(math.Float64frombits(uint64(rnd.Int64N(0x7ff<<52)) | uint64(rnd.IntN(2))<<63)), // of any magnitude
			}[rnd.IntN(4)]
			one.Add(v)
			k, b, _ := v.Raw()
			kinds, bits = append(kinds, k), append(bits, b)
			if k == KindFloat && rnd.IntN(3) == 0 {
				other := []uint64{math.Float64bits(rnd.NormFloat64()), math.Float64bits(-rnd.Float64())}
				columns.AddRaw(k, other)
				for _, b := range other {
					one.Add(FromRaw(k, b, ""))
				}
			}
		}
		columns.AddKinds(kinds, bits)
		if got, want := columns.Parts(), one.Parts(); !reflect.DeepEqual(got, want) {
			t.Fatalf("seed %d: %+v, want %+v", seed, got, want)
		}
		for i, b := range bits {
			columns.Remove(FromRaw(kinds[i], b, ""))
			one.Remove(FromRaw(kinds[i], b, ""))
		}
		if got, want := columns.Parts(), one.Parts(); !reflect.DeepEqual(got, want) {
			t.Fatalf("seed %d, after removing: %+v, want %+v", seed, got, want)
		}
	}
}
