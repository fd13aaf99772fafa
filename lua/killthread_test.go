package lua_test

import (
	"fmt"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/codec"
	"github.com/greenroom-go/greenroom/lua"
)

// mortal has handlers that wait in each of the ways there are, and that others end.
const mortal = `
	local log, tasks, cs, WAIT, CMD = {}, {}, greenroom.queue(), {}, {}
	function WAIT.sleep() greenroom.sleep(100000) end
	function WAIT.wait() greenroom.wait("never") end
	function WAIT.call() greenroom.calltimeout(100000, "/silent", "x") end
	function WAIT.out() greenroom.calltimeout(100000, "/go", "mute", {}) end
	function WAIT.select() for _ in greenroom.request{"/silent", "x"}:select(100000) do end end
	function WAIT.inside() cs(greenroom.sleep, 100000) end
	function WAIT.caught() for i = 1, 10 do pcall(greenroom.sleep, 100000) xpcall(greenroom.wait, function() log[#log + 1] = "handler" end, {}) end end
	function WAIT.nested() coroutine.wrap(function() table.sort({2, 1}, function() greenroom.sleep(100000) return true end) end)() end
	function WAIT.promised() local answer = greenroom.response() greenroom.sleep(100000) answer(true, 1) end
	function CMD.wait(how) tasks[how] = coroutine.running() WAIT[how]() log[#log + 1] = how return "went on" end
	function CMD.fork(how) tasks[how] = greenroom.fork(function() WAIT[how]() log[#log + 1] = how end) end
	function CMD.kill(how) local t = tasks[how] return greenroom.killthread(t) == t, greenroom.killthread(t) end
	function CMD.left() return greenroom.stat "task", table.concat(log, " "), cs(function() return "free" end) end
	greenroom.dispatch(function(cmd, ...) greenroom.ret(CMD[cmd](...)) end)`

type muteMsg interface{ mute() }

type mute struct{ actor.Returns[int] }

func (mute) mute() {}

func TestKillthreadEndsHandlersThatWait(t *testing.T) {
	files := scripts{"mortal.lua": mortal, "silent.lua": `greenroom.dispatch(function() greenroom.response() end)`}
	play(t, files, func(s stage) {
		rt, err := lua.Open(s.System(), lua.Config{
			Path: folder(files), Types: codec.NewTypes(codec.Of[mute]("mute")), Mailboxes: []lua.Mailbox{lua.Asks[muteMsg, int]()},
		})
		if err != nil {
			t.Fatal(err)
		}
		actor.Spawn(s.System(), "go", func() actor.Actor[muteMsg] { return silent{} })
		if _, err := rt.Spawn(s.System(), "silent", "silent.lua"); err != nil {
			t.Fatal(err)
		}
		ref, err := rt.Spawn(s.System(), "mortal", "mortal.lua")
		if err != nil {
			t.Fatal(err)
		}
		for _, how := range []string{"sleep", "wait", "call", "out", "select", "inside", "caught", "nested", "promised"} {
			answers := make(chan any, 1)
			go func() { answers <- s.call(ref, "wait", how) }()
			s.Settle()
			s.expect([]any{true, nil}, ref, "kill", how)
			if got := <-answers; got != "error: the handler was ended by killthread" {
				t.Errorf("%s: who waits for the answer gets %v", how, got)
			}
			if how != "promised" {
				s.expect([]any(nil), ref, "fork", how)
				s.Settle()
				s.expect([]any{true, nil}, ref, "kill", how)
			}
			s.Settle()
			s.expect([]any{0.0, "", "free"}, ref, "left")
		}
		s.Advance(time.Hour)
		s.expect([]any{0.0, "", "free"}, ref, "left") // also when the answers would have come
	})
}

type silent struct{}

func (silent) Receive(ctx *actor.Context[muteMsg], m muteMsg) error {
	actor.Promise(ctx, m.(mute))
	return nil
}

