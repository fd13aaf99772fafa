package lua_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/actortest"
	"github.com/greenroom-go/greenroom/lua"
)

// echo answers what it is told to: a text to be raised, a time to wait, values.
const echo = `
greenroom.dispatch(function(cmd, ...)
	if cmd == "fail" then error((...), 0) end
	if cmd == "late" then greenroom.sleep(...) end
	if cmd == "never" then return end
	greenroom.ret(cmd, ...)
end)`

func TestCallReturnsWhatTheServiceAnswers(t *testing.T) {
	play(t, scripts{"bank.lua": `
		local accounts = {}
		local CMD = {}
		function CMD.deposit(name, n)
			assert(n > 0, "deposit a positive amount")
			accounts[name] = (accounts[name] or 0) + n
			return accounts[name], {name = name}
		end
		greenroom.start(function()
			greenroom.dispatch(function(cmd, ...) greenroom.ret(CMD[cmd](...)) end)
		end)`}, func(s stage) {
		bank := s.spawn("bank.lua")
		s.expect([]any{10.0, &lua.Table{List: []any{}, Fields: []lua.Field{{Key: "name", Value: "ann"}}}}, bank, "deposit", "ann", 10)
		s.expect([]any{12.0, &lua.Table{List: []any{}, Fields: []lua.Field{{Key: "name", Value: "ann"}}}}, bank, "deposit", "ann", 2)

		_, err := lua.Call(s.Context(), bank, "deposit", "ann", -1)
		var failed *lua.Error
		if !errors.As(err, &failed) || failed.Text != "deposit a positive amount" {
			t.Fatalf("a handler that fails is %v", err)
		}
		if !strings.Contains(failed.Stack, "bank.lua:5") {
			t.Errorf("the stack has no line of the script:\n%s", failed.Stack)
		}
		s.expect("error: bank.lua:10: attempt to call a non-function object", bank, "withdraw")
	})
}

func TestCallOfAnotherServiceWaitsAnywhere(t *testing.T) {
	play(t, scripts{"echo.lua": echo, "main.lua": `
		local echo = ...
		local CMD = {}
		function CMD.plain() return greenroom.call(echo, "late", 10, "x") end
		function CMD.pcall() return pcall(greenroom.call, echo, "fail", "no") end
		function CMD.sort()
			local t = {3, 1, 2}
			table.sort(t, function(a, b) greenroom.call(echo, "late", 1) return a < b end)
			return t[1], t[2], t[3]
		end
		function CMD.gsub()
			return (string.gsub("a b", "%a", function(c) return (select(3, greenroom.call(echo, "late", 1, c .. c))) end))
		end
		function CMD.index()
			local t = setmetatable({}, {__index = function(_, k) return (select(3, greenroom.call(echo, "late", 1, k))) end})
			return t.key
		end
		function CMD.coroutine()
			local out = {}
			for v in coroutine.wrap(function()
				for i = 1, 3 do coroutine.yield((select(3, greenroom.call(echo, "late", 1, i)))) end
			end) do out[#out + 1] = v end
			return unpack(out)
		end
		greenroom.dispatch(function(cmd, ...) greenroom.ret(CMD[cmd](...)) end)`}, func(s stage) {
		main := s.spawn("main.lua", s.spawn("echo.lua").PID())
		s.expect([]any{"late", 10.0, "x"}, main, "plain")
		s.expect([]any{false, "main.lua:5: call " + actorText(s, "echo.lua") + ": no"}, main, "pcall")
		s.expect([]any{1.0, 2.0, 3.0}, main, "sort")
		s.expect("aa bb", main, "gsub")
		s.expect("key", main, "index")
		s.expect([]any{1.0, 2.0, 3.0}, main, "coroutine")
	})
}

// actorText returns how a script sees the address of the service with that name.
func actorText(s stage, name string) string {
	ref, err := actor.LookupPath[lua.Message](s.System(), "/"+name)
	if err != nil {
		s.T().Fatal(err)
	}
	return ref.String()
}

