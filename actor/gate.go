package actor

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
)

// Gate decides when what an actor's handlers send and answer may leave the actor. Package persist
// has one, which waits until what a handler has recorded is durable. It is set with [Gated], and
// belongs to one actor.
//
// Its methods may be called concurrently, since contexts derived from a handler's may be anywhere.
// If it is an [Inspector], its view is shown for an actor that does not answer [System.Detail]:
// what the actor has to do before its next message.
type Gate interface {
	// Handle handles a message: it calls next, once, which calls the handler, and returns the
	// result of next, or it returns an error instead, which then counts as the handler's. ctx is
	// the handler's. If the handler panics or ends its goroutine, or Kill abandons it or has
	// abandoned Handle, next does not return. Handle may wait, as a handler may.
	Handle(ctx context.Context, next func() error) error

	// Hold is given what leaves: a message, an answer, the work of a Pipe. It reports whether it
	// keeps that. If so, it must call leave, once, in the order in which it was given, and not in
	// Hold: with nil to let it go, or with an error to drop it, which is then the answer to an
	// asker that waits for it, or the outcome of the Pipe. leave does not block, and Hold must
	// not either. A panic of Hold in a turn of the actor is a failure, with which an ask ends that
	// depends on what Hold was given.
	Hold(leave func(dropped error)) (held bool)

	// Settle is called before what cannot be held: an Ask, a Gather, a Blocking or a Spawn of the
	// handler. It returns nil once everything held has left. After an error, the call for which it
	// was called fails with that error. ctx is the context of that call.
	Settle(ctx context.Context) error
}

// Gated gives the actor a gate, through which everything goes that its callbacks send and
// answer, in order:
//
//   - [Ref.Tell], [Ref.TryTell], [Forward], [AskThen], [AskFuture], [Pipe] and events of package eventbus
//     are held;
//   - [Reply], [ReplyFor], a [Promise] of this actor, the error that a handler returns and
//     [ErrUnhandled] are held;
//   - [Ask], [AskFor], [Gather], [Future.Wait], [Blocking], and Spawn with the handler's
//     context, wait until all that is held has left;
//   - what else should be held goes with [Hold].
//
// TryTell returns nil for a message that is held; the message becomes a dead letter if there is no
// room when it leaves, even if the mailbox has the policy [Block]. When the actor is killed, what
// is held is dropped. A [Promise] of an incarnation that has failed is no longer kept: askers that
// wait for it get [ErrStopped]. One that is kept while a handler runs, also by another goroutine,
// goes with what that handler does, since it may depend on that: it leaves when the handler has
// returned, and if that was with an error, the asker gets this error. What a goroutine sends
// meanwhile, with a context derived from a handler's, is dropped then, too. The directive [Resume]
// restarts a gated actor, since its state may be ahead of what its gate has let go.
//
// What a handler does without its context is not held: a message with another context, the Stop of
// another actor, [PipeTo], a promise that it got from elsewhere. A gated actor cannot be
// [Reentrant] or [Inline]: spawning one fails.
func Gated(gate Gate) SpawnOption {
	required(gate != nil, "Gated: the gate is nil")
	return spawnOption(func(c *spawnConfig) { c.gate = gate })
}

// Hold gives leave to the gate of the actor in whose callback ctx is, and reports whether the gate
// has kept it. If so, leave is called when it may leave, on any goroutine, and not at all if it is
// dropped. Otherwise, as in an actor that is not [Gated], the caller continues by itself.
//
// The context that leave gets says who sends, and never ends: what is told with it is not held
// again. leave must not block. A panic in leave is logged.
func Hold(ctx context.Context, leave func(ctx context.Context)) (held bool) {
	required(leave != nil, "Hold: the function is nil")
	c, _ := caller(ctx)
	if !c.isGated() || hasLeft(ctx) {
		return false
	}
	later := c.departure(ctx)
	return c.hold(func(dropped error) {
		if dropped == nil {
			leave(later)
		}
	})
}

// Holds reports whether what is sent with ctx goes through a gate: whether [Hold] may keep it.
func Holds(ctx context.Context) bool {
	c, _ := caller(ctx)
	return c.isGated() && !hasLeft(ctx)
}

