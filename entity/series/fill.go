package series

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/greenroom-go/greenroom/entity/value"
)

// FillMode says what happens to a bucket without points.
type FillMode uint8

// The modes.
const (
	FillNone     FillMode = iota // it is left out
	FillNull                     // it has no numbers
	FillPrevious                 // it has the numbers of the bucket before
	FillLinear                   // it lies on the line between the buckets around the gap
	FillValue                    // it has a given number
)

var fillNames = [...]string{FillNone: "none", FillNull: "null", FillPrevious: "previous", FillLinear: "linear", FillValue: "value"}

// String returns the name of the mode.
func (m FillMode) String() string {
	if int(m) < len(fillNames) {
		return fillNames[m]
	}
	return "unknown"
}

// Fill says what a query does with buckets without points. The zero Fill leaves them out. With any
// other, the answer has all buckets of the range: from the one that contains Query.From, or else
// from the first with a point, to the one before Query.To, or to the last with a point.
//
// A count is never filled in: that of an empty bucket is 0. Before the first bucket with a point
// and after the last, FillLinear fills in no value, since there is nothing to interpolate.
// FillPrevious has none before the first, unless a point before the range was added.
type Fill struct {
	Mode  FillMode
	Value value.Value // of FillValue
}

// ParseFill parses a fill: none, null, previous, linear, or a number for FillValue. The empty text
// is none. The error wraps ErrInvalid.
func ParseFill(text string) (Fill, error) {
	if text == "" {
		return Fill{}, nil
	}
	for mode := FillNone; mode <= FillLinear; mode++ {
		if text == mode.String() {
			return Fill{Mode: mode}, nil
		}
	}
	if json.Valid([]byte(text)) { // which leaves out NaN, Inf and 0x1
		if i, err := strconv.ParseInt(text, 10, 64); err == nil {
			return Fill{Mode: FillValue, Value: value.Int(i)}, nil
		}
		if f, err := strconv.ParseFloat(text, 64); err == nil {
			return Fill{Mode: FillValue, Value: finite(f)}, nil
		}
	}
	return Fill{}, fmt.Errorf("fill %q: %w: there are none, null, previous, linear, and a number", text, ErrInvalid)
}

func (f Fill) check() error {
	if f.Mode > FillValue || f.Mode == FillValue && f.Value.IsZero() {
		return fmt.Errorf("fill %v: %w: there are none, null, previous, linear, and value with a number", f.Mode, ErrInvalid)
	}
	return nil
}

// missing returns the numbers of an empty bucket between two that have points,
// either of which may be nil where there is none.
func (f Fill) missing(funcs []Func, start int64, before, after *Bucket) []value.Value {
	values := make([]value.Value, len(funcs))
	for i, fn := range funcs {
		switch {
		case fn == Count:
			values[i] = value.Int(0)
		case f.Mode == FillValue:
			values[i] = f.Value
		case f.Mode == FillPrevious && before != nil:
			values[i] = before.Values[i]
		case f.Mode == FillLinear && before != nil && after != nil:
			values[i] = between(before.Values[i], after.Values[i], float64(start-before.Start)/float64(after.Start-before.Start))
		}
	}
	return values
}

// between returns the number at a part of the way from a to b.
func between(a, b value.Value, part float64) value.Value {
	if a.IsZero() || b.IsZero() {
		return value.Value{}
	}
	x, y := float(a), float(b)
	return finite(x*(1-part) + y*part)
}
