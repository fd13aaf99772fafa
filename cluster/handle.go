package cluster

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/greenroom-go/greenroom/actor"
)

// handle stands between senders and the activations of one virtual actor, one after the other. To a
// live one a message goes directly. Any other is held here, and pumped to the next activation:
//
//	Hold ─▶ held ─────────▶ pump ─▶ activation ─▶ live
//	            left ──┘                 │
//	              └─── Left, Ended ◀─────┘ it ends
//
// What an activation has left in its mailbox is older than what is held, and goes first.
type handle[M any] struct {
	key    string
	parked *parking
	live   atomic.Pointer[actor.Ref[M]] // the activation while it takes messages directly; written under mu
	used   atomic.Bool                  // it has had a message since hot has looked
	at     int                          // its place in hot, -1 for none; guarded by hot.mu

	mu      sync.Mutex
	ref     actor.Ref[M]    // the activation, if there is one
	exists  bool            // it has been spawned and has not ended
	closing bool            // it takes nothing any more
	early   bool            // it has ended before open
	pumping bool            // somebody is at it: new messages are held
	wanted  bool            // there is to be an activation, with or without a message
	gone    bool            // nobody is here any more; the next one who comes makes a new handle
	left    []actor.Held[M] // what the last activation has left
	held    []actor.Held[M]
	counted int // how many of held are in parked
	pumped  int // how many messages were sent to the activation from here
	back    int // how many of held were, and it has not taken them
	again   int // how many of all that waits the last activation has left or not taken
}

// parking counts the messages of a kind that have come and wait, see [Park].
type parking struct {
	limit int64 // does not change
	n     atomic.Int64
}

// enter reports whether one more may wait. must says that it may in any case.
func (p *parking) enter(must bool) bool {
	if p.n.Add(1) > p.limit && !must {
		p.n.Add(-1)
		return false
	}
	return true
}

// addition is what has become of a message that was to be held.
type addition uint8

const (
	addedFirst addition = iota // it is held, and the caller must pump
	added                      // it is held
	noRoom                     // too many wait
	isGone                     // the handle is gone
)

// add holds a message. One for each actor may always wait, so that none keeps another from becoming
// active; what comes back again and again counts for its own actor only.
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

// want has an activation made where there is none. It reports whether the caller must pump.
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

// unpark gives back the places of all that is held. REQUIRES: mu held.
func (h *handle[M]) unpark() {
	h.parked.n.Add(-int64(h.counted))
	h.counted = 0
}

// begin begins to pump. REQUIRES: mu held.
func (h *handle[M]) begin() {
	h.pumping = true
	h.live.Store(nil)
}

// ended notes that the activation has ended. It reports whether the caller must pump.
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

// duty is what who pumps has to do next.
type duty uint8

const (
	doSpawn  duty = iota // make an activation
	doSend               // send it the mail
	doLeave              // nothing: the activation is live, or its end begins anew
	doRemove             // forget the handle, which is gone
)

// next says what to do next, and with what mail.
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

// open notes a new activation, unless it has ended already: what the last one has left comes first.
// lives reports whether its end is still to come.
func (h *handle[M]) open(ref actor.Ref[M], lives func() bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	early := h.early
	if h.early = false; early && !lives() { // otherwise the end was that of another, see strand
		return
	}
	h.ref, h.exists, h.wanted = ref, true, false
	h.held, h.left = slices.Concat(h.left, h.held), nil
}

// close notes that the activation has not taken the mail, which goes to the next one, after what this
// one leaves. It may have ended already, and there is no other before the caller makes one.
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

// abandon takes all that waits.
func (h *handle[M]) abandon() (left, held []actor.Held[M]) {
	h.mu.Lock()
	defer h.mu.Unlock()
	left, held, h.left, h.held = h.left, h.held, nil, nil
	h.again, h.wanted = 0, false
	h.unpark()
	return left, held
}

// strand notes an activation that nobody may use, unless it has ended already: the next one waits for
// its end. lives is as in open.
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
