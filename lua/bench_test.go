package lua_test

import (
	"context"
	"math"
	"slices"
	"syscall"
	"testing"
	"time"

	glua "github.com/yuin/gopher-lua"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/actortest"
	"github.com/greenroom-go/greenroom/lua"
)

// loops are programs of about a thousand rounds.
var loops = []struct{ name, source string }{
	{"mixed", `local t, x = {}, 0 for i = 1, 1000 do x = x + i t[i % 10 + 1] = x if x > 500 then x = x - 500 end end`},
	{"arithmetic", `local x = 0 for i = 1, 1000 do x = x + i * 2 if x > 1000 then x = x - 1000 end end`},
	{"fields", `local p = {x = 1, y = 2} for i = 1, 1000 do p.x = p.x + p.y end`},
	{"calls", `local function f(a) return a end for i = 1, 1000 do f(i) end`},
	{"tables", `for i = 1, 1000 do local t = {id = i, name = "ann"} end`},
}

// BenchmarkLoop has the interpreter without limits as the control of what counting costs: both run in turns, in one run, and ratio is
// the middle one of the quotients of their processor times, which include those of the collector. instructions is the same quotient of
// the shortest of many short runs: there the collector has nothing to do, and what is left is the interpreter and the meter alone.
//
//	go test ./lua -run NONE -bench Loop -benchtime 1x
func BenchmarkLoop(b *testing.B) {
	const rounds, programs = 21, 100
	for _, c := range loops {
		b.Run(c.name, func(b *testing.B) {
			l := glua.NewState()
			defer l.Close()
			f, err := l.LoadString(c.source)
			if err != nil {
				b.Fatal(err)
			}
			sandbox, err := lua.NewSandbox("loop.lua", "function loop() "+c.source+" end", lua.SandboxConfig{})
			if err != nil {
				b.Fatal(err)
			}
			plain := func() { l.Push(f); l.Call(0, 0) }
			metered := func() {
				if _, err := sandbox.Call("loop", nil); err != nil {
					b.Fatal(err)
				}
			}
			var quotients []float64
			shortest := [2]time.Duration{math.MaxInt64, math.MaxInt64}
			for range b.N {
				for range rounds {
					var took [2]float64
					for i, run := range []func(){plain, metered} {
						began := processorTime(b)
						for range programs {
							at := time.Now()
							run()
							shortest[i] = min(shortest[i], time.Since(at))
						}
						took[i] = processorTime(b) - began
					}
					quotients = append(quotients, took[1]/took[0])
				}
			}
			slices.Sort(quotients)
			b.ReportMetric(quotients[len(quotients)/2], "ratio")
			b.ReportMetric(float64(shortest[1])/float64(shortest[0]), "instructions")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// processorTime returns that of the process, in microseconds.
func processorTime(b *testing.B) float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1000
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
