package series

import (
	"math"
	"math/big"
	"math/rand/v2"

	"github.com/greenroom-go/greenroom/entity/value"
)

// rat is the exact worth of a number.
func rat(n value.Value) *big.Rat {
	if n.Kind() == value.KindInt {
		return new(big.Rat).SetInt64(n.Int())
	}
	return new(big.Rat).SetFloat64(float(n))
}

// edgeNumbers are numbers at which comparisons and sums go wrong.
var edgeNumbers = []value.Value{
	value.Int(0), value.Int(1), value.Int(-1), value.Int(math.MaxInt64), value.Int(math.MinInt64), value.Int(1<<53 + 1), value.Int(-(1<<53 + 1)), value.Int(math.MaxInt64 - 1),
	finite(0), finite(math.Copysign(0, -1)), finite(1), finite(0.1), finite(-2.5), finite(1 << 53), finite(1 << 63), finite(-(1 << 63)), finite(1e300), finite(-1e300), finite(5e-324), finite(math.MaxFloat64),
}

func randomNumber(r *rand.Rand) value.Value {
	switch r.IntN(6) {
	case 0:
		return edgeNumbers[r.IntN(len(edgeNumbers))]
	case 1:
		return value.Int(int64(r.Uint64()))
	case 2:
		return value.Int(int64(r.IntN(2000)) - 1000)
	case 3:
		return finite((r.Float64() - 0.5) * math.Pow(10, float64(r.IntN(40)-20)))
	default:
		return finite(math.Round(r.NormFloat64()*1000) / 100)
	}
}

// exactSum is the sum of numbers by rational arithmetic.
func exactSum(list []value.Value) *big.Rat {
	sum := new(big.Rat)
	for _, n := range list {
		sum.Add(sum, rat(n))
	}
	return sum
}
