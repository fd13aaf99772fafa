package actor

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"time"
	"unsafe"
)

// Returns makes a struct a request whose answer is an R: embed it, first.
//
//	type Get struct{ actor.Returns[int] }
//
// It has no size.
type Returns[R any] struct{}

func (Returns[R]) returns(R) {}

// Request is a message that is answered with an R. Structs become one by embedding
// [Returns].
type Request[R any] interface{ returns(R) }

// waitChainMax bounds the search for a cycle of waiting actors.
const waitChainMax = 100_000

// defaultAskTimeout ends an ask whose context has no deadline.
const defaultAskTimeout = 5 * time.Second

// Ask sends req and waits for the answer. It always ends: with the answer, the error that the
// handler returned, [ErrUnhandled], [ErrStopped] if the target has stopped or stops before it
// answers, [ErrNotAccepted] if its message type does not include req, [ErrDeadlock] if the target
// waits for the asker, or the cause of ctx. If ctx has no deadline, and without [Within], the
// system's ask timeout applies, 5 seconds unless set otherwise. After an ask that timed out it is
// unknown whether req was handled.
//
// In a handler pass the handler's ctx, and limit the ask with [Within]. While the handler waits, its
// actor handles nothing else, and the worker continues with other actors. The same holds for a context
// derived from the handler's, for example by context.WithTimeout, if the handler itself waits. A wait on
// another goroutine is not the handler's: a deadlock that includes it ends only with the time limit.
func Ask[R, M any](ctx context.Context, to Ref[M], req Request[R], opts ...WaitOption) (R, error) {
	return ask[R](ctx, to, req, opts)
}

// AskFor is [Ask] for a message type that cannot embed [Returns], such as generated code: the
// caller says what the answer is, and the handler answers with [ReplyFor]. An answer of another
// type ends the ask with [ErrNotAccepted].
func AskFor[R, M any](ctx context.Context, to Ref[M], req any, opts ...WaitOption) (R, error) {
	return ask[R](ctx, to, req, opts)
}

func ask[R, M any](ctx context.Context, to Ref[M], req any, opts []WaitOption) (answer R, err error) {
	limit := limitOf(opts)
	dst := to.recipient()
	sys := dst.base().sys()
	o := originOf(ctx).located()
	if from, _ := o.caller(); from.isGated() {
		if err := from.settleGate(ctx); err != nil {
			return answer, describe(err, to, req)
		}
	}
	a := &call[R]{sys: sys, ctx: o.lasting(ctx)}
	when, alarmed := sys.askDeadline(a.ctx, limit)
	a.alarm.when = when
	if a.ctx.Err() != nil {
		return answer, describe(causeOf(a.ctx), to, req)
	}
	if limit < 0 {
		return answer, describe(limitError(limit), to, req)
	}
	own, before, asked, err := a.begin(o, a, dst.waitedOn())
	if err != nil {
		return answer, describe(err, to, req)
	}
	if own != nil {
		defer own.inquired(before)
	}
	if err := sendAsk(ctx, o, to, req, a, true); err != nil {
		a.forget()
		return answer, describe(err, to, req)
	}
	if err = a.await(asked != nil || !o.own, alarmed); err != nil {
		err = describe(sys.timeUp(err, limit), to, req)
	}
	return a.answer, err
}

// begin makes known to others that the caller waits for a. They see call, and first, the actor that
// it waits for until the request is passed on, nil if that is not known. own is the actor when the
// caller is its handler, and not somebody on another goroutine with a context derived from the
// handler's: the caller must call own.inquired with before. asked is the request that it handles,
// if there is one.
func (a *call[R]) begin(o origin, call interrupter, first *core) (own *core, before *inquiry, asked pendingAsk, err error) {
	from, w := o.waiter()
	if err := a.pause.begin(a.sys, from, w, o.here); err != nil {
		return nil, nil, nil, err
	}
	if !o.here {
		return nil, nil, nil, nil
	}
	before, asked, ok := o.turn.inquire(call, first, a.pause.parking.aside)
	if !ok {
		a.pause.free(a.sys)
		return nil, nil, nil, causeOf(a.ctx)
	}
	// Of two asks that cross each other the later one sees the other: what a handler waits for is
	// known before it looks.
	if err := from.deadlock(targetOf(call, first), call); err != nil {
		from.inquired(before)
		a.forget()
		return nil, nil, nil, err
	}
	return from, before, asked, nil
}

