package lua_test

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/actortest"
	"github.com/greenroom-go/greenroom/lua"
)

// A list that has become longer is sorted as far as it went; any other change is an error.
func TestAListThatIsSortedWhileOthersChangeItLosesNothing(t *testing.T) {
	const list = `
		local list = {}
		for i = 1, 20 do list[i] = i * 7 % 20 end
		greenroom.dispatch(function(cmd)
			if cmd == "sort" then
				return greenroom.ret(pcall(table.sort, list, function(a, b) greenroom.sleep(1) return a < b end))
			elseif cmd == "remove" then table.remove(list, 1)
			elseif cmd == "insert" then for i = 1, 100 do list[#list + 1] = 100 + i end
			elseif cmd == "swap" then table.remove(list) list[#list + 1] = 100
			end
			local known = {}
			for i, v in ipairs(list) do known[v] = true assert(type(v) == "number") end
			greenroom.ret(#list, list[#list])
		end)`
	for change, want := range map[string][2]any{"remove": {19.0, 0.0}, "insert": {120.0, 200.0}, "swap": {20.0, 100.0}, "": {20.0, 19.0}} {
		t.Run("change "+change, func(t *testing.T) {
			play(t, scripts{"list.lua": list}, func(s stage) {
				ref := s.spawn("list.lua")
				sorted := make(chan any, 1)
				go func() { sorted <- only(lua.Call(s.Context(), ref, "sort")) }()
				s.Settle()
				if change != "" {
					s.call(ref, change)
				}
				result := <-sorted
				text := ""
				if values, ok := result.([]any); ok {
					text, _ = values[1].(string)
				}
				if changed := change != "" && change != "insert"; strings.Contains(text, "changed while it was sorted") != changed {
					t.Errorf("sort returns %v", result)
				}
				s.expect([]any{want[0], want[1]}, ref, "")
			})
		})
	}
}

// slowPath has a file that is read when gate is closed.
type slowPath struct {
	fs.FS
	gate, reached chan struct{}
}

func (p slowPath) Open(name string) (fs.File, error) {
	if name == "slow.lua" {
		close(p.reached)
		<-p.gate
	}
	return p.FS.Open(name)
}

func TestCallsThatAreGivenUpCountUntilTheyAreHandled(t *testing.T) {
	sys := actortest.NewSystem(t, actor.WithWarnings(false))
	path := slowPath{folder(scripts{
		"busy.lua": `greenroom.dispatch(function(cmd) if cmd == "slow" then require "slow" end greenroom.ret(0) end)`,
		"slow.lua": ``,
		"ask.lua": `greenroom.dispatch(function(busy)
			local s, n, err = ("x"):rep(1e6), 0
			while n < 40 do
				local _, e = pcall(greenroom.calltimeout, 1, busy, s)
				if tostring(e):find("mailbox is full") then break end
				n = n + 1
			end
			greenroom.ret(n)
		end)`,
	}), make(chan struct{}), make(chan struct{})}
	rt, err := lua.Open(sys, lua.Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	refs := map[string]actor.Ref[lua.Message]{}
	for _, name := range []string{"busy", "ask"} {
		if refs[name], err = rt.Spawn(sys, name, name+".lua"); err != nil {
			t.Fatal(err)
		}
	}
	if err := lua.Send(t.Context(), refs["busy"], "slow"); err != nil {
		t.Fatal(err)
	}
	<-path.reached
	given := only(lua.Call(t.Context(), refs["ask"], "/busy"))
	close(path.gate)
	if n, ok := given.(float64); !ok || n < 10 || n > 16 {
		t.Fatalf("%v calls of a megabyte wait in a mailbox of 16", given)
	}
	// Those that were handled have made room.
	if got := only(lua.Call(t.Context(), refs["busy"], "")); got != 0.0 {
		t.Fatal(got)
	}
	if got := only(lua.Call(t.Context(), refs["ask"], "/busy")); got != 40.0 {
		t.Errorf("then %v calls have room", got)
	}
}

func TestWhatIsRefusedBeforeItIsSentDoesNotCount(t *testing.T) {
	var closed atomic.Bool
	refuse := actor.BeforeSend(func(_ context.Context, m *actor.Sending) error {
		if closed.Load() && m.To.Path() == "/target" {
			return errors.New("closed")
		}
		return nil
	})
	sys := actortest.NewSystem(t, actor.WithWarnings(false), refuse)
	rt := open(t, sys, scripts{
		"target.lua": `greenroom.dispatch(function() greenroom.ret(true) end)`,
		"source.lua": `greenroom.dispatch(function(how, n)
			local s, err = ("x"):rep(1e6), nil
			for i = 1, n do _, err = pcall(greenroom[how], "/target", s) end
			greenroom.ret(err)
		end)`,
	})
	var source actor.Ref[lua.Message]
	for _, name := range []string{"target", "source"} {
		ref, err := rt.Spawn(sys, name, name+".lua")
		if err != nil {
			t.Fatal(err)
		}
		source = ref
	}
	for _, how := range []string{"send", "call"} {
		closed.Store(true)
		if text, _ := only(lua.Call(t.Context(), source, how, 40)).(string); !strings.Contains(text, "closed") {
			t.Errorf("%s of what is refused ends with %q", how, text)
		}
		closed.Store(false)
		if got := only(lua.Call(t.Context(), source, "call", 1)); got != true {
			t.Errorf("after %s a call ends with %v", how, got)
		}
	}
}

func TestHandlersRequireWhatAnotherOneLoads(t *testing.T) {
	files := scripts{
		"a.lua":    `greenroom.dispatch(function(name) local m = require(name) m.n = m.n + 1 greenroom.ret(m.n) end)`,
		"slow.lua": `greenroom.sleep(5) return {n = 0}`,
		"self.lua": `return require "other"`, "other.lua": `greenroom.sleep(1) return require "self"`,
	}
	play(t, files, func(s stage) {
		ref := s.spawn("a.lua")
		answers := make(chan any, 2)
		for range 2 {
			go func() { answers <- only(lua.Call(s.Context(), ref, "slow")) }()
		}
		if sum := [2]any{<-answers, <-answers}; sum != [2]any{1.0, 2.0} && sum != [2]any{2.0, 1.0} {
			t.Errorf("two handlers have %v of one module", sum)
		}
		for range 2 {
			if text, _ := s.call(ref, "self").(string); !strings.Contains(text, "module self requires itself") {
				t.Errorf("a module that requires itself is %q", text)
			}
		}
	})
}
