package lua

import (
	"slices"

	glua "github.com/yuin/gopher-lua"
)

// keyList is the keys of tables that were given the same texts in the same order, as the messages of one kind are.
// Such tables share it: besides its values a table of the interpreter has a list of its keys and a map of their
// places, which are half of what a small table takes.
//
// A list never changes. Its slice has room for one more, in which it is itself: so a table that has it is known. The
// interpreter must not add a key to such a table. Each assignment comes to growing first, which gives the table the
// list that has the key already, or a list and a map of its own.
type keyList struct {
	keys   []glua.LValue
	places map[glua.LValue]int
}

// String and Type make it a value. Scripts never see it.
func (*keyList) String() string        { return "keys" }
func (*keyList) Type() glua.LValueType { return glua.LTUserData }

// The limits of the lists that a service keeps.
const (
	maxKeySteps   = 256
	keyStepSize   = 512 // bytes, with the list
	maxSharedKeys = 8
	maxSharedKey  = 32 // bytes
	stepsPerList  = 16
)

// keySteps are the lists of a service: each by the one that has a key less, and that key. A key that came once has
// none: only what comes again is shared. A table keeps its own list and no other one.
type keySteps map[keyStep]*keyList

type keyStep struct {
	from *keyList // nil for no keys
	key  string
}

// after returns the list that has a key more, nil if there is none.
func (m *meter) after(from *keyList, key string) *keyList {
	next, again := m.lists[keyStep{from, key}]
	if next == nil {
		next = m.newList(from, key, again)
	}
	return next
}

// afterBytes is after for a key that is not a string yet.
func (m *meter) afterBytes(from *keyList, key []byte) *keyList {
	next, again := m.lists[keyStep{from, string(key)}]
	if next == nil {
		next = m.newList(from, string(key), again)
	}
	return next
}

// newList makes the list that has a key more, if the key came there before and is not in the list already.
func (m *meter) newList(from *keyList, key string, again bool) *keyList {
	var before []glua.LValue
	if from != nil {
		if from.find(key) != nil {
			return nil
		}
		before = from.keys
	}
	n := len(before) + 1
	if n > maxSharedKeys || len(key) > maxSharedKey {
		return nil
	}
	if m.lists == nil || len(m.lists) >= maxKeySteps {
		m.lists = make(keySteps)
	}
	m.steps -= stepsPerList
	step := keyStep{from, key}
	if !again {
		m.lists[step] = nil
		return nil
	}
	next := &keyList{make([]glua.LValue, n, n+1), make(map[glua.LValue]int, n)}
	copy(next.keys, before)
	next.keys[n-1] = glua.LString(key)
	next.keys[:n+1][n] = next
	for i, k := range next.keys {
		next.places[k] = i
	}
	m.lists[step] = next
	return next
}

// find returns a key of the list, nil if it is not there.
func (k *keyList) find(key string) glua.LValue {
	for _, name := range slices.Backward(k.keys) { // what is looked for was often added last
		if string(name.(glua.LString)) == key {
			return name
		}
	}
	return nil
}

// shared returns the list that a table shares, nil if it has its own.
func (t *tableLayout) shared() *keyList {
	n := len(t.keys)
	if cap(t.keys) != n+1 {
		return nil
	}
	list, _ := t.keys[:n+1][n].(*keyList)
	return list
}

func (t *tableLayout) share(list *keyList) { t.keys, t.k2i = list.keys, list.places }

// unshare gives a table a list and a map of its own.
func (t *tableLayout) unshare() {
	shared := t.keys
	t.keys = append(make([]glua.LValue, 0, len(shared)+4), shared...)
	t.k2i = make(map[glua.LValue]int, len(shared)+1)
	for i, k := range shared {
		t.k2i[k] = i
	}
}
