package cluster

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/greenroom-go/greenroom/actor"
)

// handle stands between senders and the successive activations of one virtual actor. A message to a
// live activation goes to it directly. Any other message is held here, and pumped to the next
// activation:
//
//	Hold ─▶ held ─────────▶ pump ─▶ activation ─▶ live
//	            left ──┘                 │
//	              └─── Left, Ended ◀─────┘ it ends
//
// Messages that an activation has left in its mailbox are older than held ones, and go first.
type handle[M any] struct {
	key    string
	parked *parking
	live   atomic.Pointer[actor.Ref[M]] // the activation while it takes messages directly; written under mu
	used   atomic.Bool                  // it has had a message since hot last looked
	at     int                          // its place in hot, -1 for none; guarded by hot.mu

	mu      sync.Mutex
	ref     actor.Ref[M]    // the activation, if there is one
	exists  bool            // it has been spawned and has not ended
	closing bool            // it accepts nothing any more
	early   bool            // it has ended before open
	pumping bool            // a goroutine is pumping: new messages are held
	wanted  bool            // an activation is wanted, even without a message
	gone    bool            // no longer in use; the next message makes a new handle
	left    []actor.Held[M] // messages left by the last activation
	held    []actor.Held[M]
	counted int // how many of held are in parked
	pumped  int // how many messages were sent to the activation from here
	back    int // how many of held were sent, but not accepted
	again   int // how many of the waiting messages the last activation has left or not accepted
}

// parking counts the waiting messages of a kind, see [Park].
type parking struct {
	limit int64 // does not change
	n     atomic.Int64
}

// enter reports whether one more message may wait. must says that it may in any case.
func (p *parking) enter(must bool) bool {
	if p.n.Add(1) > p.limit && !must {
		p.n.Add(-1)
		return false
	}
	return true
}

// addition is the result of holding a message.
type addition uint8

const (
	addedFirst addition = iota // it is held, and the caller must pump
	added                      // it is held
	noRoom                     // too many wait
	isGone                     // the handle is gone
)

// add holds a message. One for each actor may always wait, so that no actor keeps another from
// becoming active; messages that come back again and again count only for their own actor.
func (h *handle[M]) add(m actor.Held[M]) addition {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.gone {
		return isGone
	}
	if !h.pumping && !h.closing {
		h.held = append(h.held, m)
		h.begin()
		return addedFirst
	}
	first := len(h.held) == 0
	if !first && int64(h.again+h.back+h.counted) >= h.parked.limit || !h.parked.enter(first) {
		return noRoom
	}
	h.counted++
	h.held = append(h.held, m)
	return added
}

// want requests an activation if there is none. It reports whether the caller must pump.
func (h *handle[M]) want() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.gone || h.pumping || h.exists {
		return false
	}
	h.wanted = true
	h.begin()
	return true
}

// unpark releases the places of all held messages. REQUIRES: mu held.
func (h *handle[M]) unpark() {
	h.parked.n.Add(-int64(h.counted))
	h.counted = 0
}

// begin begins to pump. REQUIRES: mu held.
func (h *handle[M]) begin() {
	h.pumping = true
	h.live.Store(nil)
}

// ended records that the activation has ended. It reports whether the caller must pump.
func (h *handle[M]) ended() (pump bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.early = !h.exists
	h.ref, h.exists, h.closing = actor.Ref[M]{}, false, false
	h.again = h.back + min(h.pumped, len(h.left))
	h.pumped, h.back = 0, 0
	h.live.Store(nil)
	if h.pumping {
		return false
	}
	h.begin()
	return true
}

// duty is what the pumping goroutine has to do next.
type duty uint8

const (
	doSpawn  duty = iota // make an activation
	doSend               // send it the mail
	doLeave              // nothing: the activation is live, or its end will start pumping again
	doRemove             // forget the handle, which is gone
)

// next returns what to do next, and with which messages.
func (h *handle[M]) next() (do duty, mail []actor.Held[M], to actor.Ref[M]) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.exists && (h.wanted || len(h.left)+len(h.held) > 0) {
		return doSpawn, nil, to
	}
	if h.exists && !h.closing && len(h.held) > 0 {
		mail, h.held = h.held, nil
		h.pumped += len(mail)
		h.unpark()
		return doSend, mail, h.ref
	}
	h.pumping = false
	switch {
	case !h.exists:
		h.gone = true
		return doRemove, nil, to
	case !h.closing:
		ref := h.ref
		h.live.Store(&ref)
		h.again = 0
	}
	return doLeave, nil, to
}

// standing returns the activation, the zero Ref if there is none.
func (h *handle[M]) standing() actor.Ref[M] {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.ref
}

// open records a new activation, unless it has already ended; messages left by the last one come
// first. lives reports whether its end is still to come.
func (h *handle[M]) open(ref actor.Ref[M], lives func() bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	early := h.early
	if h.early = false; early && !lives() { // otherwise another activation has ended, see strand
		return
	}
	h.ref, h.exists, h.wanted = ref, true, false
	h.held, h.left = slices.Concat(h.left, h.held), nil
}

// close records that the activation has not accepted the mail, which goes to the next one, after
// the messages that this one leaves. The activation may have ended already; there is no other
// before the caller makes one.
func (h *handle[M]) close(mail []actor.Held[M]) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closing = h.exists; h.exists {
		h.pumped -= len(mail)
		h.back, h.again = len(mail), 0
	} else {
		h.again += len(mail)
	}
	h.held = slices.Concat(mail, h.held)
}

// abandon takes all waiting messages.
func (h *handle[M]) abandon() (left, held []actor.Held[M]) {
	h.mu.Lock()
	defer h.mu.Unlock()
	left, held, h.left, h.held = h.left, h.held, nil, nil
	h.again, h.wanted = 0, false
	h.unpark()
	return left, held
}

// strand records an activation that must not be used, unless it has already ended: the next one
// waits for its end. lives is as in open.
func (h *handle[M]) strand(ref actor.Ref[M], lives func() bool) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.early = false
	if !lives() {
		return false
	}
	h.ref, h.exists, h.closing = ref, true, true
	return true
}
