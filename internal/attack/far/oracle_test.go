package far_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"github.com/greenroom-go/greenroom/actor"
)

// hearNear is told of the events of the node that is near.
func (w *world) hearNear(_ *actor.Context[actor.Event], e actor.Event) error {
	switch e := e.(type) {
	case actor.DeadLetter:
		if m, ok := e.Message.(mail); ok {
			l := w.book.of(m)
			l.near.Add(1)
			l.lost.Store(e.Reason == actor.NoConnection)
		}
	case actor.NodeDown:
		w.counts.losses.Add(1)
		w.counts.dropped.Add(e.Dropped)
		w.counts.unknown.Add(e.Unknown)
	case actor.ActorStopped:
		w.hearPlayer(e)
	}
	return nil
}

// hearPlayer judges the end of a player.
func (w *world) hearPlayer(e actor.ActorStopped) {
	if errors.Is(e.Err, actor.ErrLinked) {
		w.counts.exits.Add(1)
	}
	w.mu.Lock()
	players := w.players
	w.mu.Unlock()
	for _, p := range players {
		if p.ref.PID() == e.PID && (e.Reason == actor.Killed || e.Reason == actor.Failed && !p.mayFail.Load()) {
			w.Report("end: player %d has ended as %s: %v", p.number, e.Reason, e.Err)
		}
	}
}

// hearFar is told of the events of an incarnation of the node that is far.
func (w *world) hearFar(n *node, e actor.Event) {
	switch e := e.(type) {
	case actor.DeadLetter:
		n.heard.Add(1)
		if m, ok := e.Message.(mail); ok {
			w.book.of(m).far.Add(1)
		}
	case actor.ActorStopped:
		for _, k := range n.workers {
			if k.ref.PID() == e.PID {
				k.ended(e.Reason)
			}
		}
	}
}

// missing returns some of what has yet to come.
func (w *world) missing() (found []string) {
	if n := w.waits.Load(); n > 0 {
		found = append(found, fmt.Sprintf("  open: %d waits", n))
	}
	for _, l := range w.book.All() {
		if l.lasts() && len(found) < 10 {
			found = append(found, "  open: "+l.String())
		}
	}
	found = append(found, w.nowhere()...)
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, x := range w.notices {
		if x.open() && len(found) < 10 {
			found = append(found, "  open: "+x.String())
		}
	}
	return found
}

// nowhere returns the letters to a node of which nothing is known, if they are more than its dead letters without an event.
func (w *world) nowhere() (found []string) {
	lost := make(map[*node][]string)
	for _, l := range w.book.All() {
		if l.isNowhere() {
			lost[l.to] = append(lost[l.to], "  nowhere: "+l.String())
		}
	}
	for n, letters := range lost {
		if uint64(len(letters)) > n.unheard() {
			found = append(found, letters...)
		}
	}
	return found
}

// bonds returns the actors that watch or are watched or linked, when one side has ended or the nodes have lost each other.
func (w *world) bonds() (found []string) {
	look := func(sys *actor.System, ref actor.Ref[any]) {
		d, err := sys.Detail(context.Background(), ref.PID())
		if err == nil && (d.Watchers > 0 || len(d.Watches) > 0 || len(d.Links) > 0) {
			found = append(found, fmt.Sprintf("  bound: %s is linked with %v, watches %v, and has %d watchers", ref, d.Links, d.Watches, d.Watchers))
		}
	}
	for _, p := range w.players {
		look(w.near.sys, p.ref)
	}
	for _, n := range w.farNodes() {
		for _, k := range n.workers {
			look(n.sys, k.ref)
		}
	}
	return found
}

// judgeLinks checks, when the workers have ended or are lost, that who was linked has failed, unless the other had ended
// normally before.
func (w *world) judgeLinks() {
	for _, p := range w.players {
		why := p.to.reason()
		if p.linked.Load() && !p.unlinked.Load() && p.lives() && (p.to.lives() || why == actor.Failed || why == actor.Killed) {
			w.Report("link: player %d lives, and was linked with %s, which has ended as %v", p.number, p.to.ref, why)
		}
	}
}

// areLossesTold compares what was said of each lost incarnation with what is counted of the sessions.
func (w *world) areLossesTold() bool {
	peer, c := w.peer(), &w.counts
	return c.losses.Load() == peer.Lost && c.dropped.Load() == peer.Dropped && c.unknown.Load() == peer.Unknown
}

// peer returns what the node that is near counts of the one that is far.
func (w *world) peer() actor.Peer {
	for _, p := range w.near.node.Peers() {
		if p.Node == far {
			return p
		}
	}
	return actor.Peer{}
}

// judge compares the letters with the books of the systems, when they have shut down.
func (w *world) judge() {
	var lost, both uint64
	for _, l := range w.book.All() {
		handled, here, there := l.handled.Load(), l.near.Load(), l.far.Load()
		switch {
		case handled+there > 1, here > 1:
			w.Report("doubled: %s", l)
		case l.refused.Load() && handled+here+there > 0:
			w.Report("refused: %s", l)
		case l.lasts():
			w.Report("no end: %s", l)
		}
		if l.lost.Load() {
			lost++
		}
		if here > 0 && handled+there > 0 {
			both++
		}
	}
	for _, l := range w.nowhere() {
		w.Report("%s", l)
	}
	dropped, unknown := w.counts.dropped.Load(), w.counts.unknown.Load()
	if both > unknown || lost < dropped+unknown {
		w.Report("losses: %d letters are dead here and were there, and %d dead by a loss; %d were dropped, %d unknown", both, lost, dropped, unknown)
	}
}

// evidence describes the systems as they stand.
func (w *world) evidence() []string {
	found := append(w.missing(), w.bonds()...)
	for _, n := range w.nodes() {
		found = append(found, fmt.Sprintf("  %s: %+v %+v", n.sys.Name(), n.node.Peers(), n.sys.Stats()))
	}
	c := &w.counts
	found = append(found, fmt.Sprintf("  %d incarnations were lost, %d letters dropped, %d unknown", c.losses.Load(), c.dropped.Load(), c.unknown.Load()))
	buf := make([]byte, 1<<20)
	return append(found, string(buf[:runtime.Stack(buf, true)]))
}
