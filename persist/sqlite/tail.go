package sqlite

import (
	"cmp"
	"database/sql/driver"
	"fmt"
	"slices"
	"sync"

	"github.com/greenroom-go/greenroom/persist"
	"github.com/greenroom-go/greenroom/persist/internal/plan"
)

// The events of a commit are written one after the other, whoever they are of, and what
// they are found by (the tables place and feed, the numbers of actors) is written later: in
// a commit of a thousand actors that would be a page for each of them, 40 times what was
// recorded. The tail is what the tables do not have yet. It is made again from the events
// after head.flushed when the journal is opened.
//
// A reader takes its snapshot of the database while it holds the tail's lock. In the tail it
// passes over what is not in its snapshot, and over what is in the tables of it. So events are
// added to the tail before the COMMIT, and taken out of it after that of the flush.
type tail struct {
	mu     sync.RWMutex
	actors map[int64][]tailEvent // by position, which is by number; guarded by mu
	parts  [persist.Parts][]tailEvent
	count  int // guarded by mu
}

// tailEvent is an event without its payload.
type tailEvent struct {
	actor, number, position int64
}

func newTail() *tail { return &tail{actors: make(map[int64][]tailEvent)} }

// queryer is a transaction.
type queryer interface {
	Each(query string, columns int, f func(row []driver.Value) (bool, error), args ...any) error
}

// load makes a tail of the events with greater positions.
func (t *tail) load(db queryer, flushed int64) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	clear(t.actors)
	clear(t.parts[:])
	t.count = 0
	if err := db.Each("SELECT part, actor, number, position FROM event WHERE position > ? ORDER BY position", 4, func(row []driver.Value) (bool, error) {
		t.add(int(integer(row[0])), tailEvent{integer(row[1]), integer(row[2]), integer(row[3])})
		return true, nil
	}, flushed); err != nil {
		return fmt.Errorf("read the tail: %w", err)
	}
	return nil
}

// add adds an event. REQUIRES: mu held.
func (t *tail) add(part int, e tailEvent) {
	t.actors[e.actor] = append(t.actors[e.actor], e)
	t.parts[part] = append(t.parts[part], e)
	t.count++
}

// take adds the events of a batch.
func (t *tail) take(events []plan.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range events {
		e := &events[i]
		t.add(e.Part, tailEvent{e.Actor, e.Number, e.Position})
	}
}

// last returns the number of the last event of an actor, 0 if there is none.
func (t *tail) last(actor int64) int64 {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if list := t.actors[actor]; len(list) > 0 {
		return list[len(list)-1].number
	}
	return 0
}

// keep sets the remaining events of an actor. REQUIRES: mu held.
func (t *tail) keep(actor int64, list []tailEvent) {
	if len(list) == 0 {
		delete(t.actors, actor)
		return
	}
	t.actors[actor] = list
}

// cut takes out the events up to a position, which are in the tables.
func (t *tail) cut(position int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for actor, list := range t.actors {
		t.keep(actor, slices.Clone(list[after(list, position):]))
	}
	for part, list := range t.parts {
		n := after(list, position)
		t.parts[part] = slices.Clone(list[n:])
		t.count -= n
	}
}

// after returns the place of the first event of a list that has a greater position.
func after(list []tailEvent, position int64) int {
	i, _ := slices.BinarySearchFunc(list, position+1, func(e tailEvent, p int64) int { return cmp.Compare(e.position, p) })
	return i
}

// between returns a copy of the events with positions greater than low and up to high, at
// most limit of them. REQUIRES: mu held.
func between(list []tailEvent, low, high int64, limit int) []tailEvent {
	first, end := after(list, low), after(list, high)
	if first >= end {
		return nil
	}
	return slices.Clone(list[first:min(end, first+limit)])
}

// size returns the number of events.
func (t *tail) size() int {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.count
}
