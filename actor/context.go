package actor

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"
)

// Context gives a callback of an actor access to the runtime. It is also the [context.Context] of
// what the callback does: it ends when the actor is told to stop, or is restarted with its siblings,
// and, while a request is handled, when its asker gives up, or when the asker's deadline has passed, also
// if the request has been answered by then. That of a first Init also ends when this
// happens to the parent whose callback spawns the actor.
//
// A Context is for the callback that was given it, on its goroutine: when the callback returns, the
// actor continues with another message, and so does the Context. A context derived from it in the
// callback by [context.WithTimeout], [context.WithDeadline] or [context.WithCancel] may be passed
// anywhere. It ends when the Context does in that callback; one derived while a request is handled also
// ends when the handler returns. Otherwise it lasts until its own deadline or its cancel function, which
// is to be called as always. A context made by [context.WithValue] alone is still the Context itself,
// and follows it to the next message: derive a cancelable one first if it is to leave the callback.
type Context[M any] cell[M]

var _ context.Context = (*Context[int])(nil)

func (ctx *Context[M]) cell() *cell[M] { return (*cell[M])(ctx) }

// Self returns the actor's own reference; in an activation that of its [Virtual] actor.
func (ctx *Context[M]) Self() Ref[M] {
	c := ctx.cell()
	if c.core.isVirtual() {
		return c.activation().self
	}
	return Ref[M]{c}
}

// System returns the system in which the actor lives.
func (ctx *Context[M]) System() *System { return ctx.core.sys() }

// Sender returns the address of the actor that sent the current message, the zero
// PID if it came from outside of any actor.
func (ctx *Context[M]) Sender() PID { return senderIn(ctx.cell().currentWith()).pid() }

// Incarnation returns a context that lasts until the actor is told to stop, or its incarnation ends by
// a restart or by passivation. Unlike the Context itself it does not end with the request that is being
// handled, and it may go anywhere: it is for what the actor keeps beyond a message. It has no values,
// and what is sent with it has no sender.
func (ctx *Context[M]) Incarnation() context.Context { return ctx.cell().core.life() }

// Parent returns the address of the parent. The parent of an actor that the system
// spawned is the root.
func (ctx *Context[M]) Parent() PID { return ctx.core.parent.pid() }

// Children returns the addresses of the living children in the order in which they
// were started; those with [StopLast] come first.
func (ctx *Context[M]) Children() []PID {
	var pids []PID
	for _, child := range ctx.cell().core.childList() {
		if child.flags.Load()&ended == 0 { // one whose Down is on its way is a child for a moment longer
			pids = append(pids, child.pid())
		}
	}
	return pids
}

// Stop stops the actor after the current message. What is left in the mailbox becomes dead letters.
// If the handler also fails, the actor ends with the reason [Failed], and the supervisor decides
// about a [Permanent] one.
func (ctx *Context[M]) Stop() {
	if c := ctx.cell(); c.core.enterRuntime() {
		c.core.halting = true
		c.core.exitRuntime()
	}
}

// Log returns the system's logger with the actor's address.
func (ctx *Context[M]) Log() *slog.Logger {
	return ctx.core.sys().log.With(slog.String("actor", ctx.cell().core.pid().String()))
}

// Deadline returns the time at which the asker of the current request gives up.
func (ctx *Context[M]) Deadline() (deadline time.Time, ok bool) {
	ctx.core.mu.Lock()
	defer ctx.core.mu.Unlock()
	ask := ctx.askLocked()
	if ask == nil {
		return time.Time{}, false
	}
	_, deadline = ask.asker()
	return deadline, true
}

// Done is closed when the actor is told to stop, or is restarted with its siblings, and, while a
// request is handled, when its asker gives up.
func (ctx *Context[M]) Done() <-chan struct{} { return ctx.moment().Done() }

// Err returns nil while Done is open, and then why it was closed.
func (ctx *Context[M]) Err() error {
	ctx.core.mu.Lock()
	ext := ctx.core.ext
	lasts := ctx.askLocked() == nil && (ext == nil || ext.life == nil && !ext.ending()) && ctx.core.phase != stopped
	ctx.core.mu.Unlock()
	if lasts {
		return nil // without making a context to ask
	}
	return ctx.moment().Err()
}

