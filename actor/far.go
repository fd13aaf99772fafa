package actor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"
	"weak"
)

// ErrUnreachable says that the node of an actor cannot be reached, or that it was lost while it had
// the request: it is then unknown whether the request was handled.
var ErrUnreachable = errors.New("node unreachable")

// Carrier brings messages to actors of other systems. Package remote has one; nobody else needs to
// write one. Its methods are safe for concurrent use and do not block, except for Close. Way does not
// call methods of [Far] before it returns.
type Carrier interface {
	// Attach makes the system known, once, before anything else is called.
	Attach(far *Far)
	// Way returns the way to an actor of another system, or to that system itself, whose path is
	// "/". An error says that the system cannot be reached, now or ever. Way fails once
	// [Far.Lost] was called for the system; if Way has succeeded, Lost reports a later loss.
	Way(to PID) (Way, error)
	// Peers returns the other systems, ordered by name.
	Peers() []Peer
	// Close closes the carrier after all actors have stopped. Until ctx ends, it sends what is
	// left to send.
	Close(ctx context.Context) error
}

// Way is the way to one actor of another system. What is given to it first arrives first. Its
// methods are safe for concurrent use, do not block, and do not call methods of [Far] before they
// return.
type Way interface {
	// Encoder returns a func(dst []byte, m M) ([]byte, error) that appends the bytes of a
	// message of the type M, which is m, or nil if messages of that type are to be sent as they
	// are. M is not an interface.
	Encoder(m reflect.Type) any
	// Send sends a message: it copies what it needs.
	Send(from FarSender, m FarMessage) FarVerdict
	// Room returns a channel that is closed as soon as there is room for patient senders: at once
	// if there is, or if the node is lost.
	Room() <-chan struct{}
	// Failure returns an error as Signal is to be given it. It calls the error's methods, which may be
	// anything: no lock is held.
	Failure(err error) error
	// Signal sends an order of the runtime. It reports false when the node is lost.
	Signal(s FarSignal) bool
}

// FarMessage is a message on its way to another system.
type FarMessage struct {
	Type    reflect.Type // of Data, nil if Message is set
	Data    []byte       // what the Encoder has made of it; valid until Send returns
	Message any          // the message itself, if there is no Encoder
	Header  Header
	Ask     FarAsk // zero for a message that was told
	Patient bool   // the sender waits for room
}

// FarVerdict says what became of a message.
type FarVerdict uint8

// The verdicts of a [Way], and of what arrives.
const (
	FarTaken       FarVerdict = iota
	FarGone                   // there is no such actor, or not any more
	FarFull                   // no room: refused
	FarWait                   // no room at the moment: a patient sender waits for it
	FarNotAccepted            // the type cannot be encoded, or the actor does not accept it
	FarUnreachable            // the node is lost
)

// verdict returns v as mailboxes say it.
func (v FarVerdict) verdict() verdict {
	return [...]verdict{verdictTaken, verdictGone, verdictFull, verdictWait, verdictAlien, verdictUnreachable}[v]
}

// FarSender identifies the sender of a message; the zero FarSender means that no actor sent it. It
// is a comparable value.
type FarSender struct{ c *core }

// PID returns the sender's address.
func (s FarSender) PID() PID { return s.c.pid() }

// Number returns the number of an actor of this system, which no other actor has or will have.
// It reports false for an actor of another system: a forwarded message may come from anywhere.
func (s FarSender) Number() (id uint64, local bool) {
	if s.c == nil || s.c.kind.far != nil {
		return 0, false
	}
	return s.c.id, true
}

// IsZero reports whether no actor has sent the message.
func (s FarSender) IsZero() bool { return s.c == nil }

// with returns the sender as it comes with a message.
func (s FarSender) with() any {
	if s.c == nil {
		return nil
	}
	return s.c
}

// FarSignal is an order of the runtime from one system to another.
type FarSignal struct {
	Kind   FarSignalKind
	To     PID    // whom it is for; the watching system itself for FarDown
	From   PID    // who watches, links or has ended; for FarWatch and FarUnwatch the system itself
	Reason Reason // how From has ended, for FarDown and FarExit
	Err    error  // its failure, if there was one, as Failure has returned it
}

// FarSignalKind says what a [FarSignal] is.
type FarSignalKind uint8

// The kinds of signals.
const (
	FarStop     FarSignalKind = iota + 1 // stop after the current message
	FarDrain                             // stop after what is in the mailbox now
	FarKill                              // stop without Terminate
	FarWatch                             // From wants to know when To ends
	FarUnwatch                           // and not any more
	FarDown                              // From, which To watches, has ended
	FarLink                              // From and To are linked
	FarUnlink                            // and not any more
	FarExit                              // From, which To is linked with, has ended
	FarUnlinked                          // From has forgotten the link with To, as it was told to
)

