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

// Stuck says that an actor of the pool has been in one handler for long: for 100 ms, for
// 1 s and for 5 s, one event each. What a handler waits for through the runtime (Ask, Sleep,
// Blocking) does not count.
type Stuck struct {
	PID         PID
	For         time.Duration // at least
	MessageType string        // what it handles; empty in Init and Terminate
	Sender      PID           // who sent that; zero if it came from outside
	Stack       string        // of the goroutine that is in the handler
}

func (Stuck) event() {}

// reportStuck publishes a Stuck if somebody listens.
func (s *scheduler) reportStuck(w *worker, c *core, lasted time.Duration) {
	if !c.sys().listeners.any() {
		return
	}
	at := c.impl().currentMessage()
	c.sys().publish(Stuck{PID: c.pid(), For: lasted, MessageType: at.messageType, Sender: at.sender, Stack: stackOf(w.goroutine.Load())})
}

// stackLabel names the goroutine of each coroutine, so that its stack can be found.
const stackLabel = "greenroom_stack"

// label names the calling goroutine.
func label(id uint64) {
	pprof.SetGoroutineLabels(pprof.WithLabels(context.Background(), pprof.Labels(stackLabel, strconv.FormatUint(id, 10))))
}

// stackOf returns the stack of the goroutine with that number, innermost call first.
func stackOf(id uint64) string {
	if stack := labeledStack(id); stack != "" {
		return stack
	}
	return numberedStack(id) // the handler has replaced the label
}

// labeledStack finds the goroutine in the profile, which stops the world for a moment only.
func labeledStack(id uint64) string {
	var b bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&b, 1); err != nil {
		return ""
	}
	mine := fmt.Sprintf("%q:%q", stackLabel, strconv.FormatUint(id, 10))
	for entry := range strings.SplitSeq(b.String(), "\n\n") {
		// A goroutine that the handler has started has inherited the label.
		if strings.Contains(entry, mine) && strings.Contains(entry, "(*coroutine).loop") {
			_, frames, _ := strings.Cut(entry, "# labels:")
			_, frames, _ = strings.Cut(frames, "\n")
			return frames
		}
	}
	return ""
}

// stackMost bounds the text of all stacks.
const stackMost = 64 << 20

// numberedStack finds the goroutine in the text of all stacks, for which the world stops
// until it is written.
func numberedStack(id uint64) string {
	text := make([]byte, 1<<20)
	n := runtime.Stack(text, true)
	for n == len(text) && n < stackMost {
		text = make([]byte, 2*n)
		n = runtime.Stack(text, true)
	}
	_, stack, found := strings.Cut("\n\n"+string(text[:n]), fmt.Sprintf("\n\ngoroutine %d [", id))
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
