package filter

import (
	"errors"
	"fmt"
	"math"
	"math/bits"

	"github.com/greenroom-go/greenroom/entity/value"
)

// The computations of operators. They are never called with a missing operand. A failure is
// recorded in the Env, and gives no value.

var (
	errDivision = errors.New("division by zero")
	errOverflow = errors.New("the integer is beyond 64 bits; with float operands it is not")
	errLong     = errors.New("the time is beyond 64 bits of milliseconds")
)

// maxText bounds a text that an expression makes.
const maxText = 64 << 10

// needNumber notes that an operand is no number.
func needNumber(e *Env, v value.Value) value.Value {
	if e.failure == nil {
		e.failure = fmt.Errorf("a number is needed, not %s", withArticle(v.Kind()))
	}
	return value.Value{}
}

// needNumbers notes that one of two operands is no number.
func needNumbers(e *Env, x, y value.Value) value.Value {
	if x.IsNumber() {
		return needNumber(e, y)
	}
	return needNumber(e, x)
}

// floats returns two numbers as floats, and whether both are numbers.
func floats(x, y value.Value) (a, b float64, ok bool) {
	a, ok1 := x.Number()
	b, ok2 := y.Number()
	return a, b, ok1 && ok2
}

func add(e *Env, x, y value.Value) value.Value {
	switch {
	case x.Kind() == value.KindInt && y.Kind() == value.KindInt:
		sum := x.Int() + y.Int()
		if (sum > x.Int()) != (y.Int() > 0) && y.Int() != 0 {
			return e.fail(errOverflow)
		}
		return value.Int(sum)
	case x.Kind() == value.KindString && y.Kind() == value.KindString:
		if n := len(x.Text()) + len(y.Text()); n > maxText {
			return e.fail(fmt.Errorf("a text of %d bytes; at most %d are allowed", n, maxText))
		}
		return value.String(x.Text() + y.Text())
	}
	if a, b, ok := floats(x, y); ok {
		return value.Float(a + b)
	}
	return spans(e, x, y, 1)
}

func subtract(e *Env, x, y value.Value) value.Value {
	if x.Kind() == value.KindInt && y.Kind() == value.KindInt {
		diff := x.Int() - y.Int()
		if (diff < x.Int()) != (y.Int() > 0) && y.Int() != 0 {
			return e.fail(errOverflow)
		}
		return value.Int(diff)
	}
	if a, b, ok := floats(x, y); ok {
		return value.Float(a - b)
	}
	return spans(e, x, y, -1)
}

// spans adds to or takes from an instant or a span of time.
func spans(e *Env, x, y value.Value, sign int64) value.Value {
	of := value.Duration
	switch l, r := x.Kind(), y.Kind(); {
	case l == value.KindTime && r == value.KindDuration, l == value.KindDuration && r == value.KindTime && sign > 0:
		of = value.Time
	case l == value.KindDuration && r == value.KindDuration, l == value.KindTime && r == value.KindTime && sign < 0:
	default:
		return needNumbers(e, x, y)
	}
	a, b := x.Int(), y.Int()
	ms := a + sign*b
	if b != 0 && (ms > a) != ((b > 0) == (sign > 0)) {
		return e.fail(errLong)
	}
	return of(ms)
}

func multiply(e *Env, x, y value.Value) value.Value {
	if x.Kind() != value.KindInt || y.Kind() != value.KindInt {
		if a, b, ok := floats(x, y); ok {
			return value.Float(a * b)
		}
		return needNumbers(e, x, y)
	}
	high, low := bits.Mul64(magnitude(x.Int()), magnitude(y.Int()))
	negative := (x.Int() < 0) != (y.Int() < 0)
	switch {
	case high != 0, low > 1<<63, low == 1<<63 && !negative:
		return e.fail(errOverflow)
	case negative:
		return value.Int(-int64(low))
	}
	return value.Int(int64(low))
}

func magnitude(i int64) uint64 {
	if i < 0 {
		return -uint64(i)
	}
	return uint64(i)
}

// divide is a division of real numbers, also of integers.
func divide(e *Env, x, y value.Value) value.Value {
	a, b, ok := floats(x, y)
	switch {
	case !ok:
		return needNumbers(e, x, y)
	case b == 0:
		return e.fail(errDivision)
	}
	return value.Float(a / b)
}

// remainder has the sign of the dividend.
func remainder(e *Env, x, y value.Value) value.Value {
	a, b, ok := floats(x, y)
	switch {
	case !ok:
		return needNumbers(e, x, y)
	case b == 0:
		return e.fail(errDivision)
	case x.Kind() != value.KindInt || y.Kind() != value.KindInt:
		return value.Float(math.Mod(a, b))
	case y.Int() == -1: // of the least integer, % would overflow
		return value.Int(0)
	}
	return value.Int(x.Int() % y.Int())
}

func power(e *Env, x, y value.Value) value.Value {
	a, b, ok := floats(x, y)
	if !ok {
		return needNumbers(e, x, y)
	}
	return value.Float(math.Pow(a, b))
}

func negate(e *Env, x value.Value) value.Value {
	if x.Kind() == value.KindDuration {
		return value.Duration(-x.Int())
	}
	return subtract(e, value.Int(0), x)
}

func (n *arithmetic) compile(parts []source) source {
	left, apply := parts[0], n.op.apply
	if n.right.kind == ofLiteral && !n.right.value.IsZero() {
		y := n.right.value
		return func(v View, e *Env) value.Value {
			x := left(v, e)
			if x.IsZero() {
				return x
			}
			return apply(e, x, y)
		}
	}
	return binary(apply)(parts)
}

func (n *negation) compile(parts []source) source { return unary(negate)(parts) }

func (n *call) compile(parts []source) source { return n.fn.compile(parts) }

// A choice whose condition has no value has none.
func (n *choice) compile(parts []source) source {
	condition, yes, no := parts[0], parts[1], parts[2]
	return func(v View, e *Env) value.Value {
		switch truth(e, condition(v, e)) {
		case holds:
			return yes(v, e)
		case fails:
			return no(v, e)
		default:
			return value.Value{}
		}
	}
}

func (n *fallback) compile(parts []source) source {
	left, right := parts[0], parts[1]
	return func(v View, e *Env) value.Value {
		if x := left(v, e); !x.IsZero() || e.failure != nil {
			return x
		}
		return right(v, e)
	}
}

// verdict is true, false, or neither, which is the verdict about something missing.
type verdict uint8

const (
	unknown verdict = iota
	fails
	holds
)

func verdictOf(b bool) verdict {
	if b {
		return holds
	}
	return fails
}

// value returns the verdict as a bool, or no value.
func (d verdict) value() value.Value {
	if d == unknown {
		return value.Value{}
	}
	return value.Bool(d == holds)
}

// truth returns the verdict of a bool. A value of another kind is a failure.
func truth(e *Env, v value.Value) verdict {
	switch v.Kind() {
	case value.KindBool:
		return verdictOf(v.Bool())
	case 0:
		return unknown
	default:
		if e.failure == nil {
			e.failure = fmt.Errorf("a condition is needed, not %s", withArticle(v.Kind()))
		}
		return unknown
	}
}
