package entity

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/greenroom-go/greenroom/actor"
)

// View gives filters and mappings read access to one entity at one moment, without building a
// document. It is valid only while the function that was given it runs, and on that function's
// goroutine; the values that it returns may be kept.
type View interface {
	ID() string
	// Type returns the id of the entity's type, "" for none; IsA reports whether the type is that
	// type or extends it.
	Type() string
	IsA(id string) bool
	// Created returns when the entity was created, and Updated the newest TS of its readings, in
	// milliseconds since the epoch.
	Created() int64
	Updated() int64
	// ETag returns the version of everything but the telemetry.
	ETag() string
	// Revision returns the number of the last edit, 0 if there was none.
	Revision() uint64
	// Presence says whether the device is online.
	Presence() Presence
	// Latest returns the newest value of a key.
	Latest(key string) (Latest, bool)
	// EachLatest iterates over all latest values, in no particular order.
	EachLatest() iter.Seq[Latest]
	// Attribute returns the leaf at a JSON pointer of a section (see Pointer). An object with
	// members is not a leaf; Has reports whether there is either.
	Attribute(s Section, path string) (Attribute, bool)
	Has(s Section, path string) bool
	// EachAttribute iterates over all leaves of a section, ordered by path.
	EachAttribute(s Section) iter.Seq[Attribute]
	// Relations iterates over the edges of the entity, as committed.
	Relations(d Direction) iter.Seq[Relation]
}

// View calls f with the entity, in the entity's own turn: nothing changes while f runs, so f must
// be quick, and must not wait for this entity. The entity is started if need be. The view may
// include readings that are not committed yet, but no uncommitted edits. View returns ErrNotFound
// if the entity does not exist, and the error of f. f neither runs nor is called after View has
// returned, even if ctx ends first.
func (r *Runtime) View(ctx context.Context, id string, f func(View) error) error {
	if err := CheckID(id); err != nil {
		return err
	}
	ahead := false
	err := askEntity(ctx, r, id, func(ref actor.Ref[message]) error {
		call := newViewCall(f)
		answer, err := actor.Ask(ctx, ref, viewRequest{call: call})
		if err != nil {
			call.abandon()
			return err
		}
		ahead = answer.ahead
		return answer.err
	})
	if !ahead {
		return err
	}
	e, err := r.load(ctx, id)
	if err != nil {
		return fmt.Errorf("entity %q: %w", id, err)
	}
	return f(storedView{r, &e})
}

// Scan calls f with each entity that matches q, in the order of their ids, as committed, until f
// returns false. q.Limit is ignored. No entity is started for it. Scan sees all writes of the
// caller that were acknowledged.
func (r *Runtime) Scan(ctx context.Context, q ListQuery, f func(View) bool) error {
	for p := newPager(scanPage); ; {
		q.Limit = p.limit()
		page, err := r.page(ctx, q)
		if err != nil {
			return err
		}
		for i := range page {
			if !f(storedView{r, &page[i]}) {
				return nil
			}
		}
		if len(page) < q.Limit {
			return nil
		}
		q.After = page[len(page)-1].ID
		p.took(page)
	}
}

// pageBytes is roughly how much memory entities that are read together may occupy.
const pageBytes = 16 << 20

// pager determines how many entities to read at once: few at first, then as many as should fit into
// pageBytes, judging by the previous ones.
type pager struct {
	next, most int
	largest    int64
}

func newPager(most int) pager { return pager{next: 4, most: most} }

func (p *pager) limit() int { return min(p.next, p.most) }

// took records the entities of a page and returns how many bytes they occupy.
func (p *pager) took(page []Stored) (bytes int64) {
	for i := range page {
		size := page[i].bytes()
		p.largest = max(p.largest, size)
		bytes += size
	}
	p.next = max(1, min(4*p.limit(), int(pageBytes/max(p.largest, 1)))) //nolint:gosec // at most pageBytes
	return bytes
}

// page reads entities from the store.
func (r *Runtime) page(ctx context.Context, q ListQuery) ([]Stored, error) {
	return query(ctx, r, func(ctx context.Context) ([]Stored, error) { return r.store.Entities(ctx, q) })
}

// scanPage is how many entities Scan reads at once.
const scanPage = 1000

// stateView is the View of an entity that is live. REQUIRES: its actor's turn.
type stateView struct {
	e *entityActor
}

func (v stateView) ID() string         { return v.e.h.id }
func (v stateView) Type() string       { return v.e.state.typ }
func (v stateView) IsA(id string) bool { return v.e.rt.isA(v.e.state.typ, id) }
func (v stateView) Created() int64     { return v.e.state.created }
func (v stateView) Updated() int64     { return v.e.state.updated() }
func (v stateView) ETag() string       { return etag(v.e.state.created, v.e.state.revision) }
func (v stateView) Revision() uint64   { return v.e.state.revision }
func (v stateView) Presence() Presence { return v.e.rt.presences.live(v.e.h.id, v.e.state.presence) }

func (v stateView) Latest(key string) (Latest, bool) {
	id, ok := v.e.rt.keys.find(key)
	if !ok {
		return Latest{}, false
	}
	i, ok := v.e.state.find(id)
	if !ok {
		return Latest{}, false
	}
	return v.e.state.latest(i, v.e.rt.keys), true
}

