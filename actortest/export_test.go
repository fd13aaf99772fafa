package actortest

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/greenroom-go/greenroom/actor"
)

// Recorder is a testing.TB that keeps what it is told and fails nobody.
type Recorder struct {
	testing.TB
	mu     sync.Mutex
	text   strings.Builder
	failed bool
}

func (r *Recorder) write(failed bool, text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = r.failed || failed
	fmt.Fprintln(&r.text, text)
}

func (r *Recorder) Helper()                      {}
func (r *Recorder) Log(args ...any)              { r.write(false, fmt.Sprint(args...)) }
func (r *Recorder) Logf(f string, args ...any)   { r.write(false, fmt.Sprintf(f, args...)) }
func (r *Recorder) Error(args ...any)            { r.write(true, fmt.Sprint(args...)) }
func (r *Recorder) Errorf(f string, args ...any) { r.write(true, fmt.Sprintf(f, args...)) }
func (r *Recorder) Fatalf(f string, args ...any) { r.Errorf(f, args...); runtime.Goexit() }
func (r *Recorder) Failed() bool                 { r.mu.Lock(); defer r.mu.Unlock(); return r.failed }

// Said returns what it was told, and whether that was a failure.
func (r *Recorder) Said() (text string, failed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.String(), r.failed
}

// Recorded runs f as Run does, and returns what the kit said in place of failing t.
// after, if not nil, runs when the kit has said it and ends what f left behind.
func Recorded(t *testing.T, f func(k *Kit), after func(), opts ...actor.SystemOption) (output string, failed bool) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &Recorder{TB: t}
		k := newKit(r, opts...)
		done := make(chan struct{})
		go func() {
			defer close(done)
			f(k)
		}()
		<-done
		k.finish()
		output, failed = r.Said()
		if after != nil {
			after()
		}
	})
	return output, failed
}

// Diff is what Expect compares with.
func Diff(want, got any) []string { return diff(want, got) }
