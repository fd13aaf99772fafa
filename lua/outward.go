package lua

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	glua "github.com/yuin/gopher-lua"

	"github.com/greenroom-go/greenroom/actor"
)

// The limits of what scripts have sent to actors of Go.
const (
	// maxAhead bounds a message by the mailbox that it comes into: its bytes and those of as many
	// equal ones as wait there.
	maxAhead = 8 << 20
	// maxAsked is how many bytes of requests a service waits for.
	maxAsked = 16 << 20
)

// destination returns the service with an address, or the actor of Go, as each of the mailboxes that fit has it.
func (s *service) destination(address string) (to actor.Ref[Message], goes []reached, err error) {
	if to, ok := s.targets[address]; ok {
		return to, nil, nil
	}
	if goes, ok := s.reached[address]; ok {
		return to, goes, nil
	}
	pid, virtual := virtualAddress(address)
	if virtual = virtual && len(address) <= maxAddress; virtual {
		goes, err = s.rt.words.reach(pid, "")
		virtual = !errors.Is(err, actor.ErrStopped) // otherwise nothing has that kind
	}
	if !virtual {
		if to, err = s.target(address); err == nil || !errors.Is(err, actor.ErrNotAccepted) {
			return to, nil, err
		}
		if strings.HasPrefix(address, "/") {
			goes, err = s.rt.words.reach(actor.PID{}, address)
			return to, goes, err // another one may have the path next time
		}
		pid, _ = actor.ParsePID(address) // target has parsed it
		goes, err = s.rt.words.reach(pid, "")
	}
	if err == nil {
		if len(s.reached) >= maxTargets {
			clear(s.reached)
		}
		s.reached[address] = goes
	}
	return to, goes, err
}

// checkDestination is destination for the argument with the number i.
func (s *service) checkDestination(l *glua.LState, i int) (to actor.Ref[Message], goes []reached) {
	address := l.CheckString(i)
	to, goes, err := s.destination(address)
	if err != nil {
		l.RaiseError("%.100s: %s", address, err)
	}
	return to, goes
}

// outgoing is a message to an actor of Go.
type outgoing struct {
	to   reached
	v    any
	size int
}

// compose makes the message of what a script has packed for an actor of Go. first is the number of
// its name among the arguments.
func (s *service) compose(l *glua.LState, goes []reached, body []byte, first int, answered bool) (o outgoing, err error) {
	s.meter.spend(l, len(body)/2)
	o.v, err = s.rt.words.message(body, first)
	if err != nil {
		return o, err
	}
	o.size = len(body) + parcelSize
	for _, to := range goes {
		if answered && to.asks(o.v) || !answered && to.takes(o.v) {
			o.to = to
			break
		}
	}
	w := s.rt.words.byType[reflect.TypeOf(o.v)]
	switch {
	case o.to != nil:
	case !goes[0].takes(o.v):
		return o, fmt.Errorf("%w: %s is not one of its messages", actor.ErrNotAccepted, w.name)
	case w.answer == "":
		return o, fmt.Errorf("%w: %s has no answer", actor.ErrNotAccepted, w.name)
	default:
		return o, fmt.Errorf("%w: no lua.Asks among lua.Config.Mailboxes has the answer of %s, which is a %s", actor.ErrNotAccepted, w.name, w.answer)
	}
	if n, ok := o.to.backlog(); ok && (n+1)*o.size > maxAhead {
		return o, fmt.Errorf("the mailbox is full: %d messages wait there", n)
	}
	return o, nil
}

// sendOut sends a message to an actor of Go.
func (s *service) sendOut(l *glua.LState, goes []reached) int {
	o, err := s.compose(l, goes, s.packArguments(l, 2), 2, false)
	if err == nil {
		err = o.to.tell(s.ctx, o.v)
	}
	if err != nil {
		s.raise(l, err, "send %s", l.CheckString(1))
	}
	return 0
}

// callOut asks an actor of Go, whose address is the argument with the number first.
func (s *service) callOut(l *glua.LState, goes []reached, first int, limit []actor.WaitOption) int {
	o, err := s.compose(l, goes, s.packArguments(l, first+1), first+1, true)
	if err == nil {
		err = s.askFor(o)
	}
	var body []byte
	if err == nil {
		body, err = s.askOut(l, wait{"call", l.CheckString(first)}, o, limit)
	}
	if err != nil {
		s.raise(l, err, "call %s", l.CheckString(first))
	}
	return s.pushBody(l, body)
}

// askOut waits for the answer of an actor of Go. The request was counted by askFor.
func (s *service) askOut(l *glua.LState, what wait, o outgoing, limit []actor.WaitOption) (body []byte, err error) {
	if s.task.handle == nil {
		var answer any
		err = s.wait(l, what, func() (err error) {
			answer, err = o.to.ask(s.ctx, o.v, limit)
			return err
		})
		s.asking -= o.size
		if err != nil {
			return nil, err
		}
		return s.packAnswer(o, answer)
	}
	sent := false
	body, err = s.askAside(l, what, func(r *requests) {
		sent = true
		s.askActor(r, nil, o, limit)
	})
	if !sent {
		s.asking -= o.size
	}
	return body, err
}

// askFor counts a request that the service is going to wait for.
func (s *service) askFor(o outgoing) error {
	if s.asking+o.size > maxAsked {
		return fmt.Errorf("the service waits for answers to %d bytes of requests already", s.asking)
	}
	s.asking += o.size
	return nil
}

func (s *service) packAnswer(o outgoing, answer any) ([]byte, error) {
	return s.rt.words.packAnswer(o.to.answer(), answer)
}

// raise raises an error: a text, or where the error is a sentinel of [Config].Types a table with
// the fields message and name, which has the text for tostring and concatenation.
func (s *service) raise(l *glua.LState, err error, format string, args ...any) {
	text := place(l) + " " + fmt.Sprintf(format, args...) + ": " + scriptError(err).Error()
	l.Error(s.errorValue(text, err), 0)
}

// placesSearched is how far up the place of an error is looked for: functions of Go have none.
const placesSearched = 8

// place returns the file and the line of the script that are under way.
func place(l *glua.LState) string {
	for level := range placesSearched {
		if at := l.Where(level); at != "" && !strings.HasPrefix(at, "[G]") {
			return at
		}
	}
	return "?:"
}

func (s *service) errorValue(text string, err error) glua.LValue {
	name := s.rt.words.sentinelName(err)
	if name == "" {
		return glua.LString(text)
	}
	t := s.root.CreateTable(0, 2)
	t.RawSetString("message", glua.LString(text))
	t.RawSetString("name", glua.LString(name))
	t.Metatable = s.errors
	return t
}

// openErrors makes the metatable of errors with a name.
func (s *service) openErrors() {
	text := func(l *glua.LState, i int) string {
		if t, ok := l.Get(i).(*glua.LTable); ok && t.Metatable == s.errors {
			return t.RawGetString("message").String()
		}
		return l.ToStringMeta(l.Get(i)).String()
	}
	s.errors = s.table(map[string]glua.LGFunction{
		"__tostring": func(l *glua.LState) int { l.Push(glua.LString(text(l, 1))); return 1 },
		"__concat": func(l *glua.LState) int {
			a, b := text(l, 1), text(l, 2)
			s.meter.text(l, len(a)+len(b))
			l.Push(glua.LString(a + b))
			return 1
		},
	})
	s.errors.RawSetString("__metatable", glua.LString("error"))
}
