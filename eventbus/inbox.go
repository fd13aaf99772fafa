package eventbus

import (
	linked "container/list"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/greenroom-go/greenroom/actor"
)

// inbox holds the events that wait for one subscriber: an actor with all its buffered
// subscriptions, so that their order is kept, or a loop over Listen. The bounds are
// those of the subscriptions.
type inbox struct {
	mu          sync.Mutex
	first, last *item
	wake        chan struct{} // has a token when there may be something to take
	next        func(*item)   // gives an actor the next event, once; nil when it has one or there is none; guarded by mu
}

// item is an event that waits.
type item struct {
	sub        *Subscription
	d          delivery
	prev, next *item
}

func newInbox() *inbox { return &inbox{wake: make(chan struct{}, 1)} }

// publisher is one who waits for room.
type publisher struct {
	d      delivery
	told   chan struct{}   // closed when the event is in, or the subscription has ended
	in     bool            // the event is in; guarded by the inbox's mu until told is closed
	within *linked.Element // of the queue; guarded by the inbox's mu
}

// put adds an event, beyond the bound if that is wanted, or does what the policy says.
func (b *inbox) put(ctx context.Context, s *Subscription, d delivery, beyond bool) error {
	b.mu.Lock()
	if s.ended.Load() {
		b.mu.Unlock()
		s.count(&s.dropped, &s.bus.dropped, 1)
		return nil
	}
	full := len(s.items) >= s.limit && !beyond
	if full && s.policy == DropOldest {
		b.unlink(s.items[0])
		s.count(&s.dropped, &s.bus.dropped, 1)
		full = false
	}
	if !full {
		b.link(&item{sub: s, d: d})
		it, next := b.handOver()
		b.mu.Unlock()
		if next == nil {
			b.ring()
		} else {
			next(it)
		}
		return nil
	}
	if s.policy == DropNewest {
		b.mu.Unlock()
		s.count(&s.dropped, &s.bus.dropped, 1)
		return nil
	}
	if d.hurried {
		b.mu.Unlock()
		return s.refused(errHurried)
	}
	p := &publisher{d: d, told: make(chan struct{})}
	p.within = s.queue.PushBack(p)
	b.mu.Unlock()
	return b.await(ctx, s, p)
}

// await waits until a publisher's event is in, which whoever makes room puts there: so a free place wakes one, and
// nobody is overtaken.
func (b *inbox) await(ctx context.Context, s *Subscription, p *publisher) error {
	err := errSelf
	if !s.isSubscriber(ctx) {
		err = s.wait(ctx, p.told)
	}
	b.mu.Lock()
	in := p.in
	if err != nil && !in {
		s.queue.Remove(p.within) // it does nothing if the subscription has ended
	}
	b.mu.Unlock()
	switch {
	case in:
		return nil
	case err != nil:
		return s.refused(err)
	}
	s.count(&s.dropped, &s.bus.dropped, 1) // the subscription has ended
	return nil
}

// wait waits until a publisher is told, its context ends, or the patience.
func (s *Subscription) wait(ctx context.Context, told <-chan struct{}) error {
	patience, stop := s.patience(ctx)
	defer stop()
	select {
	case <-told:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-patience:
		return fmt.Errorf("no room within %v: %w", s.bus.patience, context.DeadlineExceeded)
	}
}

// isSubscriber reports whether the caller is who takes the events of the subscription, and would wait for itself.
func (s *Subscription) isSubscriber(ctx context.Context) bool {
	return s.owner != nil && ctx == s.owner || !s.actor.IsZero() && actor.InHandler(ctx, s.actor)
}

// refused counts an event for which there was no room.
func (s *Subscription) refused(why error) error {
	s.count(&s.dropped, &s.bus.dropped, 1)
	return fmt.Errorf("%w: %w", ErrFull, why)
}

// patience returns the alarm for a publisher whose context has no deadline; that of
// others never rings.
func (s *Subscription) patience(ctx context.Context) (alarm <-chan time.Time, stop func() bool) {
	if _, ok := ctx.Deadline(); ok {
		return nil, func() bool { return false }
	}
	t := time.NewTimer(s.bus.patience)
	return t.C, t.Stop
}

// awaitNext has next called with the oldest event, now or when there is one. There is one who awaits.
func (b *inbox) awaitNext(next func(*item)) {
	b.mu.Lock()
	b.next = next
	it, next := b.handOver()
	b.mu.Unlock()
	if next != nil {
		next(it)
	}
}

// handOver removes the oldest event for who awaits it: then next is not nil, and the caller's to call
// without the lock. REQUIRES: b.mu held.
func (b *inbox) handOver() (it *item, next func(*item)) {
	if b.next == nil || b.first == nil {
		return nil, nil
	}
	it, next, b.next = b.first, b.next, nil
	b.unlink(it)
	it.sub.count(&it.sub.delivered, &it.sub.bus.delivered, 1)
	return it, next
}

// take removes the oldest event and waits for one if there is none. It is false when
// done is closed. There is one taker.
func (b *inbox) take(done <-chan struct{}) (*item, bool) {
	for {
		select {
		case <-done:
			return nil, false
		default:
		}
		b.mu.Lock()
		it := b.first
		if it != nil {
			b.unlink(it)
		}
		b.mu.Unlock()
		if it != nil {
			it.sub.count(&it.sub.delivered, &it.sub.bus.delivered, 1)
			return it, true
		}
		select {
		case <-b.wake:
		case <-done:
			return nil, false
		}
	}
}

// forget drops what waits for a subscription that has ended, and lets its publishers go.
func (b *inbox) forget(s *Subscription) {
	b.mu.Lock()
	n := len(s.items)
	for s.queue.Len() > 0 {
		close(s.queue.Remove(s.queue.Front()).(*publisher).told) //nolint:forcetypeassert // the queue has no others
	}
	for len(s.items) > 0 {
		b.unlink(s.items[0])
	}
	b.mu.Unlock()
	s.count(&s.dropped, &s.bus.dropped, n)
}

func (b *inbox) ring() {
	select {
	case b.wake <- struct{}{}:
	default: // there is a token already
	}
}

// link appends. REQUIRES: b.mu held.
func (b *inbox) link(it *item) {
	it.prev = b.last
	if b.last == nil {
		b.first = it
	} else {
		b.last.next = it
	}
	b.last = it
	it.sub.items = append(it.sub.items, it)
}

// unlink removes the oldest event of a subscription, and adds that of the publisher that has waited longest for room.
// REQUIRES: b.mu held.
func (b *inbox) unlink(it *item) {
	if it.prev == nil {
		b.first = it.next
	} else {
		it.prev.next = it.next
	}
	if it.next == nil {
		b.last = it.prev
	} else {
		it.next.prev = it.prev
	}
	s := it.sub
	s.items[0] = nil
	s.items = s.items[1:]
	if s.queue.Len() > 0 && len(s.items) < s.limit {
		p := s.queue.Remove(s.queue.Front()).(*publisher) //nolint:forcetypeassert // the queue has no others
		b.link(&item{sub: s, d: p.d})
		p.in = true
		close(p.told)
	}
}
