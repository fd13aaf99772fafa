package sim

import (
	"fmt"
	"time"

	"github.com/greenroom-go/greenroom/actor"
)

// Pipe is what a transport between systems needs from a network: frames go one way, in
// order. [Link] is one.
type Pipe interface {
	// Send sends a frame. It does not wait.
	Send(frame any)
	// Receive sets the function that handles arriving frames, and replaces an earlier one.
	Receive(arrive func(frame any))
}

// Link is the connection from one node to another, one way. Frames arrive in the order
// of sending, each as a step of its own; a frame may be delayed, lost or duplicated, as
// the link's faults say. There is one link for each pair of nodes and direction.
type Link struct {
	w      *World
	number int
	from   *Node
	to     *Node
	faults LinkFaults
	cut    bool
	arrive func(frame any)
	epoch  int       // frames of earlier ones are lost
	last   time.Time // no frame arrives before the one that was sent before it
	queue  []*frame  // in flight, in order
	sent   int
	lost   int
}

var _ Pipe = (*Link)(nil)

// frame is something on its way.
type frame struct {
	link    *Link
	content any
	epoch   int
}

// Link returns the link from one node to another.
func (w *World) Link(from, to *Node) *Link {
	for _, l := range w.links {
		if l.from == from && l.to == to {
			return l
		}
	}
	l := &Link{w: w, number: len(w.links), from: from, to: to, faults: w.faults.Link}
	w.links = append(w.links, l)
	return l
}

func (l *Link) key() uint64 { return 2 + uint64(l.number) }

// From returns the node at which the link begins.
func (l *Link) From() *Node { return l.from }

// To returns the node at which it ends.
func (l *Link) To() *Node { return l.to }

// Receive implements [Pipe].
func (l *Link) Receive(arrive func(frame any)) { l.arrive = arrive }

// Faults replaces the link's faults, which are initially those of the run.
func (l *Link) Faults(f LinkFaults) { l.faults = f }

// Cut breaks the link: frames in flight are lost, and so is everything sent until
// [Link.Mend]. The sender does not notice.
func (l *Link) Cut() {
	l.lose()
	l.cut = true
	l.w.note("cut", l.String())
}

// Mend ends a [Link.Cut].
func (l *Link) Mend() {
	if l.cut {
		l.cut = false
		l.w.note("mend", l.String())
	}
}

// Lost returns how many frames were lost, and how many were sent; a duplicated frame
// counts twice.
func (l *Link) Lost() (lost, sent int) { return l.lost, l.sent }

// String returns "a->b".
func (l *Link) String() string { return l.from.name + "->" + l.to.name }

// lose loses what is in flight.
func (l *Link) lose() {
	l.lost += len(l.queue)
	l.queue = nil
	l.epoch++
}

// Send implements [Pipe].
func (l *Link) Send(content any) {
	l.send(content)
	if r := l.w.linkRand; l.faults.Duplicate > 0 && r.Float64() < l.faults.Duplicate {
		l.w.note("duplicate", fmt.Sprintf("%s %T", l, content))
		l.send(content)
	}
}

func (l *Link) send(content any) {
	w := l.w
	l.sent++
	if l.cut || l.from.crashed || l.to.crashed || l.faults.Drop > 0 && w.linkRand.Float64() < l.faults.Drop {
		l.lost++
		w.note("lost", fmt.Sprintf("%s %T", l, content))
		return
	}
	at := time.Now()
	if d := l.faults.Delay; d > 0 {
		at = at.Add(time.Duration(w.linkRand.Int64N(int64(d))))
	}
	if at.Before(l.last) {
		at = l.last
	}
	l.last = at
	f := &frame{l, content, l.epoch}
	l.queue = append(l.queue, f)
	w.events.push(&event{at: at, frame: f})
	if !at.After(time.Now()) {
		w.ready = append(w.ready, w.takeEvent(f).choice())
	}
}

// takeEvent takes the event of a frame that is due at once out again.
func (w *World) takeEvent(f *frame) *event {
	for i, e := range w.events {
		if e.frame == f {
			w.events = append(w.events[:i], w.events[i+1:]...)
			return e
		}
	}
	return nil
}

// arrive delivers the frame at the head of the link: whichever of its frames was chosen,
// the order stays.
func (f *frame) arrive() {
	l := f.link
	if f.epoch != l.epoch || len(l.queue) == 0 {
		return // it was lost
	}
	head := l.queue[0]
	l.queue = l.queue[1:]
	if l.arrive == nil {
		l.lost++
		return
	}
	l.arrive(head.content)
}

// Partition cuts all links between nodes of different groups, in both directions. A node
// that is in no group stays connected. Links that do not exist yet are created.
func (w *World) Partition(groups ...[]*Node) {
	for i, group := range groups {
		for j, other := range groups {
			if i == j {
				continue
			}
			for _, a := range group {
				for _, b := range other {
					w.Link(a, b).Cut()
				}
			}
		}
	}
}

// Proxy spawns an actor on the link's first node that forwards its messages over the
// link to an actor on the second node. The frames are the messages themselves. A link
// carries the messages of one proxy.
func Proxy[M any](l *Link, name string, to actor.Ref[M]) actor.Ref[M] {
	l.Receive(func(content any) { to.Tell(l.w.ctx, content.(M)) })
	return actor.SpawnFunc(l.from.sys, name, func(_ *actor.Context[M], m M) error {
		l.Send(m)
		return nil
	})
}
