// Package entity is the entity runtime: live state, history and streams of
// things that report readings, in one process on one machine.
//
//	store, err := sqlite.Open(ctx, "data", sqlite.Options{})
//	...
//	r, err := entity.Open(ctx, sys, store, entity.Config{})
//	...
//	readings, err := entity.ParseReadings([]byte(`{"temperature":21.5}`), time.Now())
//	...
//	err = r.Write(ctx, "room-12", readings, 0) // nil: it is on the disk
//	room, err := r.Entity(ctx, "room-12")
//
// # What an entity is
//
// An entity has an id and optionally a type (package model). It has telemetry: keys with their
// latest values and their histories. It has attributes in three sections: what the server holds,
// what the device should be and what it says it is. Each is a JSON document that is kept leaf by
// leaf, with the time of each leaf. It has relations to other entities. Edit changes everything but
// the telemetry, atomically and, with an ETag, on the condition that nobody else has changed it. In
// addition to entities there are documents: types and others that do not belong to one entity.
//
// # The path of a reading
//
// An entity is an actor. Ingest, the dispatcher, waits for room in the window, finds the entity's
// actor (the Entity Manager starts it if necessary) and tells it. The actor checks the reading
// against the type, decides what is latest and gives the reading its sequence. The committer
// gathers what the actors have accepted: every value for the history, a change buffer with the
// newest value of each key for the latest values, and the edits in order. It writes all of them in
// one transaction with one fsync. Only then, and in this order, are the changes published to
// subscriptions, the sources' done functions called, and the bytes returned to the window. An edit
// takes the same path.
//
// # The path of a command
//
// A command to a device is queued in its entity, and each of its steps is a change, as an edit is,
// with the same commit and log. Once the command is durable it is given to a receiver, a way to the
// device, and to further receivers until the device has acknowledged it. The commander keeps the
// first deadline of each entity with open commands, cold ones included.
//
// # Hot, detached, cold
//
// An entity that has been idle for long, or for longer than others when memory is short, loses its
// actor and is only in the store until it is needed again. An entity that is only registered costs
// no memory; one with relations costs its place in the graph, which is in memory as a whole.
//
// # What it promises
//
//   - An accepted command is never lost, and is not sent again once the device's acknowledgement is
//     durable; before that it may be sent again, with the same ID.
//   - Nothing is acknowledged before it is durable. A crash loses no reading that was acknowledged,
//     and a reading that is sent again replaces itself.
//   - The readings of one Ingest are all kept, or none is.
//   - An edit whose condition does not hold changes nothing, and of two edits with
//     the same ETag one is refused.
//   - A computed reading is kept once for the sequence of its source, however often it is ingested.
//   - An entity goes cold only when all of it is committed, and comes back as it was.
//   - Each accepted Ingest is settled exactly once, whatever happens to its actor. A commit that
//     fails is retried; nothing is dropped.
//   - Latest is the newest by (TS, sequence). Late readings go to the history
//     only. For the same entity, key and TS the later one replaces the earlier.
//   - Readings of an entity that one source ingests one after the other keep their order. There is
//     no order between entities.
//   - Memory is bounded: the window in bytes, and everything else by the constants in limits.go. A
//     slow reader of changes gets an error, and resumes from its cursor.
//
// The state of an actor may be ahead of the store, but only by readings that have not been
// acknowledged: Entity may show a reading a few milliseconds before it is durable. History,
// CountNumbers, Entities, Scan, Relations, Traverse and Changes show what is committed, which
// includes everything acknowledged. An actor that fails is restarted from the store, once
// everything that it had passed to the committer is there.
//
// The sequence of an entity increases by one for each reading. After a restart the sequence of a
// late reading that nothing remembers may be used again. It is never lower than the sequence of any
// latest value, which is all that the rule for the latest value needs.
//
// # Not here
//
// Readings are for measurements by machines. Data that must be ordered or atomic across entities
// needs a database of its own.
package entity
