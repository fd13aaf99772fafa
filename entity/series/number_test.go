package series

import (
	"encoding/json"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

// rat is the exact worth of a number.
func rat(n Number) *big.Rat {
	if n.IsInt() {
		return new(big.Rat).SetInt64(n.Int())
	}
	return new(big.Rat).SetFloat64(n.Float())
}

// edgeNumbers are numbers at which comparisons and sums go wrong.
var edgeNumbers = []Number{
	Int(0), Int(1), Int(-1), Int(math.MaxInt64), Int(math.MinInt64), Int(1<<53 + 1), Int(-(1<<53 + 1)), Int(math.MaxInt64 - 1),
	Float(0), Float(math.Copysign(0, -1)), Float(1), Float(0.1), Float(-2.5), Float(1 << 53), Float(1 << 63), Float(-(1 << 63)), Float(1e300), Float(-1e300), Float(5e-324), Float(math.MaxFloat64),
}

func randomNumber(r *rand.Rand) Number {
	switch r.IntN(6) {
	case 0:
		return edgeNumbers[r.IntN(len(edgeNumbers))]
	case 1:
		return Int(int64(r.Uint64()))
	case 2:
		return Int(int64(r.IntN(2000)) - 1000)
	case 3:
		return Float((r.Float64() - 0.5) * math.Pow(10, float64(r.IntN(40)-20)))
	default:
		return Float(math.Round(r.NormFloat64()*1000) / 100)
	}
}

func TestNumbersCompareByWhatTheyAreWorth(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	list := append([]Number(nil), edgeNumbers...)
	for range 60 {
		list = append(list, randomNumber(r))
	}
	for _, a := range list {
		for _, b := range list {
			if got, want := a.Compare(b), rat(a).Cmp(rat(b)); got != want {
				t.Errorf("%v with %v is %d, want %d", a, b, got, want)
			}
		}
		if (Number{}).Compare(a) != -1 || a.Compare(Number{}) != 1 {
			t.Errorf("none is not before %v", a)
		}
	}
}

func TestNumbersAsJSON(t *testing.T) {
	for want, n := range map[string]Number{
		"null": {}, "0": Int(0), "9223372036854775807": Int(math.MaxInt64), "0.1": Float(0.1), "21": Float(21), "1e+300": Float(1e300), "1e-07": Float(1e-7),
	} {
		if got, err := json.Marshal(n); err != nil || string(got) != want {
			t.Errorf("%s, %v; want %s", got, err, want)
		}
	}
	if !Float(math.NaN()).IsZero() || !Float(math.Inf(-1)).IsZero() {
		t.Error("what is not finite is a number")
	}
	if Float(2).Int() != 0 || !math.IsNaN(Number{}.Float()) || Int(7).Float() != 7 || Int(7).Int() != 7 {
		t.Error("conversions")
	}
}

// exactSum is the sum of numbers by rational arithmetic.
func exactSum(list []Number) *big.Rat {
	sum := new(big.Rat)
	for _, n := range list {
		sum.Add(sum, rat(n))
	}
	return sum
}

func TestTotalsAreExact(t *testing.T) {
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 2))
		var list []Number
		var whole, left, right total
		allInts := true
		for range r.IntN(60) {
			n := randomNumber(r)
			if seed%3 == 0 {
				n = Int(int64(r.Uint64()))
			}
			if math.Abs(n.Float()) > 1e305 {
				continue // may leave the floats on the way
			}
			list = append(list, n)
			allInts = allInts && n.IsInt()
			whole.add(n)
			if r.IntN(2) == 0 {
				left.add(n)
			} else {
				right.add(n)
			}
		}
		exact := exactSum(list)
		want, _ := exact.Float64()
		if got := whole.float(); got != want {
			t.Fatalf("seed %d: the sum of %v is %v, want %v", seed, list, got, want)
		}
		left.merge(&right)
		if left.float() != want || left.number() != whole.number() {
			t.Fatalf("seed %d: in two parts the sum is %v, in one %v", seed, left.number(), whole.number())
		}
		if n := whole.number(); allInts && exact.Num().IsInt64() && (!n.IsInt() || n.Int() != exact.Num().Int64()) {
			t.Fatalf("seed %d: the sum of integers is %v, want %v", seed, n, exact.Num())
		} else if (!allInts || !exact.Num().IsInt64()) && n.IsInt() {
			t.Fatalf("seed %d: %v is an integer", seed, n)
		}
	}
}

func TestTotalsThatLeaveTheFloatsAreNone(t *testing.T) {
	var sum total
	sum.addFloat(math.MaxFloat64)
	sum.addFloat(math.MaxFloat64)
	sum.addFloat(-math.MaxFloat64)
	if !sum.number().IsZero() {
		t.Errorf("it is %v", sum.number())
	}
}

func TestTotalsRoundHalfwayAsTheRestSays(t *testing.T) {
	for _, x := range []struct {
		list []float64
		want float64
	}{
		{[]float64{1, 0x1p-53, 0x1p-106}, 1 + 0x1p-52},
		{[]float64{1, 0x1p-53, -0x1p-106}, 1},
		{[]float64{1, 0x1p-53}, 1},
		{[]float64{1e16, 1, -1e16}, 1},
		{[]float64{1e100, 1, -1e100, 1e-100}, 1},
	} {
		var sum total
		for _, f := range x.list {
			sum.addFloat(f)
		}
		if got := sum.float(); got != x.want {
			t.Errorf("%v come to %v, want %v", x.list, got, x.want)
		}
	}
}