func TestHandlersThatMayBeKilledWaitAsOthersDo(t *testing.T) {
	play(t, scripts{"echo.lua": `greenroom.dispatch(function(...) greenroom.sleep(3) assert(..., "refused") greenroom.ret(...) end)`}, func(s stage) {
		s.spawn("echo.lua")
		for chunk, want := range map[string]any{
			`return greenroom.call("/echo.lua", 1, "a")`:       []any{1.0, "a"},
			`return pcall(greenroom.call, "/echo.lua", false)`: []any{false, "eval.lua:2: call /echo.lua: refused"},
			`local ok, text = pcall(greenroom.calltimeout, 1, "/echo.lua", 1) return ok, text:match("context deadline exceeded$")`: []any{false, "context deadline exceeded"},
			`local from = greenroom.now() greenroom.sleep(7) greenroom.sleep(0) return greenroom.now() - from`:                     7.0,
		} {
			plain, kept := s.eval(chunk), s.eval("local own = coroutine.running() "+chunk)
			if fmt.Sprint(kept) != fmt.Sprint(want) || fmt.Sprint(plain) != fmt.Sprint(want) {
				t.Errorf("%s: %v, and %v with a handle, not %v", chunk, plain, kept, want)
			}
		}
	})
}

// An answer wakes the handler that waits for it, and another one may come in between and take it.
func TestAnAnswerThatAnotherHandlerTakesIsWaitedForAgain(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // one worker handles all: the answer and the message are there at once
	files := scripts{
		"echo.lua": `greenroom.dispatch(function(x) greenroom.sleep(x) greenroom.ret(x) greenroom.send("/main.lua", "take") end)`,
		"main.lua": `
			local log, answers, CMD = {}, nil, {}
			local function take(who) local ok, r, values = pcall(answers) log[#log + 1] = who .. " " .. tostring(ok and r and values[1] or r) end
			function CMD.begin()
				answers = greenroom.request{"/echo.lua", 5}:add{"/echo.lua", 50}:select(1000)
				greenroom.fork(take, "first")
				greenroom.ret()
			end
			function CMD.take() take "second" end
			function CMD.log() greenroom.ret(table.concat(log, ", ")) end
			greenroom.dispatch(function(cmd) CMD[cmd]() end)`,
	}
	play(t, files, func(s stage) {
		s.spawn("echo.lua")
		main := s.spawn("main.lua")
		s.call(main, "begin")
		if got := s.eval(`greenroom.sleep(200) return greenroom.call("/main.lua", "log")`); fmt.Sprint(got) != "second 5, second 50, first nil" {
			t.Error(got)
		}
	})
}

// A handler that has slept has all of its steps again, also one that may be killed.
func TestHandlersThatMayBeKilledHaveTheirStepsAgain(t *testing.T) {
	files := scripts{"loop.lua": `
		local rounds = 0
		greenroom.fork(function()
			while rounds < 100 do for _ = 1, 200 do end greenroom.sleep(1) rounds = rounds + 1 end
		end)
		greenroom.dispatch(function() greenroom.ret(rounds) end)`}
	play(t, files, func(s stage) {
		rt, err := lua.Open(s.System(), lua.Config{Path: folder(files), Steps: 5000})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := rt.Spawn(s.System(), "loop", "loop.lua"); err != nil {
			t.Fatal(err)
		}
		if got := s.eval(`greenroom.sleep(200) return greenroom.call("/loop")`); fmt.Sprint(got) != "100" {
			t.Errorf("%v rounds of 100", got)
		}
	})
}

