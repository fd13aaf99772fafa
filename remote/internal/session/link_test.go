package session

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/remote/internal/wire"
)

// world runs nodes in virtual time on one goroutine. Their connections lose, double, delay
// and cut chunks of bytes; as a transport must, an end breaks where a chunk is missing and
// ignores one that comes twice.
type world struct {
	t      testing.TB
	rand   *rand.Rand
	now    time.Time
	events eventHeap
	order  int
	nodes  []*node
	faults faults
	trace  []string
	tamper func(to *node, f wire.Frame) []wire.Frame // what a planted fault makes of what arrives; nil: none
}

// faults are probabilities for each chunk, and the longest delay.
type faults struct {
	drop, double, cut float64
	delay             time.Duration
}

type event struct {
	at    time.Time
	order int
	do    func()
}

type eventHeap []event

func (h eventHeap) Len() int { return len(h) }
func (h eventHeap) Less(i, j int) bool {
	if !h[i].at.Equal(h[j].at) {
		return h[i].at.Before(h[j].at)
	}
	return h[i].order < h[j].order
}
func (h eventHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *eventHeap) Push(x any)   { *h = append(*h, x.(event)) }
func (h *eventHeap) Pop() any {
	last := len(*h) - 1
	e := (*h)[last]
	*h = (*h)[:last]
	return e
}

func newWorld(t testing.TB, seed uint64) *world {
	return &world{t: t, rand: rand.New(rand.NewPCG(seed, 1)), now: time.Unix(1_000_000, 0)}
}

func (w *world) after(d time.Duration, do func()) {
	w.order++
	heap.Push(&w.events, event{w.now.Add(d), w.order, do})
}

// run runs what happens within d.
func (w *world) run(d time.Duration) {
	end := w.now.Add(d)
	for len(w.events) > 0 && !w.events[0].at.After(end) {
		e := heap.Pop(&w.events).(event)
		w.now = e.at
		e.do()
	}
	w.now = end
}

func (w *world) note(format string, args ...any) {
	if len(w.trace) < 4000 {
		w.trace = append(w.trace, w.now.Format("05.000000 ")+fmt.Sprintf(format, args...))
	}
}

// node is a process with a host.
type node struct {
	w       *world
	name    string
	host    *Host
	handler *recorder
	dead    bool
	dials   bool // whether it dials at all
	runs    map[*Session]*runner
	limit   int // of numbers; 0: the protocol's
	ends    []*end
}

// runner is what package transport is in earnest.
type runner struct {
	n       *node
	s       *Session
	c       *Conn
	end     *end
	writing bool
	alarm   int // the number of the last timer
	dialing bool
}

func (w *world) start(name string, inc uint32) *node {
	n := &node{w: w, name: name, dials: true, runs: map[*Session]*runner{}}
	n.handler = newRecorder(n)
	n.host = NewHost(Config{Node: name, Cluster: "c", Incarnation: inc, Hooks: n.hooks, NewID: w.rand.Uint64}, n.handler)
	w.nodes = append(w.nodes, n)
	return n
}

// kill ends a process: its connections end, and nobody hears of it.
func (n *node) kill() {
	n.dead = true
	n.w.nodes = slices.DeleteFunc(n.w.nodes, func(o *node) bool { return o == n })
	for _, e := range n.ends {
		e.broken, e.take = nil, func() {}
		e.close(nil)
	}
	n.w.note("%s killed", n.name)
}

func (w *world) node(name string) *node {
	for _, n := range w.nodes {
		if n.name == name {
			return n
		}
	}
	return nil
}

func (n *node) hooks(s *Session) Hooks {
	if n.limit != 0 {
		s.names.most = n.limit
	}
	r := &runner{n: n, s: s}
	n.runs[s] = r
	n.w.after(0, r.tick)
	n.w.after(0, r.dial)
	return Hooks{Write: func() { n.w.after(0, r.write) }, Tick: func() { n.w.after(0, r.tick) }}
}

func (n *node) session(peer string) *Session { return n.host.Session(peer, n.w.now) }

// end is an end of a connection.
type end struct {
	w       *world
	other   *end
	closed  bool
	cut     bool // what is written is lost, and the writer does not notice
	sent    int
	arrived int
	last    time.Time // of what was sent
	frames  wire.Splitter
	take    func() // looks at frames
	broken  func(err error)
}

