package eventbus

import (
	"cmp"
	linked "container/list"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/greenroom-go/greenroom/actor"
)

// Subscription is one pattern of one subscriber. Its methods are safe for concurrent
// use. The zero Subscription is not usable; call Subscribe.
type Subscription struct {
	bus     *Bus
	pattern string
	actor   actor.PID       // zero for a Listen and a function
	owner   context.Context //nolint:containedctx // the actor's Context, or that of a function, to recognize one that publishes to itself
	tenant  *tenant         // the actor's incarnation, which the subscription does not outlive; nil for a Listen
	event   reflect.Type
	fits    func(event any) bool

	function bool                                  // it is that of a function
	tell     func(ctx context.Context, d delivery) // without a buffer, else nil
	wrap     any                                   // with a buffer: func(delivery) M

	ended atomic.Bool
	out   bool          // removed from the trie; guarded by the trie's mu
	done  chan struct{} // closed when it has ended

	// Events that come while the retained ones are handed over wait until that is done.
	live    atomic.Bool
	primeMu sync.Mutex
	pending []delivery // guarded by primeMu
	primed  uint64     // retained events up to this number are known; constant once live
	cleanup func()     // what its end has to give back; guarded by primeMu

	box    *inbox // with a buffer, else nil
	limit  int
	policy Policy
	items  []*item     // what waits, oldest first; guarded by box.mu
	queue  linked.List // of *publisher, who wait for room, oldest first: then there is none; guarded by box.mu

	delivered, dropped, mismatched atomic.Uint64

	blamed atomic.Bool // a panic of wrap has been logged
}

// SubscribeOption refines [Subscribe], [SubscribeFunc] and [Listen].
type SubscribeOption func(*Subscription)

// Policy says what happens to an event when a buffer is full.
type Policy uint8

const (
	// DropOldest makes room by dropping the event that has waited longest.
	DropOldest Policy = iota
	// DropNewest drops the event that has just arrived.
	DropNewest
	// Block makes the publisher wait until there is room, its context ends, or without a
	// deadline, the patience of the bus runs out. An actor whose handler publishes to the
	// actor itself, with its Context or one derived from that, is not made to wait for itself:
	// its Publish fails with ErrFull at once, where [actor.InHandler] can tell. So it is for a
	// function, but only with the context that it was called with. In a handler a wait holds up
	// a worker until the system has found another. Of several publishers the one that has waited
	// longest continues first.
	Block
)

// String returns the policy's name.
func (p Policy) String() string {
	switch p {
	case DropOldest:
		return "drop oldest"
	case DropNewest:
		return "drop newest"
	case Block:
		return "block"
	default:
		return "unknown"
	}
}

// Buffer bounds how many events of the subscription wait: at most n, not counting the
// one in the actor's mailbox and the one being handled. It panics if n is not positive.
//
// Without a buffer, events go straight into the actor's mailbox, whose bounds apply:
// that is an ordinary tell, which is faster, and events in the mailbox survive a
// restart. With a buffer, the actor gets one event at a time; events that wait when the
// incarnation ends, by a restart too, are dropped. So is the one in the mailbox, which counts as
// delivered.
func Buffer(n int, policy Policy) SubscribeOption {
	if n < 1 || policy > Block {
		panic(fmt.Sprintf("eventbus: Buffer(%d, %v): want room for at least 1 and DropOldest, DropNewest or Block", n, policy))
	}
	return func(s *Subscription) { s.limit, s.policy = n, policy }
}

// Subscribe sends the actor the events of type Ev whose topic the pattern matches, as
// messages of the actor's own protocol, made by wrap. Ev may be an interface, any
// included; then the subscription gets all events that implement it. Retained events
// always come first.
//
// wrap must be quick and pure. Without a [Buffer] it runs on the publishers' goroutines,
// concurrently, and must not publish; with one, it runs in the actor's own turn. Without
// a Buffer the sender of the message is the publisher, with one there is no sender.
//
// The subscription ends with the actor's incarnation, or by Unsubscribe. Subscribing
// twice leads to two messages for each event. Call Subscribe only in the actor's own
// callbacks, and elsewhere [SubscribeRef]; it does not block. The errors are [ErrTopic] and
// [ErrClosed].
func Subscribe[Ev, M any](ctx *actor.Context[M], b *Bus, pattern string, wrap func(topic string, event Ev) M, opts ...SubscribeOption) (*Subscription, error) {
	if err := CheckPattern(pattern); err != nil {
		return nil, fmt.Errorf("subscribe %s: %w", ctx.Self(), err)
	}
	t := settle(ctx, b)
	s := newSubscription[Ev](b, pattern, opts)
	s.actor, s.owner, s.tenant = t.pid, ctx, t
	message := func(d delivery) M { return wrap(d.topic, d.event.(Ev)) }
	if s.limit > 0 {
		s.box, s.wrap = t.inbox(), message
		if !t.pumped {
			t.pumped = true
			pump(ctx, t)
		}
	} else {
		self := ctx.Self()
		s.tell = func(ctx context.Context, d delivery) {
			if m, ok := guarded(s, message, d); ok {
				s.count(&s.delivered, &b.delivered, 1)
				self.Tell(ctx, m)
			}
		}
	}
	if err := s.begin(ctx); err != nil {
		return nil, fmt.Errorf("subscribe %s to %s: %w", ctx.Self(), pattern, err)
	}
	if !t.join(s) { // the incarnation has ended meanwhile
		s.end()
	}
	return s, nil
}

