package actor

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
)

// Event is something that happened in the system: [ActorStarted], [ActorStopped],
// [ActorFailed], [ActorRestarted], [ActorPassivated], [ActorActivated], [Overload], [Stuck], [NodeUp], [NodeDown] or [DeadLetter].
type Event interface{ event() }

// ActorStarted says that an actor was spawned and its Init has returned. The Init of a [Virtual] actor's
// activation returns in its first turn.
type ActorStarted struct{ PID PID }

// ActorStopped says that an actor is gone.
type ActorStopped struct {
	PID    PID
	Reason Reason
	Err    error // the failure when the reason is Failed, else nil
}

// ActorFailed says that Receive or Init returned an error, or that one of these or Terminate panicked.
type ActorFailed struct {
	PID         PID
	Err         error  // a [*PanicError], with the stack, if it was a panic
	MessageType string // the Go type of the message that was being handled
}

// ActorRestarted says that an actor runs again with fresh state, after a failure or [System.Restart].
type ActorRestarted struct {
	PID      PID
	Restarts uint64 // how often, in its life
}

func (ActorStarted) event()   {}
func (ActorStopped) event()   {}
func (ActorFailed) event()    {}
func (ActorRestarted) event() {}
func (DeadLetter) event()     {}

// listeners is listeners to events. Without a listener an event costs one load.
type listeners struct {
	mu   sync.Mutex
	list atomic.Pointer[[]listener] // replaced as a whole

	missed atomic.Uint64 // events that a bounded mailbox had no room for
}

type listener struct {
	core *core
	tell func(Event) bool // false: the listener is gone

	hears func(Event) bool // it is told events of that type
}

// Subscribe sends the actor all events that are an M: events of one kind to a Ref[DeadLetter] for
// example, all of them to a Ref[Event] or a Ref[any]. The subscription ends with the actor or by
// [Unsubscribe]. A second call for the same actor changes nothing. Events that an actor causes
// itself arrive in the order in which they happened; an event that reaches a subscriber too late to
// be handled is dropped. So is an event for which a [Bounded] mailbox has no room, whatever its
// policy; with [DropOldest] it replaces the oldest message if that is an event, too. [Stats] counts
// dropped events: they do not become dead letters, since those would cause further events.
func Subscribe[M any](sys *System, ref Ref[M]) {
	dst := ref.recipient()
	if p, ok := dst.(placed[M]); ok { // the activation listens, for as long as it lasts
		if dst = p.of.place.Standing(p.key).to; dst == nil {
			return
		}
	}
	tell := func(e Event) bool {
		msg, ok := e.(M)
		if !ok {
			return true
		}
		v := dst.tell(envelope[M]{with: eventNote[M]{msg}}, nil)
		if v != verdictTaken && v != verdictGone {
			sys.listeners.missed.Add(1)
		}
		return v != verdictGone
	}
	hears := func(e Event) bool { _, ok := e.(M); return ok }
	a := &sys.listeners
	a.mu.Lock()
	defer a.mu.Unlock()
	var list []listener
	if old := a.list.Load(); old != nil {
		list = slices.Clone(*old)
	}
	if slices.ContainsFunc(list, func(l listener) bool { return l.core == dst.base() }) {
		return
	}
	list = append(list, listener{dst.base(), tell, hears})
	a.list.Store(&list)
}

// Unsubscribe ends a [Subscribe]. Events that are already in the mailbox still arrive.
func Unsubscribe[M any](sys *System, ref Ref[M]) { sys.listeners.drop(ref.recipient().base()) }

func (a *listeners) drop(c *core) {
	a.mu.Lock()
	defer a.mu.Unlock()
	old := a.list.Load()
	if old == nil {
		return
	}
	list := slices.DeleteFunc(slices.Clone(*old), func(l listener) bool { return l.core == c })
	if len(list) == 0 {
		a.list.Store(nil)
		return
	}
	a.list.Store(&list)
}

// any reports whether anybody wants to know.
func (a *listeners) any() bool { return a.list.Load() != nil }

// hears reports whether somebody is told events of that type.
func (a *listeners) hears(e Event) bool {
	list := a.list.Load()
	return list != nil && slices.ContainsFunc(*list, func(l listener) bool { return l.hears(e) })
}

// publish tells all listeners.
func (s *System) publish(e Event) {
	list := s.listeners.list.Load()
	if list == nil {
		return
	}
	for _, l := range *list {
		if !l.tell(e) {
			s.listeners.drop(l.core)
		}
	}
}

// eventNote is an event on its way. As a note it becomes no dead letter, whose event
// would be the next one.
type eventNote[M any] struct{ msg M }

func (n eventNote[M]) origin() string { return fmt.Sprintf("event %T", n.msg) }

func (n eventNote[M]) message(*cell[M]) (M, bool) { return n.msg, true }
