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

// markAlarms is how many alarms of a deleted entity a step marks.
const markAlarms = 500

// deletions are the deleted entities whose alarms are not all marked yet, with the ID of the last
// alarm of each. The engine adds and removes them, and others read them: its methods are safe for
// concurrent use.
type deletions struct {
	mu   sync.RWMutex
	upTo map[string]string // guarded by mu
}

func newDeletions() *deletions { return &deletions{upTo: make(map[string]string)} }

// covers reports whether an alarm is that of a deleted entity.
func (g *deletions) covers(entityID, alarm string) bool {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return alarm <= g.upTo[entityID]
}

// has reports whether an entity is among them.
func (g *deletions) has(id string) bool {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.upTo[id] != ""
}

// none reports whether there are none.
func (g *deletions) none() bool {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return len(g.upTo) == 0
}

// deletion is an entry of deletions.
type deletion struct{ id, upTo string }

// some returns up to n deletions; begun comes first if it is among them.
func (g *deletions) some(begun string, n int) []deletion {
	g.mu.RLock()
	defer g.mu.RUnlock()
	list := make([]deletion, 0, min(n, len(g.upTo)))
	if upTo, ok := g.upTo[begun]; ok {
		list = append(list, deletion{begun, upTo})
	}
	for id, upTo := range g.upTo {
		if len(list) == n {
			break
		}
		if id != begun {
			list = append(list, deletion{id, upTo})
		}
	}
	return list
}

func (g *deletions) set(id, upTo string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.upTo[id] = upTo
}

// remove removes an entity, unless it was deleted once more.
func (g *deletions) remove(id, upTo string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.upTo[id] == upTo {
		delete(g.upTo, id)
	}
}

// seen returns a copy, for a caller that then reads alarms.
func (g *deletions) seen() map[string]string {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return maps.Clone(g.upTo)
}

func (g *deletions) reset(all map[string]string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.upTo = all
}

// deletionJSON is a deletion as it is stored, under its entity.
type deletionJSON struct {
	UpTo string `json:"up_to"`
}

// deleted records that an entity was deleted: a later entity with the same id has none of its
// alarms.
func (e *engine) deleted(ctx context.Context, id string) error {
	if !slices.ContainsFunc(e.events, func(ev Event) bool { return ev.Alarm.Entity == id }) {
		list, err := e.rt.Items(ctx, entity.ItemsQuery{Kind: entityKind, From: part(id), To: after(part(id)), Limit: 1, Descending: true})
		if err != nil || len(list) == 0 {
			return err
		}
		if !e.deletions.has(id) {
			last, err := e.ledger.alarm(ctx, list[0].Key[len(part(id)):])
			if err == nil && last.Deleted {
				return nil // and so are those before it
			}
			if err != nil && !errors.Is(err, ErrNotFound) {
				return err
			}
		}
	}
	x := deletionJSON{alarmID(e.place.Alarm)}
	e.deletions.set(id, x.UpTo) // where it is being gone through, what is new comes later
	return e.ledger.put(deletionKind, id, &x)
}

// loadDeletions reads the deletions left unfinished at the last shutdown.
func (e *engine) loadDeletions(ctx context.Context) error {
	all := make(map[string]string)
	err := e.each(ctx, deletionKind, func(it *entity.Item) error {
		var x deletionJSON
		if err := json.Unmarshal(it.Body, &x); err != nil {
			return fmt.Errorf("the end of entity %q for the alarms: %w", it.Key, err)
		}
		all[it.Key] = x.UpTo
		return nil
	})
	if err == nil {
		e.deletions.reset(all)
	}
	return err
}

// markDeleted marks some of the alarms of deleted entities, and removes the items by which replays
// find them. It continues with the entity that was begun: otherwise, with many of them, none would
// ever be finished. It does not look into the ledger. REQUIRES: the ledger is empty.
func (e *engine) markDeleted(ctx context.Context) error {
	left := e.steps.mark
	for _, x := range e.deletions.some(e.marking, left) {
		if e.marking != x.id {
			e.marking, e.markedTo = x.id, ""
		}
		n, err := e.markOne(ctx, x, left)
		if err != nil {
			return err
		}
		if left -= n + 1; left <= 0 {
			break
		}
	}
	return nil
}

// markOne marks alarms of one entity, and returns how many it has examined, which is most if there
// may be more. They are marked in the order of their IDs, so that all alarms before a marked one
// are marked, however the engine ends.
func (e *engine) markOne(ctx context.Context, x deletion, most int) (int, error) {
	list, err := e.rt.Items(ctx, entity.ItemsQuery{Kind: entityKind, From: part(x.id) + e.markedTo, To: part(x.id) + x.upTo + "\x00", Limit: most})
	if err != nil {
		return 0, err
	}
	for i := range list {
		name := list[i].Key[len(part(x.id)):]
		e.markedTo = name + "\x00"
		a, err := e.ledger.alarm(ctx, name)
		if errors.Is(err, ErrNotFound) {
			continue // it cannot be read, or was removed
		}
		if err != nil {
			return 0, err
		}
		if a.Deleted {
			continue
		}
		a.Deleted = true
		e.ledger.set(timeKind, timeKey(a.Entity, a.Rule, a.Raised, a.ID), nil)
		if err := e.ledger.keep(a, a.prior()); err != nil {
			return 0, err
		}
	}
	if len(list) < most {
		e.ledger.set(deletionKind, x.id, nil)
		e.then = append(e.then, func() { e.deletions.remove(x.id, x.upTo) })
		e.marking = ""
	}
	return len(list), nil
}
