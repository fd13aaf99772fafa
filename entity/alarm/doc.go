// Package alarm raises alarms: a [Rule] says in the language of filters when one is to be
// raised and when it clears, and a [Service] follows the committed changes of an entity
// runtime and keeps the alarms in its store.
//
// # What it promises
//
//   - What alarms there are is a function of what was measured, by the time of the
//     readings, and of what operators did: late readings lead to the alarms that arrival in
//     order would have led to. It holds for readings that are not older than the rule's
//     conditions and than MaxLateness; older ones count where they are newer than all
//     others of the entity that the rule reads, and not where they are late. Attributes have
//     no history: conditions see them as they are now.
//   - There is one open alarm of a rule and an entity at most, also after a crash. What
//     comes of a change, and the place up to which changes are done with, become durable in
//     one commit: nothing is missed and nothing happens twice.
//   - A reading of a time that is still to come, by more than MaxAhead, is judged once that
//     time has come, and until then as if it had not been made, also over a restart.
//   - A condition that must hold for some time is met when that time has passed, by later
//     readings or by the server's clock, whichever is first.
//
// # What it does not promise
//
// An alarm is committed after the reading that raises it, in a commit of its own. One that
// was raised, and by a late reading should not have been, is withdrawn: whoever was told has
// been told, and is told that as well. More than MaxActive conditions that are met at the
// same time are not all followed, see there.
//
// The alarms of a device whose clock is ahead by more than MaxAhead come as late as its clock
// is ahead. Of a device whose clock is further behind than MaxLateness, readings that the
// service finds committed already when it first looks at the entity count by the last of
// them. Where the log no longer has changes that were not gone through, readings since the
// last one that was are gone through, of all entities; what came late before that is not.
// Where a change of the types ends that a rule concerns an entity, alarms clear when the
// entities have been gone through. An alarm or a rule of which what is stored cannot be read
// is logged and passed over. Where the log no longer has the change that deleted an entity,
// and there is one of its id again, that one has its alarms.
package alarm
