package lua

import (
	"slices"
	"sort"

	glua "github.com/yuin/gopher-lua"
)

// base are the functions that take the place of those of the base library, because they take time or memory that nobody
// counts, or change what all values share.
func (s *service) base() map[string]glua.LGFunction {
	return map[string]glua.LGFunction{
		"assert":       assert,
		"type":         typeOf,
		"require":      s.require,
		"next":         s.next,
		"pcall":        s.pcall,
		"xpcall":       s.xpcall,
		"unpack":       s.unpackTable,
		"rawset":       s.rawSet,
		"setmetatable": setMetatable,
		"rawget":       s.counted("rawget", func(l *glua.LState) int64 { return reading(l.Get(2)) }),
		"rawequal":     s.counted("rawequal", func(l *glua.LState) int64 { return comparing(l.Get(1), l.Get(2)) }),
		"tonumber":     s.counted("tonumber", func(l *glua.LState) int64 { return 4*reading(l.Get(1)) + parsing(l.Get(1)) }),
		"error":        s.counted("error", func(l *glua.LState) int64 { return reading(l.Get(1)) }),
	}
}

// counted is a function of the interpreter that takes steps.
func (s *service) counted(name string, steps func(l *glua.LState) int64) glua.LGFunction {
	stock := s.root.GetGlobal(name).(*glua.LFunction).GFunction
	return func(l *glua.LState) int {
		s.meter.spend(l, int(steps(l)))
		return stock(l)
	}
}

// next returns the key after another one, and its value. It pays for what it skips: keys that were deleted, and holes.
func (s *service) next(l *glua.LState) int {
	key, value, looked, ok := following(l.CheckTable(1), l.Get(2))
	s.meter.spend(l, looked/4+int(reading(l.Get(2))))
	if !ok {
		l.RaiseError("invalid key to 'next'")
	}
	l.Push(key)
	if key == glua.LNil {
		return 1
	}
	l.Push(value)
	return 2
}

// following returns the key and the value after a key, nil for the first one, and how many it has looked at. One
// that is long counts as several.
func following(table *glua.LTable, key glua.LValue) (next, value glua.LValue, looked int, ok bool) {
	t := tableOf(table)
	item, field := 0, 0
	if n, isNumber := key.(glua.LNumber); isNumber && isListKey(float64(n)) {
		item = int(n)
	} else if key != glua.LNil {
		i, known := t.k2i[key]
		if !known {
			return nil, nil, 0, false
		}
		item, field = len(t.array), i+1
	}
	for i := item; i < len(t.array); i++ {
		if v := t.array[i]; v != glua.LNil {
			return glua.LNumber(i + 1), v, i - item, true
		}
	}
	long := 0
	for i := field; i < len(t.keys); i++ {
		if v := table.RawGetH(t.keys[i]); v != glua.LNil {
			return t.keys[i], v, i - field + long, true
		}
		long += 4 * int(reading(t.keys[i]))
	}
	return glua.LNil, glua.LNil, max(len(t.array)-item, 0) + len(t.keys) - field + long, true
}

// stepsPerCatch is what it takes to end the functions that are under way.
const stepsPerCatch = 50

// pcall calls a function and returns true and what it returns, or false and what was raised.
func (s *service) pcall(l *glua.LState) int {
	if _, ok := callable(l, l.CheckAny(1)); !ok {
		l.Push(glua.LFalse)
		l.Push(glua.LString("attempt to call a " + typeName(l.Get(1)) + " value"))
		return 2
	}
	checkDepth(l)
	if err := s.protect(l, l.GetTop()-1, glua.MultRet, nil); err != nil {
		return s.caught(l, err)
	}
	l.Insert(glua.LTrue, 1)
	return l.GetTop()
}

// checkDepth raises an error where too many functions are under way for another protected call.
func checkDepth(l *glua.LState) {
	if stateOf(l).currentFrame.Idx >= callDepth {
		l.RaiseError("%s", errDeep)
	}
}

func callable(l *glua.LState, v glua.LValue) (*glua.LFunction, bool) {
	if f, ok := v.(*glua.LFunction); ok {
		return f, true
	}
	f, ok := l.GetMetaField(v, "__call").(*glua.LFunction)
	return f, ok
}

// caught pushes what a protected call returns after an error.
func (s *service) caught(l *glua.LState, err error) int {
	s.meter.steps -= stepsPerCatch
	l.Push(glua.LFalse)
	l.Push(err.(*glua.ApiError).Object) //nolint:errorlint // the interpreter returns no other
	return 2
}

func (s *service) xpcall(l *glua.LState) int {
	fn, handler := l.CheckFunction(1), l.CheckFunction(2)
	checkDepth(l)
	top := l.GetTop()
	l.Push(fn)
	if err := s.protect(l, 0, glua.MultRet, handler); err != nil {
		return s.caught(l, err)
	}
	l.Insert(glua.LTrue, top+1)
	return l.GetTop() - top
}

func (s *service) unpackTable(l *glua.LState) int {
	t := l.CheckTable(1)
	first, last := l.OptInt(2, 1), l.OptInt(3, s.length(l, t))
	if first > last {
		return 0
	}
	if n := last - first; n < 0 || n >= maxResults {
		l.RaiseError("too many results to unpack: at most %d", maxResults)
	}
	s.meter.spend(l, (last-first)/4)
	for i := first; i <= last; i++ {
		l.Push(t.RawGet(glua.LNumber(i)))
	}
	return last - first + 1
}

