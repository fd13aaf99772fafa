package lua_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/greenroom-go/greenroom/actortest"
	"github.com/greenroom-go/greenroom/internal/guidetest"
	"github.com/greenroom-go/greenroom/lua"
)

// TestTheGuidesScriptsRun runs the scripts of the guide: main.lua checks what the others answer.
func TestTheGuidesScriptsRun(t *testing.T) {
	path := fstest.MapFS{}
	for _, block := range guidetest.Blocks(t, guide, "lua") {
		if name, _, ok := strings.Cut(strings.TrimPrefix(block, "-- "), "\n"); ok && strings.HasSuffix(name, ".lua") {
			path[name] = &fstest.MapFile{Data: []byte(block)}
		}
	}
	actortest.Run(t, func(k *actortest.Kit) {
		rt, err := lua.Open(k.System(), lua.Config{Path: path})
		if err != nil {
			t.Fatal(err)
		}
		s := stage{k, rt}
		s.spawn("main.lua")
		bank, _ := rt.Find(".bank")
		s.expect(15.0, bank, "deposit", "ann", 5)

		till := s.spawn("till.lua")
		answers := make(chan any, 2)
		for range 2 {
			go func() { answers <- s.call(till, 4) }()
		}
		if first, second := <-answers, <-answers; first != 4.0 || second != 8.0 {
			t.Errorf("the till answers %v and %v", first, second)
		}
	})
}