// interrupter is a wait that others can end: an order to stop, or the end of a cycle.
type interrupter interface {
	interrupt(why error)
	over() bool
	passedTo() *answerer  // nil when it is still the same who has to end it
	request() interrupter // the ask that has to be answered; nil when the target itself has to end
}

// inquiry is what a handler waits for.
type inquiry struct {
	call   interrupter // the ask, or another wait; nil for none
	first  *core       // whom it waited for at first, nil when that is not known
	stack  *core       // who is above it on its stack, see stack.go; also when the call is over: an inline one may have more mail
	asked  pendingAsk  // the request that it handles and has not promised to answer, if there is one
	aside  bool        // other messages are handled meanwhile, once nobody is above
	before *inquiry    // what it waits for besides, nil for nothing: it has begun with the call on top of that
	lender *core       // of before: who was at the top of the stack then
}

// target returns whom the handler waits for, nil when that is not known.
func (i *inquiry) target() *core {
	if i.call == nil {
		return i.stack
	}
	return targetOf(i.call, i.first)
}

// targetOf returns for whom a call waits that has waited for first.
func targetOf(call interrupter, first *core) *core {
	if answerer := call.passedTo(); answerer != nil {
		return answerer.c
	}
	return first
}

// split appends the calls, unless they are over, and who is above on the stack to waits, each by itself.
func (i inquiry) split(waits []inquiry) []inquiry {
	if i.stack != nil {
		waits = append(waits, inquiry{stack: i.stack})
	}
	for at := &i; at != nil; at = at.before { // who was above before is below now
		if at.call != nil && !at.isOver() {
			waits = append(waits, inquiry{call: at.call, first: at.first})
		}
	}
	return waits
}

// answerer is who has to answer a request that was promised or forwarded, nil when that is not known.
type answerer struct{ c *core }

// isFor reports whether the handler handles the request of that ask.
func (i *inquiry) isFor(ask interrupter) bool { return i.asked != nil && i.asked.request() == ask }

// inquire notes whom a call in the handler waits for: first, nil when that is not known; aside says that others are
// handled meanwhile. It reports false when the incarnation is about to end: then nobody waits for anything. before is
// what the handler waits for already, nil for nothing, and for inquired.
func (c *core) inquire(call interrupter, first *core, aside bool) (before *inquiry, ok bool) {
	c.mu.Lock()
	before, ok = c.inquireLocked(call, first, aside, nil)
	c.mu.Unlock()
	before.lend(c)
	return before, ok
}

// inquireLocked is inquire, after which the caller must call before.lend. REQUIRES: c.mu held.
func (c *core) inquireLocked(call interrupter, first *core, aside bool, asked pendingAsk) (before *inquiry, ok bool) {
	ext := c.needExtLocked()
	if ext.ending() {
		return nil, false
	}
	if ext.inquiry.call != nil || ext.inquiry.stack != nil {
		before = new(ext.inquiry)
	}
	ext.inquiry = inquiry{call: call, first: first, asked: asked, aside: aside, before: before}
	return before, true
}

// inquire is that of core, with the request in whose handler the caller asks, which it returns.
func (ctx *Context[M]) inquire(call interrupter, first *core, aside bool) (before *inquiry, asked pendingAsk, ok bool) {
	c := ctx.cell()
	c.core.mu.Lock()
	asked = ctx.askLocked()
	owed := asked
	if c.core.taken { // others may answer it
		owed = nil
	}
	before, ok = c.core.inquireLocked(call, first, aside, owed)
	c.core.mu.Unlock()
	before.lend(&c.core)
	return before, asked, ok
}

// inquired ends what inquire began.
func (c *core) inquired(before *inquiry) {
	if before == nil {
		c.mu.Lock()
		c.ext.inquiry = inquiry{}
		c.mu.Unlock()
		return
	}
	before.lender.putDown()
	c.mu.Lock()
	c.ext.inquiry = *before
	c.ext.inquiry.lender = nil
	c.mu.Unlock()
}

// lend puts c, whose context somebody above it has and waits with, on the top of the stack. i is what c has waited for
// before, and may be nil.
func (i *inquiry) lend(c *core) {
	if i != nil {
		i.lender, _ = i.stack.carry(c)
	}
}

