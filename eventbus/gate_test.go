package eventbus_test

import (
	"context"
	"slices"
	"testing"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/actortest"
	"github.com/greenroom-go/greenroom/eventbus"
)

// shutGate holds everything until it is opened.
type shutGate struct{ held []func(error) }

func (g *shutGate) Handle(_ context.Context, next func() error) error { return next() }
func (g *shutGate) Settle(context.Context) error                      { return nil }
func (g *shutGate) Hold(leave func(error)) bool {
	g.held = append(g.held, leave)
	return true
}

func TestEventsOfAGatedActorArePublishedWhenTheyMayLeave(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		bus, gate := eventbus.New(k.System(), eventbus.Retain("a.>")), &shutGate{}
		var got []string
		ear := actor.SpawnFunc(k.System(), "ear", func(ctx *actor.Context[string], m string) error {
			if m != "listen" {
				got = append(got, m+" by "+ctx.Sender().Path())
				return nil
			}
			for _, opts := range [][]eventbus.SubscribeOption{nil, {eventbus.Buffer(1, eventbus.Block)}} {
				if _, err := eventbus.Subscribe(ctx, bus, "a.*", func(topic string, _ int) string { return topic }, opts...); err != nil {
					return err
				}
			}
			return nil
		})
		ear.Tell(k.Context(), "listen")
		mouth := actor.SpawnFunc(k.System(), "mouth", func(ctx *actor.Context[int], _ int) error {
			if err := eventbus.Publish(ctx, bus, "a.b", 1); err != nil {
				t.Error(err)
			}
			return eventbus.PublishAll(ctx, bus, "a.>", 2)
		}, actor.Gated(gate))
		mouth.Tell(k.Context(), 1)
		k.Settle()
		if len(got) > 0 || bus.Stats().Published != 0 || bus.Stats().Retained > 0 {
			t.Errorf("has left: %v, %+v", got, bus.Stats())
		}
		for _, leave := range gate.held {
			leave(nil)
		}
		k.Settle()
		slices.Sort(got)
		if !slices.Contains(got, "a.b by /mouth") || !slices.Contains(got, "a.> by /mouth") || bus.Stats().Published != 2 {
			t.Errorf("got %v, %+v", got, bus.Stats())
		}
		bus.Close()
	})
}
