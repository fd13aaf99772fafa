package eventbus_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/greenroom-go/greenroom/actortest"
	"github.com/greenroom-go/greenroom/eventbus"
)

func TestListenYieldsUntilTheContextEnds(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		bus := eventbus.New(k.System())
		ctx, cancel := context.WithCancel(k.Context())
		defer cancel()
		seq := eventbus.ListenTopic[int](ctx, bus, "sensors.>")
		publish(k, bus, "sensors.a", 1)
		publish(k, bus, "sensors.b", "no int")
		publish(k, bus, "sensors.c.d", 2)
		var got []string
		for topic, n := range seq {
			got = append(got, fmt.Sprint(topic, "=", n))
			if n == 2 {
				publish(k, bus, "sensors.e", 3)
				cancel()
			}
		}
		if want := []string{"sensors.a=1", "sensors.c.d=2"}; !slices.Equal(got, want) {
			k.T().Errorf("got %q", got)
		}
		if st := bus.Stats(); st.Subscriptions != 0 || st.Dropped != 1 || st.Mismatched != 1 {
			k.T().Errorf("stats %+v", st)
		}
		for range seq {
			k.T().Error("an event after the end")
		}
	})
}

func TestListenEndsWhenTheLoopIsLeft(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		bus := eventbus.New(k.System())
		seq := eventbus.Listen[int](k.Context(), bus, "a", eventbus.Buffer(2, eventbus.DropOldest))
		publish(k, bus, "a", 1, 2, 3)
		for n := range seq {
			if n != 2 {
				k.T().Errorf("got %d, the oldest of the two that are left is 2", n)
			}
			break
		}
		if st := bus.Stats(); st.Subscriptions != 0 || st.Delivered != 1 || st.Dropped != 2 {
			k.T().Errorf("stats %+v", st)
		}
	})
}

func TestListenWithoutALoopEndsWithTheContext(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		bus := eventbus.New(k.System())
		ctx, cancel := context.WithCancel(k.Context())
		eventbus.Listen[int](ctx, bus, "a")
		cancel()
		k.Settle()
		if bus.Stats().Subscriptions != 0 {
			k.T().Error("not ended")
		}
	})
}