// waitsWith replaces the call with which c's handler waits.
func (c *core) waitsWith(call interrupter) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ext.inquiry.call = call
}

// isAside reports whether other messages are handled meanwhile: not before a request is in.
func (i *inquiry) isAside() bool {
	room, ok := i.call.(*askForRoom)
	return i.aside && (!ok || room.room.admitted())
}

// waitingFor returns what keeps c from ending that wait of another: nothing, when it has come, or
// when c handles other messages meanwhile and has not begun with this one. Where that are several,
// they are in all: if c is reentrant, its end waits for all of its handlers, and so does a request
// that it begins only after them (handlesLast); a handler that waits in such a way that c handles
// nothing else meanwhile keeps all others.
func (c *core) waitingFor(wait interrupter) (i inquiry, all []inquiry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ext == nil {
		return inquiry{}, nil
	}
	i = c.ext.inquiry
	if c.traits.reentrant() {
		request := wait
		if wait != nil {
			request = wait.request()
		}
		of := c.inquiryFor(request)
		if wait != nil && (request == nil || of.asked == nil && c.handlesLast(request)) {
			all = i.split(nil)
			for _, i := range c.waitingHandlers() {
				all = i.split(all)
			}
			return inquiry{}, c.decision().split(all)
		}
		if i.isAside() {
			i = inquiry{stack: i.stack}
		}
		switch {
		case i.stack == nil && i.before == nil && i.target() == nil:
			i = of
		case of.call != nil && of.call != i.call: // its handler waits, and another keeps all from going on
			return inquiry{}, of.split(i.split(nil))
		}
	}
	switch {
	case i.stack != nil || i.before != nil:
		return inquiry{}, i.split(nil)
	case i.isOver():
		return inquiry{}, nil
	case i.call == nil && i.asked == nil: // else its handler is about to go on
		return c.decision(), nil
	}
	return i, nil
}

// decision returns that c waits for a turn of its supervisor, if it does. REQUIRES: c.mu held.
func (c *core) decision() inquiry {
	if c.scheduled || !c.needsSupervisor() {
		return inquiry{}
	}
	return inquiry{stack: c.parent}
}

// needsSupervisor reports whether c handles nothing until its supervisor has a turn: it has failed, or is halted in a
// restart of siblings. A signal that ends this otherwise gives c a turn. REQUIRES: c.mu held, and c has no turn or is
// about to end it.
func (c *core) needsSupervisor() bool {
	return c.phase == suspended || c.phase == restarting && c.ext.halted && c.ext.ended && c.ext.backoff == nil
}

// waitsForNobody reports whether c waits for nobody, as is usual where somebody is about to wait for c.
func (c *core) waitsForNobody() bool {
	if c == nil {
		return true
	}
	c.mu.Lock()
	ext := c.ext
	free := ext == nil || ext.inquiry.call == nil && ext.inquiry.stack == nil && ext.reentry == nil && c.phase != suspended && c.phase != restarting
	c.mu.Unlock()
	return free
}

// isWaitFor reports whether the handler waits with that call, or for the future outcome of that ask.
func (i *inquiry) isWaitFor(call interrupter) bool {
	return i.call != nil && (i.call == call || i.call.request() == call)
}

func (i *inquiry) isOver() bool { return i.call != nil && i.call.over() }

// sendAsk puts the request into the target's mailbox; wait says whether it may wait for
// room there.
func sendAsk[M any](ctx context.Context, o origin, to Ref[M], req any, ask pendingAsk, wait bool) error {
	dst := to.recipient()
	msg, ok := req.(M)
	if !ok {
		return notAccepted[M](req)
	}
	from, w := o.caller()
	if from.isFenced() {
		return fmt.Errorf("the asker was killed: %w", ErrStopped)
	}
	ask.sentBy(from)
	v, e := verdictTaken, envelope[M]{msg: msg, with: ask}
	c := dst.base()
	if len(c.sys().beforeSend) > 0 {
		meant, err := dst, error(nil)
		if dst, err = intercept(ctx, dst, &e); err != nil {
			return err
		}
		if c = dst.base(); wait && dst != meant && o.here { // it was another one whom the search for cycles began with
			if err := from.deadlock(dst.waitedOn(), ask); err != nil {
				return err
			}
		}
	}
	if wait {
		var err error
		if v, err = tellWaiting(ctx, dst, e, w, from == c && o.here, ask); err != nil {
			return err
		}
	} else {
		v = dst.tell(e, w)
	}
	if v != verdictTaken {
		c.sys().deadLetter(c, from, e.msg, v.reason())
		return v.err()
	}
	return nil
}

