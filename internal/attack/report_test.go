package attack_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/greenroom-go/greenroom/actor"
)

// closing is a shutdown.
type closing struct {
	quiet  bool  // nobody outside sends
	began  int64 // the moment
	ticks  int64 // when it began
	clock  time.Time
	before uint64 // dead letters
	report actor.Report
	err    error
}

// sendLast fills the mailboxes once more, with letters that do nothing but to take their time.
func (w *world) sendLast(r *rand.Rand) {
	w.budget.Store(0)
	w.last.Store(true) // from now on nobody begins to fail or to stop
	if !w.await("failures and stops to end", endOfRound, w.settled) {
		return
	}
	for range r.IntN(200) {
		n := w.pick(nil, r)
		l := w.newLetter(nil, n, nil)
		l.last, l.seed = true, r.Uint64()
		n.ref.Tell(context.Background(), mail{l: l})
	}
	if r.IntN(2) == 0 {
		<-time.After(time.Duration(r.IntN(2000)) * time.Microsecond)
	}
}

// lost returns the number of dead letters, except those that a newer message has replaced.
func lost(s actor.Stats) uint64 {
	return s.DeadLetters - s.DeadLettersByReason[actor.Conflated.String()]
}

// judge compares the report with what the program knows. It is called at once when Shutdown has returned.
func (w *world) judge(c *closing) {
	now, stats := w.moment.Add(1), w.sys.Stats()
	report, err := c.report, c.err
	late := int64(time.Since(c.clock)/tick) > 2*(w.control.ticks.Load()-c.ticks)+10
	switch {
	case w.killing.Load() && err != nil && !errors.Is(err, context.DeadlineExceeded):
		w.Report("shutdown: the error is %v", err)
	case !w.killing.Load() && err != nil:
		w.Report("shutdown: %v: %+v", err, report)
	case err == nil && len(report.Unfinished) > 0:
		w.Report("shutdown: no error, and unfinished are %+v", report.Unfinished)
	}
	if report.Took > time.Since(c.clock) {
		w.Report("shutdown: the report says that it took %v, of %v", report.Took, time.Since(c.clock))
	}
	clings := w.judgeUnfinished(c, now, late)
	dead := lost(stats) - c.before
	exact := c.quiet && !w.restless.Load() && !clings && len(report.Unfinished) == 0
	if report.DeadLetters > dead || exact && report.DeadLetters != dead {
		w.Report("shutdown: the report has %d dead letters, of %d: %v", report.DeadLetters, dead, err)
	}
	if c.quiet && !clings && len(report.Unfinished) == 0 && stats.Timers > 0 {
		w.Report("shutdown: %d timers are left", stats.Timers)
	}
	if c.quiet && len(report.Unfinished) == 0 && stats.Actors > 0 {
		w.Report("shutdown: nobody is unfinished, and %d actors live", stats.Actors)
	}
}

// judgeUnfinished compares those that the report names with the handlers that the program knows to run. It reports
// whether one has been left behind.
func (w *world) judgeUnfinished(c *closing, now int64, late bool) (clings bool) {
	named := make(map[string]int)
	for i, info := range c.report.Unfinished {
		if _, twice := named[info.PID]; twice {
			w.Report("shutdown: %s is named twice: %+v", info.PID, c.report.Unfinished)
		}
		named[info.PID] = i
	}
	nodes := make(map[string]*node)
	for _, n := range w.all() {
		nodes[n.ref.PID().String()] = n
		if at, ok := named[n.ref.PID().String()]; ok && n.parent != nil && !n.ended() {
			if above, ok := named[n.parent.ref.PID().String()]; ok && above < at {
				w.Report("shutdown: %s is named before its child %s", n.parent, n)
			}
		}
	}
	w.mu.Lock()
	all := w.clingers
	w.mu.Unlock()
	for _, k := range all {
		w.mu.Lock()
		running := k.left == 0 || k.left > now
		w.mu.Unlock()
		if k.left == 0 || k.left > c.began {
			clings = true
		}
		if _, ok := named[k.n.ref.PID().String()]; running && !ok && k.entered < c.began && !k.killed {
			w.Report("shutdown: %s clings and is not named: %+v", k.n, c.report.Unfinished)
		}
	}
	for pid := range named {
		busy := func(n *node) bool { return n.inside.Load() != 0 || n.left.Load() > c.began }
		if n := nodes[pid]; n != nil && !late && !busy(n) && !n.anyChild(busy) {
			w.Report("shutdown: %s is named, and nothing runs there", n)
		}
	}
	return clings
}

// judgeEnds checks, when all have ended in good time, how the actors and their incarnations have ended.
func (w *world) judgeEnds() {
	w.mu.Lock()
	stops := w.stops
	w.mu.Unlock()
	for _, n := range w.all() {
		events := stops[n.ref.PID()]
		if len(events) != 1 {
			w.Report("end: %s has ended %d times: %v", n, len(events), events)
		}
		if n.mayBeKilled() {
			continue
		}
		for _, e := range events {
			if e.Reason == actor.Killed {
				w.Report("end: %s was killed, which nobody has told it", n)
			}
		}
		n.mu.Lock()
		for i, p := range n.lives {
			if p.ready && p.terminated != 1 {
				w.Report("end: Terminate of %s has run %d times in incarnation %d", n, p.terminated, i+1)
			}
		}
		n.mu.Unlock()
	}
	if w.groups { // a Temporary actor is stopped with its siblings
		return
	}
	for _, l := range w.letters() {
		if why, _ := l.reason.Load().(actor.Reason); l.last && !l.to.mayBeKilled() && (why == actor.Stopped || why == actor.Killed) {
			w.Report("shutdown: %s was in a mailbox and is not handled: %s", l, why)
		}
	}
}

// hearEnd is told of the end of all actors.
func (w *world) hearEnd(_ *actor.Context[actor.ActorStopped], e actor.ActorStopped) error {
	w.heard.Add(1)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stops[e.PID] = append(w.stops[e.PID], e)
	return nil
}
