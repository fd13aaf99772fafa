package actor

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"
	"weak"
)

// proxy stands for an actor of another system wherever the runtime knows actors by their core: as
// target, sender, watched and linked actor. It has no mailbox and gets no turn. There is one of each
// actor, for as long as somebody refers to it; so references to it are equal.
//
// Its watchers and links are those of any core. The other system is told of the first watcher and
// after the last, and of each link. orders is held meanwhile: so that what it is told has the order
// in which it happened here. It is acquired before every other lock.
type proxy struct {
	core
	path   string
	way    Way
	orders sync.Mutex
	typed  atomic.Pointer[any] // a *farType[M] of the last message type
}

// proxied is a proxy as the target of a reference. It has the shape of a pointer: a Ref of it
// allocates nothing.
type proxied[M any] struct{ proxy *proxy }

// proxyOf returns the proxy that c is the beginning of, nil for a cell.
func proxyOf(c *core) *proxy {
	if c.kind.far == nil {
		return nil
	}
	return (*proxy)(unsafe.Pointer(c))
}

// node returns the node of the actor.
func (p *proxy) node() *farNode { return p.kind.far }

// proxy returns the one proxy of that actor. If its node cannot be reached, it is one that says so.
func (f *Far) proxy(pid PID) *proxy {
	p, err := f.reach(pid)
	if err == nil {
		return p
	}
	key := nodeKey{pid.node, pid.inc}
	return newProxy(f.newNode(key, noWay{}), pid, noWay{})
}

// reach returns the one proxy of that actor. It fails if its node cannot be reached.
func (f *Far) reach(pid PID) (*proxy, error) {
	if p := f.known(pid); p != nil && f.isUp(p) {
		return p, nil
	}
	n, err := f.node(pid)
	if err != nil {
		return nil, err
	}
	way, err := f.carrier.Way(pid)
	if err != nil {
		return nil, err
	}
	p := newProxy(n, pid, way)
	f.mu.Lock()
	defer f.mu.Unlock()
	if had := f.proxies[pid].Value(); had != nil {
		return had, nil
	}
	f.proxies[pid] = weak.Make(p)
	runtime.AddCleanup(p, forgotten, forgottenProxy{weak.Make(f), pid})
	return p, nil
}

func newProxy(n *farNode, pid PID, way Way) *proxy {
	p := &proxy{path: pid.path, way: way}
	p.kind, p.core.path, p.id, p.phase = &n.kind, &p.path, pid.id, running
	return p
}

// known returns the proxy of that actor if there is one.
func (f *Far) known(pid PID) *proxy {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.proxies[pid].Value()
}

// isUp reports whether the node of a proxy is not lost. One that is may be referred to yet, or not any
// more: what is said of it must not depend on the garbage collector.
func (f *Far) isUp(p *proxy) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.nodes[nodeKey{p.kind.node, p.kind.inc}] == p.node()
}

// forgottenProxy is a proxy that nobody refers to any more. It must not keep the system in memory, which may
// lead to the proxy: by the states of its actors, for example.
type forgottenProxy struct {
	far weak.Pointer[Far]
	pid PID
}

// forgotten drops the entry of a proxy that nobody refers to any more.
func forgotten(p forgottenProxy) {
	f, pid := p.far.Value(), p.pid
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.proxies[pid].Value() == nil { // there may be another by now
		delete(f.proxies, pid)
	}
}

// hold keeps the proxy in memory, for whoever ends its watches and links when the node is lost. It
// reports false when the node is lost already: nobody ends them.
func (p *proxy) hold() bool {
	n := p.node()
	n.far.mu.Lock()
	defer n.far.mu.Unlock()
	if n.held == nil {
		return false
	}
	n.held[p] = struct{}{}
	return true
}

// release ends hold when nobody watches the proxy or is linked with it.
func (p *proxy) release() {
	n := p.node()
	n.far.mu.Lock()
	defer n.far.mu.Unlock()
	p.mu.Lock()
	used := p.ext != nil && (p.ext.watchers.n > 0 || len(p.ext.links) > 0)
	p.mu.Unlock()
	if !used {
		delete(n.held, p)
	}
}

// watchedBy is that of core.
func (p *proxy) watchedBy(w *watcher) bool {
	p.orders.Lock()
	p.mu.Lock()
	list := &p.needExtLocked().watchers
	list.push(w)
	first := list.n == 1
	p.mu.Unlock()
	p.hold()
	reached := !first || p.signalWay(FarWatch, p.node().far.Node())
	p.orders.Unlock()
	if !reached {
		p.lost(ErrUnreachable)
	}
	return true
}

