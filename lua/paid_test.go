package lua_test

import (
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/actortest"
	"github.com/greenroom-go/greenroom/lua"
)

// TestWhatFunctionsOfGoDoIsPaidFor counts how often a handler comes to do something until its steps are used up.
func TestWhatFunctionsOfGoDoIsPaidFor(t *testing.T) {
	const megabyte, steps = `local s = ("x"):rep(1e6) `, 500_000
	const deleted = `local t = {} for i = 1, 5000 do t["k" .. i] = 1 end for i = 1, 5000 do t["k" .. i] = nil end `
	const holes = `local t = {greenroom.self()} t[60000] = 1 t[60000] = nil `
	for name, c := range map[string]struct {
		before, what string
		least        int // steps that it costs
	}{
		"pack, deleted keys":     {deleted, `greenroom.pack(t)`, 2500},
		"pack, holes":            {holes, `greenroom.pack(t)`, 30_000},
		"pack, refused":          {megabyte, `pcall(greenroom.pack, s, pcall)`, 15_000},
		"pack, small values":     {`local t = {} for i = 1, 5000 do t[i] = true end `, `pcall(greenroom.pack, t, pcall)`, 5000},
		"request, holes":         {holes, `greenroom.request(t):select()`, 7500},
		"send, a long name":      {megabyte, `pcall(greenroom.send, s)`, 15_000},
		"require, a long name":   {megabyte, `pcall(require, s)`, 15_000},
		"math, a text":           {megabyte, `pcall(math.abs, s)`, 15_000},
		"math, many":             {`local t = {} for i = 1, 1600 do t[i] = i end `, `math.max(unpack(t))`, 200},
		"sleep, a text":          {megabyte, `pcall(greenroom.sleep, s)`, 15_000},
		"format, a text":         {megabyte, `pcall(string.format, "%d", s)`, 15_000},
		"select, a text":         {megabyte, `pcall(select, s)`, 15_000},
		"concat, refused":        {megabyte, `pcall(table.concat, {s, s})`, 15_000},
		"next, a long key":       {megabyte + `local t = {[s] = 1} `, `next(t, s)`, 15_000},
		"next, deleted long":     {megabyte + `local t = {[s] = 1} t[s] = nil `, `next(t)`, 15_000},
		"unpack":                 {`local t = {} `, `unpack(t, 1, 1600)`, 100},
		"byte":                   {megabyte, `s:byte(1, 1600)`, 100},
		"many arguments":         {`local function f() end local function g(...) return f(...) end local t = {} `, `g(unpack(t, 1, 1600))`, 200},
		"sort, what is in order": {`local t = {} for i = 1, 1600 do t[i] = i end `, `table.sort(t)`, 1600},
	} {
		t.Run(name, func(t *testing.T) {
			sys := actortest.NewSystem(t, actor.WithAskTimeout(time.Minute))
			rt, err := lua.Open(sys, lua.Config{Steps: steps, Path: folder(scripts{"a.lua": `
				local n = 0
				greenroom.dispatch(function(cmd)
					if cmd ~= "run" then return greenroom.ret(n) end
					` + c.before + `n = 0
					while true do n = n + 1 ` + c.what + ` end
				end)`})})
			if err != nil {
				t.Fatal(err)
			}
			ref, err := rt.Spawn(sys, "a", "a.lua")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := lua.Call(t.Context(), ref, "run"); err == nil {
				t.Fatal("an endless loop ends")
			}
			n, ok := only(lua.Call(t.Context(), ref, "count")).(float64)
			if !ok || n < 1 || int(n-1)*c.least > steps {
				t.Errorf("it is done %v times with %d steps, and costs %d", n, steps, c.least)
			}
		})
	}
}
