package entity

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// Edits are the changes that Runtime.Edit makes to one entity, atomically.
type Edits struct {
	// If is the ETag that the entity must have, IfAny, IfNone, or "" to edit it in any case, and to
	// make it if it does not exist.
	If string
	// By is who makes the edits, "" for nobody in particular. See Once.By.
	By string
	// From says who computed the edits and from what; it is the zero Origin if they were not
	// computed. If the entity has already accepted edits of the same Source with the same or a
	// greater Seq, these are a repetition, as they are for IngestFrom, and change nothing.
	From Origin
	// Of is the required creation time of the entity, in milliseconds since the epoch; 0 allows
	// any. If that entity has been deleted since, the error is ErrNotFound.
	Of int64
	// Type, if it is not nil, is the entity's new type, "" for none. The entity must agree with it.
	Type *string
	// Patches change the attributes, one after the other.
	Patches []Patch
	// Relate puts edges from the entity, or replaces their properties. To must exist. Unrelate
	// removes edges. From is ignored.
	Relate   []Relation
	Unrelate []Relation
}

// Edited is the result of an edit.
type Edited struct {
	ETag     string // of the entity, now
	Revision uint64 // of the entity, now
	Created  bool   // the edit created it
	// Attributes are the leaves that were set or removed.
	Attributes []AttributeEdit
}

// Edit changes an entity except its telemetry, and returns when that is durable. An entity that
// does not exist is created, even if it is empty. Empty edits leave an entity and its ETag
// unchanged; setting a leaf to the value it has gives it a new time, and is a change.
//
// It returns ErrConflict or ErrNotFound if the condition does not hold, ErrNotFound if the other
// end of a relation does not exist, ErrInvalid for invalid edits, and ErrMismatch for edits that do
// not agree with the entity's type; in each case nothing has been changed. If ctx ends while it
// waits for the commit, the outcome is unknown.
func (r *Runtime) Edit(ctx context.Context, id string, edits Edits) (Edited, error) {
	if r.window.full.Load() { // do not wait behind an edit that is not committed
		return Edited{}, fmt.Errorf("entity %q: %w", id, ErrFull)
	}
	if err := edits.From.check(); err != nil {
		return Edited{}, err
	}
	size := 0
	for i := range edits.Patches {
		size += len(edits.Patches[i].Body)
	}
	for i := range edits.Relate {
		size += len(edits.Relate[i].To) + len(edits.Relate[i].Properties.Text())
	}
	release, err := r.claim(ctx, id, &edits)
	if err != nil {
		return Edited{}, err
	}
	targets, err := r.checkRelations(ctx, id, &edits)
	if err != nil {
		release()
		return Edited{}, err
	}
	var done Edited
	err = r.change(ctx, id, edits.By, edits.From, size, release, func(e *entityActor) (*Edit, error) {
		edit, err := e.apply(&edits, targets)
		if err != nil {
			return nil, err
		}
		if edit == nil {
			done.ETag, done.Revision = etag(e.state.created, e.state.revision), e.state.revision
		}
		return edit, nil
	}, func(d *delivery) {
		if d.edit != nil {
			done = Edited{ETag: etag(d.created, d.edit.Revision), Revision: d.edit.Revision, Created: d.edit.Created, Attributes: d.edit.Attributes}
		}
	})
	if err != nil {
		return Edited{}, err
	}
	return done, nil
}

// claim claims the entities that the edits depend on; edits of attributes alone need no claim.
func (r *Runtime) claim(ctx context.Context, id string, edits *Edits) (release func(), err error) {
	if edits.Type == nil && len(edits.Relate)+len(edits.Unrelate) == 0 {
		return func() {}, nil
	}
	if release, err = r.claims.take(ctx, id, toItself, edits.Relate); err != nil {
		return nil, fmt.Errorf("entity %q: %w", id, err)
	}
	return release, nil
}

