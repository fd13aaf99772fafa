package lua_test

import (
	"fmt"
	"testing"
	"testing/fstest"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/actortest"
	"github.com/greenroom-go/greenroom/lua"
)

// skynetServices are written as for skynet, and run as they are: what its own test services exercise of this API.
var skynetServices = map[string]string{
	// What the start function of skynet.lua does: it runs once the service takes messages, and may wait.
	"main.lua": `
		local skynet = require "skynet"
		require "skynet.manager"
		skynet.start(function()
			local db = skynet.newservice("simpledb", "arg")
			skynet.name(".db", db)
			assert(skynet.localname(".db") == db)
			skynet.call(".db", "lua", "set", "a", {1, 2})
			local t = skynet.call(db, "lua", "get", "a")
			assert(t[1] == 1 and t[2] == 2)
			assert(skynet.uniqueservice("simpledb") == skynet.queryservice("simpledb"))
			skynet.register(".main")
		end)`,
	"simpledb.lua": `
		local skynet = require "skynet"
		local db, command = {}, {}
		function command.GET(key) return db[key] end
		function command.SET(key, value) local last = db[key] db[key] = value return last end
		skynet.start(function()
			skynet.dispatch("lua", function(session, address, cmd, ...)
				local f = command[cmd:upper()]
				if f then skynet.ret(skynet.pack(f(...)))
				else error(string.format("Unknown command %s from %s", cmd, address == "-" and "outside" or "a service"), 0) end
			end)
			skynet.register(".simpledb" .. skynet.self():match("#(%w+)$"))
		end)`,
	// testresponse: answers are kept and given later, one of them as an error, and to one who is gone.
	"response.lua": `
		local skynet = require "skynet"
		local kept = {}
		skynet.start(function()
			skynet.dispatch("lua", function(session, address, cmd)
				assert(session > 0)
				kept[#kept + 1] = skynet.response()
				if #kept == 3 then
					skynet.timeout(100, function()
						kept[1](true, "first") kept[2](false) kept[3](true, "third", 3)
					end)
				end
			end)
		end)`,
	// testqueue: handlers that wait in a critical section do not mix.
	"queue.lua": `
		local skynet = require "skynet"
		local queue = require "skynet.queue"
		local cs, log = queue(), {}
		skynet.start(function()
			skynet.dispatch("lua", function(session, address, n)
				if n == 0 then return skynet.retpack(table.concat(log, " ")) end
				cs(function() log[#log + 1] = n skynet.sleep(10) log[#log + 1] = n end)
				skynet.retpack()
			end)
		end)`,
	// testtimer, testdeadcall, testselect, in one.
	"tests.lua": `
		local skynet = require "skynet"
		local T = {}
		function T.timer()
			local log, begin = {}, skynet.now()
			for i = 3, 1, -1 do skynet.timeout(i * 10, function() log[#log + 1] = i end) end
			local co = coroutine.running()
			local token = {}
			skynet.fork(function() skynet.sleep(50) skynet.wakeup(token) end)
			skynet.wait(token)
			return log[1], log[2], log[3], skynet.now() - begin
		end
		function T.dead()
			local s = skynet.newservice("exits")
			local ok = pcall(skynet.call, s, "lua", "exit")
			skynet.yield()
			return ok, (pcall(skynet.call, s, "lua", "again"))
		end
		function T.select()
			local a, b = skynet.newservice("late", 20), skynet.newservice("late", 10)
			local log = {}
			for req, resp in skynet.request{a, "a"}:add{b, "b"}:select() do log[#log + 1] = resp[1] end
			return unpack(log)
		end
		function T.types() return (pcall(skynet.send, skynet.self(), "socket", 1)), skynet.address(skynet.self()) == skynet.self() end
		skynet.start(function()
			skynet.dispatch("lua", function(session, address, name) skynet.retpack(T[name]()) end)
		end)`,
	// What is passed on with redirect, and the small functions of skynet.core.
	"agent.lua": `
		local skynet = require "skynet"
		local db = ...
		skynet.start(function()
			skynet.dispatch("lua", function(session, source, cmd, ...)
				if cmd == "set" or cmd == "get" then
					skynet.ignoreret()
					return skynet.redirect(db, source, "lua", session, skynet.pack(cmd, ...))
				elseif cmd == "forged" then
					return skynet.ret(skynet.packstring((pcall(skynet.redirect, db, db, "lua", session, skynet.pack("get")))))
				end
				local first, begin, msg = skynet.genid(), skynet.hpc(), skynet.pack(cmd)
				skynet.sleep(2)
				skynet.trash(msg, #msg)
				skynet.retpack(skynet.genid() > first, skynet.hpc() - begin, skynet.unpack(skynet.tostring(msg, #msg)), skynet.getenv("zone"))
			end)
		end)`,
	"exits.lua": `
		local skynet = require "skynet"
		skynet.start(function() skynet.dispatch("lua", function() skynet.exit() end) end)`,
	"late.lua": `
		local skynet = require "skynet"
		local ti = ...
		skynet.start(function() skynet.dispatch("lua", function(_, _, v) skynet.sleep(ti) skynet.retpack(v) end) end)`,
}

func skynetPath() fstest.MapFS {
	path := fstest.MapFS{}
	for name, source := range skynetServices {
		path[name] = &fstest.MapFile{Data: []byte(source)}
	}
	return path
}

func TestSkynetServicesRunAsTheyAre(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		rt, err := lua.Open(k.System(), lua.Config{Path: skynetPath()})
		if err != nil {
			t.Fatal(err)
		}
		spawn := func(file string) actor.Ref[lua.Message] {
			ref, err := rt.Spawn(k.System(), file, file)
			if err != nil {
				t.Fatal(err)
			}
			return ref
		}
		s := stage{k, rt}
		spawn("main.lua")
		if _, ok := rt.Find(".main"); !ok {
			t.Error("the start has not come to its end")
		}
		db, _ := rt.Find(".db")
		s.expect(nil, db, "get", "nothing")
		s.expect("error: Unknown command drop from outside", db, "drop")

		later := spawn("response.lua")
		var got [3]chan any
		for i := range got {
			got[i] = make(chan any, 1)
			go func() { got[i] <- s.call(later, "wait") }()
			k.Settle()
		}
		k.Advance(time.Second)
		for i, want := range []string{"first", "error: refused", "[third 3]"} {
			if v := fmt.Sprint(<-got[i]); v != want {
				t.Errorf("answer %d is %v, not %v", i, v, want)
			}
		}

		queue := spawn("queue.lua")
		for i := range got {
			go func() { got[i] <- s.call(queue, i+1) }()
			k.Settle()
		}
		for i := range got {
			<-got[i]
		}
		s.expect("1 1 2 2 3 3", queue, 0)

		if err := rt.Share("zone", "east"); err != nil {
			t.Fatal(err)
		}
		agent, err := rt.Spawn(k.System(), "agent", "agent.lua", db.String())
		if err != nil {
			t.Fatal(err)
		}
		s.expect(nil, agent, "set", "b", 7)
		s.expect(7.0, agent, "get", "b")
		s.expect(7.0, db, "get", "b")
		s.expect(false, agent, "forged")
		s.expect([]any{true, 2e7, "small", "east"}, agent, "small")

		tests := spawn("tests.lua")
		s.expect([]any{1.0, 2.0, 3.0, 50.0}, tests, "timer")
		s.expect([]any{false, false}, tests, "dead")
		s.expect([]any{"b", "a"}, tests, "select")
		s.expect([]any{false, true}, tests, "types")
	})
}