func (v stateView) EachLatest() iter.Seq[Latest] {
	return func(yield func(Latest) bool) {
		for i := range v.e.state.slots {
			if !yield(v.e.state.latest(i, v.e.rt.keys)) {
				return
			}
		}
	}
}

func (v stateView) Attribute(s Section, path string) (Attribute, bool) {
	list := v.e.state.section(s)
	if i, ok := list.find(path); ok {
		return list[i], true
	}
	return Attribute{}, false
}

func (v stateView) Has(s Section, path string) bool { return v.e.state.section(s).has(path) }

func (v stateView) EachAttribute(s Section) iter.Seq[Attribute] {
	return slices.Values(v.e.state.section(s))
}

func (v stateView) Relations(d Direction) iter.Seq[Relation] {
	return v.e.rt.eachRelation(v.e.h.id, d)
}

// storedView is the View of an entity as the store has it.
type storedView struct {
	rt *Runtime
	e  *Stored
}

func (v storedView) ID() string         { return v.e.ID }
func (v storedView) Type() string       { return v.e.Type }
func (v storedView) IsA(id string) bool { return v.rt.isA(v.e.Type, id) }
func (v storedView) Created() int64     { return v.e.Created }
func (v storedView) Updated() int64     { return v.e.Updated }
func (v storedView) ETag() string       { return etag(v.e.Created, v.e.Revision) }
func (v storedView) Revision() uint64   { return v.e.Revision }
func (v storedView) Presence() Presence { return v.rt.presences.live(v.e.ID, v.e.Presence) }

func (v storedView) Latest(key string) (Latest, bool) {
	i, ok := slices.BinarySearchFunc(v.e.Latest, key, func(l Latest, key string) int { return strings.Compare(l.Key, key) })
	if !ok {
		return Latest{}, false
	}
	return v.e.Latest[i], true
}

func (v storedView) EachLatest() iter.Seq[Latest] { return slices.Values(v.e.Latest) }

// section returns the range of a section in the leaves.
func (v storedView) section(s Section) []StoredAttribute {
	bySection := func(a StoredAttribute, s Section) int { return int(a.Section) - int(s) }
	from, _ := slices.BinarySearchFunc(v.e.Attributes, s, bySection)
	to, _ := slices.BinarySearchFunc(v.e.Attributes, s+1, bySection)
	return v.e.Attributes[from:to]
}

func (v storedView) find(s Section, path string) (list []StoredAttribute, i int, ok bool) {
	list = v.section(s)
	i, ok = slices.BinarySearchFunc(list, path, func(a StoredAttribute, path string) int { return strings.Compare(a.Path, path) })
	return list, i, ok
}

func (v storedView) Attribute(s Section, path string) (Attribute, bool) {
	list, i, ok := v.find(s, path)
	if !ok {
		return Attribute{}, false
	}
	return list[i].Attribute, true
}

func (v storedView) Has(s Section, path string) bool {
	if _, _, ok := v.find(s, path); ok {
		return true
	}
	list, i, _ := v.find(s, path+"/")
	return i < len(list) && strings.HasPrefix(list[i].Path, path+"/")
}

func (v storedView) EachAttribute(s Section) iter.Seq[Attribute] {
	return func(yield func(Attribute) bool) {
		for _, a := range v.section(s) {
			if !yield(a.Attribute) {
				return
			}
		}
	}
}

func (v storedView) Relations(d Direction) iter.Seq[Relation] {
	return v.rt.eachRelation(v.e.ID, d)
}

// viewRequest runs a function in the entity's turn.
type viewRequest struct {
	actor.Returns[viewAnswer]
	call *viewCall
}

func (viewRequest) message() {}

// viewCall is a call of f in the entity's turn. The caller may stop waiting for it, and then uses
// what f has written.
type viewCall struct {
	f     func(View) error
	taken atomic.Bool    // set by whoever calls f, or abandons the call
	ended sync.WaitGroup // waits for a call that has begun
}

func newViewCall(f func(View) error) *viewCall {
	c := &viewCall{f: f}
	c.ended.Add(1)
	return c
}

// run calls f, unless nobody waits for it.
func (c *viewCall) run(v View) error {
	if !c.taken.CompareAndSwap(false, true) {
		return context.Canceled // nobody reads this error
	}
	defer c.ended.Done()
	return c.f(v)
}

// abandon prevents the call of f. If f is running, abandon waits until it returns.
func (c *viewCall) abandon() {
	if !c.taken.CompareAndSwap(false, true) {
		c.ended.Wait()
	}
}

type viewAnswer struct {
	ahead bool // there are edits that are not committed; f was not called
	err   error
}

// view answers a viewRequest. A panic of f is a failure of the caller, not of the entity.
func (e *entityActor) view(call *viewCall) (answer viewAnswer) {
	defer func() {
		if p := recover(); p != nil {
			answer.err = fmt.Errorf("view of entity %q panicked: %v", e.h.id, p)
		}
	}()
	err := e.mustExist()
	if (err == nil || errors.Is(err, ErrNotFound)) && !e.rt.committer.Committed(e.h.edited.Load()) {
		return viewAnswer{ahead: true}
	}
	if err != nil {
		return viewAnswer{err: err}
	}
	return viewAnswer{err: call.run(stateView{e})}
}