// FarDelivery is a message that has come from another system.
type FarDelivery struct {
	From    FarSender
	Message any
	Header  Header
	Request *FarRequest // nil for a message that was told
}

// with returns what comes with the message.
func (d *FarDelivery) with() any {
	if d.Request == nil {
		return withHeader(d.Header, d.From.with())
	}
	d.Request.from = d.From.c
	return withHeader(d.Header, d.Request)
}

// Carry gives the system a carrier, which brings messages to actors of other systems. A system has
// one for its whole life: a second call panics.
func Carry(sys *System, c Carrier) {
	required(c != nil, "Carry: the carrier is nil")
	f := &Far{
		sys: sys, carrier: c, nodes: make(map[nodeKey]*farNode), proxies: make(map[PID]weak.Pointer[proxy]),
		maxWatches: maxFarWatches, maxLinks: maxFarLinks,
	}
	required(sys.far.Load() == nil, fmt.Sprintf("Carry: the system %q has a carrier already", sys.name))
	c.Attach(f)
	required(sys.far.CompareAndSwap(nil, f), fmt.Sprintf("Carry: the system %q has a carrier already", sys.name))
}

// Far is a system as its carrier sees it. Its methods are safe for concurrent use and do not block.
// None may be called while a lock is held that the methods of a [Way] need.
type Far struct {
	sys     *System
	carrier Carrier
	buffers sync.Pool // of *[]byte: for messages that are being encoded

	maxWatches, maxLinks int // of one node; these do not change

	mu      sync.Mutex
	nodes   map[nodeKey]*farNode // those that are not lost; guarded by mu
	proxies map[PID]weak.Pointer[proxy]
}

// nodeKey is an incarnation of a system.
type nodeKey struct {
	name string
	inc  uint32
}

// farNode is an incarnation of another system, and what is to be seen to when it is lost.
type farNode struct {
	kind kind // of all proxies of its actors
	far  *Far
	way  Way // to the system itself

	// Guarded by far.mu.
	held      map[*proxy]struct{} // proxies with watchers or links: those need somebody who ends them
	watches   map[uint64]*watcher // the watches that it has here, by the number of the actor
	links     int                 // between its actors and those of this system
	linkBytes int                 // of the paths of those of its actors
	unlinking map[farLink]int     // FarUnlinks for which there is no FarUnlinked yet
}

// farLink is a pair of actors: the numbers of the one there and of the one here.
type farLink struct{ there, here uint64 }

// What a node may have here, so that it cannot take all the memory of this one.
const (
	maxFarWatches   = 1 << 20
	maxFarLinks     = 1 << 16
	maxFarLinkBytes = 16 << 20
)

// tooMany says that a node has as much here as it may have.
func tooMany(what string, most int) error {
	return fmt.Errorf("%w: a node may have at most %d %s here", ErrNotAccepted, most, what)
}

// mayLink counts a link. It reports false, where most is not 0, if there are as many, with those whose
// end is not confirmed, or if their paths are too long.
func (n *farNode) mayLink(p *proxy, most int) bool {
	n.far.mu.Lock()
	defer n.far.mu.Unlock()
	if most > 0 && (n.links+len(n.unlinking) >= most || n.linkBytes+len(p.path) > maxFarLinkBytes) {
		return false
	}
	n.links++
	n.linkBytes += len(p.path)
	return true
}

// unlinked is the end of what mayLink has counted.
func (n *farNode) unlinked(p *proxy) {
	n.far.mu.Lock()
	defer n.far.mu.Unlock()
	n.links--
	n.linkBytes -= len(p.path)
}

// unlinks counts the FarUnlinks that are not confirmed, and returns how many there are.
func (n *farNode) unlinks(l farLink, more int) int {
	n.far.mu.Lock()
	defer n.far.mu.Unlock()
	now := n.unlinking[l] + more
	switch {
	case more == 0:
	case now <= 0:
		delete(n.unlinking, l)
	case n.unlinking == nil:
		n.unlinking = map[farLink]int{l: now}
	default:
		n.unlinking[l] = now
	}
	return now
}

// System returns the system.
func (f *Far) System() *System { return f.sys }

// Node returns the address of the system itself, see [Carrier.Way].
func (f *Far) Node() PID { return PID{node: f.sys.name, inc: f.sys.inc, path: "/"} }

// After runs do once when d has passed by the system's clock, which a driver may let stand still. do
// must not block. stop cancels it; do may still run if it is due already.
func (f *Far) After(d time.Duration, do func()) (stop func()) {
	n := f.sys.clock.after(d, do)
	return func() { f.sys.clock.cancel(n) }
}

