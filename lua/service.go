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
	maxIdle    = 8      // threads that are kept when their handlers have returned; nobody counts them, so those that have grown are not
	maxTargets = 1024   // references that are kept
	maxAddress = 1024   // bytes
)

// service is the actor: an interpreter's state and what its handlers share. All of it belongs to the
// turn. Handlers change places only in wait.
type service struct {
	rt   *Runtime
	file string
	args []byte // packed, for the file

	account *account // of its incarnations
	answers *account // what others have answered to this one

	ctx     *actor.Context[Message]
	root    *glua.LState // has what the threads share, and runs nothing
	meter   *meter
	values  scriptMaker
	texts   *glua.LTable           // the library of strings
	modules map[string]glua.LValue // what was required

	versions map[string]*version // of its files
	idle     []*glua.LState
	running  *glua.LState           // the thread of the handler that runs
	busy     map[*glua.LState]*task // of the threads of handlers that wait
	spare    *task                  // to be used again
	closer   *glua.LFunction        // see protect.go
	pending  map[*job]struct{}      // functions that wait for their time, or for their turn

	begin    *glua.LFunction               // what start was given
	inits    []*glua.LFunction             // what init was given, for before that
	handler  *glua.LFunction               // what dispatch was given
	info     *glua.LFunction               // what info_func was given
	messages uint64                        // that have come
	sessions bool                          // it is given the number of the request and the sender first, as in skynet
	session  uint64                        // the number of the last request
	task     *task                         // what runs
	waiting  int                           // handlers that wait
	timers   uint64                        // the number of the last one
	targets  map[string]actor.Ref[Message] // by what self has returned there
	accounts map[actor.Ref[Message]]*account
	reached  map[string][]reached   // actors of Go, by their addresses
	asking   int                    // bytes of the requests to actors of Go that handlers wait for
	waiters  map[glua.LValue]*pause // by the token
	sharing  map[string]shared      // what was shared with the service

	requestMethods *glua.LTable // the metatable of a request
	errors         *glua.LTable // the metatable of an error with a name
}

// task is a handler under way: of a message, of a job, or the start.
type task struct {
	thread *glua.LState
	kept   bool    // something may refer to it when it has ended
	asked  *asked  // nil if nobody waits for an answer
	parcel *parcel // of the message, nil if it is none
	number uint64  // of the request, for scripts of skynet; 0 if nobody waits for an answer
	sender actor.PID
	body   int64 // bytes of the message, which the engine has until the handler ends
	nested int   // coroutines that have resumed each other

	handle  *handle                 // nil if no script has it
	killed  bool                    // it does not go on
	pause   *pause                  // in which it waits, nil if that is none
	promise *actor.Promised[answer] // of the answer, nil if there is none

	loading map[string]bool // modules whose files are being run; handlers do not see those of others
	rerun   *rerun          // for what the file leaves that is being run again
	what    string          // that is no message

	waits wait // what it waits for, if at is not nil
	at    *glua.LState
	since time.Time
}

// job is a function that the service has ordered for itself.
type job struct {
	owner *service        // a restart leaves the jobs of the last incarnation in the mailbox
	fn    *glua.LFunction // nil if the job was taken back
	args  []glua.LValue

	timer  string  // its key, empty if the function is called next
	handle *handle // nil if no script has it
}

// Init loads the file and starts the service.
func (s *service) Init(ctx *actor.Context[Message]) error {
	s.ctx = ctx
	if s.account.pid.IsZero() {
		s.account.pid = ctx.Self().PID()
		s.rt.accounts.Store(s.account.pid, s.account)
	}
	s.open()
	chunk, err := s.chunk(s.file)
	if err != nil {
		return err
	}
	args, err := s.values.unpack(s.args)
	if err != nil {
		return err
	}
	if err := s.run(&task{what: loadedFile}, s.root.NewFunctionFromProto(chunk), args...); err != nil {
		return err
	}
	handed, err := s.values.unpack(s.account.handed)
	if err != nil {
		return err
	}
	for _, f := range append(s.inits, s.begin) {
		if f == nil {
			continue
		}
		if err := s.run(&task{what: startFunction}, f, handed...); err != nil {
			return err
		}
	}
	s.account.handed = nil
	return nil
}

