package actortest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-go/greenroom/actor"
)

// Kit is a running system and what a test does with it. [Run] makes one.
type Kit struct {
	t      testing.TB
	sys    *actor.System
	log    *logbook
	ctx    context.Context //nolint:containedctx // the life of the kit: it ends what the kit started
	cancel context.CancelFunc
	bubble string // the bubble as goroutine dumps print it

	began   time.Time
	held    []releaser
	watcher actor.Ref[any]
	downs   *downs
	// The first Do spawns it.
	prompter actor.Ref[prompt]

	failuresExpected uint64
	failuresAllowed  bool
	lettersSeen      uint64
}

// releaser is what holds something up that has to go on when the test is over.
type releaser interface{ release() }

// Run calls f with a new system in a [testing/synctest] bubble, waits for f, shuts the
// system down, and fails the test if something is left or went wrong; see the package
// documentation. opts are options of the system; with [actor.WithLogger] its log is not
// part of a failure's output.
//
// Like [synctest.Test] it blocks until every goroutine of the bubble has ended. In f use
// [Kit.T] instead of t: t.Run, t.Parallel and t.Deadline do not work in a bubble.
func Run(t *testing.T, f func(k *Kit), opts ...actor.SystemOption) {
	t.Helper()
	var k *Kit
	defer func() {
		t.Helper()
		v := recover()
		if v == nil {
			return
		}
		if err, ok := v.(error); !ok || k == nil || !strings.HasPrefix(err.Error(), "deadlock:") {
			panic(v)
		}
		k.reportDeadlock(t)
	}()
	synctest.Test(t, func(t *testing.T) {
		k = newKit(t, opts...)
		t.Cleanup(k.finish) // a cleanup and not a defer: after those of f, and with t's context canceled
		f(k)
	})
}

// newKit starts a system. REQUIRES: called in a bubble.
func newKit(t testing.TB, opts ...actor.SystemOption) *Kit {
	k := &Kit{t: t, log: newLogbook(), bubble: ownBubble(), began: time.Now()}
	k.ctx, k.cancel = context.WithCancel(context.Background())
	opts = append([]actor.SystemOption{actor.WithLogger(k.log.logger())}, opts...)
	k.sys = actor.NewSystem("test", opts...)
	return k
}

// System returns the system, whose name is "test". It runs until the test's function
// has returned.
func (k *Kit) System() *actor.System { return k.sys }

// T returns the test inside the bubble.
func (k *Kit) T() testing.TB { return k.t }

// Context returns a context that is canceled when the test is over. Use it to tell and
// ask. It may be used from any goroutine.
func (k *Kit) Context() context.Context { return k.ctx }

// Elapsed returns how much virtual time has passed since the start of the test. It may be
// used from any goroutine.
func (k *Kit) Elapsed() time.Duration { return time.Since(k.began) }

// Log returns what the system has logged so far, one line each, with the virtual time
// since the start. It may be used from any goroutine.
func (k *Kit) Log() string { return strings.Join(k.log.all(), "\n") }

// Settle returns when nothing more can happen without time passing: every message has
// been handled, and each handler that has not returned waits for a timer, an answer or a
// channel. It takes no virtual time.
func (k *Kit) Settle() { synctest.Wait() }

// Advance lets d of virtual time pass, with everything that happens in it, and settles:
// timers due by the end of d have fired, and their messages have been handled.
func (k *Kit) Advance(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// AllowFailures allows actors to fail in this test. Without it, a failure that
// [Kit.ExpectFailures] has not counted fails the test: a panic in a handler would
// otherwise go unnoticed, since a supervisor handles it.
func (k *Kit) AllowFailures() { k.failuresAllowed = true }

// ExpectFailures settles, and fails the test unless exactly n failures of actors have
// happened since the last call. Those it has counted are expected.
func (k *Kit) ExpectFailures(n int) {
	k.t.Helper()
	k.Settle()
	total := k.sys.Stats().Failures
	got := total - k.failuresExpected
	k.failuresExpected = total
	if got != uint64(max(n, 0)) {
		k.t.Fatalf("ExpectFailures: actors failed %s since the last look, want %s%s", times(got), times(uint64(max(n, 0))), k.circumstances(actor.PID{}))
	}
}

// circumstances returns what may explain that an expectation failed, as lines to append.
func (k *Kit) circumstances(concerning actor.PID) string {
	var b strings.Builder
	st := k.sys.Stats()
	if st.Queued > 0 {
		fmt.Fprintf(&b, "\n  note: %s with mail and no worker: the handlers of %d workers block without the runtime knowing "+
			"(time.Sleep, a channel); use Context.Sleep or actor.Blocking there, or Advance the time", count(st.Queued, "actor", "actors"), st.Workers)
	}
	for _, d := range k.sys.DeadLetters() {
		if d.To == concerning || d.From == concerning && !concerning.IsZero() {
			fmt.Fprintf(&b, "\n  dead letter: %s", showLetter(d))
		}
	}
	return b.String()
}

func times(n uint64) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
