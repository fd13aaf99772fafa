package lua_test

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/greenroom-go/greenroom/lua"
)

func sandbox(t testing.TB, source string, cfg lua.SandboxConfig) *lua.Sandbox {
	t.Helper()
	b, err := lua.NewSandbox("rule", source, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestASandboxCallsFunctionsWithAStateThatIsKept(t *testing.T) {
	var printed []string
	b := sandbox(t, `
		function count(r) self.n = (self.n or 0) + r.x; self.of = {r.name, r.big} print(self.n, r.on, nil) end
		function nothing() end
		function forget() self = {} end`, lua.SandboxConfig{Print: func(line string) { printed = append(printed, line) }})
	if !b.Has("count") || b.Has("other") {
		t.Error("it has count and no other")
	}
	r := &lua.Table{Fields: []lua.Field{{"x", int64(2)}, {"name", "a"}, {"big", int64(1) << 60}, {"on", true}, {"none", nil}}}
	var state []byte
	for range 2 {
		var err error
		if state, err = b.Call("count", state, r); err != nil {
			t.Fatal(err)
		}
	}
	got, err := lua.ParseState(state)
	want := &lua.Table{List: []any{}, Fields: []lua.Field{{"n", 4.0}, {"of", &lua.Table{List: []any{"a", int64(1) << 60}}}}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("state %+v, %v, want %+v", got, err, want)
	}
	if same, err := b.Call("nothing", state); err != nil || string(same) != string(state) {
		t.Errorf("a function that changes nothing leaves %q, %v", same, err)
	}
	if none, err := b.Call("forget", state); err != nil || none != nil {
		t.Errorf("an empty state is %q, %v", none, err)
	}
	if none, err := b.Call("nothing", nil); err != nil || none != nil {
		t.Errorf("no state is %q, %v", none, err)
	}
	if want := []string{"2\ttrue\tnil", "4\ttrue\tnil"}; !reflect.DeepEqual(printed, want) {
		t.Errorf("printed %q, want %q", printed, want)
	}
}

func TestHostsHaveMethodsAndFields(t *testing.T) {
	var got []any
	e := lua.Host{
		Methods: map[string]func([]any) (any, error){
			"set": func(args []any) (any, error) {
				got = args
				return "done", nil
			},
			"fail": func([]any) (any, error) { return nil, errors.New("it is closed") },
		},
		Field:  func(name string) any { return map[string]any{"id": "a", "n": int64(7)}[name] },
		Fields: map[string]lua.Host{"latest": {Field: func(name string) any { return name + "!" }}},
	}
	b := sandbox(t, `
		function on(e, want)
			assert(e.id == "a" and e.n == 7 and e.none == nil and e[1] == nil and e.latest.flow == "flow!", "fields")
			assert(e:set({x = 1, y = {1, 2}}, "z") == want, "methods")
		end
		function fail() local ok, why = pcall(function() e:fail() end) assert(not ok) error(why, 0) end
		function dot() e.set {x = 1} end
		function change() e.id = "b" end
		function meta() assert(getmetatable(e) == "e") setmetatable(e, {}) end`, lua.SandboxConfig{Hosts: map[string]lua.Host{"e": e}})
	if _, err := b.Call("on", nil, lua.HostName("e"), "done"); err != nil {
		t.Fatal(err)
	}
	want := []any{&lua.Table{List: []any{}, Fields: []lua.Field{{"x", 1.0}, {"y", &lua.Table{List: []any{1.0, 2.0}}}}}, "z"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	for function, text := range map[string]string{
		"fail": "e:fail: it is closed", "change": "e cannot be changed", "meta": "metatable",
		"dot": "e:set must be called with a colon",
	} {
		if _, err := b.Call(function, nil); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v, want %s", function, err, text)
		}
	}
}

func TestASandboxNamesTheLine(t *testing.T) {
	for what, c := range map[string]struct{ source, text string }{
		"syntax": {"local x = 1\nif x then\n", "rule"},
		"top":    {"local x = 1\nerror('no')\n", "rule:2: no"},
	} {
		_, err := lua.NewSandbox("rule", c.source, lua.SandboxConfig{})
		if failed, ok := errors.AsType[*lua.Error](err); !ok || !strings.Contains(failed.Text, c.text) {
			t.Errorf("%s: %v, want %s", what, err, c.text)
		}
	}
	b := sandbox(t, "function loop()\n  local n = 0\n  while true do\n    n = n + 1\n  end\nend\nfunction bad() local x = nil\n return x.y end", lua.SandboxConfig{Steps: 1000})
	_, err := b.Call("loop", nil)
	if !errors.Is(err, lua.ErrSteps) || !strings.Contains(err.Error(), "rule:") {
		t.Errorf("loop: %v", err)
	}
	_, err = b.Call("bad", nil)
	failed, ok := errors.AsType[*lua.Error](err)
	if !ok || !strings.HasPrefix(failed.Text, "rule:8:") || !strings.Contains(failed.Stack, "rule:8") {
		t.Errorf("bad: %v, %+v", err, failed)
	}
	if _, err := b.Call("none", nil); err == nil {
		t.Error("a function that there is not can be called")
	}
}

// Each script tries to get something that it must not have, or to take more than it may.
func TestASandboxGivesNothingAway(t *testing.T) {
	deep := `local t = {} local x = t for i = 1, 100 do x.x = {} x = x.x end self.t = t`
	for name, c := range map[string]struct {
		source string
		want   string
	}{
		"require":     {`require("os")`, "non-function"},
		"os":          {`os.exit(1)`, "nil"},
		"io":          {`io.open("/etc/passwd")`, "nil"},
		"load":        {`load("return 1")`, "non-function"},
		"greenroom":   {`greenroom.send(".x")`, "nil"},
		"print":       {`print(1)`, "non-function"},
		"steps":       {`while true do end`, lua.ErrSteps.Error()},
		"pcall":       {`while true do pcall(function() while true do end end) end`, lua.ErrSteps.Error()},
		"coroutines":  {`while true do coroutine.wrap(function() coroutine.yield() end)() end`, "out of"},
		"a pattern":   {`(("a"):rep(30)):find(("a*"):rep(30) .. "b")`, lua.ErrSteps.Error()},
		"a string":    {`local s = "x" while true do s = s .. s end`, lua.ErrMemory.Error()},
		"a state":     {deep, "deep"},
		"a function":  {`self.f = function() end`, "self cannot be kept"},
		"no table":    {`self = 1`, "self must be a table"},
		"many values": {`local t = {} for i = 1, 1e9 do t[i] = {} end`, lua.ErrMemory.Error()},
		"a host":      {`getmetatable(e).__index = nil`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			b := sandbox(t, "function f(e)\n"+c.source+"\nend", lua.SandboxConfig{Steps: 3_000_000, MemoryLimit: 1 << 20, Hosts: map[string]lua.Host{"e": {}}})
			_, err := b.Call("f", nil, lua.HostName("e"))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %s", err, c.want)
			}
		})
	}
}

