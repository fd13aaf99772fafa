package attack_test

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/actor"
)

// control counts ticks on a goroutine of its own. A machine that is busy delays it as it does the actors.
type control struct {
	ticks atomic.Int64
	quit  chan struct{}
	over  chan struct{}
}

const (
	tick       = 5 * time.Millisecond
	patience   = 1000 // ticks that one wait may last, in a round whose waits take milliseconds
	endOfRound = 4 * patience
)

func startControl() *control {
	c := &control{quit: make(chan struct{}), over: make(chan struct{})}
	go func() {
		defer close(c.over)
		for t := time.NewTimer(tick); ; t.Reset(tick) {
			select {
			case <-t.C:
				c.ticks.Add(1)
			case <-c.quit:
				return
			}
		}
	}()
	return c
}

func (c *control) stop() {
	close(c.quit)
	<-c.over
}

// until reports whether done becomes true within that many ticks.
func (c *control) until(ticks int64, done func() bool) bool {
	for began := c.ticks.Load(); !done(); <-time.After(tick) {
		if c.ticks.Load()-began > ticks {
			return false
		}
	}
	return true
}

// edge says that an actor, or nobody for an outsider, waits. It is there before the wait begins and until it has ended.
type edge struct {
	kind  string
	from  *node
	to    *node
	l     *letter // what it waits for, also where that is forwarded to
	since int64   // ticks
	begin int64
	end   atomic.Int64 // 0 while it lasts
}

// isLeaf reports whether it waits by itself, not for what happens above it on its stack.
func (e *edge) isLeaf() bool { return e.kind != "tell" && e.kind != "spawn" }

// overlaps reports whether the edge was there at any time since then.
func (e *edge) overlaps(begin int64) bool {
	end := e.end.Load()
	return end == 0 || end >= begin
}

// edges are those of one node.
type edges struct {
	mu  sync.Mutex
	all []*edge
}

func (w *world) begin(from, to *node, kind string, l *letter) *edge {
	e := &edge{kind: kind, from: from, to: to, l: l, since: w.control.ticks.Load(), begin: w.moment.Add(1)}
	at := &w.outside
	if from != nil {
		at = &from.edges
		if kind == "room" || kind == "spawn" || kind == "tell" || kind == "ask with a derived context" || to != nil && (to.inline || to.waitsRoom) {
			from.exceeds.Store(true)
		}
	}
	at.mu.Lock()
	defer at.mu.Unlock()
	if len(at.all) > 64 { // what has ended long ago is part of no cycle
		kept := at.all[:0]
		for _, e := range at.all {
			if end := e.end.Load(); end == 0 || w.moment.Load()-end < 100_000 {
				kept = append(kept, e)
			}
		}
		at.all = kept
	}
	at.all = append(at.all, e)
	return e
}

func (w *world) end(e *edge) { e.end.Store(w.moment.Add(1)) }

// mayBeCycle reports whether there can have been a cycle while e has lasted: whether the edges that there were lead from
// whom it waits for back to who waits.
func (w *world) mayBeCycle(e *edge) bool {
	seen := make(map[*node]bool)
	var visit func(n *node) bool
	reach := func(e *edge) bool {
		if visit(e.to) || e.kind == "end" && e.to != nil && e.to.anyChild(visit) {
			return true
		}
		return e.l != nil && e.l.anyForward(visit)
	}
	visit = func(n *node) bool {
		if n == nil || seen[n] {
			return false
		}
		if n == e.from {
			return true
		}
		seen[n] = true
		n.edges.mu.Lock()
		all := slices.Clone(n.edges.all)
		n.edges.mu.Unlock()
		for _, next := range all {
			if next.overlaps(e.begin) && reach(next) {
				return true
			}
		}
		return w.faults > 0 && visit(n.parent) // who has failed waits for its supervisor
	}
	return reach(e)
}

// stalled returns what waits for too long.
func (w *world) stalled() (found []string) {
	now := w.control.ticks.Load()
	look := func(at *edges) {
		at.mu.Lock()
		defer at.mu.Unlock()
		for _, e := range at.all {
			if e.end.Load() == 0 && e.isLeaf() && now-e.since > patience {
				found = append(found, fmt.Sprintf("stall: %s waits for %s since %d ticks: %s %s", e.from, e.to, now-e.since, e.kind, e.l))
			}
		}
	}
	look(&w.outside)
	for _, n := range w.all() {
		if told := n.toldAt.Load(); told > 0 && now-told > patience && !n.ended() {
			found = append(found, fmt.Sprintf("stall: %s was told to stop within milliseconds %d ticks ago", n, now-told))
		}
	}
	for _, n := range w.all() {
		look(&n.edges)
	}
	return found
}

