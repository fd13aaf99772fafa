package lua

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	glua "github.com/yuin/gopher-lua"
)

// SandboxConfig sets the limits of a [Sandbox] and what its script sees. The zero SandboxConfig has
// the limits of a [Config], and shows only the language and its libraries.
type SandboxConfig struct {
	// Steps is how many instructions a call may take; 0 means 10 million.
	Steps int64
	// MemoryLimit is how many bytes the values of the script may take, at least 1 MiB; 0 means 32
	// MiB.
	MemoryLimit int64
	// Seed is the seed of math.random.
	Seed uint64
	// Print gets what the script prints, one line of at most 4 KiB at a time. If it is nil there is
	// no function print.
	Print func(line string)
	// Hosts are the objects that the script finds under these names.
	Hosts map[string]Host
}

// Host is a Go object for scripts: its methods are called as o:name(…), and its fields are read as
// o.name. Arguments and results are values as for [Call]: nil, bool, float64, int64, string and
// *[Table]. Scripts cannot change it.
type Host struct {
	// Methods are its methods. args are the arguments after the object itself. An error is raised
	// at the call of the method.
	Methods map[string]func(args []any) (any, error)
	// Field returns the value of a field that is not a method, nil if there is none, or a [Worked]
	// value. It may be nil.
	Field func(name string) any
	// Fields are objects within this one, by their names.
	Fields map[string]Host
}

// Worked is a value of a [Host] with the steps that it took to find it, beside those that any value
// costs. The script pays them.
type Worked struct {
	Value any
	Steps int
}

// Sandbox runs the functions of one script with its limits, without an actor: for functions that
// are called often, do little, and wait for nothing. It has neither require nor the module
// greenroom. It must not be used concurrently. Once the values of the script exceed MemoryLimit the
// sandbox is useless: each call fails with [ErrMemory].
type Sandbox struct {
	s      *service
	script string
	hosts  map[string]*glua.LTable
}

// NewSandbox compiles a script and runs it, which defines its functions. name is its name in
// errors: name:3 is its third line. It returns an [*Error] if the script cannot be compiled or
// fails.
func NewSandbox(name, source string, cfg SandboxConfig) (*Sandbox, error) {
	limits := Config{Steps: cfg.Steps, MemoryLimit: cfg.MemoryLimit, Path: noFiles{}}
	limits, err := limits.withDefaults()
	if err != nil {
		return nil, err
	}
	chunk, err := CheckScript(name, source)
	if err != nil {
		return nil, err
	}
	b := &Sandbox{script: name, hosts: map[string]*glua.LTable{}, s: &service{rt: &Runtime{cfg: limits, words: &vocabulary{}}, file: name, account: &account{}}}
	b.s.openLanguage()
	b.s.openRandom(cfg.Seed)
	b.s.root.SetGlobal("require", glua.LNil)
	if cfg.Print != nil {
		b.s.root.SetGlobal("print", b.s.root.NewFunction(func(l *glua.LState) int { return b.print(l, cfg.Print) }))
	}
	for _, host := range slices.Sorted(maps.Keys(cfg.Hosts)) {
		b.hosts[host] = b.host(host, cfg.Hosts[host])
		b.s.root.SetGlobal(host, b.hosts[host])
	}
	if err := b.s.run(&task{}, b.s.root.NewFunctionFromProto(chunk.proto)); err != nil {
		return nil, err
	}
	return b, nil
}

// Script is the compiled text of a script.
type Script struct{ proto *glua.FunctionProto }

// CheckScript compiles a script and does not run it. If that fails it returns an [*Error] that
// names the line.
func CheckScript(name, source string) (*Script, error) {
	if len(source) > maxSource {
		return nil, &Error{Text: fmt.Sprintf("%s: a script must have at most %d bytes, not %d", name, maxSource, len(source))}
	}
	proto, err := compileSource(name, source)
	if err != nil {
		return nil, err
	}
	return &Script{proto}, nil
}

// Has reports whether the script has a function of this name.
func (b *Sandbox) Has(function string) bool {
	_, ok := b.s.root.GetGlobal(function).(*glua.LFunction)
	return ok
}

