package lua_test

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/actortest"
	"github.com/greenroom-go/greenroom/cluster"
	"github.com/greenroom-go/greenroom/codec"
	"github.com/greenroom-go/greenroom/lua"
)

// cartMessage is what a cart accepts.
type cartMessage interface{ cart() }

type (
	cartAdd struct {
		actor.Returns[int]
		SKU  string
		N    int `lua:"n"`
		Note *string
	}
	cartTotal struct{ actor.Returns[cartSum] }
	cartSum   struct {
		Items []cartItem
		Big   int64
		By    map[int]string
		At    time.Time
	}
	cartItem struct {
		SKU   string `cbor:"sku"`
		N     uint8
		Price float64 `json:"price,omitempty"`
	}
	cartClear struct {
		Because string
		Big     int64
	}
)

func (cartAdd) cart()    {}
func (cartTotal) cart()  {}
func (*cartClear) cart() {}

var errSoldOut = errors.New("sold out")

// cartConfig has the messages of a cart.
func cartConfig() lua.Config {
	return lua.Config{
		Types: codec.NewTypes(
			codec.Of[cartAdd]("cart.add"), codec.Of[cartTotal]("cart.total"), codec.Of[*cartClear]("cart.clear"), codec.Of[cartSum]("cart.sum"),
			codec.Sentinel("cart.sold-out", errSoldOut),
		),
		Mailboxes: []lua.Mailbox{lua.Asks[cartMessage, int](), lua.Asks[cartMessage, cartSum]()},
	}
}

// cart is in Go.
type cart struct {
	sum   cartSum
	clear *cartClear
}

func (c *cart) Receive(ctx *actor.Context[cartMessage], m cartMessage) error {
	switch m := m.(type) {
	case cartAdd:
		if m.SKU == "pear" {
			return actor.Refuse(ctx, fmt.Errorf("no pears: %w", errSoldOut))
		}
		c.sum.Items = append(c.sum.Items, cartItem{m.SKU, uint8(m.N), 1.5})
		actor.Reply(ctx, m, len(c.sum.Items))
	case cartTotal:
		actor.Reply(ctx, m, c.sum)
	case *cartClear:
		c.sum.Items, c.clear = nil, m
	}
	return nil
}

func playTyped(t *testing.T, files scripts, f func(s stage)) {
	t.Helper()
	actortest.Run(t, func(k *actortest.Kit) {
		cfg := cartConfig()
		cfg.Path = folder(files)
		rt, err := lua.Open(k.System(), cfg)
		if err != nil {
			k.T().Fatal(err)
		}
		f(stage{k, rt})
	})
}

// remote is a service that sends and calls what it is told to.
const remote = `greenroom.dispatch(function(how, ...)
	if how == "sum" then return greenroom.ret(greenroom.call(..., "cart.total")) end
	local values = {pcall(greenroom[how], ...)}
	if type(values[2]) == "table" and values[2].name then values[2] = values[2].name .. ": " .. values[2] end
	greenroom.ret(unpack(values, 1, table.maxn(values)))
end)`

func TestTypedMessagesReachActorsOfGo(t *testing.T) {
	playTyped(t, scripts{"main.lua": remote}, func(s stage) {
		c := &cart{sum: cartSum{Big: math.MaxInt64, By: map[int]string{7: "seven", -1: "none"}, At: time.Unix(0, 0).UTC()}}
		ref := actor.Spawn(s.System(), "cart", func() *cart { return c })
		main := s.spawn("main.lua")
		s.expect([]any{true, 1.0}, main, "call", "/cart", "cart.add", map[string]any{"sku": "apple", "n": 3})
		s.expect([]any{true, 2.0}, main, "call", ref.PID(), "cart.add", map[string]any{"sku": "plum", "n": 1, "note": "ripe"})
		want := map[any]any{
			"items": map[any]any{
				1: map[any]any{"sku": "apple", "n": 3.0, "price": 1.5}, 2: map[any]any{"sku": "plum", "n": 1.0, "price": 1.5},
			},
			"big": int64(math.MaxInt64), "by": map[any]any{"7": "seven", "-1": "none"}, "at": "1970-01-01T00:00:00Z",
		}
		if got := plain(s.call(main, "sum", "/cart")); !reflect.DeepEqual(got, want) {
			t.Errorf("the sum is\n%v, not\n%v", got, want)
		}
		s.expect(true, main, "send", "/cart", "cart.clear", map[string]any{"because": "old", "big": int64(math.MaxInt64 - 1)})
		s.Settle()
		if c.clear == nil || *c.clear != (cartClear{"old", math.MaxInt64 - 1}) {
			t.Errorf("the cart was sent %v", c.clear)
		}
	})
}

