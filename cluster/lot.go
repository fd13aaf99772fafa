package cluster

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/greenroom-go/greenroom/actor"
)

// lot is one node's view of a shard of a kind: the handles of its keys, while the shard is here,
// and the messages that wait until it is known where they go. Senders read it; only the router's
// turn changes it.
//
// The order of a sender's messages to a key is kept over a planned move from A to B like this:
//
//   - A stops the activations and sends B the messages that they have left, and then those that
//     have come meanwhile, over the one session between A and B.
//   - Another node, which has sent to A, learns of B. It closes a gate for messages to B, and sends
//     a mark after what it has sent, by way of A. The mark goes wherever messages go, and waits
//     where they wait. When it has reached the owner, the gate is opened. A gate holds back what
//     would have gone to A before: messages that this node sends, and those that have come with a
//     lower stamp than the epoch of A. So a mark waits only for gates of greater epochs than its
//     own stamp, and two marks never wait for each other.
//   - A node that gets a message for a shard that it does not have forwards it. The stamp of a
//     message is the epoch for which it was sent, and a node that forwards it knows a greater one,
//     so forwarding ends.
//
// A message with the stamp of the current epoch, or a greater one, has come to the right node,
// which may not know that yet, or may not be ready: it waits separately in early, and not behind
// messages that wait for the gate.
type lot[M any] struct {
	open atomic.Bool   // messages of this node go to live activations without checking the fields below
	held atomic.Uint64 // the epoch of the activations, 0 if there must be none; they need the node's lease as well

	mu sync.RWMutex
	m  map[string]*handle[M] // guarded by mu

	// Changed by the router's turn, with mu held.
	epoch   uint64        // of the owner, as far as known; 0 if there is none
	mine    bool          // this node is the owner
	here    bool          // this node is the owner, and ready
	to      peer          // the owner, if another node; the zero peer if unknown
	gates   []*gate       // messages to the owner wait for these
	giving  []func(error) // called when nothing of the shard is here any more
	later   []parcel[M]   // marks of an epoch that is unknown yet
	pumping bool          // the router is sending the waiting messages
	full    bool          // there was no room on the way to the owner: the router looks again by itself

	// Guarded by mu.
	sent    bool        // something has been sent to the owner in this epoch
	cut     bool        // the owner cannot be reached
	flying  int         // how many senders besides the router are sending
	looking bool        // the router was told of a message that has come to wait, and has not looked since
	left    []parcel[M] // what activations have left: older than what follows
	early   []parcel[M]
	queue   []parcel[M]
}

// gate is what a node waits for before it sends a new owner what it would have sent a former one.
type gate struct {
	via   peer   // the owner to whom it has sent before
	stamp uint64 // and the epoch in which it has
	want  uint64 // the epoch in which it waits
	sent  bool   // the mark is under way
	since time.Time
}

func (g *gate) unsent() bool { return !g.sent }

// parcel is a message that waits, or a mark.
type parcel[M any] struct {
	m       actor.Held[M]
	mark    *mark
	counted bool // it has a place in parked
	since   time.Time
}

// mark follows the messages that a node has sent to a shard.
type mark struct {
	stamp, want uint64
	keep        func(error) // it has come to the owner, or never will
}

func (p *parcel[M]) stamp() uint64 {
	if p.mark != nil {
		return p.mark.stamp
	}
	return p.m.Stamp()
}

// way says where a message goes.
type way uint8

const (
	toHandle way = iota // to the activation that is here
	toPeer
	toWait
)

// blocked reports whether a message with that stamp has to wait for a gate. REQUIRES: mu held.
func (l *lot[M]) blocked(stamp uint64) bool {
	for _, g := range l.gates {
		if stamp < g.stamp {
			return true
		}
	}
	return false
}

// unblocked splits a list into what may be sent and what waits for a gate. REQUIRES: mu held.
func (l *lot[M]) unblocked(list []parcel[M]) (mail, waits []parcel[M]) {
	if len(l.gates) == 0 {
		return list, nil
	}
	for _, p := range list {
		if l.blocked(p.stamp()) {
			waits = append(waits, p)
		} else {
			mail = append(mail, p)
		}
	}
	return mail, waits
}

