package script

import (
	"os"
	"regexp"
	"testing"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/value"
)

func TestTheGuidesRuleRuns(t *testing.T) {
	guide, err := os.ReadFile("../../docs/guides/scripts.md")
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?ms)^```lua\n(function on_reading.*?)^```$").FindSubmatch(guide)
	if block == nil {
		t.Fatal("the guide has no rule")
	}
	p := build(t, t.TempDir())
	if _, err := p.Put(t.Context(), "dry-run", Script{Source: string(block[1]), Keys: []string{"temperature"}}, admin, MaxScripts, ""); err != nil {
		t.Fatal(err)
	}
	p.write("pump", 1000, entity.Sample{Key: "temperature", Value: value.Int(90)})
	p.sync("dry-run")
	if got, _ := p.latest("pump", "alarm"); got != `"dry run"` {
		t.Errorf("alarm is %s", got)
	}
	if state, err := p.State(t.Context(), "dry-run", "pump"); err != nil || string(state) != `{"count":1}` {
		t.Errorf("state %s, %v", state, err)
	}
}
