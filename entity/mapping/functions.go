package mapping

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strings"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/value"
)

// The functions of expressions. A value is nil (missing), int64, float64, bool,
// string, or an value.Value of KindJSON; the compiler's own integers are int.
//
// Of a missing operand every operator and function makes a missing result, but
// coalesce, ifnull, isnull and ?? do not. A missing condition ends the
// evaluation without a value.

// function is one that an expression may call.
type function struct {
	call        func(args ...any) (any, error)
	least, most int    // arguments
	usage       string // for errors and the documentation
	lazy        bool   // may have a value where an argument has none
}

var functions = map[string]function{
	"abs":      {call: abs, least: 1, most: 1, usage: "abs(x)"},
	"acos":     real1(math.Acos, "acos(x)"),
	"asin":     real1(math.Asin, "asin(x)"),
	"atan":     real1(math.Atan, "atan(x)"),
	"atan2":    real2(math.Atan2, "atan2(y, x)"),
	"ceil":     real1(math.Ceil, "ceil(x)"),
	"clamp":    {call: clamp, least: 3, most: 3, usage: "clamp(x, least, greatest)"},
	"coalesce": {call: coalesce, least: 1, most: 32, usage: "coalesce(x, y, …)", lazy: true},
	"cos":      real1(math.Cos, "cos(x)"),
	"exp":      real1(math.Exp, "exp(x)"),
	"floor":    real1(math.Floor, "floor(x)"),
	"ifnull":   {call: coalesce, least: 2, most: 2, usage: "ifnull(x, y)", lazy: true},
	"int":      {call: toInt, least: 1, most: 1, usage: "int(x)"},
	"isnull":   {call: isNull, least: 1, most: 1, usage: "isnull(x)", lazy: true},
	"log":      real1(math.Log, "log(x)"),
	"log10":    real1(math.Log10, "log10(x)"),
	"log2":     real1(math.Log2, "log2(x)"),
	"max":      {call: maxOf, least: 2, most: 32, usage: "max(x, y, …)"},
	"min":      {call: minOf, least: 2, most: 32, usage: "min(x, y, …)"},
	"pow":      real2(math.Pow, "pow(x, y)"),
	"round":    {call: round, least: 1, most: 2, usage: "round(x) or round(x, digits)"},
	"sign":     {call: sign, least: 1, most: 1, usage: "sign(x)"},
	"sin":      real1(math.Sin, "sin(x)"),
	"sqrt":     real1(math.Sqrt, "sqrt(x)"),
	"tan":      real1(math.Tan, "tan(x)"),
}

// operators are what the gate's lowerer makes of operators.
var operators = map[string]func(args ...any) (any, error){
	"_add": add, "_subtract": subtract, "_multiply": multiply, "_divide": divide, "_remainder": remainder,
	"_power": real2(math.Pow, "").call, "_negate": negate, "_number": plus, "_condition": conditionOf,
	"_equal": equal, "_unequal": unequal,
	"_less":     ordered(func(c int) bool { return c < 0 }),
	"_at_most":  ordered(func(c int) bool { return c <= 0 }),
	"_greater":  ordered(func(c int) bool { return c > 0 }),
	"_at_least": ordered(func(c int) bool { return c >= 0 }),
}

// names is the list of functions for an error.
var names string

func init() {
	list := make([]string, 0, len(functions))
	for name := range functions {
		list = append(list, name)
	}
	slices.Sort(list)
	names = strings.Join(list, ", ") + ", and over many values avg, min, max, sum, count, last, first"
}

func functionNames() string { return names }

// errDivision and errOverflow are failures of an evaluation.
var (
	errDivision = errors.New("division by zero")
	errOverflow = errors.New("the integer is beyond 64 bits; with float operands it is not")
)

// kindOf names the kind of a value for an error.
func kindOf(v any) string {
	switch v := v.(type) {
	case int, int64:
		return "an integer"
	case float64:
		return "a float"
	case bool:
		return "a bool"
	case string:
		return "a text"
	case value.Value:
		return v.Kind().String()
	default:
		return fmt.Sprintf("%T", v)
	}
}

// number is an operand: an integer or a float.
type number struct {
	i     int64
	f     float64
	isInt bool
}

func (n number) float() float64 {
	if n.isInt {
		return float64(n.i)
	}
	return n.f
}

func (n number) value() any {
	if n.isInt {
		return n.i
	}
	return n.f
}

