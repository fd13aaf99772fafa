package session

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/greenroom-go/greenroom/remote/internal/wire"
)

// State is where a session is in its life: dialing, then open and broken by turns, then lost.
type State uint8

// The states of a session.
const (
	Dialing State = iota // there was no connection yet
	Open
	Broken // there is no connection; what is sent is kept
	Lost   // for good
)

// String returns "dialing", "open", "broken" or "lost".
func (s State) String() string { return [...]string{"dialing", "open", "broken", "lost"}[s] }

// Reasons for which a session is lost, wrapped with what led to them.
var (
	ErrExpired     = errors.New("no connection in time")
	ErrOverflow    = errors.New("the reserve for answers and signals is full")
	ErrLeft        = errors.New("the node has left")
	ErrClosed      = errors.New("this node has left")
	ErrIncarnation = errors.New("the node is another incarnation")
	ErrSilent      = errors.New("the node is silent")
	ErrStale       = errors.New("the connection is not the session's any more")
)

// Session is the frames that one node exchanges with one incarnation of another. Its
// methods are safe for concurrent use unless they say otherwise; none blocks.
type Session struct {
	host *Host
	peer string

	mu     sync.Mutex
	hooks  Hooks
	state  State
	id     uint64
	former uint64 // the id before; 0: none
	inc    uint32 // of the peer; 0: not known
	opened bool   // at least once
	conn   *Conn  // nil unless open
	frame  int    // the longest that the peer accepts
	err    error  // why it is not open: the last try's, or the reason of the loss
	call   *Call  // a hello of this node waits for that of the peer; nil: none does

	log    log
	names  *interner
	asks   asks
	served map[uint64]any
	room   chan struct{} // made when somebody waits
	idle   bool          // the writer waits for a wake
	stats  counts

	bye      bool  // this node leaves: nothing more is sent
	byeOf    bool  // the peer leaves: nothing more comes
	settled  bool  // the loss has been handed out
	missed   *Loss // what the peer's incarnation is not meant to get, until Missed is called
	received uint64
	unacked  int // bytes of frames that were received since the last ack
	ackNow   bool
	pingNow  bool
	pongNow  bool

	// Timers; zero: not set.
	since    time.Time // when dialing began, or the connection broke
	heard    time.Time // a byte of the peer
	pinged   time.Time
	ackAt    time.Time
	sweepAt  time.Time
	moved    time.Time // while this node leaves: the peer has confirmed something, time without a connection left out
	movedTo  uint64    // how much it had confirmed then
	next     time.Time // what Tick has returned
	sweeping bool      // an ask is open: Tick has to set sweepAt

	in inbound // belongs to the caller of Receive
}

// counts are what a session has counted.
type counts struct {
	sent       uint64 // messages
	missed     uint64 // of those, messages for other incarnations, which sift has taken out
	reconnects uint64
	resent     uint64 // frames
}

// Hooks are how a session makes whoever runs it act. They are called without a lock held
// and must not block.
type Hooks struct {
	// Write is called when there is something to write after a [Session.Take] that
	// returned nothing.
	Write func()
	// Tick is called when [Session.Tick] must be called sooner than it said, or now.
	Tick func()
	// Start is called once when the hooks are set, with a lock of the host held.
	Start func()
}

// Conn is a connection of a session, from its hellos until it breaks.
type Conn struct {
	version uint32
	control []byte // frames without a number, while they are written
	lastAck bool   // control holds the ack of the peer's bye
}

// Peer returns the name of the node at the other end.
func (s *Session) Peer() string { return s.peer }

// Incarnation returns the peer's incarnation, 0 while it is not known.
func (s *Session) Incarnation() uint32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.inc
}

// State returns the session's state, and why it is not open.
func (s *Session) State() (State, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state, s.err
}

// Stats is what a session has done and holds.
type Stats struct {
	State       State
	Incarnation uint32
	Kept        int    // bytes of frames that are not confirmed
	Unwritten   int    // of those, bytes that have not been written
	Frames      uint64 // frames that are not confirmed
	Sent        uint64 // messages, also those that the peer has missed
	Received    uint64 // frames
	Asks        int    // open asks of this node
	Served      int    // open asks of the peer
	Reconnects  uint64
	Resent      uint64 // frames that were written again after a reconnect
}

// Stats returns what the session has done and holds.
func (s *Session) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Stats{
		State: s.state, Incarnation: s.inc,
		Kept: s.log.kept, Unwritten: s.log.unwritten, Frames: s.log.total - s.log.confirmed,
		Sent: s.stats.sent, Received: s.received,
		Asks: s.asks.open, Served: len(s.served),
		Reconnects: s.stats.reconnects, Resent: s.stats.resent,
	}
}

// attach opens the session with a connection. The mutex is held.
func (s *Session) attach(h *wire.Hello, now time.Time) (*Conn, bool) {
	handed := s.log.handed
	if !s.log.rewind(h.Received) {
		return nil, false
	}
	if !s.opened { // not before it is known that the hello may be true
		s.missed = s.sift(h.Incarnation)
	}
	s.names.confirm(s.log.confirmed)
	if !s.moved.IsZero() {
		pause := s.since
		if pause.Before(s.moved) {
			pause = s.moved
		}
		s.moved = s.moved.Add(now.Sub(pause))
	}
	if s.opened {
		s.stats.reconnects++
		s.stats.resent += handed - h.Received
	}
	version, _ := wire.Version(h, &wire.Hello{Oldest: wire.OldestVersion, Newest: wire.NewestVersion})
	s.conn = &Conn{version: version}
	s.state, s.opened, s.call, s.err = Open, true, nil, nil
	s.inc, s.frame = h.Incarnation, int(h.Frame)
	s.idle, s.ackNow, s.pingNow, s.pongNow = false, s.byeOf, false, false
	s.heard, s.pinged, s.ackAt, s.unacked = now, time.Time{}, time.Time{}, 0
	s.openRoom() // maybe the peer has got all there was, and nothing will be written
	return s.conn, true
}

