package eventbus

import (
	"context"
	"iter"

	"github.com/greenroom-go/greenroom/actor"
)

// Topic is a topic or a pattern for events of one type, for programs that want the
// compiler to check that publisher and subscriber agree:
//
//	const (
//		Kitchen      eventbus.Topic[Temperature] = "sensors.kitchen.temp"
//		Temperatures eventbus.Topic[Temperature] = "sensors.*.temp"
//	)
//
//	err := Kitchen.Publish(ctx, bus, 21.5)
//	_, err = eventbus.SubscribeTo(ctx, bus, Temperatures, func(topic string, t Temperature) Warm { … })
//
// Otherwise it is a plain string. Code that uses the untyped functions on the same bus
// can still publish something else to the topic; that is counted, and not delivered to a
// subscription of this type.
type Topic[Ev any] string

// Publish is the function [Publish] for events of the topic's type.
func (t Topic[Ev]) Publish(ctx context.Context, b *Bus, event Ev) error {
	return Publish(ctx, b, string(t), event)
}

// Listen is the function [Listen] for the topic.
func (t Topic[Ev]) Listen(ctx context.Context, b *Bus, opts ...SubscribeOption) iter.Seq[Ev] {
	return Listen[Ev](ctx, b, string(t), opts...)
}

// SubscribeFunc is the function [SubscribeFunc] for the topic.
func (t Topic[Ev]) SubscribeFunc(b *Bus, f func(ctx context.Context, topic string, event Ev), opts ...SubscribeOption) (*Subscription, error) {
	return SubscribeFunc(b, string(t), f, opts...)
}

// Last is the function [Last] for the topic.
func (t Topic[Ev]) Last(b *Bus) (Ev, bool) { return Last[Ev](b, string(t)) }

// SubscribeTo is [Subscribe] for a [Topic]: wrap takes the topic's type of event. It is a function
// and not a method, because a method cannot have the type of the actor's messages as a parameter.
func SubscribeTo[Ev, M any](ctx *actor.Context[M], b *Bus, topic Topic[Ev], wrap func(topic string, event Ev) M, opts ...SubscribeOption) (*Subscription, error) {
	return Subscribe(ctx, b, string(topic), wrap, opts...)
}