// Refuse answers the request that is being handled with an error, which is then not a failure of
// the actor, and returns nil:
//
//	return actor.Refuse(ctx, ErrBadCount)
//
// For a message that was told it does nothing, nor does a second Refuse. For use in the handler of that message.
func Refuse[M any](ctx *Context[M], err error) error {
	required(err != nil, "Refuse: the error is nil: it is the answer")
	c := ctx.cell()
	ask := c.takeAsk()
	switch {
	case ask == nil:
	case c.core.isGated():
		rejectHeld(&c.core, ask, err)
	default:
		ask.reject(err, ctx.core.worker.Load())
	}
	return nil
}

// gateway is the gate of an actor. Set before its first turn, and not changed.
type gateway struct {
	gate Gate
	next func() error // calls the handler: here, as it would be allocated for each message
}

// gateBy gives the actor its gate. REQUIRES: nobody else can see the actor.
func (c *cell[M]) gateBy(gate Gate) {
	c.core.needExtLocked().gateway = &gateway{gate, c.handler}
	c.core.flags.Or(gated)
}

// isGated reports whether c has a gate. c may be nil.
func (c *core) isGated() bool { return c != nil && c.flags.Load()&gated != 0 }

// isMarked reports whether something is to be seen to before c's callbacks send. c may be nil.
func (c *core) isMarked() bool { return c != nil && c.flags.Load()&(gated|fenced) != 0 }

// hold gives leave to c's gate. It reports false when there is none, or when it has not kept it.
func (c *core) hold(leave func(dropped error)) bool {
	if !c.isGated() {
		return false
	}
	return c.ext.gateway.gate.Hold(func(dropped error) {
		defer c.survive()
		if dropped == nil && c.wasKilled() {
			dropped = fmt.Errorf("the actor was killed: %w", ErrStopped)
		}
		leave(dropped)
	})
}

