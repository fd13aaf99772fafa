package lua

import (
	"errors"

	glua "github.com/yuin/gopher-lua"

	"github.com/greenroom-go/greenroom/actor"
)

// errExit ends the handlers of a service that has called exit.
var errExit = errors.New("the service has exited")

// launching are the functions about services and their names.
func (s *service) launching() map[string]glua.LGFunction {
	return map[string]glua.LGFunction{
		"newservice":    func(l *glua.LState) int { return s.newService(l, l.CheckString(1)) },
		"uniqueservice": func(l *glua.LState) int { return s.uniqueService(l, l.CheckString(1), false) },
		"queryservice":  func(l *glua.LState) int { return s.uniqueService(l, l.CheckString(1), true) },
		"register": func(l *glua.LState) int {
			return s.setName(l, l.CheckString(1), s.ctx.Self())
		},
		"name":      func(l *glua.LState) int { return s.setName(l, l.CheckString(1), s.checkTarget(l, 2)) },
		"query":     s.query,
		"localname": s.query,
		"exit":      s.exit,
		"kill":      func(l *glua.LState) int { s.checkTarget(l, 1).Kill(); return 0 },
		"watch":     s.watch,
		"link":      func(l *glua.LState) int { s.ctx.Link(s.checkTarget(l, 1).PID()); return 0 },
		"shared":    s.shared,
	}
}

// stepsPerService is what it costs to start a service.
const stepsPerService = 5000

// newService starts a service as a child of this one, and returns its address.
func (s *service) newService(l *glua.LState, file string) int {
	args := s.packArguments(l, 2)
	s.meter.spend(l, stepsPerService)
	var ref actor.Ref[Message]
	err := s.wait(l, wait{"newservice", file}, func() (err error) {
		ref, err = s.rt.spawn(s.ctx, "", file, args)
		return err
	})
	if err != nil {
		l.RaiseError("newservice %s: %s", file, scriptError(err))
	}
	l.Push(glua.LString(ref.String()))
	return 1
}

// uniqueService returns the address of the one service of a file, and starts it unless find says
// that it must run already.
func (s *service) uniqueService(l *glua.LState, file string, find bool) int {
	m := &keep{file: file, args: s.packArguments(l, 2), find: find}
	var ref actor.Ref[Message]
	err := s.wait(l, wait{"service", file}, func() (err error) {
		ref, err = actor.Ask(s.ctx, s.rt.keeper, m)
		return err
	})
	if err == nil && ref.IsZero() {
		err = errors.New("it does not run")
	}
	if err != nil {
		l.RaiseError("service %s: %s", file, scriptError(err))
	}
	l.Push(glua.LString(ref.String()))
	return 1
}

func (s *service) setName(l *glua.LState, name string, ref actor.Ref[Message]) int {
	s.meter.spend(l, stepsPerMessage)
	if err := s.rt.Name(name, ref); err != nil {
		l.RaiseError("%s", err)
	}
	return 0
}

// query returns the address behind a name, or nil.
func (s *service) query(l *glua.LState) int {
	ref, ok := s.rt.Find(l.CheckString(1))
	if !ok {
		l.Push(glua.LNil)
		return 1
	}
	l.Push(glua.LString(ref.String()))
	return 1
}

// exit ends the service. It does not return, and neither do the other handlers go on.
func (s *service) exit(l *glua.LState) int {
	s.meter.exit = true
	s.meter.steps = -1
	s.ctx.Self().Stop()
	l.RaiseError("%s", errExit)
	return 0
}

// watch calls a function with the address, the reason and the error when a service has ended.
func (s *service) watch(l *glua.LState) int {
	to, fn := s.checkTarget(l, 1), l.CheckFunction(2)
	j := &job{owner: s, fn: fn}
	if err := s.expect(j); err != nil {
		l.RaiseError("watch: %s", err)
	}
	s.ctx.Watch(to.PID(), func(d actor.Down) Message {
		text := glua.LNil
		if d.Err != nil {
			text = glua.LString(d.Err.Error())
		}
		j.args = []glua.LValue{glua.LString(d.PID.String()), glua.LString(d.Reason.String()), text}
		return j
	})
	return 0
}

// shared returns what Go has given all scripts under a name: the same table until it gives another one.
func (s *service) shared(l *glua.LState) int {
	name := l.CheckString(1)
	packed := s.rt.sharedValue(name)
	if packed == nil {
		l.Push(glua.LNil)
		return 1
	}
	known, ok := s.sharing[name]
	if !ok || known.packed != packed {
		values, err := s.values.unpack(packed.body)
		if err != nil {
			l.RaiseError("%s", err)
		}
		known = shared{packed, values[0]}
		s.sharing[name] = known
	}
	l.Push(known.value)
	return 1
}

// shared is a value that Go has given, as this service has it.
type shared struct {
	packed *sharedBody
	value  glua.LValue
}

// sharedBody is a packed value.
type sharedBody struct{ body []byte }

// Share sets a value under a name for all scripts, which greenroom.shared returns from then on.
// Each service has a copy of its own. See [Send] for what may be shared.
func (rt *Runtime) Share(name string, value any) error {
	body, err := packGo([]any{value})
	if err != nil {
		return err
	}
	rt.mu.Lock()
	defer rt.mu.Unlock()
	rt.sharing[name] = &sharedBody{body}
	return nil
}

func (rt *Runtime) sharedValue(name string) *sharedBody {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	return rt.sharing[name]
}