// Value returns the value that the asker's context has for the key.
//
// It looks in the context of the current message first: package context finds the cancelable
// context behind this one by a key of its own, and so ties a context derived in one message to that
// message and not to later ones.
func (ctx *Context[M]) Value(key any) any {
	if key == (turnKey{}) {
		return turn(ctx)
	}
	return ctx.moment().Value(key)
}

// moment returns the context of the current message, which stays what it is when the actor goes on.
// REQUIRES: the caller holds no lock.
func (ctx *Context[M]) moment() context.Context {
	c := ctx.cell()
	c.core.mu.Lock()
	life, s := c.core.lifeContext(), c.mailbox()
	if s == nil || s.asker == nil && s.merged == nil {
		c.core.mu.Unlock()
		return life
	}
	var follow func()
	if s.merged == nil {
		s.merged, s.mergedOf, follow = merge(s.asker, life)
	}
	merged := s.merged
	c.core.mu.Unlock()
	if follow != nil {
		follow()
	}
	return merged
}

// merge returns a context with the values of the asker's context, and what ends it. Once follow was called
// it ends with the asker's context and with life. Only follow calls methods of the asker's context, which may
// be the user's: those may come back to the actor, and find the context that is being made.
func merge(ask pendingAsk, life *lifetime) (merged context.Context, end, follow func()) {
	parent, deadline := ask.asker()
	causal, cancelCause := context.WithCancelCause(context.WithoutCancel(parent))
	merged, cancel := context.WithDeadline(causal, deadline)
	parent = endOf(parent)
	parentEnds := func() {
		if ask.answered() { // then nobody has given up: its asker goes on
			return
		}
		if cause := context.Cause(parent); !errors.Is(cause, context.DeadlineExceeded) {
			cancelCause(cause) // its deadline is that of merged, too
		}
	}
	lifeEnds := func() { cancelCause(context.Cause(life)) }
	var over atomic.Pointer[func()] // what undoes follow, or nothing once the request has ended
	follow = func() {
		stopLife := life.whenEnded(lifeEnds)
		stopParent := whenDone(parent, parentEnds)
		stop := func() { stopParent(); stopLife() }
		if !over.CompareAndSwap(nil, &stop) { // the request has ended meanwhile
			stop()
		}
	}
	end = func() {
		if stop := over.Swap(&nothing); stop != nil {
			(*stop)()
		}
		cancel()
		cancelCause(nil)
	}
	return merged, end, follow
}

var nothing = func() {}

// life is lifeContext for a caller that does not hold c.mu.
func (c *core) life() *lifetime {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lifeContext()
}

// lifeContext returns the context of the incarnation, made on first need.
// REQUIRES: c.mu held.
func (c *core) lifeContext() *lifetime {
	ext := c.needExtLocked()
	if ext.life == nil {
		ext.life = newLifetime()
		if c.phase == stopped || ext.ending() {
			ext.life.end()
		}
	}
	return ext.life
}

// beginAsk and endAsk bracket the handling of a request. endAsk reports false, and does nothing,
// when the actor was taken away from the handler.
func (c *cell[M]) beginAsk(s *mailbox[M], ask pendingAsk) {
	c.core.mu.Lock()
	s.asker = ask
	c.core.mu.Unlock()
}

// enterAsk is beginAsk and [mailbox.enter], for a request that comes next.
func (c *cell[M]) enterAsk(s *mailbox[M], ask pendingAsk) bool {
	c.core.mu.Lock()
	_, entered := s.enter(s.head.Load())
	if entered {
		s.asker = ask
	}
	c.core.mu.Unlock()
	return entered
}

func (c *cell[M]) endAsk(s *mailbox[M]) bool {
	c.core.mu.Lock()
	if !s.owned() {
		c.core.mu.Unlock()
		return false
	}
	done := s.mergedOf
	s.asker, s.merged, s.mergedOf = nil, nil, nil
	c.core.mu.Unlock()
	if done != nil {
		done()
	}
	return true
}

// turn is how the runtime finds the actor and the worker behind the context.Context
// of a handler: Go has no thread-local storage.
type turn interface {
	running() (c *core, w *worker)
	currentHeader() Header
	moment() context.Context
	carried() context.Context
	inquire(call interrupter, first *core, aside bool) (before *inquiry, asked pendingAsk, ok bool)
}

