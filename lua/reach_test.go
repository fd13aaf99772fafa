package lua_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/actortest"
	"github.com/greenroom-go/greenroom/codec"
	"github.com/greenroom-go/greenroom/lua"
)

// reach has, for each function of the modules, how a service tries to get at those of another system, which has a service with the name
// .vault, the path /vault and the address vault, an actor of Go at /safe, and a shared value. each calls a function with all addresses of
// these. A function without a row fails the test; those of skynet that have none of their own have the row of greenroom.
var reach = map[string]string{
	"greenroom.send":          `each(function(a) M.send(a, "send") end)`,
	"greenroom.call":          `each(function(a) say(M.call(a, "call")) end)`,
	"greenroom.calltimeout":   `each(function(a) say(M.calltimeout(10, a, "call")) end)`,
	"greenroom.request":       `each(function(a) for _, answer, err in M.request{a, "request"}:add{a}:select(10) do say(answer and answer[1], err) end end)`,
	"greenroom.redirect":      `each(function(a) M.redirect(a, "redirect") end)`,
	"greenroom.kill":          `each(M.kill)`,
	"greenroom.watch":         `each(function(a) M.watch(a, say) end)`,
	"greenroom.link":          `each(M.link)`,
	"greenroom.name":          `each(function(a) M.name(".mine", a) end) say(M.query(".mine"))`,
	"greenroom.register":      `M.register(".vault") say(M.call(".vault", "ping"))`,
	"greenroom.query":         `say(M.query(".vault"), M.query("vault"), M.query(vault))`,
	"greenroom.localname":     `say(M.localname(".vault"), M.localname(vault))`,
	"greenroom.queryservice":  `each(function(a) say(M.queryservice(a)) end) say(M.queryservice("vault.lua"))`,
	"greenroom.uniqueservice": `each(function(a) say(M.uniqueservice(a)) end) say(M.uniqueservice("vault.lua"))`,
	"greenroom.newservice":    `each(function(a) say(M.newservice(a)) end) say(M.newservice("vault.lua"))`,
	"greenroom.shared":        `say(M.shared("secret"))`,
	"greenroom.pack":          `each(function(a) say(M.unpack(M.pack(a))) end)`,
	"greenroom.unpack":        `say(M.unpack(vault))`,
	"greenroom.response":      `local answer = M.response() M.fork(function() each(function(a) answer(true, M.call(a)) end) end)`,
	"greenroom.fork":          `each(function(a) M.fork(M.call, a, "call") M.fork(M.send, a, "send") end) M.sleep(1)`,
	"greenroom.timeout":       `each(function(a) M.timeout(0, function() say(M.call(a, "call")) end) end) M.sleep(1)`,
	"greenroom.killthread":    `each(M.killthread)`,
	"greenroom.wakeup":        `each(M.wakeup) M.wakeup("token")`,
	"greenroom.wait":          `M.timeout(1, function() M.wakeup(vault) end) M.wait(vault)`,
	"greenroom.stat":          `each(function(a) say(M.stat(a)) end) say(M.stat("mqlen", vault))`,
	"greenroom.info_func":     `M.info_func(function() return M.call(vault) end)`,
	"greenroom.error":         `M.error(vault)`,
	"greenroom.dispatch":      `M.dispatch("lua", handler)`,
	"greenroom.queue":         `M.queue()(M.call, vault, "call")`,
	"greenroom.int64":         `say(M.int64(1) + 1)`,

	"skynet.send":          `each(function(a) M.send(a, "lua", "send") end)`,
	"skynet.call":          `each(function(a) say(M.call(a, "lua", "call")) end)`,
	"skynet.redirect":      `each(function(a) M.redirect(a, a, "lua", 1, M.pack("redirect")) end)`,
	"skynet.getenv":        `say(M.getenv("secret"))`,
	"skynet.address":       `each(function(a) M.send(M.address(a), "lua", "send") end)`,
	"skynet.genid":         `M.redirect(vault, vault, "lua", M.genid(), M.pack(1))`,
	"skynet.queryservice":  `say(M.queryservice("vault"))`,
	"skynet.uniqueservice": `say(M.uniqueservice("vault"))`,
	"skynet.newservice":    `say(M.newservice("vault"))`,
	"skynet.dispatch":      `M.dispatch("lua", function(...) handler(select(3, ...)) end)`,
	"require":              `for _, name in ipairs{"vault", "/vault", ".vault", "secret", vault, "../vault"} do say(pcall(require, name)) end`,

	// They are about the service itself, or about no service.
	"greenroom.start": "", "greenroom.init": "", "greenroom.ret": "", "greenroom.ignoreret": "", "greenroom.sleep": "", "greenroom.yield": "",
	"greenroom.self": "", "greenroom.exit": "", "greenroom.now": "", "greenroom.hpc": "", "greenroom.time": "", "greenroom.starttime": "",
	"skynet.ret": "", "skynet.retpack": "", "skynet.mqlen": "", "skynet.packstring": "", "skynet.tostring": "", "skynet.trash": "",
}