// Receive handles a message. A script that fails fails the message, not the actor, unless it has no memory any more.
func (s *service) Receive(ctx *actor.Context[Message], m Message) error {
	var err error
	switch m := m.(type) {
	case *asked:
		m.leave()
		err = s.handle(m, &m.parcel)
		if err != nil && !errors.Is(err, ErrMemory) {
			return actor.Refuse(ctx, err)
		}
		return err
	case *told:
		m.leave()
		err = s.handle(nil, &m.parcel)
	case *job:
		if m.owner != s {
			return nil
		}
		delete(s.pending, m)
		if m.fn == nil {
			return nil
		}
		t := &task{what: ownFunction, handle: m.handle}
		if h := m.handle; h != nil {
			h.job, h.task = nil, t
		}
		err = s.run(t, m.fn, m.args...)
	case *injected:
		return s.inject(ctx, m)
	case *reloading:
		return s.reload(ctx, m)
	case *debugging:
		return s.debug(ctx, m)
	case *pause:
		m.begin(ctx)
	case *arrived:
		s.arrive(m)
	}
	if errors.Is(err, ErrMemory) {
		return err
	}
	if err != nil && !errors.Is(err, errKilled) {
		s.logFailure(err)
	}
	return nil
}

// handle passes the values of a message to the function that dispatch was given. m is nil if nobody
// waits for an answer.
func (s *service) handle(m *asked, p *parcel) error {
	if s.handler == nil {
		return &Error{Text: s.file + ": the service takes no messages: it has not called dispatch"}
	}
	s.messages++
	body := p.now().body
	args, err := s.values.unpackScratch(body)
	if err != nil {
		return err
	}
	t := s.spare
	if s.spare = nil; t == nil {
		t = &task{}
	}
	*t = task{asked: m, parcel: p, sender: s.ctx.Sender(), body: int64(len(body))}
	if s.sessions {
		args = append(s.origin(t), args...)
	}
	err = s.run(t, s.handler, args...)
	if !t.kept {
		s.spare = t
	}
	return err
}

// origin returns the number of a request, 0 for a message that nobody waits for, and its sender.
func (s *service) origin(t *task) []glua.LValue {
	if t.asked != nil {
		s.session++
		t.number = s.session
	}
	return []glua.LValue{glua.LNumber(t.number), glua.LString(t.sender.String())}
}

