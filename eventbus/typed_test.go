package eventbus_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/actortest"
	"github.com/greenroom-go/greenroom/eventbus"
)

const (
	kitchen eventbus.Topic[Temperature] = "sensors.kitchen.temp"
	rooms   eventbus.Topic[Temperature] = "sensors.*.temp"
)

func TestTypedTopicIsTheTopicOfThatName(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		bus := eventbus.New(k.System(), eventbus.Retain("sensors.>"))
		p := actortest.NewProbe[any](k)
		actortest.Do(p, func(ctx *actor.Context[any]) error {
			_, err := eventbus.SubscribeTo(ctx, bus, rooms, func(topic string, t Temperature) any { return fmt.Sprint(topic, " ", t) })
			return err
		})
		if err := kitchen.Publish(k.Context(), bus, 21); err != nil {
			k.T().Error(err)
		}
		publish(k, bus, "sensors.hall.temp", Temperature(15), "not a temperature")
		p.ExpectAll("sensors.kitchen.temp 21", "sensors.hall.temp 15")
		if got, ok := kitchen.Last(bus); !ok || got != 21 {
			k.T().Errorf("the last is %v, %v", got, ok)
		}
		for got := range rooms.Listen(k.Context(), bus) { // what is retained, and a temperature
			if got != 21 {
				k.T().Errorf("heard %v", got)
			}
			break
		}
		if err := rooms.Publish(k.Context(), bus, 1); !errors.Is(err, eventbus.ErrTopic) {
			k.T().Errorf("published to a pattern: %v", err)
		}
	})
}

func TestPublishingToNobodyAllocatesNothing(t *testing.T) {
	bus := eventbus.New(actortest.NewSystem(t))
	var event any = Temperature(1)
	n := testing.AllocsPerRun(1000, func() {
		if err := eventbus.Publish(bg, bus, "sensors.kitchen.temp", event); err != nil {
			t.Error(err)
		}
	})
	if n > 0 {
		t.Errorf("%v allocations", n)
	}
}