func TestCallServesOthersWhileItWaits(t *testing.T) {
	play(t, scripts{"echo.lua": echo, "main.lua": `
		local echo = ...
		local waiting = 0
		greenroom.dispatch(function(cmd)
			if cmd == "count" then return greenroom.ret(waiting) end
			waiting = waiting + 1
			greenroom.call(echo, "late", 100)
			waiting = waiting - 1
			greenroom.ret(cmd)
		end)`}, func(s stage) {
		main := s.spawn("main.lua", "/echo.lua")
		s.spawn("echo.lua")
		calls := make([]chan any, 500)
		for i := range calls {
			calls[i] = make(chan any, 1)
			go func() { calls[i] <- s.call(main, i) }()
		}
		s.Settle()
		s.expect(500.0, main, "count")
		s.Advance(2 * time.Second)
		for i, c := range calls {
			if got := <-c; got != float64(i) {
				t.Fatalf("call %d is answered with %v", i, got)
			}
		}
		s.expect(0.0, main, "count")
	})
}

func TestCallEndsWithoutAnAnswer(t *testing.T) {
	play(t, scripts{"echo.lua": echo, "main.lua": `
		local echo = ...
		local CMD = {
			limit = function() greenroom.calltimeout(50, echo, "late", 100) end,
			never = function() greenroom.call(echo, "never") end,
			gone = function() greenroom.call("/nobody") end,
			bad = function() greenroom.call("nonsense") end,
			what = function() greenroom.call(echo, {f = {print, function() end}}) end,
		}
		greenroom.dispatch(function(cmd) greenroom.ret(select(2, pcall(CMD[cmd]))) end)`}, func(s stage) {
		s.spawn("echo.lua")
		main := s.spawn("main.lua", "/echo.lua")
		for cmd, want := range map[string]string{
			"limit": "context deadline exceeded", // which ends the handler of the other side as well: either may say it first
			"never": actor.ErrUnhandled.Error(),
			"gone":  actor.ErrStopped.Error(),
			"bad":   "an address is what self returns",
			"what":  "argument 2.f.2: a function cannot be sent",
		} {
			if got := s.call(main, cmd).(string); !strings.Contains(got, want) {
				t.Errorf("%s raises %q, want %q", cmd, got, want)
			}
		}
	})
}

func TestCallKeepsIntegersOfGo(t *testing.T) {
	play(t, scripts{"main.lua": `
		greenroom.dispatch(function(cmd, a, b)
			if cmd == "add" then greenroom.ret(a + b)
			elseif cmd == "mul" then greenroom.ret(a * b)
			elseif cmd == "div" then greenroom.ret(a / b, a % b)
			elseif cmd == "cmp" then greenroom.ret(a == b, a < b, a <= b)
			elseif cmd == "text" then greenroom.ret(tostring(a) .. "", "n=" .. a, type(a))
			elseif cmd == "make" then greenroom.ret(greenroom.int64("9007199254740993") + 1)
			end
		end)`}, func(s stage) {
		main := s.spawn("main.lua")
		const big = int64(1) << 60
		s.expect(big+1, main, "add", big, 1)
		s.expect(3*big, main, "mul", 3, big)
		s.expect("error: main.lua:4: the result is not an int64", main, "mul", big, big)
		s.expect([]any{-big/2 - 1, 1.0}, main, "div", -big-1, 2)
		s.expect([]any{false, true, true}, main, "cmp", big, big+1)
		s.expect([]any{"1152921504606846976", "n=1152921504606846976", "userdata"}, main, "text", big)
		s.expect(int64(1)<<53+2, main, "make")
	})
}

