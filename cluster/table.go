package cluster

import (
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/greenroom-go/greenroom/actor"
)

// table is the [actor.Place] of a kind: it finds the handle of a key. Its parts keep senders to different
// actors out of each other's way.
type table[M any] struct {
	cfg     kindConfig
	spawn   func(at actor.Spawner, key string, opts ...actor.SpawnOption) (actor.Ref[M], error)
	virtual *actor.Virtual[M] // set before anybody can send
	hot     hot[M]
	waiting atomic.Int64 // messages that are held or were left

	seed  maphash.Seed
	parts [64]part[M]
}

type part[M any] struct {
	mu sync.RWMutex
	m  map[string]*handle[M]
	_  [32]byte // parts on cache lines of their own
}

func newTable[M any](cfg kindConfig, spawn func(actor.Spawner, string, ...actor.SpawnOption) (actor.Ref[M], error)) *table[M] {
	t := &table[M]{cfg: cfg, spawn: spawn, seed: maphash.MakeSeed()}
	t.hot.limit = cfg.hot
	for i := range t.parts {
		t.parts[i].m = make(map[string]*handle[M])
	}
	return t
}

func (t *table[M]) part(key string) *part[M] {
	return &t.parts[maphash.String(t.seed, key)%uint64(len(t.parts))]
}

// handle returns the handle of a key, nil if it has none.
func (t *table[M]) handle(key string) *handle[M] {
	p := t.part(key)
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.m[key]
}

// replace returns a handle in place of old, nil for none.
func (t *table[M]) replace(key string, old *handle[M]) *handle[M] {
	p := t.part(key)
	p.mu.Lock()
	defer p.mu.Unlock()
	if h := p.m[key]; h != nil && h != old {
		return h
	}
	h := &handle[M]{key: strings.Clone(key), at: -1} // it may be part of something large
	p.m[h.key] = h
	return h
}

// remove forgets a handle that is gone, if it is still the one of its key.
func (t *table[M]) remove(h *handle[M]) {
	p := t.part(h.key)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.m[h.key] == h {
		delete(p.m, h.key)
	}
}

func (t *table[M]) len() (n int) {
	for i := range t.parts {
		p := &t.parts[i]
		p.mu.RLock()
		n += len(p.m)
		p.mu.RUnlock()
	}
	return n
}

// Find implements actor.Place.
func (t *table[M]) Find(key string) (ref actor.Ref[M]) {
	h := t.handle(key)
	if h == nil {
		return ref
	}
	live := h.live.Load()
	if live == nil {
		return ref
	}
	if !h.used.Load() { // without moving the cache line for each message
		h.used.Store(true)
	}
	return *live
}

// Standing implements actor.Place.
func (t *table[M]) Standing(key string) (ref actor.Ref[M]) {
	if h := t.handle(key); h != nil {
		ref = h.standing()
	}
	return ref
}

// Hold implements actor.Place.
func (t *table[M]) Hold(key string, m actor.Held[M]) error {
	if t.waiting.Add(1) > int64(t.cfg.park) {
		t.waiting.Add(-1)
		return fmt.Errorf("%d messages wait for activations: %w", t.cfg.park, actor.ErrMailboxFull)
	}
	h := t.handle(key)
	for {
		if h != nil {
			if ok, pump := h.add(m); ok {
				if pump {
					t.pump(h)
				}
				return nil
			}
		}
		h = t.replace(key, h)
	}
}

// Left implements actor.Place.
func (t *table[M]) Left(key string, m actor.Held[M]) bool {
	h := t.handle(key)
	if h == nil {
		return false // somebody has kept the parent, and spawned with it
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.left = append(h.left, m)
	t.waiting.Add(1)
	return true
}

// Ended implements actor.Place.
func (t *table[M]) Ended(key string) {
	h := t.handle(key)
	if h == nil {
		return // as in Left
	}
	t.hot.remove(h)
	if h.ended() {
		t.pump(h)
	}
}

// pump sends what the handle holds to its activation, which it makes if there is none, until nothing is
// held: then the activation is live, or the handle is gone. It stops when the activation takes nothing
// any more, whose end begins it again. No lock is held while a message is sent: an inline actor would
// handle it there. REQUIRES: the caller has begun it.
func (t *table[M]) pump(h *handle[M]) {
	for {
		switch do, mail, to := h.next(); do {
		case doSpawn:
			t.activate(h)
		case doSend:
			t.send(h, mail, to)
		case doLeave:
			return
		case doRemove:
			t.remove(h)
			return
		}
	}
}

// send sends mail to the activation.
func (t *table[M]) send(h *handle[M], mail []actor.Held[M], to actor.Ref[M]) {
	for i := range mail {
		if !mail[i].Send(to) {
			h.close(mail[i:])
			return
		}
		t.waiting.Add(-1)
	}
}

// errElsewhere says that an actor was spawned in another place than it should.
var errElsewhere = errors.New("the actor was not spawned with the parent that was given")

// activate makes an activation. If that fails, what waits is refused.
func (t *table[M]) activate(h *handle[M]) {
	victim := t.hot.add(h) // before there is an end that would remove it
	ref, err := t.spawn(t.virtual.At(h.key), h.key, t.cfg.spawn...)
	if err == nil && ref.PID() != t.virtual.PID(h.key) {
		err = errElsewhere
	}
	if err != nil {
		t.hot.remove(h)
		left := h.abandon()
		t.waiting.Add(-int64(len(left)))
		for _, m := range left {
			m.Refuse(actor.NoActor)
		}
		if !errors.Is(err, actor.ErrStopped) { // whose system says so itself
			t.virtual.System().Log().Warn("virtual actor was not activated",
				slog.String("kind", t.virtual.Name()), slog.String("key", h.key), slog.String("error", err.Error()))
		}
		return
	}
	h.open(ref)
	if victim != nil {
		if ref := victim.standing(); !ref.IsZero() {
			ref.Drain()
		}
	}
}
