package eventbus

import (
	"context"
	"sync"

	"github.com/greenroom-go/greenroom/actor"
)

// tenant is an incarnation of an actor that has subscriptions.
type tenant struct {
	bus    *Bus
	pid    actor.PID
	life   context.Context //nolint:containedctx // ends with the incarnation
	cancel context.CancelFunc
	box    *inbox // of the subscriptions with a buffer; owned by the actor's turn
	pumped bool   // the pump runs; owned by the actor's turn

	mu   sync.Mutex
	subs map[*Subscription]struct{} // guarded by mu; nil when the incarnation has ended
}

// settle returns the tenant of the actor's incarnation, made if need be. It runs in the
// actor's turn. Subscriptions of a former incarnation are ending by themselves, and get
// nothing any more: their life is over.
func settle[M any](ctx *actor.Context[M], b *Bus) *tenant {
	pid := ctx.Self().PID()
	b.mu.Lock()
	t := b.tenants[pid]
	b.mu.Unlock()
	if t != nil && !t.over() {
		return t
	}
	t = &tenant{bus: b, pid: pid, subs: make(map[*Subscription]struct{})}
	t.life, t.cancel = context.WithCancel(ctx.Incarnation())
	b.mu.Lock()
	b.tenants[pid] = t
	b.mu.Unlock()
	context.AfterFunc(t.life, t.end)
	return t
}

// over reports whether the incarnation has ended.
func (t *tenant) over() bool { return t.life.Err() != nil }

// join adds a subscription. It is false when the incarnation has ended.
func (t *tenant) join(s *Subscription) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.subs == nil {
		return false
	}
	if !s.ended.Load() { // the bus may have been closed
		t.subs[s] = struct{}{}
	}
	return true
}

// part removes a subscription that has ended.
func (t *tenant) part(s *Subscription) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.subs, s)
}

// end ends all subscriptions of the incarnation.
func (t *tenant) end() {
	t.cancel()
	t.mu.Lock()
	subs := t.subs
	t.subs = nil
	t.mu.Unlock()
	for s := range subs {
		s.end()
	}
	t.bus.mu.Lock()
	if t.bus.tenants[t.pid] == t {
		delete(t.bus.tenants, t.pid)
	}
	t.bus.mu.Unlock()
}

func (t *tenant) inbox() *inbox {
	if t.box == nil {
		t.box = newInbox()
	}
	return t.box
}

// pump brings the next event from the inbox into the mailbox, and with it the next
// pump: there is never more than one event in the mailbox, and the rest can still be
// dropped.
func pump[M any](ctx *actor.Context[M], t *tenant) {
	deliver := actor.Later(ctx, func(it *item, _ error) M {
		pump(ctx, t)
		return it.sub.wrap.(func(delivery) M)(it.d)
	})
	t.box.awaitNext(func(it *item) { deliver(it, nil) })
}
