package persist

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/greenroom-go/greenroom/actor"
)

// incarnation is what is between a handler and the journal, from a start of the actor to the
// next: what the handler has recorded and sends, and the units that are on their way.
//
// A handler's outputs are held until it has returned. Then they go with its unit; with the
// last unit that is on its way, if the handler has recorded nothing; and at once if none is.
// So what leaves keeps its order, and never leaves before anything that was recorded before it.
type incarnation struct {
	p     *Persistence
	id    string
	shard string
	epoch uint64

	mu       sync.Mutex
	handling bool      // a handler runs; guarded by mu, as is all that follows
	ready    bool      // it is recovered
	events   []Payload // what it has recorded and is not on its way
	recorded int       // bytes of events
	saved    bool      // it has called Save
	sends    []Message // what it has sent with Send
	edits    []ReminderEdit
	attempt  *attempt      // what it handles, nil for what has no sender that waits
	outputs  []func(error) // what it holds
	room     []func(error) // for the next outputs, empty
	spare    *unit         // for the next outputs that nothing is recorded with, nil if there is none
	units    []*unit       // not over, oldest first
	ahead    int           // events in units
	bytes    int           // bytes in units
	held     int           // outputs in units
	last     uint64        // the number of the last event that was applied
	refused  error         // why the journal takes nothing more of this incarnation
	moved    bool          // nor of a later one: the shard was claimed with a greater epoch
	stale    error         // of a handler that has failed and left a state ahead of what is recorded

	sent      uint64            // the number of the last message of Send
	seen      map[string]uint64 // of each sender, the last of its messages that was handled
	reminders map[string]due    // by key

	snapshot   uint64 // the number of the newest durable snapshot, 0 for none
	since      int    // events on their way or durable since the last snapshot was taken
	sinceBytes int    // bytes of these
	recoverTo  uint64 // the number that it has when it is recovered

	// Set before the first message.
	encode            func() (*Payload, error) // a state that was saved
	snapshots         *snapshooter             // nil if it takes none
	every, everyBytes int                      // after how many events a snapshot is taken
}

// record takes an event over that is about to be applied.
func (in *incarnation) record(e any) {
	name, data, err := in.p.cfg.Types.Append(nil, e)
	if err != nil {
		panic(fmt.Sprintf("persist: Record: %v", err))
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	in.requireHandler("Record")
	in.last++
	event := Payload{Type: name, Data: data}
	event.Seal(in.id, in.last)
	in.events = append(in.events, event)
	in.recorded += len(data)
}

// save notes that the state is to be written when the handler has returned.
func (in *incarnation) save() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.requireHandler("Save")
	in.saved = true
}

// requireHandler panics outside of a handler. REQUIRES: in.mu held.
func (in *incarnation) requireHandler(what string) {
	if !in.handling {
		in.mu.Unlock()
		defer in.mu.Lock() // for the caller's deferred Unlock
		panic("persist: " + what + ": it is for the handler of a message and for Recovered")
	}
}

// hold keeps what leaves. It reports false when nothing is on its way that it has to wait for.
// Outside of a handler an incarnation that is to be restarted drops it: its state was never
// durable.
func (in *incarnation) hold(leave func(error)) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.handling {
		if in.outputs == nil {
			in.outputs, in.room = in.room, nil
		}
		in.outputs = append(in.outputs, leave)
		return true
	}
	if err := in.trouble(); err != nil {
		drop := leave
		leave = func(error) { drop(err) }
		if len(in.units) == 0 {
			u := &unit{of: in}
			in.units = append(in.units, u)
			in.p.committer.Tell(context.Background(), release{u})
		}
	}
	if n := len(in.units); n > 0 {
		in.units[n-1].outputs = append(in.units[n-1].outputs, leave)
		in.held++
		return true
	}
	return false
}

// begin says that a handler begins. a is nil for a message that nobody delivers.
func (in *incarnation) begin(a *attempt) {
	in.mu.Lock()
	in.handling, in.attempt = true, a
	in.mu.Unlock()
}

// tryBegin is begin for a message that nobody delivers, if nothing stands in its way.
func (in *incarnation) tryBegin() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.trouble() != nil || in.isCrowded() {
		return false
	}
	in.handling, in.attempt = true, nil
	return true
}

// end says that the handler has returned, and sends what it has recorded on its way.
func (in *incarnation) end() error {
	in.mu.Lock()
	if in.attempt != nil || in.hasRecorded() || in.trouble() != nil {
		in.mu.Unlock()
		return in.pass(false)
	}
	in.handling = false // nothing is to be written: the quick way
	leaves, outputs := in.dispatch(nil)
	in.mu.Unlock()
	if leaves != nil {
		in.leave(leaves, outputs, nil)
	}
	return nil
}

