package alarm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/greenroom-go/greenroom/entity"
)

// buryAlarms is how many alarms of a deleted entity a step marks.
const buryAlarms = 500

// graves are the entities that were deleted and whose alarms do not yet say so, with the ID of
// the last alarm of each. The engine adds and removes, readers look: its methods are safe for
// concurrent use.
type graves struct {
	mu   sync.RWMutex
	upTo map[string]string // guarded by mu
}

func newGraves() *graves { return &graves{upTo: make(map[string]string)} }

// covers reports whether an alarm is one of an entity that was deleted.
func (g *graves) covers(entityID, alarm string) bool {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return alarm <= g.upTo[entityID]
}

// has reports whether an entity is among them.
func (g *graves) has(id string) bool {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.upTo[id] != ""
}

// none reports whether there are none.
func (g *graves) none() bool {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return len(g.upTo) == 0
}

// any returns one of them, and false where there is none.
func (g *graves) any() (id, upTo string, ok bool) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	for id, upTo = range g.upTo {
		return id, upTo, true
	}
	return "", "", false
}

func (g *graves) set(id, upTo string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.upTo[id] = upTo
}

// remove forgets an entity, unless it was deleted once more.
func (g *graves) remove(id, upTo string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.upTo[id] == upTo {
		delete(g.upTo, id)
	}
}

// seen returns all of them, for who reads alarms after that.
func (g *graves) seen() map[string]string {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return maps.Clone(g.upTo)
}

func (g *graves) reset(all map[string]string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.upTo = all
}

// graveJSON is a grave as it is stored, under its entity.
type graveJSON struct {
	UpTo string `json:"up_to"`
}

// deleted notes that an entity was deleted: one of the same id that comes later has none of
// its alarms.
func (e *engine) deleted(ctx context.Context, id string) error {
	if !slices.ContainsFunc(e.events, func(ev Event) bool { return ev.Alarm.Entity == id }) {
		list, err := e.rt.Items(ctx, entity.ItemsQuery{Kind: entityKind, From: part(id), To: after(part(id)), Limit: 1})
		if err != nil || len(list) == 0 {
			return err
		}
	}
	x := graveJSON{alarmID(e.place.Alarm)}
	e.graves.set(id, x.UpTo)
	if e.burying == id {
		e.buried = ""
	}
	return e.ledger.put(graveKind, id, &x)
}

// loadGraves reads what was not done before a start.
func (e *engine) loadGraves(ctx context.Context) error {
	all := make(map[string]string)
	err := e.each(ctx, graveKind, func(it *entity.Item) error {
		var x graveJSON
		if err := json.Unmarshal(it.Body, &x); err != nil {
			return fmt.Errorf("the end of entity %q for the alarms: %w", it.Key, err)
		}
		all[it.Key] = x.UpTo
		return nil
	})
	if err == nil {
		e.graves.reset(all)
	}
	return err
}

// bury marks some of the alarms of an entity that was deleted, and takes away what leads
// replays to them. Nothing of the ledger is looked at.
// REQUIRES: the ledger is empty.
func (e *engine) bury(ctx context.Context) error {
	id, upTo, ok := e.graves.any()
	if !ok {
		return nil
	}
	if e.burying != id {
		e.burying, e.buried = id, ""
	}
	list, err := e.rt.Items(ctx, entity.ItemsQuery{Kind: entityKind, From: part(id) + e.buried, To: part(id) + upTo + "\x00", Limit: buryAlarms})
	if err != nil {
		return err
	}
	for i := range list {
		name := list[i].Key[len(part(id)):]
		e.buried = name + "\x00"
		a, err := e.ledger.alarm(ctx, name)
		if errors.Is(err, ErrNotFound) {
			continue // it cannot be read, or was removed
		}
		if err != nil {
			return err
		}
		a.Deleted = true
		e.ledger.set(timeKind, timeKey(a.Entity, a.Rule, a.Raised, a.ID), nil)
		if err := e.ledger.keep(a, a.prior()); err != nil {
			return err
		}
	}
	if len(list) < buryAlarms {
		e.ledger.set(graveKind, id, nil)
		e.then = append(e.then, func() { e.graves.remove(id, upTo) })
		e.burying = ""
	}
	return nil
}
