package entity

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/entity/model"
	"github.com/greenroom-go/greenroom/entity/value"
)

// What the tests do to a runtime from the inside.

// FailEntity makes the entity's actor panic when it comes to it.
func (r *Runtime) FailEntity(id string) {
	r.handles.find(id).actor().Tell(context.Background(), (*delivery)(nil))
}

// StopEntity stops the entity's actor; what is in its mailbox is not handled.
func (r *Runtime) StopEntity(id string) { r.handles.find(id).actor().Stop() }

// KillEntity ends the entity's actor without a goodbye.
func (r *Runtime) KillEntity(id string) { r.handles.find(id).actor().Kill() }

// Accepted returns what the entity has taken in, committed or not.
func (r *Runtime) Accepted(ctx context.Context, id string) (Snapshot, error) {
	snap, _, err := r.accepted(ctx, id)
	return snap, err
}

// IsLive reports whether the entity has an actor that takes deliveries.
func (r *Runtime) IsLive(id string) bool {
	h := r.handles.find(id)
	return h != nil && !h.actor().IsZero()
}

// SetLastLook sets how long WaitCommand waits for the store once its context has ended.
func (r *Runtime) SetLastLook(d time.Duration) { r.lastLook = d }

// Wanted is how many entities wait for a read to begin.
func (r *Runtime) Wanted() int { return r.loader.Waiting() }

// Audit makes the manager look for forgotten deliveries.
func (r *Runtime) Audit() { r.manager.Tell(context.Background(), audit{}) }

// FailManager makes the Entity Manager panic.
func (r *Runtime) FailManager() { r.manager.Tell(context.Background(), activate{}) }

// MaxEntityKeysForTest saves the tests from writing limits twice.
const MaxEntityKeysForTest = MaxEntityKeys

// NewApplier returns what an entity does with a reading of so many keys in its
// turn: check it against the type, decide what is latest.
func NewApplier(b *testing.B, keys int, typed bool) func(ts int64) {
	b.Helper()
	rt := &Runtime{keys: newKeyTable(MaxKeys)}
	typ := &model.Type{ID: "T", Telemetry: map[string]*model.Schema{}}
	low, high := -1e9, 1e9
	r := Reading{Values: make([]Sample, keys)}
	for i := range r.Values {
		r.Values[i] = Sample{Key: fmt.Sprintf("line%03d", i), Value: value.Float(21.5 + float64(i))}
		typ.Telemetry[r.Values[i].Key] = &model.Schema{Type: model.Number, Min: &low, Max: &high}
	}
	set := &typeSet{declared: map[string]*model.Type{"T": typ}}
	var err error
	if set.resolved, err = model.ResolveAll(set.declared); err != nil {
		b.Fatal(err)
	}
	rt.types.current.Store(set)
	e := &entityActor{rt: rt, h: &handle{id: "e"}, loaded: true}
	if typed {
		e.state.typ = "T"
	}
	return func(ts int64) {
		r.TS = ts
		if err := e.take(&delivery{readings: []Reading{r}}); err != nil {
			b.Fatal(err)
		}
	}
}

// Sweep makes the manager look for entities that may go cold.
func (r *Runtime) Sweep() { r.manager.Tell(context.Background(), sweep{}) }

// SweepAll makes it look at all of them, and returns when it has.
func (r *Runtime) SweepAll(ctx context.Context) error {
	for range sweepParts {
		r.Sweep()
	}
	_, err := actor.Ask(ctx, r.manager, reach{h: &handle{id: "nobody", phase: closed}})
	return err
}

// Retire asks an entity to go cold, however short it was idle.
func (r *Runtime) Retire(id string) {
	if h := r.handles.find(id); h != nil {
		if ref := h.actor(); !ref.IsZero() {
			_ = ref.TryTell(context.Background(), retire{r.nanos()})
		}
	}
}

// Handles is how many entities the dispatcher knows.
func (r *Runtime) Handles() (n int) {
	r.handles.each(func(*handle) { n++ })
	return n
}

// Present is how many entities the runtime remembers because their devices are online or
// have a connection.
func (r *Runtime) Present() int64 { return r.presences.tracked.Load() }