func TestTypedMessagesThatDoNotFitAreErrorsWithThePath(t *testing.T) {
	files := scripts{
		"main.lua": remote,
		// what Go cannot send
		"odd.lua": `greenroom.dispatch(function() greenroom.ret(pcall(greenroom.call, "/cart", "cart.add", {sku = "a", n = 2^53 + 2})) end)`,
		"fun.lua": `greenroom.dispatch(function() greenroom.ret(pcall(greenroom.call, "/cart", "cart.add", {sku = print or pcall, n = 1})) end)`,
	}
	playTyped(t, files, func(s stage) {
		actor.Spawn(s.System(), "cart", func() *cart { return &cart{} })
		actor.SpawnFunc(s.System(), "stranger", func(*actor.Context[string], string) error { return nil })
		main := s.spawn("main.lua")
		fields := func(kv ...any) map[string]any {
			m := map[string]any{}
			for i := 0; i < len(kv); i += 2 {
				m[kv[i].(string)] = kv[i+1]
			}
			return m
		}
		for _, tt := range []struct {
			args []any
			says string
		}{
			{[]any{"call", "/cart", "cart.add", fields("sku", "a", "n", 1, "m", 2)}, "argument 3: there is no field m: it has sku, n, note"},
			{[]any{"call", "/cart", "cart.add", fields("sku", "a", "n", 1.5)}, "argument 3.n: it must be an integer, not 1.5"},
			{[]any{"call", "/cart", "cart.add", fields("sku", "a", "n", math.NaN())}, "argument 3.n: it must be an integer, not NaN"},
			{[]any{"call", "/cart", "cart.add", fields("n", 1)}, "argument 3.sku: it must be given: a string"},
			{[]any{"call", "/cart", "cart.add", fields("sku", 1, "n", 1)}, "argument 3.sku: it must be a string, not a number"},
			{[]any{"call", "/cart", "cart.add"}, "argument 3.sku: it must be given"},
			{[]any{"call", "/cart", "cart.add", []any{1}}, "argument 3: there is no field 1"},
			{[]any{"call", "/cart", "cart.add", true}, "argument 3: it must be a table, not a boolean"},
			{[]any{"call", "/cart", "cart.sub", fields()}, `argument 2: no message has the name "cart.sub"`},
			{[]any{"call", "/cart", 7}, "argument 2: it must be the name of a message, not a number"},
			{[]any{"call", "/cart"}, "a message to an actor of Go is a name and a table, not 0 values"},
			{[]any{"call", "/cart", "cart.clear", fields("because", "", "big", 0)}, "cart.clear has no answer"},
			{[]any{"send", "/cart", "cart.sum", fields("items", []any{}, "big", 0, "by", fields(), "at", "2026-01-01T00:00:00Z")}, "cart.sum is not one of its messages"},
			{[]any{"send", "/cart", "cart.sum", fields("big", 0, "at", "noon")}, "argument 3.at: it is no time.Time"},
			{[]any{"send", "/cart", "cart.sum", fields("big", 0, "items", []any{fields("sku", "a", "n", 256)})}, "argument 3.items.1.n: 256 is no uint8"},
			{[]any{"send", "/cart", "cart.sum", fields("big", 0, "by", fields("x", "y"))}, `argument 3.by.x: a key must be an integer, not "x"`},
			{[]any{"call", "/cart", "cart.add", fields("sku", "pear", "n", 1)}, "cart.sold-out: main.lua:"},
			{[]any{"call", "/stranger", "cart.total"}, "no lua.Config.Mailboxes has its messages"},
			{[]any{"call", "/nobody", "cart.total"}, "actor stopped"},
		} {
			if got := fmt.Sprint(s.call(main, tt.args...)); !strings.Contains(got, "false ") || !strings.Contains(got, tt.says) {
				t.Errorf("%v: %s, not %q", tt.args, got, tt.says)
			}
		}
		for file, says := range map[string]string{
			"odd.lua": "argument 3.n: 9.007199254740994e+15 may have been rounded: an integer beyond 2^53 must be an int64",
			"fun.lua": "argument 3.sku: a function cannot be sent",
		} {
			if got := fmt.Sprint(s.call(s.spawn(file))); !strings.Contains(got, says) {
				t.Errorf("%s: %s, not %q", file, got, says)
			}
		}
	})
}

