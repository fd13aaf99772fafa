package actor

import "context"

// inbox is where a handler, or a goroutine, waits for several things that come by
// themselves.
type inbox[T any] struct {
	sys   *System
	mu    spin
	list  []T // guarded by mu
	pause pause
}

// newInbox makes one for whoever has ctx, who alone may call take. It fails when so many
// handlers wait already that this one may not.
func newInbox[T any](ctx context.Context, sys *System) (*inbox[T], error) {
	o := originOf(ctx).located()
	from, w := o.waiter()
	b := &inbox[T]{sys: sys}
	if err := b.pause.begin(sys, from, w, o.here); err != nil {
		return nil, err
	}
	if b.pause.parked() {
		from.needExt()
	} else {
		b.pause.waiter = newWaiter() // whoever puts something in too late must not wake a stranger
	}
	return b, nil
}

// put adds v. It may be called from any goroutine.
func (b *inbox[T]) put(v T) {
	b.mu.Lock()
	b.list = append(b.list, v)
	b.mu.Unlock()
	b.pause.end(nil)
}

// take returns the first thing that has come, and waits for it until ctx ends, which must
// not be a handler's own context. What has come counts, also when the time is up.
func (b *inbox[T]) take(ctx context.Context) (v T, ok bool) {
	if b.pause.parked() && ctx.Done() != nil && ctx.Err() == nil {
		stop := context.AfterFunc(ctx, func() { b.pause.end(nil) })
		defer stop()
	}
	for {
		b.mu.Lock()
		if len(b.list) > 0 {
			v, b.list = b.list[0], b.list[1:]
			b.mu.Unlock()
			return v, true
		}
		b.pause.again()
		b.mu.Unlock()
		if ctx.Err() != nil {
			return v, false
		}
		b.pause.await(b.sys, ctx.Done())
	}
}