// forget is that of core.
func (p *proxy) forget(w *watcher) {
	p.orders.Lock()
	defer p.orders.Unlock()
	p.mu.Lock()
	last := false
	if w.listed { // else there may be no ext, either
		p.ext.watchers.remove(w)
		last = p.ext.watchers.n == 0
	}
	p.mu.Unlock()
	p.release()
	if last {
		p.signalWay(FarUnwatch, p.node().far.Node())
	}
}

// link links c, which has noted it, with the actor. It reports false when that one's node is lost and c
// was not told so.
func (p *proxy) link(c *core) bool {
	p.orders.Lock()
	defer p.orders.Unlock()
	if p.isLinked(c) {
		return true
	}
	p.node().mayLink(p, 0)
	p.linkedTo(c)
	p.hold()
	return p.signalWay(FarLink, c.ownPID()) || !p.part(c)
}

// linkedBy links c, nil if it is gone, because the actor wants it. It returns why it does not. While
// the actor's node does not know yet that c has unlinked, what it says is older, and passed over.
// Otherwise one of them could be linked and the other not: as in OTP, an unlink is confirmed.
func (p *proxy) linkedBy(c *core) (why Reason, err error) {
	if c == nil {
		return NoActor, nil
	}
	p.orders.Lock()
	defer p.orders.Unlock()
	n := p.node()
	switch most := n.far.maxLinks; {
	case n.unlinks(farLink{p.id, c.id}, 0) > 0, p.isLinked(c):
	case !n.mayLink(p, most):
		return NotAccepted, tooMany("links", most)
	case !p.join(c):
		p.part(c)
		return NoActor, nil // which a lost node is not told
	}
	return 0, nil
}

// unlinkedBy ends a link because the actor wants it, and confirms that. c is nil if it is gone.
func (p *proxy) unlinkedBy(c *core, pid PID) {
	p.orders.Lock()
	defer p.orders.Unlock()
	if c != nil {
		p.part(c)
	}
	p.signalWay(FarUnlinked, pid)
}

// unlinkFrom takes link back.
func (p *proxy) unlinkFrom(c *core) {
	p.orders.Lock()
	defer p.orders.Unlock()
	if p.part(c) {
		p.node().unlinks(farLink{p.id, c.id}, 1)
		p.signalWay(FarUnlink, c.ownPID())
	}
}

// exit tells the actor that one has ended with which it was linked.
func (p *proxy) exit(c *core, d Down) {
	if d.isNormal() {
		p.unlinkFrom(c)
		return
	}
	err := p.way.Failure(d.Err)
	p.orders.Lock()
	defer p.orders.Unlock()
	if p.part(c) {
		p.way.Signal(FarSignal{Kind: FarExit, To: p.pid(), From: c.ownPID(), Reason: d.Reason, Err: err})
	}
}

// parted is part for who does not hold orders.
func (p *proxy) parted(c *core) bool {
	p.orders.Lock()
	defer p.orders.Unlock()
	return p.part(c)
}

// join notes a link that is counted, for both. It reports false when c is gone, or the node lost.
// orders is held.
func (p *proxy) join(c *core) bool {
	lives := c.linkedTo(&p.core) // first, so that the loss of the node can undo it
	p.linkedTo(c)
	return p.hold() && lives
}

// part forgets a link, for both. It reports false when there was none. orders is held.
func (p *proxy) part(c *core) bool {
	was := p.unlink(c)
	if was {
		p.node().unlinked(p)
	}
	p.release()
	return c.unlink(&p.core) || was
}

func (p *proxy) isLinked(c *core) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ext == nil {
		return false
	}
	_, is := p.ext.links[c]
	return is
}

func (p *proxy) signalWay(kind FarSignalKind, from PID) bool {
	return p.way.Signal(FarSignal{Kind: kind, To: p.pid(), From: from})
}

// order is signal of core: a proxy gets no other signals than orders to stop.
func (p *proxy) order(s signal) {
	switch {
	case s.kind != sigStop:
	case s.mode == stopKill:
		p.signalWay(FarKill, PID{})
	default:
		p.signalWay(FarStop, PID{})
	}
}

