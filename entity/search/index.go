package search

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/filter"
)

const (
	// indexFrom is how many entities there must be for the index to pay; below,
	// reading all of them is as quick.
	indexFrom = 10_000
	// maxColumns bounds the indexed paths, about 40 bytes an entity each. The least recently used
	// column makes room.
	maxColumns = 24
	// freshTimeout is how long a search waits for the index to have what was
	// committed before the search.
	freshTimeout = time.Second
)

// index holds in memory what filters use: a column for each path that a filter has named, with each
// entity's value at it. A search goes over the columns rather than the entities, which is a
// thousand times faster.
//
// A column is made when a search first wants it, by reading all entities once. Until it
// is full, searches read the store; from then on it follows the committed changes.
// Filters about relations and differences are not indexed. Nothing of it is stored.
type index struct {
	rt   *entity.Runtime
	log  *slog.Logger
	from int64 // how many entities there must be; set before use

	ctx    context.Context //nolint:containedctx // ends with close
	cancel context.CancelFunc
	wg     sync.WaitGroup
	start  sync.Once
	wanted chan filter.Path // columns to be made

	// mu guards what follows. A search holds it for reading while it evaluates its
	// filter on the rows.
	mu     sync.RWMutex
	table  table
	cursor string        // the table has every change up to it
	seq    uint64        // the number of the last one that it was told of
	moved  chan struct{} // closed and replaced when cursor moves on
	made   chan struct{} // closed and replaced when columns were made, or could not be
}

func newIndex(rt *entity.Runtime, log *slog.Logger) *index {
	x := &index{
		rt: rt, log: log, from: indexFrom, table: newTable(),
		wanted: make(chan filter.Path, maxColumns), moved: make(chan struct{}), made: make(chan struct{}),
	}
	x.ctx, x.cancel = context.WithCancel(context.Background())
	return x
}

func (x *index) close() {
	x.cancel()
	x.wg.Wait()
}

// lookup prepares a search of the index. ok is false if the store has to be searched instead,
// because the filter uses something that is not indexed, a column does not exist yet, or the index
// is behind the changes. The caller must call unlock if ok is true.
func (x *index) lookup(ctx context.Context, q *Query) (found *rows, unlock func(), ok bool) {
	paths, ok := x.paths(q)
	if !ok || !x.ready(paths) || !x.fresh(ctx) {
		return nil, nil, false
	}
	x.mu.Lock()
	x.table.sort()
	x.mu.Unlock()
	x.mu.RLock()
	columns := make([]*column, len(paths))
	for i, p := range paths {
		if columns[i] = x.table.columns[p]; columns[i] == nil || !columns[i].full {
			x.mu.RUnlock()
			return nil, nil, false // it has made room for another
		}
	}
	bound := q.Filter.Bind(func(p filter.Path) int {
		return 1 + slices.Index(paths, filter.Path{Root: p.Root, Name: p.Name})
	})
	return &rows{
		rowView: rowView{rt: x.rt, table: &x.table, columns: columns, isA: make(map[string]map[string]bool)},
		filter:  bound, env: filter.Env{Now: time.Now().UnixMilli()}, typ: q.Type,
	}, x.mu.RUnlock, true
}

// paths returns the columns that a search needs. ok is false if the index cannot help it.
func (x *index) paths(q *Query) (paths []filter.Path, ok bool) {
	if q.Text != "" || x.rt.Stats().Registered < x.from || q.Filter.Depends().Relations || q.Filter.Depends().Related {
		return nil, false
	}
	for _, p := range q.Filter.Paths() {
		switch p.Root {
		case filter.RootDelta, filter.RootRelation:
			return nil, false
		case filter.RootPresence:
			if p.Name == filter.PresenceSeen { // changes with each message, and no change says so
				return nil, false
			}
			paths = append(paths, filter.Path{Root: p.Root, Name: p.Name})
		case filter.RootID, filter.RootType, filter.RootCreated, filter.RootUpdated:
		default:
			paths = append(paths, filter.Path{Root: p.Root, Name: p.Name})
		}
	}
	return paths, len(paths) <= maxColumns
}

// await waits until the columns for a search exist, if the index can help it, or ctx ends. A search
// that has to examine all entities is faster that way: columns are made by reading all of them
// once, for all searches that wait.
func (x *index) await(ctx context.Context, q *Query) {
	paths, ok := x.paths(q)
	if !ok {
		return
	}
	for range 2 { // the pass under way may be for others; the next has all that are wanted
		x.mu.RLock()
		made := x.made
		x.mu.RUnlock()
		if x.ready(paths) {
			return
		}
		select {
		case <-made:
		case <-ctx.Done():
			return
		}
	}
}

// ready reports whether there are columns for paths, and asks for those that are
// missing.
func (x *index) ready(paths []filter.Path) bool {
	x.start.Do(x.run)
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.table.complete {
		x.want(noColumn)
	}
	ready := x.table.complete
	for _, p := range paths {
		c := x.table.columns[p]
		if c == nil {
			x.want(p)
			ready = false
			continue
		}
		c.used = time.Now()
		ready = ready && c.full
	}
	return ready
}

// run begins to follow the changes, and to make columns, unless the runtime is closed; then no
// column will ever exist.
func (x *index) run() {
	changes, err := x.rt.Follow(x.ctx, entity.ChangesQuery{Edits: true, Presence: true})
	if err != nil {
		return
	}
	x.wg.Go(func() { x.follow(changes) })
	x.wg.Go(x.fill)
}

// want asks for a column.
func (x *index) want(p filter.Path) {
	select {
	case x.wanted <- p:
	default: // others come first
	}
}

// fresh waits until the index has what was committed before the call. It reports false
// after freshTimeout.
func (x *index) fresh(ctx context.Context) bool {
	head, err := x.rt.Changes(ctx, entity.ChangesQuery{Edits: true})
	if err != nil {
		return false
	}
	cursor, seq := head.Cursor(), head.Seq()
	head.Close()
	timer := time.NewTimer(freshTimeout)
	defer timer.Stop()
	for {
		x.mu.RLock()
		there, moved := x.cursor == cursor || x.seq >= seq, x.moved
		x.mu.RUnlock()
		if there {
			return true
		}
		select {
		case <-moved:
		case <-timer.C:
			return false
		case <-ctx.Done():
			return false
		}
	}
}

// width returns how many columns there are.
func (x *index) width() int {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return len(x.table.columns)
}
