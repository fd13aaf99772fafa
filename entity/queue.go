package entity

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unsafe"

	"github.com/greenroom-go/greenroom/entity/value"
)

// commandQueue has the open commands of an entity in the order of their ids. It is owned
// by the entity's actor.
type commandQueue struct {
	open  []*openCommand
	last  int64 // the number of the newest ID that was given or seen
	bytes int   // of the open ones
}

// openCommand is a command that has not ended.
type openCommand struct {
	Command
	ticket uint64 // the committer's number of its first record: before that it is not sent
}

var (
	// errNotOpen says that the entity has no open command of this ID.
	errNotOpen = errors.New("not open")
	// errLookAgain says that a command has ended since the store was asked for one with
	// the same key.
	errLookAgain = errors.New("look again")
)

// find returns the index of an open command, or where it would be inserted.
func (q *commandQueue) find(id string) (int, bool) {
	return slices.BinarySearchFunc(q.open, id, func(c *openCommand, id string) int { return strings.Compare(c.ID, id) })
}

func (q *commandQueue) add(c *openCommand) {
	q.open = append(q.open, c)
	q.bytes += c.bytes()
	q.last = max(q.last, commandNumber(c.ID))
}

// due returns when the first of the commands is due, 0 if there are none.
func (q *commandQueue) due() (due int64) {
	for _, c := range q.open {
		if at := c.Due(); due == 0 || at < due {
			due = at
		}
	}
	return due
}

// size returns roughly how many bytes the queue occupies.
func (q *commandQueue) size() int64 {
	return int64(len(q.open))*(int64(unsafe.Sizeof(openCommand{}))+8) + int64(q.bytes)
}

// queue returns the queue of the entity, nil if there never was a command.
func (e *entityActor) queue() *commandQueue {
	if e.state.more == nil {
		return nil
	}
	return &e.state.more.commands
}

// step makes the change of commands that a delivery asks for.
func (e *entityActor) step(d *delivery) error {
	list, err := d.step(e)
	if err != nil {
		return err
	}
	e.plan()
	if more := stepBytes(list) + editCost - d.cost; more > 0 {
		e.rt.window.charge(d.source, more)
		d.cost += more
	}
	if len(list) > 0 {
		d.commands, d.ts = list, e.rt.clock.stamp()
		d.created, d.num = e.state.created, e.num
	}
	return nil
}

// maxStepBytes is the size at which a step stops sending and ending commands and leaves the rest to
// the next step, so that the window bounds what waits for its commit.
const maxStepBytes = 256 << 10

// stepBytes returns how many bytes the records of a step occupy.
func stepBytes(list []*Command) (bytes int64) {
	for _, c := range list {
		bytes += c.recordBytes()
	}
	return bytes
}

func (c *Command) recordBytes() int64 { return int64(unsafe.Sizeof(*c)) + int64(c.bytes()) }

// plan tells the commander when to ask again.
func (e *entityActor) plan() {
	due := int64(0)
	if q := e.queue(); q != nil {
		due = q.due()
	}
	e.rt.commander.plan(e.h.id, due)
}

// stepped records the number that the committer gave to a delivery.
func (e *entityActor) stepped(commands []*Command, ticket uint64) {
	q := e.queue()
	for _, c := range commands {
		if c.State.Ended() { // only now: whoever looks for its key waits for this ticket
			e.ended = e.rt.commander.ends.Add(1)
		} else if i, ok := q.find(c.ID); ok && q.open[i].ticket == 0 && c.State == CommandQueued && c.Attempts == 0 {
			q.open[i].ticket = ticket
		}
	}
}

// order adds a new command, or returns the open one of the same key and sender. seen is the value
// of commander.ends before the store was asked for one.
func (e *entityActor) order(n *NewCommand, seen uint64) (c *Command, fresh bool, err error) {
	if e.state.created == 0 || n.Of != 0 && n.Of != e.state.created {
		return nil, false, ErrNotFound
	}
	q := &e.state.extras().commands
	if n.Key != "" {
		if e.ended > seen {
			return nil, false, errLookAgain
		}
		for _, o := range q.open {
			if o.Key == n.Key && o.By == n.By {
				return o.again(n)
			}
		}
	}
	if t := e.resolved(e.state.typ); t != nil {
		if err := t.CheckCommand(n.Name, n.Request); err != nil {
			return nil, false, fmt.Errorf("type %q: command %q: %w", e.state.typ, n.Name, err)
		}
		if declared := t.Commands[n.Name]; declared != nil && declared.Parallel {
			n.Parallel = true
		}
	}
	now := e.rt.clock.stamp()
	expires, err := n.expiry(now)
	if err != nil {
		return nil, false, err
	}
	o := &openCommand{Command: Command{
		Entity: e.h.id, Name: n.Name, Request: n.Request, Key: n.Key, By: n.By, Parallel: n.Parallel,
		State: CommandQueued, Created: now, Expires: expires, Timeout: n.Timeout.Milliseconds(),
	}}
	if len(q.open) >= MaxOpenCommands {
		return nil, false, fmt.Errorf("%w: the entity has %d; at most that many are allowed", ErrTooManyCommands, len(q.open))
	}
	if bytes := q.bytes + o.bytes(); bytes > MaxOpenCommandBytes {
		return nil, false, fmt.Errorf("%w: with this one they would have %d bytes; at most %d are allowed", ErrTooManyCommands, bytes, MaxOpenCommandBytes)
	}
	o.ID = commandID(max(q.last+1, now*commandsPerMS))
	q.add(o)
	return o.record(), true, nil
}

