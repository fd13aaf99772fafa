package entity

import (
	"hash/maphash"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/greenroom-go/greenroom/actor"
)

// handle stands between the dispatcher and the actor of one entity. It knows
// which deliveries have been told to the actor and not been taken up by it: so
// none is forgotten when the actor ends with mail in its box, and each is
// settled exactly once. Who takes a delivery off the list settles it:
//
//	Ingest ─add─▶ listed ─take─▶ actor ─▶ committer ─▶ done(nil)
//	                 └─────close (the actor ended)───▶ done(ErrStopped)
//
// A message in the mailbox whose delivery is no longer listed means nothing.
type handle struct {
	id     string
	ticket atomic.Uint64 // the committer's number of the last delivery that the actor handed over
	edited atomic.Uint64 // that of the last edit
	used   atomic.Int64  // when the actor was last needed, by the runtime's clock
	bytes  atomic.Int64  // what the entity occupies, as counted in counters.hotBytes

	mu         sync.Mutex
	phase      handlePhase        // guarded by mu
	ref        actor.Ref[message] // guarded by mu, set when live
	head, tail *delivery          // guarded by mu: told or to be told, not taken

	// Owned by the committer.
	num   int64  // the store's number of the entity, 0 before it is known
	batch uint64 // the batch in which place counts
	place int    // the index in Batch.Entities
}

type handlePhase uint8

const (
	activating handlePhase = iota // the manager has been told to spawn the actor
	live                          // the actor takes deliveries
	closed                        // the actor has ended; the next Ingest makes a new handle
)

// delivery is the way of one Ingest, one edit or one step of commands: what is to be
// taken in and who wants to know. Its fields pass from owner to owner with it: Ingest,
// the actor, the committer.
type delivery struct {
	h          *handle
	prev, next *delivery // guarded by h.mu
	listed     bool      // guarded by h.mu

	readings []Reading
	origin   Origin
	of       int64 // the entity must have come to be then, 0 for any
	once     Once
	change   func(*entityActor) (*Edit, error)      // an edit in place of readings
	step     func(*entityActor) ([]*Command, error) // a step of commands in place of readings
	look     bool                                   // at the presence, in place of readings
	own      bool                                   // the runtime's own, or of a device that cannot send it again: it waits while the store is full
	kick     bool                                   // of a step: there may be something to send when it is durable
	cost     int64                                  // bytes of the window
	source   *source                                // whose they are; set by the window
	done     func(error)
	notice   func(error) // of an edit or a step: that its outcome is not known yet; nil once it is called

	// Set by the actor.
	firstSeq uint64
	late     []bool     // see state.apply
	edit     *Edit      // what change did, nil for nothing
	commands []*Command // what step changed
	presence *Presence  // what it is since, nil where it is as it was
	created  int64
	made     bool // the first reading has made the entity
	num      int64
	typ      string // of an edit
	ts       int64  // of an edit, a step or a presence
	accepted int64  // when, in nanoseconds of the runtime's clock
}

// patient reports whether the delivery waits while the store is full. Who computes
// readings from others would only have to compute them again.
func (d *delivery) patient() bool { return d.own || !d.origin.IsZero() }

// records is how many changes the delivery makes in the log.
func (d *delivery) records() int {
	if d.edit != nil {
		return 1
	}
	n := len(d.readings) + len(d.commands)
	if d.presence != nil {
		n++
	}
	return n
}

// add lists a delivery and, when the actor is there, returns its reference: the
// caller tells it. It reports false when the handle is closed.
func (h *handle) add(d *delivery) (to actor.Ref[message], ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.phase == closed {
		return to, false
	}
	d.h, d.listed = h, true
	d.prev = h.tail
	if h.tail == nil {
		h.head = d
	} else {
		h.tail.next = d
	}
	h.tail = d
	return h.ref, true
}

