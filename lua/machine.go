package lua

import (
	"hash/fnv"
	"math/rand/v2"
	"strings"

	glua "github.com/yuin/gopher-lua"

	"github.com/greenroom-go/greenroom/actor"
)

// The stacks of a thread. The values grow up to the most that the interpreter may have. At callDepth functions a call
// is an error of Lua. The interpreter has room for more: where its own room ends, it panics, and after that a pcall
// finds its stack in disorder.
const (
	callDepth    = 200
	frameRoom    = callDepth + 24 // for functions of Go that call each other without an instruction between them
	firstValues  = 128
	mostValues   = 32 << 10
	growValuesBy = 1024
)

// unsafeNames are the functions of the base library that reach out of the sandbox, or that show what a
// script must not see.
var unsafeNames = []string{
	"collectgarbage", "dofile", "getfenv", "load", "loadfile", "loadstring", "module", "newproxy",
	"print", "require", "setfenv", "_printregs", "_GOPHER_LUA_VERSION",
}

// open makes the state of the service.
func (s *service) open() {
	s.openLanguage()
	s.answers = &account{}
	s.pending = map[*job]struct{}{}
	s.versions = map[string]*version{}
	s.accounts = map[actor.Ref[Message]]*account{}
	s.targets, s.reached = map[string]actor.Ref[Message]{}, map[string][]reached{}
	s.waiters, s.sharing = map[glua.LValue]*pause{}, map[string]shared{}
	s.modules = map[string]glua.LValue{"greenroom": s.table(s.functions())}
	s.openRequests()
	s.openErrors()
	seed := fnv.New64a()
	_, _ = seed.Write([]byte(s.ctx.Self().PID().String()))
	s.openRandom(seed.Sum64())
}

// openLanguage makes a state with the language and its libraries, of which nothing needs the actor.
func (s *service) openLanguage() {
	s.root = glua.NewState(glua.Options{
		SkipOpenLibs: true, MinimizeStackMemory: true, CallStackSize: frameRoom,
		RegistrySize: firstValues, RegistryMaxSize: mostValues, RegistryGrowStep: growValuesBy,
	})
	for _, library := range []glua.LGFunction{glua.OpenBase, glua.OpenMath} {
		s.root.Push(s.root.NewFunction(library))
		s.root.Call(0, 0)
	}
	s.root.G.MainThread = s.root
	for _, name := range unsafeNames {
		s.root.SetGlobal(name, glua.LNil)
	}
	s.meter = newMeter(s.rt.cfg, &s.account.interrupt, s.roots)
	s.values = newScriptMaker(s.root, s.int64s(), s.meter)
	s.closer = s.root.NewFunction(closeAndHandle)
	s.root.SetFuncs(s.root.G.Global, s.base())
	s.openPairs()
	s.openDivision()
	s.openStrings()
	s.root.SetGlobal("table", s.table(s.tables()))
	s.busy = map[*glua.LState]*task{}
	s.root.SetGlobal("coroutine", s.table(s.coroutines()))
}

// table returns a table of functions.
func (s *service) table(functions map[string]glua.LGFunction) *glua.LTable {
	t := s.root.CreateTable(0, len(functions))
	s.root.SetFuncs(t, functions)
	return t
}

// openPairs sets pairs, whose iterator is the one value of next.
func (s *service) openPairs() {
	next := s.root.GetGlobal("next")
	s.root.SetGlobal("pairs", s.root.NewFunction(func(l *glua.LState) int {
		t := l.CheckTable(1)
		l.Push(next)
		l.Push(t)
		l.Push(glua.LNil)
		return 3
	}))
}

// openDivision has the functions for the rest of a division pay for its bits.
func (s *service) openDivision() {
	library := s.root.GetGlobal("math").(*glua.LTable)
	for _, name := range []string{"fmod", "mod"} {
		stock, ok := library.RawGetString(name).(*glua.LFunction)
		if !ok {
			continue
		}
		library.RawSetString(name, s.root.NewFunction(func(l *glua.LState) int {
			s.meter.spend(l, int(dividing(float64(l.CheckNumber(1)), float64(l.CheckNumber(2)))))
			return stock.GFunction(l)
		}))
	}
}

