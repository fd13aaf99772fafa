package lua

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"time"

	glua "github.com/yuin/gopher-lua"

	"github.com/greenroom-go/greenroom/actor"
)

// tick is the unit of times in scripts, as in skynet.
const tick = 10 * time.Millisecond

// maxTicks is a bit less than three hundred years, the longest time of Go.
const maxTicks = math.MaxInt64 / int64(tick)

// functions is the module greenroom.
func (s *service) functions() map[string]glua.LGFunction {
	functions := s.launching()
	maps.Copy(functions, map[string]glua.LGFunction{
		"start":       s.setStart,
		"init":        s.addInit,
		"dispatch":    s.setDispatch,
		"send":        s.send,
		"call":        func(l *glua.LState) int { return s.call(l, 1) },
		"calltimeout": func(l *glua.LState) int { return s.call(l, 2, actor.Within(checkTicks(l, 1))) },
		"ret":         s.ret,
		"response":    s.response,
		"ignoreret":   s.ignoreRet,
		"redirect":    s.redirect,
		"timeout":     s.timeout,
		"sleep":       s.sleep,
		"fork":        s.fork,
		"self":        func(l *glua.LState) int { l.Push(glua.LString(s.ctx.Self().String())); return 1 },
		"now":         func(l *glua.LState) int { l.Push(ticks(time.Since(s.rt.started))); return 1 },
		"hpc":         func(l *glua.LState) int { l.Push(glua.LNumber(time.Since(s.rt.started))); return 1 },
		"time":        func(l *glua.LState) int { l.Push(seconds(time.Now())); return 1 },
		"starttime":   func(l *glua.LState) int { l.Push(seconds(s.rt.started.Truncate(time.Second))); return 1 },
		"pack":        s.pack,
		"unpack":      s.unpack,
		"int64":       func(l *glua.LState) int { l.Push(s.values.integer(toInt64(l, 1))); return 1 },
		"error":       s.log,
		"yield":       s.yield,
		"wait":        s.waitFor,
		"wakeup":      s.wakeUp,
		"queue":       s.queue,
		"request":     s.request,
		"killthread":  s.killThread,
		"stat":        s.stat,
		"info_func":   s.setInfo,
	})
	for _, name := range onceOnly {
		functions[name] = s.once(functions[name])
	}
	return functions
}

// onceOnly are the functions that do nothing at the top of a file that is reloaded: they have been called there before.
var onceOnly = []string{"exit", "fork", "kill", "killthread", "link", "newservice", "send", "timeout", "wakeup", "watch"}

func (s *service) once(f glua.LGFunction) glua.LGFunction {
	return func(l *glua.LState) int {
		if s.task.rerun != nil {
			return 0
		}
		return f(l)
	}
}

func ticks(d time.Duration) glua.LNumber { return glua.LNumber(d / tick) }

// seconds returns a time since 1970, to a hundredth of a second.
func seconds(t time.Time) glua.LNumber { return glua.LNumber(float64(t.UnixMilli()/10) / 100) }

// checkTicks returns an argument that is a time in hundredths of a second.
func checkTicks(l *glua.LState, i int) time.Duration {
	n := float64(l.CheckNumber(i))
	if math.IsNaN(n) || n > float64(maxTicks-1) {
		l.ArgError(i, fmt.Sprintf("a time must be a number of hundredths of a second up to %d", maxTicks-1))
	}
	return time.Duration(max(n, 0) * float64(tick))
}

func (s *service) setStart(l *glua.LState) int {
	f := l.CheckFunction(1)
	if again := s.task.rerun; again != nil {
		again.begin = f
	} else {
		s.begin = f
	}
	return 0
}

func (s *service) addInit(l *glua.LState) int {
	f := l.CheckFunction(1)
	if again := s.task.rerun; again != nil {
		again.inits = append(again.inits, f)
	} else {
		s.inits = append(s.inits, f)
	}
	return 0
}

func (s *service) setDispatch(l *glua.LState) int {
	s.setHandler(l.CheckFunction(1), false)
	return 0
}

// setHandler sets the function that handles messages.
func (s *service) setHandler(f *glua.LFunction, sessions bool) {
	if again := s.task.rerun; again != nil {
		again.handler = f
		return
	}
	s.handler, s.sessions = f, sessions
}

// stepsPerMessage is what a message costs whatever is in it.
const stepsPerMessage = 20

// packArguments returns the arguments from the one with the number first, packed.
func (s *service) packArguments(l *glua.LState, first int) []byte {
	return s.values.own(s.packScratch(l, first))
}

// packScratch is packArguments into bytes that are valid until the next call.
func (s *service) packScratch(l *glua.LState, first int) []byte {
	s.meter.spend(l, stepsPerMessage)
	body, err := s.values.packScratch(l, first, l.GetTop(), l.Get)
	if err != nil {
		l.RaiseError("%s", err)
	}
	s.meter.text(l, len(body))
	return body
}

// pushBody pushes packed values, and returns how many there are.
func (s *service) pushBody(l *glua.LState, body []byte) int {
	s.meter.spend(l, len(body)/4)
	values, err := s.values.unpackScratch(body)
	if err != nil {
		l.RaiseError("%s", err)
	}
	n := pushAll(l, values)
	clear(values)
	return n
}

func (s *service) checkTarget(l *glua.LState, i int) actor.Ref[Message] {
	address := l.CheckString(i)
	to, err := s.target(address)
	if err != nil {
		l.RaiseError("%.100s: %s", address, err)
	}
	return to
}

