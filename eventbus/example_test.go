package eventbus_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

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

func ExampleTopic() {
	sys, shutdown := exampleSystem()
	defer shutdown()
	ctx := context.Background()

	const kitchen eventbus.Topic[Temperature] = "sensors.kitchen.temp"
	const everywhere eventbus.Topic[Temperature] = "sensors.*.temp"
	bus := eventbus.New(sys, eventbus.Retain("sensors.>"))
	heard := everywhere.Listen(ctx, bus)
	if err := kitchen.Publish(ctx, bus, 21.5); err != nil { // what is no Temperature does not compile
		fmt.Println(err)
	}
	for t := range heard {
		fmt.Println(t)
		break
	}
	fmt.Println(kitchen.Last(bus))
	// Output:
	// 21.5
	// 21.5 true
}

// Barometer subscribes to a typed topic.
type Barometer struct {
	bus  *eventbus.Bus
	seen chan string
}

type Pressure int

const pressures eventbus.Topic[Pressure] = "sensors.*.pressure"

func (b *Barometer) Init(ctx *actor.Context[string]) error {
	_, err := eventbus.SubscribeTo(ctx, b.bus, pressures, func(topic string, p Pressure) string {
		return fmt.Sprintf("%s is %d", topic, p)
	})
	return err
}

func (b *Barometer) Receive(_ *actor.Context[string], m string) error {
	b.seen <- m
	return nil
}

func ExampleSubscribeTo() {
	sys, shutdown := exampleSystem()
	defer shutdown()

	bus, seen := eventbus.New(sys), make(chan string, 10)
	actor.Spawn(sys, "barometer", func() *Barometer { return &Barometer{bus, seen} })
	if err := eventbus.Publish(context.Background(), bus, "sensors.roof.pressure", Pressure(1013)); err != nil {
		fmt.Println(err)
	}
	fmt.Println(<-seen)
	// Output: sensors.roof.pressure is 1013
}

func ExampleBuffer_dropNewest() {
	sys, shutdown := exampleSystem()
	defer shutdown()
	ctx := context.Background()

	bus := eventbus.New(sys)
	first := eventbus.Listen[int](ctx, bus, "bids", eventbus.Buffer(2, eventbus.DropNewest))
	for bid := range 5 {
		_ = eventbus.Publish(ctx, bus, "bids", bid)
	}
	for _, s := range bus.Subscriptions() {
		fmt.Printf("%s: %d wait, %d were dropped, policy %q\n", s.Pattern, s.Waiting, s.Dropped, s.Policy.String())
	}
	for bid := range first {
		fmt.Println(bid)
		if bid == 1 {
			break
		}
	}
	// Output:
	// bids: 2 wait, 3 were dropped, policy "drop newest"
	// 0
	// 1
}

// With Block the publisher waits for a slow subscriber, and not for ever.
func ExampleWithPatience() {
	sys, shutdown := exampleSystem()
	defer shutdown()
	ctx := context.Background()

	bus := eventbus.New(sys, eventbus.WithPatience(time.Millisecond))
	_ = eventbus.Listen[int](ctx, bus, "orders", eventbus.Buffer(1, eventbus.Block)) // nobody takes any
	fmt.Println(eventbus.Publish(ctx, bus, "orders", 1))
	err := eventbus.Publish(ctx, bus, "orders", 2)
	fmt.Println(errors.Is(err, eventbus.ErrFull), err)
	// Output:
	// <nil>
	// true publish orders: subscription orders of a goroutine: subscriber's buffer full: no room within 1ms: context deadline exceeded
}

func ExampleCheckPattern() {
	for _, text := range []string{"sensors.kitchen.temp", "sensors.*.temp", "sensors.>", "sensors.>.temp"} {
		fmt.Println(text, eventbus.CheckTopic(text) == nil, eventbus.CheckPattern(text) == nil)
	}
	fmt.Println(eventbus.CheckPattern("sensors.>.temp"))
	fmt.Println(eventbus.CheckTopic(strings.Repeat("a", eventbus.MaxTopic+1)))
	// Output:
	// sensors.kitchen.temp true true
	// sensors.*.temp false true
	// sensors.> false true
	// sensors.>.temp false false
	// bad topic "sensors.>.temp": token 2 is '>', which only the last can be
	// bad topic: 1025 bytes are more than 1024
}

func ExampleForget() {
	sys, shutdown := exampleSystem()
	defer shutdown()

	bus := eventbus.New(sys, eventbus.Retain("orders.*"))
	_ = eventbus.Publish(context.Background(), bus, "orders.17", "shipped")
	fmt.Println(bus.Stats().Retained, eventbus.Forget(bus, "orders.17"), bus.Stats().Retained)
	// Output: 1 true 0
}

