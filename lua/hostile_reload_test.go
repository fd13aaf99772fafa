package lua_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/lua"
)

// What runs when a file is reloaded is as limited as what runs otherwise, and what it does not get through is taken back.
func TestHostileReloadsEndWithinTheirLimits(t *testing.T) {
	const begin = "local greenroom = require 'greenroom' local t = {f = function() return 1 end}\n"
	const end = "\ngreenroom.dispatch(function() greenroom.ret(t.f()) end)"
	for name, tt := range map[string]struct {
		source string
		says   string // empty if the reload succeeds
	}{
		"a loop":                           {"while true do end", "steps"},
		"a loop in on_reload":              {"function on_reload() while true do pcall(error) end end", "steps"},
		"a loop in an __index":             {"setmetatable(_G, {__index = function() while true do end end}) local x = nothing", "steps"},
		"tables, deep":                     {"local d = {} t.d = d for i = 1, 2e4 do d.d = {} d = d.d end", ""},
		"tables, deep, by code":            {"local d = {} t.d = d for i = 1, 1e4 do d.d = {f = function() end} d = d.d end", ""},
		"tables, in a circle":              {"t.t = t t[1] = {t, t, t, t, t, t, t, t} t.g = {[t] = t}", ""},
		"tables, many ways":                {"local d = {} t.d = d for i = 1, 30 do d.a = {} d.b = d.a d = d.a end d.f = t.f", ""},
		"many functions":                   {"for i = 1, 2e4 do t[i] = function() return i end end", ""},
		"keys, long":                       {"for i = 1, 20 do t[('x'):rep(1e5) .. i] = {f = t.f} end", ""},
		"an old place that is no function": {"t.f = nil", ""},
		"effects":                          {"greenroom.exit() greenroom.newservice('none.lua') greenroom.fork(error) greenroom.send('/none') greenroom.timeout(0, error) greenroom.kill('/x')", ""},
		"no memory":                        {"local l = {} for i = 1, 1e9 do l[i] = ('x'):rep(1e6) .. i end", "memory"},
	} {
		t.Run(name, func(t *testing.T) {
			playFiles(t, scripts{"a.lua": ""}, func(s files) {
				s.AllowFailures()
				s.path["a.lua"].Data = []byte(begin + tt.source + end)
				if tt.says != "" || name == "effects" {
					s.path["a.lua"].Data = []byte(begin + end)
				}
				ref := s.spawn("a.lua")
				s.path["a.lua"].Data = []byte(strings.Replace(begin+tt.source+end, "return 1", "return 2", 1))
				done, err := s.rt.Reload(s.Context(), lua.Reload{File: "a.lua"})
				if err != nil || len(done.Services) != 1 {
					t.Fatal(done, err)
				}
				want, err := any(2.0), done.Services[0].Err
				if tt.says != "" {
					want = 1.0
				}
				if fmt.Sprint(err) == "<nil>" != (tt.says == "") || err != nil && !strings.Contains(err.Error(), tt.says) {
					t.Errorf("%v, not %q", err, tt.says)
				}
				if tt.says == "steps" && !errors.Is(err, lua.ErrSteps) {
					t.Errorf("%v is not ErrSteps", err)
				}
				if name != "an old place that is no function" {
					s.expect(want, ref)
				}
			})
		})
	}
}

func TestARestartDoesNotWaitForOnRestart(t *testing.T) {
	for name, source := range map[string]string{
		"sleeps": `greenroom.sleep(1e9)`, "loops": `while true do end`, "waits": `greenroom.wait("x")`, "calls itself": `greenroom.call(greenroom.self())`,
		"returns too much": `local t = {} for i = 1, 1e6 do t[i] = i end return t`, "returns a function": `return function() end`,
	} {
		t.Run(name, func(t *testing.T) {
			playFiles(t, scripts{"a.lua": "function on_restart() " + source + " end greenroom.dispatch(function() greenroom.ret(7) end)"}, func(s files) {
				s.AllowFailures()
				ref := s.spawn("a.lua")
				if err := s.System().Restart(ref.PID()); err != nil {
					t.Fatal(err)
				}
				s.Settle()
				s.Advance(10 * time.Second)
				s.expect(7.0, ref)
			})
		})
	}
}

func TestHostileTypedMessages(t *testing.T) {
	playTyped(t, scripts{"main.lua": `greenroom.dispatch(function(what)
		local big = ("x"):rep(5e5)
		if what == "keys" then
			greenroom.ret(select(2, pcall(greenroom.send, "/cart", "cart.sum", {big = 0, by = {[big] = "x"}})))
		elseif what == "name" then
			greenroom.ret(select(2, pcall(greenroom.send, "/cart", big)))
		elseif what == "address" then
			greenroom.ret(select(2, pcall(greenroom.send, big .. ":" .. big, "cart.clear")))
		elseif what == "kind" then
			greenroom.ret(select(2, pcall(greenroom.send, "*/cart:x/y#0", "cart.clear")))
		elseif what == "loop" then
			while true do pcall(greenroom.send, "/cart", "cart.add", {big, big, big, big, big, big, big}) end
		elseif what == "error" then
			error(setmetatable({name = "cart.sold-out", message = big}, {__index = function() while true do end end, __tostring = function() while true do end end}))
		end
	end)`}, func(s stage) {
		s.AllowFailures()
		actor.Spawn(s.System(), "cart", func() *cart { return &cart{} })
		main := s.spawn("main.lua")
		for what, says := range map[string]string{
			"keys": "argument 3.by.xxx", "name": "no message has the name", "address": "an address has at most", "kind": "cart", "loop": "steps", "error": "xxx",
		} {
			got := fmt.Sprint(s.call(main, what))
			if !strings.Contains(got, says) || len(got) > 5000 {
				t.Errorf("%s: %d bytes, %.200s, not %q", what, len(got), got, says)
			}
		}
	})
}
