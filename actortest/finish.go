package actortest

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-go/greenroom/actor"
)

// patience is how much virtual time the actors have to stop in. It costs no real time.
const patience = time.Minute

// finish shuts the system down and reports what should not be.
func (k *Kit) finish() {
	k.t.Helper()
	for _, h := range k.held {
		h.release()
	}
	k.cancel()
	ctx, cancel := context.WithTimeoutCause(context.Background(), patience, errPatience)
	report, err := k.sys.Shutdown(ctx)
	cancel()
	synctest.Wait()
	k.reportUnfinished(report, err)
	if err == nil {
		k.reportLeft()
	}
	k.reportFailures()
	if k.t.Failed() {
		k.dumpLog(k.t)
	}
}

var errPatience = errors.New("not stopped within " + patience.String() + " of virtual time")

// reportUnfinished names the actors that would not stop.
func (k *Kit) reportUnfinished(report actor.Report, err error) {
	k.t.Helper()
	if err == nil {
		return
	}
	var b strings.Builder
	fmt.Fprintf(&b, "the system did not shut down: %v", err)
	for _, a := range report.Unfinished {
		fmt.Fprintf(&b, "\n  actor %s (%s) is %s, %s, %s: %s", a.Path, a.Type, a.State,
			count(a.Mailbox, "message waits", "messages wait"), count(a.Children, "child", "children"), whyUnfinished(a))
	}
	for _, g := range k.goroutines() {
		fmt.Fprintf(&b, "\n\n%s", g)
	}
	k.t.Error(b.String())
}

func whyUnfinished(a actor.Info) string {
	if a.Children > 0 {
		return "it waits for its children"
	}
	return "its handler has not returned; let it end with its context (ctx.Done)"
}

// reportLeft names the timers and goroutines that outlived the system.
func (k *Kit) reportLeft() {
	k.t.Helper()
	if n := k.sys.Stats().Timers; n > 0 {
		k.t.Errorf("%s of the system left after its shutdown", count(n, "timer", "timers"))
	}
	if left := k.goroutines(); len(left) > 0 {
		k.t.Errorf("%s left after the test and the system's shutdown; end what the test or an actor starts, with its context for example\n\n%s",
			count(len(left), "goroutine", "goroutines"), strings.Join(left, "\n\n"))
	}
}

// reportFailures reports the failures of actors that the test did not expect.
func (k *Kit) reportFailures() {
	k.t.Helper()
	n := k.sys.Stats().Failures - k.failuresExpected
	if n == 0 || k.failuresAllowed {
		return
	}
	k.t.Errorf("actors failed %s unexpectedly; use ExpectFailures or AllowFailures if they should%s",
		times(n), strings.Join(append([]string{""}, k.log.warnings()...), "\n  "))
}

func (k *Kit) dumpLog(t testing.TB) {
	t.Helper()
	if lines := k.log.all(); len(lines) > 0 {
		t.Logf("the system's log, at virtual times:\n%s", strings.Join(lines, "\n"))
	}
}

// reportDeadlock says who waits for ever, in place of the runtime's panic that would
// end all other tests of the package. Those goroutines stay where they are.
func (k *Kit) reportDeadlock(t *testing.T) {
	t.Helper()
	left := k.goroutines()
	if t.Failed() {
		return // finish has named them already
	}
	k.dumpLog(t)
	t.Errorf("everything in the bubble waits, and nothing can ever happen again: %s\n\n%s",
		count(len(left), "goroutine", "goroutines"), strings.Join(left, "\n\n"))
}

var bubbleName = regexp.MustCompile(`synctest bubble \d+`)

// ownBubble returns how goroutine dumps name the caller's bubble.
func ownBubble() string {
	var buf [256]byte
	return bubbleName.FindString(string(buf[:runtime.Stack(buf[:], false)]))
}

// goroutines returns the stacks of the bubble's goroutines without those of package
// testing and the caller's.
func (k *Kit) goroutines() []string {
	buf := make([]byte, 1<<16)
	n := runtime.Stack(buf, true)
	for n == len(buf) {
		buf = make([]byte, 2*len(buf))
		n = runtime.Stack(buf, true)
	}
	var out []string
	for stack := range strings.SplitSeq(strings.TrimSpace(string(buf[:n])), "\n\n") {
		header, _, _ := strings.Cut(stack, "\n")
		if !strings.Contains(header, k.bubble+"]") && !strings.Contains(header, k.bubble+",") {
			continue
		}
		if strings.Contains(header, "[running") || strings.Contains(stack, "\ninternal/synctest.Run(") ||
			strings.Contains(stack, "\ntesting/synctest.testingSynctestTest(") {
			continue
		}
		out = append(out, stack)
	}
	return out
}
