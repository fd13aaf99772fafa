package entity

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// state is what an entity is, in slots: one for each key, ordered by the key's
// number, found by binary search. It is owned by the entity's actor.
type state struct {
	slots   []slot
	seq     uint64 // of the last reading
	created int64  // milliseconds since the epoch, 0 before the first reading
}

// slot is the latest value of a key: 48 bytes beside a text.
type slot struct {
	ts   int64
	seq  uint64
	bits uint64
	text string
	key  uint32
	kind Kind
}

// newer is the rule for what is the latest: by event time, and by sequence where
// that is the same. Of two with both the same the one that comes later wins.
func newer(ts int64, seq uint64, thanTS int64, thanSeq uint64) bool {
	return ts > thanTS || ts == thanTS && seq >= thanSeq
}

// find returns where the key is or belongs, and whether it is there.
func (s *state) find(key uint32) (int, bool) {
	return slices.BinarySearchFunc(s.slots, key, func(sl slot, key uint32) int { return cmp.Compare(sl.key, key) })
}

// set offers a value to the slot of a key. It reports whether the value is the
// latest now; a late one changes nothing.
func (s *state) set(key uint32, ts int64, seq uint64, v Value) bool {
	i, ok := s.find(key)
	switch {
	case !ok:
		s.slots = slices.Insert(s.slots, i, slot{key: key})
	case !newer(ts, seq, s.slots[i].ts, s.slots[i].seq):
		return false
	}
	sl := &s.slots[i]
	sl.ts, sl.seq, sl.bits, sl.kind = ts, seq, v.bits, v.kind
	if v.text != sl.text {
		sl.text = strings.Clone(v.text) // it may be part of a payload
	}
	return true
}

// apply takes readings in, one sequence for each, and returns which of their
// samples came late: nil for none, otherwise one claim for each sample of all
// readings. It takes all of them or, with ErrTooManyKeys, none.
func (s *state) apply(readings []Reading, keys *keyTable) (late []bool, err error) {
	samples := 0
	for i := range readings {
		samples += len(readings[i].Values)
	}
	if len(s.slots)+samples > MaxEntityKeys || keys.len()+samples > MaxKeys {
		if err := s.checkRoom(readings, keys); err != nil {
			return nil, err
		}
	}
	if s.slots == nil { // most entities have all their keys in each reading
		s.slots = make([]slot, 0, len(readings[0].Values))
	}
	n := 0
	for i := range readings {
		r := &readings[i]
		s.seq++
		for j := range r.Values {
			key, ok := keys.id(r.Values[j].Key)
			if !ok {
				panic("entity: the table of keys filled up in the middle of a reading") // the actor restarts from the store
			}
			if !s.set(key, r.TS, s.seq, r.Values[j].Value) {
				if late == nil {
					late = make([]bool, samples)
				}
				late[n] = true
			}
			n++
		}
	}
	return late, nil
}

// checkRoom counts exactly which keys the readings would add. It is the slow
// way, taken near the limits only.
func (s *state) checkRoom(readings []Reading, keys *keyTable) error {
	fresh := make(map[string]bool) // key → new in the table as well
	unknown := 0
	for i := range readings {
		for _, sample := range readings[i].Values {
			if _, ok := fresh[sample.Key]; ok {
				continue
			}
			id, known := keys.find(sample.Key)
			if known {
				if _, ok := s.find(id); ok {
					continue
				}
			} else {
				unknown++
			}
			fresh[sample.Key] = !known
		}
	}
	if n := len(s.slots) + len(fresh); n > MaxEntityKeys {
		return fmt.Errorf("%w: the entity would have %d; at most %d are allowed", ErrTooManyKeys, n, MaxEntityKeys)
	}
	if n := keys.len() + unknown; n > MaxKeys {
		return fmt.Errorf("%w: all entities together would have %d different ones; at most %d are allowed", ErrTooManyKeys, n, MaxKeys)
	}
	return nil
}

// load fills the state with what the store has.
func (s *state) load(e *Stored, keys *keyTable) error {
	*s = state{slots: make([]slot, 0, len(e.Latest)), seq: e.Seq, created: e.Created}
	for i := range e.Latest {
		l := &e.Latest[i]
		key, ok := keys.id(l.Key)
		if !ok {
			return ErrTooManyKeys
		}
		s.set(key, l.TS, l.Seq, l.Value)
	}
	return nil
}

// snapshot returns the state for a reader, latest values ordered by key.
func (s *state) snapshot(id string, keys *keyTable) Snapshot {
	snap := Snapshot{ID: id, Created: s.created, Latest: make([]Latest, len(s.slots))}
	for i := range s.slots {
		sl := &s.slots[i]
		snap.Updated = max(snap.Updated, sl.ts)
		snap.Latest[i] = Latest{Key: keys.name(sl.key), TS: sl.ts, Seq: sl.seq, Value: Value{kind: sl.kind, bits: sl.bits, text: sl.text}}
	}
	slices.SortFunc(snap.Latest, func(a, b Latest) int { return strings.Compare(a.Key, b.Key) })
	return snap
}