type turnKey struct{}

func (ctx *Context[M]) running() (*core, *worker) { return &ctx.cell().core, ctx.core.worker.Load() }

// askLocked returns the request that is being handled, nil for other messages.
// REQUIRES: ctx.mu held, or the caller has the turn.
func (ctx *Context[M]) askLocked() pendingAsk {
	if s := ctx.cell().mailbox(); s != nil {
		return s.asker
	}
	return nil
}

// caller returns the actor whose handler runs with ctx and its worker, nil and nil
// for a context from outside. A context that was derived of a handler's may be on any
// goroutine: for that the worker is nil.
func caller(ctx context.Context) (*core, *worker) {
	if t, ok := ctx.(turn); ok {
		return t.running()
	}
	if t := turnAbove(ctx); t != nil {
		c, _ := t.running()
		return c, nil
	}
	return nil, nil
}

// InHandler reports whether the caller is in a handler of the actor, or another callback of it, so that the
// actor cannot go on before the caller returns. ctx is the handler's Context or derived from that; on another
// goroutine a derived context is no handler's. It is for packages that make a caller wait until an
// actor has done something: one that is in that actor's handler would wait for itself. A context from
// elsewhere is in no handler. With a derived context InHandler reports false where the engine does not know
// the goroutine: on processors other than amd64 and arm64, and in the first Init of an actor at the root.
// It does not block.
func InHandler(ctx context.Context, pid PID) bool {
	o := originOf(ctx).located()
	if !o.here {
		return false
	}
	c, _ := o.turn.running()
	return c.bottom().carries(pid)
}

// turnAbove returns the handler's context that ctx was made of, nil for a context from outside.
func turnAbove(ctx context.Context) turn {
	if ctx == nil {
		contextMissing()
	}
	t, _ := ctx.Value(turnKey{}).(turn)
	return t
}

// contextMissing is apart from turnAbove so that calls of that are inlined.
func contextMissing() {
	panic("actor: the context is nil: outside of handlers use context.Background()")
}

// origin is the handler whose context another one is or was made of. To find out is a call, so it is
// passed on where it is needed again.
type origin struct {
	turn turn // nil for a context from outside
	own  bool // the context is the handler's own
	here bool // the caller is the handler: the context is its own, or derived from that, see located
}

func originOf(ctx context.Context) origin {
	if t, ok := ctx.(turn); ok {
		return origin{t, true, true}
	}
	return origin{turn: turnAbove(ctx)}
}

// located returns o, and finds out for a derived context, which may be on any goroutine, whether it is the
// handler who has it.
func (o origin) located() origin {
	if o.turn == nil || o.here { // without a call
		return o
	}
	return o.locatedDerived()
}

func (o origin) locatedDerived() origin {
	c, _ := o.turn.running()
	o.here = c.isHere()
	return o
}

// waiter is caller for one who is about to wait: with a worker, the caller's stack can be set aside. The handler of a
// reentrant actor that waits with a derived context keeps it, since others must not run meanwhile, and so does that of
// a driven system, where no goroutine may end the wait.
func (o origin) waiter() (*core, *worker) {
	c, w := o.caller()
	if o.here && !o.own && !c.traits.reentrant() && !c.sys().isDriven() {
		_, w = o.turn.running()
	}
	return c, w
}

// caller is [caller] of the context.
func (o origin) caller() (*core, *worker) {
	if o.turn == nil {
		return nil, nil
	}
	c, w := o.turn.running()
	if !o.own {
		w = nil
	}
	return c, w
}

// turnOf returns the handler's context that ctx is or was made of, nil for a context from
// outside.
func turnOf(ctx context.Context) turn { return originOf(ctx).turn }

// whenDone is [context.AfterFunc], but for a context that has ended already: then it calls f now,
// and not on some goroutine soon; and but for that of an incarnation. REQUIRES: lasting has
// returned ctx.
func whenDone(ctx context.Context, f func()) (stop func() bool) {
	ctx = endOf(ctx)
	if life, ok := ctx.(*lifetime); ok {
		return life.whenEnded(f)
	}
	if ctx.Err() != nil {
		f()
		return func() bool { return false }
	}
	return context.AfterFunc(ctx, f)
}
