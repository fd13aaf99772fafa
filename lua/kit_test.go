package lua_test

import (
	"context"
	"fmt"
	"reflect"
	"testing"
	"testing/fstest"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/actortest"
	"github.com/greenroom-go/greenroom/lua"
)

// scripts are files by their names.
type scripts map[string]string

// stage is a runtime with files, in virtual time.
type stage struct {
	*actortest.Kit
	rt *lua.Runtime
}

// play runs f with a runtime that has these files. Each begins as if it had required greenroom.
func play(t *testing.T, files scripts, f func(s stage)) {
	t.Helper()
	actortest.Run(t, func(k *actortest.Kit) {
		f(stage{k, open(k.T(), k.System(), files)})
	})
}

func open(t testing.TB, sys *actor.System, files scripts) *lua.Runtime {
	t.Helper()
	rt, err := lua.Open(sys, lua.Config{Path: folder(files)})
	if err != nil {
		t.Fatal(err)
	}
	return rt
}

func folder(files scripts) fstest.MapFS {
	path := fstest.MapFS{}
	for name, source := range files {
		path[name] = &fstest.MapFile{Data: []byte("local greenroom = require 'greenroom'; " + source)}
	}
	return path
}

// spawn starts the service of a file, with the file's name.
func (s stage) spawn(file string, args ...any) actor.Ref[lua.Message] {
	s.T().Helper()
	ref, err := s.rt.Spawn(s.System(), file, file, args...)
	if err != nil {
		s.T().Fatal(err)
	}
	return ref
}

// call returns what a service answers, or the error as a text.
func (s stage) call(to actor.Ref[lua.Message], args ...any) any {
	s.T().Helper()
	return only(lua.Call(s.Context(), to, args...))
}

// expect fails the test if the answer to a call is another one.
func (s stage) expect(want any, to actor.Ref[lua.Message], args ...any) {
	s.T().Helper()
	if got := s.call(to, args...); !reflect.DeepEqual(got, want) {
		s.T().Fatalf("%v answers %#v, not %#v", args, got, want)
	}
}

// only returns the value if there is one, all if there are several, and an error as a text.
func only(values []any, err error) any {
	switch {
	case err != nil:
		return "error: " + err.Error()
	case len(values) == 1:
		return values[0]
	}
	return values
}

// eval runs a chunk as the start of a service, and returns what it returns.
func (s stage) eval(chunk string) any {
	s.T().Helper()
	rt := open(s.T(), s.System(), scripts{"eval.lua": fmt.Sprintf(`
		local function chunk() %s
		end
		greenroom.dispatch(function() greenroom.ret(chunk()) end)`, chunk)})
	ref, err := rt.Spawn(s.System(), "", "eval.lua")
	if err != nil {
		return "error: " + err.Error()
	}
	defer ref.Stop()
	return only(lua.Call(context.Background(), ref))
}

// plain returns values as maps and lists, to be printed.
func plain(v any) any {
	switch v := v.(type) {
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = plain(v[i])
		}
		return out
	case *lua.Table:
		fields := map[any]any{}
		for i, item := range v.List {
			fields[i+1] = plain(item)
		}
		for _, f := range v.Fields {
			fields[f.Key] = plain(f.Value)
		}
		return fields
	}
	return v
}
