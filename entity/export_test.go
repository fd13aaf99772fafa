package entity

import "context"

// What the tests do to a runtime from the inside.

// FailEntity makes the entity's actor panic when it comes to it.
func (r *Runtime) FailEntity(id string) {
	r.handles.find(id).actor().Tell(context.Background(), (*delivery)(nil))
}

// StopEntity stops the entity's actor; what is in its mailbox is not handled.
func (r *Runtime) StopEntity(id string) { r.handles.find(id).actor().Stop() }

// KillEntity ends the entity's actor without a goodbye.
func (r *Runtime) KillEntity(id string) { r.handles.find(id).actor().Kill() }

// IsLive reports whether the entity has an actor that takes deliveries.
func (r *Runtime) IsLive(id string) bool {
	h := r.handles.find(id)
	return h != nil && !h.actor().IsZero()
}

// Audit makes the manager look for forgotten deliveries.
func (r *Runtime) Audit() { r.manager.Tell(context.Background(), audit{}) }

// FailManager makes the Entity Manager panic.
func (r *Runtime) FailManager() { r.manager.Tell(context.Background(), activate{}) }

// MaxEntityKeysForTest saves the tests from writing limits twice.
const MaxEntityKeysForTest = MaxEntityKeys
