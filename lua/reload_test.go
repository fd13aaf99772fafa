package lua_test

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/actortest"
	"github.com/greenroom-go/greenroom/lua"
)

// files is a path whose files change.
type files struct {
	stage
	path fstest.MapFS
}

func playFiles(t *testing.T, first scripts, f func(s files)) {
	t.Helper()
	path := folder(first)
	actortest.Run(t, func(k *actortest.Kit) {
		rt, err := lua.Open(k.System(), lua.Config{Path: path})
		if err != nil {
			k.T().Fatal(err)
		}
		f(files{stage{k, rt}, path})
	})
}

// write changes a file.
func (s files) write(name, source string) {
	s.path[name] = folder(scripts{name: source})[name]
}

// reload reloads a file and returns what was done in its only service.
func (s files) reload(r lua.Reload) lua.ReloadedService {
	s.T().Helper()
	done, err := s.rt.Reload(s.Context(), r)
	if err != nil {
		s.T().Fatal(err)
	}
	if len(done.Services) != 1 {
		s.T().Fatalf("%d services are reloaded", len(done.Services))
	}
	return done.Services[0]
}

// shop has its functions in all places that a reload finds.
const shop = `
	local stock, CMD, limit = {apple = 3}, {}, 10
	local seen = 0
	local function price(sku) return 1 end
	local callbacks = {}
	function CMD.add(sku, n) stock[sku] = (stock[sku] or 0) + n; return stock[sku] end
	function CMD.price(sku) return price(sku) end
	function CMD.limit() return limit end
	function CMD.watch() callbacks[#callbacks + 1] = price; local saved = CMD.add; callbacks[#callbacks + 1] = function(...) return saved(...) end end
	function CMD.callbacks() return callbacks[1]("x"), callbacks[2]("apple", 0) end
	function CMD.seen() return seen, total end
	function CMD.slow() local before = price("x"); greenroom.sleep(100); return before, price("x"), "old" end
	function named() return "old" end
	function CMD.named() return named() end
	total = 100
	greenroom.start(function()
		greenroom.register(".shop")
		greenroom.dispatch(function(cmd, ...) seen = seen + 1; total = total + 1; greenroom.ret(CMD[cmd](...)) end)
	end)`

// betterShop is another version of it.
var betterShop = strings.NewReplacer(
	"return 1 end", "return 2 end", `return stock[sku]`, `return "now " .. stock[sku]`, `"old"`, `"new"`,
	"stock, CMD, limit = {apple = 3}, {}, 10", "stock, CMD, limit, bonus = {apple = 3, pear = 9}, {}, 99, 7",
	"function CMD.limit", "function CMD.bonus() return bonus, limit end function CMD.limit",
	"seen = seen + 1; total", "seen = seen + 10; total", "total = 100", "total = 0",
).Replace(shop)

