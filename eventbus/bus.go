package eventbus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/greenroom-go/greenroom/actor"
)

// The errors that callers can distinguish with [errors.Is], besides [ErrTopic].
var (
	// ErrClosed says that the bus has been closed. Nothing was published or subscribed.
	ErrClosed = errors.New("event bus closed")

	// ErrFull says that a subscription with the policy Block had no room in time and did
	// not get the event. All other subscriptions did.
	ErrFull = errors.New("subscriber's buffer full")
)

// defaultPatience bounds how long a publisher waits whose context has no deadline.
const defaultPatience = 5 * time.Second

// Bus distributes events. It is not an actor and has no goroutine of its own. Its
// methods, and the functions of this package, are safe for concurrent use, in handlers
// too. The zero Bus is not usable; call New.
type Bus struct {
	sys      *actor.System
	patience time.Duration
	trie     trie
	retained retained
	closed   atomic.Bool

	forwardings atomic.Pointer[[]*Forwarding] // replaced and not changed; written with mu held

	mu       sync.Mutex
	subs     map[*Subscription]struct{}
	patterns map[string]int        // how many of them have it
	tenants  map[actor.PID]*tenant // actors with subscriptions

	published, unheard, delivered, dropped, mismatched atomic.Uint64
}

// Option refines [New].
type Option func(*Bus)

// WithPatience bounds how long a publisher whose context has no deadline waits for a
// subscription with the policy [Block], so that two actors with full buffers that
// publish to each other do not wait forever. The default is 5 seconds.
func WithPatience(d time.Duration) Option {
	return func(b *Bus) { b.patience = d }
}

// New returns a bus for the actors of a system. It panics if an option has an invalid
// pattern.
func New(sys *actor.System, opts ...Option) *Bus {
	b := &Bus{sys: sys, patience: defaultPatience, subs: make(map[*Subscription]struct{}), patterns: make(map[string]int), tenants: make(map[actor.PID]*tenant)}
	for _, opt := range opts {
		opt(b)
	}
	return b
}

// Publish delivers an event to the subscriptions whose pattern matches the topic and
// whose type the event has: its dynamic type, so an interface value counts as what it
// contains. It is not an error if there are none. The event is not copied: nobody may
// change what it points to afterwards.
//
// In a handler pass the handler's ctx, which tells the subscribers who the sender is. Publish waits only
// for subscriptions with the policy [Block], until ctx ends or, without a deadline, until the patience
// of the bus has run out; the error then wraps [ErrFull] and the cause. A [Forwarder] that cannot take
// the event elsewhere is an error as well, after all subscriptions have got it. Other errors are
// [ErrTopic], also for a topic with wildcards, and [ErrClosed]; with these, nobody has got the event.
//
// What the handler of a gated actor publishes ([actor.Gated]) is published when the gate lets it
// leave. Publish then returns nil, and a subscription whose full buffer has the policy Block does
// not get the event.
func Publish(ctx context.Context, b *Bus, topic string, event any) error {
	if err := CheckTopic(topic); err != nil {
		return fmt.Errorf("publish: %w", err)
	}
	if b.closed.Load() {
		return fmt.Errorf("publish %s: %w", topic, ErrClosed)
	}
	if actor.Holds(ctx) && b.hold(ctx, topic, event, (*Bus).publish) {
		return nil
	}
	return b.publish(ctx, topic, event)
}

// publish retains and delivers an event.
func (b *Bus) publish(ctx context.Context, topic string, event any) error {
	// The retained value comes before the search: who subscribes meanwhile gets it from
	// the one or from the other, and by its number knows when from both.
	number := b.retained.keep(topic, event)
	forwarded := b.forward(ctx, Forwarded{Topic: topic, Event: event})
	var few [16]*Subscription
	return errors.Join(forwarded, b.deliver(ctx, b.trie.root.match(topic, few[:0]), delivery{topic: topic, event: event, number: number}))
}

// PublishAll is [Publish] to every topic that a pattern matches: the event reaches each
// subscription whose pattern has a topic in common with it, once. The subscriber sees
// the pattern as the topic. The event is not retained. PublishAll looks at every
// subscription below the first wildcard of the pattern.
func PublishAll(ctx context.Context, b *Bus, pattern string, event any) error {
	if err := CheckPattern(pattern); err != nil {
		return fmt.Errorf("publish: %w", err)
	}
	if b.closed.Load() {
		return fmt.Errorf("publish %s: %w", pattern, ErrClosed)
	}
	if actor.Holds(ctx) && b.hold(ctx, pattern, event, (*Bus).publishAll) {
		return nil
	}
	return b.publishAll(ctx, pattern, event)
}

// publishAll delivers an event to all topics that a pattern matches.
func (b *Bus) publishAll(ctx context.Context, pattern string, event any) error {
	forwarded := b.forward(ctx, Forwarded{Topic: pattern, Event: event, All: true})
	return errors.Join(forwarded, b.deliver(ctx, b.trie.root.overlap(pattern, nil), delivery{topic: pattern, event: event}))
}

