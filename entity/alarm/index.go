package alarm

import (
	"maps"
	"slices"
)

// index finds the rules that a reading is for without a look at all others: by the keys
// that they read, and of those by the entities that they concern. Each rule in force has a
// bit; who knows an entity by the bits of before has to ask concern again.
type index struct {
	rules  []*rule   // by name; bit is the place
	bySlot [][]*rule // those that read a key, in the same order
}

// indexOf makes the index of rules.
func indexOf(rules map[string]*rule) index {
	var x index
	for _, name := range slices.Sorted(maps.Keys(rules)) {
		r := rules[name]
		if !r.ready || r.removed {
			continue
		}
		r.bit = len(x.rules)
		x.rules = append(x.rules, r)
		for _, slot := range r.keys {
			for len(x.bySlot) <= slot {
				x.bySlot = append(x.bySlot, nil)
			}
			x.bySlot[slot] = append(x.bySlot[slot], r)
		}
	}
	return x
}

// concern sets the rules that concern an entity.
func (x *index) concern(s *subject, concerned func(*frame, *rule) bool) {
	s.rules, s.ruled = nil, nil
	for _, r := range x.rules {
		if !concerned(&s.frame, r) {
			continue
		}
		s.rules = append(s.rules, r)
		for len(s.ruled) <= r.bit/64 {
			s.ruled = append(s.ruled, 0)
		}
		s.ruled[r.bit/64] |= 1 << (r.bit % 64)
	}
}

// readers returns the rules that concern an entity and read one of some keys, by name. Nobody
// changes the slice.
func (x *index) readers(s *subject, slots []int) []*rule {
	list, is := s.rules, func(r *rule) bool { return r.reads(slots) }
	if len(slots) == 1 && slots[0] < len(x.bySlot) && len(x.bySlot[slots[0]]) <= len(list) {
		list, is = x.bySlot[slots[0]], s.concerns
	}
	other := slices.IndexFunc(list, func(r *rule) bool { return !is(r) })
	if other < 0 {
		return list
	}
	found := slices.Clone(list[:other])
	for _, r := range list[other+1:] {
		if is(r) {
			found = append(found, r)
		}
	}
	return found
}
