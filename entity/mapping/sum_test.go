package mapping

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/greenroom-go/greenroom/entity/value"
)

// bigSum is the sum of floats and integers, rounded once.
func bigSum(values []value.Value) float64 {
	sum := new(big.Float).SetPrec(5000)
	for _, v := range values {
		if v.Kind() == value.KindInt {
			sum.Add(sum, new(big.Float).SetPrec(5000).SetInt64(v.Int()))
		} else {
			sum.Add(sum, new(big.Float).SetPrec(5000).SetFloat64(v.Float()))
		}
	}
	f, _ := sum.Float64()
	return f
}

// anyNumber draws a number: of ordinary size, of any size, tiny, or an integer.
func anyNumber(r *rand.Rand) value.Value {
	switch r.IntN(5) {
	case 0:
		return value.Float(math.Round(r.Float64()*10000) / 100)
	case 1:
		for {
			f := math.Float64frombits(r.Uint64())
			if !math.IsNaN(f) && math.Abs(f) < 1e307 {
				return value.Float(f)
			}
		}
	case 2:
		return value.Float(math.Float64frombits(r.Uint64N(1 << 54)))
	case 3:
		return value.Int(int64(r.Uint64()))
	default:
		return value.Int(r.Int64N(2000) - 1000)
	}
}

func TestTheSumIsRoundedOnceWhateverTheOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		values := make([]value.Value, 1+r.IntN(30))
		for i := range values {
			values[i] = anyNumber(r)
			if i > 0 && r.IntN(4) == 0 { // cancel out
				if f, ok := values[i-1].Number(); ok {
					values[i] = value.Float(-f)
				}
			}
		}
		var forth, back exactSum
		for i := range values {
			forth.add(values[i])
			back.add(values[len(values)-1-i])
		}
		want := bigSum(values)
		if got := forth.float(); got != want {
			t.Fatalf("sum of %v = %v, want %v", values, got, want)
		}
		if got := back.float(); got != want {
			t.Fatalf("backward, the sum of %v = %v, want %v", values, got, want)
		}
	}
}

func TestASumForgetsWhatIsTakenAway(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	var s exactSum
	var in []value.Value
	for range 20_000 {
		if len(in) > 0 && r.IntN(2) == 0 {
			i := r.IntN(len(in))
			s.remove(in[i])
			in[i] = in[len(in)-1]
			in = in[:len(in)-1]
			continue
		}
		v := anyNumber(r)
		s.add(v)
		in = append(in, v)
	}
	if got, want := s.float(), bigSum(in); got != want {
		t.Errorf("after 20 000 changes the sum is %v, want %v", got, want)
	}
	for _, v := range in {
		s.remove(v)
	}
	if v, ok := s.value(); !ok || v != value.Int(0) {
		t.Errorf("the empty sum is %v, want the integer 0", v)
	}
}

func TestASumOfIntegersIsAnIntegerWhereItFits(t *testing.T) {
	var s exactSum
	s.add(value.Int(math.MaxInt64))
	s.add(value.Int(-5))
	if v, ok := s.value(); !ok || v != value.Int(math.MaxInt64-5) {
		t.Errorf("got %v", v)
	}
	s.add(value.Int(math.MaxInt64))
	if v, ok := s.value(); !ok || v.Kind() != value.KindFloat || v.Float() != 0x1p64 {
		t.Errorf("beyond int64 got %v of kind %v, want 2^64 as a float", v, v.Kind())
	}
	s.remove(value.Int(math.MaxInt64))
	s.add(value.Float(0.5))
	if v, _ := s.value(); v.Kind() != value.KindFloat {
		t.Errorf("with a float it is %v", v.Kind())
	}
}

func TestASumBeyondFloat64IsNone(t *testing.T) {
	var s exactSum
	s.add(value.Float(math.MaxFloat64))
	s.add(value.Float(math.MaxFloat64))
	if v, ok := s.value(); ok {
		t.Errorf("got %v", v)
	}
	s.remove(value.Float(math.MaxFloat64))
	if v, ok := s.value(); !ok || v.Float() != math.MaxFloat64 {
		t.Errorf("once the half is gone, got %v", v)
	}
}

func TestCarriesArePassedOnBeforeAnAccumulatorOverflows(t *testing.T) {
	var s exactSum
	for range 100 {
		s.add(value.Float(0.1))
		s.pending = sumPending // as if there had been that many
	}
	values := make([]value.Value, 100)
	for i := range values {
		values[i] = value.Float(0.1)
	}
	if got, want := s.float(), bigSum(values); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
}