// down tells all watchers that the actor has ended.
func (p *proxy) down(d Down) {
	var told []*watcher
	p.mu.Lock()
	if p.ext != nil {
		list := &p.ext.watchers
		for w := list.first; w != nil; w = list.first {
			list.remove(w)
			told = append(told, w)
		}
	}
	p.mu.Unlock()
	p.release()
	for _, w := range told {
		w.down(d)
	}
}

// lost ends all watches and links, since the node is lost.
func (p *proxy) lost(why error) {
	d := Down{PID: p.pid(), Reason: NoConnection, Err: why}
	p.down(d)
	p.mu.Lock()
	var links map[*core]struct{}
	if p.ext != nil {
		links, p.ext.links = p.ext.links, nil
	}
	p.mu.Unlock()
	p.release()
	for _, peer := range slices.SortedFunc(maps.Keys(links), inOrder) {
		if peer.unlink(&p.core) {
			peer.signal(signal{kind: sigExit, err: linkError(d)})
		}
	}
}

// proxyImpl is a proxy as the runtime sees cells. It gets no turn, so that nobody calls what it
// does not have.
type proxyImpl struct {
	impl
	p *proxy
}

func implOfProxy(c *core) impl { return proxyImpl{p: proxyOf(c)} }

func (i proxyImpl) drain()                { i.p.signalWay(FarDrain, PID{}) }
func (i proxyImpl) mailState() mailState  { return mailState{} }
func (i proxyImpl) spec(*Spec)            {}
func (i proxyImpl) nextSent() (any, bool) { return nil, false }
func (i proxyImpl) typeName() string      { return "actor of " + i.p.kind.node }

// base implements target.
func (r proxied[M]) base() *core { return &r.proxy.core }

// sys implements target.
func (r proxied[M]) sys() *System { return r.proxy.sys() }

// waitedOn implements target. Whom the actor waits for its own system knows.
func (r proxied[M]) waitedOn() *core { return nil }

// tell implements target.
func (r proxied[M]) tell(e envelope[M], _ *worker) verdict { return r.send(&e, false) }

// tellOrWait implements target.
func (r proxied[M]) tellOrWait(e envelope[M], _ *worker) (verdict, roomWaiter) {
	v := r.send(&e, true)
	if v != verdictWait {
		return v, nil
	}
	return v, &wayWait[M]{r, e}
}

// farType is how messages of the type M are sent.
type farType[M any] struct {
	t      reflect.Type
	encode func(dst []byte, m M) ([]byte, error) // nil: as they are
}

func (r proxied[M]) farType() *farType[M] {
	if last := r.proxy.typed.Load(); last != nil {
		if t, ok := (*last).(*farType[M]); ok {
			return t
		}
	}
	t := &farType[M]{t: reflect.TypeFor[M]()}
	if t.t.Kind() != reflect.Interface {
		t.encode, _ = r.proxy.way.Encoder(t.t).(func([]byte, M) ([]byte, error))
	}
	last := any(t)
	r.proxy.typed.Store(&last)
	return t
}

// send gives a message to the way.
func (r proxied[M]) send(e *envelope[M], patient bool) verdict {
	m := FarMessage{Patient: patient}
	with := e.with
	if h, ok := with.(*headed); ok {
		m.Header, with = h.header, h.inner
	}
	msg, from, event := e.msg, FarSender{}, false
	switch x := with.(type) {
	case *core:
		from.c = x
	case pendingAsk:
		m.Ask, from.c = FarAsk{x}, x.sender()
	case eventNote[M]:
		msg, event = x.msg, true
	}
	v := r.sendAs(r.farType(), from, m, msg)
	if event && v == verdictUnreachable {
		return verdictGone // a listener that hears nothing any more
	}
	return v
}

func (r proxied[M]) sendAs(t *farType[M], from FarSender, m FarMessage, msg M) verdict {
	if t.encode == nil {
		m.Message = msg
		return r.proxy.way.Send(from, m).verdict()
	}
	pool := &r.proxy.node().far.buffers
	buf, _ := pool.Get().(*[]byte)
	if buf == nil {
		buf = new([]byte)
	}
	data, err := t.encode((*buf)[:0], msg)
	if err != nil {
		return verdictAlien
	}
	m.Type, m.Data = t.t, data
	v := r.proxy.way.Send(from, m).verdict()
	if cap(data) <= farBufferMost {
		*buf = data
		pool.Put(buf)
	}
	return v
}