func toNumber(v any) (number, error) {
	switch v := v.(type) {
	case int64:
		return number{i: v, isInt: true}, nil
	case int:
		return number{i: int64(v), isInt: true}, nil
	case float64:
		return number{f: v}, nil
	}
	return number{}, fmt.Errorf("a number is needed, not %s", kindOf(v))
}

// missing reports whether an argument has no value.
func missing(args []any) bool {
	for _, a := range args {
		if a == nil {
			return true
		}
	}
	return false
}

// pair returns two numbers.
func pair(args []any) (a, b number, err error) {
	if a, err = toNumber(args[0]); err == nil {
		b, err = toNumber(args[1])
	}
	return a, b, err
}

// real1 makes a function of a function of a real number.
func real1(f func(float64) float64, usage string) function {
	return function{least: 1, most: 1, usage: usage, call: func(args ...any) (any, error) {
		if missing(args) {
			return nil, nil
		}
		x, err := toNumber(args[0])
		if err != nil {
			return nil, err
		}
		return f(x.float()), nil
	}}
}

func real2(f func(a, b float64) float64, usage string) function {
	return function{least: 2, most: 2, usage: usage, call: func(args ...any) (any, error) {
		if missing(args) {
			return nil, nil
		}
		a, b, err := pair(args)
		if err != nil {
			return nil, err
		}
		return f(a.float(), b.float()), nil
	}}
}

func add(args ...any) (any, error) {
	if missing(args) {
		return nil, nil
	}
	if a, ok := args[0].(string); ok {
		if b, ok := args[1].(string); ok {
			if len(a)+len(b) > entity.MaxTextBytes {
				return nil, fmt.Errorf("a text of %d bytes; at most %d are allowed", len(a)+len(b), entity.MaxTextBytes)
			}
			return a + b, nil
		}
	}
	a, b, err := pair(args)
	if err != nil || !a.isInt || !b.isInt {
		return a.float() + b.float(), err
	}
	sum := a.i + b.i
	if (sum > a.i) != (b.i > 0) && b.i != 0 {
		return nil, errOverflow
	}
	return sum, nil
}

func subtract(args ...any) (any, error) {
	if missing(args) {
		return nil, nil
	}
	a, b, err := pair(args)
	if err != nil || !a.isInt || !b.isInt {
		return a.float() - b.float(), err
	}
	diff := a.i - b.i
	if (diff < a.i) != (b.i > 0) && b.i != 0 {
		return nil, errOverflow
	}
	return diff, nil
}

func multiply(args ...any) (any, error) {
	if missing(args) {
		return nil, nil
	}
	a, b, err := pair(args)
	if err != nil || !a.isInt || !b.isInt {
		return a.float() * b.float(), err
	}
	high, low := bits.Mul64(magnitude(a.i), magnitude(b.i))
	negative := (a.i < 0) != (b.i < 0)
	switch {
	case high != 0, low > 1<<63, low == 1<<63 && !negative:
		return nil, errOverflow
	case negative:
		return -int64(low), nil
	}
	return int64(low), nil
}

func magnitude(i int64) uint64 {
	if i < 0 {
		return -uint64(i)
	}
	return uint64(i)
}

// divide is a division of real numbers, also of integers.
func divide(args ...any) (any, error) {
	if missing(args) {
		return nil, nil
	}
	a, b, err := pair(args)
	if err == nil && b.float() == 0 {
		err = errDivision
	}
	if err != nil {
		return nil, err
	}
	return a.float() / b.float(), nil
}

// remainder has the sign of the dividend.
func remainder(args ...any) (any, error) {
	if missing(args) {
		return nil, nil
	}
	a, b, err := pair(args)
	if err == nil && b.float() == 0 {
		err = errDivision
	}
	switch {
	case err != nil:
		return nil, err
	case !a.isInt || !b.isInt:
		return math.Mod(a.float(), b.float()), nil
	case b.i == -1:
		return int64(0), nil
	}
	return a.i % b.i, nil
}

func negate(args ...any) (any, error) { return subtract(int64(0), args[0]) }

// plus is the sign that changes nothing.
func plus(args ...any) (any, error) {
	if missing(args) {
		return nil, nil
	}
	n, err := toNumber(args[0])
	return n.value(), err
}

// conditionOf makes sure that a condition is one.
func conditionOf(args ...any) (any, error) {
	switch v := args[0].(type) {
	case bool:
		return v, nil
	case nil:
		return nil, errNoValue
	default:
		return nil, fmt.Errorf("a condition is needed, not %s", kindOf(v))
	}
}

