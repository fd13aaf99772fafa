package lua

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unsafe"

	glua "github.com/yuin/gopher-lua"

	"github.com/greenroom-go/greenroom/actor"
)

// The limits of a debugger.
const (
	maxBreaks  = 64
	maxStopped = 16               // further handlers pass a breakpoint by
	maxLooked  = 1000             // threads that are known
	stopTime   = 10 * time.Minute // then a handler continues
	shownText  = 100              // bytes of a text
	shownItems = 10               // fields of a table
)

// debugger stops handlers at lines. It belongs to the service's turn. A handler that is stopped
// waits, as one that calls does: the service handles its next messages meanwhile.
type debugger struct {
	s       *service
	breaks  []codeLine
	stopped []*stopped // the oldest first
	last    map[*stateLayout]moment
	steps   map[*stateLayout]stepping
}

// codeLine is a line of a file.
type codeLine struct {
	file string
	line int
}

func (p codeLine) String() string { return p.file + ":" + strconv.Itoa(p.line) }

// moment is the last instruction of a thread that was looked at.
type moment struct {
	frame *frameLayout
	fn    *glua.LFunction
	line  int
	pc    int
}

// stepping stops a thread at the next line, in functions that are at most so deep.
type stepping struct{ deep int }

// anyDepth is more than functions can be deep.
const anyDepth = frameRoom + 1

// stopped is a handler at a line.
type stopped struct {
	pause
	task   *task
	thread *glua.LState
	at     codeLine
}

// isDebugged reports whether a handler may be stopped: nobody could let it go on while the service
// starts, ends or is changed.
func (t *task) isDebugged() bool { return t != nil && (t.what == "" || t.what == ownFunction) }

// look is called before each instruction. It stops the handler if there is a breakpoint, or a step ends.
func (d *debugger) look(c *counter) error {
	frame := c.state.currentFrame
	proto := frame.Fn.Proto
	pc := frame.Pc - 1
	now := moment{frame, frame.Fn, proto.DbgSourcePositions[pc], pc}
	before, known := d.last[c.state]
	if !known && len(d.last) >= maxLooked {
		clear(d.last) // coroutines are not taken out one by one
	}
	d.last[c.state] = now
	if known && before.frame == now.frame && before.fn == now.fn && before.line == now.line && before.pc < now.pc {
		return nil // further on in the same line
	}
	at := codeLine{proto.SourceName, now.line}
	step, isStep := d.steps[c.state]
	if !slices.Contains(d.breaks, at) && (!isStep || frame.Idx > step.deep) {
		return nil
	}
	if !d.s.task.isDebugged() || len(d.stopped) >= maxStopped {
		return nil
	}
	delete(d.steps, c.state)
	return d.stop((*glua.LState)(unsafe.Pointer(c.state)), at)
}

// stop has a handler wait until the debugger lets it go on.
func (d *debugger) stop(l *glua.LState, at codeLine) error {
	d.s.task.kept = true
	h := &stopped{task: d.s.task, thread: l, at: at}
	d.stopped = append(d.stopped, h)
	err := d.s.pauseFor(l, &h.pause, wait{"debugger", at.String()}, stopTime)
	d.stopped = slices.DeleteFunc(d.stopped, func(other *stopped) bool { return other == h })
	return err
}

// forget drops what is known of a thread whose handler has ended.
func (d *debugger) forget(l *glua.LState) {
	delete(d.last, stateOf(l))
	delete(d.steps, stateOf(l))
}

// Debugged is what a debugger shows of a service.
type Debugged struct {
	Breaks  []string         `json:"breaks"`  // breakpoints, as file:line
	Stopped []StoppedHandler `json:"stopped"` // the one that has been stopped longest first
}

// StoppedHandler is a handler that a debugger has stopped. Its variables are those of the innermost function.
type StoppedHandler struct {
	Handles  string     `json:"handles"`
	At       string     `json:"at"`
	Stack    []string   `json:"stack"`
	Locals   []Variable `json:"locals"`
	Upvalues []Variable `json:"upvalues"`
}

// Variable is a local variable and its value as a text.
type Variable struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// debugging is an order to the debugger of a service.
type debugging struct {
	actor.Returns[Debugged]
	order string
	at    codeLine
}

func (*debugging) message() {}

// The orders of a debugger.
const (
	debugShow     = ""
	debugBreak    = "break"
	debugClear    = "clear"
	debugStep     = "step"
	debugNext     = "next"
	debugContinue = "continue"
	debugOff      = "off"
)

// Debug gives an order to the debugger of a service, and returns what that shows then:
//
//	break bank.lua:12   stops each handler at the line
//	clear bank.lua:12   removes the breakpoint
//	step, next          resumes the handler that has been stopped longest, until its next line; next does not stop in functions that it calls
//	continue            resumes it
//	off                 ends the debugger; all handlers continue
//
// The empty order changes nothing. Stopped handlers wait, for ten minutes at most; meanwhile their service handles
// other messages, and other services are not affected. The time limits of their calls and of their callers still apply.
// Nobody is stopped while a file is loaded or in start's function. Debug fails when the order is none of these, and as
// [actor.Ask] does.
func (rt *Runtime) Debug(ctx context.Context, to actor.Ref[Message], order string) (Debugged, error) {
	name, at, _ := strings.Cut(strings.TrimSpace(order), " ")
	m := &debugging{order: name}
	switch name {
	case debugBreak, debugClear:
		file, line, ok := strings.Cut(at, ":")
		n, err := strconv.Atoi(line)
		if !ok || err != nil || n < 1 || file == "" || len(file) > maxFileName {
			return Debugged{}, fmt.Errorf("debug: %s needs a line, as bank.lua:12, not %.100q", name, at)
		}
		m.at = codeLine{file, n}
	case debugShow, debugStep, debugNext, debugContinue, debugOff:
		if at != "" {
			return Debugged{}, fmt.Errorf("debug: %s takes no argument, not %.100q", name, at)
		}
	default:
		return Debugged{}, fmt.Errorf("debug: the order must be break, clear, step, next, continue or off, not %.100q", name)
	}
	return actor.Ask(ctx, to, m)
}