// guarded makes a message on the publisher's goroutine. A panic is the subscriber's.
func guarded[M any](s *Subscription, message func(delivery) M, d delivery) (m M, ok bool) {
	defer func() {
		if !ok {
			s.count(&s.dropped, &s.bus.dropped, 1)
			s.bus.panicked(s, recover())
		}
	}()
	return message(d), true
}

func newSubscription[Ev any](b *Bus, pattern string, opts []SubscribeOption) *Subscription {
	s := &Subscription{bus: b, pattern: pattern, event: reflect.TypeFor[Ev](), done: make(chan struct{})}
	s.fits = func(event any) bool { _, ok := event.(Ev); return ok }
	for _, opt := range opts {
		opt(s)
	}
	return s
}

// begin makes the subscription known and hands over what the bus has retained.
func (s *Subscription) begin(ctx context.Context) error {
	if len(s.bus.retained.patterns) == 0 {
		s.live.Store(true)
	}
	kept, number, isNew, err := s.bus.retained.enter(s)
	if err != nil {
		return err
	}
	if isNew {
		s.bus.changed()
	}
	if s.live.Load() {
		return nil
	}
	defer func() {
		if !s.live.Load() { // the subscriber has ended this goroutine
			s.end()
		}
	}()
	slices.SortFunc(kept, func(x, y delivery) int { return cmp.Compare(x.number, y.number) })
	for _, d := range kept {
		s.hand(ctx, d)
	}
	for {
		s.primeMu.Lock()
		pending := s.pending
		s.pending = nil
		if len(pending) == 0 {
			s.primed = number
			s.live.Store(true)
			s.primeMu.Unlock()
			return nil
		}
		s.primeMu.Unlock()
		for _, d := range pending {
			if d.number == 0 || d.number > number {
				s.hand(ctx, d)
			}
		}
	}
}

// hand is accept that neither waits nor fails: what there is no room for goes beyond
// the bound. It is for the subscriber itself, which cannot wait for itself.
func (s *Subscription) hand(ctx context.Context, d delivery) {
	switch {
	case !s.fits(d.event):
		s.count(&s.mismatched, &s.bus.mismatched, 1)
	case s.tell != nil:
		s.tell(ctx, d)
	default:
		_ = s.box.put(ctx, s, d, true) // what may go beyond the bound cannot fail
	}
}

// accept delivers an event, on the publisher's goroutine.
func (s *Subscription) accept(ctx context.Context, d delivery) error {
	if s.ended.Load() || s.tenant != nil && s.tenant.over() {
		return nil
	}
	if !s.live.Load() && s.postpone(d) {
		return nil
	}
	switch {
	case d.number != 0 && d.number <= s.primed:
	case !s.fits(d.event):
		s.count(&s.mismatched, &s.bus.mismatched, 1)
	case s.tell != nil:
		s.tell(ctx, d)
	default:
		return s.box.put(ctx, s, d, false)
	}
	return nil
}

// postpone keeps an event until the retained ones have been handed over. It reports
// false when they have been.
func (s *Subscription) postpone(d delivery) bool {
	s.primeMu.Lock()
	defer s.primeMu.Unlock()
	if s.live.Load() {
		return false
	}
	s.pending = append(s.pending, d)
	return true
}

// Unsubscribe ends the subscription: events published from now on are not delivered, and
// those in its buffer are dropped. A message that is already in the actor's mailbox
// still arrives. Further calls do nothing.
func (s *Subscription) Unsubscribe() { s.end() }

func (s *Subscription) end() {
	if s.ended.Swap(true) {
		return
	}
	s.bus.leave(s)
	if s.tenant != nil {
		s.tenant.part(s)
	}
	if s.box != nil {
		s.box.forget(s)
	}
	close(s.done)
	s.primeMu.Lock()
	cleanup := s.cleanup
	s.primeMu.Unlock()
	if cleanup != nil {
		cleanup()
	}
}

// Info describes a subscription at one moment.
type Info struct {
	Pattern    string
	Type       string    // of the events it is for
	Actor      actor.PID // zero for a Listen and a SubscribeFunc
	Buffer     int       // 0 for none
	Policy     Policy    // of the buffer
	Waiting    int       // events in the buffer
	Delivered  uint64
	Dropped    uint64 // see Stats
	Mismatched uint64
}

// Info returns the subscription's description and counters.
func (s *Subscription) Info() Info {
	i := Info{
		Pattern: s.pattern, Type: s.event.String(), Actor: s.actor, Buffer: s.limit, Policy: s.policy,
		Delivered: s.delivered.Load(), Dropped: s.dropped.Load(), Mismatched: s.mismatched.Load(),
	}
	if s.box != nil {
		s.box.mu.Lock()
		i.Waiting = len(s.items)
		s.box.mu.Unlock()
	}
	return i
}

// subscriber names who has subscribed.
func (s *Subscription) subscriber() string {
	switch {
	case s.function:
		return "a function"
	case s.actor.IsZero():
		return "a goroutine"
	}
	return s.actor.String()
}

// count adds to a counter of the subscription and to that of the bus.
func (s *Subscription) count(own, all *atomic.Uint64, n int) {
	own.Add(uint64(n))
	all.Add(uint64(n))
}

// errSelf and errHurried are why nobody waits for room: an actor that publishes to itself, and an event from elsewhere.
var (
	errSelf    = errors.New("the publisher itself would have to make room")
	errHurried = errors.New("an event of another bus does not wait")
)
