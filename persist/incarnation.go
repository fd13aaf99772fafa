package persist

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/greenroom-go/greenroom/actor"
)

// incarnation stands between the handlers and the journal, from one start of the actor to the next:
// it has what the handler has recorded and sends, and the units in flight.
//
// A handler's outputs are held until it has returned. Then they leave with its unit or, if the
// handler has recorded nothing, with the last unit in flight, and at once if there is none. So
// outputs keep their order, and never leave before anything recorded earlier is durable.
type incarnation struct {
	p     *Persistence
	id    string
	shard string
	epoch uint64

	mu       sync.Mutex
	handling bool      // a handler runs; guarded by mu, as is all that follows
	ready    bool      // it is recovered
	events   []Payload // recorded, and not in flight yet
	recorded int       // bytes of events
	saved    bool      // it has called Save
	sends    []Message // what it has sent with Send
	edits    []ReminderEdit
	attempt  *attempt      // the delivery being handled, nil if nobody waits for a confirmation
	outputs  []func(error) // held
	room     []func(error) // reused for the next outputs, empty
	spare    *unit         // reused for the next outputs without records, nil if there is none
	units    []*unit       // in flight, oldest first
	ahead    int           // events in units
	bytes    int           // bytes in units
	held     int           // outputs in units
	last     uint64        // the number of the last event that was applied
	refused  error         // why the journal accepts nothing more of this incarnation
	moved    bool          // nor of a later incarnation: the shard was claimed with a greater epoch
	stale    error         // the failure of a handler that left the state ahead of what is recorded

	sent      uint64            // the number of the last message of Send
	seen      map[string]uint64 // of each sender, the last of its messages that was handled
	reminders map[string]due    // by key

	snapshot   uint64 // the number of the newest durable snapshot, 0 for none
	since      int    // events in flight or durable since the last snapshot was taken
	sinceBytes int    // bytes of these
	recoverTo  uint64 // the number when it is recovered

	// Set before the first message.
	encode            func() (*Payload, error) // a state that was saved
	snapshots         *snapshooter             // nil if it takes none
	every, everyBytes int                      // after how many events a snapshot is taken
}

// record records an event that is about to be applied.
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

// save records that the state has to be written when the handler has returned.
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

// hold holds an output. It reports false if nothing is in flight for which the output has to wait.
// Outside of a handler, an incarnation that has to be restarted drops the output, because its state
// was never durable.
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

// begin begins a handler. a is nil for a message that is not a delivery.
func (in *incarnation) begin(a *attempt) {
	in.mu.Lock()
	in.handling, in.attempt = true, a
	in.mu.Unlock()
}

// tryBegin is begin for a message that is not a delivery, if the handler may begin at once.
func (in *incarnation) tryBegin() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.trouble() != nil || in.isCrowded() {
		return false
	}
	in.handling, in.attempt = true, nil
	return true
}

// end ends a handler that has returned, and submits what it has recorded.
func (in *incarnation) end() error {
	in.mu.Lock()
	if in.attempt != nil || in.hasRecorded() || in.trouble() != nil {
		in.mu.Unlock()
		return in.pass(false)
	}
	in.handling = false // nothing to write: the fast path
	leaves, outputs := in.dispatch(nil)
	in.mu.Unlock()
	if leaves != nil {
		in.leave(leaves, outputs, nil)
	}
	return nil
}

// hasRecorded reports whether the handler has recorded or sent something to be written. REQUIRES:
// in.mu held.
func (in *incarnation) hasRecorded() bool {
	return len(in.events) > 0 || in.saved || len(in.sends) > 0 || len(in.edits) > 0
}

// pass makes a unit of what the handler has recorded and sent so far. goesOn says that the handler
// is still running, so that it is divided. After an error nothing more is in flight than before.
func (in *incarnation) pass(goesOn bool) error {
	state, snapshot, err := in.states(goesOn)
	if err != nil {
		return err
	}
	in.mu.Lock()
	u := in.makeUnit(state, snapshot, goesOn)
	if u != nil {
		if err := u.append.check(); err != nil { // a journal would refuse the whole batch
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

// dispatch submits a unit and makes the held outputs wait for it: under the lock, so that units are
// in the order of their numbers. Without a unit, the outputs wait for the last one in flight. If
// there is none either, dispatch returns a unit that may leave, with its outputs. REQUIRES: in.mu
// held.
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
	default: // others wait for it to leave
		if leaves, in.spare = in.spare, nil; leaves == nil {
			leaves = &unit{of: in}
		}
		leaves.over = false
		in.units = append(in.units, leaves)
	}
	return leaves, outputs
}

// states calls the user's code to encode the actor's state for the next unit: a saved state, and a
// snapshot if one is due. REQUIRES: in.mu not held.
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
		in.since, in.sinceBytes = -len(in.events), -in.recorded // even if it has failed: the next one may succeed
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

// unitBytes is roughly the cost of a unit without its events, and outputBytes that of an output.
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

// refuse records that the journal has refused a unit: nothing after it may be written either.
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

// hasMoved reports whether the actor's shard, and so its id, is known to have another owner.
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

// leave lets outputs leave and then those of a unit, or drops them because of err, and ends the
// unit.
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

// roomMost is the number of outputs for which an actor keeps room.
const roomMost = 16

func (u *unit) isOver() bool {
	u.of.mu.Lock()
	defer u.of.mu.Unlock()
	return u.over
}

// notify arranges for w to be resolved when the unit ends. It reports false if the unit has already
// ended.
func (u *unit) notify(w *actor.Promised[settled]) bool {
	u.of.mu.Lock()
	defer u.of.mu.Unlock()
	if !u.over {
		u.waiters = append(u.waiters, w)
	}
	return !u.over
}

// crowded returns the oldest unit if so much is in flight that the next message has to wait.
func (in *incarnation) crowded() *unit {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.isCrowded() {
		return in.units[0]
	}
	return nil
}

// isCrowded reports whether so much is in flight that the next message has to wait. REQUIRES: in.mu
// held.
func (in *incarnation) isCrowded() bool {
	return len(in.units) > 0 && (in.ahead >= in.p.cfg.Ahead || in.bytes+in.held*outputBytes >= in.p.cfg.AheadBytes)
}

// unfit returns why the actor must be restarted before it handles anything, nil if it need not be.
func (in *incarnation) unfit() error {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.trouble()
}

// beginAnew returns the failure with which the actor restarts, nil if it need not restart.
func (in *incarnation) beginAnew() error {
	if unfit := in.unfit(); unfit != nil {
		return fmt.Errorf("%s begins anew: %w", in.id, unfit)
	}
	return nil
}

// trouble returns the error with which outputs are dropped, nil if they may leave. REQUIRES: in.mu
// held.
func (in *incarnation) trouble() error {
	if in.refused != nil { // not cmp.Or, which takes as long as a lock
		return in.refused
	}
	return in.stale
}
