package eventbus

import (
	"context"
	"fmt"

	"github.com/greenroom-go/greenroom/actor"
)

// SubscribeFunc calls f with the events of type Ev whose topic the pattern matches. It may be called
// anywhere. The subscription ends by Unsubscribe or with the bus.
//
// Without a [Buffer], f runs on the goroutine of each publisher, before its Publish returns and
// with its ctx; it may run on several goroutines at once. It delays the publisher, which may be a
// handler, so it must be quick. Retained events come first, on the caller's goroutine and with a
// context that never ends, before SubscribeFunc returns.
//
// With a Buffer, one goroutine calls f, one event at a time in the order of publishing, with a
// context that ends with the subscription. The goroutine keeps the bus in memory until Unsubscribe
// or [Bus.Close]. An event counts as delivered when its call begins.
//
// f may publish. If that would wait for room in its own buffer, publishing with its ctx fails at
// once. The first panic of each subscription's f is logged. After Unsubscribe has returned, f is
// called only for events whose delivery had already begun. The errors are [ErrTopic] and
// [ErrClosed].
func SubscribeFunc[Ev any](b *Bus, pattern string, f func(ctx context.Context, topic string, event Ev), opts ...SubscribeOption) (*Subscription, error) {
	if err := CheckPattern(pattern); err != nil {
		return nil, fmt.Errorf("subscribe a function: %w", err)
	}
	s := newSubscription[Ev](b, pattern, opts)
	s.function = true
	call := func(ctx context.Context, d delivery) (ok bool) {
		defer func() {
			if !ok {
				s.bus.panicked(s, recover())
			}
		}()
		f(ctx, d.topic, d.event.(Ev))
		return true
	}
	ctx := context.Background()
	if s.limit > 0 {
		s.box = newInbox()
		ctx, s.cleanup = context.WithCancel(ctx)
		s.owner = ctx // f cannot wait for itself
	} else {
		s.tell = func(ctx context.Context, d delivery) {
			ok := false
			defer func() { // also when f ends the goroutine
				if ok {
					s.count(&s.delivered, &b.delivered, 1)
				} else {
					s.count(&s.dropped, &b.dropped, 1)
				}
			}()
			ok = call(ctx, d)
		}
	}
	if err := s.begin(ctx); err != nil {
		return nil, fmt.Errorf("subscribe a function to %s: %w", pattern, err)
	}
	if s.box != nil {
		go s.serve(ctx, call)
	}
	return s, nil
}

// serve calls a function with what comes until the subscription ends, or the function its goroutine.
func (s *Subscription) serve(ctx context.Context, call func(context.Context, delivery) bool) {
	defer s.end()
	for {
		it, ok := s.box.take(s.done)
		if !ok {
			return
		}
		call(ctx, it.d)
	}
}

// SubscribeRef sends the actor behind ref the events of type Ev whose topic the pattern matches,
// retained ones first, as messages made by wrap; the sender is the publisher. Unlike [Subscribe] it
// may be called anywhere, for any actor or router of the bus's system, and the subscription lasts
// across restarts: it ends with the actor, by Unsubscribe or with the bus. For an actor that is
// gone, or of another system, it ends at once. The actor's mailbox bounds what waits.
//
// wrap must be quick and pure: it runs on the publishers' goroutines, concurrently, and must not
// publish. The errors are [ErrTopic] and [ErrClosed]. SubscribeRef panics if ref is zero.
func SubscribeRef[Ev, M any](b *Bus, pattern string, ref actor.Ref[M], wrap func(topic string, event Ev) M) (*Subscription, error) {
	if ref.IsZero() {
		panic("eventbus: SubscribeRef: the zero Ref refers to nobody; use one that Spawn or Lookup returned")
	}
	if err := CheckPattern(pattern); err != nil {
		return nil, fmt.Errorf("subscribe %s: %w", ref, err)
	}
	s := newSubscription[Ev](b, pattern, nil)
	s.actor = ref.PID()
	message := func(d delivery) M { return wrap(d.topic, d.event.(Ev)) }
	s.tell = func(ctx context.Context, d delivery) {
		if m, ok := guarded(s, message, d); ok {
			s.count(&s.delivered, &b.delivered, 1)
			ref.Tell(ctx, m)
		}
	}
	if err := s.begin(context.Background()); err != nil {
		return nil, fmt.Errorf("subscribe %s to %s: %w", ref, pattern, err)
	}
	stop := b.sys.AfterEnd(s.actor, func(actor.Down) { s.end() })
	s.primeMu.Lock()
	s.cleanup = func() { stop() }
	s.primeMu.Unlock()
	if s.ended.Load() { // the actor has stopped meanwhile, or the bus was closed
		stop()
	}
	return s, nil
}
