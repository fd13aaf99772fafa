// Package intake bounds the memory of messages that are being received. Their lengths are known
// before their bytes, and whoever sends one slowly, or never to its end, must not use up what all
// share.
package intake

import (
	"container/list"
	"sync"
)

// Room is memory that senders share. A sender may have as much as it leaves for others, so that many
// messages of one never keep those of another out. Where there is no room, messages wait: those of
// one sender in their order, and senders in turn, except that a message may be passed by smaller ones
// of others. It is safe for concurrent use; make it with New.
type Room struct {
	size int64

	mu      sync.Mutex
	used    int64
	senders map[string]*sender // those that use bytes or wait
	turns   list.List          // of *sender: those who wait
}

// sender has what the Room knows of one. It is guarded by Room.mu.
type sender struct {
	name    string
	used    int64
	waiting list.List     // of *Stay
	turn    *list.Element // in Room.turns, nil while none waits
}

// Stay is the part of a Room that a message has or waits for. Its methods are safe for concurrent
// use.
type Stay struct {
	room    *Room
	sender  *sender
	bytes   int64
	granted chan struct{}

	place *list.Element // in sender.waiting; guarded by Room.mu, nil once granted
	left  bool          // guarded by Room.mu

	passed  *Stay // that waited for its turn when this one was granted, or nil; guarded by Room.mu
	passing int64 // bytes in use by those that have passed this one; guarded by Room.mu
}

// New returns a Room of so many bytes.
func New(size int64) *Room { return &Room{size: size, senders: map[string]*sender{}} }

// Used returns how many bytes are in use.
func (r *Room) Used() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.used
}

// Enter asks for the bytes of a message of a sender, at least one; a message that is larger than half
// of the room counts as half of it. It does not wait: see Granted. Call Leave when the message is
// gone.
func (r *Room) Enter(name string, bytes int64) *Stay {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.senders[name]
	if s == nil {
		s = &sender{name: name}
		r.senders[name] = s
	}
	stay := &Stay{room: r, sender: s, bytes: min(bytes, r.size/2), granted: make(chan struct{})}
	stay.place = s.waiting.PushBack(stay)
	if s.turn == nil {
		s.turn = r.turns.PushBack(s)
	}
	r.letIn()
	return stay
}

// Granted is closed once the message has its bytes.
func (s *Stay) Granted() <-chan struct{} { return s.granted }

// Leave gives the bytes back, or no longer waits for them. Further calls have no effect.
func (s *Stay) Leave() {
	r := s.room
	r.mu.Lock()
	defer r.mu.Unlock()
	if s.left {
		return
	}
	s.left = true
	if s.place != nil {
		s.sender.waiting.Remove(s.place)
		s.place = nil
	} else {
		r.used -= s.bytes
		s.sender.used -= s.bytes
		if s.passed != nil {
			s.passed.passing -= s.bytes
			s.passed = nil
		}
	}
	r.rest(s.sender)
	r.letIn()
}

// rest forgets what there is no more of a sender. REQUIRES: r.mu held.
func (r *Room) rest(s *sender) {
	if s.waiting.Len() == 0 && s.turn != nil {
		r.turns.Remove(s.turn)
		s.turn = nil
	}
	if s.waiting.Len() == 0 && s.used == 0 {
		delete(r.senders, s.name)
	}
}

// letIn grants bytes to those who wait, a message of each sender in turn. The first message of a
// sender that has nothing yet and finds no room is passed only by those that need less, and that
// leave enough for it: it waits at most until all that were there before it have left.
// REQUIRES: r.mu held.
func (r *Room) letIn() {
	var first *Stay
	var later []*sender
	for e := r.turns.Front(); e != nil; {
		s := e.Value.(*sender)                      //nolint:forcetypeassert // that is what is in it
		stay := s.waiting.Front().Value.(*Stay)     //nolint:forcetypeassert // that is what is in it
		full := s.used+2*stay.bytes > r.size-r.used // it would have more than there is left
		if full && s.used > 0 {
			later = append(later, s)
		} else if full && first == nil {
			first = stay
		}
		if full || first != nil && (stay.bytes >= first.bytes || first.passing+stay.bytes > r.size-2*first.bytes) {
			e = e.Next()
			continue
		}
		if first != nil {
			stay.passed = first
			first.passing += stay.bytes
		}
		s.waiting.Remove(stay.place)
		stay.place = nil
		s.used += stay.bytes
		r.used += stay.bytes
		close(stay.granted)
		next := e.Next()
		r.turns.MoveToBack(e)
		r.rest(s)
		if next == nil && s.turn != nil { // it is the last one anyway
			next = e
		}
		e = next
	}
	for _, s := range later {
		r.turns.MoveToBack(s.turn)
	}
}
