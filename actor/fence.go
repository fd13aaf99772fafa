package actor

import (
	"context"
	"runtime"
	"slices"
	"strings"
	"time"
)

// Killing an actor whose handler does not return: the actor is taken away from the worker
// that has it on stage. It ends at once, on another worker; its name is free, its watchers
// are told. The goroutine with the handler cannot be ended by anybody. It is left behind, and
// when the handler returns, if ever, the goroutine ends without touching the actor again.
//
// The one thing to be sure of is that the worker is inside of the handler, and not just
// before or after it with its hands on the actor. So the monitor first says that it is about
// to decide, and then looks at the worker's stack. If that shows the handler, then whenever
// the handler returns the worker finds the decision under way, and waits for it, or made
// (lost): it looks first thing after each callback of the user's. Whoever carries on with
// the actor calls nothing of the user's any more, since a killed actor has no Terminate: so
// who comes back from a callback of a fenced actor is always the one who was left behind.

// fenceAfter is how long a killed actor gets to finish its message.
const fenceAfter = 100 * time.Millisecond

// toBeKilled reports whether c has been told to end without delay.
func (c *core) toBeKilled() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ext != nil && c.ext.killed && c.phase != stopped
}

// ghost reports whether c was taken away from a handler that has not returned: what that
// does must have no effect any more.
func (c *core) ghost() bool { return c != nil && c.flags.Load()&fenced != 0 }

// back is called first thing after a callback of the user's. It does not return when the
// actor was taken away from it.
func (c *core) back() {
	if c.flags.Load() > signaled && c.lost() {
		runtime.Goexit()
	}
}

// lost reports whether the actor was taken away from the callback that has just ended.
func (c *core) lost() bool {
	for c.flags.Load()&fencing != 0 {
		runtime.Gosched()
	}
	return c.ghost()
}

// lost reports whether the worker was left behind with the actor that it has on stage.
func (w *worker) lost() bool {
	if c := w.current.Load(); c != nil {
		c.lost()
	}
	return w.fenced.Load()
}

// fence takes c away from w. It reports false when w is not in a handler of it.
func (s *scheduler) fence(w *worker, c *core) bool {
	if c.othersWait() {
		return false
	}
	c.flags.Or(fencing)
	if !inHandler(stackOf(w.goroutine.Load())) || w.current.Load() != c || c.othersWait() {
		c.flags.And(^fencing)
		return false
	}
	w.fenced.Store(true)
	w.away.Store(true)
	info := c.info()
	s.mu.Lock()
	if s.abandoned == nil {
		s.abandoned = make(map[*worker]Info)
	}
	s.abandoned[w] = info
	workers := slices.DeleteFunc(slices.Clone(*s.workers.Load()), func(o *worker) bool { return o == w })
	s.workers.Store(&workers)
	if !w.out.Swap(false) && !w.covered.Swap(false) {
		s.active.Add(-1)
	}
	s.handled += w.handled.Load() + w.done
	s.mu.Unlock()
	if next := w.runnext.Swap(nil); next != nil {
		s.global.push(next)
	}
	w.handOver()
	c.impl().abandon()
	s.global.push(c)
	s.wakeIfNeeded()
	return true
}

// inHandler reports whether a stack, as stackOf returns it, is in a callback of the user's,
// and there not in a function of the runtime that has its hands on the actor.
func inHandler(stack string) bool {
	caller, innermost := "", true
	for line := range strings.Lines(stack) {
		if strings.HasPrefix(line, "\t") {
			continue // where that is, not what
		}
		own := strings.Contains(line, "/greenroom/actor.")
		switch {
		case own && strings.Contains(line, "/actor.(*cell["):
			return caller != "" && !strings.Contains(caller, "/greenroom/actor.") && !isRuntimes(caller)
		case own && passesOn(line):
			continue
		case own && innermost && !mayWait(line):
			return false
		}
		innermost = innermost && !own
		caller = line
	}
	return false
}

// passesOn reports whether the line's function of this package only passes the call on to the
// user's.
func passesOn(line string) bool {
	for _, f := range []string{
		"/actor.funcActor[", "/actor.inspect(", "/actor.inspect+", "/actor.(*supervision).decision",
		"/actor.(*result[", "/actor.Pipe[...].func", "/actor.AskThen[...].func",
	} {
		if strings.Contains(line, f) {
			return true
		}
	}
	return false
}

// isRuntimes reports whether a cell has called that line's function for itself.
func isRuntimes(line string) bool {
	for _, pkg := range []string{"runtime.", "sync", "log/slog.", "errors.", "fmt."} {
		if strings.HasPrefix(line, pkg) || strings.Contains(line, "\t"+pkg) {
			return true
		}
	}
	return false
}

// mayWait reports whether the line's function of this package, called in a handler, waits
// there without touching the actor.
func mayWait(line string) bool {
	for _, f := range []string{"/actor.Blocking[", "/actor.tellPatiently[", "/actor.(*pause).await"} {
		if strings.Contains(line, f) {
			return true
		}
	}
	return false
}

// forget lets go of what the handler that was left behind could still look at: it has ended.
func (c *cell[M]) forget() {
	c.mu.Lock()
	if c.phase == stopped {
		c.actor, c.newActor, c.mailbox = nil, nil, nil
	}
	c.mu.Unlock()
}

// abandon settles what the handler left behind that the actor was taken away from.
func (c *cell[M]) abandon() {
	var under *envelope[M]
	var endContext context.CancelFunc
	c.endedTurn() // the one that was under way will not do it
	c.mu.Lock()
	c.ext.signals = append(c.ext.signals, signal{kind: sigStop, mode: stopKill}) // the handler may have been one for the order
	c.flags.Or(signaled | fenced)
	c.flags.And(^fencing)
	if s := c.mailbox; s != nil {
		if s.resumed != nil {
			e := *s.resumed
			under = &e
		} else if i := s.head.Load(); i > 0 {
			e := s.batch[i-1]
			under = &e
		}
		s.handled += uint64(int(s.head.Load()) - s.clear)
		s.clear = int(s.head.Load()) // without clearing what the handler may still look at
		c.account(s, nil)
		endContext, s.mergedOf = s.mergedOf, nil
	}
	c.mu.Unlock()
	if endContext != nil {
		endContext()
	}
	if under == nil {
		return
	}
	if ask, ok := askIn(under.with); ok {
		ask.reject(ErrStopped, nil)
	}
}