// hasRecorded reports whether the handler has recorded or sent what is to be written.
// REQUIRES: in.mu held.
func (in *incarnation) hasRecorded() bool {
	return len(in.events) > 0 || in.saved || len(in.sends) > 0 || len(in.edits) > 0
}

// pass makes a unit of what the handler has recorded and sent so far. If it goesOn it is still
// running: it is divided. After an error nothing is on its way that was not before.
func (in *incarnation) pass(goesOn bool) error {
	state, snapshot, err := in.states(goesOn)
	if err != nil {
		return err
	}
	in.mu.Lock()
	u := in.makeUnit(state, snapshot, goesOn)
	if u != nil {
		if err := u.append.check(); err != nil { // no journal takes it, nor any batch that it is in
			in.stale = fmt.Errorf("what the handler has recorded for %s cannot be written: %w", in.id, err)
			defer in.mu.Unlock()
			return in.stale
		}
	}
	in.handling = goesOn && in.handling
	if a := in.attempt; a != nil && !goesOn {
		in.outputs = append(in.outputs, a.confirm)
		in.attempt = nil
	}
	leaves, outputs := in.dispatch(u)
	in.mu.Unlock()
	if leaves != nil {
		in.leave(leaves, outputs, nil)
	}
	return nil
}

// dispatch has what is held wait for a unit, which is submitted: under the lock, so that units are
// in the order of their numbers. Without one it waits for the last one that is on its way. If there
// is none, it returns a unit that may leave, with its outputs. REQUIRES: in.mu held.
func (in *incarnation) dispatch(u *unit) (leaves *unit, outputs []func(error)) {
	outputs = in.outputs
	in.outputs = nil
	switch n := len(in.units); {
	case u != nil:
		u.outputs = outputs
		in.held += len(outputs)
		in.units = append(in.units, u)
		in.ahead += len(u.append.Events)
		in.bytes += u.bytes
		in.p.commits.submit(u)
	case len(outputs) == 0:
	case n > 0:
		in.units[n-1].outputs = append(in.units[n-1].outputs, outputs...)
		in.held += len(outputs)
	default: // others wait behind it while it leaves
		if leaves, in.spare = in.spare, nil; leaves == nil {
			leaves = &unit{of: in}
		}
		leaves.over = false
		in.units = append(in.units, leaves)
	}
	return leaves, outputs
}

// states returns what the user's code makes of the actor's state for the next unit: what was
// saved, and a snapshot if one is due. REQUIRES: in.mu not held.
func (in *incarnation) states(goesOn bool) (state, snapshot *Payload, err error) {
	in.mu.Lock()
	saved, due, err := in.saved, !goesOn && in.isDue(len(in.events), in.recorded), in.trouble()
	in.mu.Unlock()
	if err != nil {
		return nil, nil, err
	}
	if saved {
		if state, err = in.encode(); err != nil {
			return nil, nil, fmt.Errorf("save the state of %s: %w", in.id, err)
		}
	}
	if due {
		snapshot = in.takeSnapshot()
		in.mu.Lock()
		in.since, in.sinceBytes = -len(in.events), -in.recorded // also when it has failed: the next one may not
		in.mu.Unlock()
	}
	return state, snapshot, nil
}

// makeUnit returns nil when there is nothing to write. REQUIRES: in.mu held.
func (in *incarnation) makeUnit(state, snapshot *Payload, goesOn bool) *unit {
	seen, edits, later := in.takeAttempt(goesOn)
	if len(in.events) == 0 && state == nil && len(seen) == 0 && len(in.sends) == 0 && len(edits) == 0 {
		return nil
	}
	in.since += len(in.events)
	in.sinceBytes += in.recorded
	if len(in.events) == 0 {
		in.last++
		if state == nil {
			in.events = []Payload{{}} // the rest needs a number
		}
	}
	a := Append{
		ID: in.id, Shard: in.shard, Epoch: in.epoch, After: in.last - max(1, uint64(len(in.events))),
		Events: in.events, State: state, Snapshot: snapshot, Send: in.sends, Seen: seen, Reminders: edits,
	}
	bytes := in.recorded
	for _, p := range []*Payload{state, snapshot} {
		if p != nil {
			p.Seal(in.id, in.last)
			bytes += len(p.Data)
		}
	}
	for _, r := range edits {
		if r.At == 0 {
			delete(in.reminders, r.Key)
		} else {
			in.reminders[r.Key] = dueOf(&r)
		}
	}
	in.events, in.recorded, in.saved, in.sends, in.edits = nil, 0, false, nil, later
	return &unit{of: in, append: a, bytes: bytes + unitBytes}
}