// Go runs work on a goroutine of its own, or in a step of its own under a driver. Shutdown waits for
// it after it has closed the carrier.
func (f *Far) Go(work func()) { f.sys.sched.background(f.sys.root, work) }

// Sender returns an actor of another system as a sender.
func (f *Far) Sender(pid PID) FarSender {
	if pid.IsZero() {
		return FarSender{}
	}
	return FarSender{&f.proxy(pid).core}
}

// Deliver puts a message into the mailbox of an actor of this system. If it is not accepted, it
// becomes a dead letter and its request fails.
func (f *Far) Deliver(to PID, d FarDelivery) FarVerdict {
	v := verdictGone
	if of, key, stamp, ok := f.sys.arrival(to); ok {
		to = PID{node: virtualNode, path: to.path} // without the stamp, which is no actor's number
		v = of.arrive(key, stamp, d.Message, d.with())
	} else if c := f.sys.local(to); c != nil && c.parent != nil {
		v = c.impl().accept(d.Message, d.with())
	}
	f.refused(to, &d, v)
	return v.far()
}

// DeliverRun is Deliver for several messages to one actor, which next returns one by one. The one
// that it returns may be scratch itself, after the message was decoded into that: a *M, where M
// are the actor's messages. Without such an actor scratch is nil.
func (f *Far) DeliverRun(to PID, next func(scratch any) (d FarDelivery, ok bool)) {
	if c := f.sys.local(to); c != nil && c.parent != nil {
		c.impl().acceptRun(next, func(d *FarDelivery, v verdict) { f.refused(to, d, v) })
		return
	}
	for d, ok := next(nil); ok; d, ok = next(nil) {
		f.Deliver(to, d)
	}
}

// refused sees to a message that was not taken.
func (f *Far) refused(to PID, d *FarDelivery, v verdict) {
	if v == verdictTaken {
		return
	}
	f.sys.bury(DeadLetter{To: to, From: d.From.PID(), Message: d.Message, Reason: v.reason()})
	if d.Request != nil {
		d.Request.reject(v.err(), nil)
	}
}

// DeadLetter reports a message that could not be delivered or sent. Its Time is set, and its Type if
// that is empty.
func (f *Far) DeadLetter(d DeadLetter) { f.sys.bury(d) }

// Up reports that a node can be reached.
func (f *Far) Up(n NodeUp) { f.sys.publish(n) }

// Lost reports that a node is lost: the watches of its actors end with the reason [NoConnection],
// and those who are linked with one of them exit. The carrier itself ends the asks, with
// [ErrUnreachable], and makes dead letters of what was not sent. The ways to that node must report
// the loss before this call, and forever after.
func (f *Far) Lost(inc uint32, d NodeDown) {
	key := nodeKey{d.Node, inc}
	f.mu.Lock()
	n := f.nodes[key]
	delete(f.nodes, key)
	var held []*proxy
	var watches map[uint64]*watcher
	if n != nil {
		held = slices.SortedFunc(maps.Keys(n.held), func(p, q *proxy) int { return inOrder(&p.core, &q.core) })
		watches, n.watches, n.held = n.watches, nil, nil
	}
	f.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(watches)) {
		f.sys.actors.find(id).forget(watches[id])
	}
	for _, p := range held {
		p.lost(d.Err)
	}
	f.sys.publish(d)
}

// Signal carries out an order that has come from another system.
func (f *Far) Signal(s FarSignal) {
	to := f.sys.local(s.To)
	if to != nil && to.parent == nil {
		to = nil
	}
	switch s.Kind {
	case FarStop, FarDrain, FarKill:
		if to != nil {
			to.stop([...]stopMode{FarStop: stopNow, FarDrain: stopDrain, FarKill: stopKill}[s.Kind])
		}
	case FarWatch:
		f.watch(to, s)
	case FarUnwatch:
		f.unwatch(s)
	case FarDown:
		if p := f.known(s.From); p != nil {
			p.down(Down{PID: s.From, Reason: s.Reason, Err: s.Err})
		}
	case FarLink:
		f.link(to, s)
	case FarUnlink:
		f.proxy(s.From).unlinkedBy(to, s.To)
	case FarUnlinked:
		f.mu.Lock()
		n := f.nodes[nodeKey{s.From.node, s.From.inc}]
		f.mu.Unlock()
		if n != nil { // nobody may refer to the actor any more
			n.unlinks(farLink{s.From.id, s.To.id}, -1)
		}
	case FarExit:
		p := f.known(s.From)
		if to != nil && p != nil && p.parted(to) {
			to.signal(signal{kind: sigExit, err: linkError(Down{PID: s.From, Reason: s.Reason, Err: s.Err})})
		}
	}
}

