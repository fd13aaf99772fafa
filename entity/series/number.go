package series

import (
	"math"

	"github.com/greenroom-go/greenroom/entity/value"
)

// finite returns the value of a float64. What is not finite has no place in a series,
// and gives the zero Value.
func finite(f float64) value.Value {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return value.Value{}
	}
	return value.Float(f)
}

// float returns a number as a float64, an int64 rounded to the nearest one, and NaN
// for none.
func float(n value.Value) float64 {
	if f, ok := n.Number(); ok {
		return f
	}
	return math.NaN()
}

// sum returns an exact sum, none where it is beyond the floats.
func sum(s *value.Sum) value.Value {
	if v, ok := s.Value(); ok {
		return v
	}
	return value.Value{}
}

// Point is one number at one time.
type Point struct {
	TS    int64 // milliseconds since the epoch
	Value value.Value
}
