package actor

import (
	"reflect"
	"sync"
	"unsafe"
)

// kind is what actors of one message type share: their system, how they supervise, what
// stands around their handlers, and the pool of their mailboxes. Actors without options of
// their own share the one kind of that type that the workers have which run them. It does not change.
//
// What a cell can find here is no field of the cell: each pointer in a million idle actors
// is one that the garbage collector follows a million times.
type kind struct {
	sys       *System
	sched     *scheduler // whose workers run them
	super     *supervision
	around    []ReceiveMiddleware
	mailboxes any // *mailboxPool[M]
	cell      func(c *core) impl
	queue     any // queue[M] of the one actor of this kind if its mailbox is not plain, else nil

	// Last: what is above is read on the way of each message.
	node string   // the name of the system in which the actors live,
	inc  uint32   // and its incarnation
	far  *farNode // of proxies, which stand for actors of another system; nil for cells
}

// newKind makes the kind of the actors with the message type M.
func newKind[M any](s *System, on *scheduler, super *supervision, around []ReceiveMiddleware) *kind {
	return &kind{sys: s, sched: on, node: s.name, inc: s.inc, super: super, around: around, mailboxes: new(mailboxPool[M]), cell: cellOf[M]}
}

// cellOf returns the cell that c is the beginning of.
func cellOf[M any](c *core) impl { return (*cell[M])(unsafe.Pointer(c)) }

// impl returns c with what depends on its message type.
func (c *core) impl() impl { return c.kind.cell(c) }

// sys returns the system that c belongs to.
func (c *core) sys() *System { return c.kind.sys }

// sched returns the scheduler that runs c.
func (c *core) sched() *scheduler { return c.kind.sched }

// kindOf returns the system's kind of message type M on those workers.
func kindOf[M any](s *System, on *scheduler) *kind {
	t := reflect.TypeFor[M]()
	if k, ok := on.kinds.Load(t); ok {
		return k.(*kind)
	}
	k, _ := on.kinds.LoadOrStore(t, newKind[M](s, on, &s.super, s.around))
	return k.(*kind)
}

// mailboxPool keeps mailboxes, and buffers of theirs, that nobody needs at the moment.
type mailboxPool[M any] struct {
	pool    sync.Pool
	buffers bufferPool[M]
}

func (p *mailboxPool[M]) get() *mailbox[M] {
	if s, ok := p.pool.Get().(*mailbox[M]); ok {
		return s
	}
	return &mailbox[M]{alarm: overloadStart, limit: firstLook, spare: &p.buffers}
}

// put takes a mailbox back that is empty.
func (p *mailboxPool[M]) put(s *mailbox[M]) {
	s.shrink(piece[envelope[M]](keepBytes, keepEnvelopes))
	p.pool.Put(s)
}

// waiterPool keeps waiters that nobody waits at.
type waiterPool struct{ pool sync.Pool }

func (p *waiterPool) get() *waiter {
	if w, ok := p.pool.Get().(*waiter); ok {
		return w
	}
	return newWaiter()
}

func newWaiter() *waiter { return &waiter{told: make(chan struct{}, 1)} }

func (p *waiterPool) put(w *waiter) { p.pool.Put(w) }
