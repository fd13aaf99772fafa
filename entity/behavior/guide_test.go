package behavior_test

import (
	"context"
	"errors"
	"testing"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/behavior"
	"github.com/greenroom-go/greenroom/entity/value"
	"github.com/greenroom-go/greenroom/internal/guidetest"
)

func TestTheGuidesGoIsCompiled(t *testing.T) {
	guidetest.Compiled(t, "../../docs/guides/behaviors.md", "guide_test.go", 2)
}

// The functions that follow have the Go of the guide as it is.
var _, _ = guideRegister, guideStateful

func guideRegister(ctx context.Context, rt *entity.Runtime) (*behavior.Service, error) {
	behaviors := behavior.Open(rt, behavior.Config{})
	err := behaviors.Register(ctx, behavior.Spec{
		Name: "dry-run", Type: "Pump", Keys: []string{"flow"},
		Handle: func(e *behavior.Entity, ev behavior.Event) error {
			flow, _ := ev.Value("flow")
			power, _ := e.Latest("power")
			if flow.Int() > 0 || power.Value.Int() == 0 {
				return nil
			}
			return errors.Join(
				e.Set(entity.Sample{Key: "alarm", Value: value.String("dry run")}),
				e.Command(entity.NewCommand{Name: "stop"}),
			)
		},
	})
	return behaviors, err
}

type pump struct{ State string }

func guideStateful(machine map[string]func(e *behavior.Entity, p *pump, ev behavior.Event) error) behavior.Spec {
	return behavior.Spec{
		Handle: behavior.Stateful(func(e *behavior.Entity, p *pump, ev behavior.Event) error {
			return machine[p.State](e, p, ev)
		}),
	}
}
