package lua_test

import (
	"strings"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/lua"
)

const debugged = `
local sum, seen = 0, {names = {"x"}}
local function add(n)
	local double = n * 2
	sum = sum + double
	return sum
end
greenroom.dispatch(function(cmd, n)
	if cmd == "sum" then return greenroom.ret(sum) end
	for i = 1, 2 do
		add(n)
	end
	greenroom.ret(sum, seen.names[1])
end)`

func TestADebuggerStopsAHandlerAndNobodyElse(t *testing.T) {
	playFiles(t, scripts{"a.lua": debugged}, func(s files) {
		a, b := s.spawn("a.lua"), s.start("a.lua")
		c := s.console()
		run := func(line string, wants ...string) {
			t.Helper()
			out, err := c.Run(s.Context(), line)
			if err != nil {
				out = "error: " + err.Error()
			}
			for _, want := range wants {
				if !strings.Contains(out, want) {
					t.Errorf("%s:\n%s\nhas no\n%s", line, out, want)
				}
			}
		}
		run("debug /a.lua", "breakpoints: \nno handler is stopped\n")
		run("debug /a.lua step", "no handler is stopped")
		run("debug /a.lua break a.lua:5", "breakpoints: a.lua:5\n", "no handler is stopped")
		answer := make(chan any, 1)
		go func() { answer <- s.call(a, "add", 3) }()
		s.Settle()
		run("debug /a.lua", "a message of Go is stopped at a.lua:5\n  a.lua:5: in add\n  a.lua:11: in <a.lua:8>\n",
			"  local n = 3\n  local double = 6\n  upvalue sum = 0\n")
		run("task /a.lua", "waits for debugger a.lua:5 since")

		s.expect(0.0, a, "sum") // the service goes on, and so do others
		s.expect([]any{8.0, "x"}, b, "add", 2)

		run("debug /a.lua step", "is stopped at a.lua:6\n", "local double = 6\n  upvalue sum = 6\n")
		run("debug /a.lua step", "is stopped at a.lua:10\n", "local cmd = \"add\"")
		run("debug /a.lua next", "is stopped at a.lua:11\n", "local i = 2")
		run("debug /a.lua next", "is stopped at a.lua:5\n") // a breakpoint in what it calls
		run("debug /a.lua clear a.lua:5", "breakpoints: \n", "is stopped at a.lua:5\n")
		run("debug /a.lua break a.lua:13", "breakpoints: a.lua:13\n")
		run("debug /a.lua continue", "is stopped at a.lua:13\n", "upvalue sum = 12\n", `upvalue seen = {names = {[1] = "x"}}`)
		run("debug /a.lua off", "breakpoints: \nno handler is stopped\n")
		if got := (<-answer).([]any); got[0] != 12.0 {
			t.Errorf("it answers %v", got)
		}
		s.expect([]any{24.0, "x"}, a, "add", 3)

		run("debug /a.lua break a.lua:0", "error: debug: break needs a line, as bank.lua:12, not \"a.lua:0\"")
		run("debug /a.lua jump", "error: debug: the order must be break, clear, step, next, continue or off, not \"jump\"")
		run("debug /a.lua step 2", "takes no argument")
	})
}

func TestAHandlerThatIsStoppedGoesOnByItself(t *testing.T) {
	playFiles(t, scripts{"a.lua": debugged, "main.lua": `greenroom.dispatch(function() greenroom.ret(greenroom.calltimeout(1e6, "/a.lua", "add", 1)) end)`}, func(s files) {
		a := s.spawn("a.lua")
		order := func(text string) lua.Debugged {
			d, err := s.rt.Debug(s.Context(), a, text)
			if err != nil {
				t.Error(err)
			}
			return d
		}
		order("break a.lua:13")
		for range 20 { // four pass by
			if err := lua.Send(s.Context(), a, "add", 1); err != nil {
				t.Fatal(err)
			}
		}
		s.Settle()
		if d := order(""); len(d.Stopped) != 16 {
			t.Errorf("%d handlers are stopped", len(d.Stopped))
		}
		s.Advance(11 * time.Minute)
		s.Settle()
		if d := order(""); len(d.Stopped) != 0 {
			t.Errorf("%d handlers are stopped", len(d.Stopped))
		}
		go func() { _ = s.call(a, "add", 1) }()
		s.Settle()
		if d := order(""); len(d.Stopped) != 1 {
			t.Errorf("%d handlers are stopped", len(d.Stopped))
		}
		_ = s.System().Restart(a.PID()) // what follows shows it
		s.Settle()
		s.expect(0.0, a, "sum")
		s.expect([]any{4.0, "x"}, a, "add", 1)
	})
}