// notAccepted says that req is not a message of type M.
func notAccepted[M any](req any) error {
	if req == nil {
		return fmt.Errorf("%w: the request is nil", ErrNotAccepted)
	}
	return fmt.Errorf("%w: it accepts %s", ErrNotAccepted, nameOf[M]())
}

// describe says whose ask it was that ended with err.
func describe[M any](err error, to Ref[M], req any) error {
	if err == nil {
		return nil
	}
	if req == nil {
		return fmt.Errorf("ask %s: %w", to.to.base().fullPath(), err)
	}
	return fmt.Errorf("ask %s with %s: %w", to.to.base().fullPath(), reflect.TypeOf(req), err) // not %T: the request would have to be on the heap
}

// deadlock returns an error that names the cycle if target, for which c waits with that call,
// waits directly or through others for the call to end. c is nil for an asker from outside.
func (c *core) deadlock(target *core, call interrupter) error {
	if target.waitsForNobody() {
		return nil
	}
	// Twice: one look may put together waits that were not at the same time.
	first, second := search{call: call}, search{call: call, names: true}
	if first.leads(target, call, call) && second.leads(target, call, call) {
		return c.cycle(second.path)
	}
	return nil
}

// endCycle ends a wait for c, which needs a turn of its supervisor, if it keeps that one from it.
func (c *core) endCycle() {
	if c.parent.waitsForNobody() {
		return
	}
	first, second := search{failed: c}, search{failed: c, names: true}
	if first.leads(c.parent, nil, nil) && second.leads(c.parent, nil, nil) {
		second.call.interrupt(c.cycle(second.path))
	}
}

// search follows those who wait for each other.
type search struct {
	call   interrupter // the wait that it looks for, or an ask for whose outcome somebody waits
	failed *core       // if not nil, it looks for any wait for that one that its supervisor must end
	steps  int
	been   map[visit]struct{} // what it has followed, from the step searchPlain on
	names  bool               // keep the path
	path   []*core            // from the first who waits to the one who waits with call
}

// searchPlain is after how many steps a search notes where it has been. Most chains are shorter,
// and then that need not be allocated. Where each of several handlers waits for several others
// there are more ways than anybody could follow.
const searchPlain = 64

// visit is all by which the rest of a chain may differ: see waitingFor, and leads for waits.
type visit struct {
	at      *core
	request interrupter // which at is to answer, if it is reentrant; nil if it is to end
	call    bool        // somebody waits for it with a call
	last    bool        // there was a call on the way
}

// again reports whether the search has followed the chain from there before.
func (s *search) again(at *core, call, last interrupter) bool {
	if s.steps++; s.steps <= searchPlain {
		return false
	}
	v := visit{at: at, call: call != nil, last: last != nil}
	if call != nil && at.traits.reentrant() {
		v.request = call.request()
	}
	if _, been := s.been[v]; been {
		return true
	}
	if s.been == nil {
		s.been = make(map[visit]struct{})
	}
	s.been[v] = struct{}{}
	return false
}

// leads reports whether the chain of those who wait leads from at, for whom somebody waits with
// that call, to the wait that is looked for. last is the last call on the way, which call is unless that is nil.
func (s *search) leads(at *core, call, last interrupter) bool {
	begin := len(s.path)
	for at != nil && s.steps < waitChainMax && !s.again(at, call, last) {
		if s.names {
			s.path = append(s.path, at)
		}
		i, all := at.waitingFor(call)
		if at == s.failed && last != nil {
			if s.call = last; i.stack == at.parent || slices.ContainsFunc(all, func(i inquiry) bool { return i.stack == at.parent }) {
				return true
			}
			break
		}
		for _, i := range all {
			if !i.isOver() && (s.isFor(&i) || s.leads(i.target(), i.call, cmp.Or(i.call, last))) {
				return true
			}
		}
		if s.isFor(&i) {
			return true
		}
		at, call, last = i.target(), i.call, cmp.Or(i.call, last)
	}
	s.path = s.path[:begin]
	return false // or others wait for each other in a circle, and are about to be told so
}

