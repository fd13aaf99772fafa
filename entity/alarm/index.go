package alarm

import (
	"maps"
	"math"
	"slices"

	"github.com/greenroom-go/greenroom/entity/value"
)

// index finds the rules for a reading without examining all others: by the keys that they read, and
// then by the entities to which they apply. Each rule in force has a bit; a subject with the bits
// of an earlier index must call concern again.
type index struct {
	rules  []*rule // by name; bit is the place
	bySlot []slotRules
	// live says that there are live rules, and presence and updated whether they use these. Live
	// rules are not in bySlot.
	live, presence, updated bool
}

// slotRules are the rules that read a key, in the order of their names.
type slotRules struct {
	all []*rule
	// exact are those of them that do more with its value than compare it with numbers, and bounds
	// are the numbers with which the others compare it, in order.
	exact  []*rule
	bounds []float64
}

// around returns the band in which the answers that depend on a slot are the same as for v.
func (x *index) around(slot int, v value.Value) band {
	if slot >= len(x.bySlot) { // nobody reads it any more
		return band{}
	}
	b := band{known: true, above: math.Inf(-1), below: math.Inf(1)}
	n, ok := v.Number()
	if !ok {
		return b
	}
	bounds := x.bySlot[slot].bounds
	i, at := slices.BinarySearch(bounds, n)
	if i > 0 {
		b.above = bounds[i-1]
	}
	if at { // none but itself
		b.above = n
	}
	if i < len(bounds) {
		b.below = bounds[i]
	}
	return b
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
		if r.live {
			x.live, x.presence, x.updated = true, x.presence || r.presence, x.updated || r.updated != 0
			continue
		}
		for i, slot := range r.keys {
			for len(x.bySlot) <= slot {
				x.bySlot = append(x.bySlot, slotRules{})
			}
			at := &x.bySlot[slot]
			at.all, at.bounds = append(at.all, r), append(at.bounds, r.numbers[i]...)
			if slices.Contains(r.exact, slot) {
				at.exact = append(at.exact, r)
			}
		}
	}
	for i := range x.bySlot {
		slices.Sort(x.bySlot[i].bounds)
		x.bySlot[i].bounds = slices.Compact(x.bySlot[i].bounds)
	}
	return x
}

// concern sets the rules that apply to an entity.
func (x *index) concern(s *subject, concerned func(*frame, *rule) bool) {
	s.rules, s.live, s.ruleBits = nil, nil, nil
	for _, r := range x.rules {
		if !concerned(&s.frame, r) {
			continue
		}
		if r.live {
			s.live = append(s.live, r)
		} else {
			s.rules = append(s.rules, r)
		}
		for len(s.ruleBits) <= r.bit/64 {
			s.ruleBits = append(s.ruleBits, 0)
		}
		s.ruleBits[r.bit/64] |= 1 << (r.bit % 64)
	}
}

// readers returns the rules that apply to an entity and read one of the slots, by name. The slice
// must not be changed.
func (x *index) readers(s *subject, slots []int) []*rule {
	list, is := s.rules, func(r *rule) bool { return r.reads(slots) }
	if len(slots) == 1 && slots[0] < len(x.bySlot) && len(x.bySlot[slots[0]].all) <= len(list) {
		list, is = x.bySlot[slots[0]].all, s.concerns
	}
	return choose(list, is)
}

// exactly returns those of the readers that do more with such a value than compare it with numbers.
// The slice must not be changed.
func (x *index) exactly(s *subject, slots []int) []*rule {
	if len(slots) == 1 && slots[0] < len(x.bySlot) {
		return choose(x.bySlot[slots[0]].exact, s.concerns)
	}
	return choose(s.rules, func(r *rule) bool {
		return slices.ContainsFunc(r.exact, func(slot int) bool { return slices.Contains(slots, slot) })
	})
}

// choose returns the rules for which is returns true: the list itself if all are, and nothing,
// without allocating, if none is.
func choose(list []*rule, is func(*rule) bool) []*rule {
	other := slices.IndexFunc(list, func(r *rule) bool { return !is(r) })
	if other < 0 {
		return list
	}
	found := append([]*rule(nil), list[:other]...)
	for _, r := range list[other+1:] {
		if is(r) {
			found = append(found, r)
		}
	}
	return found
}
