package lua

import (
	glua "github.com/yuin/gopher-lua"
)

// maxNested is how many coroutines may have resumed each other: each has a part of the stack of Go.
const maxNested = 16

// stepsPerThread is what it takes to make a coroutine.
const stepsPerThread = 50

// coroutine is a Lua coroutine. Its value is a userdata, which type calls a thread: the interpreter's own
// library would resume one whose handler waits, in the middle of a function of Go.
type coroutine struct {
	thread *glua.LState
	fn     *glua.LFunction
	busy   bool // resumed, and has not yielded yet: runs, has resumed another one or waits
}

// coroutines are the functions of the library.
func (s *service) coroutines() map[string]glua.LGFunction {
	return map[string]glua.LGFunction{
		"create": func(l *glua.LState) int {
			l.Push(s.newCoroutine(l))
			return 1
		},
		"resume": func(l *glua.LState) int {
			co := checkCoroutine(l)
			values, err := s.resume(l, co, arguments(l, 2))
			if err != nil {
				l.Push(glua.LFalse)
				l.Push(err)
				return 2
			}
			l.Push(glua.LTrue)
			return 1 + pushAll(l, values)
		},
		"wrap":    s.wrap,
		"yield":   func(*glua.LState) int { return -1 }, // the interpreter's sign for it
		"status":  s.status,
		"running": s.runningCoroutine,
	}
}

func (c *coroutine) hold(w *walker) {
	w.add(c.thread)
	w.add(c.fn)
}

func (s *service) newCoroutine(l *glua.LState) *glua.LUserData {
	fn := l.CheckFunction(1)
	s.meter.spend(l, stepsPerThread)
	s.meter.take(l, threadSize+userdataSize)
	thread := s.newThread()
	return &glua.LUserData{Value: &coroutine{thread: thread, fn: fn}, Metatable: glua.LNil}
}

func checkCoroutine(l *glua.LState) *coroutine {
	co, ok := l.CheckUserData(1).Value.(*coroutine)
	if !ok {
		l.ArgError(1, "coroutine expected")
	}
	return co
}

func (s *service) wrap(l *glua.LState) int {
	l.Push(l.NewClosure(s.resumeWrapped, s.newCoroutine(l)))
	return 1
}

func (s *service) resumeWrapped(l *glua.LState) int {
	co := l.Get(glua.UpvalueIndex(1)).(*glua.LUserData).Value.(*coroutine)
	values, err := s.resume(l, co, arguments(l, 1))
	if err != nil {
		l.Error(err, 0)
	}
	return pushAll(l, values)
}

// resume runs a coroutine until it yields or ends, and returns the values of that, or what was raised.
func (s *service) resume(l *glua.LState, co *coroutine, args []glua.LValue) (values []glua.LValue, raised glua.LValue) {
	if co.busy || co.thread.Dead {
		return nil, glua.LString("cannot resume a coroutine that is " + s.statusOf(co))
	}
	t := s.task
	if t.nested >= maxNested {
		return nil, glua.LString("too many coroutines have resumed each other")
	}
	t.nested++
	co.busy = true
	defer func() { co.busy = false; t.nested-- }() // an actor may be taken away in the middle
	_, err, values := l.Resume(co.thread, co.fn, args...)
	if err != nil {
		return nil, err.(*glua.ApiError).Object //nolint:errorlint // the interpreter returns no other
	}
	return values, nil
}

func (s *service) statusOf(co *coroutine) string {
	switch {
	case co.thread.Dead:
		return "dead"
	case s.root.G.CurrentThread == co.thread:
		return "running"
	case co.busy:
		return "normal"
	}
	return "suspended"
}

func (s *service) status(l *glua.LState) int {
	l.Push(glua.LString(s.statusOf(checkCoroutine(l))))
	return 1
}

// runningCoroutine returns true in a coroutine, and in a handler the handle of that. It returns nil where nothing else
// could run while it waits, as before the service has started.
func (s *service) runningCoroutine(l *glua.LState) int {
	t := s.task
	switch {
	case l.Parent != nil:
		l.Push(glua.LTrue)
	case s.ctx == nil || t == nil || !t.isMortal(): // a sandbox has no context
		l.Push(glua.LNil)
	default:
		if t.handle == nil {
			h := s.newHandle(l)
			h.task, t.handle, t.kept = t, h, true
		}
		l.Push(t.handle.value)
	}
	return 1
}

// arguments returns the arguments from the one with the number first.
func arguments(l *glua.LState, first int) []glua.LValue {
	var values []glua.LValue
	for i := first; i <= l.GetTop(); i++ {
		values = append(values, l.Get(i))
	}
	return values
}

func pushAll(l *glua.LState, values []glua.LValue) int {
	for _, v := range values {
		l.Push(v)
	}
	return len(values)
}