func (w *world) connect(from, to *node) (a, b *end) {
	a, b = &end{w: w}, &end{w: w}
	a.other, b.other = b, a
	from.ends, to.ends = append(from.ends, a), append(to.ends, b)
	return a, b
}

// write sends a chunk to the other end.
func (e *end) write(p []byte) {
	if e.closed {
		return
	}
	w := e.w
	e.sent++
	number, chunk := e.sent, slices.Clone(p)
	if w.rand.Float64() < w.faults.cut {
		e.cut = true
	}
	if e.cut || w.rand.Float64() < w.faults.drop {
		return
	}
	copies := 1
	if w.rand.Float64() < w.faults.double {
		copies = 2
	}
	for range copies {
		at := w.now
		if w.faults.delay > 0 {
			at = at.Add(time.Duration(w.rand.Int64N(int64(w.faults.delay))))
		}
		if at.Before(e.last) {
			at = e.last
		}
		e.last = at
		w.after(at.Sub(w.now), func() { e.other.arrive(number, chunk) })
	}
}

func (e *end) arrive(number int, chunk []byte) {
	switch {
	case e.closed || number <= e.arrived:
	case number != e.arrived+1:
		e.close(fmt.Errorf("chunk %d is missing", e.arrived+1))
	default:
		e.arrived++
		for len(chunk) > 0 { // in pieces, as a stream may
			n := 1 + e.w.rand.IntN(len(chunk))
			_, _ = e.frames.Write(chunk[:n])
			chunk = chunk[n:]
			e.take()
			if e.closed {
				return
			}
		}
	}
}

// close ends both ends, the other one a little later.
func (e *end) close(err error) {
	if e.closed {
		return
	}
	e.closed = true
	if e.broken != nil {
		e.broken(err)
	}
	if !e.cut && !e.other.cut {
		e.w.after(time.Duration(e.w.rand.Int64N(int64(time.Millisecond))), func() { e.other.close(fmt.Errorf("closed by the peer")) })
	}
}

func (r *runner) drop() {
	if r.end != nil {
		r.end.close(fmt.Errorf("dropped"))
	}
}

// dial dials until the session has a connection.
func (r *runner) dial() {
	n, w := r.n, r.n.w
	if n.dead || !n.dials || r.dialing || r.end != nil {
		return
	}
	again := func() { w.after(50*time.Millisecond+time.Duration(w.rand.Int64N(int64(200*time.Millisecond))), r.dial) }
	state, _ := r.s.State()
	if state == Lost {
		return
	}
	peer := w.node(r.s.peer)
	if peer == nil {
		again()
		return
	}
	call := r.s.Dial(r.n.w.now)
	if call == nil {
		again()
		return
	}
	r.dialing = true
	w.note("%s dials %s: resume %v, received %d", n.name, r.s.peer, call.Hello.Resume, call.Hello.Received)
	mine, theirs := w.connect(n, peer)
	ended := false
	over := func(err error) {
		if !ended {
			ended, r.dialing = true, false
			w.note("%s dials %s in vain: %v", n.name, r.s.peer, err)
			r.s.Fault(call, err)
			mine.close(err)
			again()
		}
	}
	mine.broken = over
	mine.take = func() {
		if r.greeted(call, mine, over) {
			ended, r.dialing = true, false
		}
	}
	w.after(5*time.Second, func() {
		if !n.dead {
			over(fmt.Errorf("no hello in time"))
		}
	})
	peer.accept(theirs)
	mine.write(helloFrame(&call.Hello))
}

func helloFrame(h *wire.Hello) []byte {
	return wire.AppendFrame(nil, wire.KindHello, wire.AppendHello(nil, h))
}

// greeted reads the hello, or the refusal, of the peer. It reports whether the session is open.
func (r *runner) greeted(call *Call, e *end, over func(error)) bool {
	f, ok, err := e.frames.Next()
	if err != nil || !ok {
		if err != nil {
			over(err)
		}
		return false
	}
	f = r.n.w.tampered(r.n, f)
	if f.Kind == wire.KindRefuse {
		refusal, _ := wire.ReadRefusal(f.Body)
		over(refusal)
		return false
	}
	hello, err := wire.ReadHello(f.Body)
	if err != nil {
		over(err)
		return false
	}
	c, err := r.s.Greet(call, &hello, r.n.w.now)
	if err != nil {
		over(err)
		return false
	}
	r.open(c, e)
	return true
}

