package eventbus

import (
	"context"
	"fmt"
	"iter"
)

// defaultBuffer is how many events wait for a loop over Listen without [Buffer].
const defaultBuffer = 256

// Listen returns the events of type Ev whose topic the pattern matches, for a plain
// goroutine:
//
//	for ev := range eventbus.Listen[Ev](ctx, bus, "sensors.>") {
//
// It subscribes at once, so that nothing published after the call is missed. The
// sequence ends when ctx ends, when the loop is left, or when the bus is closed; events
// that still wait are dropped. Only one loop in one goroutine may use it. Up to 256
// events wait, and then the oldest are dropped; [Buffer] changes that. Bus.Subscriptions
// has the counts.
//
// Listen panics if the pattern is invalid, since it is usually a constant; check others
// with [CheckPattern]. After Close the sequence is empty. Listen blocks, so use
// [Subscribe] in an actor.
func Listen[Ev any](ctx context.Context, b *Bus, pattern string, opts ...SubscribeOption) iter.Seq[Ev] {
	seq := ListenTopic[Ev](ctx, b, pattern, opts...)
	return func(yield func(Ev) bool) {
		for _, event := range seq {
			if !yield(event) {
				return
			}
		}
	}
}

// ListenTopic is [Listen] with the topic of each event.
func ListenTopic[Ev any](ctx context.Context, b *Bus, pattern string, opts ...SubscribeOption) iter.Seq2[string, Ev] {
	if err := CheckPattern(pattern); err != nil {
		panic(fmt.Sprintf("eventbus: Listen: %v", err))
	}
	s := newSubscription[Ev](b, pattern, append([]SubscribeOption{Buffer(defaultBuffer, DropOldest)}, opts...))
	s.box = newInbox()
	if err := s.begin(ctx); err != nil {
		return func(func(string, Ev) bool) {}
	}
	stop := context.AfterFunc(ctx, s.end)
	return func(yield func(string, Ev) bool) {
		defer s.end()
		defer stop()
		for ctx.Err() == nil {
			it, ok := s.box.take(s.done)
			if !ok || !yield(it.d.topic, it.d.event.(Ev)) {
				return
			}
		}
	}
}
