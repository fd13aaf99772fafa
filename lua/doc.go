// Package lua runs services that are written in Lua, in the manner of skynet: for game logic that
// designers change, and for glue. A service is an actor like any other: it has a [actor.Ref], a
// mailbox, a supervisor and a place in the tree.
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
// and the worker goes on with others. The service is [actor.Reentrant]: while a handler waits it
// handles its next messages, each on a Lua thread of its own. Handlers change places only where
// one waits, in call and sleep for example; after that the state may be another. Waiting works
// anywhere, also in pcall, in a comparator of table.sort, in a metamethod and in a coroutine.
//
// A function that fails fails its message and not the service: who has called it gets the error.
// What fails while the file is loaded or in start's function is a failure of the actor, and its
// supervisor's to decide about.
//
// docs/guides/scripts.md has all functions, and what differs from skynet.
//
// # Values
//
// What goes from one service to another is copied: nil, booleans, numbers, strings, tables and
// int64, up to 1 MiB a message and 32 tables deep. A function, a coroutine or a cycle is an error
// that names where it stands. Numbers are doubles, as in Lua 5.1; an integer of Go that a double
// cannot hold arrives as an int64, which has arithmetic and is never rounded; others are numbers.
//
// Actors of Go and scripts talk in the messages of the former, which are tables there: see [Mailbox] and [SpawnTyped].
//
// # The machine
//
// The language is Lua 5.1 by gopher-lua, of which nothing is visible here, so that another one can
// take its place. Scripts have the base library without load, loadstring, loadfile, dofile, module, newproxy,
// getfenv, setfenv, collectgarbage and print; table, string, math and coroutine; and require, which knows the
// files of [Config].Path. A coroutine cannot yield across a function of Go, as pcall is one.
//
// # Limits
//
// A handler has a number of steps until it ends or waits, and a service has room for its values: see [Config]. What wants
// more fails with [ErrSteps], and the service goes on, or with [ErrMemory], and the service is restarted. What a
// service keeps is what counts, not its garbage.
package lua
