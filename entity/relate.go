package entity

import (
	"context"
	"fmt"

	"github.com/greenroom-go/greenroom/entity/value"
)

// checkRelations returns an error if the edges of an edit cannot be put. Whether the other end
// exists, its actor says if it is live, and otherwise the store.
//
// checkRelations also returns the types of the entities at the other ends.
func (r *Runtime) checkRelations(ctx context.Context, id string, edits *Edits) (targets map[string]string, err error) {
	for _, list := range [][]Relation{edits.Relate, edits.Unrelate} {
		for i := range list {
			if err := list[i].check(); err != nil {
				return nil, fmt.Errorf("entity %q: relation %q to %q: %w", id, brief(list[i].Type), brief(list[i].To), err)
			}
		}
	}
	for i := range edits.Relate {
		to := edits.Relate[i].To
		if to == id {
			continue
		}
		typ, err := r.typeOf(ctx, to)
		if err != nil {
			return nil, fmt.Errorf("entity %q: relation %q to %q: %w", id, edits.Relate[i].Type, to, err)
		}
		if targets == nil {
			targets = make(map[string]string, len(edits.Relate))
		}
		targets[to] = typ
	}
	return targets, nil
}

// typeOf returns the type of an existing entity: from its actor if it is live, since that knows
// what is not in the store yet, and otherwise from the store.
func (r *Runtime) typeOf(ctx context.Context, id string) (typ string, err error) {
	if h := r.handles.find(id); h != nil {
		if !h.actor().IsZero() {
			err = r.View(ctx, id, func(v View) error { typ = v.Type(); return nil })
			return typ, err
		}
		if err := r.committer.Wait(ctx, h.ticket.Load()); err != nil { // what an actor that has ended left to the committer
			return "", err
		}
	}
	e, err := r.load(ctx, id)
	return e.Type, err
}

func (rel *Relation) check() error {
	if err := CheckID(rel.To); err != nil {
		return err
	}
	if err := checkName("type", rel.Type, MaxTypeBytes); err != nil {
		return err
	}
	if p := rel.Properties; p.Kind() != 0 && (p.Kind() != value.KindJSON || p.Text()[0] != '{' || len(p.Text()) > MaxTextBytes) {
		return fmt.Errorf("properties: %w: must be a JSON object of at most %d bytes", ErrInvalid, MaxTextBytes)
	}
	return nil
}

// relate records the edges that the edits put and remove. The graph is complete for this entity,
// because an edit of edges has claimed it (see claims).
func (e *entityActor) relate(edits *Edits, edit *Edit) error {
	if len(edits.Relate)+len(edits.Unrelate) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(e.rt.ctx, graphPatience)
	defer cancel()
	if err := e.rt.graph.wait(ctx); err != nil {
		return fmt.Errorf("wait for the relations: %w", err)
	}
	for _, rel := range edits.Unrelate {
		if !e.rt.graph.has(e.h.id, rel.Type, rel.To) {
			return fmt.Errorf("relation %q to %q: %w", rel.Type, rel.To, ErrNotFound)
		}
		edit.Relations = append(edit.Relations, RelationEdit{Relation{From: e.h.id, Type: rel.Type, To: rel.To}, true})
	}
	for _, rel := range edits.Relate {
		rel.From = e.h.id
		edit.Relations = append(edit.Relations, RelationEdit{Relation: rel})
	}
	if n := e.rt.graph.degree(e.h.id) + len(edits.Relate); n > MaxRelations {
		return fmt.Errorf("relations: %w: the entity would have %d; at most %d are allowed", ErrInvalid, n, MaxRelations)
	}
	return nil
}
