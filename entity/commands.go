package entity

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/greenroom-go/greenroom/entity/value"
	"github.com/greenroom-go/greenroom/internal/text"
)

// Command sends a command to the device of an entity, and returns when it is durable: from then on
// it is kept, across restarts and crashes, until it has ended. It is sent as soon as the device can
// be reached (Receive) and the commands before it have ended.
//
// If the entity still keeps a command with the same Key and By, Command returns that one in its
// present state, even if Expires has passed; if its name or its request differ, the error is
// ErrOtherCommand. The other errors are ErrNotFound for an entity that does not exist, ErrInvalid,
// ErrMismatch for a command that its type does not allow, ErrTooManyCommands, and ErrFull while the
// store has no room. If ErrFull says that the outcome is unknown, or ctx ends while Command waits
// for the commit, send it again with the same Key.
func (r *Runtime) Command(ctx context.Context, id string, n NewCommand) (Command, error) {
	if err := n.check(); err != nil {
		return Command{}, err
	}
	for {
		// A command of the same key may end between looking for it in the store and among the open
		// ones. Then look again in both.
		seen := r.commander.ends.Load()
		if n.Key != "" {
			if c, err := r.ofKey(ctx, id, &n); err != nil || c != nil {
				return derefCommand(c), err
			}
		}
		var made *Command
		err := r.step(ctx, id, &delivery{
			cost: int64(len(n.Request.Text()) + len(n.Name) + len(n.Key) + len(n.By)), kick: true, once: Once{By: n.By},
			step: func(e *entityActor) (changed []*Command, err error) {
				c, fresh, err := e.order(&n, seen)
				if made = c; fresh {
					changed = []*Command{c}
				}
				return changed, err
			},
		})
		switch {
		case err == nil:
			return *made, nil
		case !errors.Is(err, errLookAgain):
			return Command{}, err
		}
	}
}

func derefCommand(c *Command) Command {
	if c == nil {
		return Command{}
	}
	return *c
}

// ofKey returns the command of the same key and sender that the store has, nil for none.
func (r *Runtime) ofKey(ctx context.Context, id string, n *NewCommand) (*Command, error) {
	for before := ""; ; {
		list, err := r.Commands(ctx, id, CommandsQuery{Key: n.Key, Before: before, Limit: MaxPageLimit})
		if errors.Is(err, ErrNotFound) { // it may have been created a moment ago
			return nil, nil //nolint:nilnil // documented
		}
		if err != nil {
			return nil, err
		}
		switch i := slices.IndexFunc(list, func(c Command) bool { return c.By == n.By }); {
		case i >= 0 && !list[i].same(n):
			return nil, fmt.Errorf("entity %q: %w", id, ErrOtherCommand)
		case i >= 0:
			return &list[i], nil
		case len(list) < MaxPageLimit:
			return nil, nil //nolint:nilnil // documented
		}
		before = list[len(list)-1].ID
	}
}

// Delivered says that the device has acknowledged a command, which is then not sent again. It
// returns when that is durable, and changes nothing if the command was already acknowledged or has
// ended. While the store has no room it waits. It returns ErrNotFound for a command that does not
// exist, and ErrInvalid for one that was never sent.
func (r *Runtime) Delivered(ctx context.Context, id, command string) error {
	return r.answer(ctx, id, command, &delivery{own: true, step: func(e *entityActor) ([]*Command, error) {
		return e.progress(command, false, value.Value{})
	}})
}

// Progress says how far the device has come with a command, which counts as delivered. It does not
// give the device more time. Otherwise it is like Delivered, but returns ErrFull while the store
// has no room, and ErrInvalid also if the open commands of the entity would have more than
// MaxOpenCommandBytes.
func (r *Runtime) Progress(ctx context.Context, id, command string, progress value.Value) error {
	if err := checkCommandValue("progress", progress); err != nil {
		return err
	}
	return r.answer(ctx, id, command, &delivery{cost: int64(len(progress.Text())), step: func(e *entityActor) ([]*Command, error) {
		return e.progress(command, true, progress)
	}})
}

// Done says that the device has carried out a command, with its answer or the zero Value. It
// returns ErrNotFound as Delivered does, accepts a command that was never sent, and returns ErrFull
// while the store has no room. An answer that does not agree with the entity's type ends the
// command as failed, and returns ErrMismatch.
func (r *Runtime) Done(ctx context.Context, id, command string, result value.Value) error {
	if err := checkCommandValue("result", result); err != nil {
		return err
	}
	var mismatch error
	err := r.answer(ctx, id, command, &delivery{cost: int64(len(result.Text())), step: func(e *entityActor) (changed []*Command, err error) {
		_, changed, err = e.finish(command, func(o *openCommand) CommandState {
			if mismatch = e.checkResponse(o, result); mismatch != nil {
				o.Error = text.Shorten(mismatch.Error(), MaxCommandErrorBytes)
				return CommandFailed
			}
			o.Result = result
			return CommandDone
		})
		return changed, err
	}})
	if err == nil && mismatch != nil {
		return fmt.Errorf("entity %q: %w", id, mismatch)
	}
	return err
}

// Fail says that the device has not carried out a command, and why. It is like Done, but waits
// while the store has no room, since a transport that refuses a command can say so only once. A
// reason of more than MaxCommandErrorBytes is truncated.
func (r *Runtime) Fail(ctx context.Context, id, command, reason string) error {
	reason = strings.ToValidUTF8(text.Shorten(reason, MaxCommandErrorBytes), "\uFFFD")
	return r.answer(ctx, id, command, &delivery{own: true, cost: int64(len(reason)), step: func(e *entityActor) (changed []*Command, err error) {
		_, changed, err = e.finish(command, func(o *openCommand) CommandState {
			o.Error = reason
			return CommandFailed
		})
		return changed, err
	}})
}

