package entity

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/greenroom-go/greenroom/entity/value"
	"github.com/greenroom-go/greenroom/internal/pause"
)

// graph has all committed relations in memory, in both directions, so that a traversal needs no
// disk. Entities and types of relations have small numbers here. It is loaded in the background
// when the runtime opens. Edits that are committed meanwhile are applied, in order, after the load;
// applying them twice gives the same edges.
type graph struct {
	ready chan struct{} // closed when it is loaded

	mu      sync.RWMutex
	numbers map[string]uint32   // guarded by mu
	names   []string            // guarded by mu
	out, in [][]edge            // indexed by entity number; out is ordered by (kind, to), guarded by mu
	props   map[arc]value.Value // of the edges that have some, guarded by mu
	kinds   map[string]uint32   // types of relations, guarded by mu
	kindsOf []string            // guarded by mu
	edges   int                 // guarded by mu
	pending []graphChange       // committed during the load, guarded by mu
	loaded  bool                // guarded by mu
}

// edge is one end of an arc: the entity at the other end.
type edge struct{ kind, to uint32 }

type arc struct{ from, kind, to uint32 }

// graphChange is the effect of one edit on the graph.
type graphChange struct {
	id        string
	deleted   bool
	relations []RelationEdit
}

func newGraph() *graph {
	return &graph{ready: make(chan struct{}), numbers: make(map[string]uint32), props: make(map[arc]value.Value), kinds: make(map[string]uint32)}
}

// graphPage is how many edges are read from the store at once.
const graphPage = 10_000

// load reads all edges from the store, retrying until it succeeds.
func (g *graph) load(r *Runtime) {
	var after Relation
	delay := r.cfg.RetryMin
	for {
		page, err := query(r.ctx, r, func(ctx context.Context) ([]Relation, error) { return r.store.Relations(ctx, after, graphPage) })
		if err != nil {
			if r.ctx.Err() != nil {
				return
			}
			r.log.LogAttrs(r.ctx, slog.LevelError, "relations cannot be read, trying again", slog.String("error", err.Error()))
			if pause.For(r.ctx, delay) != nil {
				return
			}
			delay = min(2*delay, r.cfg.RetryMax)
			continue
		}
		g.mu.Lock()
		for i := range page {
			g.put(&page[i])
		}
		if len(page) < graphPage {
			g.finish()
			g.mu.Unlock()
			return
		}
		g.mu.Unlock()
		after = page[len(page)-1]
	}
}

// finish applies the edits that were committed during the load. REQUIRES: g.mu held.
func (g *graph) finish() {
	g.loaded = true
	for _, c := range g.pending {
		g.apply(c)
	}
	g.pending = nil
	close(g.ready)
}

// follow applies the edits of committed deliveries.
func (g *graph) follow(deliveries []*delivery) {
	for _, d := range deliveries {
		if d.edit == nil || !d.edit.Deleted && len(d.edit.Relations) == 0 {
			continue
		}
		c := graphChange{id: d.h.id, deleted: d.edit.Deleted, relations: d.edit.Relations}
		g.mu.Lock()
		if g.loaded {
			g.apply(c)
		} else {
			g.pending = append(g.pending, c)
		}
		g.mu.Unlock()
	}
}

// apply REQUIRES: g.mu held.
func (g *graph) apply(c graphChange) {
	if c.deleted {
		g.drop(c.id)
		return
	}
	for i := range c.relations {
		if rel := &c.relations[i]; rel.Removed {
			g.remove(&rel.Relation)
		} else {
			g.put(&rel.Relation)
		}
	}
}

// node returns the number of an entity, assigning one if need be. REQUIRES: g.mu held.
func (g *graph) node(id string) uint32 {
	n, ok := g.numbers[id]
	if !ok {
		n = uint32(len(g.names))
		id = strings.Clone(id)
		g.numbers[id] = n
		g.names, g.out, g.in = append(g.names, id), append(g.out, nil), append(g.in, nil)
	}
	return n
}

// kind does the same for the type of a relation. REQUIRES: g.mu held.
func (g *graph) kind(name string) uint32 {
	k, ok := g.kinds[name]
	if !ok {
		k = uint32(len(g.kindsOf))
		name = strings.Clone(name)
		g.kinds[name] = k
		g.kindsOf = append(g.kindsOf, name)
	}
	return k
}

func compareEdges(a, b edge) int {
	return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.to, b.to))
}

// put adds an edge or replaces its properties. REQUIRES: g.mu held.
func (g *graph) put(r *Relation) {
	a := arc{g.node(r.From), g.kind(r.Type), g.node(r.To)}
	e := edge{a.kind, a.to}
	if i, ok := slices.BinarySearchFunc(g.out[a.from], e, compareEdges); !ok {
		g.out[a.from] = slices.Insert(g.out[a.from], i, e)
		g.in[a.to] = append(g.in[a.to], edge{a.kind, a.from})
		g.edges++
	}
	if r.Properties.Kind() == 0 {
		delete(g.props, a)
	} else {
		g.props[a] = r.Properties
	}
}

// remove removes an edge if it exists. REQUIRES: g.mu held.
func (g *graph) remove(r *Relation) {
	from, ok1 := g.numbers[r.From]
	kind, ok2 := g.kinds[r.Type]
	to, ok3 := g.numbers[r.To]
	if ok1 && ok2 && ok3 {
		g.cut(arc{from, kind, to})
	}
}

