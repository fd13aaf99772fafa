package entity

import (
	"fmt"
	"strings"
	"sync"
)

// keyTable gives each key a small number, so that the state of an entity has four bytes for a key
// instead of its name. Keys are never removed, as the stores never remove theirs; max bounds them.
// A keyTable is safe for concurrent use.
//
// A new name takes a place from all other senders, for good. So a sender may have no more names
// than remain for all others: the first to try gets half of the table, and there is always a place
// left for the next. Names from the store are added without limit, because their entities exist
// already.
type keyTable struct {
	max int

	mu      sync.RWMutex
	ids     map[string]uint32
	names   []string
	brought map[string]int // how many names each sender has added
}

func newKeyTable(limit int) *keyTable {
	return &keyTable{max: limit, ids: make(map[string]uint32), brought: make(map[string]int)}
}

// id returns the number of a key, assigning one if need be. by is the sender, "" for the runtime
// itself; it must have asked for room before.
func (t *keyTable) id(name, by string) uint32 {
	if id, ok := t.find(name); ok {
		return id
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if id, ok := t.ids[name]; ok {
		return id
	}
	name = strings.Clone(name) // it may be part of a payload
	id := uint32(len(t.names)) //nolint:gosec // max is below, and what the store has is in memory there as well
	t.names = append(t.names, name)
	t.ids[name] = id
	if by != "" {
		t.brought[strings.Clone(by)]++
	}
	return id
}

// intern returns the table's own copy of a name, adding it as id does.
func (t *keyTable) intern(name, by string) string { return t.name(t.id(name, by)) }

// surelyFits is a cheap check whether n names fit in any case. If it reports false, room gives the
// exact answer.
func (t *keyTable) surelyFits(n int) bool { return 2*(t.len()+n) <= t.max }

// room returns an error if by may not add n new names. Concurrent callers may exceed the bound
// together, each by the names of one reading.
func (t *keyTable) room(n int, by string) error {
	t.mu.RLock()
	defer t.mu.RUnlock()
	switch all, own := len(t.names)+n, t.brought[by]+n; {
	case n == 0:
		return nil
	case all > t.max:
		return fmt.Errorf("%w: all entities together would have %d different ones; at most %d are allowed", ErrTooManyKeys, all, t.max)
	case by != "" && own > t.max-all:
		return fmt.Errorf("%w: %q would have brought %d that no entity had before, and leave only %d for all others; use the same names for the same things", ErrTooManyKeys, by, own, t.max-all)
	}
	return nil
}

func (t *keyTable) find(name string) (uint32, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	id, ok := t.ids[name]
	return id, ok
}

func (t *keyTable) name(id uint32) string {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.names[id]
}

func (t *keyTable) len() int {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return len(t.names)
}
