package server

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/filter"
	"github.com/greenroom-go/greenroom/entity/filter/entityview"
)

const (
	// finderLeast is from how many entities on an index pays: below, reading all of
	// them is as quick.
	finderLeast = 10_000
	// finderColumns bounds the paths that are indexed, about 40 bytes an entity
	// each. The one that was not asked for longest makes room.
	finderColumns = 24
	// finderPatience is how long a search waits for the index to have what was
	// committed before the search.
	finderPatience = time.Second
)

// finder is an index in memory of what filters look at: a column for each path that
// a filter has named, with the value that each entity has there. A search goes over
// the columns and not over the entities, which is a thousand times quicker.
//
// It is made when a search first wants it, and nothing is kept of it: the first
// search for a path reads all entities, and so do the others until the column is
// full. From then on it follows the committed changes. Filters about relations and
// differences are not indexed.
type finder struct {
	rt    *entity.Runtime
	view  func(ctx context.Context, v entity.View) *entityview.View
	log   *slog.Logger
	least int64

	ctx    context.Context //nolint:containedctx // the finder's own life
	cancel context.CancelFunc
	wg     sync.WaitGroup
	start  sync.Once
	wanted chan filter.Path // columns to be made

	mu        sync.RWMutex
	table     finderTable   // guarded by mu
	following bool          // guarded by mu
	cursor    string        // up to which the table has all, guarded by mu
	committed int64         // the newest commit that it has, guarded by mu
	moved     chan struct{} // closed when cursor moves on, guarded by mu
	made      chan struct{} // closed when columns have been made, or cannot be, guarded by mu
}

func newFinder(s *Server) *finder {
	x := &finder{
		rt: s.runtime, log: s.log, least: finderLeast, wanted: make(chan filter.Path, finderColumns), moved: make(chan struct{}), made: make(chan struct{}),
		view:  s.viewOf,
		table: newFinderTable(),
	}
	x.ctx, x.cancel = context.WithCancel(context.Background())
	return x
}

func (x *finder) close() {
	x.cancel()
	x.wg.Wait()
}

// lookup prepares a search by the index. It reports false where the store has to be
// searched: the filter is about something else, the index is not there yet, or it
// does not come up with the changes. REQUIRES: unlock is called after true.
func (x *finder) lookup(ctx context.Context, sel *selection) (q *finderQuery, unlock func(), ok bool) {
	paths, ok := x.paths(sel)
	if !ok || !x.ready(paths) || !x.fresh(ctx) {
		return nil, nil, false
	}
	x.mu.Lock()
	x.table.sort()
	x.mu.Unlock()
	x.mu.RLock()
	columns := make([]*finderColumn, len(paths))
	for i, p := range paths {
		if columns[i] = x.table.columns[p]; columns[i] == nil || !columns[i].full {
			x.mu.RUnlock()
			return nil, nil, false // it has made room for another
		}
	}
	bound := sel.filter.Bind(func(p filter.Path) int {
		return 1 + slices.Index(paths, filter.Path{Root: p.Root, Name: p.Name})
	})
	q = &finderQuery{filter: bound, env: filter.Env{Now: time.Now().UnixMilli()}, typ: sel.typ, isA: make(map[string]map[string]bool), rt: x.rt}
	q.finderView = finderView{table: &x.table, columns: columns, query: q}
	return q, x.mu.RUnlock, true
}

// paths returns the columns that a search needs. It reports false where the index is of
// no use to it.
func (x *finder) paths(sel *selection) (paths []filter.Path, ok bool) {
	if sel.search != "" || x.rt.Stats().Registered < x.least || sel.filter.Depends().Relations || sel.filter.Depends().Related {
		return nil, false
	}
	for _, p := range sel.filter.Paths() {
		switch p.Root {
		case filter.RootDelta, filter.RootRelation:
			return nil, false
		case filter.RootID, filter.RootType, filter.RootCreated, filter.RootUpdated:
		default:
			paths = append(paths, filter.Path{Root: p.Root, Name: p.Name})
		}
	}
	return paths, len(paths) <= finderColumns
}