// run calls a function on a thread. It clears the list of the arguments, which are on the thread then.
func (s *service) run(t *task, fn *glua.LFunction, args ...glua.LValue) error {
	l := s.thread()
	t.thread, s.running = l, l
	s.task, s.root.G.CurrentThread = t, l
	s.meter.begin()
	l.Push(fn)
	pushAll(l, args)
	clear(args)
	err := l.PCall(len(args), 0, nil)
	if err != nil {
		closeVariables(l, 0)
	}
	s.task, s.running = nil, nil
	if s.meter.debug != nil {
		s.meter.debug.forget(l)
	}
	l.SetTop(0)
	if len(s.idle) < maxIdle && len(stateOf(l).reg.array) <= firstValues+growValuesBy {
		s.idle = append(s.idle, l)
	}
	if t.handle != nil {
		t.handle.task = nil
	}
	if t.killed && !s.meter.full {
		return errKilled
	}
	if err != nil && !s.meter.exit {
		return s.failure(err)
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
	return s.newThread()
}

func (s *service) newThread() *glua.LState {
	l, _ := s.root.NewThread()
	s.meter.meterThread(l)
	return l
}

// wait runs f, which waits as a handler does: the service goes on with other handlers meanwhile. l is the thread that
// waits. A handler that has waited has its steps again: they limit how long it holds up the others.
func (s *service) wait(l *glua.LState, what wait, f func() error) error {
	if s.waiting >= maxWaiting {
		return fmt.Errorf("%d handlers of the service wait already: %w", s.waiting, actor.ErrTooManyWaiting)
	}
	t, steps := s.task, s.meter.steps
	switch {
	case t.what == restartFunction || t.what == infoFunction:
		return fmt.Errorf("%s must not wait", t.what)
	case t.killed:
		return errKilled
	}
	if !s.meter.charge(deepSize(l)) {
		return s.meter.exhausted()
	}
	s.waiting++
	s.busy[t.thread], s.running = t, nil
	t.waits, t.at, t.since = what, l, time.Now()
	err := f()
	t.at = nil
	s.waiting--
	delete(s.busy, t.thread)
	s.running = t.thread
	s.task, s.root.G.CurrentThread = t, l
	s.meter.begin()
	if t.killed {
		s.meter.killed, s.meter.steps = true, -1
		return errKilled
	}
	if err != nil {
		s.meter.steps = min(steps, s.meter.steps)
	}
	return err
}

// deepSize returns what the functions under way take of the stack of Go beyond what any handler takes that waits.
func deepSize(l *glua.LState) (size int64) {
	const usual = 4
	nested := int64(-usual)
	for ; l != nil; l = l.Parent {
		for f := stateOf(l).currentFrame; f != nil; f = f.Parent {
			if f.nests() {
				nested++
			}
		}
	}
	return max(nested, 0) * nestedSize
}

// roots adds to a walk all values that the service can reach.
func (s *service) roots(w *walker) {
	w.size += int64(len(s.meter.lists)) * keyStepSize
	w.add(s.root.G.Global)
	w.add(s.root.G.Registry)
	w.add(s.texts)
	w.add(s.values.int64s)
	w.add(s.errors)
	for _, f := range append(s.inits, s.begin, s.handler, s.info) {
		w.add(f)
	}
	for _, v := range s.modules {
		w.add(v)
	}
	w.add(s.running)
	for l, t := range s.busy {
		w.add(l)
		w.size += t.body
	}
	for _, l := range s.idle { // where the functions of their last handlers may be left
		w.add(l)
	}
	for token := range s.waiters {
		w.add(token)
	}
	for _, v := range s.sharing {
		w.add(v.value)
	}
	for j := range s.pending {
		w.add(j.fn)
		w.all(j.args)
		if j.handle != nil {
			w.add(j.handle.value)
		}
	}
}

// later orders a function for a time from now, 0 for the next turn, and returns the handle of its handler.
func (s *service) later(l *glua.LState, d time.Duration, fn *glua.LFunction, args []glua.LValue) (*handle, error) {
	h := s.newHandle(l)
	j := &job{owner: s, fn: fn, args: args, handle: h}
	if err := s.expect(j); err != nil {
		return nil, err
	}
	h.job = j
	if d <= 0 {
		s.ctx.Self().Tell(s.ctx, j)
		return h, nil
	}
	s.timers++
	j.timer = fmt.Sprint("lua ", s.timers)
	s.ctx.After(j.timer, d, j)
	return h, nil
}

// expect counts a function that will be called.
func (s *service) expect(j *job) error {
	if len(s.pending) >= maxJobs {
		return fmt.Errorf("%d functions of the service wait for their turn already", len(s.pending))
	}
	s.pending[j] = struct{}{}
	return nil
}

// accountOf returns the account of a service, which may have ended.
func (s *service) accountOf(to actor.Ref[Message]) *account {
	if a := s.accounts[to]; a != nil {
		return a
	}
	a := s.rt.accountOf(to.PID())
	if len(s.accounts) >= maxTargets {
		clear(s.accounts)
	}
	s.accounts[to] = a
	return a
}

// target returns the service with an address: what self returns, a name or a path.
func (s *service) target(address string) (actor.Ref[Message], error) {
	switch {
	case len(address) > maxAddress:
		return actor.Ref[Message]{}, fmt.Errorf("an address has at most %d bytes", maxAddress)
	case strings.HasPrefix(address, "/"):
		return actor.LookupPath[Message](s.rt.sys, address)
	case strings.HasPrefix(address, "."):
		if ref, ok := s.rt.Find(address); ok {
			return ref, nil
		}
		return actor.Ref[Message]{}, errNoName
	}
	if to, ok := s.targets[address]; ok {
		return to, nil
	}
	pid, err := actor.ParsePID(address)
	if err != nil {
		return actor.Ref[Message]{}, fmt.Errorf("an address is what self returns, a name that begins with a dot, or a path that begins with /: %w", err)
	}
	if pid.Node() != s.rt.sys.Name() {
		return actor.Ref[Message]{}, fmt.Errorf("%w: it is of another system", actor.ErrNotAccepted)
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
