package remote

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"time"

	"github.com/greenroom-go/greenroom/remote/internal/session"
	"github.com/greenroom-go/greenroom/remote/internal/wire"
	"github.com/greenroom-go/greenroom/sim"
)

// fabric connects the nodes of a simulated world. Its connections are as unreliable as the links
// are; as a transport must, an end breaks where a chunk of bytes is missing, and passes over one that
// comes twice.
type fabric struct {
	w        *sim.World
	stations map[string]*station // the present ones, by name
	planted  plant
	conns    uint64
}

// plant is a fault of a transport, or of what is above it.
type plant uint8

const (
	nothing   plant = iota
	gaps            // a chunk that is missing is not noticed
	repeats         // a chunk that comes twice is taken twice
	silence         // a loss is not reported
	oldHello        // the hello of a reconnect says that less has arrived than has
	reversal        // messages of a run are delivered in reverse
	noCancel        // that an asker has given up is not said
	noOutcome       // asks are forgotten when their node is lost
	noUnlink        // what confirms an unlink is lost
)

// tampered is a Handler with a fault.
type tampered struct {
	handler
	planted plant
}

func (h tampered) Messages(s *session.Session, to *session.Known, run []session.Received) {
	if h.planted == reversal {
		slices.Reverse(run)
	}
	h.handler.Messages(s, to, run)
}

func (h tampered) Cancel(s *session.Session, what any) {
	if h.planted != noCancel {
		h.handler.Cancel(s, what)
	}
}

func (h tampered) Signal(s *session.Session, k wire.Kind, sig session.ReceivedSignal) {
	if h.planted != noUnlink || k != wire.KindUnlink || sig.Code != unlinkTaken {
		h.handler.Signal(s, k, sig)
	}
}

func (h tampered) Lost(s *session.Session, l *session.Loss) {
	if h.planted == noOutcome {
		l.Asks = nil
	}
	h.handler.Lost(s, l)
}

// station is the network of a node: its sessions, on the steps of a simulated world.
type station struct {
	f    *fabric
	name string
	node *sim.Node
	host *session.Host
	runs []*run // in the order in which their sessions began
	seen map[uint64]bool
	dead bool // the node has crashed, or is closed
}

// run is a session that is run.
type run struct {
	st      *station
	s       *session.Session
	c       *session.Conn
	conn    uint64 // the number of its connection; 0: none
	out, in int    // chunks on it
	frames  *wire.Splitter

	call    *session.Call
	calling uint64 // the number of the connection of the call
	next    time.Time
	alarm   int
	writing bool
	ticking bool
}

// chunk is what goes over a link.
type chunk struct {
	conn    uint64
	number  int
	kind    chunkKind
	hello   wire.Hello
	refusal *wire.Refusal
	data    []byte
}

type chunkKind uint8

const (
	isHello chunkKind = iota
	isAnswer
	isRefusal
	isData
	isEnd
)

var errDropped = errors.New("dropped")

// join makes the network of a node.
func (f *fabric) join(node *sim.Node, c session.Config, h session.Handler) *station {
	st := &station{f: f, name: node.Name(), node: node, seen: map[uint64]bool{}}
	c.NewID = f.w.Rand().Uint64
	c.Hooks = func(s *session.Session) session.Hooks {
		r := &run{st: st, s: s}
		return session.Hooks{Write: r.writeSoon, Tick: r.tickSoon, Start: func() {
			st.runs = append(st.runs, r)
			r.tickSoon()
		}}
	}
	st.host = session.NewHost(c, h)
	for _, name := range slices.Sorted(maps.Keys(f.stations)) {
		if other := f.stations[name]; name != st.name {
			f.w.Link(other.node, node).Receive(func(frame any) { st.arrive(name, frame.(*chunk)) })
			f.w.Link(node, other.node).Receive(func(frame any) { other.arrive(st.name, frame.(*chunk)) })
		}
	}
	f.stations[st.name] = st
	return st
}

