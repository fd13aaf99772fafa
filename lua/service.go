package lua

import (
	"errors"
	"fmt"
	"strings"
	"time"

	glua "github.com/yuin/gopher-lua"

	"github.com/greenroom-go/greenroom/actor"
)

// The limits of a service.
const (
	// maxWaiting is how many handlers of a service may wait. It is less than the engine lets an actor
	// have, so that a message may always begin: one that wakes a handler, for example.
	maxWaiting = 900
	maxJobs    = 10_000 // functions that wait for their time, or for their turn
	maxIdle    = 8      // threads that are kept when their handlers have returned
	maxTargets = 1024   // references that are kept
)

// service is the actor: an interpreter's state and what its handlers share. All of it belongs to the
// turn. Handlers change places only in wait.
type service struct {
	rt   *Runtime
	file string
	args []byte // packed, for the file

	ctx     *actor.Context[Message]
	root    *glua.LState // has what the threads share, and runs nothing
	values  scriptMaker
	modules map[string]glua.LValue // what was required
	idle    []*glua.LState

	begin   *glua.LFunction               // what start was given
	inits   []*glua.LFunction             // what init was given, for before that
	handler *glua.LFunction               // what dispatch was given
	task    *task                         // what runs
	waiting int                           // handlers that wait
	jobs    int                           // under way
	timers  uint64                        // the number of the last one
	targets map[string]actor.Ref[Message] // by what self has returned there
}

// task is a handler under way: of a message, of a job, or the start.
type task struct {
	asked  *asked // nil if nobody waits for an answer
	nested int    // coroutines that have resumed each other
}

// job is a function that the service has ordered for itself.
type job struct {
	owner *service // a restart leaves the jobs of the last incarnation in the mailbox
	fn    *glua.LFunction
	args  []glua.LValue
}

// Init loads the file and starts the service.
func (s *service) Init(ctx *actor.Context[Message]) error {
	s.ctx = ctx
	chunk, err := s.rt.chunk(s.file)
	if err != nil {
		return err
	}
	s.open()
	args, err := s.values.unpack(s.args)
	if err != nil {
		return err
	}
	if err := s.run(&task{}, s.root.NewFunctionFromProto(chunk), args...); err != nil {
		return err
	}
	for _, f := range append(s.inits, s.begin) {
		if f == nil {
			continue
		}
		if err := s.run(&task{}, f); err != nil {
			return err
		}
	}
	s.inits, s.begin = nil, nil
	return nil
}

// Receive handles a message. A script that fails fails the message, not the actor.
func (s *service) Receive(ctx *actor.Context[Message], m Message) error {
	var err error
	switch m := m.(type) {
	case *asked:
		if err = s.handle(&task{asked: m}, m.body); err != nil {
			return actor.Refuse(ctx, err)
		}
		return nil
	case told:
		err = s.handle(&task{}, m.body)
	case *job:
		if m.owner != s {
			return nil
		}
		s.jobs--
		err = s.run(&task{}, m.fn, m.args...)
	}
	if err != nil {
		s.logFailure(err)
	}
	return nil
}

func (s *service) logFailure(err error) {
	var failed *Error
	if errors.As(err, &failed) && failed.Stack != "" {
		s.ctx.Log().Error("lua: a handler failed", "error", err, "stack", failed.Stack)
		return
	}
	s.ctx.Log().Error("lua: a handler failed", "error", err)
}

// handle passes the values of a message to the function that dispatch was given.
func (s *service) handle(t *task, body []byte) error {
	if s.handler == nil {
		return &Error{Text: s.file + ": the service takes no messages: it has not called dispatch"}
	}
	args, err := s.values.unpack(body)
	if err != nil {
		return err
	}
	return s.run(t, s.handler, args...)
}

// run calls a function on a thread.
func (s *service) run(t *task, fn *glua.LFunction, args ...glua.LValue) error {
	l := s.thread()
	s.task, s.root.G.CurrentThread = t, l
	l.Push(fn)
	for _, arg := range args {
		l.Push(arg)
	}
	err := l.PCall(len(args), 0, nil)
	s.task = nil
	l.SetTop(0)
	if len(s.idle) < maxIdle {
		s.idle = append(s.idle, l)
	}
	if err != nil {
		return failure(err)
	}
	return nil
}

// thread returns a thread that nothing runs on.
func (s *service) thread() *glua.LState {
	if n := len(s.idle); n > 0 {
		l := s.idle[n-1]
		s.idle = s.idle[:n-1]
		return l
	}
	l, _ := s.root.NewThread()
	return l
}

// wait runs f, which waits as a handler does: the service goes on with other handlers meanwhile. l is the thread that waits.
func (s *service) wait(l *glua.LState, f func() error) error {
	if s.waiting >= maxWaiting {
		return fmt.Errorf("%d handlers of the service wait already: %w", s.waiting, actor.ErrTooManyWaiting)
	}
	t := s.task
	s.waiting++
	err := f()
	s.waiting--
	s.task, s.root.G.CurrentThread = t, l
	return err
}

// later orders a function for a time from now, 0 for the next turn.
func (s *service) later(d time.Duration, fn *glua.LFunction, args []glua.LValue) error {
	if s.jobs >= maxJobs {
		return fmt.Errorf("%d functions of the service wait for their turn already", s.jobs)
	}
	s.jobs++
	j := &job{owner: s, fn: fn, args: args}
	if d <= 0 {
		s.ctx.Self().Tell(s.ctx, j)
		return nil
	}
	s.timers++
	s.ctx.After(fmt.Sprint("lua ", s.timers), d, j)
	return nil
}

// target returns the service with an address: what self returns, or a path.
func (s *service) target(address string) (actor.Ref[Message], error) {
	if strings.HasPrefix(address, "/") {
		return actor.LookupPath[Message](s.rt.sys, address)
	}
	if to, ok := s.targets[address]; ok {
		return to, nil
	}
	pid, err := actor.ParsePID(address)
	if err != nil {
		return actor.Ref[Message]{}, fmt.Errorf("an address is what self returns, or a path that begins with /: %w", err)
	}
	to, err := actor.Lookup[Message](s.rt.sys, pid)
	if err != nil {
		return to, err
	}
	if len(s.targets) >= maxTargets {
		clear(s.targets)
	}
	s.targets[address] = to
	return to, nil
}