// compare orders two numbers or two texts. An integer and a float are compared
// as floats.
func compare(a, b any) (int, error) {
	if x, ok := a.(string); ok {
		if y, ok := b.(string); ok {
			return strings.Compare(x, y), nil
		}
	}
	x, y, err := pair([]any{a, b})
	switch {
	case err != nil:
		return 0, fmt.Errorf("%s cannot be compared with %s", kindOf(a), kindOf(b))
	case x.isInt && y.isInt:
		return compareInts(x.i, y.i), nil
	case x.float() < y.float():
		return -1, nil
	case x.float() > y.float():
		return 1, nil
	}
	return 0, nil
}

func compareInts(a, b int64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

func ordered(holds func(c int) bool) func(args ...any) (any, error) {
	return func(args ...any) (any, error) {
		if missing(args) {
			return nil, nil
		}
		c, err := compare(args[0], args[1])
		if err != nil {
			return nil, err
		}
		return holds(c), nil
	}
}

// equal holds for equal values; values of different kinds differ.
func equal(args ...any) (any, error) {
	if missing(args) {
		return nil, nil
	}
	if c, err := compare(args[0], args[1]); err == nil {
		return c == 0, nil
	}
	return args[0] == args[1], nil
}

func unequal(args ...any) (any, error) {
	same, err := equal(args...)
	if same == nil || err != nil {
		return nil, err
	}
	return same == false, nil
}

func coalesce(args ...any) (any, error) {
	for _, a := range args {
		if a != nil {
			return a, nil
		}
	}
	return nil, nil
}

func isNull(args ...any) (any, error) { return args[0] == nil, nil }

func abs(args ...any) (any, error) {
	if missing(args) {
		return nil, nil
	}
	n, err := toNumber(args[0])
	switch {
	case err != nil:
		return nil, err
	case !n.isInt:
		return math.Abs(n.f), nil
	case n.i < 0:
		return subtract(int64(0), n.i)
	}
	return n.i, nil
}

func sign(args ...any) (any, error) {
	if missing(args) {
		return nil, nil
	}
	if _, err := toNumber(args[0]); err != nil {
		return nil, err
	}
	c, err := compare(args[0], int64(0))
	return int64(c), err
}

// extreme returns the argument that comes first in an order.
func extreme(args []any, better func(c int) bool) (any, error) {
	if missing(args) {
		return nil, nil
	}
	best, err := toNumber(args[0])
	if err != nil {
		return nil, err
	}
	for _, a := range args[1:] {
		n, err := toNumber(a)
		if err != nil {
			return nil, err
		}
		if c, _ := compare(n.value(), best.value()); better(c) {
			best = n
		}
	}
	return best.value(), nil
}

func minOf(args ...any) (any, error) { return extreme(args, func(c int) bool { return c < 0 }) }
func maxOf(args ...any) (any, error) { return extreme(args, func(c int) bool { return c > 0 }) }

func clamp(args ...any) (any, error) {
	if missing(args) {
		return nil, nil
	}
	low, err := maxOf(args[0], args[1])
	if err != nil {
		return nil, err
	}
	return minOf(low, args[2])
}

// round rounds half away from zero, to a number of decimal digits.
func round(args ...any) (any, error) {
	if missing(args) {
		return nil, nil
	}
	x, err := toNumber(args[0])
	if err != nil || x.isInt {
		return x.value(), err
	}
	if len(args) == 1 {
		return math.Round(x.f), nil
	}
	digits, err := toNumber(args[1])
	if err != nil || !digits.isInt || digits.i < 0 || digits.i > 15 {
		return nil, errors.New("round has 0 to 15 digits, an integer")
	}
	scale := math.Pow10(int(digits.i))
	if scaled := math.Round(x.f * scale); !math.IsInf(scaled, 0) {
		return scaled / scale, nil
	}
	return x.f, nil // so large that it has no fraction
}

// toInt cuts off the fraction.
func toInt(args ...any) (any, error) {
	if missing(args) {
		return nil, nil
	}
	if b, ok := args[0].(bool); ok {
		if b {
			return int64(1), nil
		}
		return int64(0), nil
	}
	x, err := toNumber(args[0])
	switch {
	case err != nil:
		return nil, err
	case x.isInt:
		return x.i, nil
	case !(x.f > -0x1p63 && x.f < 0x1p63):
		return nil, errOverflow
	}
	return int64(x.f), nil
}