func TestASandboxWithoutMemoryStaysSo(t *testing.T) {
	b := sandbox(t, `kept = {} function fill() for i = 1, 1e9 do kept[i] = {} end end function nothing() end`, lua.SandboxConfig{MemoryLimit: 1 << 20})
	for _, function := range []string{"fill", "nothing"} {
		if _, err := b.Call(function, nil); !errors.Is(err, lua.ErrMemory) {
			t.Errorf("%s: %v, want ErrMemory", function, err)
		}
	}
}

// What is given to calls is no leak of the account.
func TestManyCallsTakeNoMemory(t *testing.T) {
	b := sandbox(t, `function f(r) self.last = r.text end`, lua.SandboxConfig{MemoryLimit: 1 << 20})
	var state []byte
	for i := range 5000 {
		r := &lua.Table{Fields: []lua.Field{{"text", strings.Repeat("x", 1000) + fmt.Sprint(i)}}}
		var err error
		if state, err = b.Call("f", state, r); err != nil {
			t.Fatalf("call %d: %v", i, err)
		}
	}
}

func BenchmarkSandbox(b *testing.B) {
	e := lua.Host{Fields: map[string]lua.Host{"latest": {Field: func(string) any { return int64(7) }}}}
	box := sandbox(b, `function f(e, r) if r.temperature > 80 and e.latest.flow < 2 then self.n = (self.n or 0) + 1 end end`, lua.SandboxConfig{Steps: 100_000, Hosts: map[string]lua.Host{"e": e}})
	r := &lua.Table{Fields: []lua.Field{{"temperature", int64(81)}, {"pressure", 1.5}}}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := box.Call("f", nil, lua.HostName("e"), r); err != nil {
			b.Fatal(err)
		}
	}
}