func TestReloadChangesTheCodeAndKeepsTheState(t *testing.T) {
	playFiles(t, scripts{"shop.lua": shop}, func(s files) {
		ref := s.spawn("shop.lua")
		s.expect(5.0, ref, "add", "apple", 2)
		s.expect([]any(nil), ref, "watch")
		slow := make(chan any, 1)
		go func() { slow <- s.call(ref, "slow") }()
		s.Settle()
		s.write("shop.lua", betterShop)

		dry := s.reload(lua.Reload{File: "shop.lua", Dry: true})
		s.expect(5.0, ref, "add", "apple", 0)
		done := s.reload(lua.Reload{File: "shop.lua", Who: "ann"})
		if fmt.Sprint(dry) != fmt.Sprint(done) {
			t.Errorf("a dry run says\n%+v, and then it is\n%+v", dry, done)
		}
		for _, name := range []string{"start", "dispatch", "price", "named", "CMD.add", "CMD.slow", "CMD.watch/1"} {
			if !slices.Contains(done.Mended, name) {
				t.Errorf("%s is not among those with new code: %v", name, done.Mended)
			}
		}
		if want := []string{"CMD.bonus", "bonus"}; !slices.Equal(done.Added, want) || len(done.Left) > 0 || !slices.Contains(done.Joined, "stock") {
			t.Errorf("added %v, left %v, joined %v", done.Added, done.Left, done.Joined)
		}

		s.expect("now 6", ref, "add", "apple", 1)
		s.expect("now 1", ref, "add", "pear", 1)
		s.expect(2.0, ref, "price", "x")
		s.expect([]any{7.0, 10.0}, ref, "bonus")
		s.expect([]any{2.0, "now 6"}, ref, "callbacks")
		s.expect("new", ref, "named")
		s.Advance(time.Second)
		if got := fmt.Sprint(<-slow); got != "[1 2 old]" {
			t.Errorf("a handler that has waited ends with %s: its own code is old, what it calls is new", got)
		}
		s.expect([]any{4 + 6*10.0 + 10, 100.0 + 4 + 7}, ref, "seen")

		versions := s.rt.Versions("shop.lua")
		if len(versions) != 2 || versions[0].Who != "ann" || versions[1].Hash != done.From {
			t.Fatalf("versions %+v", versions)
		}
		s.reload(lua.Reload{File: "shop.lua", To: versions[1].Hash[:5]})
		s.expect(7.0, ref, "add", "apple", 1)
		s.expect([]any{7.0, 10.0}, ref, "bonus") // what the file has no more stays
		if now := s.rt.Versions("shop.lua"); now[0].Hash != versions[1].Hash || len(now) != 2 {
			t.Errorf("versions %+v", now)
		}
	})
}

func TestReloadThatFailsChangesNothing(t *testing.T) {
	playFiles(t, scripts{"shop.lua": shop, "other.lua": ""}, func(s files) {
		ref := s.spawn("shop.lua")
		first := s.rt.Versions("shop.lua")[0].Hash
		for source, says := range map[string]string{
			"x = = 1":                     "syntax error",
			"error('no')":                 "no",
			"while true do end":           "out of steps",
			betterShop + " error('late')": "late",
			betterShop + " function on_reload(old) assert(#old == 12) error('not so') end": "not so",
		} {
			s.write("shop.lua", source)
			done, err := s.rt.Reload(s.Context(), lua.Reload{File: "shop.lua"})
			if err == nil && len(done.Services) == 1 {
				err = done.Services[0].Err
			}
			if err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("%.20q…: %v, not %q", source, err, says)
			}
			s.expect(1.0, ref, "price", "x")
			s.expect(3.0, ref, "add", "apple", 0)
			if v := s.rt.Versions("shop.lua")[0]; v.Hash != first {
				t.Errorf("%.20q…: the version %v is in force", source, v)
			}
		}
		for r, says := range map[lua.Reload]string{
			{File: "none.lua"}:               "file does not exist",
			{File: "shop.lua", To: "xyz"}:    `no known version is "xyz"`,
			{File: "other.lua", To: "000"}:   "no known version",
			{}:                               `script ""`,
			{File: strings.Repeat("x", 300)}: "file does not exist",
		} {
			if _, err := s.rt.Reload(s.Context(), r); err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("%v: %v, not %q", r, err, says)
			}
		}
	})
}

// start starts a service without a name.
func (s files) start(file string, args ...any) actor.Ref[lua.Message] {
	s.T().Helper()
	ref, err := s.rt.Spawn(s.System(), "", file, args...)
	if err != nil {
		s.T().Fatal(err)
	}
	s.T().Cleanup(ref.Stop)
	return ref
}

func TestReloadOfAModuleAndOnReload(t *testing.T) {
	playFiles(t, scripts{
		"lib/money.lua": `local M, calls = {}, 0 function M.tax(n) calls = calls + 1 return n * 0.1, calls end return M`,
		"a.lua":         `local money = require "lib.money" local tax = money.tax greenroom.dispatch(function(n) greenroom.ret(tax(n)) end)`,
		"counter.lua":   `local state = {n = 0} greenroom.dispatch(function() state.n = state.n + 1 greenroom.ret(state.n) end)`,
	}, func(s files) {
		a, b := s.start("a.lua"), s.start("a.lua")
		s.expect([]any{1.0, 1.0}, a, 10)
		s.write("lib/money.lua", `local M, calls = {}, 0 function M.tax(n) calls = calls + 1 return n * 0.2, calls end return M`)
		done, err := s.rt.Reload(s.Context(), lua.Reload{File: "lib/money.lua"})
		if err != nil || len(done.Services) != 2 {
			t.Fatal(done, err)
		}
		s.expect([]any{2.0, 2.0}, a, 10)
		s.expect([]any{2.0, 1.0}, b, 10)

		counter := s.start("counter.lua")
		s.expect(1.0, counter)
		s.write("counter.lua", `local state = {count = 0} greenroom.dispatch(function() state.count = state.count + 1 greenroom.ret(state.count) end)
			function on_reload() state.count, state.n = state.n, nil end`)
		s.reload(lua.Reload{File: "counter.lua"})
		s.expect(2.0, counter)
	})
}

