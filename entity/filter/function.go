package filter

import (
	"errors"
	"maps"
	"math"
	"slices"

	"github.com/greenroom-go/greenroom/entity/value"
)

// function is a function that an expression may call. With a missing argument every function except
// coalesce, ifnull and isnull gives a missing value.
type function struct {
	name        string
	usage       string
	least, most int        // arguments
	kind        value.Kind // of the result, 0 when it is only known later; KindFloat is any number
	takes       value.Kind // of each argument, 0 for any; KindFloat is any number
	// compile returns the closure of a call. The closure computes each argument once, since
	// otherwise nested calls would take exponential time, and allocates nothing.
	compile func(args []source) source
}

// functions maps names, in lower case, to functions.
var functions = func() map[string]*function {
	const number, truth = value.KindFloat, value.KindBool
	list := []*function{
		{"abs", "abs(x)", 1, 1, number, number, unary(abs)},
		real1("acos", math.Acos),
		real1("asin", math.Asin),
		real1("atan", math.Atan),
		{"atan2", "atan2(y, x)", 2, 2, number, number, real2(math.Atan2)},
		real1("ceil", math.Ceil),
		{"clamp", "clamp(x, least, greatest)", 3, 3, number, number, clamp},
		{"coalesce", "coalesce(x, y, …)", 1, MaxArguments, 0, 0, coalesce},
		real1("cos", math.Cos),
		real1("exp", math.Exp),
		real1("floor", math.Floor),
		{"ifnull", "ifnull(x, y)", 2, 2, 0, 0, coalesce},
		{"int", "int(x)", 1, 1, number, 0, unary(toInt)},
		{"isnull", "isnull(x)", 1, 1, truth, 0, isNull},
		real1("log", math.Log),
		real1("log10", math.Log10),
		real1("log2", math.Log2),
		{"max", "max(x, y, …)", 2, MaxArguments, number, number, extreme(value.Greater)},
		{"min", "min(x, y, …)", 2, MaxArguments, number, number, extreme(value.Less)},
		{"pow", "pow(x, y)", 2, 2, number, number, binary(power)},
		{"round", "round(x) or round(x, digits)", 1, 2, number, number, round},
		{"sign", "sign(x)", 1, 1, number, number, unary(sign)},
		real1("sin", math.Sin),
		real1("sqrt", math.Sqrt),
		real1("tan", math.Tan),
	}
	m := make(map[string]*function, len(list))
	for _, f := range list {
		m[f.name] = f
	}
	return m
}()

// functionNames are the names of the functions, in order.
var functionNames = slices.Sorted(maps.Keys(functions))

// unary compiles a function of one argument.
func unary(f func(e *Env, x value.Value) value.Value) func([]source) source {
	return func(args []source) source {
		arg := args[0]
		return func(v View, e *Env) value.Value {
			x := arg(v, e)
			if x.IsZero() {
				return x
			}
			return f(e, x)
		}
	}
}

// binary compiles a function of two arguments.
func binary(f func(e *Env, x, y value.Value) value.Value) func([]source) source {
	return func(args []source) source {
		first, second := args[0], args[1]
		return func(v View, e *Env) value.Value {
			x := first(v, e)
			if x.IsZero() {
				return x
			}
			y := second(v, e)
			if y.IsZero() {
				return y
			}
			return f(e, x, y)
		}
	}
}

// real1 wraps a function of a real number.
func real1(name string, f func(float64) float64) *function {
	return &function{name, name + "(x)", 1, 1, value.KindFloat, value.KindFloat, unary(func(e *Env, x value.Value) value.Value {
		if a, ok := x.Number(); ok {
			return value.Float(f(a))
		}
		return needNumber(e, x)
	})}
}

func real2(f func(a, b float64) float64) func([]source) source {
	return binary(func(e *Env, x, y value.Value) value.Value {
		if a, b, ok := floats(x, y); ok {
			return value.Float(f(a, b))
		}
		return needNumbers(e, x, y)
	})
}

func coalesce(args []source) source {
	return func(v View, e *Env) (first value.Value) {
		for _, arg := range args {
			if x := arg(v, e); first.IsZero() {
				first = x
			}
		}
		return first
	}
}

func isNull(args []source) source {
	arg := args[0]
	return func(v View, e *Env) value.Value { return value.Bool(arg(v, e).IsZero()) }
}

func abs(e *Env, x value.Value) value.Value {
	switch {
	case x.Kind() == value.KindFloat:
		return value.Float(math.Abs(x.Float()))
	case x.Kind() != value.KindInt:
		return needNumber(e, x)
	case x.Int() < 0:
		return negate(e, x)
	}
	return x
}

func sign(e *Env, x value.Value) value.Value {
	if !x.IsNumber() {
		return needNumber(e, x)
	}
	switch value.Compare(x, value.Int(0)) {
	case value.Less:
		return value.Int(-1)
	case value.Greater:
		return value.Int(1)
	default:
		return value.Int(0)
	}
}

// extreme compiles min and max: the result is the first argument that no other one beats.
func extreme(better value.Order) func([]source) source {
	return func(args []source) source {
		return func(v View, e *Env) (best value.Value) {
			missing := false
			for i, arg := range args {
				x := arg(v, e)
				switch {
				case x.IsZero():
					missing = true
				case !x.IsNumber():
					return needNumber(e, x)
				case i == 0 || !missing && value.Compare(x, best) == better:
					best = x
				}
			}
			if missing {
				return value.Value{}
			}
			return best
		}
	}
}

func clamp(args []source) source {
	low := extreme(value.Greater)(args[:2])
	return extreme(value.Less)([]source{low, args[2]})
}

var errDigits = errors.New("round takes 0 to 15 digits, an integer")

// round rounds half away from zero, to a number of decimal digits.
func round(args []source) source {
	if len(args) == 1 {
		args = []source{args[0], func(View, *Env) value.Value { return value.Int(0) }}
	}
	return binary(func(e *Env, x, digits value.Value) value.Value {
		f := x.Float()
		switch {
		case x.Kind() == value.KindInt:
			return x
		case x.Kind() != value.KindFloat:
			return needNumber(e, x)
		case digits.Kind() != value.KindInt || digits.Int() < 0 || digits.Int() > 15:
			return e.fail(errDigits)
		case digits.Int() == 0:
			return value.Float(math.Round(f))
		}
		scale := math.Pow10(int(digits.Int()))
		if scaled := math.Round(f * scale); !math.IsInf(scaled, 0) {
			return value.Float(scaled / scale)
		}
		return x // so large that it has no fraction
	})(args)
}

// toInt cuts off the fraction.
func toInt(e *Env, x value.Value) value.Value {
	switch f := x.Float(); {
	case x.Kind() == value.KindInt:
		return x
	case x.Kind() == value.KindBool && x.Bool():
		return value.Int(1)
	case x.Kind() == value.KindBool:
		return value.Int(0)
	case x.Kind() != value.KindFloat:
		return needNumber(e, x)
	case !(f > -0x1p63 && f < 0x1p63):
		return e.fail(errOverflow)
	default:
		return value.Int(int64(f))
	}
}
