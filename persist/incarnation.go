package persist

import (
	"errors"
	"fmt"
	"slices"
	"sync"
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
	handling bool          // a handler runs; guarded by mu, as is all that follows
	events   []Payload     // what it has recorded and is not on its way
	recorded int           // bytes of events
	saved    bool          // it has called Save
	outputs  []func(error) // what it holds
	units    []*unit       // not over, oldest first
	ahead    int           // events in units
	bytes    int           // bytes in units
	last     uint64        // the number of the last event that was applied
	refused  error         // why the journal takes nothing more of this incarnation
	stale    error         // why its state is ahead of what is recorded: its actor must be restarted

	encode func() (*Payload, error) // a state that was saved; set before the first message
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
func (in *incarnation) hold(leave func(error)) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.handling {
		in.outputs = append(in.outputs, leave)
		return true
	}
	if n := len(in.units); n > 0 {
		in.units[n-1].outputs = append(in.units[n-1].outputs, leave)
		return true
	}
	return false
}

// begin says that a handler begins.
func (in *incarnation) begin() {
	in.mu.Lock()
	in.handling = true
	in.mu.Unlock()
}

// end says that the handler has returned, and sends what it has recorded on its way.
func (in *incarnation) end() error { return in.pass(false) }

// divide sends what the handler has recorded so far on its way, and leaves it running. It
// returns the last unit that is on its way, nil for none.
func (in *incarnation) divide() (*unit, error) {
	if err := in.pass(true); err != nil {
		return nil, err
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	if n := len(in.units); n > 0 {
		return in.units[n-1], nil
	}
	return nil, nil
}

// pass makes a unit of what the handler has recorded and sent. After an error it has done
// nothing.
func (in *incarnation) pass(goesOn bool) error {
	in.mu.Lock()
	u, err := in.makeUnit()
	if err != nil {
		in.mu.Unlock()
		return err
	}
	in.handling = goesOn && in.handling
	outputs := in.outputs
	in.outputs = nil
	leaves := false
	switch n := len(in.units); {
	case u != nil:
		u.outputs = outputs
		in.units = append(in.units, u)
		in.ahead += len(u.append.Events)
		in.bytes += u.bytes
	case len(outputs) == 0:
	case n > 0:
		in.units[n-1].outputs = append(in.units[n-1].outputs, outputs...)
	default: // others wait behind it while it leaves
		u, leaves = &unit{of: in, outputs: outputs}, true
		in.units = append(in.units, u)
	}
	if u != nil && !leaves { // under the lock: units are submitted in the order of their numbers
		in.p.commits.submit(u)
	}
	in.mu.Unlock()
	if leaves {
		in.leave(u, nil)
	}
	return nil
}

// makeUnit returns nil when there is nothing to write. REQUIRES: in.mu held.
func (in *incarnation) makeUnit() (*unit, error) {
	if in.refused != nil {
		return nil, in.refused
	}
	if len(in.events) == 0 && !in.saved {
		return nil, nil
	}
	a := Append{ID: in.id, Shard: in.shard, Epoch: in.epoch, After: in.last - uint64(len(in.events)), Events: in.events}
	bytes := in.recorded
	if in.saved {
		state, err := in.encode()
		if err != nil {
			return nil, fmt.Errorf("save the state of %s: %w", in.id, err)
		}
		if len(in.events) == 0 {
			in.last++
		}
		state.Seal(in.id, in.last)
		a.State = state
		bytes += len(state.Data)
	}
	in.events, in.recorded, in.saved = nil, 0, false
	return &unit{of: in, append: a, bytes: bytes + unitBytes}, nil
}

// unitBytes is about what a unit costs beside its events.
const unitBytes = 64

// fail drops what the handler has recorded and sent.
func (in *incarnation) fail(err error) {
	in.mu.Lock()
	outputs := in.outputs
	if len(in.events) > 0 || in.saved {
		in.stale = fmt.Errorf("a handler has failed after it had recorded something: %w", err)
	}
	in.last -= uint64(len(in.events))
	in.outputs, in.events, in.recorded, in.saved, in.handling = nil, nil, 0, false, false
	in.mu.Unlock()
	for _, leave := range outputs {
		leave(err)
	}
}

// refuse says that the journal has refused a unit: nothing after it may be written either.
func (in *incarnation) refuse(err error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.refused == nil {
		in.refused = err
	}
}

func (in *incarnation) refusal() error {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.refused
}

// leave lets leave what a unit holds, or drops it because of err, and ends it.
func (in *incarnation) leave(u *unit, err error) {
	for {
		in.mu.Lock()
		outputs := u.outputs
		u.outputs = nil
		if len(outputs) == 0 {
			i := slices.Index(in.units, u) // the first, unless another goroutine settles while this one lets leave
			in.units = slices.Delete(in.units, i, i+1)
			in.ahead -= len(u.append.Events)
			in.bytes -= u.bytes
			u.over = true
			in.mu.Unlock()
			return
		}
		in.mu.Unlock()
		for _, output := range outputs {
			output(err)
		}
	}
}

func (u *unit) isOver() bool {
	u.of.mu.Lock()
	defer u.of.mu.Unlock()
	return u.over
}

// crowded returns the oldest unit when so much is on its way that the next message has to wait.
func (in *incarnation) crowded() *unit {
	in.mu.Lock()
	defer in.mu.Unlock()
	if len(in.units) > 0 && (in.ahead >= in.p.cfg.Ahead || in.bytes >= in.p.cfg.AheadBytes) {
		return in.units[0]
	}
	return nil
}

// unfit returns why the actor must be restarted before it handles anything, nil if it need not be.
func (in *incarnation) unfit() error {
	in.mu.Lock()
	defer in.mu.Unlock()
	return errors.Join(in.refused, in.stale)
}
