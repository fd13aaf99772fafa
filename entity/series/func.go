package series

import (
	"fmt"
	"strconv"
	"strings"
)

// Func is one way to make one number of many.
type Func string

// The functions. Beside them there are percentiles: p50, p95, p99.9.
const (
	// Min, Max, First and Last are one of the numbers, an int64 as an int64.
	Min   Func = "min"
	Max   Func = "max"
	First Func = "first"
	Last  Func = "last"
	// Sum is exact before it is rounded once. That of int64s is an int64 if it
	// fits, else a float64.
	Sum Func = "sum"
	// Avg is the sum divided by the count, a float64.
	Avg Func = "avg"
	// Count is how many numbers there are, an int64.
	Count Func = "count"
	// Rate is how much a counter goes up in a second, a float64.
	//
	// Each point is compared with the one before it, also across the edge of a
	// bucket: what was added belongs to the bucket of the later point, and so
	// does the time since the earlier one. A number that is less than the one
	// before says that the counter began again with 0, and what was added is the
	// number itself (or nothing where that is negative). The very first point
	// has none before it; without one there is no rate.
	Rate Func = "rate"
)

// Percentile returns the function of a percentile of 0 to 100: Percentile(99.9)
// is "p99.9". See [ExactPercentiles].
func Percentile(p float64) Func { return Func("p" + strconv.FormatFloat(p, 'f', -1, 64)) }

// ParseFunc returns the function of this name, or an error that wraps ErrInvalid
// and says which there are.
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
