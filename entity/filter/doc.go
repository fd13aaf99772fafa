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
// # Grammar
//
// In EBNF as the Go specification has it. White space may be between any two
// tokens, and is needed only where they would run together.
//
//	filter    = [ or ] .                                     (* none: every entity *)
//	or        = and { "or" and } .
//	and       = unary { "and" unary } .
//	unary     = "not" unary | "(" or ")" | condition .
//	condition = "true" | "false" | "exists" ( path | "(" path ")" ) | related
//	          | operand comparison operand
//	          | operand [ "not" ] "in" "(" literal { "," literal } ")"
//	          | operand [ "not" ] "between" operand "and" operand
//	          | operand [ "not" ] text literal
//	          | "type" "is" [ "not" ] string .
//	comparison = "=" | "!=" | "<" | "<=" | ">" | ">=" .
//	text      = "like" | "prefix" | "suffix" | "contains"
//	          | "ilike" | "iprefix" | "isuffix" | "icontains" .
//	related   = "related" ( name | "any" ) ( "to" | "from" ) ( string | "any" | "(" or ")" ) .
//	operand   = literal | path | "ts" "(" path ")" | "age" "(" path ")"
//	          | "now" [ ( "+" | "-" ) duration ] .
//	path      = "id" | "type" | "created" | "updated" | key
//	          | ( "attributes" | "desired" | "reported" | "delta" | "relation" ) { "." name } .
//	key       = name { "." name } .
//	name      = letter { letter | digit | "-" } | "`" { character | "``" } "`" .
//	literal   = "true" | "false" | integer | float | string | time | duration .
//	integer   = [ "-" ] digit { digit } .                    (* an int64 *)
//	float     = [ "-" ] digit { digit } [ "." digit { digit } ] [ ( "e" | "E" ) [ "+" | "-" ] digit { digit } ] .
//	string    = '"' { character | escape } '"' | "'" { character | escape } "'" .
//	escape    = "\" ( '"' | "'" | "\" | "/" | "n" | "r" | "t" | "u" hex hex hex hex ) .
//	time      = year "-" month "-" day [ "T" hour ":" minute [ ":" second [ "." digits ] ] zone ] .
//	zone      = "Z" | ( "+" | "-" ) hour ":" minute .
//	duration  = [ "-" ] digits unit { digits unit } .        (* from longer to shorter units *)
//	unit      = "w" | "d" | "h" | "m" | "s" | "ms" .
//
// A letter is one of Unicode or an underscore. There is no space in a path. A
// hyphen in a name is followed by another letter or digit, and "now" is never
// followed by one, so that now-5m means what it seems to.
//
// The words of the grammar are reserved, in any case: AND is and. A key that is
// called like one, or has other characters, is written in backquotes: `type`,
// `CO2 (ppm)`; for a type of relations only any needs them. All else is taken as it is: names, ids and strings differ if their
// case does.
//
// # What is looked at
//
//   - id, type: strings. An entity without a type has none.
//   - created, updated: instants.
//   - a key, such as temperature: its latest value.
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
// something that is not there is false, also with !=, "not in" and the other
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
