package lua

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"

	glua "github.com/yuin/gopher-lua"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/actortest"
)

func TestAnotherLayoutIsRefused(t *testing.T) {
	if err := checkLayout(); err != nil {
		t.Fatal(err)
	}
	type moved struct {
		array     []glua.LValue //nolint:unused // its place counts
		Metatable glua.LValue
	}
	type short struct{ Metatable glua.LValue }
	type typed struct {
		Metatable glua.LValue
		array     map[glua.LValue]glua.LValue //nolint:unused // its type counts
	}
	for _, theirs := range []reflect.Type{reflect.TypeFor[moved](), reflect.TypeFor[short](), reflect.TypeFor[typed](), nil} {
		if err := compareLayout(reflect.TypeFor[tableLayout](), theirs); err == nil {
			t.Errorf("%v passes for a table", theirs)
		}
	}
}

func TestConfigIsChecked(t *testing.T) {
	sys := actortest.NewSystem(t)
	path := fstest.MapFS{}
	for _, c := range []struct {
		cfg  Config
		want string
	}{
		{Config{}, "Path must say where scripts are"},
		{Config{Path: path, Steps: -1}, "Steps must be 0 or more, not -1"},
		{Config{Path: path, MemoryLimit: 5}, "MemoryLimit must be 0 or at least 1048576 bytes, not 5"},
	} {
		if _, err := Open(sys, c.cfg); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.cfg, err, c.want)
		}
	}
}

func TestStepsAreOfTheHandlerAndExact(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		const source = `
			local greenroom, n = require "greenroom", 0
			greenroom.dispatch(function(cmd)
				if cmd == "count" then return greenroom.ret(n) end
				n = 0
				if cmd == "wait" then
					for _ = 1, 3 do
						for i = 1, 300 do end
						greenroom.sleep(1)
					end
					return greenroom.ret("waited")
				end
				while true do n = n + 1 end
			end)`
		rt, err := Open(k.System(), Config{Steps: 1000, Path: fstest.MapFS{"a.lua": {Data: []byte(source)}}})
		if err != nil {
			t.Fatal(err)
		}
		ref, err := rt.Spawn(k.System(), "a", "a.lua")
		if err != nil {
			t.Fatal(err)
		}
		var counts [2]any
		for i := range counts {
			_, err := Call(k.Context(), ref, "loop")
			var failed *Error
			if !errors.Is(err, ErrSteps) || !errors.As(err, &failed) || !strings.HasPrefix(failed.Text, "a.lua:13:") {
				t.Fatalf("a loop ends with %v", err)
			}
			values, err := Call(k.Context(), ref, "count")
			if err != nil {
				t.Fatal(err)
			}
			counts[i] = values[0]
		}
		if counts[0] != counts[1] || counts[0] == 0.0 {
			t.Errorf("the loop was run %v and %v times", counts[0], counts[1])
		}
		if values, err := Call(k.Context(), ref, "wait"); err != nil || values[0] != "waited" {
			t.Errorf("who waits in between gets %v, %v", values, err)
		}
	})
}

func TestMemoryEndsTheServiceAndItStartsAgain(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		const source = `
			local greenroom, kept = require "greenroom", {}
			greenroom.dispatch(function(cmd, n)
				if cmd == "keep" then
					for i = 1, n do kept[#kept + 1] = ("x"):rep(1000) .. i end
				elseif cmd == "drop" then kept = {}
				end
				greenroom.ret(#kept)
			end)`
		rt, err := Open(k.System(), Config{MemoryLimit: 4 << 20, Path: fstest.MapFS{"a.lua": {Data: []byte(source)}}})
		if err != nil {
			t.Fatal(err)
		}
		ref, err := rt.Spawn(k.System(), "a", "a.lua")
		if err != nil {
			t.Fatal(err)
		}
		call := func(args ...any) (any, error) {
			values, err := Call(k.Context(), ref, args...)
			if err != nil {
				return nil, err
			}
			return values[0], nil
		}
		// What is dropped makes room: ten times as much as there is goes through.
		for range 20 {
			if n, err := call("keep", 2000); err != nil || n != 2000.0 {
				t.Fatal(n, err)
			}
			if _, err := call("drop"); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := call("keep", 100_000); !errors.Is(err, ErrMemory) {
			t.Fatalf("too much is %v", err)
		}
		k.ExpectFailures(1)
		if n, err := call("keep", 1); err != nil || n != 1.0 {
			t.Errorf("after that the service has %v, %v", n, err)
		}
	})
}

