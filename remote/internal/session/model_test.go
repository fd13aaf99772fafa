package session

import (
	"fmt"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/internal/soaktest"
	"github.com/greenroom-go/greenroom/remote/internal/wire"
)

// client sends for a node.
type client struct {
	n     *node
	peer  string
	names map[string]*Name
	asked []*question
}

func newClient(n *node, peer string) *client {
	return &client{n: n, peer: peer, names: map[string]*Name{}}
}

func (c *client) name(address string) *Name {
	if c.names[address] == nil {
		c.names[address] = NewName(address)
	}
	return c.names[address]
}

// act sends something of some kind from one of some actors to another.
func (c *client) act(actors int) {
	w := c.n.w
	inc := uint32(0)
	if peer := w.node(c.peer); peer != nil {
		inc = peer.host.config.Incarnation
	}
	if inc == 0 || c.n.host.IsLost(c.peer, inc) {
		return
	}
	s := c.n.session(c.peer)
	if known := s.Incarnation(); known != 0 && known != inc {
		return
	}
	from := actor{c.n, 1 + w.rand.Uint64N(uint64(actors))}
	to := fmt.Sprintf("%s~%d/%d", c.peer, inc, w.rand.IntN(actors))
	k := pair{from.Address(), to}
	number := c.n.handler.sent[k]
	size := w.rand.IntN(300)
	if w.rand.IntN(200) == 0 {
		size = w.rand.IntN(100_000)
	}
	sender := Sender{from.id, from}
	if w.rand.IntN(10) == 0 {
		sender.ID = 0 // as if of a third node
	}
	p := payload(k.from, to, number, size)
	m := &Message{To: c.name(to), From: sender, Type: typeOf(number), Header: headerOf(number), Payload: p, Patient: w.rand.IntN(2) == 0}
	var v Verdict
	switch w.rand.IntN(8) {
	case 0, 1:
		q, left := &question{to: to, number: number, w: w}, time.Duration(0)
		if w.rand.IntN(2) == 0 {
			left = time.Duration(1 + w.rand.Int64N(int64(200*time.Millisecond)))
			q.ends = w.now.Add(left)
		}
		if v = s.Ask(m, q, left); v == Sent {
			c.asked = append(c.asked, q)
		}
	case 2:
		v = s.Signal(wire.KindDown, Signal{To: m.To, From: sender, Code: 3, Failure: wire.Failure{Name: "why", Text: string(p[:min(len(p), 4000)])}})
	case 3:
		q := &question{to: "find", number: uint64(len(c.asked)), w: w}
		if s.Request(wire.KindFind, sender, payload("", "find", q.number, 0), q, time.Second) == Sent {
			c.asked = append(c.asked, q)
		}
		return
	default:
		v = s.Tell(m)
	}
	if v == Sent {
		c.n.handler.sent[k]++
	}
}

// checkSent checks what arrived of what a process sent: at whichever process of the peer's
// name, since what was sent while dialing may arrive at the next one.
func checkSent(from *node, processes []*node) []string {
	var wrong []string
	for k, sent := range from.handler.sent {
		confirmed, handed := sent, sent
		for _, lost := range from.handler.losses {
			if first, ok := lost.first[k]; ok {
				confirmed = first
			}
			if first, ok := lost.firstDropped[k]; ok {
				handed = first
			}
		}
		if from.dead { // its log has died with it
			confirmed = 0
		}
		var got []uint64
		for _, p := range processes {
			got = append(got, p.handler.got[k]...)
		}
		var n uint64 // the number of the next one
		for i := 0; i <= len(got); i++ {
			for _, gap := range from.handler.gaps[k] {
				if n == gap[0] {
					n = gap[1]
				}
			}
			if i < len(got) && got[i] != n {
				wrong = append(wrong, fmt.Sprintf("%v: message %d arrived and not %d", k, got[i], n))
				break
			}
			if i < len(got) {
				n++
			}
		}
		if n < confirmed || n > handed {
			wrong = append(wrong, fmt.Sprintf("%v: of %d messages sent, %d confirmed and %d handed out, %d arrived", k, sent, confirmed, handed, n))
		}
	}
	return wrong
}

// checkAsks checks that each ask has ended.
func checkAsks(c *client) []string {
	var wrong []string
	for _, q := range c.asked {
		if !q.Over() && c.n.handler.answered[q] == "" {
			wrong = append(wrong, fmt.Sprintf("%s: the ask %d of %s has not ended", c.n.name, q.number, q.to))
		}
	}
	return wrong
}

