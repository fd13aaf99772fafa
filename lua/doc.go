// Package lua runs services written in Lua, as skynet does: for game logic that designers change,
// and for glue. A service is an actor like any other: it has a [actor.Ref], a mailbox, a supervisor
// and a place in the tree.
//
//	rt, err := lua.Open(sys, lua.Config{Path: os.DirFS("scripts")})
//	bank, err := rt.Spawn(sys, "bank", "bank.lua")
//	left, err := lua.Call(ctx, bank, "deposit", "ann", 10)
//
//	-- bank.lua
//	local greenroom = require "greenroom"
//	local accounts = {}
//	greenroom.start(function()
//	  greenroom.dispatch(function(cmd, name, n)
//	    accounts[name] = (accounts[name] or 0) + n
//	    greenroom.ret(accounts[name])
//	  end)
//	end)
//
// # Waiting
//
// greenroom.call and greenroom.sleep wait as [actor.Ask] does in a handler: the stack is set aside
// and the worker continues with other actors. The service is [actor.Reentrant]: while a handler
// waits, it handles its next messages, each on a Lua thread of its own. The service switches
// between handlers only where one waits, for example in call and sleep; after that the state may
// have changed. Waiting works anywhere, even in pcall, in a comparator of table.sort, in a
// metamethod and in a coroutine.
//
// A function that fails fails its message and not the service: its caller gets the error. A failure
// while the file is loaded or in start's function is a failure of the actor, and its supervisor
// decides.
//
// docs/guides/scripts.md has all functions, and what differs from skynet.
//
// # Values
//
// Values that go from one service to another are copied: nil, booleans, numbers, strings, tables
// and int64, up to 1 MiB a message and 32 tables deep. A function, a coroutine or a cycle is an
// error that says where it is. Numbers are doubles, as in Lua 5.1. A Go integer that a double
// cannot hold arrives as an int64, which has arithmetic and is never rounded; others are numbers.
//
// Go actors and scripts exchange the messages of the Go actors, which are tables in Lua: see
// [Mailbox] and [SpawnTyped].
//
// # The machine
//
// The language is Lua 5.1, run by gopher-lua, which the API does not expose, so that another
// implementation can replace it. Scripts have the base library without load, loadstring, loadfile,
// dofile, module, newproxy, getfenv, setfenv, collectgarbage and print; table, string, math and
// coroutine; and require, which knows the files of [Config].Path. A coroutine cannot yield across a
// Go function, such as pcall.
//
// # Limits
//
// A handler has a limited number of steps until it ends or waits, and a service has limited room
// for its values: see [Config]. Beyond that a handler fails with [ErrSteps], and the service
// continues, or with [ErrMemory], and the service is restarted. Only what a service keeps counts,
// not its garbage.
package lua