func TestTypedScriptIsAnActorOfItsMessages(t *testing.T) {
	playTyped(t, scripts{"cart.lua": `
		local items, CMD = {}, {}
		CMD["cart.add"] = function(m)
			if m.sku == "pear" then error{name = "cart.sold-out", message = "no pears"} end
			if m.sku == "slow" then greenroom.sleep(1000) end
			if m.sku == "odd" then return 1.5 end
			if m.sku == "silent" then return end
			if m.sku == "none" then greenroom.ignoreret() return end
			items[#items + 1] = {sku = m.sku, n = m.n}
			return #items
		end
		CMD["cart.total"] = function(m) assert(next(m) == nil) return {items = items, big = greenroom.int64("9007199254740993"), at = "2026-01-01T00:00:00Z"} end
		CMD["cart.clear"] = function(m) items = {{sku = m.because, n = 1}} if m.because == "exit" then greenroom.exit() end end
		greenroom.dispatch(function(name, m) greenroom.ret(CMD[name](m)) end)`}, func(s stage) {
		ref, err := lua.SpawnTyped[cartMessage](s.rt, s.System(), "cart", "cart.lua")
		if err != nil {
			t.Fatal(err)
		}
		ask := func(sku string) (int, error) {
			return actor.Ask(s.Context(), ref, cartAdd{SKU: sku, N: 2}, actor.Within(time.Minute))
		}
		if n, err := ask("apple"); n != 1 || err != nil {
			t.Error(n, err)
		}
		if n, err := ask("slow"); n != 2 || err != nil {
			t.Errorf("a handler that waits longer than the system's timeout answers %d, %v", n, err)
		}
		if _, err := ask("pear"); !errors.Is(err, errSoldOut) || !strings.Contains(err.Error(), "no pears") {
			t.Errorf("the sentinel that was raised is %v", err)
		}
		for sku, says := range map[string]string{
			"odd": "argument 1: it must be an integer, not 1.5", "silent": "argument 1: it must be given", "none": "not answered",
		} {
			if _, err := ask(sku); err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("%s: %v, not %q", sku, err, says)
			}
		}
		sum, err := actor.Ask(s.Context(), ref, cartTotal{})
		if want := []cartItem{{"apple", 2, 0}, {"slow", 2, 0}}; err != nil || !reflect.DeepEqual(sum.Items, want) || sum.Big != 1<<53+1 || sum.At.Year() != 2026 {
			t.Errorf("%+v, %v", sum, err)
		}
		ref.Tell(s.Context(), &cartClear{Because: "old"})
		if n, err := ask("plum"); n != 2 || err != nil {
			t.Error(n, err)
		}
		_ = s.System().Restart(ref.PID()) // what follows shows it
		s.Settle()
		if n, err := ask("apple"); n != 1 || err != nil {
			t.Errorf("after a restart: %d, %v", n, err)
		}
		ended := make(chan actor.Down, 1)
		s.System().AfterEnd(ref.PID(), func(d actor.Down) { ended <- d })
		ref.Tell(s.Context(), &cartClear{Because: "exit"})
		if down := <-ended; down.Reason != actor.Stopped {
			t.Errorf("it ends with its script by %v", down)
		}
	})
}

func TestTypedNamesOfErrorsCrossServices(t *testing.T) {
	playTyped(t, scripts{
		"main.lua":  `greenroom.dispatch(function(to) local ok, err = pcall(greenroom.call, to) greenroom.ret(err.name, tostring(err), "-" .. err) end)`,
		"third.lua": `greenroom.dispatch(function() greenroom.call(greenroom.newservice "bad.lua") end)`,
		"bad.lua":   `greenroom.dispatch(function() error{name = "cart.sold-out", message = "empty"} end)`,
	}, func(s stage) {
		got, _ := s.call(s.spawn("main.lua"), s.spawn("third.lua").PID()).([]any)
		if len(got) != 3 || got[0] != "cart.sold-out" || !strings.Contains(fmt.Sprint(got[1]), "main.lua:1: call") || got[2] != "-"+fmt.Sprint(got[1]) {
			t.Errorf("%v", got)
		}
	})
}

func TestTypedRequestsGoOutTogether(t *testing.T) {
	playTyped(t, scripts{"main.lua": `greenroom.dispatch(function()
		local out = {}
		for req, answer, err in greenroom.request{"/cart", "cart.add", {sku = "a", n = 1}}:add{"/cart", "cart.add", {sku = "pear", n = 1}}:add{"/cart", "x"}:select() do
			out[#out + 1] = answer and answer[1] or type(err) == "table" and err.name or err
		end
		table.sort(out, function(a, b) return tostring(a) < tostring(b) end)
		greenroom.ret(out)
	end)`}, func(s stage) {
		actor.Spawn(s.System(), "cart", func() *cart { return &cart{} })
		s.expect(&lua.Table{List: []any{1.0, `argument 2: no message has the name "x"`, "cart.sold-out"}}, s.spawn("main.lua"))
	})
}

