// Package memory provides an engine for package cluster in memory, for tests and for several
// systems in one process.
package memory

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/greenroom-go/greenroom/cluster"
)

// Engine is a cluster.Engine whose entries are in memory. All members use the same one. The zero value
// is empty and ready for use.
type Engine struct {
	mu       sync.Mutex
	last     cluster.Revision         // guarded by mu
	entries  map[string]cluster.Entry // guarded by mu
	watchers []*watcher               // guarded by mu
}

type watcher struct {
	prefix string
	see    func(cluster.Entry)

	// Guarded by mu.
	mu      sync.Mutex
	waiting []cluster.Entry
	stopped bool
	calling bool // somebody calls see: entries come one at a time
}

var _ cluster.Engine = (*Engine)(nil)

// Put implements cluster.Engine.
func (e *Engine) Put(ctx context.Context, key string, value []byte, was cluster.Revision) (cluster.Revision, error) {
	if err := ctx.Err(); err != nil {
		return 0, fmt.Errorf("put %q: %w", key, err)
	}
	e.mu.Lock()
	if e.entries[key].Revision != was {
		e.mu.Unlock()
		return 0, fmt.Errorf("put %q at %d: %w", key, was, cluster.ErrConflict)
	}
	if e.entries == nil {
		e.entries = make(map[string]cluster.Entry)
	}
	e.last++
	now := cluster.Entry{Key: key, Value: value, Revision: e.last}
	e.entries[key] = now
	var told []*watcher
	for _, w := range e.watchers {
		if strings.HasPrefix(key, w.prefix) {
			w.add(now)
			told = append(told, w)
		}
	}
	e.mu.Unlock()
	for _, w := range told {
		w.call()
	}
	return now.Revision, nil
}

// Get implements cluster.Engine.
func (e *Engine) Get(ctx context.Context, key string) (cluster.Entry, error) {
	if err := ctx.Err(); err != nil {
		return cluster.Entry{}, fmt.Errorf("get %q: %w", key, err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if at, ok := e.entries[key]; ok {
		return at, nil
	}
	return cluster.Entry{}, fmt.Errorf("get %q: %w", key, cluster.ErrNotFound)
}

// Watch implements cluster.Engine. see is called on the goroutine that puts.
func (e *Engine) Watch(prefix string, see func(cluster.Entry)) (stop func()) {
	w := &watcher{prefix: prefix, see: see}
	e.mu.Lock()
	for _, key := range slices.Sorted(maps.Keys(e.entries)) {
		if strings.HasPrefix(key, prefix) {
			w.add(e.entries[key])
		}
	}
	e.watchers = append(e.watchers, w)
	e.mu.Unlock()
	w.call()
	return func() {
		e.mu.Lock()
		e.watchers = slices.DeleteFunc(e.watchers, func(o *watcher) bool { return o == w })
		e.mu.Unlock()
		w.mu.Lock()
		w.stopped = true
		w.mu.Unlock()
	}
}

// add queues an entry. Entries are queued under the engine's lock, and so in order.
func (w *watcher) add(e cluster.Entry) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiting = append(w.waiting, e)
}

// call calls see for the waiting entries, unless another goroutine does so already.
func (w *watcher) call() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.calling {
		return
	}
	w.calling = true
	for len(w.waiting) > 0 && !w.stopped {
		next := w.waiting[0]
		w.waiting = w.waiting[1:]
		w.mu.Unlock()
		w.see(next)
		w.mu.Lock()
	}
	w.calling = false
}
