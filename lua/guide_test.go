package lua_test

import (
	"os"
	"regexp"
	"testing"
	"testing/fstest"

	"github.com/greenroom-go/greenroom/actortest"
	"github.com/greenroom-go/greenroom/lua"
)

// TestTheGuidesScriptsRun runs the scripts of the guide: main.lua checks what the others answer.
func TestTheGuidesScriptsRun(t *testing.T) {
	guide, err := os.ReadFile("../docs/guides/scripts.md")
	if err != nil {
		t.Fatal(err)
	}
	path := fstest.MapFS{}
	for _, block := range regexp.MustCompile("(?ms)^```lua\n(-- (\\S+)\n.*?)^```$").FindAllSubmatch(guide, -1) {
		path[string(block[2])] = &fstest.MapFile{Data: block[1]}
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
