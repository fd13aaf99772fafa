// Package filter is the one language in which search, streams and bulk updates
// say which entities they mean:
//
//	type is "meter" and power > 5 and age(power) < 5m
//	    and related contains from (id = "floor-3" or attributes.level between 1 and 4)
//
// [Parse] checks a text and compiles it. [Filter.Match] then looks at an entity
// through a [View], which anything can implement: this package knows nothing of
// how entities are stored. Package entityview has the View of an entity.
// [Filter.Plan] says which entities an index must look at, [Complete] what may be
// typed next.
//
// docs/language.md has the grammar. [Expression] is a computation in the same
// language, and [Reader] reads a text that has expressions in it, such as a
// statement of package mapping.
//
// # What is looked at
//
//   - id, type: strings. An entity without a type has none.
//   - created, updated: instants.
//   - a key, such as temperature: its latest value.
//   - presence.online and presence.connected, true or false, and presence.since and
//     presence.seen, instants: what is known of the entity's device. A key that is
//     called presence alone is a key.
//   - attributes.a.b, desired.a.b, reported.a.b: a leaf of these documents, and
//     delta.a.b: a leaf of desired that differs from the one of reported. The
//     document or an inner object as a whole can be tested with exists.
//   - ts(path): when the latest value was measured, or the leaf set, as an
//     instant. age(path): how long ago that is, as a duration; also of created
//     and updated.
//   - relation.a, inside of related: a property of the relation that led there.
//
// # What is true
//
// Each condition is true or false; there is no third answer. A condition about
// something that is not there, or whose computation fails, is false, also with !=, "not in" and the other
// operators that have a not inside. A not in front turns any answer round:
//
//	status != "ok"       there is a status, and it is another
//	not status = "ok"    it is another, or there is none
//
// Numbers are compared by what they are worth: 21 equals 21.0, and an int64 is
// compared with a float64 exactly. Strings are ordered by their code points.
// Bools, arrays and objects equal or differ, and are in no order. Values of
// different kinds differ and are in no order, so that a string is never greater
// than 5. Where the kinds are known beforehand such a comparison is refused.
//
// An instant can be compared with a number, its milliseconds since 1970, and
// with a string that is a date or an RFC 3339 time: attributes.due < now + 7d. A
// date alone is its midnight in UTC. A duration is compared with an age, and
// with nothing else. A day has 24 hours.
//
// like has % for any characters and _ for one; a backslash before them, which is
// itself written \\ in a string, takes that meaning away. The operators with an i
// pass over case, by Unicode's simple folding. contains is about the text of a
// string, or about the elements of an array: tags contains "roof".
//
// "type is" is true of the type and of those that extend it, "type =" of the type
// alone.
//
// related contains to "m-7" is true of an entity that has a relation of the type
// contains to m-7; from is the other direction, any any type or any entity, and
// the condition in parentheses is about the entity at the other end.
//
// # Cost
//
// A match allocates nothing, and looks at what costs little first. What can be
// worked out beforehand is. The size of a filter is bounded by the constants of
// this package, and the number of related entities that are looked at by the
// [Env].
package filter
