package lua

import (
	"time"

	glua "github.com/yuin/gopher-lua"
)

// errKilled is what a handler ends with that killthread was called for.
var errKilled = &Error{Text: "the handler was ended by killthread"}

// handle is what scripts have of a handler: of a function that fork or timeout will call, or of the
// handler that runs. It belongs to the service's turn. When the handler has ended, it refers to
// nothing else than its value.
type handle struct {
	value *glua.LUserData
	job   *job  // not nil until the function is called
	task  *task // not nil from then on
}

// handleSize is what a handle takes.
const handleSize = userdataSize + 48

// hold counts the handle itself: the service keeps what it refers to.
func (*handle) hold(w *walker) { w.size += handleSize - userdataSize }

func (s *service) newHandle(l *glua.LState) *handle {
	s.meter.take(l, handleSize)
	h := &handle{}
	h.value = &glua.LUserData{Value: h, Metatable: glua.LNil}
	return h
}

// killThread ends a handler that waits, or takes back a function that was not called yet, and
// returns its argument. It returns nil if the handler runs or has ended.
func (s *service) killThread(l *glua.LState) int {
	h, ok := l.CheckUserData(1).Value.(*handle)
	if !ok {
		l.ArgError(1, "what fork, timeout or coroutine.running has returned expected")
	}
	switch {
	case h.job != nil:
		s.takeBack(l, h.job)
	case h.task != nil && h.task.at != nil && !h.task.killed:
		h.task.kill()
	default:
		l.Push(glua.LNil)
		return 1
	}
	l.SetTop(1)
	return 1
}

// stepsPerTimer is what it takes to take back a timer. What it has sent may be in the mailbox until
// the handler ends or waits, and nobody counts that.
const stepsPerTimer = 1000

// takeBack drops a function that was not called yet. That of a fork is in the mailbox, and counts
// as long as it is there.
func (s *service) takeBack(l *glua.LState, j *job) {
	if j.timer != "" {
		s.meter.spend(l, stepsPerTimer)
		s.ctx.Cancel(j.timer)
		delete(s.pending, j)
	}
	j.handle.job = nil
	j.handle, j.fn, j.args = nil, nil, nil
}

// isMortal reports whether others can run while the handler waits.
func (t *task) isMortal() bool {
	switch t.what {
	case loadedFile, startFunction, restartFunction, infoFunction:
		return false
	}
	return true
}

// kill ends a handler that waits. Who waits for its answer gets an error, also if the answer was promised.
func (t *task) kill() {
	t.killed = true
	if t.promise != nil {
		t.promise.Reject(errKilled)
	}
	if p := t.pause; p != nil {
		if p.leave != nil {
			p.leave() // at once: what wakes it from here on would be lost
		}
		p.wake()
	}
}

// askAside waits for an answer in a handler that may be killed: the engine would not let go of one
// that asks before it has the answer. send asks in such a way that the answer comes as a message,
// and is not called if the handler may not wait.
func (s *service) askAside(l *glua.LState, what wait, send func(r *requests)) (body []byte, err error) {
	r := &requests{pause: &pause{}}
	p := r.pause
	err = s.pauseAfter(l, p, what, forever, func() { send(r) })
	if err != nil {
		r.pause = nil
		return nil, err
	}
	return r.ready[0].answer.body, r.ready[0].err
}

// sleepAside sleeps in a handler that may be killed.
func (s *service) sleepAside(l *glua.LState, d time.Duration) error {
	p := &pause{}
	if d <= 0 {
		p.woken, d = true, forever
	}
	return s.pauseFor(l, p, wait{"sleep", ""}, d)
}