// FuzzScript runs whatever compiles: it must end within its limits, and nothing may panic outside of the script.
func FuzzScript(f *testing.F) {
	for _, source := range []string{
		`local t = {} for i = 1, 10 do t[i] = i .. "" end return table.concat(t)`,
		`return ("x"):gsub(".", {x = 1}), pcall(error, {}), coroutine.wrap(function(...) coroutine.yield(...) end)(1)`,
		`local t = setmetatable({}, {__index = function(t, k) return k end, __newindex = {}}) t[1] = t.x`,
		`for k, v in pairs(_G) do require("greenroom").pack(tostring(v), k) end`,
		`goto a ::a:: repeat local x = -2 ^ 3 % 4 until not x == #"x" or 1 < 2`,
	} {
		f.Add(source)
	}
	sys := actortest.NewSystem(f, actor.WithWarnings(false))
	f.Fuzz(func(t *testing.T, source string) {
		rt, err := Open(sys, Config{Steps: 20_000, MemoryLimit: 1 << 20, Path: fstest.MapFS{"f.lua": {Data: []byte(source)}}})
		if err != nil {
			t.Fatal(err)
		}
		ref, err := rt.Spawn(sys, "", "f.lua")
		if err != nil {
			return
		}
		ref.Stop()
		if _, err := ref.Wait(context.Background()); err != nil {
			t.Fatal(err)
		}
	})
}

// FuzzPattern matches anything with anything.
func FuzzPattern(f *testing.F) {
	for _, c := range [][2]string{
		{"hello world", "(%w+) ()%f[%a]"}, {"a(b)c", "%b()"}, {"aaa", "^a-(.*)%1$"}, {"x]y", "[^]%w-]+"}, {"", ".?"},
	} {
		f.Add(c[0], c[1])
	}
	f.Fuzz(func(t *testing.T, src, pat string) {
		l := glua.NewState(glua.Options{SkipOpenLibs: true})
		defer l.Close()
		s := &service{root: l, meter: newMeter(Config{Steps: 100_000, MemoryLimit: 1 << 30}, new(atomic.Bool), func(*walker) {})}
		for _, function := range []string{"find", "match", "gsub"} {
			l.Push(l.NewFunction(s.strings()[function]))
			l.Push(glua.LString(src))
			l.Push(glua.LString(pat))
			l.Push(glua.LString("<%0>"))
			n := 2
			if function == "gsub" {
				n = 3
			}
			if function != "gsub" {
				l.Pop(1)
			}
			err := l.PCall(n, glua.MultRet, nil)
			var failed *glua.ApiError
			if errors.As(err, &failed) && failed.Type == glua.ApiErrorPanic {
				t.Fatalf("%s(%q, %q): %v", function, src, pat, err)
			}
			l.SetTop(0)
		}
	})
}

func TestAFloodedServiceHoldsUpNoOther(t *testing.T) {
	sys := actortest.NewSystem(t, actor.WithWarnings(false))
	const source = `local greenroom = require "greenroom"
		greenroom.dispatch(function(n) for i = 1, n do end greenroom.ret(n) end)`
	rt, err := Open(sys, Config{Path: fstest.MapFS{"a.lua": {Data: []byte(source)}}})
	if err != nil {
		t.Fatal(err)
	}
	var flooded, quiet actor.Ref[Message]
	for name, ref := range map[string]*actor.Ref[Message]{"flooded": &flooded, "quiet": &quiet} {
		if *ref, err = rt.Spawn(sys, name, "a.lua"); err != nil {
			t.Fatal(err)
		}
	}
	for range 500 {
		if err := Send(t.Context(), flooded, 50_000); err != nil {
			t.Fatal(err)
		}
	}
	for range 10 {
		if _, err := Call(t.Context(), quiet, 1); err != nil {
			t.Fatal(err)
		}
	}
	if left, ok := flooded.Backlog(); !ok || left == 0 {
		t.Error("the quiet one has had to wait for the flooded one")
	}
	flooded.Kill()
}

