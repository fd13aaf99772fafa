package eventbus_test

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"
	"testing"
	"time"

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

// BenchmarkPublishersThatWait has 4000 publishers of one event each wait for room in a buffer of one, and those of a
// channel.
func BenchmarkPublishersThatWait(b *testing.B) {
	const n = 4000
	run := func(b *testing.B, publish func(int), take func()) {
		b.Helper()
		for b.Loop() {
			var all sync.WaitGroup
			for i := range n {
				all.Go(func() { publish(i) })
			}
			for range n {
				take()
			}
			all.Wait()
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/event")
	}
	b.Run("bus", func(b *testing.B) {
		sys := actor.NewSystem("bench")
		defer sys.Shutdown(context.Background()) //nolint:errcheck // nothing is under way
		bus := eventbus.New(sys)
		ctx, cancel := context.WithTimeout(b.Context(), 5*time.Minute)
		defer cancel()
		next, stop := iter.Pull(eventbus.Listen[int](ctx, bus, "a", eventbus.Buffer(1, eventbus.Block)))
		defer stop()
		run(b, func(i int) {
			if err := eventbus.Publish(ctx, bus, "a", i); err != nil {
				b.Error(err)
			}
		}, func() { next() })
	})
	b.Run("channel", func(b *testing.B) {
		events := make(chan int, 1)
		run(b, func(i int) { events <- i }, func() { <-events })
	})
}