// await waits until there are columns for a search, where the index is of use to it, or
// ctx ends. Who has to look at all entities anyway is served sooner so: the columns are
// made by looking at them once, for all who wait.
func (x *finder) await(ctx context.Context, sel *selection) {
	paths, ok := x.paths(sel)
	if !ok {
		return
	}
	for range 2 { // what is under way may be for others; the next has all that are wanted
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

// ready tells whether there are columns for paths, and asks for those that are not.
func (x *finder) ready(paths []filter.Path) bool {
	x.start.Do(func() { x.wg.Go(x.run) })
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.table.complete {
		x.want(noColumn)
	}
	ready := x.following && x.table.complete
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

// want asks for a column.
func (x *finder) want(p filter.Path) {
	select {
	case x.wanted <- p:
	default: // others come first
	}
}

// fresh waits until the index has what was committed before the call.
func (x *finder) fresh(ctx context.Context) bool {
	head, err := x.rt.Changes(ctx, entity.ChangesQuery{Edits: true})
	if err != nil {
		return false
	}
	cursor, now := head.Cursor(), time.Now().UnixMilli()
	head.Close()
	timer := time.NewTimer(finderPatience)
	defer timer.Stop()
	for {
		x.mu.RLock()
		there, moved := x.cursor == cursor || x.committed > now, x.moved
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

// width is how many columns there are.
func (x *finder) width() int {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return len(x.table.columns)
}

// run follows the changes, and fills columns beside it.
func (x *finder) run() {
	x.wg.Go(x.fill)
	cursor := ""
	for x.ctx.Err() == nil {
		sub, err := x.rt.Changes(x.ctx, entity.ChangesQuery{Cursor: cursor, Edits: true})
		if errors.Is(err, entity.ErrCursorExpired) {
			x.mu.Lock()
			x.table = newFinderTable() // changes are missing: all anew
			x.mu.Unlock()
			cursor = ""
			continue
		}
		if err == nil {
			cursor, err = x.follow(sub)
			sub.Close()
		}
		x.mu.Lock()
		x.following = false
		x.mu.Unlock()
		if x.ctx.Err() != nil || errors.Is(err, entity.ErrClosed) {
			return
		}
		if !errors.Is(err, entity.ErrLagged) {
			x.log.LogAttrs(x.ctx, slog.LevelWarn, "search index: the changes are read again", slog.Any("error", err))
			_ = pauseFor(x.ctx, followPause) // its end is seen above
		}
	}
}

// pauseFor waits, or returns the error of ctx.
func pauseFor(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// finderIdle is how long the follower waits for a change before it looks how far
// the order of changes has gone on without any for it.
const finderIdle = 20 * time.Millisecond

// follow applies the changes of a subscription.
func (x *finder) follow(sub *entity.Subscription) (cursor string, err error) {
	cursor = sub.Cursor()
	x.reached(cursor, 0)
	for {
		waiting, stop := context.WithTimeout(x.ctx, finderIdle)
		c, err := sub.Next(waiting)
		stop()
		if x.ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
			cursor = sub.Cursor()
			x.reached(cursor, 0)
			continue
		}
		if err != nil {
			return cursor, err
		}
		if err := x.apply(&c); err != nil {
			return cursor, err
		}
		cursor = c.Cursor
		x.reached(cursor, c.Committed)
	}
}

// reached notes how far the table has come, and tells those who wait.
func (x *finder) reached(cursor string, committed int64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.following = true
	if x.cursor == cursor {
		return
	}
	x.cursor, x.committed = cursor, max(x.committed, committed)
	close(x.moved)
	x.moved = make(chan struct{})
}

// apply puts a change into the table.
func (x *finder) apply(c *entity.Change) error {
	x.mu.Lock()
	again := x.table.apply(c)
	x.mu.Unlock()
	if !again {
		return nil
	}
	// What the change does not tell is read from the store, which has it by now.
	return x.rt.Scan(x.ctx, entity.ListQuery{IDs: []string{c.Entity}}, func(v entity.View) bool {
		x.mu.Lock()
		defer x.mu.Unlock()
		x.table.put(x.view(x.ctx, v), nil, true)
		return true
	})
}

// fill makes the columns that are wanted, one after the other.
func (x *finder) fill() {
	for {
		select {
		case p := <-x.wanted:
			if err := x.fillColumns(p); err != nil && x.ctx.Err() == nil {
				x.log.LogAttrs(x.ctx, slog.LevelWarn, "search index: a column cannot be made", slog.String("path", p.String()), slog.Any("error", err))
			}
			x.mu.Lock()
			close(x.made)
			x.made = make(chan struct{})
			x.mu.Unlock()
		case <-x.ctx.Done():
			return
		}
	}
}

// fillColumns makes the column of a path, and of the others that wait, by reading
// all entities once. What changes meanwhile is applied as well, by the follower, and
// stays.
func (x *finder) fillColumns(p filter.Path) error {
	for following := false; !following; { // what changes from here on must be seen
		x.mu.RLock()
		following = x.following
		moved := x.moved
		x.mu.RUnlock()
		if !following {
			select {
			case <-moved:
			case <-x.ctx.Done():
				return x.ctx.Err()
			}
		}
	}
	paths := []filter.Path{p}
	x.mu.Lock() // a search asks for all its columns under the lock
	for len(x.wanted) > 0 {
		paths = append(paths, <-x.wanted)
	}
	columns := x.table.open(paths)
	generation, complete := x.table.generation, x.table.complete
	x.mu.Unlock()
	if complete && len(columns) == 0 {
		return nil // they are there by now
	}
	var page []*entityview.View
	put := func() bool {
		x.mu.Lock()
		defer x.mu.Unlock()
		if x.table.generation != generation {
			return false // all anew
		}
		for _, v := range page {
			x.table.put(v, columns, false)
		}
		page = page[:0]
		return true
	}
	same := true
	err := x.rt.Scan(x.ctx, entity.ListQuery{}, func(v entity.View) bool {
		if page = append(page, x.view(x.ctx, v)); len(page) == 500 {
			same = put()
		}
		return same
	})
	if err == nil && same {
		same = put()
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if err != nil || !same {
		x.table.drop(paths)
		return err
	}
	x.table.filled(columns)
	return nil
}

// finderQuery is one search by the index. REQUIRES: the finder's lock is held for
// reading while it is used.
type finderQuery struct {
	finderView
	filter *filter.Filter
	env    filter.Env
	typ    string
	rt     *entity.Runtime
	isA    map[string]map[string]bool // of each type, what it is
}

// each calls f with the ids that match, in order, from those after one on, until f
// returns false.
func (q *finderQuery) each(after string, f func(id string) bool) {
	t := q.table
	first, _ := slices.BinarySearchFunc(t.order, after, func(row int32, after string) int {
		if t.ids[row] <= after {
			return -1
		}
		return 1
	})
	for _, q.row = range t.order[first:] {
		if q.typ != "" && !q.Is(q.typ) {
			continue
		}
		if q.filter.Match(&q.finderView, &q.env) && !f(t.ids[q.row]) {
			return
		}
	}
}

// finderView shows one row of the table to a filter.
type finderView struct {
	table   *finderTable
	columns []*finderColumn // by the slots of the filter, from 1
	query   *finderQuery
	row     int32
}

// Lookup returns the value at a path.
func (v *finderView) Lookup(p *filter.Path) (filter.Value, bool) {
	switch p.Root {
	case filter.RootID:
		return filter.String(v.table.ids[v.row]), true
	case filter.RootType:
		return filter.String(v.table.types[v.row]), v.table.types[v.row] != ""
	case filter.RootCreated:
		return filter.Time(v.table.created[v.row]), true
	case filter.RootUpdated:
		return filter.Time(v.table.updated[v.row]), v.table.updated[v.row] != 0
	default:
		value := v.columns[p.Slot-1].values[v.row]
		return value, value.Kind() != 0
	}
}

// Time returns when the value at a path was measured or set.
func (v *finderView) Time(p *filter.Path) (int64, bool) {
	c := v.columns[p.Slot-1]
	return c.times[v.row], c.times[v.row] != noTime
}

// Is reports whether the type of the entity is another or extends it.
func (v *finderView) Is(id string) bool {
	typ := v.table.types[v.row]
	if typ == "" || typ == id {
		return typ != ""
	}
	known, ok := v.query.isA[typ]
	if !ok {
		if t, err := v.query.rt.ResolvedType(typ); err == nil { // it may have been deleted
			known = t.IsA
		}
		v.query.isA[typ] = known
	}
	return known[id]
}

// Related is never asked: such filters are not indexed.
func (v *finderView) Related(*filter.Relation, *filter.Env) bool { return false }

// under tells whether a path lies below another.
func under(path, object string) bool {
	return len(path) > len(object) && path[len(object)] == '/' && strings.HasPrefix(path, object)
}
