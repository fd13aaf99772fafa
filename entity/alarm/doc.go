// Package alarm raises alarms: a [Rule] says, in the language of filters, when an alarm is raised
// and when it clears. A [Service] follows the committed changes of an entity runtime and keeps the
// alarms in its store.
//
// # What it promises
//
//   - Alarms are a function of what was measured, by the time of the readings, and of what
//     operators did: late readings lead to the alarms that arrival in order would have led to. This
//     holds for readings that are not older than the rule's conditions or than MaxLateness. Older
//     readings count only if they are newer than all others of the entity that the rule reads.
//     Attributes have no history: conditions see them as they are now.
//   - A rule has at most one open alarm per entity, even after a crash. The results of a change,
//     and the place up to which changes were processed, become durable in one commit: nothing is
//     missed and nothing happens twice.
//   - A reading whose time is more than MaxAhead in the future is judged once that time has
//     come, and ignored until then, even across a restart.
//   - A condition that must hold for some time is met when that time has passed, by later
//     readings or by the server's clock, whichever is first.
//
// # What it does not promise
//
// An alarm is committed after the reading that raises it, in a commit of its own. An alarm that,
// according to a late reading, should not have been raised is withdrawn: everybody who was notified
// of it is notified of that as well. If more than MaxActive conditions are met at the same time,
// not all are followed; see there.
//
// The alarms of a device whose clock is ahead by more than MaxAhead come as late as its clock is
// ahead. For a device whose clock is further behind than MaxLateness, readings that are already
// committed when the service first examines the entity count by the last of them. If the log no
// longer has some changes that were not processed, the readings since the last processed one are
// evaluated for all entities, but not earlier readings that came late. If a change of the types
// means that a rule no longer applies to an entity, the alarms clear when the entities have been
// examined again. A stored alarm or rule that cannot be read is logged and skipped. If the log no
// longer has the change that deleted an entity, and an entity with its id exists again, the new
// entity has the alarms of the old one.
package alarm
