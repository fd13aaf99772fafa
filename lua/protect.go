package lua

import (
	"unsafe"

	glua "github.com/yuin/gopher-lua"
)

// A protected call of the interpreter (LState.PCall) does not do what it must with variables that
// functions share. An error closes all of a thread, also those of functions that go on after pcall:
// from then on a function and the closures in it have a variable each. And one with a handler
// closes none: closures that were kept have the variables of others. Here the interpreter is told
// that there is a handler, and the handler closes what has ended and no more.

// guard is the innermost protected call of a thread.
type guard struct {
	base    int             // values from here on end with an error
	handler *glua.LFunction // of xpcall, nil for none
}

// protect is PCall.
func (s *service) protect(l *glua.LState, args, results int, handler *glua.LFunction) error {
	c := l.Context().(*counter)
	outer, kept := c.guard, c.state.hasErrorFunc
	c.guard = guard{base: c.state.reg.top - args - 1, handler: handler}
	c.state.hasErrorFunc = true
	err := l.PCall(args, results, s.closer)
	if err != nil {
		closeVariables(l, c.guard.base) // where there was no room for the handler
	}
	c.guard, c.state.hasErrorFunc = outer, kept
	return err
}

// closeAndHandle is called with what was raised, while the functions that have ended are still on the stack.
func closeAndHandle(l *glua.LState) int {
	c := l.Context().(*counter)
	c.state.hasErrorFunc = true // the interpreter has taken it back
	c.steps -= int64(closeVariables(l, c.guard.base))
	if c.guard.handler != nil {
		l.Insert(c.guard.handler, 1)
		l.Call(1, 1)
	}
	return 1
}

// closeVariables gives the closures that share variables from a place of the stack on these variables for themselves.
// It returns how many variables it has looked at.
func closeVariables(l *glua.LState, from int) (looked int) {
	at := &stateOf(l).uvcache
	for ; *at != nil && (*at).index < from; at = &(*at).next {
		looked++
	}
	open := *at
	*at = nil
	for open != nil {
		looked++
		(*glua.Upvalue)(unsafe.Pointer(open)).Close()
		if open.value == nil {
			open.value = glua.LNil
		}
		open, open.next = open.next, nil
	}
	return looked
}
