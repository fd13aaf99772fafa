package lua_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing/fstest"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/codec"
	"github.com/greenroom-go/greenroom/lua"
)

func Example() {
	sys := actor.NewSystem("bank", actor.WithLogger(slog.New(slog.DiscardHandler)))
	defer func() { _, _ = sys.Shutdown(context.Background()) }()
	rt, err := lua.Open(sys, lua.Config{Path: fstest.MapFS{"bank.lua": {Data: []byte(`
		local greenroom = require "greenroom"
		local accounts = {}
		greenroom.dispatch(function(name, n)
			assert(n > 0, "deposit a positive amount")
			accounts[name] = (accounts[name] or 0) + n
			greenroom.ret(accounts[name])
		end)`)}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	bank, err := rt.Spawn(sys, "bank", "bank.lua")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(lua.Call(context.Background(), bank, "ann", 10))
	fmt.Println(lua.Call(context.Background(), bank, "ann", 5))
	fmt.Println(lua.Call(context.Background(), bank, "ann", -1))
	// Output:
	// [10] <nil>
	// [15] <nil>
	// [] deposit a positive amount
}

// A service of skynet: start passes the function that is called when the service has its callback, dispatch the one that gets
// its messages. Each service has a state, a callback and a queue of its own, and the workers give all of them their turns: one
// with a long queue, or in an endless loop, does not starve the others.
func Example_skynet() {
	sys := actor.NewSystem("peers", actor.WithLogger(slog.New(slog.DiscardHandler)), actor.WithAskTimeout(time.Minute))
	defer func() { _, _ = sys.Shutdown(context.Background()) }()
	rt, err := lua.Open(sys, lua.Config{Path: fstest.MapFS{"peer.lua": {Data: []byte(`
		local skynet = require "skynet"
		local CMD, handled = {}, 0
		function CMD.work() handled = handled + 1 end
		function CMD.handled() return handled end
		function CMD.loop() while true do end end
		skynet.start(function()
			skynet.dispatch("lua", function(session, source, cmd, ...)
				local result = CMD[cmd](...)
				if session > 0 then skynet.ret(skynet.pack(result)) end
			end)
		end)`)}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	var peers [2]actor.Ref[lua.Message]
	for i := range peers {
		if peers[i], err = rt.Spawn(sys, "", "peer.lua"); err != nil {
			fmt.Println(err)
			return
		}
	}
	for range 100 {
		_ = lua.Send(ctx, peers[0], "work")
	}
	looping := make(chan error)
	go func() {
		_, err := lua.Call(ctx, peers[0], "loop")
		looping <- err
	}()
	fmt.Println(lua.Call(ctx, peers[1], "handled"))
	err = <-looping
	fmt.Println(errors.Is(err, lua.ErrSteps), err)
	fmt.Println(lua.Call(ctx, peers[0], "handled"))
	// Output:
	// [0] <nil>
	// true peer.lua:6: out of steps: the handler neither ended nor waited in time
	// [100] <nil>
}

// A greeting has a script behind it, and Go does not notice.
func ExampleSpawnTyped() {
	type greet struct {
		actor.Returns[string]
		Who string
	}
	sys := actor.NewSystem("typed", actor.WithLogger(slog.New(slog.DiscardHandler)))
	defer func() { _, _ = sys.Shutdown(context.Background()) }()
	rt, err := lua.Open(sys, lua.Config{
		Path: fstest.MapFS{"greeter.lua": {Data: []byte(`
			local greenroom = require "greenroom"
			greenroom.dispatch(function(name, m) greenroom.ret("hello " .. m.who .. ", said " .. name) end)`)}},
		Types:     codec.NewTypes(codec.Of[greet]("greet")),
		Mailboxes: []lua.Mailbox{lua.Asks[greet, string]()},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	greeter, err := lua.SpawnTyped[greet](rt, sys, "greeter", "greeter.lua")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(actor.Ask(context.Background(), greeter, greet{Who: "Ann"}))
	// Output:
	// hello Ann, said greet <nil>
}
