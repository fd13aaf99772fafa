package actor

import (
	"context"
	"errors"
	"fmt"
)

// Header travels with a message, besides its value: trace context, a tenant. Once it is on a
// message it must not be changed. The zero value is an empty header that cannot be written to.
type Header map[string]string

// Reception is a message about to be handled, as middleware sees it.
type Reception struct {
	To      PID
	From    PID // zero when the message came from outside of any actor
	Message any // the message itself: read it, do not change it
	Header  Header
}

// ReceiveMiddleware wraps a handler: it calls next, once, which handles the message and returns the
// handler's result, or it does not call next and returns in its place. ctx is the handler's. It
// runs in the actor's turn.
type ReceiveMiddleware func(ctx context.Context, r Reception, next func() error) error

// Sending is a message about to be sent, as middleware sees it.
type Sending struct {
	// To may be set to another actor, which gets the message instead. It must accept messages of
	// that type. For deadlock detection, an Ask in a handler counts as one to the original
	// receiver: if that one waits for the asker, the Ask fails with ErrDeadlock.
	To PID
	// Message may be replaced by another one that the receiver accepts.
	Message any
	// Header is what the message will carry. It may be set or replaced; what comes with the
	// sender's current message is already there.
	Header Header
}

// SendMiddleware sees a message on the sender's goroutine before it is in the mailbox, and may
// change its receiver, its value and its header. An error refuses the message: it becomes a dead
// letter with the reason [Refused]. For asks and [Ref.TryTell] the sender gets the error instead,
// except for TryTell in an actor that is [Gated]. If middleware makes a message that cannot be
// sent, that is refused as well. It must not block.
type SendMiddleware func(ctx context.Context, s *Sending) error

// Spawning is an actor about to be started, as middleware sees it.
type Spawning struct {
	Parent PID
	Name   string // as given to Spawn
	Type   string // the printed name of the message type
}

// SpawnMiddleware sees a spawn on the spawner's goroutine. An error refuses it.
type SpawnMiddleware func(s Spawning) error

// AroundReceive adds middleware around the handlers: of all actors as an option of
// [NewSystem], of one as an option of spawning. What was added first is outermost, the
// system's before the actor's. An actor without middleware pays nothing.
func AroundReceive(m ReceiveMiddleware) ReceiveOption {
	required(m != nil, "AroundReceive: the middleware is nil")
	return ReceiveOption{m}
}

// ReceiveOption is the result of [AroundReceive].
type ReceiveOption struct{ m ReceiveMiddleware }

func (o ReceiveOption) applySpawn(c *spawnConfig)   { c.around = append(c.around, o.m) }
func (o ReceiveOption) applySystem(c *systemConfig) { c.around = append(c.around, o.m) }

// BeforeSend adds middleware to all sending by [Ref.Tell], [Ref.TryTell] and asks to actors of the
// system. What was added first runs first, and later middleware sees its result.
func BeforeSend(m SendMiddleware) SystemOption {
	required(m != nil, "BeforeSend: the middleware is nil")
	return systemOption(func(c *systemConfig) { c.beforeSend = append(c.beforeSend, m) })
}

// BeforeSpawn adds middleware to all spawning in the system.
func BeforeSpawn(m SpawnMiddleware) SystemOption {
	required(m != nil, "BeforeSpawn: the middleware is nil")
	return systemOption(func(c *systemConfig) { c.beforeSpawn = append(c.beforeSpawn, m) })
}

// HeaderOf returns the header of the message whose handler runs with ctx, or nil if there is none.
// With a context derived from the handler's, it is the header of the message that the actor is
// handling at the moment.
func HeaderOf(ctx context.Context) Header {
	if t := turnOf(ctx); t != nil {
		return t.currentHeader()
	}
	return nil
}

func (ctx *Context[M]) currentHeader() Header {
	ctx.core.mu.Lock()
	defer ctx.core.mu.Unlock()
	if s := ctx.cell().mailbox(); s != nil {
		return s.header
	}
	return nil
}

// setHeader sets the header of the message that is being handled.
func (c *cell[M]) setHeader(h Header) {
	if s := c.mailbox(); h != nil || s.header != nil {
		c.core.mu.Lock()
		s.header = h
		c.core.mu.Unlock()
	}
}

// turnHeader returns the header of the message that is being handled. REQUIRES: the turn owns c.
func (c *cell[M]) turnHeader() Header {
	if s := c.mailbox(); s != nil {
		return s.header
	}
	return nil
}

// headed is what comes with a message and a header.
type headed struct {
	header Header
	inner  any
	far    bool // for an Inline actor, from a carrier or a gate: see markFar
}

// withHeader wraps what comes with a message if there is a header to carry.
func withHeader(h Header, with any) any {
	if len(h) == 0 {
		return with
	}
	return &headed{header: h, inner: with}
}

// askIn returns the ask that comes with a message.
func askIn(with any) (pendingAsk, bool) {
	if h, ok := with.(*headed); ok {
		with = h.inner
	}
	ask, ok := with.(pendingAsk)
	return ask, ok
}

// withAsk returns what comes with a message, with that ask in place of its own.
func withAsk(with any, ask pendingAsk) any {
	if h, ok := with.(*headed); ok {
		return &headed{header: h.header, inner: ask, far: h.far}
	}
	return ask
}

// intercept has the sending middleware see a message that is about to be sent, and returns to whom
// it goes then.
func intercept[M any](ctx context.Context, to target[M], e *envelope[M]) (target[M], error) {
	sys := to.sys()
	if len(sys.beforeSend) == 0 {
		return to, nil
	}
	pid := to.base().pid()
	s := Sending{To: pid, Message: e.msg, Header: HeaderOf(ctx)}
	for _, m := range sys.beforeSend {
		if err := m(ctx, &s); err != nil {
			return to, fmt.Errorf("%w: %w", errRefused, err)
		}
	}
	msg, ok := s.Message.(M)
	if !ok && (s.Message != nil || any(e.msg) != nil) {
		return to, fmt.Errorf("%w: %w: middleware has made a %T of it, and %s accepts %s", errRefused, ErrNotAccepted, s.Message, pid.Path(), nameOf[M]())
	}
	if s.To != pid {
		other, err := Lookup[M](sys, s.To)
		if err != nil {
			return to, fmt.Errorf("%w: middleware has sent it elsewhere: %w", errRefused, err)
		}
		to = other.to
		if ask, asked := e.with.(pendingAsk); asked {
			ask.passTo(to.waitedOn())
		}
	}
	e.msg, e.with = msg, withHeader(s.Header, e.with)
	return to, nil
}

// errRefused is in the error of a message that middleware has refused.
var errRefused = errors.New("refused before it was sent")

// receiveAround runs the handler inside of the middleware from the i-th on.
func (c *cell[M]) receiveAround(r Reception, i int) error {
	if i == len(c.core.kind.around) {
		return c.receive(c.mailbox())
	}
	c.core.enterUser()
	err := c.core.kind.around[i](c.context(), r, func() error {
		c.core.leaveUser()
		defer c.core.enterUser() // also when the handler panics: the middleware may recover
		return c.receiveAround(r, i+1)
	})
	c.core.leaveUser()
	return err
}

// mayStart asks the spawning middleware.
func (s *System) mayStart(parent *core, name, typ string) error {
	for _, m := range s.beforeSpawn {
		if err := m(Spawning{Parent: parent.pid(), Name: name, Type: typ}); err != nil {
			return fmt.Errorf("spawn %q under %s: %w", name, parent.fullPath(), err)
		}
	}
	return nil
}