func (s *service) send(l *glua.LState) int {
	to, goes := s.checkDestination(l, 1)
	if goes != nil {
		return s.sendOut(l, goes)
	}
	m := &told{parcel{body: s.packArguments(l, 2)}}
	err := m.enter(s.accountOf(to))
	if err == nil {
		if err = to.TryTell(s.ctx, m); err != nil {
			m.leave()
		}
	}
	if err != nil {
		s.raise(l, err, "send %s", l.CheckString(1))
	}
	return 0
}

// call asks the service whose address is the argument with the number first.
func (s *service) call(l *glua.LState, first int, limit ...actor.WaitOption) int {
	to, goes := s.checkDestination(l, first)
	if goes != nil {
		return s.callOut(l, goes, first, limit)
	}
	m := &asked{parcel: parcel{body: s.packArguments(l, first+1)}, asker: s.answers}
	var a answer
	err := m.enter(s.accountOf(to))
	if err == nil {
		a, err = s.ask(l, wait{"call", l.CheckString(first)}, to, m, limit)
	}
	if err != nil {
		s.raise(l, err, "call %s", l.CheckString(first))
	}
	return s.pushBody(l, a.body)
}

// ask waits for the answer of a service.
func (s *service) ask(l *glua.LState, what wait, to actor.Ref[Message], m *asked, limit []actor.WaitOption) (a answer, err error) {
	if s.task.handle == nil {
		err = s.wait(l, what, func() (err error) {
			a, err = actor.Ask(s.ctx, to, m, limit...)
			return err
		})
		m.finish(err)
		return a, err
	}
	sent := false
	a.body, err = s.askAside(l, what, func(r *requests) {
		sent = true
		s.askService(r, nil, to, m, limit)
	})
	if !sent {
		m.finish(err)
	}
	return a, err
}

// ret answers the request that is being handled. For a message that was sent nobody waits.
func (s *service) ret(l *glua.LState) int {
	body := s.packScratch(l, 1)
	req := s.task.asked
	if req == nil {
		return 0
	}
	if err := req.reply(s.values.own(body), func(a answer) { actor.Reply(s.ctx, req, a) }); err != nil {
		l.RaiseError("ret: %s", err)
	}
	return 0
}

// response returns a function that answers the request later: with true and the values, or with false and
// a text, which is then the error. It returns whether somebody still waits.
func (s *service) response(l *glua.LState) int {
	req := s.task.asked
	if req == nil {
		l.Push(l.NewFunction(func(l *glua.LState) int { l.Push(glua.LFalse); return 1 }))
		return 1
	}
	s.meter.take(l, functionSize*3+userdataSize+parcelSize)
	promise := actor.Promise(s.ctx, req)
	s.task.promise = promise
	l.Push(l.NewClosure(func(l *glua.LState) int {
		if !l.ToBool(1) {
			l.Push(glua.LBool(promise.Reject(&Error{Text: l.OptString(2, "refused")})))
			return 1
		}
		waits := false
		if err := req.reply(s.packArguments(l, 2), func(a answer) { waits = promise.Resolve(a) }); err != nil {
			l.RaiseError("response: %s", err)
		}
		l.Push(glua.LBool(waits))
		return 1
	}, &glua.LUserData{Value: req, Metatable: glua.LNil}))
	return 1
}

// ignoreRet says that the request will not be answered: who waits for it gets an error.
func (s *service) ignoreRet(*glua.LState) int {
	s.task.asked = nil
	return 0
}

var errNothingToRedirect = errors.New("no message is being handled that was not redirected yet")

// redirect passes the message that is being handled on to another service, with other values. Who
// waits for its answer gets it from that one.
func (s *service) redirect(l *glua.LState) int {
	t := s.task
	to, goes := s.checkDestination(l, 1)
	if goes != nil {
		l.RaiseError("redirect %s: only services of the same runtime can answer for this one", l.CheckString(1))
	}
	if t.parcel == nil {
		l.RaiseError("redirect %s: %s", l.CheckString(1), errNothingToRedirect)
	}
	p := &parcel{body: s.packArguments(l, 2)}
	if err := p.enter(s.accountOf(to)); err != nil {
		s.raise(l, err, "redirect %s", l.CheckString(1))
	}
	t.parcel.redirected.Store(p)
	t.parcel, t.asked = nil, nil
	if err := actor.Forward(s.ctx, to); err != nil {
		p.leave()
		s.raise(l, err, "redirect %s", l.CheckString(1))
	}
	return 0
}

func (s *service) timeout(l *glua.LState) int {
	return s.order(l, checkTicks(l, 1), l.CheckFunction(2), nil)
}

func (s *service) fork(l *glua.LState) int {
	return s.order(l, 0, l.CheckFunction(1), arguments(l, 2))
}

// order is later for a script, to which it returns the handle.
func (s *service) order(l *glua.LState, d time.Duration, fn *glua.LFunction, args []glua.LValue) int {
	h, err := s.later(l, d, fn, args)
	if err != nil {
		l.RaiseError("%s", err)
	}
	l.Push(h.value)
	return 1
}

func (s *service) sleep(l *glua.LState) int {
	d := checkTicks(l, 1)
	var err error
	if s.task.handle == nil {
		err = s.wait(l, wait{"sleep", ""}, func() error { return s.ctx.Sleep(d) })
	} else {
		err = s.sleepAside(l, d)
	}
	if err != nil {
		l.RaiseError("sleep: %s", err)
	}
	return 0
}

func (s *service) pack(l *glua.LState) int {
	l.Push(glua.LString(s.packArguments(l, 1)))
	return 1
}

func (s *service) unpack(l *glua.LState) int { return s.pushBody(l, []byte(l.CheckString(1))) }