// hold publishes when the gate of the publisher lets it: a function of its own, as its closure
// is allocated. It reports false when the gate has not kept it.
func (b *Bus) hold(ctx context.Context, topic string, event any, publish func(*Bus, context.Context, string, any) error) bool {
	return actor.Hold(ctx, func(later context.Context) { _ = publish(b, impatient{later}, topic, event) })
}

// impatient is the context of an event that was held by a gate: it does not wait for room.
type impatient struct{ context.Context } //nolint:containedctx // it is one

// Done implements context.Context.
func (impatient) Done() <-chan struct{} {
	over := make(chan struct{})
	close(over)
	return over
}

// Err implements context.Context.
func (impatient) Err() error { return context.Canceled }

// delivery is an event on its way.
type delivery struct {
	topic   string
	event   any
	number  uint64 // its place among the retained ones, 0 if it is not retained
	hurried bool   // it does not wait for room
}

func (b *Bus) deliver(ctx context.Context, to []*Subscription, d delivery) error {
	b.published.Add(1)
	if len(to) == 0 {
		b.unheard.Add(1)
	}
	return deliverAll(ctx, to, d)
}

// deliverAll gives an event to subscriptions, and returns the first error. What a subscriber does on this goroutine may
// end it: those that come after get the event nevertheless.
func deliverAll(ctx context.Context, to []*Subscription, d delivery) (first error) {
	i := 0
	defer func() {
		if i < len(to) {
			_ = deliverAll(ctx, to[i:], d)
		}
	}()
	for i < len(to) {
		s := to[i]
		i++
		if err := s.accept(ctx, d); err != nil && first == nil {
			first = fmt.Errorf("publish %s: subscription %s of %s: %w", d.topic, s.pattern, s.subscriber(), err)
		}
	}
	return first
}

// Close ends all subscriptions: events not taken yet are dropped, and loops over Listen
// end. From then on publishing and subscribing fail with [ErrClosed]. Further calls do
// nothing. A bus that is not closed is garbage collected with its last reference.
func (b *Bus) Close() {
	b.mu.Lock()
	b.closed.Store(true)
	subs := make([]*Subscription, 0, len(b.subs))
	for s := range b.subs {
		subs = append(subs, s)
	}
	b.mu.Unlock()
	for _, s := range subs {
		s.end()
	}
}

// enter makes a subscription known. From then on it may get events. isNew says that it is the first one with its
// pattern: the caller must call changed.
func (b *Bus) enter(s *Subscription) (isNew bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed.Load() {
		return false, ErrClosed
	}
	b.subs[s] = struct{}{}
	b.trie.add(s)
	b.patterns[s.pattern]++
	return b.patterns[s.pattern] == 1, nil
}

func (b *Bus) leave(s *Subscription) {
	b.mu.Lock()
	_, ok := b.subs[s]
	isLast := ok && b.patterns[s.pattern] == 1
	if ok {
		delete(b.subs, s)
		b.trie.remove(s)
		b.patterns[s.pattern]--
	}
	if isLast {
		delete(b.patterns, s.pattern)
	}
	b.mu.Unlock()
	if isLast {
		b.changed()
	}
}

// Stats are the counters of a bus at one moment. All but Subscriptions and Retained
// only grow.
type Stats struct {
	Subscriptions int    // at this moment
	Retained      int    // topics with a retained value, at this moment
	Published     uint64 // events
	Unheard       uint64 // events whose topic nobody had subscribed to
	Delivered     uint64 // events handed to a subscriber, counted for each; to an actor, into its mailbox
	Dropped       uint64 // events that a subscription should have got and did not: it was full, or ended first
	Mismatched    uint64 // events that were not of the subscription's type
}

// Stats returns the counters. It is safe for concurrent use.
func (b *Bus) Stats() Stats {
	b.mu.Lock()
	subs := len(b.subs)
	b.mu.Unlock()
	return Stats{
		Subscriptions: subs, Retained: b.retained.len(), Published: b.published.Load(), Unheard: b.unheard.Load(),
		Delivered: b.delivered.Load(), Dropped: b.dropped.Load(), Mismatched: b.mismatched.Load(),
	}
}

// Subscriptions describes all subscriptions, ordered by pattern. It visits each of them,
// and is meant for tools.
func (b *Bus) Subscriptions() []Info {
	b.mu.Lock()
	list := make([]Info, 0, len(b.subs))
	for s := range b.subs {
		list = append(list, s.Info())
	}
	b.mu.Unlock()
	slices.SortFunc(list, func(x, y Info) int {
		return cmp.Or(cmp.Compare(x.Pattern, y.Pattern), cmp.Compare(x.Actor.String(), y.Actor.String()))
	})
	return list
}

// panicked logs the first panic of a subscriber's function on the publisher's goroutine: the
// publisher is not to blame, and there may be one an event.
func (b *Bus) panicked(s *Subscription, value any) {
	if s.blamed.Swap(true) {
		return
	}
	b.sys.Log().LogAttrs(context.Background(), slog.LevelError, "event not delivered: the subscriber's function panicked",
		slog.String("subscriber", s.subscriber()), slog.String("pattern", s.pattern), slog.Any("panic", value))
}
