// Package eventbus distributes events by topic, to actors as messages of their own
// protocol and to goroutines as an iterator.
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
// Where the compiler shall check that publisher and subscriber mean the same type of
// event, a [Topic] says it once for both.
//
// A topic is made of tokens with dots between them. In the pattern of a subscription
// '*' stands for exactly one token and '>', as the last, for one or more. See
// [CheckTopic] and [CheckPattern].
//
// # What it promises
//
//   - A subscriber gets the events that one publisher publishes in that order, the
//     topics and its own subscriptions mixed as they were; an actor that has some
//     subscriptions with a [Buffer] and some without has two such orders.
//   - An event reaches each subscription that matches, once; two subscriptions of the
//     same actor are two.
//   - An event of another type than the subscription's is not delivered to it, and
//     counted. What nobody has subscribed to is dropped; that is no error.
//   - A subscription ends with the incarnation of its actor: after a restart Init
//     subscribes again, and nothing is delivered twice.
//   - Publishing holds no lock while it delivers. It never waits, except for
//     subscriptions with a [Buffer] of the policy [Block].
//
// # When not to use it
//
// To send to an actor that you know, tell it. A bus hides who receives, so nobody sees
// when nobody does; it answers nothing, so there is no ask; and it keeps nothing, beyond
// the last value of chosen topics ([Retain]): what must survive a crash or a slow
// subscriber belongs into a log or a database.
package eventbus
