package mapping

import (
	"maps"
	"math/bits"
	"slices"
)

// inherit makes a mapping recompute what its earlier versions have left in the backlog: a late
// reading that came before a statement was replaced affects the values that the new statement has
// in common with the old one. former is the version that m replaces, or nil if unknown; then all
// values of m are recomputed at those times.
func (b *backlog) inherit(m, former *mapping) {
	for _, r := range b.takeEarlier(m) {
		var known []*field
		if former != nil && former.Version == r.Version {
			known = former.fields
		}
		for _, f := range m.fields {
			switch {
			case known == nil && !r.missed: // at a start all that was missed is to be computed anyway
				b.hand(r, f, f)
			case r.Field < len(known) && known[r.Field].target() == f.target():
				b.hand(r, f, known[r.Field])
			}
		}
	}
}

// inheritAll does so for all mappings that were in force before.
func (b *backlog) inheritAll(mappings map[string]*mapping) {
	heirs := make(map[string]*mapping)
	for _, r := range b.rests {
		if m := mappings[r.Mapping]; m != nil && m.Version != r.Version {
			heirs[r.Mapping] = m
		}
	}
	for _, name := range slices.Sorted(maps.Keys(heirs)) {
		b.inherit(heirs[name], nil)
	}
}

// takeEarlier takes out what the earlier versions of a mapping have left.
func (b *backlog) takeEarlier(m *mapping) (earlier []*rest) {
	b.rests = slices.DeleteFunc(b.rests, func(r *rest) bool {
		if r.Mapping != m.Name || r.Version == m.Version {
			return false
		}
		earlier = append(earlier, r)
		b.all -= len(r.stretches)
		if !r.missed {
			delete(b.byKey, r.restKey)
		}
		return true
	})
	return earlier
}

// hand passes the rest of one field to another.
func (b *backlog) hand(left *rest, to, from *field) {
	key := restKey{to.m.Name, to.m.Version, to.index, left.Replayed}
	switch {
	case left.missed:
		b.rests = append(b.rests, &rest{restKey: key, missed: true, at: left.at, number: left.number, depth: left.depth})
		return
	case to.fanIn: // it has no past
		return
	}
	if left.at.from < left.at.to && to.alike(from, from.allSources()) != 0 {
		b.add(b.of(key), stretch{From: left.at.from, Last: left.at.to - 1, Depth: left.depth, number: left.number})
	}
	for _, s := range left.stretches {
		if s.Sources == 0 { // of whichever; it ends where it ends
			b.add(b.of(key), s)
			continue
		}
		if to == from {
			s.Sources = from.allSources()
		}
		if s.Sources = to.alike(from, s.Sources); s.Sources != 0 {
			b.add(b.of(key), s)
		}
	}
}

// allSources has a bit for each source of a field.
func (f *field) allSources() uint64 { return 1<<len(f.spec.Sources) - 1 }

// alike returns which sources of a field have the readings of the given ones of another field.
func (f *field) alike(other *field, given uint64) (sources uint64) {
	for i := range f.spec.Sources {
		src := &f.spec.Sources[i]
		for left := given; left != 0 && !src.timeless(); left &= left - 1 {
			o := &other.spec.Sources[bits.TrailingZeros64(left)]
			if o.Group == src.Group && o.Entity == src.Entity && o.Section == src.Section && o.Key == src.Key {
				sources |= 1 << i
			}
		}
	}
	return sources
}