// enter returns where a message with that stamp goes now. If it does not wait, leave must be called
// afterwards.
func (l *lot[M]) enter(stamp uint64) (w way, to peer, epoch uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case stamp != 0 && stamp >= l.epoch:
		if !l.here || stamp != l.epoch || l.pumping || len(l.left)+len(l.early) > 0 {
			return toWait, to, 0
		}
	case l.pumping || l.blocked(stamp) || len(l.left)+len(l.queue) > 0 || l.here && len(l.early) > 0:
		return toWait, to, 0
	case !l.here && (l.to == peer{} || l.cut):
		return toWait, to, 0
	}
	l.flying++
	if l.here {
		return toHandle, to, l.epoch
	}
	l.sent = true
	return toPeer, l.to, l.epoch
}

// leave ends a send that enter has begun. It reports whether the router has to look.
func (l *lot[M]) leave() (look bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.flying--
	return l.flying == 0 && (l.giving != nil || slices.ContainsFunc(l.gates, (*gate).unsent))
}

// park adds a message that waits. parked counts it; one in each lot may always wait. lost is the
// peer that could not be reached, the zero peer for none; it may no longer be the owner. look says
// that the router has to be told, because the message may no longer have a reason to wait.
func (l *lot[M]) park(m actor.Held[M], parked *parking, lost peer) (ok, look bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = l.cut || lost != peer{} && lost == l.to
	l.open.Store(false) // until the router has sent it: later messages must not overtake it
	p := parcel[M]{m: m, counted: true, since: time.Now()}
	stamp := m.Stamp()
	list, ready := &l.queue, !l.blocked(stamp) && (l.here || l.sendsOn())
	if stamp != 0 && stamp >= l.epoch {
		list, ready = &l.early, l.here && stamp == l.epoch
	}
	if !parked.enter(len(*list) == 0) {
		return false, false
	}
	*list = append(*list, p)
	look = ready && !l.pumping && !l.looking // a look costs as much as there are messages waiting, so many share one
	l.looking = l.looking || look
	return true, look
}

// sendsOn reports whether the router may send the waiting messages to the owner. REQUIRES: mu held.
func (l *lot[M]) sendsOn() bool { return !l.here && l.to != (peer{}) && !l.cut && !l.full }

// yield takes the messages that an activation has left and those that its handle holds, because the
// handle may not get another activation.
func (l *lot[M]) yield(mail []actor.Held[M]) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open.Store(false)
	for _, m := range mail {
		l.left = append(l.left, parcel[M]{m: m, since: time.Now()})
	}
}

// reroute records the owner of the shard in a new epoch. It reports whether activations have to be
// stopped.
func (l *lot[M]) reroute(epoch uint64, mine bool, to peer, gated func(old peer) bool) (stop bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if epoch == l.epoch { // the map may have come before the members that it names, this one among them
		l.mine = mine
		if l.to != to {
			l.to, l.cut, l.full = to, false, false
		}
		return false
	}
	if l.sent && !l.mine && gated(l.to) {
		l.gates = append(l.gates, &gate{via: l.to, stamp: l.epoch, want: epoch, since: time.Now()})
	}
	l.epoch, l.mine, l.to, l.sent, l.cut, l.full = epoch, mine, to, false, false, false
	if l.held.Load() != 0 && l.held.Load() != epoch {
		stop = true
	}
	l.close()
	var early []parcel[M]
	queue := l.left
	for _, p := range l.early {
		if p.stamp() < epoch {
			queue = append(queue, p)
		} else {
			early = append(early, p)
		}
	}
	queue = append(queue, l.queue...)
	var later []parcel[M]
	for _, p := range l.later {
		if p.mark.want <= epoch {
			queue = append(queue, p)
		} else {
			later = append(later, p)
		}
	}
	l.left, l.early, l.queue, l.later = nil, early, queue, later
	return stop
}

// close records that the shard is no longer here. REQUIRES: mu held.
func (l *lot[M]) close() {
	l.here = false
	l.open.Store(false)
	l.held.Store(0)
}

// take records that the shard is here, and ready. It fails if the shard has another owner by now.
func (l *lot[M]) take(epoch uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.mine || l.epoch != epoch {
		return errMovedOn
	}
	l.here = true
	l.held.Store(epoch)
	return nil
}

