package series

import (
	"fmt"
	"strconv"
	"strings"
)

// Func is a way to compute one number from many.
type Func string

// The functions. In addition there are percentiles: p50, p95, p99.9.
const (
	// Min, Max, First and Last return one of the numbers; an int64 stays an int64.
	Min   Func = "min"
	Max   Func = "max"
	First Func = "first"
	Last  Func = "last"
	// Sum is exact, and rounded once. The sum of int64s is an int64 if it fits, otherwise a
	// float64.
	Sum Func = "sum"
	// Avg is the sum divided by the count, a float64.
	Avg Func = "avg"
	// Count is how many numbers there are, an int64.
	Count Func = "count"
	// Rate is the increase of a counter per second, a float64.
	//
	// Each point is compared with the one before it, across the edge of a bucket, too: the increase
	// belongs to the bucket of the later point, and so does the time since the earlier one. A
	// number less than the one before means that the counter was reset to 0; the increase is then
	// the number itself (or nothing if it is negative). The very first point has none before it; a
	// series with nothing else has no rate.
	Rate Func = "rate"
)

// Percentile returns the function for a percentile from 0 to 100: Percentile(99.9) is "p99.9". See
// [ExactPercentiles].
func Percentile(p float64) Func { return Func("p" + strconv.FormatFloat(p, 'f', -1, 64)) }

// ParseFunc returns the function with this name, or an error that wraps ErrInvalid and lists the
// functions.
func ParseFunc(name string) (Func, error) {
	f := Func(name)
	if p, ok := f.percentile(); ok {
		return Percentile(p), nil
	}
	if err := f.check(); err != nil {
		return "", err
	}
	return f, nil
}

func (f Func) check() error {
	switch f {
	case Min, Max, First, Last, Sum, Avg, Count, Rate:
		return nil
	}
	if _, ok := f.percentile(); ok {
		return nil
	}
	return fmt.Errorf("function %q: %w: there are min, max, avg, sum, count, first, last, rate, and percentiles such as p50 and p99.9", string(f), ErrInvalid)
}

// percentile returns the percentile that a function is, and whether it is one.
func (f Func) percentile() (p float64, ok bool) {
	digits, ok := strings.CutPrefix(string(f), "p")
	if !ok || digits == "" || strings.Trim(digits, "0123456789.") != "" {
		return 0, false
	}
	p, err := strconv.ParseFloat(digits, 64)
	return p, err == nil && p >= 0 && p <= 100
}

// parts is what a Summary keeps beside the count and the ends.
type parts uint8

const (
	keepSum parts = 1 << iota
	keepIncrease
	keepPercentiles
)

// needs returns what the functions need of a Summary.
func needs(funcs []Func) (need parts) {
	for _, f := range funcs {
		switch f {
		case Sum, Avg:
			need |= keepSum
		case Rate:
			need |= keepIncrease
		default:
			if _, ok := f.percentile(); ok {
				need |= keepPercentiles
			}
		}
	}
	return need
}