func TestResponseAnswersLater(t *testing.T) {
	play(t, scripts{"main.lua": `
		local held = {}
		greenroom.dispatch(function(cmd, ...)
			if cmd == "hold" then held[#held + 1] = greenroom.response()
			elseif cmd == "free" then
				for i, answer in ipairs(held) do assert(answer(i ~= 2, "number", i)) end
				greenroom.ret(held[1](true))
			elseif cmd == "ignore" then greenroom.ignoreret()
			end
		end)`}, func(s stage) {
		main := s.spawn("main.lua")
		var held [2]chan any
		for i := range held {
			held[i] = make(chan any, 1)
			go func() { held[i] <- s.call(main, "hold") }()
			s.Settle()
		}
		s.expect(false, main, "free")
		if got := fmt.Sprint(<-held[0]); got != "[number 1]" {
			t.Errorf("the first gets %v", got)
		}
		if got := <-held[1]; got != "error: number" {
			t.Errorf("the second gets %v", got)
		}
		if _, err := lua.Call(s.Context(), main, "ignore"); !errors.Is(err, actor.ErrUnhandled) {
			t.Errorf("what is ignored gets %v", err)
		}
	})
}

func TestSendFailsItsMessageAndNotTheService(t *testing.T) {
	play(t, scripts{"main.lua": `
		local n = 0
		greenroom.dispatch(function(cmd)
			if cmd == "fail" then error("broken") end
			n = n + 1
			greenroom.ret(n)
		end)`}, func(s stage) {
		main := s.spawn("main.lua")
		for _, cmd := range []string{"one", "fail", "two"} {
			if err := lua.Send(s.Context(), main, cmd); err != nil {
				t.Fatal(err)
			}
		}
		s.expect(3.0, main, "three")
	})
}

func TestForkRunsAfterTheHandler(t *testing.T) {
	play(t, scripts{"main.lua": `
		local log = {}
		greenroom.dispatch(function(cmd)
			if cmd == "log" then return greenroom.ret(log) end
			greenroom.fork(function(a, b) log[#log + 1] = a .. b end, "fork", 1)
			greenroom.timeout(0, function() log[#log + 1] = "now" end)
			greenroom.timeout(100, function() log[#log + 1] = "later" end)
			log[#log + 1] = "first"
			greenroom.sleep(10)
			log[#log + 1] = "slept"
			greenroom.ret()
		end)`}, func(s stage) {
		main := s.spawn("main.lua")
		s.expect([]any(nil), main, "go")
		s.expect(&lua.Table{List: []any{"first", "fork1", "now", "slept"}}, main, "log")
		s.Advance(time.Second)
		s.expect(&lua.Table{List: []any{"first", "fork1", "now", "slept", "later"}}, main, "log")
	})
}

func TestForkIsBounded(t *testing.T) {
	play(t, scripts{"main.lua": `
		greenroom.dispatch(function()
			local n = 0
			while pcall(greenroom.fork, function() end) do n = n + 1 end
			greenroom.ret(n)
		end)`}, func(s stage) {
		main := s.spawn("main.lua")
		s.expect(10_000.0, main)
		s.expect(10_000.0, main)
	})
}

func TestTheStartIsTheServices(t *testing.T) {
	files := scripts{
		"good.lua": `
			local order = {...}
			greenroom.start(function() order[#order + 1] = "start" greenroom.sleep(100) order[#order + 1] = "slept" end)
			greenroom.init(function() order[#order + 1] = "init" end)
			greenroom.dispatch(function() greenroom.ret(order) end)`,
		"bad.lua":     `greenroom.start(function() error("no money") end)`,
		"syntax.lua":  `x = = 1`,
		"silent.lua":  ``,
		"modules.lua": `local a = require "lib.a"; greenroom.dispatch(function() greenroom.ret(a.name, require "lib.a" == a, pcall(require, "lib.b"), (pcall(require, "no"))) end)`,
		"lib/a.lua":   `return {name = "a"}`,
		"lib/b.lua":   `return require "lib.b"`,
	}
	play(t, files, func(s stage) {
		began := s.Elapsed()
		good := s.spawn("good.lua", "arg")
		if took := s.Elapsed() - began; took != time.Second {
			t.Errorf("Spawn returns after %v", took)
		}
		s.expect(&lua.Table{List: []any{"arg", "init", "start", "slept"}}, good)
		s.expect("error: silent.lua: the service takes no messages: it has not called dispatch", s.spawn("silent.lua"))
		s.expect([]any{"a", true, false, false}, s.spawn("modules.lua"))
		for file, want := range map[string]string{
			"bad.lua":     "bad.lua:1: no money",
			"syntax.lua":  "syntax.lua line:1",
			"missing.lua": `script "missing.lua"`,
		} {
			if _, err := s.rt.Spawn(s.System(), "", file); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", file, err, want)
			}
		}
	})
}