// drop records that the shard of that epoch is no longer here. It reports whether it was.
func (l *lot[M]) drop(epoch uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if held := l.held.Load(); held != 0 && held != epoch {
		return false
	}
	l.close()
	return true // also after a Give that was cut short
}

// give is drop for a shard that goes to another node: done is called when nothing of it is here any
// more.
func (l *lot[M]) give(done func(error)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.close()
	l.giving = append(l.giving, done)
}

// lotDuty is what the router has to do for a lot.
type lotDuty uint8

const (
	lotRests lotDuty = iota
	lotGiven         // tell those who wait for that
	lotMark          // send the mark of the gate
	lotHere          // give the activations what waits
	lotThere         // send what waits to the owner
)

// next returns what the router has to do, and with what. valid says whether the node's lease holds.
func (l *lot[M]) next(valid bool) (d lotDuty, done []func(error), g *gate, mail []parcel[M]) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.looking = false
	if l.giving != nil && l.flying == 0 && len(l.m) == 0 {
		done, l.giving = l.giving, nil
		return lotGiven, done, nil, nil
	}
	if i := slices.IndexFunc(l.gates, (*gate).unsent); i >= 0 && l.flying == 0 {
		g = l.gates[i]
		g.sent = true
		return lotMark, nil, g, nil
	}
	l.pumping = false
	switch {
	case l.here && valid:
		d = lotHere
		mail, l.left = l.left, nil
		var early []parcel[M]
		for _, p := range l.early {
			if p.stamp() == l.epoch {
				mail = append(mail, p)
			} else {
				early = append(early, p)
			}
		}
		l.early = early
		queue, waits := l.unblocked(l.queue)
		mail, l.queue = append(mail, queue...), waits
	case l.sendsOn():
		d = lotThere
		queue, waits := l.unblocked(l.queue)
		if mail = queue; len(l.left) > 0 { // else without a copy, since all of it may be put back
			mail = slices.Concat(l.left, queue)
		}
		l.left, l.queue = nil, waits
		l.sent = l.sent || len(mail) > 0
	}
	if len(mail) == 0 {
		l.open.Store(l.here && valid && len(l.gates)+len(l.early) == 0)
		return lotRests, nil, nil, nil
	}
	l.pumping = true
	return d, nil, nil, mail
}

// putBack takes back messages that could not be sent to the owner, because it cannot be reached or
// there is no room on the way.
func (l *lot[M]) putBack(mail []parcel[M], cut bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut, l.full, l.pumping = cut, !cut, false
	l.queue = append(mail, l.queue...)
}

// retry records that there may be room on the way to the owner again.
func (l *lot[M]) retry() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.full = false
}

// addMark adds a mark to what waits.
func (l *lot[M]) addMark(k *mark) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := parcel[M]{mark: k, since: time.Now()}
	switch {
	case l.epoch < k.want:
		l.later = append(l.later, p)
	case k.stamp >= l.epoch:
		l.early = append(l.early, p)
	default:
		l.queue = append(l.queue, p)
	}
}

// returned records the answer to the mark of a gate: again says that the mark has to be sent once
// more.
func (l *lot[M]) returned(g *gate, again, came bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if again || came && g.want < l.epoch {
		g.want, g.sent = l.epoch, false
		return
	}
	l.gates = slices.DeleteFunc(l.gates, func(other *gate) bool { return other == g })
}

// expire takes the messages that have waited since before a time.
func (l *lot[M]) expire(before time.Time) (mail []parcel[M], waits bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	// Remove gates whose mark was never answered because the router has failed meanwhile.
	l.gates = slices.DeleteFunc(l.gates, func(g *gate) bool { return g.since.Before(before.Add(-parkTime)) })
	for _, list := range []*[]parcel[M]{&l.left, &l.early, &l.queue, &l.later} {
		var kept []parcel[M]
		for _, p := range *list {
			if p.since.Before(before) {
				mail = append(mail, p)
			} else {
				kept = append(kept, p)
			}
		}
		*list = kept
	}
	return mail, l.waitsLocked()
}

func (l *lot[M]) waitsLocked() bool {
	return len(l.left)+len(l.early)+len(l.queue)+len(l.later)+len(l.gates) > 0 || l.flying > 0 || l.giving != nil
}

// waits reports whether something is under way.
func (l *lot[M]) waits() bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.waitsLocked()
}
