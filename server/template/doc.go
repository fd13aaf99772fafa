// Package template maps the topics and payloads of devices that follow no other supported
// convention to entities. A [Template] says which topics it covers, which entity they are about,
// which parts of a payload become readings or reported attributes, and how commands are sent.
// Templates are data: a [Book] keeps them in the store, and a change applies from the next message
// on. Expressions and paths are those of docs/language.md, evaluated on the payload.
package template
