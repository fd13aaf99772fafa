package sim

import (
	"context"
	"fmt"
	"slices"

	"github.com/greenroom-go/greenroom/actor"
)

// Sometimes returns true with probability p: a point in a handler or in the test at
// which something may go wrong. A true result is a fault of the run: it is replayed, and
// shrinking removes it if the failure does not need it.
func (w *World) Sometimes(p float64) bool {
	if !w.happens(p) {
		return false
	}
	w.note("fault", "Sometimes is true")
	return true
}

// happens is Sometimes for whoever says in the trace what it is that goes wrong.
func (w *World) happens(p float64) bool {
	w.sometimes++
	if w.follow != nil {
		return w.planned(w.sometimes, faultSometimes)
	}
	if w.over || w.faultRand.Float64() >= p {
		return false
	}
	w.strikes(fault{at: w.sometimes, kind: faultSometimes})
	return true
}

// Moment says when a [World.Panic] happens in the handling of a message.
type Moment uint8

const (
	// Before the handler: the message has had no effect.
	Before Moment = iota
	// After the handler has returned: what it has done and sent stays, and so does its
	// answer.
	After
)

// Panic makes the nth message that an actor handles from now on, counted from 1, end in
// a panic. The test chooses this point, so it is part of the script and happens in each
// run, whatever [Options.Faults] say. For a random point, take n from [World.Rand]; for
// a point inside a handler, use [World.Sometimes] there. If the actor handles fewer
// messages, nothing happens. A PID of another world or an n less than 1 fails the run.
func (w *World) Panic(pid actor.PID, n int, when Moment) {
	if n < 1 || !slices.ContainsFunc(w.nodes, func(o *Node) bool { return o.name == pid.Node() }) {
		w.fail("test", fmt.Sprintf("Panic(%s, %d): want an actor of this world, and a message counted from 1", pid, n))
	}
	w.chosen = append(w.chosen, &point{pid, n, when})
}

// point is a panic that the test has chosen.
type point struct {
	pid  actor.PID
	left int // messages until it strikes
	when Moment
}

// strikesNow counts a message of an actor, and takes out the panic whose turn it is.
func (w *World) strikesNow(pid actor.PID) (kind faultKind) {
	w.chosen = slices.DeleteFunc(w.chosen, func(p *point) bool {
		if p.pid != pid {
			return false
		}
		if p.left--; p.left > 0 || kind != 0 {
			return false
		}
		if kind = faultPanic; p.when == After {
			kind = faultPanicLate
		}
		return true
	})
	return kind
}

// planned takes a fault out of the schedule that is followed.
func (w *World) planned(at int, kind faultKind) bool {
	for i, f := range w.struck {
		if f.at == at && f.kind == kind {
			w.struck = slices.Delete(w.struck, i, i+1)
			return true
		}
	}
	return false
}

// strikes notes a fault that happens.
func (w *World) strikes(f fault) {
	if w.follow == nil {
		w.struck = append(w.struck, f)
	}
}

// strike lets something go wrong before the next step. It reports true when that has taken
// the step's place.
func (w *World) strike() bool {
	if w.follow != nil {
		return w.strikeAsPlanned()
	}
	f := &w.faults
	if !f.has() {
		return false
	}
	r := w.faultRand
	if f.Panic > 0 && r.Float64() < f.Panic {
		w.armed = faultPanic
		if r.IntN(2) == 0 {
			w.armed = faultPanicLate
		}
	}
	if f.Stop > 0 && r.Float64() < f.Stop {
		w.end1(fault{w.steps, faultStop, r.Uint64()})
	}
	if f.Kill > 0 && r.Float64() < f.Kill {
		w.end1(fault{w.steps, faultKill, r.Uint64()})
	}
	if f.Lag > 0 && len(w.ready) > 0 && r.Float64() < f.Lag {
		return w.lag()
	}
	return false
}

// strikeAsPlanned is strike for a schedule that is followed.
func (w *World) strikeAsPlanned() bool {
	for i, f := range w.struck {
		if w.healed || f.at != w.steps || f.kind == faultSometimes {
			continue
		}
		w.struck = slices.Delete(w.struck, i, i+1)
		switch f.kind {
		case faultPanic, faultPanicLate:
			w.armed = f.kind
		case faultStop, faultKill:
			w.end1(f)
		default:
			return w.lag()
		}
		return w.strikeAsPlanned()
	}
	return false
}

// lag lets time pass although there is something to do.
func (w *World) lag() bool {
	next, ok := w.nextTimer()
	if !ok {
		return false
	}
	w.strikes(fault{at: w.steps, kind: faultLag})
	w.note("lag", "time passes although there is something to do")
	w.sleepUntil(next, nil)
	w.fire()
	return true
}

// end1 ends one of the actors that have shown up.
func (w *World) end1(f fault) {
	who, ok := w.actors.choose(f.draw, w.faults.Of)
	if !ok {
		return
	}
	if !who.node.driven.Stop(who.pid, f.kind == faultKill) {
		w.actors.drop(who)
		return
	}
	w.strikes(f)
	w.note(map[faultKind]string{faultStop: "stop", faultKill: "kill"}[f.kind], who.pid.String())
	w.gather()
}

// panicAround panics in a handler when the test or the run says so.
func (w *World) panicAround(_ context.Context, r actor.Reception, next func() error) error {
	if w.over {
		return next()
	}
	kind, who := w.strikesNow(r.To), "test"
	if kind == 0 {
		if kind = w.armed; kind == 0 || w.actors.spared[r.To] || w.faults.Of != nil && !w.faults.Of(r.To) {
			return next()
		}
		who, w.armed = "schedule", 0
		w.strikes(fault{at: w.steps - 1, kind: kind})
	}
	w.note("panic", r.To.String())
	if kind == faultPanicLate {
		if err := next(); err != nil {
			return err
		}
	}
	panic(fmt.Sprintf("sim: the panic that the %s has for %s", who, r.To))
}

// actorList is the actors that have shown up, for faults.
type actorList struct {
	seen   map[uint64]bool
	list   []knownActor
	spared map[actor.PID]bool
}

type knownActor struct {
	key  uint64
	node *Node
	pid  actor.PID
}

func (l *actorList) note(ready []Choice) {
	for i := range ready {
		c := &ready[i]
		if c.kind != chooseStep || l.seen[c.key] || c.step.PID().Path() == "/" {
			continue
		}
		if l.seen == nil {
			l.seen = make(map[uint64]bool)
		}
		l.seen[c.key] = true
		l.list = append(l.list, knownActor{c.key, c.node, c.step.PID()})
	}
}

func (l *actorList) spare(pid actor.PID) {
	if l.spared == nil {
		l.spared = make(map[actor.PID]bool)
	}
	l.spared[pid] = true
}

// choose draws one of those whom faults concern.
func (l *actorList) choose(draw uint64, of func(actor.PID) bool) (who knownActor, ok bool) {
	var list []knownActor
	for _, a := range l.list {
		if !a.node.crashed && !l.spared[a.pid] && (of == nil || of(a.pid)) {
			list = append(list, a)
		}
	}
	if len(list) == 0 {
		return who, false
	}
	return list[draw%uint64(len(list))], true
}

func (l *actorList) drop(who knownActor) {
	l.list = slices.DeleteFunc(l.list, func(a knownActor) bool { return a.key == who.key })
}
