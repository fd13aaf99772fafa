package entity

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"

	"github.com/greenroom-go/greenroom/internal/loadtogether"
)

// loader reads entities from the store for their actors. Those that are requested during a read are
// read together next: if more devices send than entities fit in memory, nearly every message starts
// an entity.
type loader struct {
	*loadtogether.Loader[Stored]
	rt *Runtime
}

const (
	// loaders is how many reads may run at once, and loadTogether how many entities one of them
	// reads.
	loaders      = 2
	loadTogether = 64
	// loadersFull is how many waiting requests make the loader crowded. Each is a goroutine that
	// waits.
	loadersFull = 4 * loadTogether
)

type wantedEntity = loadtogether.Want[Stored]

func newLoader(rt *Runtime) *loader {
	l := &loader{rt: rt}
	l.Loader = loadtogether.New(loaders, loadTogether, l.read)
	return l
}

// crowded reports whether so many requests wait that the reads are full without more.
func (l *loader) crowded() bool { return l.Waiting() >= loadersFull }

// read reads some entities from the store; the result of a missing one is ErrNotFound. A panic in
// the store affects only these entities, as it would in their actors.
func (l *loader) read(batch []*wantedEntity) {
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		l.rt.log.LogAttrs(context.Background(), slog.LevelError, "loading entities panicked",
			slog.Int("entities", len(batch)), slog.Any("panic", p), slog.String("stack", string(debug.Stack())))
		for _, w := range batch {
			w.Err = ErrFailed
		}
	}()
	ctx, cancel := context.WithTimeout(l.rt.ctx, loadTimeout)
	defer cancel()
	if len(batch) > 1 && l.together(ctx, batch) == nil {
		return
	}
	for _, w := range batch { // an entity that cannot be read must not keep others from starting
		w.Value, w.Err = query(ctx, l.rt, func(ctx context.Context) (Stored, error) { return l.rt.store.Load(ctx, w.ID) })
	}
}

// together reads some entities with one query.
func (l *loader) together(ctx context.Context, batch []*wantedEntity) error {
	q := ListQuery{IDs: make([]string, len(batch)), Limit: len(batch)}
	for i, w := range batch {
		q.IDs[i] = w.ID
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
		if stored := found[w.ID]; stored != nil {
			w.Value = *stored
		} else {
			w.Err = fmt.Errorf("load %q: %w", w.ID, ErrNotFound)
		}
	}
	return nil
}
