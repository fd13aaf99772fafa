package entity

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/greenroom-go/greenroom/entity/internal/failure"
)

// Traversal asks for the entities that can be reached from one over relations.
type Traversal struct {
	From string
	// Direction is which way the edges are followed. Defaults to Out.
	Direction Direction
	// Types keeps to edges of these types; empty means all.
	Types []string
	// Depth is the most edges on the path to an entity, up to MaxTraversalDepth, which is the
	// default.
	Depth int
	// Limit is the most entities to return, up to MaxTraversal, which is the default.
	Limit int
	// Edge, if it is not nil, reports whether an edge is followed, and Match whether an entity is
	// in the answer. Through reports whether the traversal continues beyond an entity; if it is
	// nil, it continues beyond all. They are called on the goroutine of the caller and may take
	// their time. Match and Through see entities as committed, and no entity is started for them.
	Edge    func(Relation) bool
	Match   func(View) bool
	Through func(View) bool
}

// Reached is an entity that a traversal has reached.
type Reached struct {
	ID string
	// Depth is the number of edges on the shortest path, 0 for the entity from which the traversal
	// began.
	Depth int
	// By is the edge by which the entity was first reached, the zero Relation for the first entity.
	By Relation
}

// Limits of a traversal.
const (
	MaxTraversal      = 100_000
	MaxTraversalDepth = 64
)

// Traverse follows relations from an entity, nearest entities first, and those at the same depth in
// the order of their ids. Each entity is reached once, so that cycles end; the first entity is in
// the answer too, if it matches. more says that there are more than Limit. Relations are as
// committed when their step is made. It returns ErrNotFound if the first entity does not exist.
func (r *Runtime) Traverse(ctx context.Context, t Traversal) (reached []Reached, more bool, err error) {
	if err := t.check(); err != nil {
		return nil, false, fmt.Errorf("traverse: %w", err)
	}
	defer failure.In(&err, "traverse from %q", t.From)
	if err := r.graph.wait(ctx); err != nil {
		return nil, false, err
	}
	if _, err := r.typeOf(ctx, t.From); err != nil {
		return nil, false, err
	}
	w := walker{rt: r, t: &t, frontier: []Reached{{ID: t.From}}, seen: make(map[uint32]struct{})}
	for depth := 0; len(w.frontier) > 0 && !w.more; depth++ {
		if err := w.judge(ctx); err != nil {
			return nil, false, err
		}
		if depth == t.Depth {
			break
		}
		w.step(depth + 1)
	}
	return w.reached, w.more, nil
}

func (t *Traversal) check() error {
	if err := CheckID(t.From); err != nil {
		return err
	}
	if t.Direction == 0 {
		t.Direction = Out
	}
	if t.Depth == 0 {
		t.Depth = MaxTraversalDepth
	}
	if t.Limit == 0 {
		t.Limit = MaxTraversal
	}
	switch {
	case t.Direction > Both:
		return fmt.Errorf("direction: %w: must be out, in or both, not %d", ErrInvalid, t.Direction)
	case t.Depth < 0 || t.Depth > MaxTraversalDepth:
		return fmt.Errorf("depth: %w: must be from 1 to %d, not %d", ErrInvalid, MaxTraversalDepth, t.Depth)
	case t.Limit < 0 || t.Limit > MaxTraversal:
		return fmt.Errorf("limit: %w: must be from 1 to %d, not %d", ErrInvalid, MaxTraversal, t.Limit)
	}
	return nil
}

// walker traverses the graph step by step.
type walker struct {
	rt       *Runtime
	t        *Traversal
	seen     map[uint32]struct{} // by the numbers of the graph
	frontier []Reached           // reached by the last step
	through  []string            // those of the frontier beyond which the traversal continues
	reached  []Reached
	more     bool
}