func TestTypedVirtualActorsHaveAddresses(t *testing.T) {
	playTyped(t, scripts{"main.lua": remote}, func(s stage) {
		carts, err := cluster.Register(cluster.Alone(s.System()), "cart", func(string) *cart { return &cart{} })
		if err != nil {
			t.Fatal(err)
		}
		main := s.spawn("main.lua")
		for _, key := range []string{"user-42", "a/b#c*d%e", "$x", "b:c"} {
			s.expect([]any{true, 1.0}, main, "call", "cart:"+key, "cart.add", map[string]any{"sku": "a", "n": 1})
			if sum, err := actor.Ask(s.Context(), carts.Ref(key), cartTotal{}); err != nil || len(sum.Items) != 1 {
				t.Errorf("the cart %s has %v, %v", key, sum.Items, err)
			}
		}
		if got := fmt.Sprint(s.call(main, "call", "shop:1", "cart.total")); !strings.Contains(got, "an address is") {
			t.Errorf("a kind that is not there: %s", got)
		}
	})
}

func TestTypedMessagesDoNotFillAMailbox(t *testing.T) {
	playTyped(t, scripts{"main.lua": `greenroom.dispatch(function(n)
		local text, sent = ("x"):rep(n), 0
		while pcall(greenroom.send, "/cart", "cart.clear", {because = text, big = 0}) do sent = sent + 1 end
		greenroom.ret(sent, select(2, pcall(greenroom.send, "/cart", "cart.clear", {because = text, big = 0})))
	end)`}, func(s stage) {
		release, held := make(chan struct{}), make(chan struct{})
		ref := actor.SpawnFunc(s.System(), "cart", func(_ *actor.Context[cartMessage], m cartMessage) error {
			if _, ok := m.(cartTotal); ok {
				close(held)
				<-release
			}
			return nil
		})
		ref.Tell(s.Context(), cartTotal{})
		<-held
		main := s.spawn("main.lua")
		got, _ := s.call(main, 1<<20-100).([]any)
		close(release)
		if len(got) != 2 || got[0].(float64) > 8 || !strings.Contains(fmt.Sprint(got[1]), "the mailbox is full") {
			t.Errorf("%v", got)
		}
	})
}

func TestTypedConfigIsChecked(t *testing.T) {
	sys := actortest.NewSystem(t)
	type bad struct{ F func() }
	for says, cfg := range map[string]lua.Config{
		"Config.Mailboxes needs Types":                                 {Mailboxes: []lua.Mailbox{lua.Tells[cartMessage]()}},
		"Mailboxes[0] must be one of lua.Tells or lua.Asks":            {Types: codec.NewTypes(), Mailboxes: []lua.Mailbox{{}}},
		"Mailboxes[0]: no type of Types is a lua_test.cartMessage":     {Types: codec.NewTypes(), Mailboxes: []lua.Mailbox{lua.Tells[cartMessage]()}},
		"Mailboxes[0]: the answer: the field F of lua_test.bad: a fun": {Types: cartConfig().Types, Mailboxes: []lua.Mailbox{lua.Asks[cartMessage, bad]()}},
	} {
		cfg.Path = folder(nil)
		if _, err := lua.Open(sys, cfg); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, not %q", err, says)
		}
	}
	rt := open(t, sys, scripts{"a.lua": ""})
	if _, err := lua.SpawnTyped[cartMessage](rt, sys, "", "a.lua"); err == nil || !strings.Contains(err.Error(), "no lua.Config.Mailboxes has the type lua_test.cartMessage") {
		t.Error(err)
	}
}

func TestTypedAnnotationsForEditors(t *testing.T) {
	cfg := cartConfig()
	text, err := lua.Annotations(cfg.Types, cfg.Mailboxes...)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"---@class (exact) cart.add\n---@field sku string\n---@field n integer\n---@field note? string\n",
		"---@field items? lua_test.cartItem[]\n---@field big integer\n---@field by? table<string, string>\n---@field at string\n",
		"---@class (exact) lua_test.cartItem\n---@field sku string\n---@field n integer\n---@field price? number\n",
		`---@overload fun(to: string, name: "cart.add", message: cart.add): integer`,
		`---@overload fun(to: string, name: "cart.total", message: cart.total): cart.sum`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	playTyped(t, scripts{"a.lua": `greenroom.dispatch(function() local n = {} for k in pairs(greenroom) do n[#n + 1] = k end greenroom.ret(n) end)`}, func(s stage) {
		names := s.call(s.spawn("a.lua")).(*lua.Table).List
		for _, name := range names {
			if !strings.Contains(text, fmt.Sprintf("function greenroom.%s(", name)) {
				t.Errorf("the function %s is not there", name)
			}
		}
		if n := strings.Count(text, "\nfunction "); n != len(names) {
			t.Errorf("there are %d functions, not %d", n, len(names))
		}
	})
}
