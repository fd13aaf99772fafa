package entity

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"
)

// receivers knows which entities' devices can be reached now, and which receiver was sent which
// commands and has not acknowledged them. It outlives the actors of the entities: what one of them
// has sent is not sent again by the next.
type receivers struct {
	log  *slog.Logger
	lost func(entity string) // tells an entity to look for commands that nobody holds any more

	mu       sync.Mutex
	byEntity map[string][]*receiver // in the order in which they came, guarded by mu
	count    int                    // guarded by mu
}

// receiver is a way to a device. All but the first three fields are guarded by receivers.mu.
type receiver struct {
	entity  string
	deliver func(Command)
	most    int // commands that it may hold

	holds   map[string]struct{} // the ids of the commands that it was given and that are not acknowledged
	queue   []Command           // those of them that deliver has not been called with yet
	working bool                // a goroutine calls deliver
	stopped bool
}

func newReceivers(log *slog.Logger, lost func(entity string)) *receivers {
	return &receivers{log: log, lost: lost, byEntity: make(map[string][]*receiver)}
}

// Receive says that the device of an entity can now be reached: deliver is called with each command
// for it, in order, on a goroutine of its own and never concurrently. It may block, which delays
// only the commands of this receiver. The entity need not exist yet.
//
// A command with which deliver was called counts as sent, and is sent again to the next receiver
// unless Delivered, Done or Fail says before that the device has it: with the same ID, by which the
// device can recognize it. If an entity has several receivers, each command goes to one of them,
// the newest. A transport that cannot take a command calls stop. If deliver panics, that is logged,
// and the command is sent again a few seconds later.
//
// stop ends it, and may be called more than once. It does not wait for a running deliver. Receive
// returns ErrInvalid for an invalid id, and if the entity already has MaxReceivers.
func (r *Runtime) Receive(id string, deliver func(Command)) (stop func(), err error) {
	return r.ReceiveUpTo(id, MaxOpenCommands, deliver)
}

// ReceiveUpTo is Receive for a transport that takes a limited number of commands: the receiver is
// never given more than n that have neither been acknowledged nor ended. Other commands stay queued
// until it has room again, or go to the newest receiver that has room. It also returns ErrInvalid
// if n is not from 1 to MaxOpenCommands.
func (r *Runtime) ReceiveUpTo(id string, n int, deliver func(Command)) (stop func(), err error) {
	if n < 1 || n > MaxOpenCommands {
		return nil, fmt.Errorf("n: %w: must be from 1 to %d, not %d", ErrInvalid, MaxOpenCommands, n)
	}
	if err := CheckID(id); err != nil {
		return nil, err
	}
	id = strings.Clone(id) // it may be part of a packet
	rec := &receiver{entity: id, deliver: deliver, most: n, holds: make(map[string]struct{})}
	if err := r.receivers.add(rec); err != nil {
		return nil, err
	}
	r.commander.kickOpen(id)
	return func() {
		if r.receivers.remove(rec) {
			r.commander.kickOpen(id)
		}
	}, nil
}

// CommandHeld reports whether a receiver of an entity was given a command that has neither been
// acknowledged nor ended since. A transport that resends a command on its own must ask first: if
// CommandHeld returns false, the command must no longer go to the device. It answers from memory,
// may be called concurrently, also from deliver, and returns false for unknown commands.
func (r *Runtime) CommandHeld(id, command string) bool { return r.receivers.held(id, command) }

func (rs *receivers) add(rec *receiver) error {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	list := rs.byEntity[rec.entity]
	if len(list) >= MaxReceivers {
		return fmt.Errorf("entity %q: %w: it has %d receivers of commands; at most that many are allowed", rec.entity, ErrInvalid, len(list))
	}
	rs.byEntity[rec.entity] = append(list, rec)
	rs.count++
	return nil
}

// remove removes a receiver and reports whether it held commands, which then go to another
// receiver.
func (rs *receivers) remove(rec *receiver) (held bool) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if rec.stopped {
		return false
	}
	rec.stopped, rec.queue = true, nil
	rs.count--
	list := slices.DeleteFunc(rs.byEntity[rec.entity], func(o *receiver) bool { return o == rec })
	if rs.byEntity[rec.entity] = list; len(list) == 0 {
		delete(rs.byEntity, rec.entity)
	}
	return len(rec.holds) > 0
}

// reaches reports whether an entity has a receiver.
func (rs *receivers) reaches(entity string) bool {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	return len(rs.byEntity[entity]) > 0
}

// held reports whether a registered receiver was given the command.
func (rs *receivers) held(entity, command string) bool {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	for _, rec := range rs.byEntity[entity] {
		if _, ok := rec.holds[command]; ok {
			return true
		}
	}
	return false
}

// give gives a command to the newest receiver of its entity that has room, if there is one.
func (rs *receivers) give(c Command) bool {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	list := rs.byEntity[c.Entity]
	i := len(list) - 1
	for i >= 0 && len(list[i].holds) >= list[i].most {
		i--
	}
	if i < 0 {
		return false
	}
	rec := list[i]
	rec.holds[c.ID] = struct{}{}
	rec.queue = append(rec.queue, c)
	if !rec.working {
		rec.working = true
		go rs.work(rec)
	}
	return true
}

// release records that a command is acknowledged or has ended, so that no receiver holds it. It
// reports whether a full receiver now has room.
func (rs *receivers) release(entity, command string) (room bool) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	for _, rec := range rs.byEntity[entity] {
		if _, ok := rec.holds[command]; ok {
			room = room || len(rec.holds) == rec.most
			delete(rec.holds, command)
			rec.queue = slices.DeleteFunc(rec.queue, func(c Command) bool { return c.ID == command })
		}
	}
	return room
}

// forget releases all commands of an entity, which was deleted.
func (rs *receivers) forget(entity string) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	for _, rec := range rs.byEntity[entity] {
		clear(rec.holds)
		rec.queue = nil
	}
}

func (rs *receivers) len() int {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	return rs.count
}

// work calls deliver until there is nothing left.
func (rs *receivers) work(rec *receiver) {
	for {
		c, ok := rs.next(rec)
		if !ok {
			return
		}
		rs.call(rec, c)
	}
}

func (rs *receivers) next(rec *receiver) (c Command, ok bool) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if len(rec.queue) == 0 {
		rec.working, rec.queue = false, nil
		return c, false
	}
	c = rec.queue[0]
	rec.queue = rec.queue[1:]
	return c, true
}

// call calls deliver. If deliver panics, the process must not end and the command must not be lost.
// The command is sent again only after a while, so that a deliver that always panics does not keep
// the disk busy.
func (rs *receivers) call(rec *receiver, c Command) {
	defer func() {
		if p := recover(); p != nil {
			rs.log.LogAttrs(context.Background(), slog.LevelError, "receiver of commands panicked",
				slog.String("entity", rec.entity), slog.Any("panic", p), slog.String("stack", string(debug.Stack())))
			rs.release(c.Entity, c.ID)
			time.AfterFunc(commanderRetry, func() { rs.lost(c.Entity) })
		}
	}()
	rec.deliver(c)
}