// evidence describes the system as it stands.
func (w *world) evidence() (lines []string) {
	for _, n := range w.all() {
		n.edges.mu.Lock()
		for _, e := range n.edges.all {
			if e.end.Load() == 0 {
				lines = append(lines, fmt.Sprintf("  open: %s waits for %s: %s %s", n, e.to, e.kind, e.l))
			}
		}
		n.edges.mu.Unlock()
	}
	for info := range w.sys.Actors() {
		if info.Activity != "idle" || info.Mailbox > 0 || info.State != "running" {
			lines = append(lines, fmt.Sprintf("  actor: %+v", info))
		}
	}
	lines = append(lines, fmt.Sprintf("  stats: %+v", w.sys.Stats()))
	buf := make([]byte, 1<<20)
	return append(lines, string(buf[:runtime.Stack(buf, true)]))
}

// balance compares the letters with the books of the system, when nobody sends any more. clean says that all actors
// have ended in good time, before the one that is told of dead letters.
func (w *world) balance(clean bool) {
	st := w.sys.Stats()
	var handled, dead, lost, unsure uint64
	var missing []string
	for _, l := range w.letters() {
		copies := max(1, int64(l.copies))
		final := l.entries.Load() - l.stashes.Load() - l.forwards.Load()
		handled += uint64(l.entries.Load() - l.stashes.Load())
		dead += uint64(l.dead.Load())
		got := final + l.dead.Load()
		switch {
		case l.behind && l.entries.Load() > 0:
			w.Report("left behind: %s", l)
		case got > copies, final < 0:
			w.Report("%s: handled %d times and %d dead letters, of %d", l, final, l.dead.Load(), copies)
		case l.refused.Load() && got > 0:
			w.Report("%s: refused, and handled %d times and %d dead letters", l, final, l.dead.Load())
		case l.refused.Load():
		case l.unsure.Load():
			unsure += uint64(copies - got)
		case got < copies:
			lost += uint64(copies - got)
			missing = append(missing, l.String())
		}
	}
	unseen := st.DeadLetters - dead
	switch {
	case dead > st.DeadLetters:
		w.Report("%d dead letters in Stats, and %d events", st.DeadLetters, dead)
	case unseen < lost || unseen > lost+unsure:
		w.Report("books: of the letters %d were not handled, and perhaps %d more; Stats has %d other dead letters: %v; not handled are %s", lost, unsure, unseen, st.DeadLettersByReason, strings.Join(missing, "; "))
	case clean && unseen != st.DeadLettersByReason["conflated"]:
		w.Report("books: %d dead letters without an event, %d conflated: %v", unseen, st.DeadLettersByReason["conflated"], st.DeadLettersByReason)
	}
	least := handled + w.notes.Load() + w.heard.Load()
	if most := handled + w.orders.Load() + w.heard.Load(); clean && (st.Handled < least || st.Handled > most) {
		w.Report("books: handlers of %d letters, %d of %d notes and %d events have run, Stats has %d handled", handled, w.notes.Load(), w.orders.Load(), w.heard.Load(), st.Handled)
	}
	w.total.add(st, handled, dead)
}

// tally is what the rounds have been through.
type tally struct {
	handled, dead, restarts, failures, deadlocks, tooMany, timeouts, asks, stops, downs, behind uint64
}

func (y *tally) add(st actor.Stats, handled, dead uint64) {
	y.handled += handled
	y.dead += dead
	y.restarts += st.Restarts
	y.failures += st.Failures
}

func (y *tally) String() string {
	return fmt.Sprintf("%d letters handled, %d dead; %d answers, %d deadlocks, %d waits refused, %d timeouts; %d failures, %d restarts, %d stops, %d downs, %d handlers left behind",
		y.handled, y.dead, y.asks, y.deadlocks, y.tooMany, y.timeouts, y.failures, y.restarts, y.stops, y.downs, y.behind)
}

// complete checks that the programs do what they are for.
func (y *tally) complete(t *testing.T, all bool) {
	t.Helper()
	if all && (y.dead == 0 || y.restarts == 0 || y.deadlocks == 0 || y.asks == 0 || y.downs == 0) {
		t.Errorf("the programs do not reach all: %s", y)
	}
}
