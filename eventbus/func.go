package eventbus

import (
	"context"
	"fmt"

	"github.com/greenroom-go/greenroom/actor"
)

// SubscribeFunc calls f with the events of type Ev whose topic the pattern matches, retained ones
// first. It may be called anywhere, and the subscription ends by Unsubscribe or with the bus.
//
// Without a [Buffer] f runs on the goroutine of each publisher, before its Publish returns and with
// its ctx: concurrently, where several publish. A publisher that is a handler holds up its actor
// meanwhile, so f must be quick. f may publish. With a Buffer one goroutine calls f, an event at a
// time in the order of publishing, with a context that ends with the subscription; it ends when
// Unsubscribe or Close is called, and must be: it keeps the bus.
//
// A panic in f is logged, once for each subscription. When Unsubscribe has returned no call of f
// begins, except by those who were publishing already. The errors are [ErrTopic] and [ErrClosed].
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
	} else {
		s.tell = func(ctx context.Context, d delivery) {
			if call(ctx, d) {
				s.count(&s.delivered, &b.delivered, 1)
			} else {
				s.count(&s.dropped, &b.dropped, 1)
			}
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

// serve calls a function with what comes until the subscription ends.
func (s *Subscription) serve(ctx context.Context, call func(context.Context, delivery) bool) {
	for {
		it, ok := s.box.take(s.done)
		if !ok {
			return
		}
		call(ctx, it.d)
	}
}

// SubscribeRef sends the actor behind ref the events of type Ev whose topic the pattern matches,
// retained ones first, as messages that wrap makes of them. Unlike [Subscribe] it may be called
// anywhere, for any actor or router of the system that the bus is for, and the subscription lasts
// over restarts: it ends with the actor, by Unsubscribe or with the bus. What waits is bounded by
// the actor's mailbox.
//
// wrap must be quick and pure: it runs on the publishers' goroutines, concurrently, and must not
// publish. The errors are [ErrTopic] and [ErrClosed].
func SubscribeRef[Ev, M any](b *Bus, pattern string, ref actor.Ref[M], wrap func(topic string, event Ev) M) (*Subscription, error) {
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
