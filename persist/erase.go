package persist

import (
	"context"
	"errors"
	"fmt"
)

// errErased is why an actor begins anew whose past was erased.
var errErased = errors.New("what it had recorded was erased")

// Erase forgets what the actor with that id has recorded: events, state, snapshots, reminders, and
// messages that were not delivered. It is durable when Erase returns nil, and the bytes are gone from
// the tables of a journal that has some; its files keep them until their room is used again, and
// the log of package jetstream for ever. What stays is that there was an id, the numbers that were
// used, and which messages it has seen and sent.
// Those who follow the events get one with Erased set, and have their own copy to forget.
//
// An actor of this Persistence with that id is restarted before its next message, which it
// handles as a new one does; a handler that runs meanwhile fails. An actor of another
// process answers from what it knows until it records something, which is refused with
// [ErrFenced]: stop it first. A message that is under way may still arrive.
//
// Erase waits for the journal. An id that has nothing is no error.
func (p *Persistence) Erase(ctx context.Context, id string) error {
	if err := CheckID(id); err != nil {
		return fmt.Errorf("erase: %w", err)
	}
	for {
		l, err := p.journal.Load(ctx, []string{id})
		last := uint64(0)
		if err == nil {
			last = l[0].Last
			if last > l[0].Erased {
				last++
				err = p.erase(ctx, id, l[0].Last)
			}
		}
		switch {
		case errors.Is(err, ErrConflict): // it has recorded something meanwhile
		case err != nil:
			return fmt.Errorf("erase %s: %w", id, err)
		default:
			if in := p.receivers.living(id); in != nil {
				in.forgetAll(last)
			}
			return nil
		}
	}
}

// forgetAll has the actor begin anew, unless it knows the erasure with that number.
func (in *incarnation) forgetAll(erasure uint64) {
	in.mu.Lock()
	knows := in.last >= erasure
	in.mu.Unlock()
	if !knows {
		in.refuse(errErased)
	}
}

// erase commits an erasure of what an id has up to a number.
func (p *Persistence) erase(ctx context.Context, id string, last uint64) error {
	done := make(chan error, 1)
	in := &incarnation{p: p, id: id}
	u := &unit{of: in, append: Append{ID: id, After: last, Erase: true}, bytes: unitBytes, outputs: []func(error){func(err error) { done <- err }}}
	in.mu.Lock()
	in.units, in.bytes, in.held = []*unit{u}, u.bytes, 1
	p.commits.submit(u)
	in.mu.Unlock()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
