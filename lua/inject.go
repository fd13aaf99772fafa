package lua

import (
	"context"
	"errors"
	"fmt"

	glua "github.com/yuin/gopher-lua"

	"github.com/greenroom-go/greenroom/actor"
)

// injectName is the file that errors of injected code name.
const injectName = "inject"

// maxVisited is how many values are looked at to find a variable.
const maxVisited = 100_000

// injected is code for a service's turn.
type injected struct {
	actor.Returns[answer]
	chunk *glua.FunctionProto
}

func (*injected) message() {}

// Inject runs code in a service, to inspect and repair it, and returns what the code returns, as
// [Call] does. The code is a chunk of Lua of at most 256 KiB. It runs as a handler does: in the
// service's turn, with its globals and limits, and it may wait. _P has the local variables that the
// service's functions use: _P.accounts reads one, _P.accounts = {} sets it, and _P() lists their
// names. If several have the same name, it is the one that is fewest functions and tables away from
// the function passed to dispatch. Inject fails with an [*Error] if the code cannot be compiled or
// fails, and as [actor.Ask] does.
func (rt *Runtime) Inject(ctx context.Context, to actor.Ref[Message], code string) ([]any, error) {
	if len(code) > maxSource {
		return nil, fmt.Errorf("inject: the code must have at most %d bytes, not %d", maxSource, len(code))
	}
	chunk, err := compileSource(injectName, code)
	if err != nil {
		return nil, err
	}
	a, err := actor.Ask(ctx, to, &injected{chunk: chunk})
	if err != nil {
		return nil, scriptError(err)
	}
	return unpackGo(a.body)
}

// inject runs code, and answers with what it returns.
func (s *service) inject(ctx *actor.Context[Message], m *injected) error {
	code := s.root.NewFunctionFromProto(m.chunk)
	code.Env = s.injectedGlobals()
	var body []byte
	err := s.run(&task{what: injectedCode}, s.root.NewFunction(func(l *glua.LState) int {
		l.Push(code)
		l.Call(0, glua.MultRet)
		body = s.packArguments(l, 1)
		return 0
	}))
	switch {
	case errors.Is(err, ErrMemory):
		return err
	case err != nil:
		return actor.Refuse(ctx, err)
	}
	actor.Reply(ctx, m, answer{body})
	return nil
}

// injectedGlobals are those of the service, and _P.
func (s *service) injectedGlobals() *glua.LTable {
	globals := s.root.G.Global
	env := s.root.CreateTable(0, 1)
	env.RawSetString("_P", s.variables())
	behind := s.root.CreateTable(0, 2)
	behind.RawSetString("__index", globals)
	behind.RawSetString("__newindex", globals)
	env.Metatable = behind
	return env
}

// variables is _P.
func (s *service) variables() *glua.LTable {
	t := s.root.CreateTable(0, 0)
	t.Metatable = s.table(map[string]glua.LGFunction{
		"__index": func(l *glua.LState) int {
			l.Push(s.variable(l).Value())
			return 1
		},
		"__newindex": func(l *glua.LState) int {
			s.variable(l).SetValue(l.CheckAny(3))
			return 0
		},
		"__call": func(l *glua.LState) int {
			seen, list := map[string]bool{}, s.root.CreateTable(0, 0)
			s.eachVariable(l, func(name string, _ *glua.Upvalue) bool {
				if !seen[name] {
					seen[name] = true
					list.Append(glua.LString(name))
				}
				return true
			})
			l.Push(list)
			return 1
		},
	})
	return t
}

// variable returns the one with the name that is the second argument.
func (s *service) variable(l *glua.LState) *glua.Upvalue {
	name := l.CheckString(2)
	var found *glua.Upvalue
	s.eachVariable(l, func(other string, u *glua.Upvalue) bool {
		if other == name {
			found = u
		}
		return found == nil
	})
	if found == nil {
		l.RaiseError("no function of the service uses a local variable %q; _P() lists them", name)
	}
	return found
}

// eachVariable calls f with the local variables that functions use, the nearest to the handler
// first, until f returns false.
func (s *service) eachVariable(l *glua.LState, f func(name string, u *glua.Upvalue) bool) {
	seen := map[glua.LValue]bool{}
	var next []glua.LValue
	add := func(v glua.LValue) {
		switch v.(type) {
		case *glua.LFunction, *glua.LTable:
			if !seen[v] && len(seen) < maxVisited {
				seen[v] = true
				next = append(next, v)
			}
		}
	}
	if s.handler != nil {
		add(s.handler)
	}
	add(s.root.G.Global)
	for ; len(next) > 0; next = next[1:] {
		switch v := next[0].(type) {
		case *glua.LFunction:
			s.meter.spend(l, 1+len(v.Upvalues))
			for i, u := range v.Upvalues {
				if u == nil || v.IsG {
					continue
				}
				if !f(v.Proto.DbgUpvalues[i], u) {
					return
				}
				add(u.Value())
			}
		case *glua.LTable:
			fields := tableOf(v)
			s.meter.spend(l, 1+len(fields.array)+len(fields.keys))
			for _, item := range fields.array {
				add(item)
			}
			for _, key := range fields.keys {
				add(v.RawGetH(key))
			}
		}
	}
}