// unitBytes is about what a unit costs beside its events, and outputBytes what an output costs.
const (
	unitBytes   = 64
	outputBytes = 64
)

// fail drops what the handler has recorded and sent.
func (in *incarnation) fail(err error) {
	stale := fmt.Errorf("a handler has failed that may have changed the state: %w", err) // not under the lock: it calls Error
	in.mu.Lock()
	outputs := in.outputs
	if in.stale == nil && (len(in.events) > 0 || in.encode != nil) { // a State may have been changed without a Save
		in.stale = stale
	}
	if a := in.attempt; a != nil {
		outputs = append(outputs, a.confirm)
	}
	in.last -= uint64(len(in.events))
	in.sent -= uint64(len(in.sends))
	in.outputs, in.events, in.recorded, in.saved, in.handling = nil, nil, 0, false, false
	in.sends, in.edits, in.attempt = nil, nil, nil
	in.mu.Unlock()
	for _, leave := range outputs {
		leave(err)
	}
}

// refuse says that the journal has refused a unit: nothing after it may be written either.
func (in *incarnation) refuse(err error) {
	moved := guarded(func() error {
		if errors.Is(err, ErrFenced) && !errors.Is(err, ErrConflict) {
			return ErrFenced
		}
		return nil
	})
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.refused == nil {
		in.refused, in.moved = err, moved == ErrFenced //nolint:errorlint // it is what is returned above
	}
}

// hasMoved reports whether another owner of the actor's shard is known, who has its id now.
func (in *incarnation) hasMoved() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.moved
}

func (in *incarnation) refusal() error {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.refused
}

// leave lets leave outputs and then what a unit holds, or drops them because of err, and ends it.
func (in *incarnation) leave(u *unit, outputs []func(error), err error) {
	for {
		for _, output := range outputs {
			output(err)
		}
		clear(outputs)
		in.mu.Lock()
		if in.room == nil && cap(outputs) <= roomMost {
			in.room = outputs[:0]
		}
		outputs, u.outputs = u.outputs, nil
		in.held -= len(outputs)
		if len(outputs) == 0 {
			break
		}
		in.mu.Unlock()
	}
	i := slices.Index(in.units, u) // the first, unless another goroutine settles while this one lets leave
	in.units = slices.Delete(in.units, i, i+1)
	in.ahead -= len(u.append.Events)
	in.bytes -= u.bytes
	u.over = true
	waiters := u.waiters
	u.waiters = nil
	if err == nil && u.append.Snapshot != nil {
		in.snapshot = u.append.Last()
	}
	if u.append.ID == "" {
		in.spare = u // who waits for it still waits for the next one as well
	}
	in.mu.Unlock()
	for _, w := range waiters {
		w.Resolve(settled{})
	}
}

// roomMost is for how many outputs an actor keeps room.
const roomMost = 16

func (u *unit) isOver() bool {
	u.of.mu.Lock()
	defer u.of.mu.Unlock()
	return u.over
}

// notify has w resolved when the unit is over. It reports false if it is over already.
func (u *unit) notify(w *actor.Promised[settled]) bool {
	u.of.mu.Lock()
	defer u.of.mu.Unlock()
	if !u.over {
		u.waiters = append(u.waiters, w)
	}
	return !u.over
}

// crowded returns the oldest unit when so much is on its way that the next message has to wait.
func (in *incarnation) crowded() *unit {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.isCrowded() {
		return in.units[0]
	}
	return nil
}

// isCrowded reports whether so much is on its way that the next message has to wait. REQUIRES:
// in.mu held.
func (in *incarnation) isCrowded() bool {
	return len(in.units) > 0 && (in.ahead >= in.p.cfg.Ahead || in.bytes+in.held*outputBytes >= in.p.cfg.AheadBytes)
}

// unfit returns why the actor must be restarted before it handles anything, nil if it need not be.
func (in *incarnation) unfit() error {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.trouble()
}

// beginAnew returns the failure with which the actor is restarted, nil if it need not be.
func (in *incarnation) beginAnew() error {
	if unfit := in.unfit(); unfit != nil {
		return fmt.Errorf("%s begins anew: %w", in.id, unfit)
	}
	return nil
}

// trouble is the error with which what would leave is dropped, nil if it may leave.
// REQUIRES: in.mu held.
func (in *incarnation) trouble() error {
	if in.refused != nil { // not cmp.Or, which takes as long as a lock
		return in.refused
	}
	return in.stale
}