const thief = `
	local skynet = require "skynet"
	local vault, M
	local said, names = {}, {}
	local function say(...) for i = 1, select("#", ...) do said[#said + 1] = tostring((select(i, ...))) end end
	local function each(f) for _, a in ipairs{vault, ".vault", "/vault", "/safe", "vault", "keys:vault"} do
		local ok, err = pcall(f, a)
		if not ok then say(err) end
	end end
	for name in pairs(skynet) do names[#names + 1] = "skynet." .. name end
	for name in pairs(greenroom) do names[#names + 1] = "greenroom." .. name end
	local rows = {}
	%s
	local function handler(cmd, row, address)
		vault, said = address, {}
		if cmd == "ping" then return greenroom.ret "pong" end
		if cmd == "names" then return greenroom.ret(names) end
		M = cmd:find("^skynet") and skynet or greenroom
		local ok, err = pcall(rows[row])
		greenroom.ret("says " .. table.concat(said, " ") .. " " .. tostring(err))
	end
	greenroom.dispatch(handler)`

// safe counts what it gets.
type safe struct{ got *atomic.Int64 }

func (s safe) Receive(*actor.Context[muteMsg], muteMsg) error {
	s.got.Add(1)
	return nil
}

// TestAServiceReachesNothingOfAnotherSystem has two systems of one name in the process, as tenants that must not know of each other have.
func TestAServiceReachesNothingOfAnotherSystem(t *testing.T) {
	var rows strings.Builder
	for name, attempt := range reach {
		fmt.Fprintf(&rows, "rows[%q] = function() %s end\n", name, attempt)
	}
	launch := func(files scripts) (*actor.System, *lua.Runtime) {
		t.Helper()
		sys := actortest.NewSystem(t, actor.WithWarnings(false))
		rt, err := lua.Open(sys, lua.Config{
			Path: folder(files), Types: codec.NewTypes(codec.Of[mute]("mute")), Mailboxes: []lua.Mailbox{lua.Asks[muteMsg, int]()},
		})
		if err != nil {
			t.Fatal(err)
		}
		return sys, rt
	}
	var got atomic.Int64
	victims, theirs := launch(scripts{"vault.lua": `
		local n = 0
		greenroom.register(".vault")
		greenroom.dispatch(function(cmd)
			if cmd == "count" then return greenroom.ret(n) end
			n = n + 1
			greenroom.ret("s3cret")
		end)`})
	if err := theirs.Share("secret", "s3cret"); err != nil {
		t.Fatal(err)
	}
	actor.Spawn(victims, "safe", func() safe { return safe{&got} })
	vault, err := theirs.Spawn(victims, "vault", "vault.lua")
	if err != nil {
		t.Fatal(err)
	}

	sys, rt := launch(scripts{"thief.lua": fmt.Sprintf(thief, rows.String())})
	spawn := func() actor.Ref[lua.Message] {
		t.Helper()
		ref, err := rt.Spawn(sys, "", "thief.lua")
		if err != nil {
			t.Fatal(err)
		}
		return ref
	}
	list, err := lua.Call(t.Context(), spawn(), "names")
	if err != nil {
		t.Fatal(err)
	}
	tried := map[string]bool{}
	for _, n := range append(list[0].(*lua.Table).List, "require") {
		name := n.(string)
		row, ok := name, false
		if _, ok = reach[row]; !ok {
			row = strings.Replace(name, "skynet.", "greenroom.", 1)
			_, ok = reach[row]
		}
		if tried[row] = true; !ok {
			t.Errorf("%s has no row", name)
			continue
		}
		ref := spawn()
		text := fmt.Sprint(only(lua.Call(t.Context(), ref, name, row, vault.String())))
		if !strings.HasPrefix(text, "says ") && text != "[]" || strings.Contains(text, "s3cret") {
			t.Errorf("%s: %s", name, text)
		}
		ref.Stop()
	}
	for name := range reach {
		if !tried[name] {
			t.Errorf("there is no %s", name)
		}
	}
	if n := only(lua.Call(t.Context(), vault, "count")); n != 0.0 || got.Load() != 0 {
		t.Errorf("%v messages have reached the service, and %d the actor of Go", n, got.Load())
	}
	if ref, ok := theirs.Find(".vault"); !ok || ref != vault {
		t.Errorf(".vault is %v", ref)
	}
}
