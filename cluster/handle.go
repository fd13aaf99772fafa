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
	key  string
	live atomic.Pointer[actor.Ref[M]] // the activation while it takes messages directly; written under mu
	used atomic.Bool                  // it has had a message since hot has looked
	at   int                          // its place in hot, -1 for none; guarded by hot.mu

	mu      sync.Mutex
	ref     actor.Ref[M]    // the activation, if there is one
	exists  bool            // it has been spawned and has not ended
	closing bool            // it takes nothing any more
	early   bool            // it has ended before open
	pumping bool            // somebody is at it: new messages are held
	gone    bool            // nobody is here any more; the next one who comes makes a new handle
	left    []actor.Held[M] // what the last activation has left
	held    []actor.Held[M]
}

// add holds a message. It reports false when the handle is gone, and otherwise whether the caller must
// pump.
func (h *handle[M]) add(m actor.Held[M]) (ok, pump bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.gone {
		return false, false
	}
	h.held = append(h.held, m)
	if h.pumping || h.closing {
		return true, false
	}
	h.begin()
	return true, true
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
	if !h.exists && len(h.left)+len(h.held) > 0 {
		return doSpawn, nil, to
	}
	if h.exists && !h.closing && len(h.held) > 0 {
		mail, h.held = h.held, nil
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
func (h *handle[M]) open(ref actor.Ref[M]) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.early {
		h.early = false
		return
	}
	h.ref, h.exists = ref, true
	h.held, h.left = slices.Concat(h.left, h.held), nil
}

// close notes that the activation has not taken the mail, which goes to the next one, after what this
// one leaves. It may have ended already, and there is no other before the caller makes one.
func (h *handle[M]) close(mail []actor.Held[M]) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closing = h.exists
	h.held = slices.Concat(mail, h.held)
}

// abandon takes all that waits.
func (h *handle[M]) abandon() []actor.Held[M] {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := slices.Concat(h.left, h.held)
	h.left, h.held = nil, nil
	return all
}
