package actor

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// ErrLinked says that an actor failed because an actor linked to it has ended abnormally. The error
// wraps the failure of that actor, if there was one. If that actor failed for the same reason, the error wraps
// the failure with which the chain of ends began, in the system in which it did.
var ErrLinked = errors.New("linked actor ended")

// Link ties the actor and the one with that address together, as in OTP: when either of them ends
// abnormally (with a reason other than [Stopped] and [Passivated]) the other one fails, with
// [ErrLinked], and its supervisor decides. A restart is not an end; an actor that is being restarted
// when the other one ends begins anew in any case, and does not fail for that. Linking with an actor
// that is gone fails the caller at once; linking with a virtual actor that is not active has no
// effect. A second link between the same two changes nothing. To be told without failing, use
// [Context.Watch]. For use in the actor's own callbacks.
func (ctx *Context[M]) Link(pid PID) {
	c := &ctx.cell().core
	if !c.enterRuntime() {
		return
	}
	defer c.exitRuntime()
	peer, none := c.sys().watchable(pid)
	if peer != nil && peer != c.sys().root { // the root neither fails nor ends before the others
		c.linkedTo(peer) // first, so that the peer's end can undo it
		if p := proxyOf(peer); p != nil {
			none = Down{PID: pid, Reason: NoConnection, Err: ErrUnreachable}
			if p.link(c) {
				return
			}
		} else if peer.linkedTo(c) {
			return
		}
		c.unlink(peer)
	}
	if none.isNormal() { // a virtual actor that is not active: its end would have changed nothing either
		return
	}
	c.signal(signal{kind: sigExit, err: linkError(none)})
}

// Unlink removes a [Context.Link], for both actors.
func (ctx *Context[M]) Unlink(pid PID) {
	c := &ctx.cell().core
	if !c.enterRuntime() {
		return
	}
	defer c.exitRuntime()
	peer, _ := c.sys().watchable(pid)
	if peer == nil {
		return
	}
	c.unlink(peer)
	if p := proxyOf(peer); p != nil {
		p.unlinkFrom(c)
	} else {
		peer.unlink(c)
	}
}

// linkedTo notes a link; it reports false when c is gone.
func (c *core) linkedTo(peer *core) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.phase == stopped {
		return false
	}
	ext := c.needExtLocked()
	if ext.links == nil {
		ext.links = make(map[*core]struct{})
	}
	ext.links[peer] = struct{}{}
	return true
}

// unlink forgets a link. It reports false when there was none.
func (c *core) unlink(peer *core) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ext == nil {
		return false
	}
	_, was := c.ext.links[peer]
	delete(c.ext.links, peer)
	return was
}

// cutLinks tells the linked actors that c has ended. They forget c in any case, so
// that a link leaves nothing behind.
func (c *core) cutLinks(links map[*core]struct{}, d Down) {
	for _, peer := range slices.SortedFunc(maps.Keys(links), inOrder) {
		if p := proxyOf(peer); p != nil {
			p.exit(c, d)
			continue
		}
		peer.unlink(c)
		if !d.isNormal() {
			peer.signal(signal{kind: sigExit, err: linkError(d)})
		}
	}
}

// linkedError is the failure of an actor because of the end of one that it was linked to. It names that one and the
// first of a chain, and none between: the errors of a chain would grow with its length.
type linkedError struct {
	pid    PID
	reason Reason
	first  Down
}

// linkError returns the failure because of that end.
func linkError(d Down) error {
	f := &linkedError{d.PID, d.Reason, d}
	if before := linkedErrorOf(d.Err); before != nil {
		f.first = before.first
	}
	return f
}

// linkedErrorOf returns err as a failure because of a link, or what such failures have come to when there were too
// many of them for a supervisor. It returns nil for what an actor has made of one: that begins another chain.
func linkedErrorOf(err error) *linkedError {
	for {
		if f, ok := err.(*linkedError); ok { //nolint:errorlint // what wraps it is not meant
			return f
		}
		wrapped, ok := err.(interface{ Unwrap() []error })
		if !ok {
			return nil
		}
		both := wrapped.Unwrap()
		if len(both) != 2 || both[0] != ErrRestartBudget { //nolint:errorlint // what wraps it is not meant
			return nil
		}
		err = both[1]
	}
}

// Error implements error.
func (f *linkedError) Error() string {
	text := fmt.Sprintf("%v: %s: %s", ErrLinked, f.pid, f.reason)
	if f.first.PID != f.pid {
		text += fmt.Sprintf(", after %s: %s", f.first.PID, f.first.Reason)
	}
	if f.first.Err != nil {
		text += fmt.Sprintf(": %v", f.first.Err)
	}
	return text
}

// Unwrap is for package errors.
func (f *linkedError) Unwrap() []error {
	if f.first.Err == nil {
		return []error{ErrLinked}
	}
	return []error{ErrLinked, f.first.Err}
}

// inOrder compares actors by their addresses, for what a seed replays.
func inOrder(c, d *core) int {
	return cmp.Or(cmp.Compare(c.id, d.id), cmp.Compare(c.kind.node, d.kind.node), cmp.Compare(c.kind.inc, d.kind.inc))
}
