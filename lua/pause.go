package lua

import (
	"context"
	"errors"
	"time"

	glua "github.com/yuin/gopher-lua"

	"github.com/greenroom-go/greenroom/actor"
)

// forever is how long a handler waits for something that has no limit.
const forever = 10 * 365 * 24 * time.Hour

// pause is what a handler waits for that something else in its service brings about: the service
// asks itself, and keeps the promise when it is woken. It belongs to the service's turn.
type pause struct {
	actor.Returns[answer]
	woken   bool
	promise *actor.Promised[answer] // nil until the request is handled
	leave   func()                  // takes back what others would wake the handler by; nil for nothing. It may be called again
}

func (*pause) message() {}

// begin handles the request.
func (p *pause) begin(ctx *actor.Context[Message]) {
	if p.woken {
		actor.Reply(ctx, p, answer{})
		return
	}
	p.promise = actor.Promise(ctx, p)
}

// wake lets the handler go on.
func (p *pause) wake() {
	p.woken = true
	if p.promise != nil {
		p.promise.Resolve(answer{})
	}
}

// pauseFor waits until p is woken, or the time is up: neither is an error.
func (s *service) pauseFor(l *glua.LState, p *pause, what wait, limit time.Duration) error {
	return s.pauseAfter(l, p, what, limit, func() {})
}

// pauseAfter is pauseFor after a call of first, unless the handler may not wait.
func (s *service) pauseAfter(l *glua.LState, p *pause, what wait, limit time.Duration, first func()) error {
	t := s.task
	t.pause = p
	err := s.wait(l, what, func() error {
		first()
		_, err := actor.Ask(s.ctx, s.ctx.Self(), p, actor.Within(limit))
		if errors.Is(err, context.DeadlineExceeded) && s.ctx.Err() == nil {
			return nil // and no failure to wait, after which steps do not come back
		}
		return err
	})
	t.pause = nil
	return err
}

// yield lets the service handle what is in its mailbox already.
func (s *service) yield(l *glua.LState) int {
	if err := s.pauseFor(l, &pause{woken: true}, wait{"yield", ""}, forever); err != nil {
		l.RaiseError("yield: %s", err)
	}
	return 0
}

var errWaitsAlready = errors.New("another handler waits for the token")

// waitFor waits until wakeup is called with the same token.
func (s *service) waitFor(l *glua.LState) int {
	token := l.CheckAny(1)
	if token != token { //nolint:gocritic // NaN
		l.ArgError(1, "a token must be equal to itself")
	}
	if s.waiters[token] != nil {
		l.RaiseError("wait: %s", errWaitsAlready)
	}
	p := &pause{}
	p.leave = func() {
		if s.waiters[token] == p {
			delete(s.waiters, token)
		}
	}
	s.waiters[token] = p
	err := s.pauseFor(l, p, wait{"wait", ""}, forever)
	p.leave()
	if err != nil {
		l.RaiseError("wait: %s", err)
	}
	return 0
}

// wakeUp wakes the handler that waits for a token, and returns whether there was one.
func (s *service) wakeUp(l *glua.LState) int {
	token := l.CheckAny(1)
	p := s.waiters[token]
	if p != nil {
		delete(s.waiters, token)
		p.wake()
	}
	l.Push(glua.LBool(p != nil))
	return 1
}

// section is a critical section: one handler at a time is in it, those that wait come in the order
// in which they asked. A handler may enter it again.
type section struct {
	inside  *task
	depth   int
	waiting []*entrant
}

type entrant struct {
	pause
	task *task
}

// queue returns a function that calls another one in a critical section.
func (s *service) queue(l *glua.LState) int {
	s.meter.take(l, functionSize+userdataSize)
	c := &section{}
	l.Push(l.NewFunction(func(l *glua.LState) int {
		l.CheckFunction(1)
		checkDepth(l)
		s.enter(l, c)
		err := s.protect(l, l.GetTop()-1, glua.MultRet, nil)
		s.leave(c)
		if err != nil {
			l.Error(err.(*glua.ApiError).Object, 0) //nolint:errorlint // the interpreter returns no other
		}
		return l.GetTop()
	}))
	return 1
}

func (s *service) enter(l *glua.LState, c *section) {
	switch c.inside {
	case nil, s.task:
		c.inside, s.task.kept = s.task, true
		c.depth++
		return
	}
	s.task.kept = true
	e := &entrant{task: s.task}
	e.leave = func() { s.giveUp(c, e) }
	c.waiting = append(c.waiting, e)
	if err := s.pauseFor(l, &e.pause, wait{"queue", ""}, forever); err != nil {
		e.leave()
		l.RaiseError("queue: %s", err)
	}
}

// leave lets the next handler in.
func (s *service) leave(c *section) {
	if c.depth--; c.depth > 0 {
		return
	}
	c.inside = nil
	if len(c.waiting) == 0 {
		return
	}
	e := c.waiting[0]
	c.waiting = c.waiting[1:]
	c.inside, c.depth = e.task, 1
	e.wake()
}

// giveUp takes a handler out that does not wait any more.
func (s *service) giveUp(c *section, e *entrant) {
	if c.inside == e.task {
		s.leave(c)
		return
	}
	for i, other := range c.waiting {
		if other == e {
			c.waiting = append(c.waiting[:i:i], c.waiting[i+1:]...)
			return
		}
	}
}
