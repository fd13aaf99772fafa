package actor

import (
	"reflect"
	"sync"
)

// kind is what actors of one message type share: how they supervise, what stands around
// their handlers, and the pool of their scenes. Actors without options of their own share
// the system's one kind of that type.
type kind[M any] struct {
	super  *supervision
	around []ReceiveMiddleware
	scenes *scenePool[M]
}

// kindOf returns the system's kind of message type M.
func kindOf[M any](s *System) *kind[M] {
	t := reflect.TypeFor[M]()
	if k, ok := s.kinds.Load(t); ok {
		return k.(*kind[M])
	}
	k, _ := s.kinds.LoadOrStore(t, &kind[M]{super: &s.super, around: s.around, scenes: new(scenePool[M])})
	return k.(*kind[M])
}

// scenePool keeps scenes, and buffers of theirs, that nobody needs at the moment.
type scenePool[M any] struct {
	pool    sync.Pool
	buffers bufferPool[M]
}

func (p *scenePool[M]) get() *scene[M] {
	if s, ok := p.pool.Get().(*scene[M]); ok {
		return s
	}
	return &scene[M]{alarm: overloadStart, limit: firstLook, spare: &p.buffers}
}

// put takes a scene back that is empty.
func (p *scenePool[M]) put(s *scene[M]) {
	s.shrink(keepEnvelopes)
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