// judge adds the frontier to the answer, and determines beyond which entities the traversal
// continues.
func (w *walker) judge(ctx context.Context) error {
	w.through = w.through[:0]
	match, through := w.t.Match, w.t.Through
	if match == nil && through == nil {
		n := min(len(w.frontier), w.t.Limit-len(w.reached))
		w.reached, w.more = append(w.reached, w.frontier[:n]...), n < len(w.frontier)
		for i := range w.frontier {
			w.through = append(w.through, w.frontier[i].ID)
		}
		return nil
	}
	w.reached = slices.Grow(w.reached, min(len(w.frontier), w.t.Limit-len(w.reached)))
	for page := range slices.Chunk(w.frontier, scanPage) {
		ids := make([]string, len(page))
		for i := range page {
			ids[i] = page[i].ID
		}
		views, err := w.rt.views(ctx, ids)
		if err != nil {
			return err
		}
		for i := range page {
			v, ok := views[page[i].ID]
			if !ok {
				continue // deleted since
			}
			if match == nil || match(v) {
				w.take(page[i])
			}
			if through == nil || through(v) {
				w.through = append(w.through, page[i].ID)
			}
		}
	}
	return nil
}

func (w *walker) take(r Reached) {
	if len(w.reached) == w.t.Limit {
		w.more = true
		return
	}
	w.reached = append(w.reached, r)
}

// splitViews is from how many entities on they are read in two halves at the same time: reading
// that many takes longer than starting a goroutine.
const splitViews = 100

// views returns entities as committed.
func (r *Runtime) views(ctx context.Context, ids []string) (map[string]View, error) {
	half := len(ids)
	if half >= splitViews {
		half /= 2
	}
	var lists [2][]Stored
	var errs [2]error
	load := func(i int, ids []string) {
		lists[i], errs[i] = r.page(ctx, ListQuery{IDs: ids, Limit: len(ids)})
	}
	var wg sync.WaitGroup
	var failure any
	if half < len(ids) {
		wg.Go(func() {
			defer func() { failure = recover() }() // a panic of the store would end the process here
			load(1, ids[half:])
		})
	}
	load(0, ids[:half])
	if wg.Wait(); failure != nil {
		panic(failure)
	}
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	views := make(map[string]View, len(ids))
	for _, list := range lists {
		for i := range list {
			views[list[i].ID] = storedView{r, &list[i]}
		}
	}
	return views, nil
}

// step follows the edges of all entities in through. The functions of the caller do not run under
// the graph's lock, because they may ask for relations themselves.
func (w *walker) step(depth int) {
	g := w.rt.graph
	g.mu.RLock()
	hops := g.hops(w.through, w.t.Direction, w.t.Types, w.seen)
	next := make([]Reached, 0, len(hops))
	for i := range hops {
		next = append(next, Reached{ID: hops[i].name, Depth: depth, By: g.relation(hops[i].by)})
	}
	g.mu.RUnlock()
	w.frontier = next[:0]
	for i := range next {
		if w.t.Edge != nil && !w.t.Edge(next[i].By) {
			continue
		}
		if _, ok := w.seen[hops[i].to]; !ok {
			w.seen[hops[i].to] = struct{}{}
			w.frontier = append(w.frontier, next[i])
		}
	}
}

// hop is an edge to a new entity.
type hop struct {
	name string
	to   uint32
	by   arc
}

// hops returns the edges from ids, of the given types or of all, to entities not seen before,
// ordered by the ids of these. It marks ids as seen. REQUIRES: g.mu held for reading.
func (g *graph) hops(ids []string, d Direction, types []string, seen map[uint32]struct{}) []hop {
	kinds := make(map[uint32]bool, len(types))
	for _, name := range types {
		if k, ok := g.kinds[name]; ok {
			kinds[k] = true
		}
	}
	from := make([]uint32, 0, len(ids))
	for _, id := range ids {
		if n, ok := g.numbers[id]; ok {
			from = append(from, n)
			seen[n] = struct{}{}
		}
	}
	var list []hop
	follow := func(e edge, by arc) {
		if _, ok := seen[e.to]; !ok && (len(types) == 0 || kinds[e.kind]) {
			list = append(list, hop{g.names[e.to], e.to, by})
		}
	}
	for _, n := range from {
		if d&Out != 0 {
			for _, e := range g.out[n] {
				follow(e, arc{n, e.kind, e.to})
			}
		}
		if d&In != 0 {
			for _, e := range g.in[n] {
				follow(e, arc{e.to, e.kind, n})
			}
		}
	}
	// The order must not depend on how the graph was built.
	slices.SortFunc(list, func(a, b hop) int {
		if a.to != b.to {
			return strings.Compare(a.name, b.name)
		}
		return cmp.Or(strings.Compare(g.kindsOf[a.by.kind], g.kindsOf[b.by.kind]), strings.Compare(g.names[a.by.from], g.names[b.by.from]))
	})
	return list
}
