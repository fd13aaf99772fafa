package actor

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"runtime/pprof"
	"strconv"
	"strings"
	"time"
)

// stuckAfter is when an actor that is still in the same handler is reported.
var stuckAfter = [...]time.Duration{100 * time.Millisecond, time.Second, 5 * time.Second}

// Stuck says that an actor of the pool has been in one handler for long: for 100 ms, for 1 s and
// for 5 s, one event each. Waits through the runtime (Ask, Sleep, Blocking) do not count. Without a
// subscriber it is logged: see [WithWarnings].
type Stuck struct {
	PID         PID
	For         time.Duration // at least
	MessageType string        // what it handles; empty in Init and Terminate
	Sender      PID           // who sent that; zero if it came from outside
	Stack       string        // of the goroutine that is in the handler
}

func (Stuck) event() {}

// stuckReport is a Stuck of which only the stack is missing, and the goroutine that has it.
type stuckReport struct {
	sys       *System
	event     Stuck
	goroutine uint64
	heard     bool // somebody listens; otherwise it is for the log
}

const (
	stuckMost  = 256                    // reports in one round: what is more waits for a later one
	stuckShare = 4                      // of the time that a round takes is what passes until the next
	stuckYield = 200 * time.Microsecond // of a round, after which others get the processor
)

// noteStuck puts a report on the list of those that are due. It reports false when there is no
// room for it: then it is due again at the next tick.
func (m *monitor) noteStuck(w *worker, c *core, lasted time.Duration) bool {
	sys := c.sys()
	heard := sys.listeners.hears(Stuck{})
	if !heard && (sys.warnings.off || lasted < warnStuckAfter) {
		return true
	}
	if len(m.stuck) == stuckMost || m.reporting.Load() || m.resting(time.Now()) {
		return false
	}
	if !heard && !sys.warnings.due(warning{actor: c.id, stuck: true}, time.Now()) {
		return true
	}
	at := c.impl().currentMessage()
	m.stuck = append(m.stuck, stuckReport{sys, Stuck{PID: c.pid(), For: lasted, MessageType: at.messageType, Sender: at.sender}, w.co.Load().id, heard})
	return true
}

// resting reports whether a round of reports has just been.
func (m *monitor) resting(now time.Time) bool { return now.UnixNano() < m.restUntil.Load() }

// reportStuck publishes what noteStuck has gathered. To find the stacks takes milliseconds with
// many goroutines, however few are reported: that is done for all of a round at once, beside the
// monitor, which others wait for, and with rests.
func (s *scheduler) reportStuck() {
	m := &s.monitor
	if len(m.stuck) == 0 {
		return
	}
	due := m.stuck
	m.stuck = nil
	m.reporting.Store(true)
	s.goroutines.start(func() {
		began := time.Now()
		defer func() {
			now := time.Now()
			m.restUntil.Store(now.Add(stuckShare * now.Sub(began)).UnixNano())
			m.reporting.Store(false)
		}()
		stacks, text := labeledStacks(), ""
		for _, r := range due {
			if r.event.Stack = stacks[r.goroutine]; r.event.Stack == "" { // the handler has replaced the label
				if text == "" {
					text = allStacks()
				}
				r.event.Stack = stackIn(text, r.goroutine)
			}
			if r.heard {
				r.sys.publish(r.event)
			} else {
				r.sys.warnStuck(r.event)
			}
		}
	})
}

// stackLabel names the goroutine of each coroutine, so that its stack can be found.
const stackLabel = "greenroom_stack"

// label names the calling goroutine.
func label(id uint64) {
	pprof.SetGoroutineLabels(pprof.WithLabels(context.Background(), pprof.Labels(stackLabel, strconv.FormatUint(id, 10))))
}

// labeledStacks returns the stacks of all coroutines by the number of the goroutine, innermost
// call first. It takes them from the profile, for which the world stops for a moment only.
func labeledStacks() map[uint64]string {
	b := yieldingBuffer{yielded: time.Now()}
	if err := pprof.Lookup("goroutine").WriteTo(&b, 1); err != nil {
		return nil
	}
	stacks := make(map[uint64]string)
	label := strconv.Quote(stackLabel) + `:"`
	for entry := range strings.SplitSeq(b.String(), "\n\n") {
		_, labels, _ := strings.Cut(entry, "# labels:")
		labels, frames, _ := strings.Cut(labels, "\n")
		_, mine, _ := strings.Cut(labels, label)
		number, _, _ := strings.Cut(mine, `"`)
		// A goroutine that the handler has started has inherited the label.
		if id, err := strconv.ParseUint(number, 10, 64); err == nil && strings.Contains(frames, "(*coroutine).loop") {
			stacks[id] = frames
		}
	}
	return stacks
}

// yieldingBuffer lets others have the processor while much is written to it, as Go would after 10 ms only.
type yieldingBuffer struct {
	bytes.Buffer
	yielded time.Time
}

func (b *yieldingBuffer) Write(text []byte) (int, error) {
	if time.Since(b.yielded) >= stuckYield {
		runtime.Gosched()
		b.yielded = time.Now()
	}
	return b.Buffer.Write(text)
}

// stackMost bounds the text of all stacks.
const stackMost = 64 << 20

// allStacks returns the text of all stacks, for which the world stops until it is written.
func allStacks() string {
	text := make([]byte, 1<<20)
	n := runtime.Stack(text, true)
	for n == len(text) && n < stackMost {
		text = make([]byte, 2*n)
		n = runtime.Stack(text, true)
	}
	return "\n\n" + string(text[:n])
}

// stackIn finds the goroutine with that number in the text of all stacks.
func stackIn(text string, id uint64) string {
	_, stack, found := strings.Cut(text, fmt.Sprintf("\n\ngoroutine %d [", id))
	if !found {
		return ""
	}
	stack, _, _ = strings.Cut(stack, "\n\n")
	_, stack, _ = strings.Cut(stack, "\n")
	return stack
}

// goroutineID returns the number of the calling goroutine, 0 if Go does not say it.
func goroutineID() uint64 {
	var text [64]byte
	words := strings.Fields(string(text[:runtime.Stack(text[:], false)]))
	if len(words) < 2 {
		return 0
	}
	id, err := strconv.ParseUint(words[1], 10, 64)
	if err != nil {
		return 0
	}
	return id
}