func TestKillthreadOfWhatDoesNotWait(t *testing.T) {
	const badArgument = "eval.lua:2: bad argument #1 to (anonymous) (what fork, timeout or coroutine.running has returned expected)"
	for chunk, want := range map[string]any{
		`return greenroom.killthread(coroutine.running())`:                                                                                                nil,
		`local f = greenroom.fork(function() end) greenroom.yield() return greenroom.killthread(f)`:                                                       nil,
		`local f = greenroom.fork(error, "x") greenroom.yield() return greenroom.killthread(f)`:                                                           nil,
		`local own = coroutine.running() local r greenroom.fork(function() r = greenroom.killthread(own) == own end) greenroom.sleep(1) return "went on"`: "error: the handler was ended by killthread",
		// what was not called yet
		`local n = 0 local f = greenroom.fork(function() n = n + 1 end) return greenroom.killthread(f) == f, greenroom.killthread(f), greenroom.sleep(1), n`:       []any{true, nil, nil, 0.0},
		`local n = 0 local f = greenroom.timeout(1, function() n = n + 1 end) return greenroom.killthread(f) == f, greenroom.killthread(f), greenroom.sleep(5), n`: []any{true, nil, nil, 0.0},
		`for j = 1, 3 do for i = 1, 5000 do greenroom.killthread(greenroom.timeout(1, error)) end greenroom.yield() end return "dropped"`:                          "dropped",
		`local n = 0 while pcall(function() greenroom.killthread(greenroom.fork(error)) end) do n = n + 1 end
			greenroom.yield() return n, (pcall(greenroom.fork, function() end))`: []any{10000.0, true},
		// woken or answered in the same turn
		`local r local f = greenroom.fork(function() r = greenroom.wait("t") or "woken" end) greenroom.yield()
			return greenroom.wakeup("t"), greenroom.killthread(f) == f, greenroom.sleep(1), r`: []any{true, true, nil, nil},
		// killed, and woken after that in the same turn
		`local r local f = greenroom.fork(greenroom.wait, "t") greenroom.yield() greenroom.killthread(f)
			greenroom.fork(function() greenroom.wait("t") r = "woken" end)
			return greenroom.wakeup("t"), greenroom.yield(), greenroom.wakeup("t"), greenroom.yield(), r`: []any{false, nil, true, nil, "woken"},
		`if answers then return 1 end answers = greenroom.request{greenroom.self()}:select()
			local f = greenroom.fork(function() answers() end) greenroom.yield() greenroom.killthread(f)
			local of, values = answers() return values[1]`: 1.0,
		`local cs, r = greenroom.queue()
			local a = greenroom.fork(function() cs(greenroom.sleep, 5) end) local b = greenroom.fork(function() cs(greenroom.sleep, 5) r = "b" end)
			greenroom.fork(function() cs(function() r = "c" end) end)
			greenroom.yield() return greenroom.killthread(a) == a, greenroom.killthread(b) == b, cs(function() return r end)`: []any{true, true, "c"},
		// foreign values
		`return pcall(greenroom.killthread, coroutine.create(function() end))`:                                                         []any{false, badArgument},
		`return pcall(greenroom.killthread, greenroom.request())`:                                                                      []any{false, badArgument},
		`return pcall(greenroom.killthread, "x")`:                                                                                      []any{false, "eval.lua:2: bad argument #1 to (anonymous) (userdata expected, got string)"},
		`return (pcall(greenroom.send, "/x", greenroom.fork(error)))`:                                                                  false,
		`return (pcall(coroutine.resume, coroutine.running())), type(coroutine.running()), coroutine.running() == coroutine.running()`: []any{false, "thread", true},
	} {
		play(t, nil, func(s stage) {
			if got := s.eval(chunk); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%s\nreturns %v, not %v", chunk, got, want)
			}
		})
	}
}

