// Package eventbus distributes events by topic: to actors as messages of their own
// protocol, to functions, and to goroutines as an iterator.
//
//	bus := eventbus.New(sys)
//
//	// in a callback of an actor that is told Warm, typically its Init:
//	_, err := eventbus.Subscribe(ctx, bus, "sensors.*.temp", func(topic string, t Temperature) Warm {
//		return Warm{topic, t}
//	})
//
//	// anywhere:
//	err = eventbus.Publish(ctx, bus, "sensors.kitchen.temp", Temperature(21.5))
//
//	// in a plain goroutine, until ctx ends or the loop is left:
//	for t := range eventbus.Listen[Temperature](ctx, bus, "sensors.>") {
//		fmt.Println(t)
//	}
//
//	// a plain function, which the publishers call:
//	_, err = eventbus.SubscribeFunc(bus, "sensors.>", func(ctx context.Context, topic string, t Temperature) {
//		log.Println(topic, t)
//	})
//
// To have the compiler check that publisher and subscriber use the same type of event,
// declare a [Topic].
//
// A topic is a sequence of tokens separated by dots. In the pattern of a subscription,
// '*' matches exactly one token, and a final '>' matches one or more. See [CheckTopic]
// and [CheckPattern].
//
// # What it promises
//
//   - A subscriber gets the events of one publisher in the order of publishing, across
//     topics and across its own subscriptions. If some of an actor's subscriptions have
//     a [Buffer] and some do not, the order holds within each of the two groups.
//   - An event reaches each matching subscription once. Two subscriptions of the same
//     actor get it once each.
//   - An event whose type differs from the subscription's is counted but not delivered.
//     An event without subscribers is dropped; that is not an error.
//   - A subscription ends with the incarnation of its actor: after a restart Init
//     subscribes again, and nothing is delivered twice. One of [SubscribeRef] ends with the
//     actor.
//   - Publishing holds no lock while it delivers. It waits only for subscriptions that
//     have a [Buffer] with the policy [Block], and for functions without a Buffer.
//
// # Other buses
//
// A bus is one process's. A [Forwarder] takes its events to others and brings theirs: cluster.Bridge does so
// for the nodes of a cluster.
//
// # When not to use it
//
// To send to an actor that you know, tell it. A bus hides its receivers, so it also hides
// that there are none. It has no answers, so there is no ask. And it stores nothing but
// the last value of chosen topics ([Retain]): events that must survive a crash or a slow
// subscriber belong in a log or a database.
package eventbus
