// Package filter is the language in which search, streams and bulk updates select entities:
//
//	type is "meter" and power > 5 and age(power) < 5m
//	    and related contains from (id = "floor-3" or attributes.level between 1 and 4)
//
// [Parse] checks a text and compiles it. [Filter.Match] then evaluates it on an entity through a
// [View], which anything can implement: this package does not know how entities are stored. Package
// entityview has the View of an entity. [Filter.Plan] says which entities an index must examine,
// and [Complete] what may be typed next.
//
// docs/language.md has the grammar. [Expression] is a computation in the same language, and
// [Reader] reads a text that contains expressions, such as a statement of package mapping.
//
// # What a filter can use
//
//   - id, type: strings. An entity without a type has none.
//   - created, updated: instants.
//   - a key, such as temperature: its latest value.
//   - presence.online and presence.connected, true or false, and presence.since and
//     presence.seen, instants: what is known about the device. A key named just
//     presence is an ordinary key.
//   - attributes.a.b, desired.a.b, reported.a.b: a leaf of these documents, and
//     delta.a.b: a leaf of desired that differs from the one of reported. The
//     document or an inner object as a whole can be tested with exists.
//   - ts(path): when the latest value was measured, or the leaf set, as an
//     instant. age(path): how long ago that is, as a duration; also of created
//     and updated.
//   - relation.a, inside of related: a property of the relation that leads there.
//
// # What is true
//
// Each condition is true or false; there is no third result. A condition about a missing value, or
// whose computation fails, is false, even with !=, "not in" and the other operators that contain a
// not. A not in front inverts any result:
//
//	status != "ok"       there is a status, and it is another
//	not status = "ok"    it is another, or there is none
//
// Numbers are compared by value: 21 equals 21.0, and an int64 is compared with a float64 exactly.
// Strings are ordered by their code points. Bools, arrays and objects are equal or different, and
// have no order. Values of different kinds are different and have no order, so a string is never
// greater than 5. If the kinds are known beforehand, such a comparison is refused.
//
// An instant can be compared with a number, its milliseconds since 1970, and with a string that is
// a date or an RFC 3339 time: attributes.due < now + 7d. A date alone means its midnight in UTC. A
// duration can be compared only with an age. A day has 24 hours.
//
// In like, % stands for any characters and _ for one; a backslash, which is itself written \\ in a
// string, escapes them. The operators with an i ignore case, by Unicode's simple folding. contains
// tests the text of a string, or the elements of an array: tags contains "roof".
//
// "type is" is true for the type and for those that extend it, "type =" for the type alone.
//
// related contains to "m-7" is true for an entity that has a relation of the type contains to m-7.
// from is the other direction, any stands for any type or any entity, and a condition in
// parentheses is about the entity at the other end.
//
// # Cost
//
// A match allocates nothing, and evaluates what costs little first. Whatever can be computed
// beforehand is. The constants of this package bound the size of a filter, and the [Env] bounds how
// many related entities are examined.
package filter