// isFor reports whether i is the wait that is looked for.
func (s *search) isFor(i *inquiry) bool { return s.failed == nil && i.isWaitFor(s.call) }

// cycleNames is how many actors of a cycle its error names.
const cycleNames = 10

// cycle names the actors that wait for each other, from c along the path, which leads to c. If c is nil it begins with
// the last of the path.
func (c *core) cycle(along []*core) error {
	if c == nil {
		c = along[len(along)-1]
	}
	var path strings.Builder
	path.WriteString(c.fullPath())
	for i, at := range along {
		if i == cycleNames && i < len(along)-1 {
			fmt.Fprintf(&path, " -> (%d more)", len(along)-1-i)
			break
		}
		path.WriteString(" -> " + at.fullPath())
	}
	return fmt.Errorf("%w: %s", ErrDeadlock, path.String())
}

// Reply answers the request that is being handled; the compiler checks the answer's type. A second
// answer, or an answer to a request that was told and not asked, is dropped, since nobody waits for
// it. Use it in the handler that was given ctx. Reply panics if req does not equal the message
// being handled: to answer a request later, take a [Promise].
func Reply[R, M any](ctx *Context[M], req Request[R], answer R) {
	cur := ctx.cell().current()
	if cur == nil {
		return
	}
	if msg, ok := req.(M); !ok || !identical(&msg, &cur.msg) {
		requireCurrent(req, cur.msg)
	}
	if ask, ok := cur.with.(*call[R]); ok && !ctx.core.isGated() { // the usual case, directly
		ask.resolve(answer, nil, ctx.core.worker.Load())
	} else if ask := answerableOf[R](cur.with); ask != nil {
		answerCurrent(ctx, ask, answer)
	}
}

// answerCurrent answers the request that is being handled.
func answerCurrent[R, M any](ctx *Context[M], ask answerable[R], answer R) {
	if !ctx.core.isGated() {
		ask.reply(answer, ctx.core.worker.Load())
		return
	}
	ctx.cell().takeAsk()
	answerHeld(&ctx.core, ask, answer)
}

// requireCurrent panics when req is not the message msg.
func requireCurrent(req, msg any) {
	if !equal(req, msg) && equal(req, req) { // unlike what has a NaN
		panic(fmt.Sprintf("actor: Reply: this %s is not the request that is being handled: take a Promise to answer one later", reflect.TypeOf(req)))
	}
}

// identical reports whether two values have the same bytes. Then they are equal; if they have not, they
// may be equal all the same.
func identical[M any](a, b *M) bool {
	size := int(unsafe.Sizeof(*a))
	return unsafe.String((*byte)(unsafe.Pointer(a)), size) == unsafe.String((*byte)(unsafe.Pointer(b)), size)
}

// equal reports whether a == b, and true when that cannot be told.
func equal(a, b any) (same bool) {
	defer func() {
		if recover() != nil {
			same = true
		}
	}()
	return a == b
}

// ReplyFor is [Reply] to a request of [AskFor].
func ReplyFor[R, M any](ctx *Context[M], answer R) {
	with := ctx.cell().currentWith()
	if ask := answerableOf[R](with); ask != nil {
		answerCurrent(ctx, ask, answer)
		return
	}
	if ask, ok := with.(pendingAsk); ok && ctx.cell().takeAsk() != nil {
		ask.reject(fmt.Errorf("%w: the answer is a %s and the asker wants another type", ErrNotAccepted, nameOf[R]()), ctx.core.worker.Load())
	}
}

// Promise lets the handler return before it answers the request that is being handled: the asker
// waits until the promise is kept or its time is up. Of several promises for one request the first that
// is kept counts.
func Promise[R, M any](ctx *Context[M], req Request[R]) *Promised[R] {
	_ = req // fixes R
	p := new(Promised[R])
	if p.ask = answerableOf[R](ctx.cell().currentWith()); p.ask != nil && ctx.cell().takeAsk() == nil {
		p.ask = nil // the actor was killed meanwhile
	}
	if ctx.core.isGated() {
		p.of, p.renewals = &ctx.core, ctx.core.renewals()
	}
	return p
}

