package entity

import (
	"strings"
	"sync"
)

// keyTable gives each key a small number, so that the state of an entity has
// four bytes for a key in place of its name. Keys are never forgotten; MaxKeys
// bounds them. It is safe for concurrent use.
type keyTable struct {
	mu    sync.RWMutex
	ids   map[string]uint32
	names []string
}

func newKeyTable() *keyTable { return &keyTable{ids: make(map[string]uint32)} }

// id returns the number of a key, giving it one if need be. It reports false
// when the table is full.
func (t *keyTable) id(name string) (uint32, bool) {
	if id, ok := t.find(name); ok {
		return id, true
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if id, ok := t.ids[name]; ok {
		return id, true
	}
	if len(t.names) >= MaxKeys {
		return 0, false
	}
	name = strings.Clone(name) // it may be part of a payload
	id := uint32(len(t.names))
	t.names = append(t.names, name)
	t.ids[name] = id
	return id, true
}

// intern returns the table's own copy of a name. It reports false when the table
// is full.
func (t *keyTable) intern(name string) (string, bool) {
	id, ok := t.id(name)
	if !ok {
		return "", false
	}
	return t.name(id), true
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
