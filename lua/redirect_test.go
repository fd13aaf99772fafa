package lua_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/lua"
)

func TestARedirectedRequestIsAnsweredByTheOther(t *testing.T) {
	files := scripts{
		"gate.lua": `
			local room, echo = greenroom.newservice("room.lua"), greenroom.newservice("echo.lua")
			local after
			greenroom.dispatch(function(cmd, ...)
				if cmd == "after" then return greenroom.ret(after) end
				if cmd == "slow" then greenroom.sleep(100) end
				if cmd == "ignored" then greenroom.ignoreret() end
				if cmd == "echo" then return greenroom.redirect(echo, ...) end
				greenroom.redirect(room, cmd, ...)
				greenroom.ret("the gate's")
				after = {pcall(greenroom.redirect, room, cmd)}
			end)`,
		"room.lua": `
			local told = 0
			greenroom.dispatch(function(cmd, n)
				if cmd == "fails" then error("the room fails") end
				if cmd == "silent" then return end
				if cmd == "tell" then told = told + n end
				greenroom.sleep(10)
				greenroom.ret("the room", cmd, told)
			end)`,
		"echo.lua":   `greenroom.dispatch(function(...) greenroom.ret(...) end)`,
		"caller.lua": `greenroom.dispatch(function(gate, ...) greenroom.ret(pcall(greenroom.call, gate, ...)) end)`,
		"later.lua": `
			local gate, ok, text = ...
			greenroom.fork(function() ok, text = pcall(greenroom.redirect, gate, "x") end)
			greenroom.dispatch(function() greenroom.ret(ok, text) end)`,
	}
	play(t, files, func(s stage) {
		gate := s.spawn("gate.lua")
		for _, cmd := range []string{"plain", "slow", "ignored"} {
			s.expect([]any{"the room", cmd, 0.0}, gate, cmd)
		}
		s.expect([]any{1.0, nil, "x"}, gate, "echo", 1, nil, "x")
		if err := lua.Send(s.Context(), gate, "tell", 5); err != nil {
			t.Fatal(err)
		}
		s.expect([]any{"the room", "plain", 5.0}, gate, "plain")
		caller := s.spawn("caller.lua")
		s.expect([]any{true, "the room", "plain", 5.0}, caller, gate.String(), "plain")
		if got := plain(s.call(gate, "after")).(map[any]any); got[1] != false || !strings.Contains(got[2].(string), "no message is being handled") {
			t.Errorf("a second redirect returns %v", got)
		}
		if _, err := lua.Call(s.Context(), gate, "fails"); err == nil || !strings.Contains(err.Error(), "room.lua:4: the room fails") {
			t.Errorf("the failure of the other is %v", err)
		}
		if _, err := lua.Call(s.Context(), gate, "silent"); !errors.Is(err, actor.ErrUnhandled) {
			t.Errorf("without an answer: %v", err)
		}
		later := s.spawn("later.lua", gate.String())
		if got := s.call(later).([]any); got[0] != false || !strings.Contains(got[1].(string), "no message is being handled") {
			t.Errorf("a function that was forked redirects: %v", got)
		}
	})
}

// A message that was redirected counts for the service that it waits for, and not any more for the one that has redirected it; an answer
// counts once, however many a service gives.
func TestRedirectedMessagesAndSecondAnswersAreCounted(t *testing.T) {
	play(t, scripts{
		"gate.lua": `
			local to = greenroom.newservice("busy.lua")
			greenroom.register(".gate")
			greenroom.dispatch(function(cmd)
				if cmd == "big" then
					return greenroom.redirect(to, ("x"):rep(1e6))
				end
				for i = 1, 100 do greenroom.ret(("x"):rep(1e5)) end
			end)`,
		"busy.lua": `greenroom.dispatch(function(text) greenroom.sleep(10) greenroom.ret(#text) end)`,
		"asks.lua": `greenroom.dispatch(function(n, cmd)
			local sum = 0
			for i = 1, n do
				local answer = greenroom.call(".gate", cmd)
				sum = sum + (cmd == "big" and answer or #answer)
			end
			greenroom.ret(sum)
		end)`,
	}, func(s stage) {
		s.spawn("gate.lua")
		asks := s.spawn("asks.lua")
		s.expect(40e6, asks, 40, "big") // more than may wait at once
		s.expect(4e5, asks, 4, "many")
		s.expect(40e6, asks, 40, "big")
	})
}

// What a service redirects may be given up by its caller at any time.
func TestACallerMayGiveUpWhatIsRedirected(t *testing.T) {
	t.Parallel()
	sys := actor.NewSystem("redirects")
	rt := open(t, sys, scripts{
		"gate.lua": `local to = greenroom.newservice("echo.lua") greenroom.dispatch(function(n) greenroom.redirect(to, n) end)`,
		"echo.lua": `greenroom.dispatch(function(n) greenroom.ret(n) end)`,
		"asks.lua": `greenroom.dispatch(function(gate)
			local sum = 0
			for i = 1, 300 do
				local ok, n = pcall(greenroom.calltimeout, i % 2, gate, 1)
				if ok then sum = sum + n end
			end
			greenroom.ret(sum)
		end)`,
	})
	gate, err := rt.Spawn(sys, "gate", "gate.lua")
	if err != nil {
		t.Fatal(err)
	}
	asks, err := rt.Spawn(sys, "asks", "asks.lua")
	if err != nil {
		t.Fatal(err)
	}
	v, err := lua.Call(t.Context(), asks, gate.String())
	if n := only(v, err); err != nil || n.(float64) < 1 || n.(float64) > 300 {
		t.Errorf("%v of 300 calls have an answer, %v", n, err)
	}
	if _, err := sys.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
}