func ExampleBus_Close() {
	sys, shutdown := exampleSystem()
	defer shutdown()
	ctx := context.Background()

	bus := eventbus.New(sys)
	events := eventbus.Listen[int](ctx, bus, "a")
	bus.Close()
	for range events { // it ends at once
		fmt.Println("never")
	}
	fmt.Println(eventbus.Publish(ctx, bus, "a", 1))
	// Output: publish a: event bus closed
}

// An actor may end a subscription before it ends itself.
func ExampleSubscription_Unsubscribe() {
	sys, shutdown := exampleSystem()
	defer shutdown()
	ctx := context.Background()

	bus := eventbus.New(sys)
	type subscribe struct{}
	var s *eventbus.Subscription
	ref := actor.SpawnFunc(sys, "ear", func(ctx *actor.Context[any], m any) error {
		if _, ok := m.(subscribe); ok {
			var err error
			s, err = eventbus.Subscribe(ctx, bus, "news.>", func(_ string, ev string) any { return ev })
			actor.ReplyFor(ctx, "subscribed")
			return err
		}
		fmt.Println("heard:", m)
		s.Unsubscribe()
		actor.ReplyFor(ctx, "")
		return nil
	})
	fmt.Println(actor.AskFor[string](ctx, ref, subscribe{}))
	_ = eventbus.Publish(ctx, bus, "news.local", "rain")
	_, _ = actor.AskFor[string](ctx, ref, "sun") // what lies in the mailbox already still comes
	_ = eventbus.Publish(ctx, bus, "news.local", "wind")
	i := s.Info()
	fmt.Println(i.Pattern, i.Type, i.Delivered, len(bus.Subscriptions()))
	// Output:
	// subscribed <nil>
	// heard: rain
	// heard: sun
	// news.> string 1 0
}

// A bus belongs to a system; a new subscriber gets the last value of a retained topic.
func ExampleNew() {
	sys, shutdown := exampleSystem()
	defer shutdown()
	ctx := context.Background()

	bus := eventbus.New(sys, eventbus.Retain("sensors.>"))
	if err := eventbus.Publish(ctx, bus, "sensors.hall.temp", Temperature(19)); err != nil {
		fmt.Println(err)
	}
	seen := make(chan string, 1)
	actor.Spawn(sys, "thermostat", func() *Thermostat { return &Thermostat{bus, seen} })
	fmt.Println(<-seen)
	// Output: sensors.hall.temp is 19
}

func ExampleLast() {
	sys, shutdown := exampleSystem()
	defer shutdown()
	ctx := context.Background()

	bus := eventbus.New(sys, eventbus.Retain("sensors.>"))
	for _, t := range []Temperature{19, 20.5} {
		if err := eventbus.Publish(ctx, bus, "sensors.hall.temp", t); err != nil {
			fmt.Println(err)
		}
	}
	fmt.Println(eventbus.Last[Temperature](bus, "sensors.hall.temp"))
	_, ok := eventbus.Last[string](bus, "sensors.hall.temp") // of another type
	fmt.Println(ok)
	// Output:
	// 20.5 true
	// false
}

// toOther is a forwarder to another bus of the same process.
type toOther struct{ other *eventbus.Forwarding }

func (c *toOther) Forward(ctx context.Context, e eventbus.Forwarded) error {
	fmt.Println("others want", c.other.Patterns())
	return c.other.Deliver(ctx, e)
}

func (*toOther) Changed() {}

// ExampleBus_Forward has what is published to one bus come to another one, and not back.
func ExampleBus_Forward() {
	sys := actor.NewSystem("home")
	one, two := eventbus.New(sys), eventbus.New(sys)
	there, back := new(toOther), new(toOther)
	ofOne, err := one.Forward(there, "sensors.>")
	if err != nil {
		fmt.Println(err)
		return
	}
	if there.other, err = two.Forward(back, "sensors.>"); err != nil {
		fmt.Println(err)
		return
	}
	back.other = ofOne
	_, err = eventbus.SubscribeFunc(two, "*.kitchen.temp", func(_ context.Context, topic string, t float64) { fmt.Println(topic, t) })
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	fmt.Println(eventbus.Publish(ctx, one, "sensors.kitchen.temp", 21.5))
	ofOne.End()
	fmt.Println(eventbus.Publish(ctx, one, "sensors.kitchen.temp", 22.5))
	// Output:
	// others want [sensors.kitchen.temp]
	// sensors.kitchen.temp 21.5
	// <nil>
	// <nil>
}
