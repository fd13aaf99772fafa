package entity

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
)

// loader reads entities from the store for their actors. Those that are wanted while it
// reads are read together next: one by one costs four times as much, and where more
// devices send than entities are hot nearly each message brings one to life.
type loader struct {
	rt *Runtime

	mu      sync.Mutex
	wanted  []*wantedEntity // guarded by mu
	reading int             // goroutines, guarded by mu
}

const (
	// loaders is how many reads may be under way, and loadTogether how many entities one
	// of them is for.
	loaders      = 2
	loadTogether = 64
	// loadersFull is how many wanted ones make a crowd. Each is a goroutine that waits.
	loadersFull = 4 * loadTogether
)

// wantedEntity is an entity that its actor waits for. What is found is set before done
// is closed.
type wantedEntity struct {
	id     string
	stored Stored
	err    error
	done   chan struct{}
}

// load returns an entity as it is in the store, or ErrNotFound. What was committed
// before the call is in it.
func (l *loader) load(ctx context.Context, id string) (Stored, error) {
	w := &wantedEntity{id: id, done: make(chan struct{})}
	l.mu.Lock()
	l.wanted = append(l.wanted, w)
	begins := l.reading < loaders
	if begins {
		l.reading++
	}
	l.mu.Unlock()
	if begins {
		go l.run()
	}
	select {
	case <-w.done:
		return w.stored, w.err
	case <-ctx.Done():
		return Stored{}, context.Cause(ctx)
	}
}

// crowded reports whether so many wait that the reads are full without more.
func (l *loader) crowded() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.wanted) >= loadersFull
}

// run reads until nothing is wanted.
func (l *loader) run() {
	for batch := l.take(); batch != nil; batch = l.take() {
		l.read(batch)
	}
}

// take returns what is to be read next; with nil, the caller is no longer reading.
func (l *loader) take() []*wantedEntity {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := min(len(l.wanted), loadTogether)
	if n == 0 {
		l.wanted = nil
		l.reading--
		return nil
	}
	batch := l.wanted[:n:n]
	l.wanted = l.wanted[n:]
	return batch
}

// read reads some entities and tells who waits. A panic in the store concerns these
// alone, as it would in their actors.
func (l *loader) read(batch []*wantedEntity) {
	defer func() {
		p := recover()
		if p != nil {
			l.rt.log.LogAttrs(context.Background(), slog.LevelError, "loading entities panicked",
				slog.Int("entities", len(batch)), slog.Any("panic", p), slog.String("stack", string(debug.Stack())))
		}
		for _, w := range batch {
			if p != nil {
				w.err = ErrFailed
			}
			close(w.done)
		}
	}()
	ctx, cancel := context.WithTimeout(l.rt.ctx, loadTimeout)
	defer cancel()
	if len(batch) > 1 && l.together(ctx, batch) == nil {
		return
	}
	for _, w := range batch { // one that cannot be read keeps no other from life
		w.stored, w.err = query(ctx, l.rt, func(ctx context.Context) (Stored, error) { return l.rt.store.Load(ctx, w.id) })
	}
}

// together reads some entities with one question.
func (l *loader) together(ctx context.Context, batch []*wantedEntity) error {
	q := ListQuery{IDs: make([]string, len(batch)), Limit: len(batch)}
	for i, w := range batch {
		q.IDs[i] = w.id
	}
	list, err := l.rt.page(ctx, q)
	if err != nil {
		return err
	}
	found := make(map[string]*Stored, len(list))
	for i := range list {
		found[list[i].ID] = &list[i]
	}
	for _, w := range batch {
		if stored := found[w.id]; stored != nil {
			w.stored = *stored
		} else {
			w.err = fmt.Errorf("load %q: %w", w.id, ErrNotFound)
		}
	}
	return nil
}
