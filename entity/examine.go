package entity

import (
	"context"
	"errors"
	"fmt"
)

// Examined is how much Examine has read.
type Examined struct {
	Entities, Latest, Attributes, Relations, Commands, Changes int64
}

// examinePage is how much Examine reads at once.
const examinePage = 1000

// Examine reads a store, and calls found with each contradiction: a latest value for which the
// history has a different or a newer one, a relation to an entity that does not exist, a command
// that cannot be read or is open and not listed as open, a change that is missing or cannot be
// read, a deleted entity that still exists. It changes nothing, and reads everything but the
// history; nobody may write to the store meanwhile. The error is that of the store or of ctx.
func Examine(ctx context.Context, s Store, found func(error)) (Examined, error) {
	x := examiner{s: s, found: found, there: make(map[string]struct{})}
	for _, part := range []func(context.Context) error{x.entities, x.relations, x.changes} {
		if err := part(ctx); err != nil {
			return x.read, fmt.Errorf("examine the store: %w", err)
		}
	}
	return x.read, nil
}

type examiner struct {
	s     Store
	found func(error)
	read  Examined
	there map[string]struct{} // the entities
}

func (x *examiner) entities(ctx context.Context) error {
	for after := ""; ; {
		page, err := x.s.Entities(ctx, ListQuery{After: after, Limit: examinePage})
		if err != nil || len(page) == 0 {
			return err
		}
		for i := range page {
			e := &page[i]
			after = e.ID
			x.there[e.ID] = struct{}{}
			x.read.Entities++
			x.read.Attributes += int64(len(e.Attributes))
			for j := range e.Latest {
				if err := x.latest(ctx, e.ID, &e.Latest[j]); err != nil {
					return err
				}
			}
			if err := x.commands(ctx, e); err != nil {
				return err
			}
		}
	}
}

// latest compares a latest value with the history, from which a retention rule may have removed it.
func (x *examiner) latest(ctx context.Context, id string, l *Latest) error {
	x.read.Latest++
	newest, err := x.s.History(ctx, id, l.Key, Place{}, Place{TS: MaxTS + 1}, 1, true)
	switch {
	case err != nil:
		return err
	case len(newest) == 0:
	case newest[0].TS > l.TS:
		x.found(fmt.Errorf("entity %q key %q: its latest value is of %d, and the history has one of %d", id, l.Key, l.TS, newest[0].TS))
	case newest[0].TS == l.TS && newest[0].Value != l.Value:
		x.found(fmt.Errorf("entity %q key %q: its latest value, of %d, is %v, and %v in the history", id, l.Key, l.TS, l.Value, newest[0].Value))
	}
	return nil
}

// commands reads the commands of an entity, and compares the open ones with the store's list of
// them.
func (x *examiner) commands(ctx context.Context, e *Stored) error {
	open := make(map[string]struct{}, len(e.Commands))
	for i := range e.Commands {
		open[e.Commands[i].ID] = struct{}{}
	}
	q := CommandsQuery{Limit: examinePage}
	for {
		page, err := x.s.Commands(ctx, e.ID, q)
		if err != nil {
			return err
		}
		for i := range page {
			c := &page[i]
			q.Before = c.ID
			x.read.Commands++
			if _, ok := open[c.ID]; ok == c.State.Ended() {
				x.found(fmt.Errorf("entity %q command %q: it is %v, and found among the open ones is %v", e.ID, c.ID, c.State, ok))
			}
			delete(open, c.ID)
		}
		if len(page) < examinePage {
			break
		}
	}
	for id := range open {
		x.found(fmt.Errorf("entity %q command %q: it is found among the open ones only", e.ID, id))
	}
	return nil
}

func (x *examiner) relations(ctx context.Context) error {
	for after := (Relation{}); ; {
		page, err := x.s.Relations(ctx, after, examinePage)
		if err != nil || len(page) == 0 {
			return err
		}
		for _, r := range page {
			after = r
			x.read.Relations++
			for _, id := range []string{r.From, r.To} {
				if _, ok := x.there[id]; !ok {
					x.found(fmt.Errorf("relation %q from %q to %q: there is no %q", r.Type, r.From, r.To, id))
				}
			}
		}
	}
}

// changes reads the change log and checks that no change is missing, and that an entity whose last
// change is its deletion does not exist.
func (x *examiner) changes(ctx context.Context) error {
	info := x.s.Info()
	ended := make(map[string]struct{})
	for after := info.FirstChange - 1; after < info.LastChange; {
		page, err := x.s.Changes(ctx, after, examinePage)
		if err == nil && len(page) == 0 {
			err = errMissing
		}
		if err != nil {
			x.found(fmt.Errorf("change %d of %d: %w", after+1, info.LastChange, err))
			break
		}
		for i := range page {
			c := &page[i]
			if c.Seq != after+1 {
				x.found(fmt.Errorf("change %d is missing, the next one is %d", after+1, c.Seq))
			}
			after = c.Seq
			x.read.Changes++
			if delete(ended, c.Entity); c.Edit != nil && c.Edit.Deleted {
				ended[c.Entity] = struct{}{}
			}
		}
	}
	for id := range ended {
		if _, ok := x.there[id]; ok {
			x.found(fmt.Errorf("entity %q: it was deleted, and is there", id))
		}
	}
	return context.Cause(ctx)
}

var errMissing = errors.New("it is missing")