// Promised is an answer to come. Its methods are safe for concurrent use; the first
// call counts.
type Promised[R any] struct {
	ask answerable[R] // nil when nobody waits
	of  *core         // whose gate the answer goes through, nil for none

	renewals uint64 // of that actor when the promise was made

	spent atomic.Bool // it is kept, or the gate holds its answer
}

// lost ends the ask, and reports true, when the promise is that of an incarnation of a gated actor
// that has failed: the answer may be of a state that its gate has not let go.
func (p *Promised[R]) lost() bool {
	if p.of.renewals() == p.renewals {
		return false
	}
	p.ask.reject(fmt.Errorf("the actor was restarted before it kept its promise: %w", ErrStopped), nil)
	return true
}

// spend reports whether it is for the caller to keep the promise.
func (p *Promised[R]) spend() bool {
	return p.ask != nil && !p.ask.over() && !p.spent.Swap(true) && (p.of == nil || !p.lost())
}

// Resolve answers. It reports false when nobody waits any more.
func (p *Promised[R]) Resolve(answer R) bool {
	if !p.spend() {
		return false
	}
	if p.of == nil {
		return p.ask.reply(answer, nil)
	}
	answerHeld(p.of, p.ask, answer)
	return true
}

// Reject ends the ask with an error. It reports false when nobody waits any more.
func (p *Promised[R]) Reject(err error) bool {
	if !p.spend() {
		return false
	}
	if p.of == nil {
		return p.ask.reject(err, nil)
	}
	rejectHeld(p.of, p.ask, err)
	return true
}

// pendingAsk is an ask as the target's cell sees it. w is the worker of the turn that
// ends the ask, nil outside of one: an asker that waits in a handler goes on there.
type pendingAsk interface {
	interrupter
	reject(err error, w *worker) bool // false: nobody waits any more, or others may still answer
	passTo(c *core)                   // c has to answer it now, nil when that is not known
	asker() (ctx context.Context, deadline time.Time)
	answered() bool
	sentBy(from *core)                                // before it is sent
	settle(decode func(into any) error) (bool, error) // ends the ask with an answer from another system, see FarAsk; not if decode fails
	sender() *core
}

// What an ask is.
const (
	askPending  uint32 = iota
	askAnswered        // or rejected
	askGivenUp         // its asker no longer waits
)

// call is an ask under way, all of it: it is the one thing that an ask allocates. It is
// settled once, and who settles it has answer and err to itself until the asker hears of
// it: through pause or through notify. It is not used again for another ask, since a
// handler may still hold it when the asker has gone on.
type call[R any] struct {
	settled  atomic.Uint32 // askPending, askAnswered or askGivenUp
	answer   R
	err      error
	sys      *System
	ctx      context.Context
	answerer atomic.Pointer[answerer]
	alarm    timerNode // when is the deadline, also where the context sees to it
	notify   func()    // called when settled, if not nil; otherwise somebody waits in pause
	pause    pause
}

// newCall makes a call whose asker's context stays what it is: in place of a handler's
// own it takes the one of the handler's message. The caller sets the deadline.
func newCall[R any](ctx context.Context, sys *System) *call[R] {
	return &call[R]{sys: sys, ctx: lasting(ctx)}
}

// lasting returns a context that stays what ctx is now, also when ctx is a handler's, or made of
// one, and its actor goes on to another message.
func lasting(ctx context.Context) context.Context { return originOf(ctx).lasting(ctx) }

// lasting is [lasting] of the context of which o is the origin.
func (o origin) lasting(ctx context.Context) context.Context {
	if o.turn == nil {
		return ctx
	}
	return o.moment(ctx)
}

// moment is lasting for a context from a handler.
func (o origin) moment(ctx context.Context) context.Context {
	at := o.turn.moment()
	switch {
	case o.own:
		return at
	case ctx.Done() == at.Done(): // it ends as the handler's own one does, which will be another one
		return derived{Context: at, values: ctx, of: o.turn, at: at}
	default:
		return derived{Context: ctx, values: ctx, of: o.turn, at: at}
	}
}

// derived is what is left of a context that was made of a handler's. Its values lead back to that
// handler's actor, which may have gone on to another message: maybe to the very request that was
// sent with it, which would then be asked for its own values, without end.
type derived struct {
	context.Context // says when it ends, and keeps to that
	values          context.Context
	of              turn
	at              context.Context // the moment in which it was made
}

