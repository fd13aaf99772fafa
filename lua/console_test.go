package lua_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/actortest"
	"github.com/greenroom-go/greenroom/console"
	"github.com/greenroom-go/greenroom/lua"
)

func (s files) console() *console.Console {
	c := console.New(s.System(), console.Config{})
	c.Add(s.rt.Commands(c)...)
	return c
}

func TestTheConsoleReloadsServices(t *testing.T) {
	playFiles(t, scripts{"till.lua": till, "echo.lua": `local a = ... greenroom.dispatch(function(...) greenroom.ret(a, ...) end)`}, func(s files) {
		s.spawn("till.lua")
		c := s.console()
		run := func(line, want string) string {
			t.Helper()
			out, err := c.Run(s.Context(), line)
			if err != nil {
				out = "error: " + err.Error()
			}
			if !regexp.MustCompile("^(?s:" + want + ")$").MatchString(out) {
				t.Errorf("%s:\n%s\nis not\n%s", line, out, want)
			}
			return out
		}
		run("versions till.lua", `FILE.*\ntill.lua +[0-9a-f]{12} .* 1\n`)
		run("names", `NAME +ADDRESS\n\.till +test.*/till.lua#\w+\n`)
		s.write("till.lua", strings.ReplaceAll(till, "return accounts.ann", "return -accounts.ann"))
		run("reload till.lua --dry", `till.lua is the version [0-9a-f]{12}\n.*had the version.*new code: CMD.add dispatch\n  kept values: CMD accounts greenroom limit\n`)
		run("call .till add 1", `\[\n  6\n\]\n`)
		run("reload till.lua", `till.lua is the version .*`)
		run("call .till add 1", `\[\n  -7\n\]\n`)
		first := s.rt.Versions("till.lua")[1].Hash
		run("reload till.lua --to "+first+" -o json", `{"version":{"file":"till.lua","hash":"`+first+`".*"kept.*|.*"mended":\["CMD.add","dispatch"\].*`)
		run("call .till add 1", `\[\n  8\n\]\n`)
		s.write("till.lua", "error('never')")
		run("reload till.lua", `till.lua is the version `+first+`\n.*keeps its old code: till.lua:1: never\n`)
		s.write("till.lua", "x x")
		run("reload till.lua", `error: till.lua line:1.*`)
		run("reload till.lua --now", `error: usage: reload FILE.*`)
		run("reload none.lua", `error: script "none.lua".*`)

		address := strings.TrimSpace(run("start echo.lua 7", `test~.*\n`))
		run(`call `+address+` 9007199254740993 "a b" {"x":[1]} true -o json`, `\[7,9007199254740993,"a b",{"x":\[1\]},true\]\n`)
		run("send "+address+" x", ``)
		run("exit "+address, ``)
		s.Settle()
		run("call "+address, `error: look up.*no actor lives there.*`)
		run("signal .till 1", `error: the signal must be 0, not "1"`)
		run("call .nobody", `error: no service has the name ".nobody"; names lists them`)
		run(`complete "reload t"`, `reload till.lua\n`)
		run("signal .till 0", ``) // runs no handler: nothing happens
		run("call .till add 1", `\[\n  9\n\]\n`)
	})
}

func TestTheConsoleShowsWhatHandlersWaitFor(t *testing.T) {
	playFiles(t, scripts{
		"main.lua": `
			local other, CMD = nil, {}
			function CMD.call() greenroom.call(other, "x") end
			function CMD.nap(n)
				coroutine.wrap(function()
					greenroom.sleep(n)
				end)()
			end
			greenroom.start(function() other = greenroom.newservice "other.lua" end)
			greenroom.dispatch(function(cmd, ...) CMD[cmd](...) greenroom.ret() end)`,
		"other.lua": `greenroom.dispatch(function() greenroom.sleep(1000) greenroom.ret() end)`,
	}, func(s files) {
		main := s.spawn("main.lua")
		c := s.console()
		if out, err := c.Run(s.Context(), "task /main.lua"); out != "no handler waits\n" || err != nil {
			t.Errorf("%q, %v", out, err)
		}
		for _, args := range [][]any{{"call"}, {"nap", 100}, {"nap", 100}} {
			go func() { _ = s.call(main, args...) }()
			s.Settle()
			s.Advance(10 * time.Millisecond)
		}
		out, err := c.Run(s.Context(), "task /main.lua")
		for _, want := range []string{
			"a message of Go, waits for call test~", " since 30 ms\n  main.lua:3: in <main.lua:3>\n  main.lua:10: in <main.lua:10>\n",
			"waits for sleep since 20 ms\n  main.lua:6: in <main.lua:5>\n  main.lua:5: in <main.lua:4>\n  main.lua:10: in",
		} {
			if err != nil || !strings.Contains(out, want) {
				t.Errorf("task:\n%s%v\nhas no\n%s", out, err, want)
			}
		}
		out, err = c.Run(s.Context(), "uniqtask /main.lua")
		if err != nil || !strings.HasPrefix(out, "2 × a message of Go, waits for sleep\n  main.lua:6: in") || strings.Count(out, "×") != 2 {
			t.Errorf("uniqtask:\n%s%v", out, err)
		}
		out, err = c.Run(s.Context(), "task /main.lua -o json")
		var list []console.Task
		if json.Unmarshal([]byte(out), &list) != nil || len(list) != 3 || list[1].Waits != "sleep" || list[1].For != 20 {
			t.Errorf("%s, %v", out, err)
		}
		if out, err := c.Run(s.Context(), "uniqtask /"); out != "no handler waits\n" || err != nil {
			t.Errorf("%q, %v", out, err)
		}
		s.Advance(time.Minute)
	})
}

