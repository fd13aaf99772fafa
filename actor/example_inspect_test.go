package actor_test

import (
	"context"
	"fmt"

	"github.com/greenroom-go/greenroom/actor"
)

// thermostat shows its state to who inspects it.
type thermostat struct{ degrees int }

func (t *thermostat) Receive(ctx *actor.Context[balance], m balance) error {
	t.degrees = 21
	actor.Reply(ctx, m, t.degrees)
	return nil
}

func (t *thermostat) Inspect() any { return map[string]int{"degrees": t.degrees} }

func ExampleSystem_Detail() {
	sys := actor.NewSystem("house", quiet)
	defer sys.Shutdown(context.Background())

	ref := actor.Spawn(sys, "thermostat", func() *thermostat { return &thermostat{} })
	if _, err := actor.Ask(context.Background(), ref, balance{}); err != nil {
		fmt.Println(err)
	}
	d, err := sys.Detail(context.Background(), ref.PID())
	fmt.Println(d.Path, d.State, len(d.Mail), len(d.Failures), d.View, err)
	// Output: /thermostat running 0 0 map[degrees:21] <nil>
}
