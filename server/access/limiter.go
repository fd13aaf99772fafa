package access

import (
	"container/list"
	"math"
	"sync"
	"time"
)

const (
	// MaxSlowed is how many addresses, and how many names, failed logins are counted
	// for. Beyond it, the one whose last failure is oldest is forgotten.
	MaxSlowed = 10_000

	// FreeFailures is how many logins may fail in a row before the next one must wait.
	FreeFailures = 10

	// FailureForgiven is the time after which one failure is forgiven.
	FailureForgiven = 3 * time.Second
)

// limiter counts failed logins by address or name. Create it with newLimiter.
type limiter struct {
	now func() time.Time

	mu     sync.Mutex
	byKey  map[string]*list.Element // guarded by mu; of recent
	recent list.List                // guarded by mu; of *failures, the latest first
}

type failures struct {
	key   string
	count float64
	at    time.Time // when count was right
}

func newLimiter(now func() time.Time) *limiter {
	return &limiter{now: now, byKey: make(map[string]*list.Element)}
}

// left returns the current count.
func (f *failures) left(now time.Time) float64 {
	return math.Max(0, f.count-float64(now.Sub(f.at))/float64(FailureForgiven))
}

// wait returns how long a key must wait before its next attempt; 0 means no wait.
func (l *limiter) wait(key string) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.byKey[key]
	if e == nil {
		return 0
	}
	over := e.Value.(*failures).left(l.now()) - (FreeFailures - 1)
	return time.Duration(math.Max(0, over) * float64(FailureForgiven))
}

// forgiven returns the time until all failures of a key are forgiven, 0 for a key without
// any.
func (l *limiter) forgiven(key string) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.byKey[key]
	if e == nil {
		return 0
	}
	return time.Duration(e.Value.(*failures).left(l.now()) * float64(FailureForgiven))
}

// fail counts a failure.
func (l *limiter) fail(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	if e := l.byKey[key]; e != nil {
		f := e.Value.(*failures)
		f.count, f.at = math.Min(FreeFailures, f.left(now)+1), now
		l.recent.MoveToFront(e)
		return
	}
	l.byKey[key] = l.recent.PushFront(&failures{key, 1, now})
	if l.recent.Len() > MaxSlowed {
		delete(l.byKey, l.recent.Remove(l.recent.Back()).(*failures).key)
	}
}
