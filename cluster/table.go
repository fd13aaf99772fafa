package cluster

import (
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"runtime/debug"
	"strings"
	"sync"

	"github.com/greenroom-go/greenroom/actor"
)

// table is the [actor.Place] of a kind: it finds the handle of a key. Its parts keep senders to different
// actors out of each other's way.
type table[M any] struct {
	cfg     kindConfig
	spawn   func(at actor.Spawner, key string, opts ...actor.SpawnOption) (actor.Ref[M], error)
	virtual *actor.Virtual[M] // set by Serve
	hot     hot[M]
	parked  parking

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
	t.hot.limit, t.parked.limit = cfg.hot, int64(cfg.park)
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
	h := &handle[M]{key: strings.Clone(key), at: -1, parked: &t.parked} // it may be part of something large
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

// Serve implements actor.Place.
func (t *table[M]) Serve(v *actor.Virtual[M]) { t.virtual = v }

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
	h := t.handle(key)
	for {
		if h != nil {
			switch h.add(m) {
			case addedFirst:
				t.pump(h)
				return nil
			case added:
				return nil
			case noRoom:
				return fmt.Errorf("%d messages wait for activations: %w", t.cfg.park, actor.ErrMailboxFull)
			case isGone:
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
	through := false
	defer func() {
		if !through { // the user's code has ended the goroutine: nobody else would go on
			t.pump(h)
		}
	}()
	for {
		switch do, mail, to := h.next(); do {
		case doSpawn:
			t.activate(h)
		case doSend:
			t.send(h, mail, to)
		case doLeave:
			through = true
			return
		case doRemove:
			t.remove(h)
			through = true
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
	}
}

// What an activation can fail with beside the errors of spawn.
var (
	errElsewhere = errors.New("the actor was not spawned with the parent that was given")
	errGoexit    = errors.New("the function that spawns has ended its goroutine")
)

// activate makes an activation. If that fails, what waits is refused.
func (t *table[M]) activate(h *handle[M]) {
	victim := t.hot.add(h) // before there is an end that would remove it
	var ref actor.Ref[M]
	err := errGoexit // what remains if spawn ends the goroutine
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("%w\n%s", &actor.PanicError{Value: v}, debug.Stack())
		}
		t.activated(h, ref, err)
		if victim != nil {
			if ref := victim.standing(); !ref.IsZero() {
				ref.Drain()
			}
		}
	}()
	ref, err = t.spawn(t.virtual.At(h.key), h.key, t.cfg.spawn...)
	if err == nil && (ref.PID() != t.virtual.PID(h.key) || ref == t.virtual.Ref(h.key)) {
		err = errElsewhere
	}
}

// activated goes on with what spawn has returned.
func (t *table[M]) activated(h *handle[M], ref actor.Ref[M], err error) {
	lives := func() bool { return t.virtual.Spawned(h.key) == ref }
	if err == nil {
		h.open(ref, lives)
		if !t.hot.has(h) { // it was chosen to end before it was there
			ref.Drain()
		}
		return
	}
	left, held := h.abandon()
	if ref = t.virtual.Spawned(h.key); !ref.IsZero() && h.strand(ref, lives) {
		ref.Stop() // it was made before spawn failed, and the next one needs its name
	} else {
		t.hot.remove(h)
	}
	refuse(left, actor.Passivated)
	refuse(held, actor.NoActor)
	if !errors.Is(err, actor.ErrStopped) { // whose system says so itself
		t.virtual.System().Log().Warn("virtual actor was not activated",
			slog.String("kind", t.virtual.Name()), slog.String("key", h.key), slog.String("error", err.Error()))
	}
}

func refuse[M any](mail []actor.Held[M], why actor.Reason) {
	for _, m := range mail {
		m.Refuse(why)
	}
}