// Break says that a connection has ended. It does nothing if the session has another one.
func (s *Session) Break(c *Conn, err error, now time.Time) {
	s.mu.Lock()
	if s.conn == c && c != nil {
		s.broke(err, now)
	}
	s.mu.Unlock()
	s.hooks.Tick()
}

func (s *Session) broke(err error, now time.Time) {
	s.conn, s.state, s.err, s.since = nil, Broken, err, now
	if s.byeOf {
		s.lose(ErrLeft)
	}
}

// Has reports whether the connection is the session's.
func (s *Session) Has(c *Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conn == c
}

// Lose ends the session for good. Its peer's incarnation will not be spoken to again.
func (s *Session) Lose(err error) {
	s.mu.Lock()
	s.lose(err)
	s.mu.Unlock()
	s.hooks.Tick()
}

func (s *Session) lose(err error) {
	if s.state == Lost {
		return
	}
	s.state, s.conn, s.call, s.err = Lost, nil, nil, err
	if s.room != nil {
		close(s.room)
		s.room = nil
	}
}

// Bye says that this node sends nothing more. When the peer has everything, the session is
// lost with ErrClosed and nothing is missing; [Session.Lose] ends the wait, and so does a peer
// that confirms nothing for as long as a session waits for a connection, with ErrExpired.
func (s *Session) Bye() {
	s.mu.Lock()
	wake := false
	switch {
	case s.bye || s.state == Lost:
	case s.state == Dialing && s.log.total == 0:
		s.lose(ErrClosed)
	default:
		s.bye = true
		s.ackNow = true // so that the peer need not wonder about what has arrived here
		s.put(wire.KindBye, func(dst []byte) []byte { return dst }, 0)
		wake = s.wake()
	}
	s.unlock(wake, true)
}

// unlock unlocks the mutex and calls whom the caller has found something for: the writer, and the
// one who ticks.
func (s *Session) unlock(wake, tick bool) {
	s.mu.Unlock()
	s.signal(wake)
	if tick {
		s.hooks.Tick()
	}
}

// signal calls the writer.
func (s *Session) signal(wake bool) {
	if wake {
		s.hooks.Write()
	}
}

// wake reports whether the writer has to be called. The mutex is held.
func (s *Session) wake() bool {
	wake := s.idle && s.conn != nil
	if wake {
		s.idle = false
	}
	return wake
}

// Take returns what is to be written next, appended to dst: whole frames, about a mebibyte
// at most. They stay valid until [Session.Wrote], which is to be called when they are
// written. It returns nothing if there is nothing, and then calls the hook when there is;
// the error is that the connection has ended.
func (s *Session) Take(c *Conn, dst [][]byte) ([][]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != c {
		return dst, ErrStale
	}
	c.control = c.control[:0]
	if s.ackNow {
		at := len(c.control)
		c.control = wire.AppendAck(wire.BeginFrame(c.control, wire.KindAck), s.received)
		wire.EndFrame(c.control, at)
		s.ackNow, s.ackAt, s.unacked = false, time.Time{}, 0
		c.lastAck = s.byeOf
	}
	if s.pingNow {
		c.control = wire.AppendFrame(c.control, wire.KindPing, nil)
		s.pingNow = false
	}
	if s.pongNow {
		c.control = wire.AppendFrame(c.control, wire.KindPong, nil)
		s.pongNow = false
	}
	n := len(dst)
	if len(c.control) > 0 {
		dst = append(dst, c.control)
	}
	dst = s.log.take(dst, softBytes)
	s.idle = len(dst) == n
	return dst, nil
}

// Wrote says that what [Session.Take] has returned is written.
func (s *Session) Wrote(c *Conn) {
	s.mu.Lock()
	if s.conn == c {
		s.log.wrote()
		s.openRoom()
		if c.lastAck {
			s.lose(ErrLeft)
		}
		s.drained()
	}
	lost := s.state == Lost
	s.mu.Unlock()
	if lost {
		s.hooks.Tick()
	}
}

// drained loses a session that this node has left and of which nothing is missing.
func (s *Session) drained() {
	if s.bye && s.log.confirmed == s.log.total {
		s.lose(ErrClosed)
	}
}

// Unwritten returns how many bytes of frames have not been written. A writer looks for a
// moment whether more comes before it writes.
func (s *Session) Unwritten() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.unwritten
}

// hasRoom reports whether a patient sender may send.
func (s *Session) hasRoom() bool { return s.log.unwritten <= softBytes && s.log.kept <= firmBytes }

func (s *Session) openRoom() {
	if s.room != nil && s.hasRoom() {
		close(s.room)
		s.room = nil
	}
}

// Room returns a channel that is closed as soon as a patient sender may try again: at once
// if it may now, and when the session is lost.
func (s *Session) Room() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hasRoom() || s.state == Lost {
		return closed
	}
	if s.room == nil {
		s.room = make(chan struct{})
	}
	return s.room
}

var closed = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// Limits of what a session keeps, in bytes.
const (
	softBytes    = 1 << 20  // unwritten: patient senders wait
	firmBytes    = 8 << 20  // not confirmed: patient senders wait, since acks may be late
	hardBytes    = 16 << 20 // not confirmed: messages overflow
	reserveBytes = 1 << 20  // beyond that, for answers and signals; then the session is lost
)

func (s *Session) describe() string { return fmt.Sprintf("node %q, incarnation %d", s.peer, s.inc) }