// crash is the end of the node without a word.
func (st *station) crash() {
	st.dead = true
	st.node.Crash()
}

// soon calls do in a step of its own.
func (st *station) soon(d time.Duration, do func()) {
	st.f.w.At(d, func() {
		if !st.dead {
			do()
		}
	})
}

func (st *station) send(peer string, c *chunk) {
	if to := st.f.stations[peer]; to != nil && !to.dead {
		st.f.w.Link(st.node, to.node).Send(c)
	}
}

// Host implements network, as all methods do that are exported.
func (st *station) Host() *session.Host { return st.host }

func (st *station) Session(peer string) *session.Session { return st.host.Session(peer, time.Now()) }
func (st *station) Addr() net.Addr                       { return nil }
func (st *station) Start()                               {}
func (st *station) Disconnect(peer string) {
	for _, s := range st.host.Sessions() {
		if s.Peer() == peer {
			s.Lose(errDropped)
		}
	}
}

func (st *station) Close(ctx context.Context) error {
	for _, s := range st.host.Sessions() {
		s.Bye()
	}
	for len(st.runs) > 0 && ctx.Err() == nil && !st.dead {
		st.f.w.Advance(10 * time.Millisecond)
	}
	for _, r := range slices.Clone(st.runs) {
		r.s.Lose(session.ErrClosed)
		r.settle()
	}
	st.dead = true
	return ctx.Err()
}

func (r *run) tickSoon() {
	if !r.ticking {
		r.ticking = true
		r.st.soon(0, func() {
			r.ticking = false
			r.tick()
		})
	}
}

// tick is the session's timer: it dials, and settles what is lost.
func (r *run) tick() {
	now := time.Now()
	next := r.s.Tick(now)
	if r.conn != 0 && !r.s.Has(r.c) {
		r.end()
	}
	state, _ := r.s.State()
	if state == session.Lost {
		r.settle()
		return
	}
	if state != session.Open && r.call == nil && r.conn == 0 {
		if !now.Before(r.next) {
			r.dial()
		}
		if r.next.After(now) && (next.IsZero() || r.next.Before(next)) {
			next = r.next
		}
	}
	r.alarm++
	if alarm := r.alarm; !next.IsZero() {
		r.st.soon(max(next.Sub(now), 0), func() {
			if r.alarm == alarm && slices.Contains(r.st.runs, r) {
				r.tick()
			}
		})
	}
}

func (r *run) settle() {
	r.end()
	r.st.runs = slices.DeleteFunc(r.st.runs, func(other *run) bool { return other == r })
	if r.st.f.planted == silence {
		return
	}
	r.st.host.Settle(r.s)
}

func (r *run) dial() {
	r.next = time.Now().Add(r.st.f.w.Sometime(500*time.Millisecond) + 50*time.Millisecond)
	call := r.s.Dial(time.Now())
	if call == nil {
		return
	}
	r.st.f.conns++
	r.call, r.calling = call, r.st.f.conns
	hello := call.Hello
	if r.st.f.planted == oldHello && hello.Received > 2 {
		hello.Received -= 2
	}
	r.st.send(r.s.Peer(), &chunk{conn: r.calling, kind: isHello, hello: hello})
	number := r.calling
	r.st.soon(5*time.Second, func() {
		if r.calling == number && r.call == call {
			r.fault(errors.New("no hello in time"))
		}
	})
}

func (r *run) fault(err error) {
	call := r.call
	r.call, r.calling = nil, 0
	r.s.Fault(call, err)
}

func (r *run) open(conn uint64, c *session.Conn) {
	r.conn, r.c, r.in, r.out, r.writing = conn, c, 0, 0, false
	r.frames = new(wire.Splitter)
	r.frames.Limit(wire.DefaultFrame)
	r.receive(nil)
	r.writeSoon()
}