func (w *world) tampered(n *node, f wire.Frame) wire.Frame {
	if w.tamper == nil {
		return f
	}
	return w.tamper(n, f)[0]
}

// accept answers whoever has connected.
func (n *node) accept(e *end) {
	w := n.w
	e.take = func() {
		f, ok, err := e.frames.Next()
		if err != nil || !ok {
			return
		}
		hello, err := wire.ReadHello(w.tampered(n, f).Body)
		if err != nil || n.dead {
			e.close(err)
			return
		}
		refuse := func(refusal *wire.Refusal) {
			e.write(wire.AppendFrame(nil, wire.KindRefuse, wire.AppendRefusal(nil, refusal)))
			w.after(time.Second, func() { e.close(refusal) })
			e.take = func() {}
		}
		s, refusal := n.host.Accept(&hello, w.now)
		if refusal != nil {
			refuse(refusal)
			return
		}
		r := n.runs[s]
		if old := r.end; old != nil {
			old.close(fmt.Errorf("replaced"))
		}
		answer, c, refusal := s.Accept(&hello, w.now)
		if refusal != nil {
			refuse(refusal)
			return
		}
		e.write(helloFrame(&answer))
		r.open(c, e)
	}
}

// open runs an open connection.
func (r *runner) open(c *Conn, e *end) {
	w := r.n.w
	w.note("%s opens %s", r.n.name, r.s.peer)
	r.c, r.end, r.writing = c, e, false
	e.frames.Limit(wire.DefaultFrame)
	e.broken = func(err error) {
		if r.end != e {
			return
		}
		w.note("%s breaks with %s: %v", r.n.name, r.s.peer, err)
		r.end = nil
		r.s.Break(c, err, w.now)
		w.after(0, r.tick)
		w.after(time.Duration(w.rand.Int64N(int64(100*time.Millisecond))), r.dial)
	}
	e.take = func() {
		if err := r.receive(c, e); err != nil {
			w.note("%s fails with %s: %v", r.n.name, r.s.peer, err)
			e.close(err)
		}
	}
	e.take()
	w.after(0, r.write)
}

func (r *runner) receive(c *Conn, e *end) error {
	if r.n.w.tamper == nil {
		return r.s.Receive(c, &e.frames, r.n.w.now)
	}
	var changed wire.Splitter
	changed.Limit(wire.DefaultFrame)
	for {
		f, ok, err := e.frames.Next()
		if err != nil {
			return err
		}
		if !ok {
			return r.s.Receive(c, &changed, r.n.w.now)
		}
		for _, f := range r.n.w.tamper(r.n, f) {
			_, _ = changed.Write(wire.AppendFrame(nil, f.Kind, f.Body))
		}
	}
}

// write writes what there is; it takes its time.
func (r *runner) write() {
	if r.end == nil || r.writing || r.n.dead {
		return
	}
	c, e := r.c, r.end
	taken, err := r.s.Take(c, nil)
	if err != nil || len(taken) == 0 {
		return
	}
	r.writing = true
	e.write(slices.Concat(taken...))
	r.n.w.after(time.Duration(r.n.w.rand.Int64N(int64(time.Millisecond))), func() {
		if r.end != e {
			return
		}
		r.writing = false
		r.s.Wrote(c)
		r.write()
	})
}

// tick is the timer.
func (r *runner) tick() {
	if r.n.dead {
		return
	}
	w := r.n.w
	next := r.s.Tick(w.now)
	if r.end != nil && !r.s.Has(r.c) {
		_, err := r.s.State()
		r.end.close(err)
	}
	if state, err := r.s.State(); state == Lost {
		w.note("%s loses %s: %v", r.n.name, r.s.peer, err)
		r.n.host.Settle(r.s)
		return
	}
	r.alarm++
	if alarm := r.alarm; !next.IsZero() {
		w.after(max(next.Sub(w.now), 0), func() {
			if r.alarm == alarm {
				r.tick()
			}
		})
	}
}
