package actor

import "context"

// valuesOf returns the values of ctx, for what outlives the handler that runs with it: without its end, and
// without the way back to the handler, who is no sender any more. It returns nil where there are none.
func valuesOf(ctx context.Context) context.Context {
	t, own := ctx.(turn)
	switch {
	case own:
		ctx = t.carried()
	case turnAbove(ctx) != nil:
		ctx = lasting(ctx)
	}
	if ctx == nil {
		return nil
	}
	return valuesOnly{context.WithoutCancel(ctx)}
}

// valuesOnly is a context with the values of another one that is, or was, a handler's.
type valuesOnly struct {
	context.Context //nolint:containedctx // it is one
}

// Value implements context.Context.
func (v valuesOnly) Value(key any) any {
	if key == (turnKey{}) {
		return nil
	}
	return v.Context.Value(key)
}

// carried returns what has the values of the current message's context, nil if they are none.
func (ctx *Context[M]) carried() context.Context {
	ctx.core.mu.Lock()
	defer ctx.core.mu.Unlock()
	s := ctx.cell().mailbox()
	switch {
	case s == nil:
		return nil
	case s.merged != nil:
		return s.merged
	case s.asker != nil:
		parent, _ := s.asker.asker()
		return parent
	}
	return nil
}

func (d departure) carried() context.Context { return nil }

// work is the context of a [Pipe]'s work: it ends with the incarnation, and has the values of the
// handler in which the work began.
type work struct {
	*lifetime
	values context.Context //nolint:containedctx // of the handler's
}

// Value implements context.Context.
func (w work) Value(key any) any {
	if v := w.values.Value(key); v != nil {
		return v
	}
	return w.lifetime.Value(key)
}

// workContext returns the context of work that begins now.
func (c *core) workContext(ctx turn) context.Context {
	life := c.life()
	if at := ctx.carried(); at != nil {
		return work{life, valuesOnly{context.WithoutCancel(at)}}
	}
	return life
}
