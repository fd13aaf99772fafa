package entity

import (
	"hash/maphash"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/greenroom-go/greenroom/actor"
)

// handle stands between the dispatcher and the actor of one entity. It lists the deliveries that
// the actor was told of and has not taken yet, so that none is forgotten when the actor ends with
// messages in its mailbox, and each is settled exactly once. Whoever takes a delivery off the list
// settles it:
//
//	Ingest ─add─▶ listed ─take─▶ actor ─▶ committer ─▶ done(nil)
//	                 └─────close (the actor ended)───▶ done(ErrStopped)
//
// A message in the mailbox whose delivery is no longer listed is ignored.
type handle struct {
	id     string
	ticket atomic.Uint64 // the committer's number of the last delivery that the actor passed to it
	edited atomic.Uint64 // the number of the last edit
	used   atomic.Int64  // when the actor was last needed, by the runtime's clock
	bytes  atomic.Int64  // what the entity occupies, as counted in counters.hotBytes

	mu         sync.Mutex
	phase      handlePhase        // guarded by mu
	ref        actor.Ref[message] // guarded by mu, set when live
	head, tail *delivery          // the deliveries not yet taken, guarded by mu

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

// delivery carries one Ingest, one edit or one step of commands to the entity: the work, and whom
// to tell of the outcome. The fields have the owner of the delivery, which passes from Ingest to
// the actor to the committer.
type delivery struct {
	h          *handle
	prev, next *delivery // guarded by h.mu
	listed     bool      // guarded by h.mu

	readings []Reading
	origin   Origin
	of       int64 // the required creation time of the entity, 0 for any
	once     Once
	change   func(*entityActor) (*Edit, error)      // an edit in place of readings
	step     func(*entityActor) ([]*Command, error) // a step of commands in place of readings
	look     bool                                   // check the presence, in place of readings
	own      bool                                   // from the runtime itself, or from a device that cannot send it again: waits while the store is full
	kick     bool                                   // of a step: there may be a command to send when it is durable
	cost     int64                                  // bytes of the window
	source   *source                                // to whom they are charged; set by the window
	done     func(error)
	notice   func(error) // of an edit or a step: called once if its outcome is not known yet, then nil

	// Set by the actor.
	firstSeq uint64
	late     []bool     // see state.apply
	edit     *Edit      // the result of change, nil if nothing changed
	commands []*Command // what step changed
	presence *Presence  // the new presence, nil if it is unchanged
	created  int64
	made     bool // the first reading created the entity
	num      int64
	typ      string // of an edit
	ts       int64  // of an edit, a step or a presence
	accepted int64  // when, in nanoseconds of the runtime's clock
}

// patient reports whether the delivery waits while the store is full. A source of computed readings
// would only have to compute them again.
func (d *delivery) patient() bool { return d.own || !d.origin.IsZero() }

// records returns how many changes the delivery adds to the log.
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

// add lists a delivery and returns the actor's reference if there is an actor; the caller then
// tells it. It reports false if the handle is closed.
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

// take removes a delivery from the list. It reports false if it was not listed: then somebody else
// has settled it.
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

// open makes the handle live and tells the actor the deliveries listed so far, before any later
// one. It reports false if the handle was closed meanwhile.
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

// close closes the handle and returns the listed deliveries, linked by next.
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

// actor returns the reference of the actor, the zero Ref if there is none.
func (h *handle) actor() actor.Ref[message] {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.ref
}

// oldest returns the delivery that has been listed longest, and the actor that should take it.
func (h *handle) oldest() (*delivery, actor.Ref[message]) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.head, h.ref
}

// handles finds the handle of an entity: the fast path of Ingest. It is sharded so that sources do
// not contend.
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

// find returns the handle of an entity, nil if it has none.
func (hs *handles) find(id string) *handle {
	s := hs.shard(id)
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.m[id]
}

// replace returns a handle in place of old (nil if there was none), and whether this call made it,
// so that the caller has to activate it.
func (hs *handles) replace(id string, old *handle) (h *handle, made bool) {
	s := hs.shard(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	if h = s.m[id]; h != nil && h != old {
		return h, false
	}
	h = &handle{id: strings.Clone(id)} // id may be part of a packet
	if old != nil {
		h.ticket.Store(old.ticket.Load())
		h.edited.Store(old.edited.Load())
	}
	s.m[h.id] = h
	return h, true
}

// retire closes the handle if no delivery is listed. From then on the entity is cold: the next
// delivery makes a new handle.
func (h *handle) retire() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.phase != live || h.head != nil {
		return false
	}
	h.phase, h.ref = closed, actor.Ref[message]{}
	return true
}

// remove removes a closed handle, if it is still that of its entity.
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

// some does the same for n shards, beginning with first.
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
