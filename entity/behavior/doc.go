// Package behavior runs functions of a program for changes of entities. A [Spec] says for which
// entities, for which of their changes, and with which [Handler]; a [Service] follows the committed
// changes of an entity runtime and calls the handler. This is how a type of entity gets callbacks,
// or a state machine.
//
// # What it promises
//
//   - A handler is called after the commit: no reading waits for it.
//   - The changes of one entity are handled in the order of their commits, one after the
//     other. Different entities are handled concurrently, by a fixed number of runners.
//   - What a handler decides about a change - the entity's state of the behavior, readings,
//     attributes and commands - is made durable in one commit, together with the place up
//     to which changes are done with, and is carried out after that. Over a crash no change
//     is left out, none is decided about twice, and each effect happens once: readings and
//     edits carry an [entity.Origin] with the number of the change, commands an idempotency
//     key made of it.
//   - What is decided for an entity that has been deleted since is dropped: its readings and
//     edits come to no other entity of its id. A state ends with its entity.
//   - A handler that fails or panics has no effect, and neither has a change with more than
//     [MaxDepth] behaviors behind it. It is counted and kept to be looked at; after
//     [MaxInRow] failures in a row the behavior is switched off.
//
// # What it does not promise
//
// Entity.Latest is at least as new as the change being handled, and may be newer: what is known
// about an entity is loaded when it is first needed. Late readings are handled in the order of
// their commits and are marked, see Event.Late; nothing is handled again because of them.
//
// A behavior that is switched on, or is new, begins with what is committed from then on. If the log
// no longer has the changes that were not handled yet, they are skipped, counted and logged, and
// what is known of entities is read again. A command goes to whichever entity has the id when it is
// sent. A circle of behaviors ends after MaxDepth of them, also where it leads through mappings.
package behavior
