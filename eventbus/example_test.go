package eventbus_test

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/eventbus"
)

type Temperature float64

// Warm is what the thermostat is told.
type Warm struct {
	Topic string
	By    Temperature
}

// Thermostat subscribes in its Init, in each incarnation anew.
type Thermostat struct {
	bus  *eventbus.Bus
	seen chan string
}

func (t *Thermostat) Init(ctx *actor.Context[Warm]) error {
	_, err := eventbus.Subscribe(ctx, t.bus, "sensors.*.temp", func(topic string, ev Temperature) Warm {
		return Warm{topic, ev}
	})
	return err
}

func (t *Thermostat) Receive(_ *actor.Context[Warm], m Warm) error {
	t.seen <- fmt.Sprintf("%s is %v", m.Topic, m.By)
	return nil
}

func exampleSystem() (sys *actor.System, shutdown func()) {
	sys = actor.NewSystem("example", actor.WithLogger(slog.New(slog.DiscardHandler)))
	return sys, func() { _, _ = sys.Shutdown(context.Background()) }
}

func ExampleSubscribe() {
	sys, shutdown := exampleSystem()
	defer shutdown()
	ctx := context.Background()

	bus, seen := eventbus.New(sys), make(chan string, 10)
	actor.Spawn(sys, "thermostat", func() *Thermostat { return &Thermostat{bus, seen} })
	for _, topic := range []string{"sensors.kitchen.temp", "sensors.kitchen.humidity", "sensors.hall.temp"} {
		if err := eventbus.Publish(ctx, bus, topic, Temperature(21.5)); err != nil {
			fmt.Println(err)
		}
	}
	fmt.Println(<-seen)
	fmt.Println(<-seen)
	// Output:
	// sensors.kitchen.temp is 21.5
	// sensors.hall.temp is 21.5
}

func ExamplePublish() {
	sys, shutdown := exampleSystem()
	defer shutdown()
	ctx := context.Background()

	bus := eventbus.New(sys)
	fmt.Println(eventbus.Publish(ctx, bus, "sensors.kitchen.temp", 21.5)) // nobody hears it
	fmt.Println(eventbus.Publish(ctx, bus, "sensors..temp", 21.5))
	fmt.Println(eventbus.Publish(ctx, bus, "sensors.*.temp", 21.5))
	// Output:
	// <nil>
	// publish: bad topic "sensors..temp": token 2 is empty: a dot stands between two tokens
	// publish: bad topic "sensors.*.temp": token 2 has a '*'; wildcards are for Subscribe and PublishAll
}

func ExamplePublishAll() {
	sys, shutdown := exampleSystem()
	defer shutdown()

	bus, done := eventbus.New(sys), make(chan string)
	type do struct{}
	for _, name := range []string{"bob", "alice"} {
		ready := make(chan struct{})
		partner := actor.SpawnFunc(sys, name, func(ctx *actor.Context[string], m string) error {
			if m != "subscribe" {
				done <- name + " does something"
				return nil
			}
			defer close(ready)
			_, err := eventbus.Subscribe(ctx, bus, "partner."+name+".do", func(string, do) string { return "do" })
			return err
		})
		partner.Tell(context.Background(), "subscribe")
		<-ready
	}
	if err := eventbus.PublishAll(context.Background(), bus, "partner.*.do", do{}); err != nil {
		fmt.Println(err)
	}
	fmt.Println(<-done)
	fmt.Println(<-done)
	// Unordered output:
	// bob does something
	// alice does something
}

func ExampleListen() {
	sys, shutdown := exampleSystem()
	defer shutdown()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()

	bus := eventbus.New(sys)
	temperatures := eventbus.Listen[Temperature](ctx, bus, "sensors.>")
	for i, topic := range []string{"sensors.kitchen.temp", "sensors.attic.north.temp"} {
		if err := eventbus.Publish(ctx, bus, topic, Temperature(20+i)); err != nil {
			fmt.Println(err)
		}
	}
	for t := range temperatures {
		fmt.Println(t)
		if t == 21 {
			cancel() // ends the loop
		}
	}
	// Output:
	// 20
	// 21
}

func ExampleListenTopic() {
	sys, shutdown := exampleSystem()
	defer shutdown()
	ctx := context.Background()

	bus := eventbus.New(sys)
	events := eventbus.ListenTopic[any](ctx, bus, ">")
	_ = eventbus.Publish(ctx, bus, "doors.front", "open")
	for topic, ev := range events {
		fmt.Println(topic, ev)
		break
	}
	// Output: doors.front open
}

func ExampleBuffer() {
	sys, shutdown := exampleSystem()
	defer shutdown()
	ctx := context.Background()

	bus := eventbus.New(sys)
	latest := eventbus.Listen[int](ctx, bus, "price", eventbus.Buffer(2, eventbus.DropOldest))
	for price := range 10 {
		_ = eventbus.Publish(ctx, bus, "price", price)
	}
	fmt.Println(bus.Stats().Dropped, "dropped")
	for price := range latest {
		fmt.Println(price)
		if price == 9 {
			break
		}
	}
	// Output:
	// 8 dropped
	// 8
	// 9
}

func ExampleRetain() {
	sys, shutdown := exampleSystem()
	defer shutdown()
	ctx := context.Background()

	bus := eventbus.New(sys, eventbus.Retain("config.>"))
	_ = eventbus.Publish(ctx, bus, "config.color", "red")
	_ = eventbus.Publish(ctx, bus, "config.color", "green")
	for color := range eventbus.Listen[string](ctx, bus, "config.*") { // later, and still
		fmt.Println(color)
		break
	}
	fmt.Println(eventbus.Last[string](bus, "config.color"))
	// Output:
	// green
	// green true
}

func ExampleMatch() {
	for _, topic := range []string{"sensors.kitchen.temp", "sensors.temp", "sensors"} {
		fmt.Println(topic, eventbus.Match("sensors.*.temp", topic), eventbus.Match("sensors.>", topic))
	}
	// Output:
	// sensors.kitchen.temp true true
	// sensors.temp false true
	// sensors false false
}