// yields is how often the debugger lets others go before it shows what has become of a step.
const yields = 3

// debug obeys an order.
func (s *service) debug(ctx *actor.Context[Message], m *debugging) error {
	var shown Debugged
	err := s.run(&task{what: debuggerOrder}, s.root.NewFunction(func(l *glua.LState) int {
		if err := s.obey(m); err != nil {
			l.RaiseError("debug: %s", err)
		}
		if m.order == debugStep || m.order == debugNext || m.order == debugContinue {
			for range yields {
				s.yield(l)
			}
		}
		shown = s.meter.debug.show()
		return 0
	}))
	if err != nil {
		return actor.Refuse(ctx, err)
	}
	actor.Reply(ctx, m, shown)
	return nil
}

func (s *service) obey(m *debugging) error {
	d := s.meter.debug
	if d == nil && m.order == debugBreak {
		d = &debugger{s: s, last: map[*stateLayout]moment{}, steps: map[*stateLayout]stepping{}}
		s.meter.debug = d
	}
	if d == nil {
		return nil
	}
	switch m.order {
	case debugBreak:
		if len(d.breaks) >= maxBreaks {
			return fmt.Errorf("there are %d breakpoints already", maxBreaks)
		}
		if !slices.Contains(d.breaks, m.at) {
			d.breaks = append(d.breaks, m.at)
		}
	case debugClear:
		d.breaks = slices.DeleteFunc(d.breaks, func(p codeLine) bool { return p == m.at })
	case debugStep, debugNext, debugContinue:
		return d.resume(m.order)
	case debugOff:
		s.meter.debug = nil
		for _, h := range d.stopped {
			h.wake()
		}
	}
	return nil
}

// resume lets the handler go on that has been stopped longest.
func (d *debugger) resume(order string) error {
	if len(d.stopped) == 0 {
		return errors.New("no handler is stopped")
	}
	h := d.stopped[0]
	state := stateOf(h.thread)
	switch order {
	case debugStep:
		d.steps[state] = stepping{anyDepth}
	case debugNext:
		d.steps[state] = stepping{state.currentFrame.Idx}
	}
	h.wake()
	return nil
}

func (d *debugger) show() (shown Debugged) {
	if d == nil {
		return shown
	}
	for _, p := range d.breaks {
		shown.Breaks = append(shown.Breaks, p.String())
	}
	for _, h := range d.stopped {
		if !h.woken {
			shown.Stopped = append(shown.Stopped, h.show())
		}
	}
	return shown
}

func (h *stopped) show() StoppedHandler {
	shown := StoppedHandler{Handles: h.task.handles(), At: h.at.String(), Stack: traceback(h.thread)}
	state := stateOf(h.thread)
	frame := state.currentFrame
	fn := frame.Fn
	for i := 1; ; i++ {
		name, ok := fn.LocalName(i, frame.Pc)
		if !ok {
			break
		}
		if !strings.HasPrefix(name, "(") { // of a loop
			shown.Locals = append(shown.Locals, Variable{name, valueText(state.reg.array[frame.LocalBase+i-1], 0)})
		}
	}
	for i, u := range fn.Upvalues {
		if u != nil {
			shown.Upvalues = append(shown.Upvalues, Variable{fn.Proto.DbgUpvalues[i], valueText(u.Value(), 0)})
		}
	}
	return shown
}

// valueText shows a value, a table with its first fields.
func valueText(v glua.LValue, depth int) string {
	switch v := v.(type) {
	case glua.LString:
		if len(v) > shownText {
			return strconv.Quote(string(v[:shownText])) + "…"
		}
		return strconv.Quote(string(v))
	case glua.LNumber, glua.LBool, *glua.LNilType:
		return v.String()
	case *glua.LUserData:
		if n, ok := v.Value.(int64); ok {
			return strconv.FormatInt(n, 10)
		}
	case *glua.LTable:
		return tableText(v, depth)
	}
	return typeName(v)
}

func tableText(t *glua.LTable, depth int) string {
	if depth > 1 {
		return "{…}"
	}
	var parts []string
	for k, v := t.Next(glua.LNil); k != glua.LNil; k, v = t.Next(k) {
		if len(parts) == shownItems {
			parts = append(parts, "…")
			break
		}
		key := keyText(k) + " = "
		if _, ok := k.(glua.LNumber); ok {
			key = "[" + keyText(k) + "] = "
		}
		parts = append(parts, key+valueText(v, depth+1))
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// String returns it as the console shows it.
func (d Debugged) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "breakpoints: %s\n", strings.Join(d.Breaks, " "))
	if len(d.Stopped) == 0 {
		b.WriteString("no handler is stopped\n")
	}
	for _, h := range d.Stopped {
		fmt.Fprintf(&b, "%s is stopped at %s\n", h.Handles, h.At)
		for _, line := range h.Stack {
			b.WriteString("  " + line + "\n")
		}
		for _, v := range h.Locals {
			fmt.Fprintf(&b, "  local %s = %s\n", v.Name, v.Value)
		}
		for _, v := range h.Upvalues {
			fmt.Fprintf(&b, "  upvalue %s = %s\n", v.Name, v.Value)
		}
	}
	return b.String()
}
