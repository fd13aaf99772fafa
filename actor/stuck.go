package actor

import (
	"bytes"
	"context"
	"fmt"
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
	if !c.sys.audience.listened() {
		return
	}
	at := c.impl.onStage()
	c.sys.publish(Stuck{PID: c.pid(), For: lasted, MessageType: at.messageType, Sender: at.sender, Stack: stackOf(w.stage.Load())})
}

// stackLabel names the goroutine of each coroutine, so that its stack can be found.
const stackLabel = "greenroom_stack"

// label names the calling goroutine.
func label(id uint64) {
	pprof.SetGoroutineLabels(pprof.WithLabels(context.Background(), pprof.Labels(stackLabel, strconv.FormatUint(id, 10))))
}

// stackOf returns the stack of the coroutine with that number, as the goroutine profile
// prints it: innermost call first. It stops the world for a moment.
func stackOf(id uint64) string {
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