// take removes a delivery from the list. It reports false when it was not there:
// somebody else has settled it.
func (h *handle) take(d *delivery) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !d.listed {
		return false
	}
	d.listed = false
	if d.prev == nil {
		h.head = d.next
	} else {
		d.prev.next = d.next
	}
	if d.next == nil {
		h.tail = d.prev
	} else {
		d.next.prev = d.prev
	}
	d.prev, d.next = nil, nil
	return true
}

// open makes the handle live and tells the actor what has gathered, before
// anything that comes from now on. It reports false when the handle was closed
// meanwhile.
func (h *handle) open(ref actor.Ref[message], tell func(*delivery)) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.phase != activating {
		return false
	}
	h.ref, h.phase = ref, live
	for d := h.head; d != nil; d = d.next {
		tell(d)
	}
	return true
}

// waits reports whether the handle needs an actor.
func (h *handle) waits() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.phase == activating
}

// close ends the handle and returns what was listed, linked by next.
func (h *handle) close() (left *delivery, wasLive bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	left, wasLive = h.head, h.phase == live
	h.phase, h.ref = closed, actor.Ref[message]{}
	h.head, h.tail = nil, nil
	for d := left; d != nil; d = d.next {
		d.listed, d.prev = false, nil
	}
	return left, wasLive
}

// standing returns the reference of the actor while it is live, and whether the
// handle is closed.
func (h *handle) standing() (ref actor.Ref[message], over bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.ref, h.phase == closed
}

// actor returns the reference of the actor, the zero Ref while there is none.
func (h *handle) actor() actor.Ref[message] {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.ref
}

// oldest returns the delivery that has been listed for longest, and the actor
// that should take it.
func (h *handle) oldest() (*delivery, actor.Ref[message]) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.head, h.ref
}

// handles finds the handle of an entity: the fast path of Ingest. Shards keep
// the sources out of each other's way.
type handles struct {
	seed   maphash.Seed
	shards [64]shard
}

type shard struct {
	mu sync.RWMutex
	m  map[string]*handle
	_  [32]byte // shards on cache lines of their own
}

func newHandles() *handles {
	hs := &handles{seed: maphash.MakeSeed()}
	for i := range hs.shards {
		hs.shards[i].m = make(map[string]*handle)
	}
	return hs
}

func (hs *handles) shard(id string) *shard {
	return &hs.shards[maphash.String(hs.seed, id)%uint64(len(hs.shards))]
}

// find returns the handle of an entity, nil when it has none.
func (hs *handles) find(id string) *handle {
	s := hs.shard(id)
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.m[id]
}

// replace returns a handle in place of old (nil: of none) and whether the caller
// made it and has to see to its activation.
func (hs *handles) replace(id string, old *handle) (h *handle, made bool) {
	s := hs.shard(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	if h = s.m[id]; h != nil && h != old {
		return h, false
	}
	h = &handle{id: strings.Clone(id)} // it may be part of a packet
	if old != nil {
		h.ticket.Store(old.ticket.Load())
		h.edited.Store(old.edited.Load())
	}
	s.m[h.id] = h
	return h, true
}

// retire closes the handle if nothing is listed with it. From then on its entity
// is cold: the next one who comes makes a new handle.
func (h *handle) retire() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.phase != live || h.head != nil {
		return false
	}
	h.phase, h.ref = closed, actor.Ref[message]{}
	return true
}

// remove forgets a handle that is closed, if it is still the one of its entity.
func (hs *handles) remove(h *handle) {
	s := hs.shard(h.id)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.m[h.id] == h {
		delete(s.m, h.id)
	}
}

// each calls f for every handle, without a lock.
func (hs *handles) each(f func(*handle)) { hs.some(0, len(hs.shards), f) }

// some does the same for n shards from the first on.
func (hs *handles) some(first, n int, f func(*handle)) {
	var list []*handle
	for i := first; i < first+n; i++ {
		s := &hs.shards[i]
		list = list[:0]
		s.mu.RLock()
		for _, h := range s.m {
			list = append(list, h)
		}
		s.mu.RUnlock()
		for _, h := range list {
			f(h)
		}
	}
}
