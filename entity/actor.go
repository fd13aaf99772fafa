package entity

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/greenroom-go/greenroom/actor"
)

// message is what the actor of an entity accepts: a *delivery, a
// snapshotRequest, a viewRequest or retire.
type message interface{ message() }

func (*delivery) message() {}

// snapshotRequest asks an entity for its state.
type snapshotRequest struct{ actor.Returns[snapshotAnswer] }

func (snapshotRequest) message() {}

// snapshotAnswer carries the error beside the snapshot: failing to read the store is not a failure
// of the actor.
type snapshotAnswer struct {
	snapshot Snapshot
	ticket   uint64 // the committer's ticket of what the snapshot contains
	err      error
}

// loadTimeout bounds how long an entity waits for its state from the store. Its handler waits for
// nothing else.
const loadTimeout = 30 * time.Second

// entityActor is an entity: it decides what is latest, numbers its readings and
// hands them to the committer. Its state is loaded with the first message of
// each incarnation. It may be ahead of the store, but only by readings that have
// not been acknowledged.
type entityActor struct {
	rt     *Runtime
	h      *handle
	state  state
	num    int64 // the store's number, 0 when the store did not know it
	loaded bool
	ended  uint64 // commander.ends when one of its commands last ended, or when it was loaded
}

// Receive handles a delivery or returns a snapshot. An error that concerns one delivery goes to its
// source and is not a failure of the actor.
//
// The first message waits for the store. Another worker takes over meanwhile, so that other
// entities keep running and those that start at the same time are loaded together.
func (e *entityActor) Receive(ctx *actor.Context[message], msg message) error {
	if e.loaded || e.rt.loader.crowded() {
		return e.receive(ctx, msg)
	}
	return actor.Blocking(ctx, func() error { return e.receive(ctx, msg) })
}

func (e *entityActor) receive(ctx *actor.Context[message], msg message) error {
	switch m := msg.(type) {
	case *delivery:
		if e.h.take(m) {
			e.deliver(m)
		}
	case snapshotRequest:
		actor.Reply(ctx, m, e.answer())
	case viewRequest:
		actor.Reply(ctx, m, e.view(m.call))
	case retire:
		if e.retire(m) {
			ctx.Stop()
		}
		return nil
	}
	e.used()
	if e.state.created == 0 && e.retire(retire{e.h.used.Load()}) { // there is no such entity
		ctx.Stop()
	}
	return nil
}

// Terminate settles the deliveries that nobody will take now. A restart keeps the mailbox and the
// deliveries listed for it.
func (e *entityActor) Terminate(_ *actor.Context[message], why error) {
	e.rt.count.hotBytes.Add(-e.h.bytes.Swap(0))
	if why == nil || errors.Is(why, actor.ErrRestartBudget) {
		e.rt.abandon(e.h, ErrStopped)
	}
}

// deliver accepts the readings and passes them to the committer. It settles d or leaves that to the
// committer, even if it panics.
func (e *entityActor) deliver(d *delivery) {
	kept := false
	var err error
	defer func() {
		if kept {
			return
		}
		if err == nil {
			err = ErrFailed // stays if take panics
		}
		e.rt.reject(d, fmt.Errorf("entity %q: %w", e.h.id, err))
	}()
	if e.rt.window.full.Load() && !d.patient() {
		err = ErrFull
		return
	}
	if err = e.load(); err != nil {
		return
	}
	switch {
	case d.change != nil:
		err = e.edit(d)
	case d.step != nil:
		err = e.step(d)
	case d.look:
		e.look(d)
	default:
		err = e.take(d)
	}
	if err != nil {
		return
	}
	kept = true // from here on it is the committer's
	ticket := e.rt.committer.accept(d)
	e.h.ticket.Store(ticket)
	if d.edit != nil {
		e.h.edited.Store(ticket)
	}
	e.stepped(d.commands, ticket)
}

// take accepts readings. A repetition of what a source has already computed has no effect; it waits
// in the committer until the original is durable.
func (e *entityActor) take(d *delivery) error {
	if d.of != 0 && d.of != e.state.created {
		return ErrNotFound
	}
	if e.state.repeated(d.origin) || d.once.Token != 0 && !d.once.Fresh && e.rt.tokens.has(d.once.Token) {
		d.readings = nil
		return nil
	}
	numbered := e.passOver(d)
	if len(d.readings) == 0 {
		return nil
	}
	if err := e.checkTelemetry(d.readings); err != nil {
		return err
	}
	e.stamp(d.readings)
	late, err := e.state.apply(d.readings, d.origin, e.rt.keys, d.once.By)
	if err != nil {
		return err
	}
	if d.once.Token != 0 {
		e.rt.tokens.add(d.once.Token)
	}
	if numbered {
		e.remember(d.readings)
	}
	if e.state.created == 0 {
		e.state.created, d.made = e.rt.clock.stamp(), true
		e.rt.presences.made(e.h.id)
	}
	d.late, d.firstSeq = late, e.state.seq-uint64(len(d.readings))+1
	d.created, d.num = e.state.created, e.num
	return nil
}

// passOver removes the readings whose device number the entity has already seen, and reports
// whether numbered readings remain.
func (e *entityActor) passOver(d *delivery) (numbered bool) {
	kept := d.readings[:0]
	for i := range d.readings {
		if n := d.readings[i].Number; n != 0 {
			if e.rt.tokens.has(numberToken(e.h.id, n)) {
				continue
			}
			numbered = true
		}
		kept = append(kept, d.readings[i])
	}
	d.readings = kept
	return numbered
}

// remember records the numbers of accepted readings.
func (e *entityActor) remember(readings []Reading) {
	for i := range readings {
		if n := readings[i].Number; n != 0 {
			e.rt.tokens.add(numberToken(e.h.id, n))
		}
	}
}

// stamp sets the time of readings without one to the time at which the entity accepts them, so that
// they are ordered by arrival.
func (e *entityActor) stamp(readings []Reading) {
	var now int64
	for i := range readings {
		if readings[i].Arrived {
			if now == 0 {
				now = e.rt.clock.stamp()
			}
			readings[i].TS = now
		}
	}
}

// load reads the state from the store, once per incarnation. It first waits until the store has
// everything that an earlier incarnation passed to the committer.
func (e *entityActor) load() error {
	if e.loaded {
		return nil
	}
	ctx, cancel := context.WithTimeout(e.rt.ctx, loadTimeout)
	defer cancel()
	if err := e.rt.committer.Wait(ctx, e.h.ticket.Load()); err != nil {
		return fmt.Errorf("load entity %q: wait for its readings to be committed: %w", e.h.id, err)
	}
	stored, err := e.rt.loader.Load(ctx, e.h.id)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return err
	}
	e.state.load(&stored, e.rt.keys)
	e.ended = e.rt.commander.ends.Load()
	e.num, e.loaded = stored.Num, true
	return nil
}

// mustExist loads the entity and returns ErrNotFound when there is none.
func (e *entityActor) mustExist() error {
	if err := e.load(); err != nil {
		return err
	}
	if e.state.created == 0 {
		return ErrNotFound
	}
	return nil
}

func (e *entityActor) answer() snapshotAnswer {
	if err := e.mustExist(); err != nil {
		return snapshotAnswer{err: err, ticket: e.h.ticket.Load()}
	}
	return snapshotAnswer{snapshot: e.state.snapshot(e.h.id, e.rt.keys), ticket: e.h.ticket.Load()}
}