// openStrings sets the library of strings, which is also what strings have as methods.
func (s *service) openStrings() {
	library := s.table(s.strings())
	s.meter.texts = map[*glua.LFunction]struct{}{}
	library.ForEach(func(_, v glua.LValue) { s.meter.texts[v.(*glua.LFunction)] = struct{}{} })
	library.RawSetString("__index", library)
	s.root.SetMetatable(glua.LString(""), library)
	s.root.SetGlobal("string", library)
	s.texts = library
}

// openRandom gives math.random a source of the service's own: that of the process would be another in
// each run. The seed of a service is made of its address, which is drawn by the system.
func (s *service) openRandom(seed uint64) {
	source := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // of a game, not of a key
	library := s.root.GetGlobal("math").(*glua.LTable)
	library.RawSetString("randomseed", s.root.NewFunction(func(l *glua.LState) int {
		*source = *rand.New(rand.NewPCG(uint64(l.CheckInt64(1)), 0)) //nolint:gosec // as above
		return 0
	}))
	library.RawSetString("random", s.root.NewFunction(func(l *glua.LState) int {
		l.Push(randomNumber(l, source))
		return 1
	}))
}

// randomNumber returns what math.random does: without arguments a number below 1, else an integer from
// the first to the second, or from 1 to the only one.
func randomNumber(l *glua.LState, source *rand.Rand) glua.LNumber {
	low, high := int64(1), int64(0)
	switch l.GetTop() {
	case 0:
		return glua.LNumber(source.Float64())
	case 1:
		high = l.CheckInt64(1)
	default:
		low, high = l.CheckInt64(1), l.CheckInt64(2)
	}
	if low > high || low < -exact || high > exact {
		l.ArgError(l.GetTop(), "interval is empty")
	}
	return glua.LNumber(low + source.Int64N(high-low+1))
}

// require runs a file of the path once, and returns what it has returned.
func (s *service) require(l *glua.LState) int {
	name := l.CheckString(1)
	if isSkynet(name) && s.modules[name] == nil {
		s.meter.spend(l, stepsPerThread)
		s.openSkynet()
	}
	if v, ok := s.modules[name]; ok {
		l.Push(v)
		return 1
	}
	t := s.task
	if t.loading[name] {
		l.RaiseError("module %s requires itself", name)
	}
	if len(name) > maxFileName {
		l.ArgError(1, "the name of a module is too long")
	}
	chunk, err := s.chunk(strings.ReplaceAll(name, ".", "/") + ".lua")
	if err != nil {
		l.RaiseError("%s", err)
	}
	if t.loading == nil {
		t.loading = map[string]bool{}
	}
	t.loading[name] = true
	defer delete(t.loading, name) // also when the module fails
	l.Push(s.root.NewFunctionFromProto(chunk))
	l.Push(glua.LString(name))
	l.Call(1, 1)
	if first, ok := s.modules[name]; ok { // another handler has loaded it while the file has waited
		l.Push(first)
		return 1
	}
	v := l.Get(-1)
	if v == glua.LNil {
		v = glua.LTrue
	}
	s.modules[name] = v
	l.Push(v)
	return 1
}

// chunk returns the code of a file, and notes that the service has that.
func (s *service) chunk(file string) (*glua.FunctionProto, error) {
	v, err := s.rt.version(file)
	if err != nil {
		return nil, err
	}
	s.versions[file] = v
	s.rt.noteVersion(s.account, v)
	return v.chunk, nil
}

// typeName returns what type returns.
func typeName(v glua.LValue) string {
	if v == nil {
		return glua.LTNil.String()
	}
	if u, ok := v.(*glua.LUserData); ok {
		switch u.Value.(type) {
		case *coroutine, *handle:
			return glua.LTThread.String()
		}
	}
	return v.Type().String()
}

func typeOf(l *glua.LState) int {
	l.Push(glua.LString(typeName(l.CheckAny(1))))
	return 1
}

// assert raises its second argument as it is: the interpreter's own takes texts only.
func assert(l *glua.LState) int {
	if glua.LVAsBool(l.CheckAny(1)) {
		return l.GetTop()
	}
	if l.GetTop() == 1 {
		l.Push(glua.LString("assertion failed!"))
	}
	l.Error(l.Get(2), 0)
	return 0
}