func (s *service) rawSet(l *glua.LState) int {
	t, key, value := l.CheckTable(1), l.CheckAny(2), l.CheckAny(3)
	s.set(l, t, key, value)
	l.SetTop(1)
	return 1
}

// set sets a key of a table, and pays for it.
func (s *service) set(l *glua.LState, t *glua.LTable, key, value glua.LValue) {
	c := s.meter.growing(t, key, false)
	s.meter.spend(l, int(c.steps))
	s.meter.take(l, int(c.bytes))
	if c.fault != nil {
		l.RaiseError("%s", c.fault)
	}
	l.RawSet(t, key, value)
}

// setMetatable sets the metatable of a table: that of the interpreter also sets those that all
// numbers or functions have.
func setMetatable(l *glua.LState) int {
	t := l.CheckTable(1)
	l.CheckTypes(2, glua.LTNil, glua.LTTable)
	if old, ok := t.Metatable.(*glua.LTable); ok && old.RawGetString("__metatable") != glua.LNil {
		l.RaiseError("cannot change a protected metatable")
	}
	t.Metatable = l.Get(2)
	l.SetTop(1)
	return 1
}

// length returns the length of a list, and pays for the holes at its end.
func (s *service) length(l *glua.LState, t *glua.LTable) int {
	s.meter.spend(l, int(measuring(t)))
	return t.Len()
}

// tables is the library of tables.
func (s *service) tables() map[string]glua.LGFunction {
	return map[string]glua.LGFunction{
		"concat": s.concat,
		"insert": s.insert,
		"remove": s.remove,
		"sort":   s.sort,
		"getn":   func(l *glua.LState) int { l.Push(glua.LNumber(s.length(l, l.CheckTable(1)))); return 1 },
		"maxn": func(l *glua.LState) int {
			t := l.CheckTable(1)
			s.meter.spend(l, int(measuring(t)))
			l.Push(glua.LNumber(t.MaxN()))
			return 1
		},
	}
}

func (s *service) concat(l *glua.LState) int {
	t, separator := l.CheckTable(1), l.OptString(2, "")
	first, last := l.OptInt(3, 1), l.OptInt(4, s.length(l, t))
	var out []byte
	for i := first; i <= last; i++ {
		v := t.RawGet(glua.LNumber(i))
		if !glua.LVCanConvToString(v) {
			l.RaiseError("invalid value (%s) at index %d in table for concat", v.Type(), i)
		}
		text := glua.LVAsString(v)
		s.meter.spend(l, 1+(len(text)+len(separator))/bytesPerStep)
		out = append(out, text...)
		if i < last {
			out = append(out, separator...)
		}
		if len(out) > maxString {
			l.RaiseError("%s", errString)
		}
	}
	s.meter.text(l, len(out))
	l.Push(glua.LString(out))
	return 1
}

func (s *service) insert(l *glua.LState) int {
	t := l.CheckTable(1)
	end := s.length(l, t) + 1
	switch l.GetTop() {
	case 2:
		s.set(l, t, glua.LNumber(end), l.Get(2))
	case 3:
		at := l.CheckInt(2)
		if at < 1 || at >= end {
			s.set(l, t, glua.LNumber(at), l.Get(3))
			return 0
		}
		s.meter.spend(l, (end-at)/16)
		s.meter.take(l, wordSize*2)
		t.Insert(at, l.Get(3))
	default:
		l.RaiseError("wrong number of arguments to 'insert'")
	}
	return 0
}

func (s *service) remove(l *glua.LState) int {
	t := l.CheckTable(1)
	end := s.length(l, t)
	at := l.OptInt(2, end)
	if at < 1 || at > end {
		l.Push(glua.LNil)
		return 1
	}
	s.meter.spend(l, (end-at)/16)
	list := tableOf(t).array
	l.Push(t.Remove(at))
	clear(list[len(tableOf(t).array):]) // where the interpreter leaves the last value
	return 1
}

// sorting is a list that is being sorted: a copy, because others may change the table while a comparator waits.
type sorting struct{ before, list []glua.LValue }

func (o *sorting) hold(w *walker) {
	w.size += int64(len(o.before)+len(o.list)) * wordSize
	w.all(o.before)
}

// sort sorts a list, with the comparator if there is one. Each comparison is at least a step.
func (s *service) sort(l *glua.LState) int {
	t := l.CheckTable(1)
	n := s.length(l, t)
	less := l.LessThan
	if l.GetTop() > 1 {
		comparator := l.CheckFunction(2)
		less = func(a, b glua.LValue) bool {
			l.Push(comparator)
			l.Push(a)
			l.Push(b)
			l.Call(2, 1)
			before := glua.LVAsBool(l.Get(-1))
			l.Pop(1)
			return before
		}
	}
	s.meter.spend(l, n/valuesPerStep*3)
	s.meter.take(l, n*wordSize*2+userdataSize)
	o := &sorting{slices.Clone(tableOf(t).array[:n]), slices.Clone(tableOf(t).array[:n])}
	l.Push(&glua.LUserData{Value: o, Metatable: glua.LNil}) // where a walk finds it
	sort.Slice(o.list, func(i, j int) bool {
		a, b := o.list[i], o.list[j]
		s.meter.spend(l, 1+int(comparing(a, b)))
		return less(a, b)
	})
	now := tableOf(t).array
	if len(now) < n || !slices.EqualFunc(now[:n], o.before, sameValue) {
		l.RaiseError("the table was changed while it was sorted")
	}
	copy(now, o.list)
	return 0
}

// sameValue reports whether nothing was assigned between a and b.
func sameValue(a, b glua.LValue) bool { return a == b || a != a && b != b } //nolint:gocritic // NaN