// answer passes what a device says about a command to the entity. If the command has ended, the
// answer is late or a repetition, and changes nothing.
func (r *Runtime) answer(ctx context.Context, id, command string, d *delivery) error {
	err := r.step(ctx, id, d)
	if errors.Is(err, errNotOpen) {
		_, err = r.endedCommand(ctx, id, command)
	}
	return err
}

// Cancel withdraws a command. If the device has already received it, it may still carry it out, and
// its answer changes nothing. Cancel returns the command in its new state, or ErrNotFound, or
// ErrCommandEnded with the ended command.
func (r *Runtime) Cancel(ctx context.Context, id, command string) (Command, error) {
	var canceled *Command
	err := r.step(ctx, id, &delivery{step: func(e *entityActor) (changed []*Command, err error) {
		canceled, changed, err = e.finish(command, func(*openCommand) CommandState { return CommandCanceled })
		return changed, err
	}})
	if errors.Is(err, errNotOpen) {
		c, err := r.endedCommand(ctx, id, command)
		if err == nil {
			err = fmt.Errorf("entity %q: command %q: %w: it is %v", id, command, ErrCommandEnded, c.State)
		}
		return c, err
	}
	if err != nil {
		return Command{}, err
	}
	return *canceled, nil
}

// endedCommand returns a command that its entity does not list as open, once the command's end is
// durable.
func (r *Runtime) endedCommand(ctx context.Context, id, command string) (Command, error) {
	if h := r.handles.find(id); h != nil {
		if err := r.committer.Wait(ctx, h.ticket.Load()); err != nil {
			return Command{}, fmt.Errorf("entity %q: %w", id, err)
		}
	}
	return r.FindCommand(ctx, id, command)
}

// FindCommand returns a command as it is committed, or ErrNotFound.
func (r *Runtime) FindCommand(ctx context.Context, id, command string) (Command, error) {
	list, err := r.Commands(ctx, id, CommandsQuery{ID: command, Limit: 1})
	if err == nil && len(list) == 0 {
		err = fmt.Errorf("entity %q: command %q: %w", id, brief(command), ErrNotFound)
	}
	if err != nil {
		return Command{}, err
	}
	return list[0], nil
}

// Commands returns committed commands of an entity, newest first: those that are open, and the
// MaxEndedCommands that ended last. It returns ErrNotFound for an entity that does not exist.
func (r *Runtime) Commands(ctx context.Context, id string, q CommandsQuery) ([]Command, error) {
	if err := CheckID(id); err != nil {
		return nil, err
	}
	if q.Limit == 0 {
		q.Limit = defaultPageLimit
	}
	if q.Limit < 1 || q.Limit > MaxPageLimit {
		return nil, fmt.Errorf("limit: %w: must be from 1 to %d, not %d", ErrInvalid, MaxPageLimit, q.Limit)
	}
	return query(ctx, r, func(ctx context.Context) ([]Command, error) { return r.store.Commands(ctx, id, q) })
}

// OpenCommands returns the committed commands of an entity that have not ended, oldest first.
func (r *Runtime) OpenCommands(ctx context.Context, id string) ([]Command, error) {
	if err := CheckID(id); err != nil {
		return nil, err
	}
	stored, err := r.load(ctx, id)
	return stored.Commands, err
}

// lastLook is how long WaitCommand waits for the store once its context has ended.
const lastLook = time.Second

// WaitCommand returns a command when it has ended, or its present state when ctx ends, together
// with the cause; if the store does not answer within a second, it is the state that was last seen.
// It returns ErrNotFound if the command does not exist.
func (r *Runtime) WaitCommand(ctx context.Context, id, command string) (Command, error) {
	changes, err := r.Follow(ctx, ChangesQuery{Entities: []string{id}, CommandsOnly: true})
	if err != nil {
		return Command{}, err
	}
	defer changes.Close()
	c, err := r.FindCommand(ctx, id, command)
	for err == nil && !c.State.Ended() {
		next, failure := changes.Next(ctx)
		switch {
		case errors.Is(failure, ErrClosed):
			return c, failure
		case ctx.Err() != nil:
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.lastLook)
			defer cancel()
			if now, err := r.FindCommand(last, id, command); err == nil {
				c = now
			}
			return c, context.Cause(ctx) // failure is nil if a change came at the same time
		case failure != nil: // the missed changes are read from the store
			c, err = r.FindCommand(ctx, id, command)
		case next.Edit != nil && next.Edit.Deleted:
			return c, fmt.Errorf("entity %q: %w: it was deleted", id, ErrNotFound)
		case next.Command != nil && next.Command.ID == command && next.Command.State.Ended():
			c = *next.Command // older changes may still arrive after the read
		}
	}
	return c, err
}

// step sends a change of commands to an entity and waits for its commit.
func (r *Runtime) step(ctx context.Context, id string, d *delivery) error {
	if err := CheckID(id); err != nil {
		return err
	}
	settled := make(chan error, 2) // a notice, and the end
	d.cost += editCost
	if !d.own {
		d.notice = func(err error) { settled <- err }
	}
	d.done = func(err error) {
		if err == nil && d.kick && r.receivers.reaches(id) {
			r.commander.kick(id)
		}
		settled <- err
	}
	if err := r.send(ctx, id, sourceOf(d.once.By, id), d); err != nil {
		return fmt.Errorf("entity %q: %w", id, err)
	}
	select {
	case err := <-settled:
		if errors.Is(err, ErrNotFound) {
			return r.refuse(ctx, id, err)
		}
		return err
	case <-ctx.Done():
		return fmt.Errorf("entity %q: outcome unknown: %w", id, context.Cause(ctx))
	}
}