// wasKilled reports whether c was killed and has ended, or was taken away from its handler.
func (c *core) wasKilled() bool {
	if flags := c.flags.Load(); flags&ended == 0 {
		return flags&fenced != 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ext.killed
}

// holdOrLeave is hold for those who do the same if it is not kept.
func (c *core) holdOrLeave(leave func(dropped error)) {
	if !c.hold(leave) {
		leave(nil)
	}
}

// holdAsk is holdOrLeave for what ends or passes on an ask, nil for none. If the gate fails, the ask ends with
// its failure: the gate has let go nothing else.
func (c *core) holdAsk(ask pendingAsk, leave func(dropped error)) {
	returned := false
	defer func() {
		if returned || ask == nil {
			return
		}
		v := recover()
		ask.reject(recovered(v), nil)
		if v != nil {
			panic(v)
		}
	}()
	c.holdOrLeave(leave)
	returned = true
}

// rejectPanic is deferred around code of the user's that comes before an ask, nil for none, is in a mailbox.
// A panic ends the ask, and goes on. The end of the goroutine does not: an Inline actor may have ended it, and
// promised an answer.
func rejectPanic(ask pendingAsk) {
	if v := recover(); v != nil {
		if ask != nil {
			ask.reject(recovered(v), nil)
		}
		panic(v)
	}
}

// survive ends a panic in what was held: a route, or the rank of a message.
func (c *core) survive() { c.logPanic("what was held has panicked and not left", recover()) }

// surviveGate ends a panic of the gate where nobody above would recover.
func (c *core) surviveGate() { c.logPanic("the gate has panicked", recover()) }

// logPanic writes the line about a panic that has ended. v is what recover has returned.
func (c *core) logPanic(msg string, v any) {
	if v != nil {
		c.sys().say(slog.LevelError, msg, slog.String("actor", c.pid().String()), slog.Any("panic", v))
	}
}

// settleGate returns when all has left that is held, if c has a gate and ctx is of its callback.
func (c *core) settleGate(ctx context.Context) error {
	if !c.isGated() || hasLeft(ctx) {
		return nil
	}
	return c.ext.gateway.gate.Settle(ctx)
}

// keep is Tell for a sender with a gate, or one that is fenced. It reports false when Tell
// is to go on.
func (r Ref[M]) keep(ctx context.Context, from *core, msg M) bool {
	dst := r.recipient().base()
	if from.isFenced() {
		dst.sys().deadLetter(dst, from, msg, Killed)
		return true
	}
	if hasLeft(ctx) {
		return false
	}
	e := envelope[M]{msg: msg, with: from}
	to, err := intercept(ctx, r.to, &e)
	dst = to.base()
	from.holdOrLeave(func(dropped error) {
		if dropped != nil {
			from.bury(dst, from, e.msg)
		} else if err != nil {
			dst.sys().deadLetter(dst, from, e.msg, Refused)
		} else if v := to.tell(e, nil); v != verdictTaken {
			dst.sys().deadLetter(dst, from, e.msg, v.reason())
		}
	})
	return true
}

// bury makes a dead letter of a message that c's gate has dropped because c was killed. What
// is dropped because a handler has failed was not sent.
func (c *core) bury(dst, from *core, msg any) {
	if c.flags.Load()&(fenced|ended) != 0 {
		dst.sys().deadLetter(dst, from, msg, Killed)
		dst.sys().discarded.Add(1)
	}
}

// handler calls the handler for the current message, in the gate.
func (c *cell[M]) handler() error {
	c.core.leaveUser()
	defer c.core.enterUser() // also when the handler panics: the gate may recover
	return c.call(c.mailbox())
}

// answerHeld answers an ask when the gate of c lets it.
func answerHeld[R any](c *core, ask answerable[R], answer R) {
	c.holdAsk(ask, func(dropped error) {
		if dropped != nil {
			ask.reject(dropped, nil)
		} else {
			ask.reply(answer, nil)
		}
	})
}

// rejectHeld rejects an ask when the gate of c lets it. It is a function of its own, as is
// passOnHeld, for what its closure has to have on the heap.
func rejectHeld(c *core, ask pendingAsk, err error) {
	c.holdAsk(ask, func(dropped error) { ask.reject(cmp.Or(dropped, err), nil) })
}

// askHeld sends a request when the gate of c lets it.
func askHeld[M any](ctx context.Context, c *core, to Ref[M], req any, ask pendingAsk) {
	later := c.departure(ctx)
	c.holdAsk(ask, func(dropped error) {
		defer rejectPanic(ask)
		if dropped == nil {
			dropped = sendAsk(later, originOf(later), to, req, ask, false)
		}
		if dropped != nil {
			ask.reject(dropped, nil)
		}
	})
}

// passOnHeld sends what was forwarded when the gate of c lets it.
func passOnHeld[N any](c *core, dst target[N], e envelope[N], ask pendingAsk) {
	e.with = markFar(e.with) // by its sender, who need not have a gate, one cannot tell
	c.holdAsk(ask, func(dropped error) {
		switch {
		case dropped == nil:
			passOn(c.sys(), dst, e, ask, nil)
		case ask != nil:
			ask.reject(dropped, nil)
		default:
			c.bury(dst.base(), e.from(), e.msg)
		}
	})
}

// departed is the context of what has left: it says who sends, and is no handler's.
type departed struct {
	context.Context //nolint:containedctx // it is one
	at              departure
}

// departure is the turn of a departed context.
type departure struct {
	c      *core
	header Header
}

// departure returns a context for what leaves later and is sent now.
func (c *core) departure(ctx context.Context) context.Context {
	return departed{context.WithoutCancel(ctx), departure{c, HeaderOf(ctx)}}
}

// Value implements context.Context. What the handler's context has is not asked: it goes on
// to other messages.
func (d departed) Value(key any) any {
	if key == (turnKey{}) {
		return turn(d.at)
	}
	return nil
}

func (d departure) running() (c *core, w *worker) { return d.c, nil }
func (d departure) currentHeader() Header         { return d.header }
func (d departure) moment() context.Context       { return context.Background() }

func (d departure) inquire(interrupter, *core, bool) (before *inquiry, asked pendingAsk, ok bool) {
	return nil, nil, true
}

// hasLeft reports whether ctx is that of something that was held and has left.
func hasLeft(ctx context.Context) bool {
	if _, own := ctx.(turn); own {
		return false
	}
	_, left := ctx.Value(turnKey{}).(departure)
	return left
}
