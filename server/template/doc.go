// Package template gives topics that no other convention knows a meaning for entities. A [Template]
// says which topics it takes, which entity they are about, what of a payload becomes readings or
// reported attributes, and how commands are sent. It is data, kept in the store by a [Book] and
// applied to the next message. Expressions and paths are those of docs/language.md, evaluated on
// the payload.
package template
