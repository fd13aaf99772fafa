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
//   - Computed values are a function of what was measured. A field over single entities has at each
//     time the value computed from its sources at that time, whether the readings came in order or
//     late, or the values were recomputed: live and recomputed values are identical bit for bit.
//   - A field over a group is computed from the latest values of the members, in O(1) per change
//     for sums, means and counts and O(log n) for minima and maxima, once for many changes. Sums
//     are exact: rounded once, free of drift, and independent of the order of the values.
//   - No value is computed from itself: a statement that would close a cycle is refused with an
//     error that names the cycle, and a relation that closes a cycle suspends the fields on it.
//   - Evaluating an expression takes as many steps as it has parts, and makes nothing larger than a
//     value may be.
//   - A crash loses nothing, and no computed reading is applied twice: it carries the mapping, its
//     version and the number of the change, by which the runtime recognizes it; and what is
//     recomputed after a crash is compared with what is stored.
//
// # What it does not promise
//
// A computed value is committed after its sources, in a commit of its own: for a moment a reader
// may see the sources without it. A value that was written stays when its mapping is deleted, and
// when its sources lose their values.
package mapping