func TestAnswersThatNobodyTakesAreBounded(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		const source = `local greenroom = require "greenroom"
			greenroom.dispatch(function(cmd)
				if cmd == "much" then return greenroom.ret(("x"):rep(1e6)) end
				local fitted, refused = 0, 0
				local function ask() -- all wait at once, and are answered before any goes on
					local ok, err = pcall(greenroom.call, greenroom.self(), "much")
					if ok then fitted = fitted + 1 elseif err:find("16 MiB of messages") then refused = refused + 1 end
				end
				for i = 1, 100 do greenroom.fork(ask) end
				greenroom.sleep(100)
				greenroom.ret(fitted, refused)
			end)`
		rt, err := Open(k.System(), Config{MemoryLimit: 256 << 20, Path: fstest.MapFS{"a.lua": {Data: []byte(source)}}})
		if err != nil {
			t.Fatal(err)
		}
		ref, err := rt.Spawn(k.System(), "a", "a.lua")
		if err != nil {
			t.Fatal(err)
		}
		for range 2 { // what was taken makes room
			values, err := Call(k.Context(), ref, "ask")
			if err != nil {
				t.Fatal(err)
			}
			if sum := values[0].(float64) + values[1].(float64); sum != 100 || values[0] == 0.0 {
				t.Errorf("%v were answered and %v refused", values[0], values[1])
			}
		}
		a := rt.accountOf(ref.PID())
		if n := a.unhandled.Load(); n != 0 {
			t.Errorf("%d bytes are counted when nothing waits", n)
		}
	})
}

// TestAnAnswerIsCountedWhileItIsOnItsWay has the ends of an ask in all orders.
func TestAnAnswerIsCountedWhileItIsOnItsWay(t *testing.T) {
	a := &account{}
	body := make([]byte, 1000)
	late := &asked{asker: a}
	late.finish(context.DeadlineExceeded)
	sent := false
	if err := late.reply(body, func(answer) { sent = true }); err != nil || !sent || a.unhandled.Load() != 0 {
		t.Errorf("an answer that nobody waits for: %v, %v, %d bytes", err, sent, a.unhandled.Load())
	}
	inTime := &asked{asker: a}
	if err := inTime.reply(body, func(answer) {
		if a.unhandled.Load() == 0 {
			t.Error("it is not counted on its way")
		}
	}); err != nil {
		t.Fatal(err)
	}
	inTime.finish(nil)
	if n := a.unhandled.Load(); n != 0 {
		t.Errorf("%d bytes are counted of an answer that was taken", n)
	}
	a.unhandled.Store(maxUnhandled)
	if err := (&asked{asker: a}).reply(body, func(answer) { t.Error("it is sent") }); err == nil {
		t.Error("there is no room, and yet no error")
	}
}

func TestThreadsThatHaveGrownAreNotKept(t *testing.T) {
	sys := actortest.NewSystem(t)
	const source = `
		local greenroom = require "greenroom"
		local function nothing(...) end
		greenroom.dispatch(function(n) nothing(unpack({}, 1, n)) greenroom.ret(n) end)`
	rt, err := Open(sys, Config{Path: fstest.MapFS{"a.lua": {Data: []byte(source)}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ values, kept int }{{10, 1}, {7000, 0}} {
		s := &service{rt: rt, file: "a.lua", account: &account{}, answers: &account{}}
		ref, err := actor.TrySpawn(sys, "", func() *service { return s }, actor.Reentrant())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Call(t.Context(), ref, c.values); err != nil {
			t.Fatal(err)
		}
		ref.Stop()
		if _, err := ref.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		if len(s.idle) != c.kept {
			t.Errorf("%d threads are kept that had %d values", len(s.idle), c.values)
		}
	}
}
