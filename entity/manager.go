package entity

import (
	"errors"
	"strings"
	"time"

	"github.com/greenroom-go/greenroom/actor"
)

const (
	managerName = "entities"

	// auditEvery is how often the manager looks for deliveries to actors that are gone. It matters
	// for an actor that was killed, which settles nothing itself.
	auditEvery = 10 * time.Second

	// sweepEvery is how often the manager looks for entities that may go cold. Each time it checks
	// only a part of them for long idleness.
	sweepEvery = time.Second
	sweepParts = 16

	// An actor keeps its name while it stops, which takes milliseconds.
	nameTakenMin = 5 * time.Millisecond
	nameTakenMax = time.Second
)

// managerMessage is what the Entity Manager accepts.
type managerMessage interface{ managerMessage() }

// activate asks the manager to spawn the actor of a handle. after is the wait before this try.
type activate struct {
	h     *handle
	after time.Duration
}

// reach is activate with an answer.
type reach struct {
	actor.Returns[actor.Ref[message]]
	h *handle
}

// audit is the manager's timer for its audits.
type audit struct{}

// sweep is its timer for sweeps.
type sweep struct{}

func (activate) managerMessage() {}
func (sweep) managerMessage()    {}
func (reach) managerMessage()    {}
func (audit) managerMessage()    {}

// manager is the Entity Manager: the parent of all entities' actors. It spawns and supervises them.
type manager struct {
	rt *Runtime
	// seen is the oldest delivery of each handle at the last audit.
	seen map[*handle]*delivery
	part int // the part of the entities to sweep next
}

// Init starts the timers.
func (m *manager) Init(ctx *actor.Context[managerMessage]) error {
	ctx.Every("audit", auditEvery, audit{})
	ctx.Every("sweep", sweepEvery, sweep{})
	return nil
}

// Receive handles a request. It never waits: entities load themselves.
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

// Terminate settles the deliveries that the entities left: their actors have all ended.
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
		if !opened { // also after a panic: nobody else would settle its deliveries
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

// audit finds deliveries that were already listed at the last audit and whose actor no longer
// exists.
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

// actorName returns the actor name for an entity's id: a name has no star and does not begin with
// '$'.
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
