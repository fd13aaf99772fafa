package lua

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	glua "github.com/yuin/gopher-lua"
)

// ErrSteps says that a handler has used up its steps, see [Config].Steps. The handler has failed;
// the service continues.
var ErrSteps = errors.New("out of steps: the handler neither ended nor waited in time")

// ErrInterrupted says that a handler was ended by [Runtime.Interrupt]. The handler has failed; the
// service continues.
var ErrInterrupted = errors.New("interrupted: somebody has ended the handler")

// ErrMemory says that the values of a service take more memory than [Config].MemoryLimit. The service has failed.
var ErrMemory = errors.New("out of memory: the values of the service take more than its limit")

// The limits of one instruction.
const (
	maxString = 1 << 20 // bytes of a string
	maxHoles  = 1 << 16 // of a list, made by one assignment
)

var (
	errString = errors.New("a string has at most 1048576 bytes")
	errDeep   = fmt.Errorf("stack overflow: more than %d functions, pcall and metamethods among them, have called each other", callDepth)
	errHoles  = errors.New("an integer key must not be more than 65536 above the end of the list: use its text as the key")
)

// meter limits what the handlers of a service do. Before each instruction the interpreter asks the context of its
// thread whether it is done: that is where instructions are counted and where what they will allocate is charged. When
// as much was charged as there is room for, the live values are walked, which says what is left.
//
// The meter belongs to the service's turn.
type meter struct {
	limit  int64 // bytes
	budget int64 // steps from one wait to the next

	steps int64 // left; below 0 every instruction fails
	bytes int64 // left until the values are walked
	full  bool  // out of memory, for good
	exit  bool  // the service has exited

	killed bool // killthread has ended the handler

	interrupt   *atomic.Bool // set by others to end the handler that runs
	interrupted bool         // it was ended

	debug *debugger // nil for none

	making int64 // bytes of values that are being unpacked: a walk does not find them
	fault  error // what the instruction fails with

	lists keySteps

	roots func(w *walker)
	texts map[*glua.LFunction]struct{} // the library of strings
	done  chan struct{}                // closed
}

func newMeter(cfg Config, interrupt *atomic.Bool, roots func(w *walker)) *meter {
	m := &meter{
		interrupt: interrupt,
		limit:     cfg.MemoryLimit, budget: cfg.Steps, steps: cfg.Steps, bytes: cfg.MemoryLimit, roots: roots,
	}
	m.done = make(chan struct{})
	close(m.done)
	return m
}

// begin gives the handler that runs now its steps.
func (m *meter) begin() {
	m.steps, m.interrupted, m.killed = m.budget, false, false
	if m.interrupt.Load() { // it was for the handler before
		m.interrupt.Store(false)
	}
	if m.full || m.exit {
		m.steps = -1
	}
}

// spend takes steps for what a function of Go has to do, before it does it. It raises an error if none is left.
func (m *meter) spend(l *glua.LState, steps int) {
	m.steps -= int64(steps)
	if m.steps < 0 {
		l.RaiseError("%s", m.exhausted())
	}
}

// exhausted returns why there are no steps.
func (m *meter) exhausted() error {
	m.steps = -1
	switch {
	case m.exit:
		return errExit
	case m.full:
		return ErrMemory
	case m.killed:
		return errKilled
	case m.interrupted:
		return ErrInterrupted
	}
	return ErrSteps
}

// take charges what a function of Go is going to allocate. It raises an error if there is no room.
func (m *meter) take(l *glua.LState, bytes int) {
	if !m.charge(int64(bytes)) {
		l.RaiseError("%s", m.exhausted())
	}
}

// charge takes bytes for what will be allocated, and reports whether there is room. Values may take an eighth more
// than the limit until they are walked again: without that, a service that is close to it would do nothing else.
func (m *meter) charge(bytes int64) bool {
	m.bytes -= bytes
	if m.bytes >= 0 {
		return true
	}
	if m.full {
		return false
	}
	w := newWalker(m.limit)
	m.roots(w)
	size := w.walk() + m.making
	m.steps -= int64(w.count) / 2
	if size > m.limit || size+bytes > m.limit+m.limit/8 {
		m.full = true
		return false
	}
	m.bytes = max(m.limit-size, m.limit/8) - bytes
	return true
}

