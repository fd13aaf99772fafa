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

// run is a service that runs the functions of CMD, which a test's files define before it.
const run = ` greenroom.dispatch(function(cmd, ...) greenroom.ret(CMD[cmd](...)) end)`

func TestServicesStartOthers(t *testing.T) {
	play(t, scripts{
		"main.lua": `local CMD = {}
			function CMD.new(...) return greenroom.newservice("child.lua", ...) end
			function CMD.unique(...) return greenroom.uniqueservice(...) end
			function CMD.both() -- at once: the second waits for the first
				local a greenroom.fork(function() a = greenroom.uniqueservice("child.lua", "slow") end)
				local b = greenroom.uniqueservice("child.lua", "other")
				while not a do greenroom.yield() end
				return a == b, greenroom.call(a, "args")
			end
			function CMD.find(file) return pcall(greenroom.queryservice, file) end
			function CMD.bad() return pcall(greenroom.newservice, "bad.lua") end
			function CMD.gone() return pcall(greenroom.uniqueservice, "bad.lua") end` + run,
		"child.lua": `local args, CMD = {...}, {}
			greenroom.start(function() if args[1] == "slow" then greenroom.sleep(50) end end)
			function CMD.args() return unpack(args) end
			function CMD.parent() return greenroom.uniqueservice("needed.lua") end
			function CMD.exit() greenroom.exit() end` + run,
		"needs.lua":  `local it; greenroom.start(function() it = greenroom.uniqueservice("needed.lua") end) greenroom.dispatch(function() greenroom.ret(it) end)`,
		"needed.lua": `greenroom.dispatch(function() greenroom.ret("needed") end)`,
		"bad.lua":    `error("no start")`,
	}, func(s stage) {
		main := s.spawn("main.lua")
		child := s.call(main, "new", "slow", 7).(string)
		pid, err := actor.ParsePID(child)
		if err != nil || !strings.HasPrefix(pid.Path(), "/main.lua/") {
			t.Fatalf("newservice returns %q, %v", child, err)
		}
		ref, err := actor.Lookup[lua.Message](s.System(), pid)
		if err != nil {
			t.Fatal(err)
		}
		s.expect([]any{"slow", 7.0}, ref, "args")

		s.expect([]any{true, "other"}, main, "both")
		unique := s.call(main, "unique", "child.lua")
		s.expect([]any{true, unique}, main, "find", "child.lua")
		if got := fmt.Sprint(s.call(main, "find", "needed.lua")); !strings.Contains(got, "false main.lua:10: service needed.lua: it does not run") {
			t.Errorf("what does not run is %s", got)
		}
		first := s.call(main, "unique", "needs.lua")
		s.expect(first, main, "unique", "needs.lua")
		for _, cmd := range []string{"bad", "gone"} {
			if got := fmt.Sprint(s.call(main, cmd)); !strings.Contains(got, "bad.lua:1: no start") {
				t.Errorf("a service that does not start raises %s", got)
			}
		}
		main.Stop()
		actortest.ExpectDown(s.Kit, ref)
	})
}

func TestAUniqueServiceThatEndedIsStartedAgain(t *testing.T) {
	play(t, scripts{
		"main.lua":  `local CMD = {unique = greenroom.uniqueservice, call = greenroom.call}` + run,
		"child.lua": `local CMD = {exit = greenroom.exit, args = function() return "here" end}` + run,
	}, func(s stage) {
		main := s.spawn("main.lua")
		first := s.call(main, "unique", "child.lua")
		if got := fmt.Sprint(s.call(main, "call", first, "exit")); !strings.Contains(got, "error: ") {
			t.Errorf("who has called a service that exits gets %s", got)
		}
		s.Settle()
		second := s.call(main, "unique", "child.lua")
		if second == first {
			t.Fatal("the one that has ended is returned")
		}
		s.expect("here", main, "call", second, "args")
	})
}

func TestNamesAreOfTheLiving(t *testing.T) {
	play(t, scripts{
		"main.lua": `local CMD = {}
		function CMD.register(name) return pcall(greenroom.register, name) end
		function CMD.name(name, addr) return pcall(greenroom.name, name, addr) end
		function CMD.query(name) return greenroom.query(name) end
		function CMD.call(name) return pcall(greenroom.call, name, "self") end
		function CMD.self() return greenroom.self() end` + run,
	}, func(s stage) {
		a, err := s.rt.Spawn(s.System(), "a", "main.lua")
		if err != nil {
			t.Fatal(err)
		}
		b, err := s.rt.Spawn(s.System(), "b", "main.lua")
		if err != nil {
			t.Fatal(err)
		}
		s.expect(true, a, "register", ".bank")
		s.expect(a.String(), b, "query", ".bank")
		s.expect([]any{true, a.String()}, b, "call", ".bank")
		s.expect([]any{false, "main.lua:2: name .bank: name taken by " + a.String()}, b, "register", ".bank")
		s.expect([]any{false, `main.lua:2: a name must begin with a dot and have 2 to 128 bytes, not "bank"`}, b, "register", "bank")
		s.expect(true, a, "name", ".b", b.String())
		s.expect([]any{true, b.String()}, a, "call", ".b")
		s.expect(nil, a, "query", ".nobody")

		a.Stop()
		s.Settle()
		s.expect(nil, b, "query", ".bank")
		if got := fmt.Sprint(s.call(b, "call", ".bank")); !strings.Contains(got, "false main.lua:5: .bank: nobody has the name") {
			t.Errorf("a name of one that has ended: %s", got)
		}
		s.expect(true, b, "register", ".bank")
		if ref, ok := s.rt.Find(".bank"); !ok || ref != b {
			t.Errorf("Find returns %v, %v", ref, ok)
		}
	})
}

