package lua_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/internal/soaktest"
	"github.com/greenroom-go/greenroom/lua"
	"github.com/greenroom-go/greenroom/sim"
)

// transfers are two accounts and a clerk who moves money between them, a bit of a program with calls in all directions.
var transfers = scripts{
	"account.lua": `local left, cs, CMD = ..., greenroom.queue(), {}
		function CMD.add(n)
			return cs(function()
				local before = left
				greenroom.yield()
				assert(before + n >= 0, "not enough")
				left = before + n
				return left
			end)
		end
		function CMD.left() return left end` + run,
	"clerk.lua": `local CMD = {}
		function CMD.move(from, to, n)
			greenroom.sleep(math.random(3))
			local ok, err = pcall(greenroom.call, from, "add", -n)
			if not ok then return false end
			for k, v in pairs{a = 1, b = 2, [from] = 3, [to] = 4} do greenroom.send(greenroom.self(), "note", k, v) end
			return greenroom.call(to, "add", n) >= 0
		end
		function CMD.note() end` + run,
	// What the queue is for: without it money appears and disappears.
	"careless.lua": `local left, CMD = ..., {}
		function CMD.add(n)
			local before = left
			greenroom.yield()
			assert(before + n >= 0, "not enough")
			left = before + n
			return left
		end
		function CMD.left() return left end` + run,
}

// transfer moves money between two accounts of a file in a simulated world, and fails it if the sum changes.
func transfer(w *sim.World, file string) {
	rt, err := lua.Open(w.System(), lua.Config{Path: folder(transfers), Steps: 100_000})
	if err != nil {
		w.Fatalf("%v", err)
	}
	names := [2]string{"a", "b"}
	for _, name := range names {
		if _, err := rt.Spawn(w.System(), name, file, 100); err != nil {
			w.Fatalf("%v", err)
		}
	}
	clerk, err := rt.Spawn(w.System(), "clerk", "clerk.lua")
	if err != nil {
		w.Fatalf("%v", err)
	}
	for i := range 4 {
		from, to := names[i%2], names[(i+1)%2]
		if err := lua.Send(w.Context(), clerk, "move", "/"+from, "/"+to, 60); err != nil {
			w.Fatalf("%v", err)
		}
	}
	w.Advance(1e9)
	w.Settle()
	sum := 0.0
	for _, name := range names {
		ref, ok := find(w, name)
		if !ok {
			w.Fatalf("%s is gone", name)
		}
		values, err := lua.Call(w.Context(), ref, "left")
		if err != nil {
			w.Fatalf("%v", err)
		}
		sum += values[0].(float64)
	}
	if sum != 200 {
		w.Fatalf("the sum is %v", sum)
	}
}

func TestSimScriptsAreReplayed(t *testing.T) {
	sim.Check(t, sim.Options{Runs: soaktest.Rounds(t, 60, 1000), TwiceEvery: 2}, func(w *sim.World) { transfer(w, "account.lua") })
}

func TestSimFindsWhatAQueueIsFor(t *testing.T) {
	failure, found := sim.Find(t, sim.Options{Runs: 200}, func(w *sim.World) { transfer(w, "careless.lua") })
	if !found || !strings.Contains(failure.Text, "the sum is") {
		t.Errorf("found: %v, %s", found, fmt.Sprint(failure.Text))
	}
}

// find returns a service of a world by its name.
func find(w *sim.World, name string) (actor.Ref[lua.Message], bool) {
	ref, err := actor.LookupPath[lua.Message](w.System(), "/"+name)
	return ref, err == nil
}
