package sim

import (
	"regexp"
	"runtime"
	"strings"
)

// guard looks for goroutines that are not the world's: a handler that starts one is not a
// matter of the seed any more.
//
// Counting is nearly free and done at each step; it sees a goroutine that is still there
// when its step is over. A strict guard looks at once, before a short goroutine can be
// gone, and at who makes an actor ready.
type guard struct {
	strict bool   // set back under the world's mu
	base   int    // goroutines that are not stacks of handlers
	bubble string // as goroutine dumps print it
	caught string // the stack of one that made an actor ready; guarded by the world's mu
}

var bubbleName = regexp.MustCompile(`synctest bubble \d+`)

func newGuard(strict bool) guard {
	var buf [256]byte
	return guard{
		strict: strict, base: runtime.NumGoroutine(),
		bubble: bubbleName.FindString(string(buf[:runtime.Stack(buf[:], false)])),
	}
}

// patient is how often the guard yields for a goroutine of a context to end.
const patient = 50

// excess returns how many goroutines there are beyond what is expected.
func (g *guard) excess(w *World) int {
	n := runtime.NumGoroutine() - g.base
	for _, node := range w.nodes {
		n -= node.driven.Stacks()
	}
	if n < 0 {
		g.base += n
		return 0
	}
	return n
}

// look refuses what the step before has started.
func (g *guard) look(w *World) {
	if g.strict && !w.over {
		w.mu.Lock()
		caught := g.caught
		w.mu.Unlock()
		if caught != "" {
			w.fail("goroutine", refusal+caught)
		}
	}
	if stack := w.outside.Load(); stack != nil && !w.over {
		w.fail("outside", refusedOutside+*stack)
	}
	if g.excess(w) == 0 {
		return
	}
	if !g.strict {
		for range patient {
			runtime.Gosched()
			if g.excess(w) == 0 {
				return
			}
		}
	}
	if w.over {
		return
	}
	for _, stack := range allStacks() {
		if g.stranger(stack) {
			w.fail("goroutine", refusal+stack)
		}
	}
	if !g.strict {
		g.base += g.excess(w) // somebody else's: other tests run beside
	}
}

// ownFrame finds a frame that is neither the runtime's nor who created the goroutine.
var ownFrame = regexp.MustCompile(`(?m)^(?:[^rc\t]|r[^u]|c[^r])`)

const refusal = "a goroutine that the simulation does not know: what it does is no matter of the seed. " +
	"Handlers wait with Ask, Sleep and Gather; work goes into actor.Pipe, or into an actor\n"

// stranger reports whether a goroutine of this bubble, by its stack, is neither the
// world's nor package context's.
func (g *guard) stranger(stack string) bool {
	header, frames, _ := strings.Cut(stack, "\n")
	if !g.inBubble(header) {
		return false
	}
	if strings.Contains(frames, "created by time.goFunc") && !ownFrame.MatchString(frames) {
		return false // a timer of a context, nearly through
	}
	for _, known := range []string{
		"[coroutine", "internal/synctest.Run(", "testing/synctest.testingSynctestTest(", "/sim.inBubble", "\ntesting.tRunner(", "iter.Pull", "context.",
		"/actor.(*System).workersLeft", "/actor.(*System).say", // who began the second has waited for it
	} {
		if strings.Contains(header, known) || strings.Contains(frames, known) {
			return false
		}
	}
	return true
}

// inBubble reports whether a goroutine, by the first line of its stack, is one of this bubble.
func (g *guard) inBubble(header string) bool {
	return strings.Contains(header, g.bubble+"]") || strings.Contains(header, g.bubble+",")
}

// ready refuses a goroutine that makes an actor ready, with a message for example.
func (g *guard) ready(w *World) {
	w.mu.Lock()
	strict := g.strict
	w.mu.Unlock()
	if !strict {
		return
	}
	var buf [1 << 14]byte
	if stack := string(buf[:runtime.Stack(buf[:], false)]); g.stranger(stack) {
		w.mu.Lock()
		g.caught = stack
		w.mu.Unlock()
	}
}

// allStacks returns the stacks of all goroutines.
func allStacks() []string {
	buf := make([]byte, 1<<16)
	n := runtime.Stack(buf, true)
	for n == len(buf) {
		buf = make([]byte, 2*len(buf))
		n = runtime.Stack(buf, true)
	}
	return strings.Split(strings.TrimSpace(string(buf[:n])), "\n\n")
}