func TestARestartRunsTheFileAgain(t *testing.T) {
	play(t, scripts{"main.lua": `
		local n = ...
		greenroom.dispatch(function(cmd)
			if cmd == "later" then greenroom.timeout(100, function() n = -1 end) greenroom.fork(function() n = -1 end) end
			n = n + 1
			greenroom.ret(n)
		end)`}, func(s stage) {
		main := s.spawn("main.lua", 5)
		s.expect(6.0, main, "count")
		s.expect(7.0, main, "later")
		_ = s.System().Restart(main.PID()) // what follows shows it
		s.Settle()
		s.Advance(2 * time.Second)
		s.expect(6.0, main, "count")
	})
}

func TestStopEndsHandlersThatWait(t *testing.T) {
	play(t, scripts{"main.lua": `
		greenroom.dispatch(function() greenroom.sleep(100000) greenroom.ret() end)`}, func(s stage) {
		main := s.spawn("main.lua")
		got := make(chan any, 1)
		go func() { got <- s.call(main) }()
		s.Settle()
		main.Stop()
		down := actortest.ExpectDown(s.Kit, main)
		if down.Err != nil {
			t.Error(down)
		}
		if text := fmt.Sprint(<-got); !strings.Contains(text, "context canceled") && !strings.Contains(text, "stopped") {
			t.Errorf("who waits gets %s", text)
		}
	})
}

func TestCoroutines(t *testing.T) {
	play(t, nil, func(s stage) {
		for _, c := range []struct {
			chunk string
			want  any
		}{
			{
				`local co = coroutine.create(function(a, b) local c = coroutine.yield(a + b) return c * 2 end)
				local _, x = coroutine.resume(co, 1, 2) local _, y = coroutine.resume(co, 10)
				return type(co), x, y, coroutine.status(co), coroutine.resume(co)`,
				[]any{"thread", 3.0, 20.0, "dead", false, "cannot resume a coroutine that is dead"},
			},
			{
				`local co co = coroutine.create(function() return coroutine.status(co), coroutine.resume(co) end) return coroutine.resume(co)`,
				[]any{true, "running", false, "cannot resume a coroutine that is running"},
			},
			{`local f = coroutine.wrap(function() error({message = "x"}) end) local ok, e = pcall(f) return ok, e.message`, []any{false, "x"}},
			{`return type(coroutine.running()), coroutine.wrap(function() return coroutine.running() end)()`, []any{"thread", true}},
			{`local function f(n) if n == 0 then return "deep" end return coroutine.wrap(f)(n - 1) end return f(15), (pcall(f, 17))`, []any{"deep", false}},
			{`return pcall(coroutine.yield, 1)`, []any{false, "eval.lua:2: can not yield from outside of a coroutine"}},
			{`return pcall(coroutine.resume, newcoroutine)`, []any{false, "eval.lua:2: bad argument #1 to (anonymous) (userdata expected, got nil)"}},
			// a coroutine whose handler waits
			{
				`local co = coroutine.create(function() greenroom.sleep(10) return "slept" end)
				local other
				greenroom.fork(function() other = {coroutine.status(co), coroutine.resume(co)} end)
				local a, b = coroutine.resume(co)
				return a, b, other[1], other[2], other[3]`,
				[]any{true, "slept", "normal", false, "cannot resume a coroutine that is normal"},
			},
		} {
			if got := s.eval(c.chunk); fmt.Sprint(got) != fmt.Sprint(c.want) {
				t.Errorf("%s:\n%v, not %v", c.chunk, got, c.want)
			}
		}
	})
}
