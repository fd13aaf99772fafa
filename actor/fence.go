package actor

import (
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
// before or after it with its hands on the actor. The order to stop was there before the
// look at the worker's stack; so if the stack shows the handler, the worker will see, first
// thing after it, that it is fenced.

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
func (c *core) ghost() bool {
	if c == nil || !c.signaled.Load() {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ext.fenced
}

// fence takes c away from w. It reports false when w is not in a handler of it.
func (s *scheduler) fence(w *worker, c *core) bool {
	if !inHandler(stackOf(w.stage.Load())) || w.current.Load() != c {
		return false
	}
	w.fenced.Store(true)
	w.away.Store(true)
	info := c.info()
	s.mu.Lock()
	if s.leftBehind == nil {
		s.leftBehind = make(map[*worker]Info)
	}
	s.leftBehind[w] = info
	crew := slices.DeleteFunc(slices.Clone(*s.crew.Load()), func(o *worker) bool { return o == w })
	s.crew.Store(&crew)
	s.active.Add(-1)
	s.handled += w.handled.Load()
	s.mu.Unlock()
	if next := w.place.Swap(nil); next != nil {
		s.lobby.push(next)
	}
	for next := w.queue.pop(); next != nil; next = w.queue.pop() {
		s.lobby.push(next)
	}
	c.impl.usurp()
	s.lobby.push(c)
	s.callIfNeeded()
	return true
}

// inHandler reports whether a stack, as stackOf returns it, is in a handler: what a cell has
// called is not the runtime's own.
func inHandler(stack string) bool {
	inner := ""
	for line := range strings.Lines(stack) {
		if strings.Contains(line, "/actor.(*cell[") {
			return inner != "" && !strings.Contains(inner, "\truntime.") && !strings.Contains(inner, "\tsync") &&
				(!strings.Contains(inner, "/greenroom/actor.") || strings.Contains(inner, "/actor.funcActor["))
		}
		inner = line
	}
	return false
}

// usurp settles what the handler left behind that the actor was taken away from.
func (c *cell[M]) usurp() {
	var under *envelope[M]
	c.endedTurn() // the one that was under way will not do it
	c.mu.Lock()
	c.ext.fenced = true
	if s := c.scene; s != nil {
		if i := s.head.Load(); i > 0 {
			e := s.batch[i-1]
			under = &e
		}
		s.handled += uint64(int(s.head.Load()) - s.clear)
		s.clear = int(s.head.Load()) // without clearing what the handler may still look at
		c.account(s, nil)
	}
	c.mu.Unlock()
	if under == nil {
		return
	}
	if ask, ok := askIn(under.extra); ok {
		ask.reject(ErrStopped, nil)
	}
}
