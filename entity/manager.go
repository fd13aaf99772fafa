package entity

import (
	"errors"
	"strings"
	"time"

	"github.com/greenroom-go/greenroom/actor"
)

const (
	managerName = "entities"

	// auditEvery is how often the manager looks for deliveries to actors that
	// are gone. It matters for an actor that was killed, which says no goodbye.
	auditEvery = 10 * time.Second

	// sweepEvery is how often the manager looks for entities that may go cold. For
	// those that were idle for long it looks at a part of them each time.
	sweepEvery = time.Second
	sweepParts = 16

	// An actor that is stopping still has its name; it takes milliseconds.
	nameTakenMin = 5 * time.Millisecond
	nameTakenMax = time.Second
)

// managerMessage is what the Entity Manager accepts.
type managerMessage interface{ managerMessage() }

// activate asks for the actor of a handle. after is the wait before this try.
type activate struct {
	h     *handle
	after time.Duration
}

// reach asks for it and waits.
type reach struct {
	actor.Returns[actor.Ref[message]]
	h *handle
}

// audit is the manager's own reminder.
type audit struct{}

// sweep is another one.
type sweep struct{}

func (activate) managerMessage() {}
func (sweep) managerMessage()    {}
func (reach) managerMessage()    {}
func (audit) managerMessage()    {}

// manager is the Entity Manager: the parent of all entities' actors. It brings
// them to life and supervises them.
type manager struct {
	rt *Runtime
	// seen is the oldest delivery of each handle at the last audit.
	seen map[*handle]*delivery
	part int // of the entities, to be swept next
}

// Init sets the reminder.
func (m *manager) Init(ctx *actor.Context[managerMessage]) error {
	ctx.Every("audit", auditEvery, audit{})
	ctx.Every("sweep", sweepEvery, sweep{})
	return nil
}

// Receive does what is asked. It waits for nothing: entities load themselves.
func (m *manager) Receive(ctx *actor.Context[managerMessage], msg managerMessage) error {
	switch q := msg.(type) {
	case activate:
		m.activate(ctx, q)
	case reach:
		m.activate(ctx, activate{h: q.h})
		actor.Reply(ctx, q, q.h.actor())
	case audit:
		m.audit(ctx)
	case sweep:
		m.sweep(ctx)
	}
	return nil
}

// Terminate settles what the entities left: their actors have all ended.
func (m *manager) Terminate(*actor.Context[managerMessage], error) {
	m.rt.handles.each(func(h *handle) { m.rt.abandon(h, ErrStopped) })
}

// activate spawns the actor of a handle that has none, and opens the handle.
func (m *manager) activate(ctx *actor.Context[managerMessage], q activate) {
	h := q.h
	if !h.waits() {
		return
	}
	opened := false
	defer func() {
		if !opened { // also after a panic: nobody else would come back to it
			m.rt.abandon(h, ErrStopped)
		}
	}()
	newActor := func() *entityActor { return &entityActor{rt: m.rt, h: h} }
	ref, err := actor.TrySpawn(ctx, actorName(h.id), newActor)
	switch {
	case err == nil:
		opened = true
		m.rt.count.live.Add(1)
		if !h.open(ref, func(d *delivery) { ref.Tell(ctx, d) }) {
			m.rt.count.live.Add(-1)
		}
	case errors.Is(err, actor.ErrNameTaken):
		opened = true
		after := min(max(2*q.after, nameTakenMin), nameTakenMax)
		ctx.After("activate "+h.id, after, activate{h, after})
	}
}

// audit finds deliveries that have been listed since the last audit for an actor
// that does not exist any more.
func (m *manager) audit(ctx *actor.Context[managerMessage]) {
	before := m.seen
	m.seen = make(map[*handle]*delivery)
	if m.rt.window.inUse() == 0 {
		return
	}
	m.rt.handles.each(func(h *handle) {
		d, ref := h.oldest()
		switch {
		case d == nil || ref.IsZero():
		case before[h] != d:
			m.seen[h] = d
		default:
			if _, err := actor.Lookup[message](ctx.System(), ref.PID()); err != nil {
				m.rt.abandon(h, ErrStopped)
			}
		}
	})
}

// actorName makes the name of an actor of the id of an entity: a name has no
// star and begins with no '$'.
func actorName(id string) string {
	if id[0] != '$' && !strings.ContainsAny(id, "*%") {
		return id
	}
	name := strings.NewReplacer("%", "%25", "*", "%2A").Replace(id)
	if name[0] == '$' {
		name = "%24" + name[1:]
	}
	return name
}
