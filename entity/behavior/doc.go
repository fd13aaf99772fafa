// Package behavior runs functions of a program for changes of entities. A [Spec] selects entities
// and changes of them, and names the [Handler]; a [Service] follows the committed changes of an
// entity runtime and calls the handler. Use it to give a type of entity callbacks or a state
// machine.
//
// # What it promises
//
//   - A handler is called after the commit: no reading waits for it.
//   - The changes of one entity are handled in the order of their commits, one after the
//     other. Different entities are handled concurrently, by a fixed number of runners.
//   - What a handler decides about a change - the entity's state of the behavior, readings,
//     attributes and commands - is made durable in one commit, together with the place up to which
//     changes were handled, and is carried out after that. Even after a crash no change is left
//     out, no change is decided twice, and each effect happens once: readings and edits carry an
//     [entity.Origin] with the number of the change, commands an idempotency key derived from it.
//   - A decision for an entity that has been deleted since is dropped: its readings and edits never
//     reach a later entity with the same id. A state ends with its entity.
//   - A handler that fails or panics has no effect, nor has a change with more than [MaxDepth]
//     behaviors behind it. The failure is counted and kept for inspection; after [MaxInRow]
//     failures in a row the behavior is switched off.
//
// # What it does not promise
//
// Entity.Latest is at least as new as the change being handled, and may be newer: what is known
// about an entity is loaded when it is first needed. Late readings are handled in the order of
// their commits and are marked, see Event.Late; nothing is handled again because of them.
//
// A behavior that is new or was switched on begins with the changes committed from then on. If the
// log no longer has changes that were not handled yet, they are skipped, counted and logged, and
// the entities are read again. A command goes to whichever entity has the id when it is sent. A
// cycle of behaviors ends after MaxDepth of them, even if it leads through mappings.
package behavior
