package eventbus_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/actortest"
	"github.com/greenroom-go/greenroom/eventbus"
)

var bg = context.Background()

// BenchmarkPublish publishes to a topic that three of many subscriptions are for. The
// events are small integers, so that making an interface of them allocates nothing.
func BenchmarkPublish(b *testing.B) {
	for _, way := range []string{"Direct", "Buffer"} {
		for _, n := range []int{10, 1000, 10000} {
			b.Run(fmt.Sprintf("%s/%d", way, n), func(b *testing.B) {
				var opts []eventbus.SubscribeOption
				if way == "Buffer" {
					opts = append(opts, eventbus.Buffer(64, eventbus.DropOldest))
				}
				sys := actortest.NewSystem(b)
				bus := eventbus.New(sys)
				var handled atomic.Int64
				ref := actor.SpawnFunc(sys, "", func(ctx *actor.Context[int], m int) error {
					if m >= 0 {
						handled.Add(1)
						return nil
					}
					patterns := []string{"sensors.*.temp", "sensors.>"}
					for i := range n {
						patterns = append(patterns, fmt.Sprintf("sensors.room-%d.temp", i))
					}
					for _, p := range patterns {
						if _, err := eventbus.Subscribe(ctx, bus, p, func(_ string, ev int) int { return ev }, opts...); err != nil {
							return err
						}
					}
					actor.ReplyFor(ctx, true)
					return nil
				})
				if _, err := actor.AskFor[bool](bg, ref, -1); err != nil {
					b.Fatal(err)
				}
				b.ReportAllocs()
				for b.Loop() {
					if err := eventbus.Publish(bg, bus, "sensors.room-7.temp", 7); err != nil {
						b.Fatal(err)
					}
				}
				if _, err := sys.Shutdown(bg); err != nil || opts == nil && handled.Load() != int64(bus.Stats().Delivered) {
					b.Errorf("handled %d of %d, %v", handled.Load(), bus.Stats().Delivered, err)
				}
			})
		}
	}
}

// BenchmarkPublishUnheard publishes to a topic that nobody has subscribed to.
func BenchmarkPublishUnheard(b *testing.B) {
	bus := eventbus.New(actortest.NewSystem(b))
	b.ReportAllocs()
	for b.Loop() {
		if err := eventbus.Publish(bg, bus, "sensors.room-7.temp", 7); err != nil {
			b.Fatal(err)
		}
	}
}