// scenario is a run of two nodes with random faults. It returns what is wrong.
func scenario(t testing.TB, seed uint64, tamper func(w *world)) (wrong []string, w *world) {
	w = newWorld(t, seed)
	if tamper != nil {
		tamper(w)
	}
	r := w.rand
	w.faults = faults{
		drop:   []float64{0, 0, 0.02, 0.2}[r.IntN(4)],
		double: []float64{0, 0.1}[r.IntN(2)],
		cut:    []float64{0, 0, 0.01}[r.IntN(3)],
		delay:  []time.Duration{0, time.Millisecond, 50 * time.Millisecond, time.Second}[r.IntN(4)],
	}
	limit := []int{0, 100}[r.IntN(2)]
	a, b := w.start("a", 1+r.Uint32N(1000)), w.start("b", 2000+r.Uint32N(1000))
	a.limit, b.limit = limit, limit
	if r.IntN(4) == 0 {
		a.dials = false
	}
	processes := []*node{a, b}
	ca, cb := newClient(a, "b"), newClient(b, "a")
	actors := []int{2, 30, 200}[r.IntN(3)]
	for range 20 + r.IntN(60) {
		for range r.IntN(30) {
			[]*client{ca, cb}[r.IntN(2)].act(actors)
		}
		w.run(time.Duration(r.Int64N(int64(100 * time.Millisecond))))
		switch r.IntN(60) {
		case 0: // apart, for a short or a long while
			apart(a, b, time.Duration(r.Int64N(int64(20*time.Second))))
		case 1:
			for _, run := range a.runs {
				run.drop()
			}
		case 2:
			if r.IntN(5) == 0 && !b.dead {
				b.kill()
				w.run(time.Duration(r.Int64N(int64(3 * time.Second))))
				b = w.start("b", 5000+r.Uint32N(1000))
				b.limit = limit
				processes = append(processes, b)
				cb = newClient(b, "a")
			}
		case 3:
			if r.IntN(20) == 0 {
				ca.n.session("b").Lose(fmt.Errorf("disconnected"))
			}
		}
	}
	w.faults = faults{}
	w.run(time.Minute)
	for _, p := range processes {
		wrong = append(wrong, p.handler.wrong...)
		wrong = append(wrong, checkSent(p, processes)...)
	}
	for _, n := range w.nodes {
		for s := range n.runs {
			if st := s.Stats(); st.State == Open && (st.Asks > 0 || st.Served > 0 || st.Frames > 0) {
				wrong = append(wrong, fmt.Sprintf("%s: when all is quiet, %d asks and %d of the peer are open and %d frames are not confirmed", n.name, st.Asks, st.Served, st.Frames))
			}
		}
	}
	wrong = append(wrong, checkAsks(ca)...)
	if !cb.n.dead {
		wrong = append(wrong, checkAsks(cb)...)
	}
	return append(wrong, alive(ca, cb, processes)...), w
}

// apart cuts all connections between two nodes and lets none be made for a while.
func apart(a, b *node, d time.Duration) {
	w := a.w
	for _, n := range []*node{a, b} {
		for _, run := range n.runs {
			if run.end != nil {
				run.end.cut, run.end.other.cut = true, true
			}
		}
	}
	w.note("apart for %v", d)
	faults := w.faults
	w.faults.drop = 1
	w.run(d)
	w.faults = faults
}

// alive checks that after the faults two nodes can talk, unless one has lost the other.
func alive(ca, cb *client, processes []*node) []string {
	a, b := ca.n, cb.n
	if a.host.IsLost("b", b.host.config.Incarnation) || b.host.IsLost("a", a.host.config.Incarnation) {
		return nil
	}
	before := len(a.handler.sent) + total(b)
	for range 20 {
		ca.act(1)
	}
	b.session("a") // a may be one that does not dial
	a.w.run(30 * time.Second)
	if len(a.handler.sent)+total(b) == before {
		return []string{"after the faults nothing arrives any more"}
	}
	return checkSent(a, processes)
}

func total(n *node) int {
	sum := 0
	for _, got := range n.handler.got {
		sum += len(got)
	}
	return sum
}

func TestSessionKeepsItsPromisesUnderFaults(t *testing.T) {
	var reconnects, resent, lost, delivered uint64
	for seed := range uint64(soaktest.Rounds(t, 200, 20_000)) {
		wrong, w := scenario(t, seed, nil)
		for _, n := range w.nodes {
			for s := range n.runs {
				st := s.Stats()
				reconnects += st.Reconnects
				resent += st.Resent
			}
			lost += uint64(len(n.handler.losses))
			delivered += uint64(total(n))
		}
		if len(wrong) > 0 {
			for _, line := range w.trace {
				t.Log(line)
			}
			t.Fatalf("seed %d: %d things are wrong: %q", seed, len(wrong), wrong[:min(len(wrong), 5)])
		}
	}
	t.Logf("%d messages, %d reconnects, %d frames sent again, %d sessions lost", delivered, reconnects, resent, lost)
	if reconnects == 0 || resent == 0 || lost == 0 || delivered == 0 {
		t.Error("the faults must make sessions resume and be lost")
	}
}
