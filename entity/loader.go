package entity

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"

	"github.com/greenroom-go/greenroom/internal/loadtogether"
)

// loader reads entities from the store for their actors. Those that are wanted while it
// reads are read together next: where more devices send than entities are hot nearly each
// message starts one.
type loader struct {
	*loadtogether.Loader[Stored]
	rt *Runtime
}

const (
	// loaders is how many reads may be under way, and loadTogether how many entities one
	// of them is for.
	loaders      = 2
	loadTogether = 64
	// loadersFull is how many wanted ones make a crowd. Each is a goroutine that waits.
	loadersFull = 4 * loadTogether
)

type wantedEntity = loadtogether.Want[Stored]

func newLoader(rt *Runtime) *loader {
	l := &loader{rt: rt}
	l.Loader = loadtogether.New(loaders, loadTogether, l.read)
	return l
}

// crowded reports whether so many wait that the reads are full without more.
func (l *loader) crowded() bool { return l.Waiting() >= loadersFull }

// read reads some entities as they are in the store, or ErrNotFound. A panic in the store
// concerns these alone, as it would in their actors.
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
	for _, w := range batch { // one that cannot be read keeps no other from life
		w.Value, w.Err = query(ctx, l.rt, func(ctx context.Context) (Stored, error) { return l.rt.store.Load(ctx, w.ID) })
	}
}

// together reads some entities with one question.
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