func TestAHandlerThatLoopsIsInterrupted(t *testing.T) {
	sys := actortest.NewSystem(t)
	rt, err := lua.Open(sys, lua.Config{Steps: 1 << 60, Path: folder(scripts{
		"a.lua": `local n = 0 greenroom.dispatch(function(loop)
			n = n + 1
			if loop then greenroom.send("/witness") end
			while loop do
				pcall(function() while true do end end) end
			greenroom.ret(n) end)`,
		"witness.lua": `greenroom.dispatch(function(ask) if ask then greenroom.wait("seen") greenroom.ret() else greenroom.wakeup("seen") end end)`,
	})})
	if err != nil {
		t.Fatal(err)
	}
	ref, err := rt.Spawn(sys, "a", "a.lua")
	if err != nil {
		t.Fatal(err)
	}
	witness, err := rt.Spawn(sys, "witness", "witness.lua")
	if err != nil {
		t.Fatal(err)
	}
	c := console.New(sys, console.Config{})
	c.Add(rt.Commands(c)...)
	seen, looping := make(chan any, 1), make(chan error, 1)
	go func() { seen <- only(lua.Call(t.Context(), witness, true)) }()
	for waiting := false; !waiting; {
		out, err := c.Run(t.Context(), "task /witness")
		if err != nil {
			t.Fatal(err)
		}
		waiting = strings.Contains(out, "wait") && !strings.Contains(out, "no handler")
	}
	go func() {
		_, err := lua.Call(t.Context(), ref, true)
		looping <- err
	}()
	<-seen
	if _, err := c.Run(t.Context(), "signal /a 0"); err != nil {
		t.Fatal(err)
	}
	err = <-looping
	if !errors.Is(err, lua.ErrInterrupted) || !strings.Contains(err.Error(), "a.lua:") || !strings.Contains(err.Error(), ": interrupted") {
		t.Errorf("the loop ends with %v", err)
	}
	if got := only(lua.Call(t.Context(), ref, false)); got != 2.0 {
		t.Errorf("then it answers %v", got)
	}
}

func TestARestartHandsOverWhatOnRestartReturns(t *testing.T) {
	playFiles(t, scripts{"a.lua": `
		local given, state, from = ...
		function on_restart() if state == "bad" then error("lost") end return {state = state, given = given} end
		greenroom.start(function(handed) if handed then state, from = handed.state, handed.given end end)
		greenroom.dispatch(function(cmd, v)
			if cmd == "set" then state = v elseif cmd == "wait" then greenroom.sleep(100000) elseif cmd == "bomb" then local t = {} while true do t[#t + 1] = ("x"):rep(1e6) .. #t end end
			greenroom.ret(state, from)
		end)`}, func(s files) {
		ref := s.spawn("a.lua", "first")
		c := s.console()
		restart := func() {
			t.Helper()
			if _, err := c.Run(s.Context(), "restart /a.lua"); err != nil {
				t.Error(err)
			}
			s.Settle()
		}
		s.expect([]any{"x", nil}, ref, "set", "x")
		waits := make(chan any, 1)
		go func() { waits <- s.call(ref, "wait") }()
		s.Settle()
		restart()
		if got := fmt.Sprint(<-waits); !strings.Contains(got, "error") {
			t.Errorf("a handler that has waited answers %v", got)
		}
		s.expect([]any{"x", "first"}, ref)
		s.expect([]any{"bad", "first"}, ref, "set", "bad")
		restart()
		s.expect([]any{nil, nil}, ref)
		s.expect([]any{"y", nil}, ref, "set", "y")
		if got := fmt.Sprint(s.call(ref, "bomb")); !strings.Contains(got, "out of memory") {
			t.Error(got)
		}
		s.expect([]any{nil, nil}, ref) // a failure hands over nothing
		s.ExpectFailures(1)
	})
}
