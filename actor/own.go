package actor

import "context"

// handlerOf is [caller] for a call that waits. t is the handler's context behind ctx, nil if there is
// none. own says that the caller is that handler, and not a goroutine that was given a context made
// of it, for which w is nil: only the handler itself stands still while it waits, and only its own
// stack can be set aside.
//
// The Init that Spawn calls and an Inline actor run on a goroutine that somebody else has lent them:
// with a context derived of theirs own is false.
func handlerOf(ctx context.Context) (from *core, w *worker, t turn, own bool) {
	if t, own = ctx.(turn); own {
		from, w = t.running()
		return from, w, t, true
	}
	if t, _ = ctx.Value(turnKey{}).(turn); t == nil {
		return nil, nil, nil, false
	}
	from, w = t.running()
	if w.runsHere(from) || from.traits.runsOn() == onThread && from.ext.thread.g.Load() == getg() {
		return from, w, t, true
	}
	return from, nil, t, false
}

// isHandler reports whether ctx is that of a handler, or made of it, and the caller that handler.
func isHandler(ctx context.Context) bool {
	_, _, _, own := handlerOf(ctx)
	return own
}

// runsHere reports whether the caller runs on the goroutine on which w runs c now. w may be nil.
func (w *worker) runsHere(c *core) bool {
	return w != nil && w.current.Load() == c && w.on.Load().g == getg()
}
