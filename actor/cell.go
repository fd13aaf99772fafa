package actor

import "fmt"

// cell is an actor: the core, the mailbox while it has one, and the user's code and state.
//
// A turn is what a worker gives it: signals first, then at most what lay in the
// mailbox when the turn began, at most turnMessages of it and about turnTime.
// The deferred recover that turns a panic into a failure is set up once for a run
// of messages, not for each: that is 5 ns a message less. After a panic the turn
// goes on outside of the unwound frame.
//
// An idle actor is this and nothing else: 128 bytes.
type cell[M any] struct {
	core     core        // first: see cellOf. A named field: methods promoted from it would be compiled for each M
	box      *mailbox[M] // see mailbox
	actor    Actor[M]    // nil between incarnations; written under mu, owned by the turn
	newActor maker[M]    // nil for an actor that is a function
}

// maker makes the state of an incarnation.
type maker[M any] interface{ make() Actor[M] }

// context returns the actor as its handlers see it.
func (c *cell[M]) context() *Context[M] { return (*Context[M])(c) }

// mailbox returns the actor's mailbox, nil while it has been idle for long. It changes under mu,
// and not during a turn; a fenced actor's box stays with the handler left behind, which may look
// at it without mu. REQUIRES: the caller has the turn, or c.mu held, or is a callback.
func (c *cell[M]) mailbox() *mailbox[M] {
	if c.core.isFenced() {
		return c.inherited()
	}
	return c.box
}

// mailState is what a mailbox shows of itself.
type mailState struct {
	waiting  int
	attached bool // there is one
	handling bool // the turn is in a handler
}

func (c *cell[M]) mailState() mailState {
	c.core.mu.Lock()
	defer c.core.mu.Unlock()
	if s := c.mailbox(); s != nil {
		return mailState{s.waiting(), true, s.marked(s.head.Load())}
	}
	return mailState{}
}

func (c *cell[M]) typeName() string {
	c.core.mu.Lock()
	a := c.actor
	c.core.mu.Unlock()
	if a == nil {
		return fmt.Sprintf("Actor[%s]", nameOf[M]())
	}
	if _, ok := a.(funcActor[M]); ok {
		return fmt.Sprintf("func(%s)", nameOf[M]())
	}
	return fmt.Sprintf("%T", a)
}