func TestExitEndsAllHandlersOfTheService(t *testing.T) {
	play(t, scripts{
		"main.lua": `
		local log = ...
		greenroom.dispatch(function(cmd)
			if cmd == "exit" then
				pcall(greenroom.exit)
				greenroom.ret("after")
			end
			pcall(greenroom.sleep, 1000)
			greenroom.send(log, "after the end")
			while true do end
		end)`, "log.lua": `
		local got = {}
		greenroom.dispatch(function(...) got[#got + 1] = ... greenroom.ret(#got) end)`,
	}, func(s stage) {
		log := s.spawn("log.lua")
		main := s.spawn("main.lua", log.PID())
		waits := make(chan any, 1)
		go func() { waits <- s.call(main, "sleep") }()
		s.Settle()
		for _, got := range []any{s.call(main, "exit"), <-waits} {
			if !strings.HasPrefix(fmt.Sprint(got), "error: ") {
				t.Errorf("who waits gets %v", got)
			}
		}
		if down := actortest.ExpectDown(s.Kit, main); down.Reason != actor.Stopped && down.Reason != actor.NoActor {
			t.Errorf("it ends with %v", down)
		}
		s.expect(1.0, log, "count")
	})
}

func TestExitInTheStart(t *testing.T) {
	play(t, scripts{
		"main.lua":  `greenroom.start(function() greenroom.newservice("other.lua") greenroom.exit() end)`,
		"other.lua": `greenroom.dispatch(function() end)`,
	}, func(s stage) {
		if _, err := s.rt.Spawn(s.System(), "main", "main.lua"); err != nil && !errors.Is(err, actor.ErrStopped) {
			t.Fatal(err)
		}
		s.Settle()
		if _, err := actor.LookupPath[lua.Message](s.System(), "/main"); !errors.Is(err, actor.ErrStopped) {
			t.Errorf("it lives: %v", err)
		}
	})
}

func TestWatchLinkAndKill(t *testing.T) {
	play(t, scripts{
		"main.lua": `local CMD, log = {}, {}
		function CMD.watch(addr) greenroom.watch(addr, function(addr, reason, err) log[#log + 1] = reason .. " " .. tostring(err) end) end
		function CMD.link(addr) greenroom.link(addr) end
		function CMD.kill(addr) greenroom.kill(addr) end
		function CMD.log() return table.concat(log, ", ") end
		CMD["exit"] = greenroom.exit` + run,
	}, func(s stage) {
		spawn := func(name string) actor.Ref[lua.Message] {
			ref, err := s.rt.Spawn(s.System(), name, "main.lua")
			if err != nil {
				t.Fatal(err)
			}
			return ref
		}
		a, b, c, d := spawn("a"), spawn("b"), spawn("c"), spawn("d")
		s.call(a, "watch", b.PID())
		s.call(a, "watch", c.PID())
		s.call(a, "kill", b.PID())
		s.Settle()
		s.call(c, "exit")
		s.Settle()
		s.expect("killed nil, stopped nil", a, "log")

		s.call(d, "link", a.PID())
		a.Kill()
		s.Settle()
		s.ExpectFailures(1)
		s.expect("", d, "log") // it was restarted
	})
}

func TestWaitAndWakeup(t *testing.T) {
	play(t, scripts{
		"main.lua": `local CMD, order = {}, {}
		function CMD.wait(token) greenroom.wait(token) order[#order + 1] = token return token end
		function CMD.wake(token) return greenroom.wakeup(token) end
		function CMD.twice(token) return pcall(greenroom.wait, token) end
		function CMD.nan() return (pcall(greenroom.wait, 0 / 0)) end
		function CMD.early() -- woken before the service was asked
			local token = {}
			greenroom.fork(function() greenroom.sleep(0) end)
			greenroom.fork(function() greenroom.wakeup(token) end)
			greenroom.wait(token)
			return "woken"
		end
		function CMD.turns()
			local log = {}
			greenroom.fork(function() for i = 1, 3 do log[#log + 1] = "a" .. i greenroom.yield() end end)
			greenroom.fork(function() for i = 1, 3 do log[#log + 1] = "b" .. i greenroom.yield() end end)
			for _ = 1, 5 do greenroom.yield() end
			return table.concat(log, " ")
		end` + run,
	}, func(s stage) {
		main := s.spawn("main.lua")
		got := make(chan any, 1)
		go func() { got <- s.call(main, "wait", "x") }()
		s.Advance(time.Second)
		s.expect([]any{false, "main.lua:4: wait: another handler waits for the token"}, main, "twice", "x")
		s.expect(false, main, "wake", "y")
		s.expect(true, main, "wake", "x")
		s.expect(false, main, "wake", "x")
		if v := <-got; v != "x" {
			t.Errorf("who waits gets %v", v)
		}
		s.expect(false, main, "nan")
		s.expect("woken", main, "early")
		s.expect("a1 b1 a2 b2 a3 b3", main, "turns")
	})
}