// Value implements context.Context.
func (d derived) Value(key any) any {
	if d.of.moment() == d.at {
		return d.values.Value(key)
	}
	return d.at.Value(key)
}

// endOf returns what ends when ctx does, which lasting has returned: package context recognizes it,
// however the actor goes on.
func endOf(ctx context.Context) context.Context {
	switch c := ctx.(type) {
	case derived:
		return c.Context
	case work:
		return c.lifetime
	}
	return ctx
}

// causeOf returns why ctx, which lasting has returned, has ended.
func causeOf(ctx context.Context) error {
	return cmp.Or(context.Cause(endOf(ctx)), context.Canceled) // what another goroutine is just ending may not know yet
}

func (a *call[R]) asker() (ctx context.Context, deadline time.Time) {
	return a.ctx, a.sys.clock.base.Add(a.alarm.when)
}

func (a *call[R]) sentBy(from *core) { a.pause.from = from }

func (a *call[R]) sender() *core { return a.pause.from }

func (a *call[R]) passTo(c *core) { a.answerer.Store(&answerer{c}) }

func (a *call[R]) passedTo() *answerer { return a.answerer.Load() }

func (a *call[R]) request() interrupter { return a }

func (a *call[R]) settle(decode func(into any) error) (bool, error) {
	if a.over() {
		return false, nil
	}
	var answer R
	if err := decode(&answer); err != nil {
		return false, err
	}
	return a.resolve(answer, nil, nil), nil
}

func (a *call[R]) reject(err error, w *worker) bool {
	var none R
	return a.resolve(none, err, w)
}

// expire ends the ask for its asker, whoever may still answer.
func (a *call[R]) expire(err error, w *worker) bool {
	var none R
	return a.end(askGivenUp, none, err, w)
}

func (a *call[R]) reply(answer R, w *worker) bool { return a.resolve(answer, nil, w) }

func (a *call[R]) resolve(answer R, err error, w *worker) bool {
	return a.end(askAnswered, answer, err, w)
}

func (a *call[R]) end(how uint32, answer R, err error, w *worker) bool {
	if a.over() || !a.settled.CompareAndSwap(askPending, how) { // it is usual to be late: every handler's return is
		return false
	}
	a.answer, a.err = answer, err
	if a.notify != nil {
		a.notify()
	} else {
		a.pause.end(w)
	}
	return true
}

// ring ends an ask whose time is up.
func (a *call[R]) ring() { a.expire(errTimeUp, nil) }

// shut ends an ask that the system does not outlive.
func (a *call[R]) shut() { a.expire(ErrStopped, nil) }

// over reports whether nobody waits any more.
func (a *call[R]) over() bool { return a.settled.Load() != askPending }

// answered reports whether the actor that had to answer has.
func (a *call[R]) answered() bool { return a.settled.Load() == askAnswered }

// interrupt ends the call with that error.
func (a *call[R]) interrupt(why error) { a.expire(why, nil) }

// await returns when the call is settled, with its error. A later answer is dropped. asked says that
// the context of a handler's ask may end before its incarnation does, alarmed that it takes an alarm
// to end the ask in time, and not the context alone.
func (a *call[R]) await(asked, alarmed bool) error {
	if alarmed {
		a.sys.clock.at(&a.alarm, a.alarm.when, a)
	}
	switch {
	case !a.pause.parked():
		if !a.pause.await(a.sys, a.ctx.Done()) {
			a.expire(causeOf(a.ctx), nil)
			a.pause.await(a.sys, nil)
		}
	case asked: // its own asker may give up
		stop := whenDone(a.ctx, func() { a.expire(causeOf(a.ctx), nil) })
		a.pause.await(a.sys, nil)
		stop()
	default:
		a.pause.await(a.sys, nil)
	}
	if alarmed {
		a.sys.clock.cancel(&a.alarm)
	}
	a.pause.free(a.sys)
	return a.err
}

// forget ends a call that was not sent.
func (a *call[R]) forget() {
	a.expire(ErrStopped, nil)
	a.pause.await(a.sys, nil) // takes what expire has left: the waiter is used again
	a.pause.free(a.sys)
}