// TestASandboxPaysForWhatItReads has a script read what costs Go much and the script little.
func TestASandboxPaysForWhatItReads(t *testing.T) {
	const items = 1000
	big := &lua.Table{List: make([]any, items)}
	for i := range big.List {
		big.List[i] = "x"
	}
	reads := 0
	e := lua.Host{
		Methods: map[string]func([]any) (any, error){"list": func([]any) (any, error) { reads++; return big, nil }},
		Field: func(name string) any {
			reads++
			if name == "far" {
				return lua.Worked{Value: "found", Steps: items}
			}
			return big
		},
	}
	b := sandbox(t, `function field() for i = 1, 1000 do local _ = e.big end end
		function far() for i = 1, 1000 do assert(e.far == "found") end end
		function method() for i = 1, 1000 do e:list() end end
		function argument(t) local n = 0 for i = 1, 100 do n = n + 1 end end`,
		lua.SandboxConfig{Steps: 20 * items, Hosts: map[string]lua.Host{"e": e}})
	for _, function := range []string{"field", "far", "method"} {
		reads = 0
		if _, err := b.Call(function, nil); !errors.Is(err, lua.ErrSteps) || reads == 0 || reads > 20 {
			t.Errorf("%s: %d reads, %v", function, reads, err)
		}
	}
	many := make([]any, 10)
	for i := range many {
		many[i] = big
	}
	if _, err := b.Call("argument", nil, &lua.Table{List: many}); !errors.Is(err, lua.ErrSteps) {
		t.Errorf("a large argument: %v", err)
	}
	if _, err := b.Call("argument", nil, big); err != nil {
		t.Errorf("a small argument: %v", err)
	}
}

// What an error ends is closed, and what goes on after pcall keeps its variables in common with its closures.
func TestVariablesAreSharedOverErrorsThatAreCaught(t *testing.T) {
	for name, source := range map[string]string{
		"pcall":       `local n = 0 local function f() n = n + 1 end f() pcall(error, "x") f() n = n + 1 f() assert(n == 4, n)`,
		"a table":     `local n = 0 local function f() n = n + 1 end pcall(function() error({}) end) f() assert(n == 1, n)`,
		"a fault":     `local n = 0 local function f() n = n + 1 end pcall(function() local t t.x = 1 end) f() assert(n == 1, n)`,
		"xpcall":      `local n = 0 local function f() n = n + 1 end xpcall(function() error("x") end, function() f() error("y") end) f() assert(n == 2, n)`,
		"nested":      `local n = 0 local function f() n = n + 1 end pcall(function() local m = 0 local function g() m = m + 1 end pcall(error, "x") g() f() assert(m == 1) error("y") end) f() assert(n == 2, n)`,
		"kept":        `local kept pcall(function() local m = 1 kept = function() m = m + 1 return m end error("x") end) local a, b, c, d = 7, 7, 7, 7 assert(kept() == 2 and kept() == 3 and a == 7 and d == 7)`,
		"kept, x":     `local kept xpcall(function() local m = 1 kept = function() m = m + 1 return m end error("x") end, function() end) local a, b, c, d = 7, 7, 7, 7 assert(kept() == 2 and kept() == 3 and a == 7 and d == 7)`,
		"a coroutine": `local n, kept = 0 local function f() n = n + 1 end local co = coroutine.create(function() local m = 1 kept = function() m = m + 1 return m end pcall(error, "x") f() error("y") end) assert(not coroutine.resume(co)) f() assert(n == 2 and kept() == 2)`,
		"overflow":    `local n, kept = 0 local function f() n = n + 1 end local function g() local m = 1 kept = function() m = m + 1 return m end f() return 1 + g() end assert(not pcall(g)) f() assert(n > 150 and kept() == 2)`,
		"many values": `local n, kept = 0 local function f() n = n + 1 end assert(not pcall(function() local m = 1 kept = function() m = m + 1 return m end f() local function g(...) local a = g(1, ...) return a end return g(unpack({}, 1, 5000)) end)) f() assert(n == 2 and kept() == 2)`,
	} {
		t.Run(name, func(t *testing.T) {
			b, err := lua.NewSandbox("shared.lua", "function run() "+source+" end function fail() local n = 0 kept = function() n = n + 1 return n end error('x') end function again() assert(kept() == 1) end", lua.SandboxConfig{})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := b.Call("run", nil); err != nil {
				t.Error(err)
			}
			if _, err := b.Call("fail", nil); err == nil {
				t.Error("fail has not failed")
			}
			if _, err := b.Call("again", nil); err != nil {
				t.Error(err)
			}
		})
	}
}