// end ends the connection, and tells the other side, as the end of a process does.
func (r *run) end() {
	if r.conn != 0 {
		r.st.send(r.s.Peer(), &chunk{conn: r.conn, kind: isEnd})
		r.broken(errDropped)
	}
}

func (r *run) broken(err error) {
	c := r.c
	r.conn, r.c = 0, nil
	r.s.Break(c, err, time.Now())
}

func (r *run) receive(data []byte) {
	_, _ = r.frames.Write(data)
	conn := r.conn
	if err := r.s.Receive(r.c, r.frames, time.Now()); err != nil && r.conn == conn {
		r.st.send(r.s.Peer(), &chunk{conn: r.conn, kind: isEnd})
		r.broken(err)
	}
}

func (r *run) writeSoon() {
	if !r.writing {
		r.writing = true
		r.st.soon(r.st.f.w.Sometime(time.Millisecond), r.write)
	}
}

// write writes what there is. What is taken is written when the next write begins.
func (r *run) write() {
	r.writing = false
	if r.conn == 0 {
		return
	}
	c := r.c
	taken, err := r.s.Take(c, nil)
	if err != nil || len(taken) == 0 {
		return
	}
	r.out++
	r.st.send(r.s.Peer(), &chunk{conn: r.conn, number: r.out, kind: isData, data: slices.Concat(taken...)})
	r.s.Wrote(c)
	r.writeSoon()
}

// arrive takes what has come over a link.
func (st *station) arrive(peer string, c *chunk) {
	if st.dead {
		return
	}
	if c.kind == isHello {
		if !st.seen[c.conn] {
			st.seen[c.conn] = true
			st.welcome(peer, c)
		}
		return
	}
	i := slices.IndexFunc(st.runs, func(r *run) bool {
		return r.s.Peer() == peer && (r.conn == c.conn || r.calling == c.conn)
	})
	if i < 0 {
		return
	}
	switch r := st.runs[i]; {
	case c.kind == isAnswer && r.calling == c.conn:
		call := r.call
		r.call, r.calling = nil, 0
		conn, err := r.s.Greet(call, &c.hello, time.Now())
		if err != nil {
			st.send(peer, &chunk{conn: c.conn, kind: isEnd})
			return
		}
		r.open(c.conn, conn)
	case c.kind == isRefusal && r.calling == c.conn:
		r.fault(c.refusal)
	case c.kind == isEnd && r.calling == c.conn:
		r.fault(errDropped)
	case r.conn != c.conn:
	case c.kind == isEnd:
		r.broken(errDropped)
	case c.kind == isData:
		r.arrive(c)
	}
}

func (r *run) arrive(c *chunk) {
	switch planted := r.st.f.planted; {
	case c.number <= r.in && planted != repeats:
	case c.number > r.in+1 && planted != gaps:
		r.end()
	default:
		r.in = max(r.in, c.number)
		r.receive(c.data)
	}
}

// welcome answers a hello.
func (st *station) welcome(peer string, c *chunk) {
	refuse := func(refusal *wire.Refusal) { st.send(peer, &chunk{conn: c.conn, kind: isRefusal, refusal: refusal}) }
	s, refusal := st.host.Accept(&c.hello, time.Now())
	if refusal != nil {
		refuse(refusal)
		return
	}
	i := slices.IndexFunc(st.runs, func(r *run) bool { return r.s == s })
	if i < 0 {
		refuse(wire.Refuse(wire.CodeBusy, "the session is ending"))
		return
	}
	r := st.runs[i]
	r.end()
	answer, conn, refusal := s.Accept(&c.hello, time.Now())
	if refusal != nil {
		refuse(refusal)
		return
	}
	r.call, r.calling = nil, 0
	st.send(peer, &chunk{conn: c.conn, kind: isAnswer, hello: answer})
	r.open(c.conn, conn)
}

func (c *chunk) String() string { return fmt.Sprintf("%d of %d", c.number, c.conn) }