// Delete deletes an entity; condition is as Edits.If. When Delete returns, the entity's state, its
// relations in both directions and its history are gone. A later reading makes a new entity. It
// returns ErrNotFound if there is none.
func (r *Runtime) Delete(ctx context.Context, id, condition string) error {
	if condition == "" {
		condition = IfAny
	}
	if r.window.full.Load() {
		return fmt.Errorf("entity %q: %w", id, ErrFull)
	}
	release, err := r.claims.take(ctx, id, toEnd, nil)
	if err != nil {
		return fmt.Errorf("entity %q: %w", id, err)
	}
	return r.change(ctx, id, "", Origin{}, 0, release, func(e *entityActor) (*Edit, error) {
		if err := CheckCondition(condition, e.etag()); err != nil {
			return nil, err
		}
		return &Edit{Deleted: true}, nil
	}, func(*delivery) {})
}

// etag is "" for an entity that does not exist.
func (e *entityActor) etag() string {
	if e.state.created == 0 {
		return ""
	}
	return etag(e.state.created, e.state.revision)
}

// editCost is roughly the size of an edit without its text, in bytes.
const editCost = 512

// change sends an edit to an entity and waits for its commit. f runs in the entity's turn, with its
// state loaded; it changes the state and returns the edit, or nil if there is nothing to change, or
// returns an error and changes nothing. after runs once the edit is durable, and release when it is
// settled either way. size is roughly the size of the edit in bytes.
func (r *Runtime) change(ctx context.Context, id, by string, from Origin, size int, release func(), f func(*entityActor) (*Edit, error), after func(*delivery)) error {
	if err := CheckID(id); err != nil {
		release()
		return err
	}
	settled := make(chan error, 2) // a notice, and the end
	d := &delivery{change: f, origin: from, cost: int64(size) + editCost, notice: func(err error) { settled <- err }}
	d.done = func(err error) {
		if err == nil {
			after(d)
		}
		release()
		settled <- err
	}
	if err := r.send(ctx, id, sourceOf(by, id), d); err != nil {
		release()
		return fmt.Errorf("entity %q: %w", id, err)
	}
	select {
	case err := <-settled:
		if errors.Is(err, ErrConflict) || errors.Is(err, ErrNotFound) {
			return r.refuse(ctx, id, err)
		}
		return err
	case <-ctx.Done():
		return fmt.Errorf("entity %q: outcome unknown: %w", id, context.Cause(ctx))
	}
}

// refuse returns the reason for refusing an edit, once the edits before it are committed: the
// reason may lie in them, and must not be reported while they may still fail.
func (r *Runtime) refuse(ctx context.Context, id string, why error) error {
	if h := r.handles.find(id); h != nil {
		if r.window.full.Load() && !r.committer.Committed(h.edited.Load()) {
			return fmt.Errorf("entity %q: refused because of edits that are not committed: %w", id, ErrFull)
		}
		if err := r.committer.Wait(ctx, h.edited.Load()); err != nil {
			return fmt.Errorf("entity %q: refused because of edits that are not committed: %w", id, err)
		}
	}
	return why
}

// edit applies the edit of a delivery.
func (e *entityActor) edit(d *delivery) error {
	edit, err := d.change(e)
	if err != nil || edit == nil {
		return err
	}
	d.ts = e.rt.clock.stamp()
	if e.state.created == 0 {
		edit.Created = true
		e.state.created = d.ts
	}
	e.state.revision++
	edit.Revision = e.state.revision
	d.edit, d.typ = edit, e.state.typ
	d.created, d.num = e.state.created, e.num
	if edit.Deleted {
		e.state = state{seq: e.state.seq, revision: e.state.revision}
		e.num = 0
		e.plan()
		e.rt.receivers.forget(e.h.id)
		e.rt.presences.forget(e.h.id)
	}
	if edit.Created {
		e.rt.presences.made(e.h.id)
	}
	if edit.Typed {
		e.rt.presences.follow(e.h.id, edit.Type)
	}
	return nil
}

