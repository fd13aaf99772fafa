package lua

import (
	"math"
	"math/bits"
	"strconv"

	glua "github.com/yuin/gopher-lua"
)

// int64s returns the metatable of int64: integers that a double cannot hold. Arithmetic with them is exact:
// what does not fit is an error. Division and modulo round down, as // and % do in later versions of Lua.
func (s *service) int64s() *glua.LTable {
	t := s.table(map[string]glua.LGFunction{
		"__add": s.exactly(func(a, b int64) (int64, bool) { c := a + b; return c, (c > a) == (b > 0) }),
		"__sub": s.exactly(func(a, b int64) (int64, bool) { c := a - b; return c, (c < a) == (b > 0) }),
		"__mul": s.exactly(multiply),
		"__div": s.exactly(divide),
		"__mod": s.exactly(modulo),
		"__unm": s.exactly(func(a, _ int64) (int64, bool) { return -a, a != math.MinInt64 }),
		"__eq":  compare(func(a, b int64) bool { return a == b }),
		"__lt":  compare(func(a, b int64) bool { return a < b }),
		"__le":  compare(func(a, b int64) bool { return a <= b }),
		"__tostring": func(l *glua.LState) int {
			l.Push(glua.LString(strconv.FormatInt(toInt64(l, 1), 10)))
			return 1
		},
		"__concat": func(l *glua.LState) int {
			l.Push(glua.LString(l.ToStringMeta(l.Get(1)).String() + l.ToStringMeta(l.Get(2)).String()))
			return 1
		},
	})
	t.RawSetString("__metatable", glua.LString("int64"))
	return t
}

func multiply(a, b int64) (int64, bool) {
	high, low := bits.Mul64(magnitude(a), magnitude(b))
	if negative := (a < 0) != (b < 0); negative {
		return -int64(low), high == 0 && low <= 1<<63
	}
	return int64(low), high == 0 && low < 1<<63
}

func magnitude(n int64) uint64 {
	if n < 0 {
		return -uint64(n)
	}
	return uint64(n)
}

func divide(a, b int64) (int64, bool) {
	if b == 0 || a == math.MinInt64 && b == -1 {
		return 0, false
	}
	q := a / b
	if a%b != 0 && (a < 0) != (b < 0) {
		q--
	}
	return q, true
}

func modulo(a, b int64) (int64, bool) {
	if b == 0 {
		return 0, false
	}
	r := a % b
	if r != 0 && (r < 0) != (b < 0) {
		r += b
	}
	return r, true
}

// exactly is an operation that reports whether its result is one.
func (s *service) exactly(operation func(a, b int64) (int64, bool)) glua.LGFunction {
	return func(l *glua.LState) int {
		result, ok := operation(toInt64(l, 1), toInt64(l, 2))
		if !ok {
			l.RaiseError("the result is not an int64")
		}
		l.Push(s.values.integer(result))
		return 1
	}
}

func compare(holds func(a, b int64) bool) glua.LGFunction {
	return func(l *glua.LState) int {
		l.Push(glua.LBool(holds(toInt64(l, 1), toInt64(l, 2))))
		return 1
	}
}

// maxDigits is the length of the longest text that is read as an int64: more are leading zeros.
const maxDigits = 64

// toInt64 returns an argument that is an int64, an integer or the text of one.
func toInt64(l *glua.LState, i int) int64 {
	switch v := l.Get(i).(type) {
	case *glua.LUserData:
		if n, ok := v.Value.(int64); ok {
			return n
		}
	case glua.LNumber:
		if n := float64(v); n == math.Trunc(n) && math.Abs(n) <= exact {
			return int64(n)
		}
	case glua.LString:
		if len(v) > maxDigits {
			break
		}
		if n, err := strconv.ParseInt(string(v), 10, 64); err == nil {
			return n
		}
	}
	l.ArgError(i, "an int64, an integer or the text of one expected")
	return 0
}