// farBufferMost is the largest buffer that is kept for the next message.
const farBufferMost = 64 << 10

// wayWait is a sender that waits for room on the way to another system.
type wayWait[M any] struct {
	to proxied[M]
	e  envelope[M]
}

func (w *wayWait[M]) wait(done <-chan struct{}) verdict {
	for {
		if !w.to.proxy.sys().sched.waitFor(w.to.proxy.way.Room(), done) {
			return verdictWait
		}
		if v := w.to.send(&w.e, true); v != verdictWait {
			return v
		}
	}
}

func (w *wayWait[M]) giveUp() verdict { return verdictWait }

// A wayWait is an interrupter. The end of the handler's context ends it.
func (w *wayWait[M]) interrupt(error)      {}
func (w *wayWait[M]) interrupted() error   { return nil }
func (w *wayWait[M]) admitted() bool       { return false } // then wait returns
func (w *wayWait[M]) over() bool           { return false }
func (w *wayWait[M]) passedTo() *answerer  { return nil }
func (w *wayWait[M]) request() interrupter { return w }

// noWay is the way to a node that cannot be reached.
type noWay struct{}

func (noWay) Encoder(reflect.Type) any              { return nil }
func (noWay) Send(FarSender, FarMessage) FarVerdict { return FarUnreachable }
func (noWay) Room() <-chan struct{}                 { c := make(chan struct{}); close(c); return c }
func (noWay) Failure(err error) error               { return err }
func (noWay) Signal(FarSignal) bool                 { return false }

// goneWay is the way to an actor that cannot be told anything, for the reason of the verdict.
type goneWay struct {
	noWay
	why FarVerdict
}

func (w goneWay) Send(FarSender, FarMessage) FarVerdict { return w.why }

// goneRef returns a reference to an actor that cannot be told anything. far is nil where there is no
// system: then it has an address, and nothing else.
func goneRef[M any](far *Far, pid PID, why FarVerdict) Ref[M] {
	n := &farNode{far: far, way: goneWay{why: why}}
	n.kind = kind{node: pid.node, inc: pid.inc, far: n, cell: implOfProxy}
	if far != nil {
		n.kind.sys = far.sys
	}
	return Ref[M]{proxied[M]{newProxy(n, pid, n.way)}}
}

// MarshalText returns the form of [PID.String], empty for the zero Ref. A routing reference has no
// address: that is an error.
func (r Ref[M]) MarshalText() ([]byte, error) {
	if _, ok := r.to.(*routed[M]); ok {
		return nil, errors.New("a routing reference has no address: write that of an actor")
	}
	return r.PID().MarshalText()
}

// UnmarshalText reads the form of [Ref.MarshalText]. The result has an address and no system: call
// [Ref.Bind] before anything else but PID and String. Package codec does, for fields of messages.
func (r *Ref[M]) UnmarshalText(text []byte) error {
	var pid PID
	err := pid.UnmarshalText(text)
	switch {
	case err != nil:
	case pid.IsZero():
		*r = Ref[M]{}
	default:
		*r = goneRef[M](nil, pid, FarGone)
	}
	return err
}

// Bind makes a reference that was read by [Ref.UnmarshalText] one of the system: to its own actor, or
// to one of another node, as [Lookup] does. If the actor is gone, if it does not accept an M or if its
// node cannot be reached, messages become dead letters.
func (r *Ref[M]) Bind(sys *System) {
	pid := r.PID()
	if pid.IsZero() {
		return
	}
	bound, err := Lookup[M](sys, pid)
	switch {
	case err == nil:
		*r = bound
	case errors.Is(err, ErrNotAccepted):
		*r = goneRef[M](sys.nowhere, pid, FarNotAccepted)
	case errors.Is(err, ErrUnreachable):
		*r = goneRef[M](sys.nowhere, pid, FarUnreachable)
	default:
		*r = goneRef[M](sys.nowhere, pid, FarGone)
	}
}

// elsewhere returns the actor with that address, which is of another system.
func (s *System) elsewhere(pid PID) (*core, error) {
	f := s.far.Load()
	if f == nil {
		return nil, fmt.Errorf("look up %s: it is of the system %q and this one is %q: %w", pid, pid.node, s.name, ErrStopped)
	}
	p, err := f.reach(pid)
	if err != nil {
		return nil, fmt.Errorf("look up %s: %w", pid, err)
	}
	return &p.core, nil
}
