package loadtogether

import (
	"context"
	"sync"
)

// Want is something that is waited for. Read sets Value or Err.
type Want[V any] struct {
	ID    string
	Value V
	Err   error

	done chan struct{} // closed when it is read
}

// Loader runs a Queue on goroutines, which last as long as there is something to read.
// Make it with New. It is safe for concurrent use.
type Loader[V any] struct {
	read func([]*Want[V])

	mu    sync.Mutex
	queue Queue[*Want[V]] // guarded by mu
}

// New makes a loader. read is called on a goroutine of its own, by as many at a time as
// there are readers, with up to together of what is wanted, and must not panic.
func New[V any](readers, together int, read func([]*Want[V])) *Loader[V] {
	return &Loader[V]{read: read, queue: Queue[*Want[V]]{Readers: readers, Together: together}}
}

// Load waits until that is read and returns what was found, or the cause of ctx. What
// was in the store before the call is seen.
func (l *Loader[V]) Load(ctx context.Context, id string) (V, error) {
	w := &Want[V]{ID: id, done: make(chan struct{})}
	l.mu.Lock()
	begin := l.queue.Add(w)
	l.mu.Unlock()
	if begin {
		go l.run()
	}
	select {
	case <-w.done:
		return w.Value, w.Err
	case <-ctx.Done():
		var none V
		return none, context.Cause(ctx)
	}
}

// Waiting returns how many wait for a read to begin.
func (l *Loader[V]) Waiting() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.queue.Waiting()
}

// run reads until nothing is wanted.
func (l *Loader[V]) run() {
	for batch := l.next(); batch != nil; batch = l.next() {
		l.read(batch)
		for _, w := range batch {
			close(w.done)
		}
	}
}

func (l *Loader[V]) next() []*Want[V] {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.queue.Next()
}
