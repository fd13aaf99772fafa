// Package mapping computes values of entities from values of other entities.
//
//	s, err := mapping.Parse(`insert into floor select sum(m.power) as power from like 'meter-1-%' as m`)
//	...
//	service, err := mapping.Open(ctx, runtime, mapping.Config{})
//	...
//	_, err = service.Put(ctx, "floor-power", s, "")
//
// A [Statement] says what is computed from what; docs/mappings.md is its manual,
// with the grammar. An [Engine] computes: a deterministic state machine without
// goroutines and clock. A [Service] runs one on an entity runtime.
//
// # What it promises
//
//   - What is computed is a function of what was measured. A field over single
//     entities has at each time the value of its sources at that time, whether
//     the readings came in order, late, or were computed again: live and
//     recomputed values are the same to the last bit.
//   - A field over a group is computed from the latest values of the members,
//     in O(1) a change for sums, means and counts and O(log n) for the least and
//     the greatest, once for many changes. Sums are exact: rounded once, free of
//     drift, and the same in whatever order the values came.
//   - No value is computed from itself: a statement that would close a cycle is
//     refused with the cycle, and a relation that closes one suspends it.
//   - An expression ends after as many steps as it has parts, and makes nothing
//     larger than a value may be.
//   - Over a crash nothing is lost, and no reading that a change has led to is
//     applied twice: it carries the mapping, its version and the number of the
//     change, by which the runtime knows it; and what is computed again after a
//     crash is compared with what is there.
//
// # What it does not promise
//
// A computed value is committed after its sources, by itself: for a moment a
// reader may see the one without the other. A value that was written stays when
// its mapping goes, and when its sources lose theirs.
package mapping