// make charges for a value that is being unpacked.
func (m *meter) make(bytes int64) {
	m.charge(bytes)
	m.making += bytes
}

// text checks and charges a string that is going to be made, and the steps for that.
func (m *meter) text(l *glua.LState, size int) {
	m.spend(l, min(size, 2*maxString)/bytesPerStep)
	if size > maxString {
		l.RaiseError("%s", errString)
	}
	m.take(l, size+stringHeader)
}

// counter is the context of a thread. It is never done in the sense of contexts: the interpreter does not look at
// anything but Done before an instruction, and at Err after that.
type counter struct {
	*meter
	state *stateLayout
	stack int // length of the thread's values when it was last charged
	deep  int // how many functions were under way at the last instruction
	guard guard
}

// meterThread makes the thread count.
func (m *meter) meterThread(l *glua.LState) {
	l.SetContext(&counter{meter: m, state: stateOf(l)})
}

// Done is called before each instruction. It returns nil, or a channel that is closed. What most
// instructions of a program take is found out here; doneWeighed knows the rest.
func (c *counter) Done() <-chan struct{} {
	m := c.meter
	m.steps--
	if m.steps < 0 || m.debug != nil {
		if c.stops() {
			return m.done
		}
	}
	frame := c.state.currentFrame
	proto := frame.Fn.Proto
	inst := instruction(proto.Code[frame.Pc-1])
	switch weights[inst.op()] {
	case free:
		return nil
	case jumps:
		if !m.interrupt.Load() {
			return nil
		}
	case boxes:
		if m.bytes -= numberSize; m.bytes >= 0 && !m.interrupt.Load() {
			return nil
		}
	case compares: // a number with a number, or it is an error
		if c.isNumber(frame, inst.b()) {
			return nil
		}
	case calculates:
		if m.bytes -= numberSize; m.bytes >= 0 && c.isNumber(frame, inst.b()) && c.isNumber(frame, inst.c()) {
			return nil
		}
	case divides:
		if steps, ok := c.dividing(frame, inst); ok {
			m.steps -= steps
			if m.bytes -= numberSize; m.bytes >= 0 {
				return nil
			}
		}
	case looks:
		if isPlain(c.local(frame, inst.b())) && isShort(c.operand(frame, inst.c())) {
			return nil
		}
	case stores:
		if isOfList(c.local(frame, inst.a()), c.operand(frame, inst.b())) {
			return nil
		}
	}
	return c.doneWeighed(frame, inst)
}

// stops reports whether there are no steps left, or the debugger has to stop the handler.
func (c *counter) stops() bool {
	m := c.meter
	if m.steps < 0 {
		m.fault = m.exhausted()
		return true
	}
	m.fault = m.debug.look(c)
	return m.fault != nil
}

// doneWeighed is Done for an instruction that has a weight.
func (c *counter) doneWeighed(frame *frameLayout, inst instruction) <-chan struct{} {
	m := c.meter
	if m.interrupt.Load() {
		m.interrupted = true
		m.fault = m.exhausted()
		return m.done
	}
	c.deep = frame.Idx
	if c.deep >= callDepth {
		m.fault = errDeep
		return m.done
	}
	if n := len(c.state.reg.array); n != c.stack {
		grown := int64(n-c.stack) * wordSize
		c.stack = n
		if !m.charge(max(grown, 0)) {
			m.fault = m.exhausted()
			return m.done
		}
	}
	cost := c.weigh(frame, inst)
	m.steps -= cost.steps
	switch {
	case cost.fault != nil:
		m.fault = cost.fault
		return m.done
	case !m.charge(cost.bytes) || m.steps < 0:
		m.fault = m.exhausted()
		return m.done
	}
	return nil
}

// Err returns why Done has returned a closed channel.
func (c *counter) Err() error { return c.fault }

// Deadline returns none.
func (c *counter) Deadline() (deadline time.Time, ok bool) { return time.Time{}, false }

// Value returns nil.
func (c *counter) Value(any) any { return nil }

var _ context.Context = (*counter)(nil)