// apply applies the edits to the state, or returns an error and changes nothing. It returns nil if
// the edits are empty.
func (e *entityActor) apply(edits *Edits, targets map[string]string) (*Edit, error) {
	if edits.Of != 0 && edits.Of != e.state.created {
		return nil, ErrNotFound
	}
	if e.state.repeated(edits.From) {
		return nil, nil //nolint:nilnil // documented
	}
	if err := e.state.checkSource(edits.From); err != nil {
		return nil, err
	}
	if edits.If != "" {
		if err := CheckCondition(edits.If, e.etag()); err != nil {
			return nil, err
		}
	}
	now := e.rt.clock.stamp()
	edit := &Edit{}
	next, err := e.patched(edits.Patches, now, edit)
	if err != nil {
		return nil, err
	}
	if err := e.relate(edits, edit); err != nil {
		return nil, err
	}
	if edits.Type != nil && *edits.Type != e.state.typ {
		edit.Typed, edit.Type = true, *edits.Type
	}
	if e.state.created != 0 && !edit.Typed && len(edit.Attributes) == 0 && len(edit.Relations) == 0 {
		return nil, nil //nolint:nilnil // documented
	}
	if err := e.conforms(edit, next, targets); err != nil {
		return nil, err
	}
	if err := e.intern(next, edit, edits.By); err != nil {
		return nil, err
	}
	e.state.computedBy(edits.From)
	if edit.Typed {
		e.state.typ = edit.Type
	}
	if len(edit.Attributes) > 0 {
		e.state.extras().replace(next)
	}
	return edit, nil
}

// patched returns the sections as they are after the patches, and notes what
// changed.
func (e *entityActor) patched(patches []Patch, now int64, edit *Edit) (next [len(sections)]section, err error) {
	for _, s := range sections {
		next[s-1] = e.state.section(s)
	}
	total, bytes, work := 0, 0, 0
	for i := range patches {
		p := &patches[i]
		if p.Section < Attributes || p.Section > Reported {
			return next, fmt.Errorf("section %d: %w: there are attributes, desired and reported", p.Section, ErrInvalid)
		}
		l, err := p.apply(next[p.Section-1], now, work)
		if err != nil {
			return next, fmt.Errorf("patch of %v: %w", p.Section, err)
		}
		next[p.Section-1], work = l.section, l.work
	}
	for _, s := range sections {
		l := leaves{section: next[s-1], now: now}
		edit.Attributes = append(edit.Attributes, l.compare(e.state.section(s), s)...)
		total += len(next[s-1])
		bytes += next[s-1].bytes()
	}
	if total > MaxAttributes {
		return next, fmt.Errorf("attributes: %w: the entity would have %d; at most %d are allowed", ErrInvalid, total, MaxAttributes)
	}
	if bytes > MaxAttributeBytes && len(edit.Attributes) > 0 && grows(edit.Attributes) {
		return next, fmt.Errorf("attributes: %w: the entity would have %d bytes of them; at most %d are allowed", ErrInvalid, bytes, MaxAttributeBytes)
	}
	return next, nil
}

// grows reports whether an edit sets a leaf. An edit that only removes leaves is allowed even if
// there are too many.
func grows(edits []AttributeEdit) bool {
	return slices.ContainsFunc(edits, func(a AttributeEdit) bool { return !a.Removed() })
}

// intern makes the new leaves use the shared strings of their paths. by is the sender.
func (e *entityActor) intern(next [len(sections)]section, edit *Edit, by string) error {
	keys := e.rt.keys
	if !keys.surelyFits(len(edit.Attributes)) {
		unknown := make(map[string]struct{})
		for i := range edit.Attributes {
			if a := &edit.Attributes[i]; !a.Removed() {
				if _, known := keys.find(a.Path); !known {
					unknown[a.Path] = struct{}{}
				}
			}
		}
		if err := keys.room(len(unknown), by); err != nil {
			return fmt.Errorf("attributes: %w", err)
		}
	}
	for i := range edit.Attributes {
		a := &edit.Attributes[i]
		if a.Removed() {
			continue
		}
		path := keys.intern(a.Path, by)
		list := next[a.Section-1]
		if at, ok := list.find(path); ok {
			list[at].Path = path
		}
	}
	return nil
}