// Call calls a function of the script. self is the state that the script finds in the global table
// self, as an earlier call has returned it, nil for an empty one; kept is that table after the
// call, nil if it is empty. args are values as for [Call], and names of Hosts as a HostName. An
// error is an [*Error] with the stack, and wraps ErrSteps or ErrMemory.
func (b *Sandbox) Call(function string, self []byte, args ...any) (kept []byte, err error) {
	s := b.s
	fn, ok := s.root.GetGlobal(function).(*glua.LFunction)
	if !ok {
		return nil, &Error{Text: fmt.Sprintf("%s: there is no function %s", b.script, function)}
	}
	if s.meter.full {
		return nil, &Error{Text: b.script + ": " + ErrMemory.Error(), cause: ErrMemory}
	}
	s.meter.begin()
	table := glua.LValue(s.root.NewTable())
	if self != nil {
		values, err := s.values.unpack(self)
		if err != nil || len(values) != 1 {
			return nil, fmt.Errorf("%s: the kept state is not readable: %w", b.script, err)
		}
		table = values[0]
	}
	given, steps := make([]glua.LValue, len(args)), 0
	for i, arg := range args {
		steps += stepsOf(arg)
		if given[i], err = b.give(arg); err != nil {
			return nil, err
		}
	}
	s.root.SetGlobal(selfName, table)
	err = s.run(&task{}, s.root.NewFunction(func(l *glua.LState) int {
		s.meter.spend(l, steps)
		l.Push(fn)
		for _, v := range given {
			l.Push(v)
		}
		l.Call(len(given), 0)
		kept = b.keep(l)
		return 0
	}))
	if err != nil {
		return nil, err
	}
	return kept, nil
}

// Used returns how many steps the last call has taken, all of them for one that has run out of them.
func (b *Sandbox) Used() int64 {
	m := b.s.meter
	return m.budget - max(m.steps, 0)
}

// selfName is the global table that is kept between calls.
const selfName = "self"

// HostName is an argument of [Sandbox.Call] that stands for one of its hosts.
type HostName string

// keep returns the packed state, nil for an empty one, or raises an error.
func (b *Sandbox) keep(l *glua.LState) []byte {
	t, ok := b.s.root.GetGlobal(selfName).(*glua.LTable)
	if !ok {
		l.RaiseError("self must be a table")
	}
	key, _, looked, _ := following(t, glua.LNil)
	b.s.meter.spend(l, looked/4)
	if key == glua.LNil {
		return nil
	}
	packed, err := b.s.values.pack(l, []glua.LValue{t}, 1)
	if err != nil {
		l.RaiseError("self cannot be kept: %s", strings.TrimPrefix(err.Error(), "argument 1"))
	}
	return packed
}

// ParseState returns a state from [Sandbox.Call] as a Go value.
func ParseState(kept []byte) (*Table, error) {
	if kept == nil {
		return &Table{}, nil
	}
	values, err := unpackGo(kept)
	if err != nil {
		return nil, err
	}
	if t, ok := values[0].(*Table); ok && len(values) == 1 {
		return t, nil
	}
	return nil, errors.New("a state must be one table")
}

// give returns a value of Go as one of the script.
func (b *Sandbox) give(v any) (glua.LValue, error) {
	given, err := b.value(v, 0)
	b.s.meter.making = 0
	if err == nil {
		err = b.s.values.full()
	}
	return given, err
}

func (b *Sandbox) value(v any, depth int) (glua.LValue, error) {
	m := b.s.values
	switch v := v.(type) {
	case nil:
		return m.nothing(), nil
	case bool:
		return m.truth(v), nil
	case float64:
		return m.number(v), nil
	case int64:
		if v < -exact || v > exact {
			return m.integer(v), nil
		}
		return m.number(float64(v)), nil
	case string:
		return m.string(v), nil
	case HostName:
		return b.hosts[string(v)], nil
	case *Table:
		if depth < maxDepth {
			return b.table(v, depth)
		}
	}
	return nil, fmt.Errorf("a %T cannot be given to a script, or is too deep", v)
}

func (b *Sandbox) table(v *Table, depth int) (glua.LValue, error) {
	m := b.s.values
	t := m.table(len(v.List), len(v.Fields))
	for i, item := range v.List {
		x, err := b.value(item, depth+1)
		if err != nil {
			return nil, err
		}
		m.item(t, i+1, x)
	}
	for _, f := range v.Fields {
		key, err := b.key(f.Key, depth+1)
		if err != nil {
			return nil, err
		}
		x, err := b.value(f.Value, depth+1)
		if err != nil {
			return nil, err
		}
		if x != glua.LNil {
			m.field(t, key, x)
		}
	}
	return t, nil
}