// counting is a service that counts before and after it has waited, and says with which code.
const counting = `
	local begun, ended, waiting = 0, 0, {}
	local CMD = {}
	function CMD.add(id)
		begun = begun + 1
		waiting[id] = true
		greenroom.wait(id)
		waiting[id] = nil
		ended = ended + 1
		return "VERSION"
	end
	function CMD.wake(id) return greenroom.wakeup(id) end
	function CMD.sums() local n = 0 for _ in pairs(waiting) do n = n + 1 end return begun, ended, n, "VERSION" end
	greenroom.dispatch(function(cmd, ...) greenroom.ret(CMD[cmd](...)) end)`

func TestReloadUnderLoadLosesNothing(t *testing.T) {
	const handlers, reloads = 100, 2
	sys := actortest.NewSystem(t, actor.WithAskTimeout(time.Hour)) // handlers wait until all reloads are done
	version := func(n int) []byte {
		return []byte("local greenroom = require 'greenroom' " + strings.ReplaceAll(counting, "VERSION", fmt.Sprint(n)))
	}
	path := changing{files: fstest.MapFS{"c.lua": &fstest.MapFile{Data: version(0)}}}
	rt, err := lua.Open(sys, lua.Config{Path: &path})
	if err != nil {
		t.Fatal(err)
	}
	ref, err := rt.Spawn(sys, "c", "c.lua")
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	type answer struct {
		wave int
		got  any
	}
	answers := make(chan answer, handlers*(reloads+1))
	begun := 0
	add := func(wave int) {
		for range handlers {
			begun++
			id := begun
			go func() { answers <- answer{wave, only(lua.Call(ctx, ref, "add", id))} }()
		}
		for {
			if got := only(lua.Call(ctx, ref, "sums")); got.([]any)[0] == float64(begun) {
				return
			}
		}
	}
	stop, told := make(chan struct{}), make(chan int)
	go func() { // load meanwhile
		n := 0
		defer func() { told <- n }()
		for {
			select {
			case <-stop:
				return
			default:
			}
			if _, err := lua.Call(ctx, ref, "sums"); err != nil {
				t.Error(err)
				return
			}
			n++
		}
	}()
	add(0)
	for i := 1; i <= reloads; i++ {
		path.files = fstest.MapFS{"c.lua": &fstest.MapFile{Data: version(i)}} // nobody reads meanwhile
		done, err := rt.Reload(ctx, lua.Reload{File: "c.lua"})
		if err != nil || len(done.Services) != 1 || done.Services[0].Err != nil {
			t.Fatalf("%+v, %v", done, err)
		}
		add(i)
	}
	for id := 1; id <= begun; id++ {
		if got := only(lua.Call(ctx, ref, "wake", id)); got != true {
			t.Fatalf("nobody waits for %d: %v", id, got)
		}
	}
	for range begun {
		if a := <-answers; a.got != fmt.Sprint(a.wave) {
			t.Errorf("a handler that began with the code %d answers %v", a.wave, a.got)
		}
	}
	close(stop)
	n := <-told
	want := []any{float64(begun), float64(begun), 0.0, fmt.Sprint(reloads)}
	if got := only(lua.Call(ctx, ref, "sums")); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("in the end %v, not %v, after %d calls", got, want, n)
	}
}

// changing is a path whose files are replaced.
type changing struct{ files fstest.MapFS }

func (c *changing) Open(name string) (fs.File, error) { return c.files.Open(name) }