// watch lets another system know when an actor ends.
func (f *Far) watch(to *core, s FarSignal) {
	n, err := f.node(s.From)
	if err != nil {
		return
	}
	id := s.To.id
	down := func(d Down) {
		n.way.Signal(FarSignal{Kind: FarDown, To: s.From, From: s.To, Reason: d.Reason, Err: n.way.Failure(d.Err)})
	}
	w := &watcher{}
	w.down = func(d Down) {
		f.mu.Lock()
		delete(n.watches, id)
		f.mu.Unlock()
		down(d)
	}
	if to == nil {
		down(Down{Reason: NoActor})
		return
	}
	f.mu.Lock()
	had := n.watches == nil || n.watches[id] != nil // lost, or told twice
	full := len(n.watches) >= f.maxWatches
	if !had && !full {
		n.watches[id] = w
	}
	f.mu.Unlock()
	switch {
	case had:
	case full:
		down(Down{Reason: NotAccepted, Err: tooMany("watches", f.maxWatches)})
	case !to.watchedBy(w):
		w.down(Down{Reason: NoActor})
	case !n.watched(id, w): // Lost, or FarUnwatch, has looked for it in vain
		to.forget(w)
	}
}

// watched reports whether w is the node's watch of the actor with that number.
func (n *farNode) watched(id uint64, w *watcher) bool {
	n.far.mu.Lock()
	defer n.far.mu.Unlock()
	return n.watches[id] == w
}

func (f *Far) unwatch(s FarSignal) {
	f.mu.Lock()
	var w *watcher
	if n := f.nodes[nodeKey{s.From.node, s.From.inc}]; n != nil {
		w = n.watches[s.To.id]
		delete(n.watches, s.To.id)
	}
	f.mu.Unlock()
	if w != nil {
		f.sys.actors.find(s.To.id).forget(w)
	}
}

// link links an actor of this system with one of another.
func (f *Far) link(to *core, s FarSignal) {
	p, err := f.reach(s.From)
	if err != nil {
		return // it is lost by now, and nothing would end the link
	}
	if why, err := p.linkedBy(to); why != 0 {
		p.way.Signal(FarSignal{Kind: FarExit, To: s.From, From: s.To, Reason: why, Err: p.way.Failure(err)})
	}
}

// node returns the incarnation of a system.
func (f *Far) node(pid PID) (*farNode, error) {
	key := nodeKey{pid.node, pid.inc}
	f.mu.Lock()
	defer f.mu.Unlock()
	if n := f.nodes[key]; n != nil {
		return n, nil
	}
	// The mutex is held so that a way that is found now is not lost before Lost finds the node.
	way, err := f.carrier.Way(PID{node: pid.node, inc: pid.inc, path: "/"})
	if err != nil {
		return nil, err
	}
	n := f.newNode(key, way)
	f.nodes[key] = n
	return n, nil
}

func (f *Far) newNode(key nodeKey, way Way) *farNode {
	n := &farNode{far: f, way: way, held: make(map[*proxy]struct{}), watches: make(map[uint64]*watcher)}
	n.kind = kind{sys: f.sys, sched: f.sys.sched, node: key.name, inc: key.inc, far: n, cell: implOfProxy}
	return n
}

// Peer is another system with which this one exchanges messages, or did.
type Peer struct {
	Node        string
	State       string // "dialing", "open", "broken" or "lost"
	Err         error  // why it is not open
	Incarnation uint32 // 0 while it was never open
	Unconfirmed int    // bytes that it has not confirmed yet
	Unwritten   int    // bytes of those that have not been written
	Asks        int    // asks that it has not answered

	// These count from the start of this system, over all incarnations of that one.
	Sent       uint64 // messages
	Reconnects uint64
	Resent     uint64 // frames that were written again after a reconnect
	Lost       uint64 // incarnations that were lost, each with a NodeDown; a node that was never reached, and that nobody waited for, is none
	Dropped    uint64 // messages that were lost before they were written
	Unknown    uint64 // messages that were written and lost before they were confirmed
}

// Peers returns the other systems that this one knows, ordered by name: none without a [Carrier].
func (s *System) Peers() []Peer {
	f := s.far.Load()
	if f == nil {
		return nil
	}
	return f.carrier.Peers()
}

// NodeUp says that another system can be reached, and exchanges messages with this one.
type NodeUp struct {
	Node        string
	Incarnation uint32 // see PID.Incarnation
}

// NodeDown says that an incarnation of a system is lost: nothing will be exchanged with it again. The
// [Down] of each of its watched actors comes before.
type NodeDown struct {
	Node    string
	Err     error
	Dropped uint64 // messages that were not sent: each is a dead letter
	Unknown uint64 // messages that were sent and not confirmed, also dead letters: they may have been handled
}

func (NodeUp) event()   {}
func (NodeDown) event() {}
