package lua_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/greenroom-go/greenroom/console"
	"github.com/greenroom-go/greenroom/lua"
)

const till = `
	local accounts, limit = {ann = 5}, 10
	local CMD = {}
	function CMD.add(n) assert(accounts.ann + n <= limit, "too much") accounts.ann = accounts.ann + n return accounts.ann end
	total = 7
	greenroom.register ".till"
	greenroom.dispatch(function(cmd, ...) greenroom.ret(CMD[cmd](...)) end)`

func TestInjectedCodeLooksIntoAServiceAndMendsIt(t *testing.T) {
	play(t, scripts{"till.lua": till}, func(s stage) {
		ref := s.spawn("till.lua")
		inject := func(code string) any { return only(s.rt.Inject(s.Context(), ref, code)) }
		for _, tt := range []struct {
			code string
			want any
		}{
			{`return _P.accounts.ann`, 5.0},
			{`return total`, 7.0},
			{`return _P.CMD.add(1)`, 6.0},
			{`_P.limit = 100; total = total + 1; return total`, 8.0},
			{`local g = require "greenroom"; g.sleep(100); return g.self() == g.query ".till"`, true},
			{`return 1, "two"`, []any{1.0, "two"}},
		} {
			if got := inject(tt.code); !slices.Equal(asList(got), asList(tt.want)) {
				t.Errorf("%s returns %v, not %v", tt.code, got, tt.want)
			}
		}
		s.expect(50.0, ref, "add", 44)
		if names, _ := inject(`return _P()`).(*lua.Table); names == nil || !slices.Contains(names.List, any("accounts")) || !slices.Contains(names.List, any("limit")) {
			t.Errorf("_P() returns %v", plain(names))
		}
		if got := inject(`return _P ~= nil, rawget(_G, "_P")`); got != true && !slices.Equal(asList(got), []any{true, nil}) {
			t.Errorf("_P stays in the globals of the service: %v", got)
		}
	})
}

func asList(v any) []any {
	if list, ok := v.([]any); ok {
		return list
	}
	return []any{v}
}

func TestInjectedCodeThatFailsHarmsNobody(t *testing.T) {
	play(t, scripts{"till.lua": till}, func(s stage) {
		ref := s.spawn("till.lua")
		for code, says := range map[string]string{
			"local x = 1\nerror('no')":         "inject:2: no",
			"return return":                    "inject line:1",
			"return _P.nothing":                `no function of the service uses a local variable "nothing"`,
			"_P.nothing = 1":                   `a local variable "nothing"`,
			"return function() end":            "function",
			"\nwhile true do end":              "inject:2: out of steps",
			strings.Repeat(" ", 256<<10) + " ": "at most 262144 bytes",
		} {
			_, err := s.rt.Inject(s.Context(), ref, code)
			if err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("%.50s: %v, not %q", code, err, says)
			}
			if strings.Contains(code, "while") && !errors.Is(err, lua.ErrSteps) {
				t.Errorf("%.50s: %v is not ErrSteps", code, err)
			}
		}
		s.expect(6.0, ref, "add", 1)
	})
}

func TestTheConsoleHasCommandsForServices(t *testing.T) {
	play(t, scripts{"till.lua": till}, func(s stage) {
		ref := s.spawn("till.lua")
		c := console.New(s.System(), console.Config{})
		c.Add(s.rt.Commands(c)...)
		for line, says := range map[string]string{
			"service":                                ref.String() + "  till.lua  " + s.rt.Versions("till.lua")[0].Hash + "  .till",
			`inject .till "return _P.accounts"`:      `"ann": 5`,
			`inject /till.lua "return 2^40" -o json`: "[1099511627776]",
			"info /till.lua":                         `"bytes_limit": 33554432`,
			`complete "inject ."`:                    "inject .till",
			`complete "inject /t"`:                   "inject /till.lua",
		} {
			if out, err := c.Run(s.Context(), line); err != nil || !strings.Contains(out, says) {
				t.Errorf("%s: %q, %v, not %q", line, out, err, says)
			}
		}
		for line, says := range map[string]string{
			`inject .nobody "return 1"`:     `no service has the name ".nobody"`,
			`inject .till "error('no', 0)"`: "stack traceback",
			`inject /nobody "return 1"`:     "no actor has the path",
		} {
			if out, err := c.Run(s.Context(), line); err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("%s: %q, %v, not %q", line, out, err, says)
			}
		}
	})
}
