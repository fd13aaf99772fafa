package persist

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/greenroom-go/greenroom/actor"
)

// errErased is the failure with which an actor restarts whose past was erased.
var errErased = errors.New("what it had recorded was erased")

// Erase forgets what the actor with that id has recorded: events, state, snapshots, reminders, and
// undelivered messages. When Erase returns nil this is durable, and nobody can read any of it. If
// the journal has tables, the bytes are gone from them (events in package sqlite within seconds,
// between commits), but its files keep them until their room is used again. The log of package
// jetstream keeps them forever. What stays is that the id existed, the numbers that were used, and
// which messages it has seen and sent. Followers of the events get one with Erased set, and must
// erase their own copies.
//
// An actor of this Persistence with that id is restarted before its next message, which it handles
// as a new actor would; a handler that runs meanwhile fails. An actor of another process answers
// from what it knows until it records something, which is refused with [ErrFenced]: stop it first.
//
// Messages of Send that were committed before the erasure and not delivered are no longer
// delivered, nor are reminders, and their memory is released. A receiver's handler that is already
// running, or a function of [Persistence.Deliver] that was called, continues. Another process may
// still deliver what it has read of them before.
//
// Erase waits for the journal. For an id that has recorded nothing since it was last erased it
// changes nothing, which is not an error: a handler that runs meanwhile goes on, and what it records
// is kept.
func (p *Persistence) Erase(ctx context.Context, id string) error {
	if err := CheckID(id); err != nil {
		return fmt.Errorf("erase: %w", err)
	}
	for {
		err := p.erase(ctx, id)
		if !errors.Is(err, ErrConflict) { // it has recorded something meanwhile
			return wrapErase(id, err)
		}
	}
}

func wrapErase(id string, err error) error {
	if err != nil {
		return fmt.Errorf("erase %s: %w", id, err)
	}
	return nil
}

// erase commits an erasure of what an id has, if it has something, and makes its actor restart.
func (p *Persistence) erase(ctx context.Context, id string) error {
	l, err := p.journal.Load(ctx, []string{id})
	if err != nil {
		return err
	}
	last, erased := l[0].Last, l[0].Erased
	done := make(chan error, 1)
	u := &unit{append: Append{ID: id, After: last, Erase: true}, bytes: unitBytes, outputs: []func(error){func(err error) { done <- err }}}
	u.of = &incarnation{p: p, id: id, units: []*unit{u}, bytes: u.bytes, held: 1}
	in := p.receivers.living(id)
	submitted := in != nil && in.erase(u, erased) // after what it has in flight
	if !submitted && last > erased {
		p.commits.submit(u)
		submitted = true
	}
	in = p.receivers.living(id) // an actor that starts later waits for what was submitted
	if submitted {
		select {
		case err = <-done:
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		erased = u.append.Last()
	}
	if err != nil {
		return err
	}
	if in != nil {
		in.forgetAll(erased)
	}
	for _, who := range []actor.Ref[any]{p.outbox, p.reminders} {
		if err := forget(ctx, who, id); err != nil {
			return err
		}
	}
	return nil
}

// forget tells the outbox or the reminders to forget an id. It does not use Ask, which would divide
// the handler.
func forget(ctx context.Context, who actor.Ref[any], id string) error {
	for {
		done := make(chan struct{})
		if err := who.TryTell(context.Background(), forgetID{id, done}); err != nil {
			return fmt.Errorf("erase %q: %w", id, err)
		}
		select {
		case <-done:
			return nil
		case <-time.After(patience): // it was lost with an incarnation
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// erase submits the erasure of what the actor has recorded, and makes it restart. It reports false
// if the actor does not know its number, or has recorded nothing since it was erased.
func (in *incarnation) erase(u *unit, erased uint64) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	last := in.last - uint64(len(in.events)) // the number of what is in flight
	if in.seen == nil || in.trouble() != nil || last <= erased {
		return false
	}
	u.append.After = last
	in.stale = errErased // not refused, so that what is in flight arrives
	in.p.commits.submit(u)
	return true
}

// forgetAll makes the actor restart, unless it knows the erasure with that number.
func (in *incarnation) forgetAll(erasure uint64) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.last < erasure && in.stale == nil {
		in.stale = errErased
	}
}
