package lua_test

import (
	"testing"

	"github.com/greenroom-go/greenroom/lua"
)

func TestASandboxTellsHowManyStepsACallHasTaken(t *testing.T) {
	b := sandbox(t, `function little() end function much() for i = 1, 1000 do end end function all() while true do end end`, lua.SandboxConfig{Steps: 50_000})
	for function, want := range map[string][2]int64{"little": {0, 100}, "much": {1000, 5000}, "all": {50_000, 50_000}} {
		_, err := b.Call(function, nil)
		if used := b.Used(); used < want[0] || used > want[1] || (err != nil) != (function == "all") {
			t.Errorf("%s takes %d steps, %v, want %d to %d", function, used, err, want[0], want[1])
		}
	}
}
