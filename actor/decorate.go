package actor

import "context"

// Decorate adds values to the context of the handler that runs with ctx, until its message has been
// handled. decorate makes a context from the one that it is given, for example with
// [context.WithValue]: it must only add values, and is called once, before Decorate returns. From
// then on the handler's [Context] has the values, and so do contexts derived from it and the
// context that comes with an [Ask]. Decorate is for [ReceiveMiddleware]: handlers work, ask and
// reply with their usual Context. A later call decorates the result of an earlier one.
//
// ctx must be the handler's own. Decorate does nothing outside of a handler that has middleware
// around it.
func Decorate(ctx context.Context, decorate func(context.Context) context.Context) {
	required(decorate != nil, "Decorate: the function is nil")
	if t, ok := ctx.(decorable); ok {
		t.decorate(decorate(t.moment()))
	}
}

// SetHeader replaces the header of the message whose handler runs with ctx, until the message has
// been handled. [HeaderOf] returns it, and what the handler stashes or begins ([Context.After],
// [Pipe], [AskThen]) carries it. So does what the handler sends if there is a [BeforeSend], which
// may change it. SetHeader is for [ReceiveMiddleware], with the same ctx as [Decorate]. The caller
// must not change h afterwards.
func SetHeader(ctx context.Context, h Header) {
	if t, ok := ctx.(decorable); ok {
		t.replaceHeader(h)
	}
}

// decorable is the context of a handler itself.
type decorable interface {
	moment() context.Context
	decorate(by context.Context)
	replaceHeader(h Header)
}

func (ctx *Context[M]) decorate(by context.Context) {
	c := ctx.cell()
	if len(c.core.kind.around) == 0 || !c.core.enterRuntime() {
		return
	}
	defer c.core.exitRuntime()
	c.core.mu.Lock()
	if s := c.mailbox(); s != nil && s.cur != nil {
		s.merged = by
	}
	c.core.mu.Unlock()
}

func (ctx *Context[M]) replaceHeader(h Header) {
	c := ctx.cell()
	if len(c.core.kind.around) == 0 || !c.core.enterRuntime() {
		return
	}
	defer c.core.exitRuntime()
	if s := c.mailbox(); s != nil && s.cur != nil {
		c.setHeader(h)
	}
}

// undecorate ends what middleware has done to a message. The context of a request ends with the request.
// REQUIRES: the turn owns c.
func (c *cell[M]) undecorate(s *mailbox[M]) {
	c.core.mu.Lock()
	if s.asker == nil {
		s.merged = nil
	}
	s.header = nil
	c.core.mu.Unlock()
}
