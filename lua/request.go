package lua

import (
	"time"

	glua "github.com/yuin/gopher-lua"

	"github.com/greenroom-go/greenroom/actor"
)

// maxRequests is how many calls go out at once.
const maxRequests = 1000

// requests are calls that go out at once, and whose answers are taken as they come.
type requests struct {
	list  []*glua.LTable // the address and the values of each
	open  int            // without an answer
	ready []*arrived
	pause *pause // of the handler that waits for the next answer
}

func (r *requests) hold(w *walker) {
	for _, t := range r.list {
		w.add(t)
	}
	for _, a := range r.ready {
		w.size += int64(len(a.answer.body))
	}
}

// arrived is the answer to one of them.
type arrived struct {
	owner   *service
	of      *requests
	request *glua.LTable
	answer  answer
	err     error
}

func (*arrived) message() {}

// arrive keeps an answer for select.
func (s *service) arrive(a *arrived) {
	if a.owner != s { // of an incarnation that is gone
		return
	}
	r := a.of
	if !s.meter.charge(int64(len(a.answer.body))) {
		a.answer, a.err = answer{}, s.meter.exhausted()
	}
	r.ready = append(r.ready, a)
	if r.pause != nil {
		r.pause.wake()
		r.pause = nil
	}
}

// request returns an object with the methods add and select. Its arguments are added.
func (s *service) request(l *glua.LState) int {
	r := &requests{}
	for i := 1; i <= l.GetTop(); i++ {
		r.add(l, l.CheckTable(i))
	}
	s.meter.take(l, userdataSize*2)
	l.Push(&glua.LUserData{Value: r, Metatable: s.requestMethods})
	return 1
}

func (r *requests) add(l *glua.LState, t *glua.LTable) {
	if len(r.list) >= maxRequests {
		l.RaiseError("request: at most %d calls go out at once", maxRequests)
	}
	if _, ok := t.RawGetInt(1).(glua.LString); !ok {
		l.RaiseError("request: the first value must be an address")
	}
	r.list = append(r.list, t)
}

func checkRequests(l *glua.LState) *requests {
	r, ok := l.CheckUserData(1).Value.(*requests)
	if !ok {
		l.ArgError(1, "request expected")
	}
	return r
}

func (s *service) openRequests() {
	methods := s.table(map[string]glua.LGFunction{
		"add": func(l *glua.LState) int {
			checkRequests(l).add(l, l.CheckTable(2))
			l.SetTop(1)
			return 1
		},
		"select": s.selectAnswers,
	})
	s.requestMethods = s.root.CreateTable(0, 2)
	s.requestMethods.RawSetString("__index", methods)
	s.requestMethods.RawSetString("__metatable", glua.LString("request"))
}

// selectAnswers sends all calls, and returns an iterator over the answers as they come: the
// request's table, and a table of the values, or nil and the error. Each call has the limit in
// hundredths of a second, or that of the system.
func (s *service) selectAnswers(l *glua.LState) int {
	r := checkRequests(l)
	var limit []actor.WaitOption
	if l.Get(2) != glua.LNil {
		limit = append(limit, actor.Within(max(checkTicks(l, 2), time.Nanosecond)))
	}
	for _, t := range r.list {
		r.open++
		if err := s.sendRequest(l, r, t, limit); err != nil {
			r.ready = append(r.ready, &arrived{owner: s, of: r, request: t, err: err})
		}
	}
	r.list = nil
	l.Push(l.NewClosure(s.nextAnswer, l.Get(1)))
	return 1
}

func (s *service) sendRequest(l *glua.LState, r *requests, t *glua.LTable, limit []actor.WaitOption) error {
	to, goes, err := s.destination(string(t.RawGetInt(1).(glua.LString)))
	if err != nil {
		return err
	}
	s.meter.spend(l, stepsPerMessage+int(measuring(t)))
	values := make([]glua.LValue, 0, 8)
	for i := 2; i <= t.MaxN(); i++ {
		values = append(values, t.RawGetInt(i))
	}
	body, err := s.values.pack(l, values, 2)
	if err != nil {
		return err
	}
	s.meter.text(l, len(body))
	if goes != nil {
		return s.requestOut(l, r, t, goes, body, limit)
	}
	m := &asked{parcel: parcel{body: body}, asker: s.answers}
	if err := m.enter(s.accountOf(to)); err != nil {
		return err
	}
	s.askService(r, t, to, m, limit)
	return nil
}

// askService asks a service. The answer comes as a message.
func (s *service) askService(r *requests, t *glua.LTable, to actor.Ref[Message], m *asked, limit []actor.WaitOption) {
	actor.AskThen(s.ctx, to, m, func(a answer, err error) Message {
		m.finish(err)
		return &arrived{owner: s, of: r, request: t, answer: a, err: err}
	}, limit...)
}

// requestOut sends a request to an actor of Go.
func (s *service) requestOut(l *glua.LState, r *requests, t *glua.LTable, goes []reached, body []byte, limit []actor.WaitOption) error {
	o, err := s.compose(l, goes, body, 2, true)
	if err != nil {
		return err
	}
	if err := s.askFor(o); err != nil {
		return err
	}
	s.askActor(r, t, o, limit)
	return nil
}

// askActor asks an actor of Go. The answer comes as a message.
func (s *service) askActor(r *requests, t *glua.LTable, o outgoing, limit []actor.WaitOption) {
	o.to.askThen(s.ctx, o.v, func(v any, err error) Message {
		s.asking -= o.size
		a := &arrived{owner: s, of: r, request: t, err: err}
		if err == nil {
			a.answer.body, a.err = s.packAnswer(o, v)
		}
		return a
	}, limit)
}

// nextAnswer returns the next answer, and nothing when there was one for each request.
func (s *service) nextAnswer(l *glua.LState) int {
	r := l.Get(glua.UpvalueIndex(1)).(*glua.LUserData).Value.(*requests)
	for len(r.ready) == 0 { // another handler may take an answer before the one that it has woken
		if r.open == 0 {
			l.Push(glua.LNil)
			return 1
		}
		if r.pause != nil {
			l.RaiseError("select: another handler waits for the next answer")
		}
		p := &pause{}
		p.leave = func() {
			if r.pause == p {
				r.pause = nil
			}
		}
		r.pause = p
		if err := s.pauseFor(l, p, wait{"select", ""}, forever); err != nil {
			p.leave()
			l.RaiseError("select: %s", err)
		}
	}
	a := r.ready[0]
	r.ready = r.ready[1:]
	r.open--
	l.Push(a.request)
	if a.err != nil {
		l.Push(glua.LNil)
		l.Push(s.errorValue(scriptError(a.err).Error(), a.err))
		return 3
	}
	values, err := s.values.unpack(a.answer.body)
	if err != nil {
		l.RaiseError("%s", err)
	}
	t := l.CreateTable(len(values), 0)
	for i, v := range values {
		t.RawSetInt(i+1, v)
	}
	l.Push(t)
	return 2
}