func TestStatTellsNumbersAboutTheService(t *testing.T) {
	play(t, scripts{"stat.lua": `
		local skynet = require "skynet"
		greenroom.dispatch(function(cmd, n)
			if cmd == "wait" then return greenroom.sleep(100) end
			for i = 1, n or 0 do greenroom.send(greenroom.self(), "note") end
			if cmd == "note" then return end
			local keep, before = {}, greenroom.stat "steps"
			for i = 1, 1000 do keep[i] = {} end
			local text = select(2, pcall(greenroom.stat, "cpu"))
			local function near(v, low, high) return v >= low and v <= high end
			greenroom.ret(greenroom.stat "mqlen", skynet.mqlen(), greenroom.stat "message", greenroom.stat "task",
				near(greenroom.stat "memory", 96e3, 32 * 2 ^ 20), near(greenroom.stat "steps" - before, 3000, 20000), text)
		end)`}, func(s stage) {
		ref := s.spawn("stat.lua")
		const text = `stat.lua:9: bad argument #1 to (anonymous) (must be "mqlen", "message", "task", "memory" or "steps", not "cpu")`
		s.expect([]any{5.0, 5.0, 1.0, 0.0, true, true, text}, ref, "x", 5)
		s.Settle()
		if err := lua.Send(s.Context(), ref, "wait"); err != nil {
			t.Fatal(err)
		}
		s.Settle()
		s.expect([]any{0.0, 0.0, 8.0, 1.0, true, true, text}, ref, "x", 0)
	})
}

func TestInfoShowsWhatInfoFuncReturns(t *testing.T) {
	const info = `local n = 0 greenroom.info_func(function() n = n + 1 %s end)
		greenroom.dispatch(function() greenroom.ret(n) end)`
	play := func(body, want string, calls float64) {
		t.Helper()
		playFiles(t, scripts{"a.lua": fmt.Sprintf(info, body)}, func(s files) {
			ref := s.spawn("a.lua")
			out, err := s.console().Run(s.Context(), "info /a.lua")
			if err != nil || !regexp.MustCompile(want).MatchString(out) || !strings.Contains(out, `"file": "a.lua"`) {
				t.Errorf("%s: info has no %s:\n%s%v", body, want, out, err)
			}
			s.expect(calls, ref)
		})
	}
	play(`return {users = n, names = {"a", "b"}}`, `"info": \{\s*"names": \[\s*"a",\s*"b"\s*\],\s*"users": 1\s*\}`, 1)
	play(`return n, "b"`, `"info": \[\s*1,\s*"b"\s*\]`, 1)
	play(``, `"modules": 1\b`, 1)
	play(`while true do end`, `"info_error": "a.lua:1: out of steps`, 1)
	play(`pcall(function() while true do end end) n = 100`, `"info_error": "a.lua:1: out of steps`, 1)
	play(`greenroom.sleep(1) n = 100`, `"info_error": "a.lua:1: sleep: the function of info_func must not wait"`, 1)
	play(`return pcall(greenroom.call, greenroom.self())`, `"info": \[\s*false,\s*"[^"]*must not wait"`, 1)
	play(`return 0/0`, `"info_error": "json: unsupported value: NaN"`, 1)
	play(`return ("x"):rep(20000)`, `"info_error": "the function of info_func must return at most 16384 bytes, not 200`, 1)
	play(`return tostring`, `"info_error": "argument 1: a function cannot be sent"`, 1)
	play(`error({})`, `"info_error": "a table was raised"`, 1)
	play(`return coroutine.running(), coroutine.status(coroutine.create(error))`, `"info": \[\s*null,\s*"suspended"\s*\]`, 1)
}

func TestAReloadRenewsTheFunctionOfInfoFunc(t *testing.T) {
	const a = `local n = 7 greenroom.info_func(function() return "old", n end) greenroom.dispatch(function() end)`
	playFiles(t, scripts{"a.lua": a}, func(s files) {
		s.spawn("a.lua")
		c := s.console()
		s.write("a.lua", strings.Replace(a, "old", "new", 1))
		if _, err := c.Run(s.Context(), "reload a.lua"); err != nil {
			t.Fatal(err)
		}
		if out, err := c.Run(s.Context(), "info /a.lua"); err != nil || !regexp.MustCompile(`"info": \[\s*"new",\s*7\s*\]`).MatchString(out) {
			t.Errorf("%s%v", out, err)
		}
	})
}
