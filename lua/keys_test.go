package lua_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/greenroom-go/greenroom/actortest"
	"github.com/greenroom-go/greenroom/lua"
)

// TestTablesThatShareKeysStayApart gives many small tables keys in all ways there are, and compares each with a list
// of pairs that does the same.
func TestTablesThatShareKeysStayApart(t *testing.T) {
	sys := actortest.NewSystem(t)
	rt, err := lua.Open(sys, lua.Config{Path: folder(scripts{"keys.lua": keysScript()})})
	if err != nil {
		t.Fatal(err)
	}
	ref, err := rt.Spawn(sys, "keys", "keys.lua")
	if err != nil {
		t.Fatal(err)
	}
	const tables = 6
	ops := []string{"constant", "delete", "constant delete", "insert", "dynamic", "rawset", "list", "fraction", "behind"}
	random := rand.New(rand.NewPCG(1, 2))
	for round := range 60 {
		models := make([]model, tables)
		for range 40 {
			n, op, key := random.IntN(tables), ops[random.IntN(len(ops))], 1+random.IntN(10)
			got, err := lua.Call(context.Background(), ref, round, n+1, op, key)
			if err != nil {
				t.Fatalf("%s %d: %v", op, key, err)
			}
			models[n].do(op, key)
			if want := models[n].String(); got[0] != want {
				t.Fatalf("round %d, table %d after %s %d: has %s, want %s", round, n, op, key, got[0], want)
			}
		}
	}
}

// keysScript keeps tables for the last round, and returns what pairs shows of one after it was changed.
func keysScript() string {
	var constants strings.Builder
	for i := 1; i <= 10; i++ {
		fmt.Fprintf(&constants, "set[%d], clear[%d] = function(t) t.k%d = %d end, function(t) t.k%d = nil end\n", i, i, i, i, i)
	}
	return `
	local set, clear, tables, current = {}, {}, {}, -1
	` + constants.String() + `
	local change = {
		constant = function(t, k) set[k](t) end,
		delete = function(t, k) t["k" .. k] = nil end,
		["constant delete"] = function(t, k) clear[k](t) end,
		insert = function(t, k) table.insert(t, -k, k) end,
		dynamic = function(t, k) t["k" .. k] = k end,
		rawset = function(t, k) rawset(t, "k" .. k, k) end,
		list = function(t, k) table.insert(t, k) end,
		fraction = function(t, k) t[k + 0.5] = k end,
		behind = function(t, k) set[k](setmetatable({}, {__newindex = t})) end,
	}
	greenroom.dispatch(function(round, n, op, k)
		if round ~= current then current, tables = round, {} for i = 1, 6 do tables[i] = {} end end
		local t = tables[n]
		change[op](t, k)
		t = greenroom.unpack(greenroom.pack(t)) -- a copy, whose keys come from a message
		local shown = {}
		for key, v in pairs(tables[n]) do
			assert(t[key] == v)
			shown[#shown + 1] = tostring(key) .. "=" .. v
		end
		for key in pairs(t) do assert(tables[n][key] ~= nil) end
		tables[n] = t -- only tables of messages and constructors share keys
		greenroom.ret(table.concat(shown, " "))
	end)`
}

// model is a table as pairs shows it: the list, and the fields in the order in which they first came.
type model struct {
	list   []int
	order  []string
	fields map[string]int
}

func (m *model) do(op string, key int) {
	name := fmt.Sprint("k", key)
	switch op {
	case "list":
		m.list = append(m.list, key)
		return
	case "fraction":
		name = fmt.Sprint(key) + ".5"
	case "insert":
		name = fmt.Sprint(-key)
	case "delete", "constant delete":
		delete(m.fields, name)
		m.order = slices.DeleteFunc(m.order, func(o string) bool { return o == name }) // the copy does not have it
		return
	}
	if m.fields == nil {
		m.fields = map[string]int{}
	}
	if !slices.Contains(m.order, name) {
		m.order = append(m.order, name)
	}
	m.fields[name] = key
}

func (m *model) String() string {
	var shown []string
	for i, v := range m.list {
		shown = append(shown, fmt.Sprint(i+1, "=", v))
	}
	for _, name := range m.order {
		if v, ok := m.fields[name]; ok {
			shown = append(shown, fmt.Sprint(name, "=", v))
		}
	}
	return strings.Join(shown, " ")
}
