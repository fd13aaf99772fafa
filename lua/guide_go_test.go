package lua_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/actortest"
	"github.com/greenroom-go/greenroom/cluster"
	"github.com/greenroom-go/greenroom/codec"
	"github.com/greenroom-go/greenroom/console"
	"github.com/greenroom-go/greenroom/internal/guidetest"
	"github.com/greenroom-go/greenroom/lua"
)

// The functions of this file whose names begin with "guide" have the blocks of Go of the guide as they are.

const guide = "../docs/guides/scripts.md"

func TestTheGuidesGoIsCompiled(t *testing.T) {
	guidetest.Compiled(t, guide, "guide_go_test.go", 4)
}

// The names that the guide has.
type (
	CartMsg = cartMessage
	Add     struct {
		actor.Returns[int]
		SKU string
		N   int
	}
	Clear struct{}
)

func (Add) cart()   {}
func (Clear) cart() {}

var ErrSoldOut = errSoldOut

//nolint:ineffassign,staticcheck,wastedassign // the guide leaves the errors to the reader
func guideServices(ctx context.Context, sys *actor.System) (any, any, bool, error) {
	rt, err := lua.Open(sys, lua.Config{Path: os.DirFS("scripts")})
	main, err := rt.Spawn(sys, "main", "main.lua")

	bank, ok := rt.Find(".bank")
	values, err := lua.Call(ctx, bank, "deposit", "ann", 5) // []any{15.0}
	guideConsole(sys, rt)
	return main, values, ok, err
}

func guideConsole(sys *actor.System, rt *lua.Runtime) *console.Console {
	c := console.New(sys, console.Config{})
	c.Add(rt.Commands(c)...)
	return c
}

func guideTypes(sys *actor.System) (*lua.Runtime, error) {
	rt, err := lua.Open(sys, lua.Config{
		Path:      os.DirFS("scripts"),
		Types:     codec.NewTypes(codec.Of[Add]("cart.add"), codec.Of[Clear]("cart.clear"), codec.Sentinel("cart.sold-out", ErrSoldOut)),
		Mailboxes: []lua.Mailbox{lua.Asks[CartMsg, int]()}, // Add has an answer: actor.Returns[int]
	})
	return rt, err
}

//nolint:ineffassign,staticcheck,wastedassign // the guide leaves the errors to the reader
func guideTyped(ctx context.Context, sys *actor.System, rt *lua.Runtime) (int, error) {
	cart, err := lua.SpawnTyped[CartMsg](rt, sys, "cart", "cart.lua") // actor.Ref[CartMsg]
	n, err := actor.Ask(ctx, cart, Add{SKU: "apple", N: 3})
	return n, err
}

// writeScripts makes the folder scripts.
func writeScripts(t *testing.T, files map[string]string) {
	t.Helper()
	t.Chdir(t.TempDir())
	for name, text := range files {
		if err := os.MkdirAll("scripts", 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join("scripts", name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestTheGuidesGoRuns(t *testing.T) {
	files := map[string]string{
		"cart.lua": `require "greenroom".dispatch(function(name, m) require "greenroom".ret(name == "cart.add" and m.sku == "apple" and m.n + 1) end)`,
	}
	for _, block := range guidetest.Blocks(t, guide, "lua") {
		if name, _, ok := strings.Cut(strings.TrimPrefix(block, "-- "), "\n"); ok && strings.HasSuffix(name, ".lua") {
			files[name] = block
		}
	}
	writeScripts(t, files)
	sys := actortest.NewSystem(t)
	main, values, ok, err := guideServices(t.Context(), sys)
	if err != nil || !ok || !reflect.DeepEqual(values, []any{15.0}) {
		t.Errorf("%v, %v, %v, %v", main, values, ok, err)
	}

	other := actortest.NewSystem(t)
	rt, err := guideTypes(other)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := guideTyped(t.Context(), other, rt); n != 4 || err != nil {
		t.Errorf("the typed script answers %d, %v", n, err)
	}
}

// guideCart is an actor of Go that the guide's Lua calls.
type guideCart struct{ cleared chan struct{} }

func (c *guideCart) Receive(ctx *actor.Context[CartMsg], m CartMsg) error {
	switch m := m.(type) {
	case Add:
		if m.SKU == "pear" {
			return actor.Refuse(ctx, fmt.Errorf("no pears: %w", ErrSoldOut))
		}
		actor.Reply(ctx, m, m.N)
	case Clear:
		close(c.cleared)
	}
	return nil
}

// The Lua of the guide that calls actors of Go.
func TestTheGuidesCallsOfGoRun(t *testing.T) {
	calls := ""
	for _, block := range guidetest.Blocks(t, guide, "lua") {
		if strings.Contains(block, `"/cart"`) {
			calls = block
		}
	}
	writeScripts(t, map[string]string{"calls.lua": `local greenroom = require "greenroom"
		greenroom.dispatch(function() ` + calls + ` greenroom.ret(n, left, tostring(err):match("no pears") ~= nil) end)`})
	sys := actortest.NewSystem(t)
	cleared := make(chan struct{})
	actor.Spawn(sys, "cart", func() *guideCart { return &guideCart{cleared} })
	if _, err := cluster.Register(cluster.Alone(sys), "carts", func(string) *guideCart { return &guideCart{cleared} }); err != nil {
		t.Fatal(err)
	}
	rt, err := guideTypes(sys)
	if err != nil {
		t.Fatal(err)
	}
	ref, err := rt.Spawn(sys, "calls", "calls.lua")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := lua.Call(t.Context(), ref); err != nil || !reflect.DeepEqual(got, []any{3.0, 0.0, true}) {
		t.Errorf("%v, %v", got, err)
	}
	<-cleared
}
