package actor

// MailboxObserver is told what happens to the mailboxes of actors: for counters of your own, and for a gauge,
// which Posted sets and Emptied sets to zero. Its
// methods are called by several goroutines at once, and for several actors if it was given to several. They
// must be quick, must not panic, and must not wait.
type MailboxObserver interface {
	// Posted says that a mailbox has taken a message, and how many wait now. It is called on the sender's
	// goroutine, after the message is in: its handler may have begun.
	Posted(pid PID, waiting int)
	// Received says that the actor is about to handle a message: again when it comes back from the stash, which
	// posts nothing. It is called in the actor's turn.
	Received(pid PID)
	// Emptied says that the actor has nothing left to do. By the time it is called, a message may have
	// arrived.
	Emptied(pid PID)
}

// ObserveMailbox tells an observer what happens to the actor's mailbox, whatever its kind. What the actor
// sends itself by timers, watches and pipes is among the messages; the orders of the runtime are not. A
// message that is never handled, since the mailbox drops it or the actor ends, is posted and not received:
// [System.DeadLetters] has it. So is what is not wanted any more, such as a tick of a timer that was canceled,
// which is no dead letter. What waits is therefore not what was posted less what was received: [Ref.Backlog]
// says it. Other actors pay nothing for it.
func ObserveMailbox(o MailboxObserver) SpawnOption {
	required(o != nil, "ObserveMailbox: the observer is nil")
	return spawnOption(func(c *spawnConfig) { c.observer = o })
}

// posted tells the observer of a mailbox, if it has one, that a message was taken.
// REQUIRES: the caller holds no lock.
func (c *cell[M]) posted(s *special[M], e *envelope[M], waiting int) {
	if _, drain := e.with.(drainMark); s.observer != nil && !drain {
		s.observer.Posted(c.core.pid(), waiting)
	}
}

// observePosted is posted for a message that did not come by postSpecial: its sender has waited for room, or
// a [Queue] has dropped it at once.
func (c *cell[M]) observePosted() {
	c.core.mu.Lock()
	s := c.mailbox()
	var waits int
	if s != nil {
		waits = s.waiting()
	}
	c.core.mu.Unlock()
	if s.observed() {
		s.special.observer.Posted(c.core.pid(), waits)
	}
}

// emptied reports whether there is an observer to be told that all that has come was handled. s may be
// nil. REQUIRES: the actor's lock held by its turn.
func (s *mailbox[M]) emptied() bool {
	if !s.observed() || !s.special.handed {
		return false
	}
	s.special.handed = false
	return true
}

// observed reports whether the mailbox has an observer.
func (s *mailbox[M]) observed() bool {
	return s != nil && s.special != nil && s.special.observer != nil
}
