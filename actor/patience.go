package actor

import (
	"fmt"
	"time"
)

// StopWithin limits how long the actor may take to end. If it was told to stop, by Stop or Drain or
// by a parent that ends or is restarted, and has not ended after d, it is killed as by [Ref.Kill],
// with its children. An actor that stops itself, or is stopped to be restarted with others of its
// group, has unlimited time, and so has any actor without this option. A duration of less than a
// millisecond panics.
func StopWithin(d time.Duration) SpawnOption {
	required(d >= time.Millisecond, fmt.Sprintf("StopWithin(%v): the duration must be 1 ms or more", d))
	return spawnOption(func(c *spawnConfig) { c.stopWithin = d })
}

// StopLast is for an actor that others depend on until they have ended. The actor counts as started
// before its siblings, also before those that were started earlier: its parent, or Shutdown for an
// actor at the root, stops it after them. Of several such siblings, the one that was started last is
// stopped last.
func StopLast() SpawnOption { return spawnOption(func(c *spawnConfig) { c.stopLast = true }) }

// patience is what an actor has that must end within a time.
type patience struct {
	c     *core
	limit time.Duration
	node  timerNode
	told  bool // the timer is set, or about to be; guarded by the actor's mu
}

// ring implements ringer.
func (p *patience) ring() { p.c.signal(signal{kind: sigStop, mode: stopKill}) }

// limitStop sets the timer of an actor that was told to stop.
func (c *core) limitStop() {
	c.mu.Lock()
	var p *patience
	if c.ext != nil && c.ext.patience != nil && !c.ext.patience.told && c.phase != stopped {
		p = c.ext.patience
		p.told = true
	}
	c.mu.Unlock()
	if p == nil {
		return
	}
	clock := c.sys().clock
	clock.at(&p.node, clock.in(p.limit), p)
	if c.hasStopped() { // meanwhile
		clock.cancel(&p.node)
	}
}

// endLimit cancels the timer. ext may be nil.
func (c *core) endLimit(ext *extension) {
	if ext != nil && ext.patience != nil {
		c.sys().clock.cancel(&ext.patience.node)
	}
}
