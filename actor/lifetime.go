package actor

import (
	"container/list"
	"context"
	"sync"
)

// lifetime is the context of an incarnation. What ends with it is called by who ends it, in the
// order in which it was added, where [context.AfterFunc] starts a goroutine for each: these come in
// any order, also in a simulated run.
type lifetime struct {
	context.Context //nolint:containedctx // it is one
	cancel          context.CancelFunc

	mu    sync.Mutex // a leaf lock
	ended bool       // guarded by mu
	ends  list.List  // of func(); guarded by mu
}

func newLifetime() *lifetime {
	l := &lifetime{}
	l.Context, l.cancel = context.WithCancel(context.Background())
	return l
}

// end ends the context and calls what was added. A second one does nothing.
// REQUIRES: the caller holds no lock, unless nothing was added.
func (l *lifetime) end() {
	l.cancel()
	l.mu.Lock()
	l.ended = true
	var all []func()
	for e := l.ends.Front(); e != nil; e = e.Next() {
		all = append(all, e.Value.(func()))
	}
	l.ends.Init()
	l.mu.Unlock()
	for _, f := range all {
		f()
	}
}

// whenEnded has f called when l ends, or calls it now if it has ended. stop takes that back and
// reports whether it was in time.
func (l *lifetime) whenEnded(f func()) (stop func() bool) {
	l.mu.Lock()
	if l.ended {
		l.mu.Unlock()
		f()
		return func() bool { return false }
	}
	at := l.ends.PushBack(f)
	l.mu.Unlock()
	return func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.ended || at == nil {
			return false
		}
		l.ends.Remove(at)
		at = nil
		return true
	}
}
