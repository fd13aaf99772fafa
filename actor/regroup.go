package actor

import (
	"slices"
	"time"
)

// group is a restart of several children at once, AllForOne or RestForOne, under way.
// It goes one step with each signal from a child and so blocks nobody: first the
// members are halted, the youngest first, each one's state terminated and its children
// stopped; then, after the backoff, they are started again, the oldest first, each
// after the Init of the one before has returned.
type group struct {
	failed   *core   // it is restarted with the others
	halting  []*core // still to be halted, oldest first; the last one is on its way
	starting []*core // halted, youngest first; once halting is empty the last one is on its way
	after    time.Duration
	later    []signal // other failures: of children that are not concerned, until we are done, or of those that are, until they are halted
}

// regroup restarts the children that the strategy says. REQUIRES: the turn owns c.
func (c *core) regroup(failed *core, after time.Duration) {
	c.setRegrouping(true) // first: from here on the end of a child is reported
	members := c.childList()
	i := slices.Index(members, failed)
	if i < 0 { // it is gone, and nobody fails with it
		c.setRegrouping(c.ext.group != nil)
		return
	}
	if c.kind.super.strategy == RestForOne {
		members = members[i:]
	}
	next := &group{failed: failed, halting: members, after: after}
	if before := c.ext.group; before != nil {
		next.later = before.later
		for _, child := range slices.Backward(before.starting) { // halted by the group before, and not of this one
			if !slices.Contains(members, child) {
				child.signal(signal{kind: sigRelease})
			}
		}
	}
	c.dropBackoff()
	c.ext.group = next
	c.regroupStep()
}

func (c *core) setRegrouping(on bool) {
	c.mu.Lock()
	c.ext.regrouping = on
	c.mu.Unlock()
}

// disband gives a restart of several children up: the supervisor itself stops or is
// restarted, and its children with it.
//
// With release the members go on by themselves, so that they can handle what is queued.
func (c *core) disband(release bool) {
	g := c.ext.group
	if g == nil {
		return
	}
	c.ext.group = nil
	c.setRegrouping(false)
	if !release {
		return
	}
	slices.Reverse(g.starting)
	for _, child := range slices.Concat(g.starting, g.halting) {
		child.signal(signal{kind: sigRelease})
	}
	if n := len(g.halting); n > 0 {
		g.forgetFailure(g.halting[n-1]) // it is on its way, and begins anew
	}
	if slices.Contains(g.halting, g.failed) && !slices.ContainsFunc(g.later, func(s signal) bool { return s.child == g.failed }) {
		g.failed.signal(signal{kind: sigRestart}) // that was decided
	}
	c.putBackSignals(g.later)
}

// regroupStep does the next thing.
func (c *core) regroupStep() {
	g := c.ext.group
	if n := len(g.halting); n > 0 {
		child := g.halting[n-1]
		kind := sigHalt
		if child.traits.lifetime() == Temporary {
			kind = sigGiveUp // it is stopped with the others and does not come back
		}
		child.signal(signal{kind: kind})
		return
	}
	if len(g.starting) == 0 {
		c.ext.group = nil
		c.setRegrouping(false)
		c.putBackSignals(g.later)
		return
	}
	if g.after > 0 {
		c.beginBackoff(g.after, sigRegroup)
		g.after = 0
		return
	}
	g.starting[len(g.starting)-1].signal(signal{kind: sigStart})
}

// regroupAfterBackoff goes on with the group whose backoff has passed.
func (c *core) regroupAfterBackoff(backoff *timerNode) {
	if ext := c.ext; ext.group != nil && ext.backoff == backoff {
		ext.backoff = nil
		c.regroupStep()
	}
}

// halted notes that a member has been halted, or is gone.
func (c *core) halted(child *core, gone bool) {
	g := c.ext.group
	if g == nil {
		return
	}
	g.forgetFailure(child)
	if i := lastIndex(g.halting, child); i >= 0 {
		g.halting = slices.Delete(g.halting, i, i+1)
		if !gone {
			g.starting = append(g.starting, child)
		}
		if i == len(g.halting) {
			c.regroupStep()
		}
		return
	}
	if i := lastIndex(g.starting, child); i >= 0 && gone {
		g.starting = slices.Delete(g.starting, i, i+1)
		if i == len(g.starting) && len(g.halting) == 0 && c.ext.backoff == nil {
			c.regroupStep()
		}
	}
}

// lastIndex returns where c is, -1 when it is not in list. It begins at the end: there is the
// member that is on its way, of maybe thousands.
func lastIndex(list []*core, c *core) int {
	for i, member := range slices.Backward(list) {
		if member == c {
			return i
		}
	}
	return -1
}

// started notes that a member runs again.
func (c *core) started(child *core) {
	g := c.ext.group
	if g == nil || len(g.halting) > 0 {
		return
	}
	if last := len(g.starting) - 1; last >= 0 && g.starting[last] == child {
		g.starting = g.starting[:last]
		c.regroupStep()
	}
}

// noteFailure sorts a failure that comes while the group restarts. It reports true when the
// failure is that of a member's new Init: then the restart begins anew.
func (g *group) noteFailure(s signal) (anew bool) {
	if slices.Contains(g.starting, s.child) {
		return true
	}
	g.later = append(g.later, s)
	return false
}

// forgetFailure drops what there is to be decided about a child that the restart itself has begin anew.
func (g *group) forgetFailure(child *core) {
	g.later = slices.DeleteFunc(g.later, func(s signal) bool { return s.child == child })
}

// ends reports whether the restart is what has ended a child: a temporary member, when its turn to be halted had come.
func (g *group) ends(child *core) bool {
	if g == nil || len(g.halting) == 0 {
		return false
	}
	return g.halting[len(g.halting)-1] == child && child.traits.lifetime() == Temporary
}