// again returns an open command to a caller that sends it a second time.
func (o *openCommand) again(n *NewCommand) (c *Command, fresh bool, err error) {
	if !o.same(n) {
		return nil, false, ErrOtherCommand
	}
	return o.record(), false, nil
}

// record returns a copy of the command as it is now, which never changes.
func (o *openCommand) record() *Command {
	c := o.Command
	return &c
}

// attend expires and times out the commands that are due, and sends those that can be sent.
func (e *entityActor) attend() ([]*Command, error) {
	q := e.queue()
	if q == nil {
		return nil, nil
	}
	now := e.rt.clock.stamp()
	var changed []*Command
	bytes := int64(0)
	for i := 0; i < len(q.open) && bytes < maxStepBytes; { // the commander asks again for the rest
		o := q.open[i]
		if o.Due() > now {
			i++
			continue
		}
		state := CommandExpired
		if o.State == CommandDelivered {
			state = CommandTimedOut
		}
		c := e.end(i, state, now)
		changed, bytes = append(changed, c), bytes+c.recordBytes()
	}
	return e.dispatch(now, changed), nil
}

// end ends the open command at an index.
func (e *entityActor) end(place int, state CommandState, now int64) *Command {
	q := e.queue()
	o := q.open[place]
	q.bytes -= o.bytes()
	q.open = slices.Delete(q.open, place, place+1)
	o.State, o.Ended = state, now
	e.release(o.ID)
	return o.record()
}

// release takes a command from the receiver that holds it, and lets commands that wait for its room
// be sent.
func (e *entityActor) release(id string) {
	if e.rt.receivers.release(e.h.id, id) {
		e.rt.commander.kickOpen(e.h.id)
	}
}

// dispatch sends the commands that can be sent, and requeues those whose receiver is gone. It
// appends both to changed.
func (e *entityActor) dispatch(now int64, changed []*Command) []*Command {
	busy := false // a command that is not parallel is under way or waits ahead
	bytes := stepBytes(changed)
	for _, o := range e.queue().open {
		if bytes >= maxStepBytes {
			e.rt.commander.kickOpen(e.h.id)
			break
		}
		lost := o.State == CommandSent && !e.rt.receivers.held(e.h.id, o.ID)
		if lost {
			o.State = CommandQueued
		}
		may := o.State == CommandQueued && o.Expires > now && (o.Parallel || !busy) && e.rt.committer.Committed(o.ticket)
		if may && e.send(o, now) || lost {
			c := o.record()
			changed, bytes = append(changed, c), bytes+c.recordBytes()
		}
		busy = busy || !o.Parallel
	}
	return changed
}

// send sends a command if the device can be reached.
func (e *entityActor) send(o *openCommand, now int64) bool {
	sent := o.Command
	sent.State, sent.Sent, sent.Attempts = CommandSent, now, o.Attempts+1
	if !e.rt.receivers.give(sent) {
		return false
	}
	o.Command = sent
	return true
}

// progress handles what a device reports about a command before its end: that it has the command
// and, if with is set, the progress v.
func (e *entityActor) progress(id string, with bool, v value.Value) ([]*Command, error) {
	o, _, err := e.openCommand(id)
	if err != nil {
		return nil, err
	}
	if o.Attempts == 0 {
		return nil, fmt.Errorf("command %q: %w: must have been sent before its device can have it", id, ErrInvalid)
	}
	if !with && o.State == CommandDelivered {
		return nil, nil
	}
	bytes := e.queue().bytes + len(v.Text()) - len(o.Progress.Text())
	if with && bytes > MaxOpenCommandBytes {
		return nil, fmt.Errorf("progress: %w: with it the open commands must have at most %d bytes, not %d", ErrInvalid, MaxOpenCommandBytes, bytes)
	}
	if o.State != CommandDelivered {
		o.State, o.Delivered = CommandDelivered, e.rt.clock.stamp()
		e.release(id)
	}
	if with {
		e.queue().bytes = bytes
		o.Progress = v
	}
	return []*Command{o.record()}, nil
}

// finish ends a command and sends the next one.
func (e *entityActor) finish(id string, as func(o *openCommand) CommandState) (c *Command, changed []*Command, err error) {
	_, place, err := e.openCommand(id)
	if err != nil {
		return nil, nil, err
	}
	q, now := e.queue(), e.rt.clock.stamp()
	before := q.open[place].bytes()
	state := as(q.open[place])
	q.bytes += q.open[place].bytes() - before
	if state != CommandCanceled && q.open[place].Delivered == 0 {
		q.open[place].Delivered = now
	}
	c = e.end(place, state, now)
	return c, e.dispatch(now, []*Command{c}), nil
}

func (e *entityActor) openCommand(id string) (o *openCommand, place int, err error) {
	if e.state.created == 0 {
		return nil, 0, ErrNotFound
	}
	if q := e.queue(); q != nil {
		if place, ok := q.find(id); ok {
			return q.open[place], place, nil
		}
	}
	return nil, 0, errNotOpen
}

// checkResponse returns an error if the answer to a command does not agree with the entity's type.
func (e *entityActor) checkResponse(o *openCommand, result value.Value) error {
	t := e.resolved(e.state.typ)
	if t == nil {
		return nil
	}
	if err := t.CheckResponse(o.Name, result); err != nil {
		return fmt.Errorf("type %q: answer to command %q: %w", e.state.typ, o.Name, err)
	}
	return nil
}
