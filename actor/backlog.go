package actor

// Backlog returns how many messages the actor has to handle: those that wait, and the one that it
// is handling, or several if it is [Reentrant]. It reports false if the actor is gone. A reference
// that routes has no mailbox: 0. Backlog looks under the actor's lock, and may be called from any
// goroutine.
func (r Ref[M]) Backlog() (messages int, ok bool) {
	c, cell := r.recipient().(*cell[M])
	if !cell {
		return 0, !r.to.base().hasStopped()
	}
	c.core.mu.Lock()
	defer c.core.mu.Unlock()
	if c.core.phase == stopped {
		return 0, false
	}
	s := c.mailbox()
	if s == nil {
		return 0, true
	}
	n := s.waiting() + len(c.core.waitingHandlers())
	if c.core.scheduled && (s.resumed != nil || s.done() > s.clear) {
		n++ // the one in hand
	}
	return n, true
}
