package actor

import "slices"

// A stack may have several actors on it, each in a callback of the one below: a child in its first Init is on that of
// its parent's callback, an Inline actor on that of whoever sends it a message. When the one at the top waits, with
// whatever context, all of them do. So each knows who is above it, inquiry.stack, where the search for a cycle of waits
// goes on, and who is below it, see below, which leads to the goroutine and the worker.
//
// An actor that is not at the top may be the one that waits: with its context, which the one at the top has.
// For that time it is above that one (lend): what it waits for keeps all from going on.
//
// Only the stack's goroutine changes these links.

// below returns on whose stack c has its turn, directly above it: the parent's while c is in its first Init, unless the
// system has spawned it, the sender's for an Inline actor that a sender runs. It is nil for nobody's.
func (c *core) below() *core {
	if p := c.parent; p != nil && p.parent != nil && c.isStarting() {
		return p
	}
	if c.traits.runsOn() == onSender {
		return c.ext.below.Load()
	}
	return nil
}

// bottom returns the actor whose turn has brought the stack that c is on: c, or one below. c may be nil.
func (c *core) bottom() *core {
	for c != nil {
		next := c.below()
		if next == nil {
			break
		}
		c = next
	}
	return c
}

// isStarting reports whether the first Init has not returned yet.
func (c *core) isStarting() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.phase == starting
}

// isHere reports whether the caller is on the stack that c is on, as it may be with a context derived from c's. Where
// [currentG] does not know it is not. c may be nil.
func (c *core) isHere() bool {
	g := currentG()
	if c = c.bottom(); c == nil || g == 0 {
		return false
	}
	if w := c.worker.Load(); w != nil {
		return w.current.Load() == c && w.isOnStack()
	}
	return c.traits.runsOn() != onPool && c.ext.goroutine.Load() == g
}

// onTop returns the actor at the top of the caller's stack, nil if there is none or that is not known: the sender of a
// message, or who passes it on, whose worker is w, or one above it. Both may be nil.
func onTop(from *core, w *worker) *core {
	switch {
	case w != nil && w.isOnStack():
		from = w.current.Load() // which may pass on what from has sent
	case !from.isHere():
		return nil
	}
	for next := from; next != nil; next = next.above() {
		from = next
	}
	return from
}

// above returns who is directly above c, nil for nobody.
func (c *core) above() *core {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ext == nil {
		return nil
	}
	return c.ext.inquiry.stack
}

// carries reports whether that actor is on the stack at the bottom of which c is. c may be nil.
func (c *core) carries(pid PID) bool {
	var seen []*core
	for next := []*core{c}; len(next) > 0; next = next[1:] {
		at := next[0]
		if at == nil || slices.Contains(seen, at) { // which was lent
			continue
		}
		if at.pid() == pid {
			return true
		}
		seen = append(seen, at)
		at.mu.Lock()
		if at.ext != nil {
			next = append(next, at.ext.inquiry.stacks()...)
		}
		at.mu.Unlock()
	}
	return false
}

// carry puts another actor on the top of the stack that c is on, and returns who is below it there and whether that one
// is about to end; nil if c is the root: that has no handlers, and any number of goroutines.
func (c *core) carry(other *core) (below *core, ending bool) {
	if c == nil || c.parent == nil {
		return nil, false
	}
	for {
		c.mu.Lock()
		ext := c.needExtLocked()
		next := ext.inquiry.stack
		if next == nil {
			ext.inquiry.stack, ending = other, ext.ending()
		}
		c.mu.Unlock()
		if next == nil {
			return c, ending
		}
		c = next
	}
}

// stacks returns who is above on the stack, and who was when a wait of i began.
func (i *inquiry) stacks() (all []*core) {
	for at := i; at != nil; at = at.before {
		if at.stack != nil {
			all = append(all, at.stack)
		}
	}
	return all
}

// cutInit ends the waits of c, if it is in its first Init, and of the children in their first Init
// above it: they keep a callback of an actor that is about to end from returning. The contexts of
// the Inits end as well, and waits that they begin later fail at once.
func (c *core) cutInit() {
	c.mu.Lock()
	if c.phase != starting || c.ext != nil && c.ext.cut {
		c.mu.Unlock()
		return
	}
	c.needExtLocked().cut = true
	x := c.cutShort()
	c.mu.Unlock()
	x.end(c)
}

// cutChildrenAbove ends the waits of the children of c in their first Init above that other actor.
// Who is below them may go on: an Inline actor, or a child of one.
func (c *core) cutChildrenAbove(other *core) {
	other.mu.Lock()
	var above []*core
	if other.ext != nil {
		above = other.ext.inquiry.stacks()
	}
	other.mu.Unlock()
	for _, next := range above {
		if next.isLentBy(other) { // and was there already
			continue
		}
		if next.parent == c {
			next.cutInit()
		}
		c.cutChildrenAbove(next)
	}
}

// mustCutInit reports whether the parent, or the child below in its first Init, was cut short
// before c was on the stack, on which it is about to begin its first Init. ending says that the one
// below is about to end.
func (c *core) mustCutInit(below *core, ending bool) bool {
	if below == nil || below == c.parent {
		return ending
	}
	return c.parent.ending() || ending && below.isStarting()
}

// endInit ends the first phase, when Init has returned. Unless c itself was told to stop, its waits are cut short no
// longer.
func (c *core) endInit() {
	c.mu.Lock()
	c.setPhaseLocked(running)
	if ext := c.ext; ext != nil && ext.cut && !ext.told {
		ext.cut, ext.life = false, nil
	}
	c.mu.Unlock()
}

// putDown takes the actor directly above c from the stack, which was at its top. c may be nil.
func (c *core) putDown() {
	if c == nil {
		return
	}
	c.mu.Lock()
	c.ext.inquiry.stack = nil
	c.mu.Unlock()
}

// resumedBy says that w has resumed the stack that c is at the bottom of: children in their first Init send on the
// worker that their parent is on. REQUIRES: c.ext exists.
func (c *core) resumedBy(w *worker) {
	if i := &c.ext.inquiry; i.stack != nil || i.before != nil {
		c.bringAbove(w)
	}
}

// bringAbove gives w to the children in their first Init above c.
func (c *core) bringAbove(w *worker) {
	c.mu.Lock()
	i := inquiry{}
	if c.ext != nil {
		i = c.ext.inquiry
	}
	c.mu.Unlock()
	for at := &i; at != nil; at = at.before {
		above := at.stack
		if above == nil || above.isLentBy(c) { // and was there already
			continue
		}
		if above.isStarting() {
			above.worker.Store(w)
		}
		above.bringAbove(w)
	}
}

// isLentBy reports whether c is above that actor because it waits, and is below it besides. A child
// may be above another actor than its parent, whose context spawned it there: below does not tell.
func (c *core) isLentBy(other *core) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ext == nil {
		return false
	}
	for at := c.ext.inquiry.before; at != nil; at = at.before {
		if at.lender == other {
			return true
		}
	}
	return false
}

// mount puts c, which is Inline, on the caller's stack, above that actor: nil for a stack on which there is none.
func (c *core) mount(below *core, depth int32) {
	c.ext.nesting.Store(depth)
	c.ext.goroutine.Store(currentG())
	below, _ = below.carry(c)
	c.ext.below.Store(below)
}

// dismount ends what mount began. It comes before the end of the turn: then another goroutine may mount c.
func (c *core) dismount() {
	c.ext.nesting.Store(0)
	c.ext.goroutine.Store(0)
	c.ext.below.Swap(nil).putDown()
}