func TestQueueIsACriticalSection(t *testing.T) {
	play(t, scripts{
		"main.lua": `local CMD, log, cs = {}, {}, greenroom.queue()
		function CMD.enter(name, fail)
			return cs(function(...)
				log[#log + 1] = name .. "+"
				greenroom.sleep(10)
				cs(function() log[#log + 1] = name .. "!" end)
				log[#log + 1] = name .. "-"
				if fail then error("failed", 0) end
				return ...
			end, name, "done")
		end
		function CMD.log() return table.concat(log, " ") end` + run,
	}, func(s stage) {
		main := s.spawn("main.lua")
		var got [3]chan any
		for i, name := range []string{"a", "b", "c"} {
			got[i] = make(chan any, 1)
			go func() { got[i] <- s.call(main, "enter", name, name == "b") }()
			s.Settle()
		}
		for i, want := range []string{"[a done]", "error: failed", "[c done]"} {
			if v := fmt.Sprint(<-got[i]); v != want {
				t.Errorf("handler %d gets %v, not %v", i, v, want)
			}
		}
		s.expect("a+ a! a- b+ b! b- c+ c! c-", main, "log")
	})
}

func TestRequestTakesAnswersAsTheyCome(t *testing.T) {
	play(t, scripts{
		"echo.lua": echo, "main.lua": `local CMD = {}
		function CMD.go(echo)
			local log = {}
			local r = greenroom.request({echo, "late", 30, "c"}, {"/nobody", 1}, {echo, "late", 10, "a"})
			r:add{echo, "fail", "no"}:add{echo, "never"}:add{echo, print, function() end}
			for req, resp, err in r:select(20) do
				log[#log + 1] = resp and resp[3] or err
			end
			return unpack(log)
		end
		function CMD.none() for _ in greenroom.request():select() do return 1 end return 0 end
		function CMD.bad() return pcall(greenroom.request, {1}) end` + run,
	}, func(s stage) {
		echo, main := s.spawn("echo.lua"), s.spawn("main.lua")
		got := fmt.Sprint(s.call(main, "go", echo.PID()))
		at := 0
		for _, want := range []string{"actor stopped", "argument 3: a function cannot be sent", "no", "request not answered", "a", "deadline"} {
			i := strings.Index(got[at:], want)
			if i < 0 {
				t.Fatalf("%q is missing or too early in %s", want, got)
			}
			at += i
		}
		s.expect(0.0, main, "none")
		s.expect([]any{false, "main.lua:12: request: the first value must be an address"}, main, "bad")
	})
}

func TestSharedValuesAreSwapped(t *testing.T) {
	play(t, scripts{
		"main.lua": `local CMD = {}
		function CMD.price(name) local t = greenroom.shared("prices") return t and t[name], t == greenroom.shared("prices") end
		function CMD.spoil() greenroom.shared("prices").apple = 0 end` + run,
	}, func(s stage) {
		a := s.spawn("main.lua")
		b, err := s.rt.Spawn(s.System(), "b", "main.lua")
		if err != nil {
			t.Fatal(err)
		}
		s.expect([]any{nil, true}, a, "price", "apple")
		for _, price := range []float64{3, 4} {
			if err := s.rt.Share("prices", map[string]any{"apple": price}); err != nil {
				t.Fatal(err)
			}
			s.expect([]any{price, true}, a, "price", "apple")
			s.call(a, "spoil")
			s.expect([]any{price, true}, b, "price", "apple")
		}
		if err := s.rt.Share("prices", t); err == nil {
			t.Error("a *testing.T is shared")
		}
	})
}

func TestServicesAreBounded(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		rt, err := lua.Open(k.System(), lua.Config{Services: 3, Path: folder(scripts{"a.lua": `greenroom.dispatch(function(n)
			local err for i = 1, n do err = select(2, pcall(greenroom.newservice, "a.lua")) end greenroom.ret(err) end)`})})
		if err != nil {
			t.Fatal(err)
		}
		for range 3 { // each time there is room again
			ref, err := rt.Spawn(k.System(), "a", "a.lua")
			if err != nil {
				t.Fatal(err)
			}
			values, err := lua.Call(k.Context(), ref, 3)
			if err != nil || !strings.Contains(fmt.Sprint(values), "there are 3 services already") {
				t.Fatal(values, err)
			}
			ref.Stop()
			k.Settle()
		}
	})
}
