package lua_test

import (
	"context"
	"testing"

	glua "github.com/yuin/gopher-lua"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/actortest"
	"github.com/greenroom-go/greenroom/lua"
)

const loop = `local t, x = {}, 0 for i = 1, 1000 do x = x + i t[i % 10 + 1] = x if x > 500 then x = x - 500 end end`

// BenchmarkLoop has the interpreter without limits as the control of what counting costs.
func BenchmarkLoop(b *testing.B) {
	b.Run("plain", func(b *testing.B) {
		l := glua.NewState()
		defer l.Close()
		f, err := l.LoadString(loop)
		if err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			l.Push(f)
			l.Call(0, 0)
		}
	})
	b.Run("metered", func(b *testing.B) {
		bench := service(b, "greenroom.dispatch(function() "+loop+" greenroom.ret() end)")
		for b.Loop() {
			bench.call(b)
		}
	})
}

// BenchmarkMessages has what goes between services, and between Go and them.
func BenchmarkMessages(b *testing.B) {
	const echo = `
		local other
		greenroom.start(function() other = greenroom.newservice("echo.lua") end)
		greenroom.dispatch(function(cmd)
			for i = 1, 1000 do
				if cmd == "call" then
					greenroom.call(other, i)
				elseif cmd == "send" then
					greenroom.send(other, i)
				else
					greenroom.send(other, {id = i, name = "ann", at = {x = i, y = 2}})
				end
			end
			greenroom.call(other, 0)
			greenroom.ret()
		end)`
	for _, cmd := range []string{"call", "send", "send table"} {
		b.Run("thousand lua "+cmd+" lua", func(b *testing.B) {
			bench := service(b, echo)
			for b.Loop() {
				bench.call(b, cmd)
			}
		})
	}
	b.Run("go asks lua", func(b *testing.B) {
		bench := service(b, "greenroom.dispatch(function(n) greenroom.ret(n) end)")
		for b.Loop() {
			bench.call(b, 1)
		}
	})
	b.Run("spawn", func(b *testing.B) {
		bench := service(b, "")
		for b.Loop() {
			ref, err := bench.rt.Spawn(bench.sys, "", "echo.lua")
			if err != nil {
				b.Fatal(err)
			}
			ref.Kill()
		}
	})
}

type benched struct {
	sys *actor.System
	rt  *lua.Runtime
	ref actor.Ref[lua.Message]
}

func service(b *testing.B, source string) benched {
	b.Helper()
	sys := actortest.NewSystem(b, actor.WithWarnings(false))
	rt, err := lua.Open(sys, lua.Config{Services: 1 << 20, Path: folder(scripts{
		"a.lua": source, "echo.lua": "greenroom.dispatch(function(n) greenroom.ret(n) end)",
	})})
	if err != nil {
		b.Fatal(err)
	}
	ref, err := rt.Spawn(sys, "a", "a.lua")
	if err != nil {
		b.Fatal(err)
	}
	return benched{sys, rt, ref}
}

func (s benched) call(b *testing.B, args ...any) {
	b.Helper()
	if _, err := lua.Call(context.Background(), s.ref, args...); err != nil {
		b.Fatal(err)
	}
}