func (b *Sandbox) key(v any, depth int) (glua.LValue, error) {
	if text, ok := v.(string); ok {
		return b.s.values.keyOf(text), nil
	}
	return b.value(v, depth)
}

// Steps of a call of a method and of a look at a field, beside what the values cost.
const (
	stepsPerMethod = 30
	stepsPerField  = 5
	stepsPerItem   = 3 // of a table from Go
)

// host makes the table of an object: an empty one whose metatable answers.
func (b *Sandbox) host(name string, h Host) *glua.LTable {
	s := b.s
	known := make(map[string]glua.LValue, len(h.Methods)+len(h.Fields))
	t := s.root.NewTable()
	for method, f := range h.Methods {
		known[method] = s.root.NewFunction(func(l *glua.LState) int { return b.method(l, t, name+":"+method, f) })
	}
	for field, inner := range h.Fields {
		known[field] = b.host(name+"."+field, inner)
	}
	meta := s.root.NewTable()
	meta.RawSetString("__index", s.root.NewFunction(func(l *glua.LState) int {
		s.meter.spend(l, stepsPerField)
		key, ok := l.Get(2).(glua.LString)
		if !ok {
			l.Push(glua.LNil)
			return 1
		}
		if v, ok := known[string(key)]; ok {
			l.Push(v)
			return 1
		}
		if h.Field == nil {
			l.Push(glua.LNil)
			return 1
		}
		found := h.Field(string(key))
		if w, ok := found.(Worked); ok {
			s.meter.spend(l, w.Steps)
			found = w.Value
		}
		s.meter.spend(l, stepsOf(found))
		v, err := b.give(found)
		if err != nil {
			l.RaiseError("%s.%s: %s", name, key, err)
		}
		l.Push(v)
		return 1
	}))
	meta.RawSetString("__newindex", s.root.NewFunction(func(l *glua.LState) int {
		l.RaiseError("%s cannot be changed by an assignment", name)
		return 0
	}))
	meta.RawSetString("__metatable", glua.LString(name))
	t.Metatable = meta
	return t
}

// method calls a method of Go.
func (b *Sandbox) method(l *glua.LState, object *glua.LTable, name string, f func([]any) (any, error)) int {
	s := b.s
	s.meter.spend(l, stepsPerMethod)
	if l.Get(1) != object {
		l.RaiseError("%s must be called with a colon", name)
	}
	args, err := unpackGo(s.packScratch(l, 2))
	if err != nil {
		l.RaiseError("%s: %s", name, err)
	}
	result, err := f(args)
	if err != nil {
		l.RaiseError("%s: %s", name, err)
	}
	s.meter.spend(l, stepsOf(result))
	v, err := b.give(result)
	if err != nil {
		l.RaiseError("%s: %s", name, err)
	}
	l.Push(v)
	return 1
}

// stepsOf returns the steps that it takes to make a value of Go, and to make one of the script of it.
func stepsOf(v any) int {
	switch v := v.(type) {
	case string:
		return len(v) / bytesPerStep
	case *Table:
		n := stepsPerItem * (len(v.List) + len(v.Fields))
		for _, item := range v.List {
			n += stepsOf(item)
		}
		for _, f := range v.Fields {
			n += stepsOf(f.Key) + stepsOf(f.Value)
		}
		return n
	default:
		return 0
	}
}

// print passes a line on.
func (b *Sandbox) print(l *glua.LState, to func(string)) int {
	b.s.meter.spend(l, stepsPerLine)
	var line strings.Builder
	for i := range l.GetTop() {
		if i > 0 {
			line.WriteByte('\t')
		}
		text := l.ToStringMeta(l.Get(i + 1)).String()
		b.s.meter.spend(l, len(text)/bytesPerStep)
		line.WriteString(text[:min(len(text), maxLogged)])
		if line.Len() > maxLogged {
			break
		}
	}
	text := line.String()
	to(strings.ToValidUTF8(text[:min(len(text), maxLogged)], ""))
	return 0
}