// cut REQUIRES: g.mu held.
func (g *graph) cut(a arc) {
	i, ok := slices.BinarySearchFunc(g.out[a.from], edge{a.kind, a.to}, compareEdges)
	if !ok {
		return
	}
	g.out[a.from] = slices.Delete(g.out[a.from], i, i+1)
	if j := slices.Index(g.in[a.to], edge{a.kind, a.from}); j >= 0 {
		last := len(g.in[a.to]) - 1
		g.in[a.to][j] = g.in[a.to][last]
		g.in[a.to] = g.in[a.to][:last]
	}
	delete(g.props, a)
	g.edges--
}

// drop removes all edges of an entity, which keeps its number. REQUIRES: g.mu held.
func (g *graph) drop(id string) {
	n, ok := g.numbers[id]
	if !ok {
		return
	}
	for len(g.out[n]) > 0 {
		e := g.out[n][len(g.out[n])-1]
		g.cut(arc{n, e.kind, e.to})
	}
	for len(g.in[n]) > 0 {
		e := g.in[n][len(g.in[n])-1]
		g.cut(arc{e.to, e.kind, n})
	}
	g.out[n], g.in[n] = nil, nil
}

// wait returns when the graph is loaded.
func (g *graph) wait(ctx context.Context) error {
	select {
	case <-g.ready:
		return nil
	default:
	}
	select {
	case <-g.ready:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// relation returns the Relation of an arc. REQUIRES: g.mu held for reading.
func (g *graph) relation(a arc) Relation {
	return Relation{From: g.names[a.from], To: g.names[a.to], Type: g.kindsOf[a.kind], Properties: g.props[a]}
}

// len is how many edges there are.
func (g *graph) len() int {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.edges
}

// has reports whether there is an edge.
func (g *graph) has(from, kind, to string) bool {
	g.mu.RLock()
	defer g.mu.RUnlock()
	n, ok1 := g.numbers[from]
	k, ok2 := g.kinds[kind]
	m, ok3 := g.numbers[to]
	if !ok1 || !ok2 || !ok3 {
		return false
	}
	_, ok := slices.BinarySearchFunc(g.out[n], edge{k, m}, compareEdges)
	return ok
}

// degree is how many edges go out from an entity.
func (g *graph) degree(id string) int {
	g.mu.RLock()
	defer g.mu.RUnlock()
	if n, ok := g.numbers[id]; ok {
		return len(g.out[n])
	}
	return 0
}

// degreeOf is how many edges of a type go out from an entity.
func (g *graph) degreeOf(id, kind string) int {
	g.mu.RLock()
	defer g.mu.RUnlock()
	n, ok1 := g.numbers[id]
	k, ok2 := g.kinds[kind]
	if !ok1 || !ok2 {
		return 0
	}
	from, _ := slices.BinarySearchFunc(g.out[n], edge{k, 0}, compareEdges)
	to, _ := slices.BinarySearchFunc(g.out[n], edge{k + 1, 0}, compareEdges)
	return to - from
}

// edgesOf returns the edges of an entity: first those from it, then those to it,
// each ordered by type and the entity at the other end.
func (g *graph) edgesOf(id string, d Direction) []Relation {
	g.mu.RLock()
	defer g.mu.RUnlock()
	n, ok := g.numbers[id]
	if !ok {
		return nil
	}
	var list []Relation
	if d&Out != 0 {
		for _, e := range g.out[n] {
			list = append(list, g.relation(arc{n, e.kind, e.to}))
		}
		slices.SortFunc(list, compareRelations)
	}
	if d&In != 0 {
		out := len(list)
		for _, e := range g.in[n] {
			if e.to != n || d&Out == 0 { // an edge to itself is listed once
				list = append(list, g.relation(arc{e.to, e.kind, n}))
			}
		}
		slices.SortFunc(list[out:], compareRelations)
	}
	return list
}

func compareRelations(a, b Relation) int {
	return cmp.Or(strings.Compare(a.Type, b.Type), strings.Compare(a.From, b.From), strings.Compare(a.To, b.To))
}

// graphPatience is how long an entity waits for the graph after the runtime was
// opened.
const graphPatience = time.Minute

// Relations returns the edges of an entity, as committed: first those from it,
// then those to it, each ordered by type and the entity at the other end. An
// entity that does not exist has none.
func (r *Runtime) Relations(ctx context.Context, id string, d Direction) ([]Relation, error) {
	if err := CheckID(id); err != nil {
		return nil, err
	}
	if err := r.graph.wait(ctx); err != nil {
		return nil, fmt.Errorf("relations of %q: %w", id, err)
	}
	return r.graph.edgesOf(id, d), nil
}

// eachRelation is Relations as an iterator, for a View.
func (r *Runtime) eachRelation(id string, d Direction) iter.Seq[Relation] {
	return func(yield func(Relation) bool) {
		ctx, cancel := context.WithTimeout(r.ctx, graphPatience)
		defer cancel()
		list, err := r.Relations(ctx, id, d)
		if err != nil {
			return
		}
		for i := range list {
			if !yield(list[i]) {
				return
			}
		}
	}
}
