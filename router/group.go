package router

import (
	"context"
	"fmt"
	"slices"

	"github.com/greenroom-go/greenroom/actor"
)

// Group is a router over actors that somebody else has spawned. It watches its members
// and drops those that end; it neither supervises nor stops them.
//
// Use it like a Ref, whose methods it has. Stop, Drain and Kill end the group, not its
// members. To pass it on or to ask it, use its field Ref. Its methods are safe for
// concurrent use, also in handlers, those of its members included. The zero Group is not
// usable; call SpawnGroup.
type Group[M any] struct {
	// Ref is the group as everybody else sees it. Its address is that of the group's actor:
	// watching and stopping concern that one. Asking is Ask(ctx, group.Ref, …).
	actor.Ref[M]

	handle handle[M]
}

// Routees returns the routees that currently get messages, in the order in which they
// were added. The slice is the caller's.
func (g *Group[M]) Routees() []actor.Ref[M] { return g.handle.routees() }

// Broadcast tells msg to all current routees, whatever the strategy. They get the same
// value, so none of them may change what it points to. Without routees the message
// becomes a dead letter. Broadcast never blocks.
func (g *Group[M]) Broadcast(ctx context.Context, msg M) { g.handle.broadcast(ctx, msg) }

// SpawnGroup spawns a group with the given members, of which there may be none. For the
// parent and the name see [actor.Spawn]. SpawnGroup panics where [TrySpawnGroup] returns
// an error.
func SpawnGroup[M any](parent actor.Spawner, name string, strategy Strategy[M], members ...actor.Ref[M]) *Group[M] {
	return must(TrySpawnGroup(parent, name, strategy, members...))
}

// TrySpawnGroup is [SpawnGroup] with an error: ErrZeroRef, ErrNoStrategy, or those of
// [actor.TrySpawn]. If it fails, nothing is left behind.
func TrySpawnGroup[M any](parent actor.Spawner, name string, strategy Strategy[M], members ...actor.Ref[M]) (*Group[M], error) {
	if strategy == nil {
		return nil, fmt.Errorf("spawn group %q: %w: RoundRobin is one", name, ErrNoStrategy)
	}
	if err := checkMembers(members); err != nil {
		return nil, fmt.Errorf("spawn group %q: %w", name, err)
	}
	g := &groupState[M]{desk: &desk[M]{strategy: strategy}}
	for _, ref := range members {
		g.add(ref)
	}
	manager, err := actor.TrySpawn(parent, name, func() *groupManager[M] { return &groupManager[M]{groupState: g} })
	if err != nil {
		return nil, err
	}
	h, err := newHandle(g.desk, manager, g.sys)
	if err != nil {
		return nil, err
	}
	return &Group[M]{h.ref, h}, nil
}

func checkMembers[M any](members []actor.Ref[M]) error {
	for i, ref := range members {
		if ref.IsZero() {
			return fmt.Errorf("%w: number %d of %d", ErrZeroRef, i+1, len(members))
		}
	}
	return nil
}

// Add adds members, after those that the group has, and returns once senders see them.
// Adding a member twice has no effect. An actor that has ended is dropped again at once.
//
// A member may itself be a router, but not this one, nor one whose messages come back to
// this one: a message sent into such a cycle overflows its sender's stack.
//
// Add fails with [ErrZeroRef] or [ErrSelf], with [actor.ErrStopped] if the group has
// ended, and when ctx ends or, without a deadline, after the system's ask timeout; the
// members are then still added later. In a handler pass the handler's ctx.
func (g *Group[M]) Add(ctx context.Context, members ...actor.Ref[M]) error {
	err := checkMembers(members)
	for _, ref := range members {
		if err == nil && ref.PID() == g.PID() {
			err = fmt.Errorf("%w: give it actors, or other routers", ErrSelf)
		}
	}
	if err == nil {
		err = g.handle.give(ctx, change[M]{add: slices.Clone(members)})
	}
	if err != nil {
		return fmt.Errorf("add to %s: %w", g.PID().Path(), err)
	}
	return nil
}

// Remove removes members and returns once senders see it; actors that are not members
// are ignored. A message whose sender had already chosen a removed member may still
// reach it. The errors are those of Add, without ErrSelf.
func (g *Group[M]) Remove(ctx context.Context, members ...actor.Ref[M]) error {
	err := checkMembers(members)
	if err == nil {
		err = g.handle.give(ctx, change[M]{remove: slices.Clone(members)})
	}
	if err != nil {
		return fmt.Errorf("remove from %s: %w", g.PID().Path(), err)
	}
	return nil
}

// The messages of a group's actor.
type (
	change[M any] struct {
		order
		add, remove []actor.Ref[M]
	}
	memberDown[M any] struct{ ref actor.Ref[M] }
)

// groupState survives the restarts of the group's actor. It is owned by its turn.
type groupState[M any] struct {
	desk    *desk[M]
	sys     *actor.System
	members []actor.Ref[M]
}

func (g *groupState[M]) add(ref actor.Ref[M]) (added bool) {
	if slices.Contains(g.members, ref) {
		return false
	}
	g.members = append(g.members, ref)
	return true
}

func (g *groupState[M]) remove(ref actor.Ref[M]) (removed bool) {
	i := slices.Index(g.members, ref)
	if i < 0 {
		return false
	}
	g.members = slices.Delete(g.members, i, i+1)
	return true
}

// groupManager is the group's actor: it watches the members and sees no message of
// theirs.
type groupManager[M any] struct{ *groupState[M] }

// Init watches all members there are.
func (m *groupManager[M]) Init(ctx *actor.Context[any]) error {
	if m.sys == nil { // once: SpawnGroup reads it while the actor lives
		m.sys = ctx.System()
	}
	m.desk.clearWith(ctx, m)
	for _, ref := range m.members {
		m.watch(ctx, ref)
	}
	m.publish(ctx)
	return nil
}

func (m *groupManager[M]) Receive(ctx *actor.Context[any], msg any) error {
	switch o := msg.(type) {
	case change[M]:
		for _, ref := range o.add {
			if m.add(ref) {
				m.watch(ctx, ref)
			}
		}
		for _, ref := range o.remove {
			if m.remove(ref) {
				m.unwatch(ctx, ref)
			}
		}
		m.publish(ctx)
		actor.Reply(ctx, o, outcome{})
	case memberDown[M]:
		m.remove(o.ref)
		m.publish(ctx)
	}
	return nil
}

func (m *groupManager[M]) watch(ctx *actor.Context[any], ref actor.Ref[M]) {
	ctx.Watch(ref.PID(), func(actor.Down) any { return memberDown[M]{ref} })
}

// unwatch ends the watch of a former member. Another one may have the same address, a
// router over the same actor, and then has to be watched anew.
func (m *groupManager[M]) unwatch(ctx *actor.Context[any], ref actor.Ref[M]) {
	ctx.Unwatch(ref.PID())
	for _, other := range m.members {
		if other.PID() == ref.PID() {
			m.watch(ctx, other)
		}
	}
}

func (m *groupManager[M]) publish(ctx *actor.Context[any]) {
	m.desk.publish(ctx, m, slices.Clone(m.members))
}
